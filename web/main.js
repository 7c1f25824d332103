// The page: parts, and what they share.

import * as state from "./state.js";
import * as choose from "./choose.js";
import * as tryOut from "./try.js";
import * as inside from "./inside.js";
import * as open from "./open.js";
import * as evidence from "./evidence.js";

const PARTS = [
    ["choose", "Choose", choose], ["try", "Try", tryOut], ["inside", "Look inside", inside], ["open", "Open", open],
    ["evidence", "Evidence", evidence],
];
const nav = document.getElementById("parts");
const started = new Set();

function show() {
    const wanted = location.hash.slice(1);
    const current = PARTS.some(([id]) => id === wanted) ? wanted : "choose";
    for (const [id, name, part] of PARTS) {
        document.getElementById(id).hidden = id !== current;
        const link = nav.querySelector(`[href="#${id}"]`);
        if (id !== current) {
            link.removeAttribute("aria-current");
            continue;
        }
        link.setAttribute("aria-current", "page");
        document.title = `${name} · tamis`;
        if (!started.has(id)) {
            started.add(id);
            part.start();
        }
        part.show?.();
    }
}

state.read();
for (const [id, name] of PARTS) {
    const link = document.createElement("a");
    link.href = `#${id}`;
    link.textContent = name;
    nav.append(link);
}
state.onChange(() => {
    for (const [id, , part] of PARTS) if (started.has(id)) part.load?.();
});
addEventListener("hashchange", show);
show();
if (state.get("open") && location.hash !== "#open") location.hash = "#open";
