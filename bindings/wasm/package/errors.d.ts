/** The class of all errors of this package. */
export class TamisError extends Error {}
/** A parameter is out of range, unknown or missing. */
export class InvalidInputError extends TamisError {}
/** The filter is full. */
export class FullError extends TamisError {
    /** The number of keys of a batch that were inserted before. */
    inserted: number;
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
