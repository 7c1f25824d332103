// Plans, builds and queries filters beside the page.

let Filter, peek, plan;
// A static import would wait for the WebAssembly, and lose the messages that come before.
const ready = import("./tamis/browser.js").then((module) => ({ Filter, peek, plan } = module));
// Calls report a failure; without calls there is nobody to tell.
ready.catch(() => {});

/** The largest file that is read: with its filter it must fit in the 4 GiB of WebAssembly. */
const MAX_FILE = 1 << 30;
const filters = new Map();
let last = 0;

function keep(filter, old) {
    filters.get(old)?.free();
    filters.delete(old);
    last += 1;
    filters.set(last, filter);
    return { id: last, ...facts(filter) };
}

function facts(filter) {
    return {
        kind: filter.kind, keys: filter.length, capacity: filter.capacity, fpr: filter.fpr, bytes: filter.bytes,
        figures: filter.figures, parameters: filter.parameters, hash: filter.hash, keyForms: filter.keyForms,
        capabilities: filter.capabilities, file: filter.serializedLength,
    };
}

async function bytesOf(file) {
    if (file.size > MAX_FILE) {
        throw new Error(`The file has ${file.size} bytes; this page reads at most ${MAX_FILE}. Use the command tamis for larger ones.`);
    }
    return new Uint8Array(await file.arrayBuffer());
}

const functions = {
    plan: (goal) => plan(goal),

    /** Returns the bits per key of kinds at rates; null where a kind cannot reach the rate. */
    curves({ kinds, keys, rates, settings }) {
        return kinds.map((kind) => rates.map((fpr) => {
            try {
                return plan({ kind, keys, fpr, settings: settings[kind] })[0].bitsPerKey;
            } catch {
                return null;
            }
        }));
    },

    async build({ kind, text, file, fpr, old }) {
        const lines = file ? await bytesOf(file) : new TextEncoder().encode(text);
        const start = performance.now();
        const options = { fpr };
        let filter;
        if (kind === "sliding") {
            let count = 1;
            for (const byte of lines) if (byte === 10) count += 1;
            filter = new Filter(kind, { capacity: count, fpr });
            filter.pushBatch({ lines });
        } else {
            filter = Filter.build(kind, { lines }, options);
        }
        return { ...keep(filter, old), milliseconds: performance.now() - start, input: lines.length };
    },

    contains({ id, key, integer }) {
        return filters.get(id).contains(integer ? BigInt(key) : key);
    },

    /** Queries random keys, none of which is a member, and reports how many pass. */
    strangers({ id, count }, onProgress) {
        const filter = filters.get(id);
        const start = performance.now();
        let [asked, passed] = [0, 0];
        while (asked < count) {
            const keys = Array.from({ length: Math.min(20_000, count - asked) }, () => `\u0001${crypto.randomUUID()}`);
            for (const flag of filter.containsBatch(keys)) passed += flag;
            asked += keys.length;
            onProgress({ asked, passed });
        }
        return { asked, passed, milliseconds: performance.now() - start };
    },

    bytes({ id }) {
        return filters.get(id).toBytes();
    },

    async open({ file, old }) {
        const head = new Uint8Array(await file.slice(0, 4096).arrayBuffer());
        const header = peek(head);
        if (header.bytes > file.size) {
            throw new Error(`The file is truncated: it has ${file.size} of the ${header.bytes} bytes that its header states.`);
        }
        return { ...keep(Filter.fromBytes(await bytesOf(file)), old), header };
    },
};

addEventListener("message", async ({ data: { id, name, argument } }) => {
    try {
        await ready;
        const result = await functions[name](argument, (progress) => postMessage({ id, progress }));
        postMessage({ id, result });
    } catch (error) {
        postMessage({ id, error: error instanceof WebAssembly.RuntimeError ? "Memory ran out." : error.message });
    }
});
