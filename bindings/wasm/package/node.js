import { webcrypto } from "node:crypto";
import { readFile } from "node:fs/promises";
import { readFileSync } from "node:fs";
import { Filter, initSync } from "./core.js";

// Node 18 has no global `crypto`, from which seeds come.
globalThis.crypto ??= webcrypto;
initSync({ module: readFileSync(new URL("./core_bg.wasm", import.meta.url)) });

export * from "./errors.js";
export { Filter, importFilter, kinds, peek, plan } from "./core.js";

/** Reads a filter from a file or a Blob, and checks every byte. */
export async function open(source) {
    const bytes = source instanceof Blob ? await source.arrayBuffer() : await readFile(source);
    return Filter.fromBytes(new Uint8Array(bytes));
}
