// Try: build a filter from one's own keys, and query it.

import { kinds } from "./tamis/browser.js";
import { $, fillFacts, fillSelect, onFile, showError } from "./dom.js";
import { call } from "./rpc.js";
import * as state from "./state.js";
import { parseRate, showCount, showRate, showSize } from "./units.js";

const EXAMPLE = "apple\npear\nplum\ncherry\nquince\nfig\nmango\nlemon\ngrape\nkiwi";
const STRANGERS = 1_000_000;
/** Above this size a text file is not shown, and its members are not known to the page. */
const SHOWN = 1 << 20;
let file;
let built;
let members;
let asked = 0;

export function start() {
    $("keys").value = EXAMPLE;
    $("keys").addEventListener("input", () => (file = undefined));
    onFile("key-drop", "key-file", takeFile);
    $("build").addEventListener("submit", (event) => {
        event.preventDefault();
        build();
    });
    $("try-kind").addEventListener("change", () => state.set("try", $("try-kind").value));
    $("try-p").addEventListener("input", () => state.set("rate", $("try-p").value));
    $("query").addEventListener("input", query);
    $("strangers").addEventListener("click", strangers);
    $("download").addEventListener("click", download);
    fillSelect("try-kind", kinds().map(({ name }) => name));
    load();
    build();
}

export function load() {
    $("try-kind").value = kinds().some(({ name }) => name === state.get("try")) ? state.get("try") : "cuckoo";
    $("try-p").value = state.get("rate") || "1 %";
}

async function takeFile(taken) {
    file = taken;
    if (taken.size <= SHOWN) {
        $("keys").value = await taken.text();
        file = undefined;
    } else {
        $("keys").value = "";
        $("keys").placeholder = `${taken.name}, ${showSize(taken.size)}`;
    }
    await build();
}

async function build() {
    showError("build-error", "");
    $("build-button").disabled = true;
    $("build-button").textContent = "Building …";
    try {
        const text = $("keys").value;
        const fpr = parseRate($("try-p").value);
        built = await call("build", { kind: $("try-kind").value, text, file, fpr, old: built?.id });
        members = file ? undefined : new Set(text.split("\n").map((line) => line.replace(/\r$/, "")));
        const seconds = built.milliseconds / 1000;
        fillFacts("built", [
            ["Kind", built.kind], ["Keys in it", showCount(built.keys)],
            ["Memory", `${showSize(built.bytes)}, ${(built.bytes * 8 / Math.max(built.keys, 1)).toFixed(2)} bits per key`],
            ["The keys themselves", showSize(built.input)], ["Promised rate", showRate(built.figures.fpr)],
            ["Expected now", showRate(built.fpr)],
            ["Built in", `${seconds < 1 ? `${built.milliseconds.toFixed(1)} ms` : `${seconds.toFixed(2)} s`}`],
        ]);
        for (const id of ["query", "strangers", "download"]) $(id).disabled = false;
        $("counted").textContent = "";
        $("meter").style.width = "0";
        await query();
    } catch (error) {
        showError("build-error", error.message);
    } finally {
        $("build-button").disabled = false;
        $("build-button").textContent = "Build";
    }
}

async function query() {
    const key = $("query").value;
    const current = ++asked;
    if (!built || key === "") return verdict("", "");
    try {
        const found = await call("contains", { id: built.id, key });
        if (current !== asked) return;
        if (!found) verdict("no", `No: “${key}” is certainly not a member.`);
        else if (members === undefined) verdict("yes", `Perhaps: “${key}” may be a member.`);
        else if (members.has(key)) verdict("yes", `Yes: “${key}” is a member.`);
        else verdict("false", `The filter says perhaps, but “${key}” is not a key: a false positive.`);
    } catch (error) {
        verdict("false", error.message);
    }
}

function verdict(style, text) {
    $("verdict").className = `verdict ${style}`;
    $("verdict").textContent = text;
}

async function strangers() {
    const { id, figures } = built;
    $("strangers").disabled = true;
    const tell = ({ asked, passed }) => {
        $("meter").style.width = `${100 * asked / STRANGERS}%`;
        $("counted").textContent = `${showCount(passed)} of ${showCount(asked)} non-members passed: ${showRate(passed / asked)}, promised ${showRate(figures.fpr)}.`;
    };
    try {
        const { milliseconds, ...counts } = await call("strangers", { id, count: STRANGERS }, tell);
        tell(counts);
        $("counted").textContent += ` ${(milliseconds * 1000 / counts.asked).toFixed(2)} µs per query, making the keys included.`;
    } catch (error) {
        $("counted").textContent = error.message;
    } finally {
        $("strangers").disabled = false;
    }
}

async function download() {
    const bytes = await call("bytes", { id: built.id });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    link.download = `${built.kind}.tamis`;
    link.click();
    URL.revokeObjectURL(link.href);
}
