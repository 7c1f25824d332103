// Look inside: the cells of a small filter, and the path of a key through them.

import { Filter, kinds } from "./tamis/browser.js";
import { Drawing, counted } from "./drawing.js";
import { $, element, fillSelect, sentence } from "./dom.js";
import * as state from "./state.js";
import { showRate, showSize } from "./units.js";

/** The kinds that the library can show, with a size that fits a screen. */
const SIZES = {
    bloom: { capacity: 60, fpr: 0.03 }, split_block_bloom: { capacity: 60, fpr: 0.03 }, cuckoo: { capacity: 60, fpr: 0.03 },
    quotient: { capacity: 56, fpr: 0.03 }, tinyset: { capacity: 100, fpr: 0.01 }, binary_fuse: { capacity: 60, fpr: 0.005 },
    ribbon: { capacity: 60, fpr: 0.03 }, broom: { capacity: 90, fpr: 0.03 },
};
const ABOUT = {
    bloom: "A key sets k bits. It may be a member if all of them are set.",
    split_block_bloom: "A key sets one bit in each of the 8 lanes of one block: a lookup reads half a cache line.",
    cuckoo: "A key's fingerprint is in one of two buckets, and moves to the other bucket when an insertion needs its slot.",
    quotient: "Remainders are sorted in runs. A collision shifts later entries to the right; three flags tell where a run begins.",
    tinyset: "A block is a small hash table. The more keys it holds, the shorter its records become.",
    binary_fuse: "The XOR of three cells is the fingerprint of every member. It is built from all keys at once.",
    ribbon: "The XOR of some of 64 neighbouring slots is the fingerprint: the slots solve one linear equation per key.",
    broom: "A fingerprint is a prefix of the key's bits. A reported false positive makes it longer, so that it never passes again.",
};
/** A fixed seed, so that everyone sees the same cells. */
const SEED = 20n;
const FRUIT = ["pear", "plum", "fig", "quince", "cherry", "lemon", "grape", "kiwi", "mango", "peach", "lime", "date"];
let filter;
let members = [];
let steps = [];
let at = -1;
let playing;
let drawing;

export function start() {
    drawing = new Drawing($("cells"), $("cells").parentElement, (text) => ($("inside-facts").textContent = text || facts()));
    fillSelect("inside-kind", Object.keys(SIZES), "bloom");
    $("inside-kind").addEventListener("change", () => {
        state.set("inside", $("inside-kind").value);
        reset();
    });
    $("inside-form").addEventListener("submit", (event) => {
        event.preventDefault();
        act("lookup");
    });
    $("inside-buttons").addEventListener("click", ({ target }) => target.dataset.do && act(target.dataset.do));
    $("back").addEventListener("click", () => go(at - 1));
    $("forth").addEventListener("click", () => go(at + 1));
    $("play").addEventListener("click", play);
    load();
}

export function show() {
    drawing?.resize();
}

export function load() {
    const named = state.get("inside");
    if (named in SIZES) $("inside-kind").value = named;
    reset();
}

function can(capability) {
    return kinds().find(({ name }) => name === $("inside-kind").value).capabilities.includes(capability);
}

function reset() {
    const kind = $("inside-kind").value;
    members = can("static") ? FRUIT.slice(0, 8) : [];
    make(kind);
    for (const button of $("inside-buttons").children) {
        const needs = { remove: "remove", repair: "adapt" }[button.dataset.do];
        button.disabled = needs !== undefined && !can(needs);
    }
    tell(ABOUT[kind], []);
    redraw();
}

function make(kind) {
    filter?.free();
    const options = { ...SIZES[kind], seed: SEED };
    filter = can("static") ? Filter.build(kind, members, options) : new Filter(kind, options);
}

function facts() {
    return `${filter.length} keys of ${filter.capacity}, ${showSize(filter.bytes)}, rate ${showRate(filter.fpr)} now`;
}

function redraw(changed) {
    drawing.setTables(filter.cells(), changed);
    $("inside-facts").textContent = facts();
    $("legend").replaceChildren(...drawing.legend().map(([color, name]) => {
        const mark = element("i");
        mark.style.background = color;
        return element("li", {}, mark, name);
    }));
}

/** Returns the cells that differ from `before`, as [table, cell]. A cell may have moved to another index. */
function differences(before) {
    const changed = [];
    filter.cells().forEach((table, t) => {
        const old = before[t];
        for (let i = 0; i < table.value.length; i += 1) {
            if (old.value[i] !== table.value[i] || old.width[i] !== table.width[i] || old.role[i] !== table.role[i]) changed.push([t, i]);
        }
    });
    return changed;
}

function act(what) {
    const key = $("inside-key").value;
    try {
        if (what === "clear") return reset();
        if (what === "lookup") return lookUp(key);
        if (what === "repair") return repair();
        change(what, key);
    } catch (error) {
        tell(error.message, []);
    }
}

function lookUp(key, before = "") {
    redraw();
    const { hi } = filter.hashOf(key);
    const found = filter.contains(key);
    const verdict = found ? (members.includes(key) ? "a member" : "reported as a member, but it is a false positive") : "certainly not a member";
    tell(`${before}“${key}” hashes to ${hi.toString(16).padStart(16, "0")}… and is ${verdict}.`, filter.path(key));
    go(0);
}

function change(what, key) {
    const before = filter.cells();
    const kind = $("inside-kind").value;
    let text;
    if (what === "remove") {
        const removed = filter.remove(key);
        if (members.includes(key)) members.splice(members.indexOf(key), 1);
        text = removed ? `Removed “${key}”` : `“${key}” is certainly not in`;
    } else {
        const keys = what === "fill" ? more(10) : [key];
        if (can("static")) {
            members = [...new Set([...members, ...keys])];
            make(kind);
            text = `A static filter cannot insert: it was built again from ${members.length} keys`;
        } else {
            for (const each of keys) {
                filter.insert(each);
                members.push(each);
            }
            text = what === "fill" ? `Inserted ${keys.length} keys` : `Inserted “${key}”`;
        }
    }
    const changed = differences(before);
    redraw(changed);
    text += `: ${counted(changed.length, "cell")} changed.`;
    if (kind === "cuckoo" && what === "insert" && changed.length > 1) {
        text += ` Both buckets were full: ${counted(changed.length - 1, "fingerprint")} moved to another bucket.`;
    }
    if (kind === "quotient" && what === "insert") {
        const moved = changed.filter(([t, i]) => before[t].width[i] > 0 && before[t].roles[before[t].role[i]] === "remainder").length;
        if (moved > 0) text += ` A collision: ${counted(moved, "entry")} shifted.`;
    }
    tell(text, what === "fill" ? [] : filter.path(key));
    drawing.setChanged(changed);
}

function more(count) {
    const fruit = FRUIT.filter((name) => !members.includes(name));
    const numbered = Array.from({ length: count }, (_, i) => `key ${members.length + i}`);
    return [...fruit, ...numbered].slice(0, count);
}

function repair() {
    if (members.length < 20) for (const key of more(40)) {
        filter.insert(key);
        members.push(key);
    }
    let stranger;
    for (let i = 0; i < 200_000 && stranger === undefined; i += 1) if (filter.contains(`stranger ${i}`)) stranger = `stranger ${i}`;
    if (stranger === undefined) return tell("No false positive was found among 200,000 non-members.", []);
    const before = filter.cells();
    const steps = filter.path(stranger);
    const how = filter.adapt(stranger, members);
    const changed = differences(before);
    $("inside-key").value = stranger;
    redraw(changed);
    const what = { extended: "stores more bits of the fingerprint", rehashed: "gave the bin a new hash function" }[how] ?? how;
    tell(`“${stranger}” was a false positive. The filter ${what}; ${counted(changed.length, "cell")} changed, and now it says ${filter.contains(stranger) ? "perhaps" : "no"}.`, steps);
    drawing.setChanged(changed);
}

function tell(text, path) {
    stop();
    steps = path;
    at = -1;
    $("story").textContent = sentence(text);
    $("steps").replaceChildren(...steps.map((step) => {
        const rows = [...new Set([...step.cells].map((cell) => drawing.rowOf(step.table, cell)))];
        const where = rows.length === 0 ? "" : rows.length === 1 ? `, ${rows[0]}` : `, ${counted(rows.length, rows[0].split(" ")[0])}`;
        const wanted = step.wanted > 1n ? `, compared with ${step.wanted.toString(16)}` : "";
        return element("li", {}, `${sentence(step.what).slice(0, -1)}${where}: ${counted(step.cells.length, "cell")}${wanted}: ${step.matches ? "matches" : "does not match"}`);
    }));
    buttons();
}

function go(to) {
    at = Math.max(-1, Math.min(to, steps.length - 1));
    [...$("steps").children].forEach((item, i) => (i === at ? item.setAttribute("aria-current", "step") : item.removeAttribute("aria-current")));
    drawing.setStep(steps[at]);
    buttons();
}

function buttons() {
    $("back").disabled = at <= 0;
    $("forth").disabled = at >= steps.length - 1;
    $("play").disabled = steps.length === 0;
}

function play() {
    if (playing) return stop();
    go(0);
    $("play").textContent = "Pause";
    playing = setInterval(() => (at >= steps.length - 1 ? stop() : go(at + 1)), 900);
}

function stop() {
    clearInterval(playing);
    playing = undefined;
    $("play").textContent = "Play";
}
