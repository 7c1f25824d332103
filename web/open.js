// Open: what a .tamis file holds.

import { $, fillFacts, onFile, showError } from "./dom.js";
import { call } from "./rpc.js";
import * as state from "./state.js";
import { showCount, showRate, showSize } from "./units.js";

let opened;
let asked = 0;

export function start() {
    onFile("file-drop", "file", (file) => show(file, file.name));
    $("open-query").addEventListener("input", query);
    $("open-integer").addEventListener("change", query);
    fetchNamed();
}

/** The command `tamis explore FILE` serves that file beside the page. */
async function fetchNamed() {
    const name = state.get("open");
    if (!name) return;
    try {
        const response = await fetch(new URL("opened.tamis", document.baseURI));
        if (!response.ok) throw new Error(`There is no file ${name} beside this page.`);
        await show(await response.blob(), name);
    } catch (error) {
        showError("open-error", error.message);
    }
}

async function show(file, name) {
    showError("open-error", "");
    $("opened").hidden = true;
    try {
        opened = await call("open", { file, old: opened?.id });
        $("opened-name").textContent = name;
        fillFacts("opened-facts", [
            ["Kind", opened.kind], ["Keys in it", `${showCount(opened.keys)} of ${showCount(opened.capacity)}`],
            ["False positive rate", `${showRate(opened.fpr)} now, ${showRate(opened.figures.fpr)} at its capacity`],
            ["Tables", `${showSize(opened.bytes)}, ${opened.figures.bitsPerKey.toFixed(2)} bits per key`], ["File", showSize(opened.file)],
            ["Shape", Object.entries(opened.parameters).map(([key, value]) => `${key} = ${value}`).join(", ") || "no parameters"],
            ["It can", opened.capabilities.join(", ")], ["Hash", opened.hash], ["Form of the keys", opened.keyForms],
            ["Checksums", "all verified"],
        ]);
        $("open-integer").checked = opened.keyForms === "integers";
        $("opened").hidden = false;
        query();
    } catch (error) {
        showError("open-error", error.message);
    }
}

async function query() {
    const [key, current] = [$("open-query").value, ++asked];
    const say = (style, text) => {
        if (current !== asked) return;
        $("open-verdict").className = `verdict ${style}`;
        $("open-verdict").textContent = text;
    };
    if (key === "") return say("", "");
    const integer = $("open-integer").checked;
    if (integer && !/^-?[0-9]+$/.test(key)) return say("false", "This is not an integer.");
    try {
        const found = await call("contains", { id: opened.id, key, integer });
        say(found ? "yes" : "no", found ? `Perhaps: “${key}” may be a member.` : `No: “${key}” is certainly not a member.`);
    } catch (error) {
        say("false", error.message);
    }
}
