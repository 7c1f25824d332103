// Choose: two of keys, rate and memory give the third, for every kind that can do what is needed.

import { $, element, showError } from "./dom.js";
import { plot } from "./plot.js";
import { call } from "./rpc.js";
import { LANGUAGES, snippet } from "./snippets.js";
import * as state from "./state.js";
import { parseCount, parseRate, parseSize, showCount, showRate, showSize } from "./units.js";

/** Switches: name, label, and the capability that it needs. */
const SWITCHES = [
    ["known", "All keys are known in advance"], ["remove", "Remove keys", "remove"], ["count", "Count copies", "count"],
    ["merge", "Merge filters", "merge"], ["unknown", "The number of keys is unknown", "grow"],
    ["window", "Forget old keys (window)", "window"], ["values", "Give keys values", "map"],
    ["adversary", "An adversary chooses the queries", "adapt"], ["ranges", "Ask for ranges of integers", "range"],
];
/** The longest range, unless it is given. */
const DEFAULT_RANGE = "100";
const FIELDS = ["n", "p", "m"];
const EXPLAIN = {
    "only choice": "the only kind that qualifies", "lowest rate": "the fewest false positives in that memory",
    smallest: "the smallest", "least work": "the least work per query",
    "best balance": "the best balance of memory and work",
};
/** Which of the three fields were given, the most recent last. */
let given = [];
let ranked = [];
let round = 0;
let timer;

export function start() {
    for (const [name, label] of SWITCHES) {
        const box = element("input", { type: "checkbox", id: `need-${name}` });
        box.addEventListener("change", changed);
        $("needs").append(element("label", {}, box, label));
    }
    for (const field of FIELDS) $(field).addEventListener("input", () => edited(field));
    $("r").placeholder = DEFAULT_RANGE;
    $("r").addEventListener("input", changed);
    $("goal").addEventListener("submit", (event) => event.preventDefault());
    for (const [id, name] of LANGUAGES) {
        const tab = element("button", { type: "button", role: "tab", id: `lang-${id}`, "aria-controls": "snippet-panel" }, name);
        tab.addEventListener("click", () => chooseLanguage(id));
        $("languages").append(tab);
    }
    $("languages").addEventListener("keydown", ({ key }) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
        if (!step) return;
        const at = LANGUAGES.findIndex(([id]) => id === language());
        const [next] = LANGUAGES[(at + step + LANGUAGES.length) % LANGUAGES.length];
        chooseLanguage(next);
        $(`lang-${next}`).focus();
    });
    $("copy").addEventListener("click", copy);
    load();
}

export function load() {
    $("n").value = state.get("n");
    $("p").value = state.get("p");
    $("m").value = bitsWithUnit(state.get("m"));
    given = FIELDS.filter((field) => $(field).value);
    if (given.length === 0) {
        $("n").value = "1M";
        $("p").value = "1 %";
        given = ["n", "p"];
    }
    const needs = state.get("needs").split(",");
    for (const [name] of SWITCHES) $(`need-${name}`).checked = needs.includes(name);
    $("r").value = state.get("r");
    chooseLanguage(language());
    update();
}

/** A memory without a unit in the address counts bits, as on hur.st. */
function bitsWithUnit(text) {
    return /^[0-9.e+]+$/i.test(text) ? `${Math.floor(Number(text) / 8)} bytes` : text;
}

function edited(field) {
    given = given.filter((other) => other !== field);
    if ($(field).value.trim()) given.push(field);
    // Three would contradict each other: the oldest is computed from now on.
    if (given.length > 2) $(given.shift()).value = "";
    state.set("k", "");
    changed();
}

function changed() {
    for (const field of FIELDS) state.set(field, $(field).value.trim());
    const memory = $("m").value.trim();
    if (/^[0-9.e+]+$/i.test(memory)) state.set("m", `${memory}B`);
    state.set("r", $("need-ranges").checked ? $("r").value.trim() : "");
    state.set("needs", SWITCHES.map(([name]) => name).filter((name) => $(`need-${name}`).checked).join(","));
    clearTimeout(timer);
    timer = setTimeout(update, 120);
}

function rangeLength() {
    return parseCount($("r").value || DEFAULT_RANGE, "The longest range");
}

function goal() {
    const wanted = (field) => given.includes(field) && $(field).value.trim();
    const found = {};
    const on = (name) => $(`need-${name}`).checked;
    if (wanted("n") && !on("unknown")) found.keys = parseCount($("n").value);
    if (wanted("p")) found.fpr = parseRate($("p").value);
    if (wanted("m") && !on("unknown")) found.bytes = parseSize($("m").value);
    if (on("unknown")) found.fpr ??= 0.01;
    if (on("ranges")) found.rangeLength = rangeLength();
    const needs = SWITCHES.filter(([name, , capability]) => capability && on(name)).map(([, , capability]) => capability);
    if (!on("known") && !on("window") && !on("values") && !on("ranges")) needs.push("insert");
    found.needs = needs.filter((need) => need !== "grow" || found.keys !== undefined);
    return found;
}

async function update() {
    const current = ++round;
    $("range-field").hidden = !$("need-ranges").checked;
    try {
        const wanted = goal();
        const found = await call("plan", wanted);
        if (current !== round) return;
        const k = Number.parseInt(state.get("k"), 10);
        const { needs: _, rangeLength: __, ...plain } = wanted;
        const custom = k > 0 ? await call("plan", { ...plain, kind: "bloom", settings: { k } }).catch(() => []) : [];
        if (current !== round) return;
        ranked = found;
        showError("choose-error", "");
        const kind = ranked.some((advice) => advice.kind === state.get("kind")) ? state.get("kind") : ranked[0].kind;
        fillPlaceholders(wanted);
        showRanking(kind);
        showAnswer(wanted, custom[0], k);
        showSnippet();
        await showPlot(current, wanted.rangeLength);
    } catch (error) {
        if (current !== round) return;
        ranked = [];
        showError("choose-error", error.message);
        $("answer").hidden = true;
        $("ranking").tBodies[0].replaceChildren();
        $("plot").replaceChildren();
        $("snippet").textContent = "";
    }
}

function fillPlaceholders(wanted) {
    const best = ranked[0];
    $("n").placeholder = wanted.keys ? "" : showCount(best.keys);
    $("p").placeholder = wanted.fpr ? "" : showRate(best.fpr);
    $("m").placeholder = wanted.bytes ? "" : showSize(best.bytes);
}

function reason(advice) {
    const merits = advice.merits.map((merit) => EXPLAIN[merit]).join(", ");
    return merits && merits[0].toUpperCase() + merits.slice(1);
}

/** Returns a name that may be broken after its underscores. */
function breakable(name) {
    return name.split(/(?<=_)/).flatMap((part) => [part, element("wbr")]);
}

/** Whether the number of keys is given: a column of it would say the same in every row. */
function sameKeys() {
    return ranked.every(({ keys }) => keys === ranked[0].keys);
}

function showRanking(selected) {
    const head = [["Kind"], ["Bits per key", "number"], ["Memory", "number"], ["Rate", "number"], ...(sameKeys() ? [] : [["Keys", "number"]]), ["Work", "number wide"], ["Why, and what it can do", "wide"]];
    $("ranking").tHead.replaceChildren(element("tr", {}, ...head.map(([name, style = ""]) => element("th", { class: style, scope: "col" }, name))));
    $("ranking").tBodies[0].replaceChildren(...ranked.map((advice) => {
        const choose = element("button", { type: "button", "aria-pressed": String(advice.kind === selected) }, ...breakable(advice.kind));
        choose.addEventListener("click", () => {
            state.set("kind", advice.kind);
            showRanking(advice.kind);
            showSnippet();
        });
        const why = reason(advice);
        const number = (text, wide = "") => element("td", { class: `number ${wide}` }, text);
        const row = element("tr", {}, element("td", {}, choose), number(advice.bitsPerKey.toFixed(2)), number(showSize(advice.bytes)),
            number(showRate(advice.fpr)), ...(sameKeys() ? [] : [number(showCount(advice.keys))]), number(advice.queryCost.toFixed(1), "wide"),
            element("td", { class: "wide" }, ...(why ? [element("span", { class: "merit" }, `${why}. `)] : []), advice.capabilities.join(", ")));
        if (advice.kind === selected) row.className = "selected";
        return row;
    }));
}

function showAnswer(wanted, custom, k) {
    const best = ranked[0];
    const bound = -Math.log2(best.fpr);
    const unknown = wanted.keys === undefined && wanted.bytes === undefined;
    const lines = [
        element("p", {}, element("strong", {}, best.kind), `: ${showSize(best.bytes)} for ${showCount(best.keys)} keys`,
            `${unknown ? ", and it grows as needed" : ""} at ${showRate(best.fpr)} false positives.`),
        element("p", {}, `${best.bitsPerKey.toFixed(2)} bits per key; no filter of known size takes fewer than ${bound.toFixed(2)}. ${reason(best) ? `${reason(best)}.` : ""}`),
    ];
    if (custom) {
        lines.push(element("p", {}, `A Bloom filter with k = ${k}: ${showSize(custom.bytes)} for ${showCount(custom.keys)} keys at ${showRate(custom.fpr)}.`));
    }
    $("answer").replaceChildren(...lines);
    $("answer").hidden = false;
}

function answersRanges({ capabilities }) {
    return capabilities.includes("range");
}

async function showPlot(current, length) {
    const keys = Math.min(ranked[0].keys, 1e12);
    const kinds = [...new Set([...ranked.slice(0, 5).map((advice) => advice.kind), "bloom"])];
    const rates = Array.from({ length: 21 }, (_, i) => 2 ** -(1 + i));
    const settings = Object.fromEntries(ranked.filter(answersRanges).map(({ kind }) => [kind, { range_length: length ?? 1 }]));
    const curves = await call("curves", { kinds, keys, rates, settings });
    if (current !== round) return;
    $("plot").replaceChildren(plot(kinds, rates, curves, ranked[0].fpr), element("figcaption", { class: "hint" },
        `For ${showCount(keys)} keys. The dashed line is the lower bound log2(1/rate).`));
}

function language() {
    const named = state.get("lang");
    return LANGUAGES.some(([id]) => id === named) ? named : "rust";
}

function chooseLanguage(id) {
    if (id !== "rust" || state.get("lang")) state.set("lang", id);
    for (const [other] of LANGUAGES) {
        $(`lang-${other}`).setAttribute("aria-selected", String(other === id));
        $(`lang-${other}`).tabIndex = other === id ? 0 : -1;
    }
    $("snippet-panel").setAttribute("aria-labelledby", `lang-${id}`);
    showSnippet();
}

function showSnippet() {
    if (ranked.length === 0) return;
    const advice = ranked.find(({ kind }) => kind === state.get("kind")) ?? ranked[0];
    const length = $("need-ranges").checked ? rangeLength() : 1;
    $("snippet").textContent = snippet(language(), { ...advice, secure: $("need-adversary").checked, rangeLength: length });
}

async function copy() {
    try {
        await navigator.clipboard.writeText($("snippet").textContent);
        $("copy").textContent = "Copied";
    } catch {
        getSelection().selectAllChildren($("snippet"));
        $("copy").textContent = "Selected";
    }
    setTimeout(() => ($("copy").textContent = "Copy"), 1500);
}
