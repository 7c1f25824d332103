const encoder = new TextEncoder();

/**
 * Returns the strings as UTF-8 with zeros between them, or undefined if a key is not a string. One long string
 * is encoded much faster than many short ones.
 */
export function joinStrings(keys) {
    return keys.every((key) => typeof key === "string") ? encoder.encode(keys.join("\0")) : undefined;
}
