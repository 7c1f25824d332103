import { Filter } from "./core.js";

export * from "./errors.js";
export { Filter, importFilter, kinds, peek, plan } from "./core.js";
export type {
    Advice, Capability, Figures, FileInfo, FormatName, Goal, Key, Keys, KindInfo, KindName, Options,
} from "./core.js";

/** Reads a filter and checks every byte: in Node from a path, in browsers from a URL, in both from a Blob. */
export function open(source: string | URL | Blob): Promise<Filter>;
