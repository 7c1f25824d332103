/**
 * Returns the strings with zeros between them, or undefined if a key is not a string. One long string
 * is encoded as UTF-8 much faster than many short ones.
 */
export function joinStrings(keys) {
    return keys.every((key) => typeof key === "string") ? keys.join("\0") : undefined;
}
