import init, { Filter } from "./core.js";

await init({ module_or_path: new URL("./core_bg.wasm", import.meta.url) });

export * from "./errors.js";
export { Filter, importFilter, kinds, peek, plan } from "./core.js";

/** Reads a filter from a URL or a Blob, and checks every byte. */
export async function open(source) {
    if (source instanceof Blob) return Filter.fromBytes(new Uint8Array(await source.arrayBuffer()));
    const response = await fetch(source);
    if (!response.ok) throw new Error(`${response.url}: ${response.status} ${response.statusText}`);
    return Filter.fromBytes(new Uint8Array(await response.arrayBuffer()));
}
