// The worker has the filters that take long to plan, build or query, so that the page stays responsive.

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const waiting = new Map();
let last = 0;

worker.addEventListener("message", ({ data }) => {
    const call = waiting.get(data.id);
    if (!call) return;
    if (data.progress !== undefined) return call.onProgress?.(data.progress);
    waiting.delete(data.id);
    if (data.error === undefined) call.resolve(data.result);
    else call.reject(new Error(data.error));
});
worker.addEventListener("error", (event) => {
    for (const call of waiting.values()) call.reject(new Error(event.message || "The worker failed to start."));
    waiting.clear();
});

/** Calls a function of the worker. */
export function call(name, argument, onProgress) {
    const id = ++last;
    return new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject, onProgress });
        worker.postMessage({ id, name, argument });
    });
}
