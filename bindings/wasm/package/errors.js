/** The class of all errors of this package. */
export class TamisError extends Error {
    get name() {
        return this.constructor.name;
    }
}
/** A parameter is out of range, unknown or missing. */
export class InvalidInputError extends TamisError {}
/** The filter is full. `inserted` is the number of keys of a batch that were inserted before. */
export class FullError extends TamisError {
    inserted = 0;
}
/** The kind cannot do this. */
export class UnsupportedError extends TamisError {}
/** Two filters, or a filter and a key, do not belong together. */
export class MismatchError extends TamisError {}
/** Two keys contradict each other. */
export class ConflictError extends TamisError {}
/** Memory ran out, or a filter exceeds what WebAssembly can address. */
export class OutOfMemoryError extends TamisError {}
/** The bytes are not a valid `.tamis` file, or not a filter of the format. */
export class CorruptError extends TamisError {}

const CLASSES = {
    TamisError, InvalidInputError, FullError, UnsupportedError, MismatchError, ConflictError, OutOfMemoryError,
    CorruptError,
};

/** Returns an error of the class with this name. */
export function makeError(name, message, inserted) {
    const error = new CLASSES[name](message);
    if (inserted !== undefined) error.inserted = inserted;
    return error;
}
