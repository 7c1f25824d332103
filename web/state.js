// All state of the page is in its address: parameters and the part after #.
//
// n, p, m and k are those of hur.st/bloomfilter: keys, rate, memory (a number without a unit counts bits), and the
// bits per key of a Bloom filter. `needs` lists switches, `r` is the longest range, `kind` is the selected kind.

const NAMES = ["n", "p", "m", "k", "needs", "r", "kind", "lang", "try", "rate", "inside", "open"];
const state = new Map();
const listeners = new Set();
let timer;

export function read() {
    const given = new URLSearchParams(location.search);
    state.clear();
    for (const name of NAMES) {
        const value = given.get(name);
        if (value) state.set(name, value);
    }
}

export function get(name) {
    return state.get(name) ?? "";
}

/** Sets a parameter. The address follows a moment later, because browsers limit how often it may change. */
export function set(name, value) {
    if (value) state.set(name, value);
    else state.delete(name);
    clearTimeout(timer);
    timer = setTimeout(write, 150);
}

function write() {
    const query = new URLSearchParams();
    for (const name of NAMES) if (state.has(name)) query.set(name, state.get(name));
    const text = query.toString();
    history.replaceState(null, "", `${text ? `?${text}` : location.pathname}${location.hash}`);
}

/** Calls `listener` when the user goes back or forth. */
export function onChange(listener) {
    listeners.add(listener);
}

addEventListener("popstate", () => {
    read();
    for (const listener of listeners) listener();
});
