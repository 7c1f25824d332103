// Small helpers for the document.

export const $ = (id) => document.getElementById(id);

/** Returns an element with attributes and children. */
export function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
}

/** Shows an error, or hides it. */
export function showError(id, message) {
    $(id).hidden = !message;
    $(id).textContent = message ? sentence(message) : "";
}

export function sentence(text) {
    const start = text.charAt(0).toUpperCase() + text.slice(1);
    return /[.!?]$/.test(start) ? start : `${start}.`;
}

/** Fills a list of facts. */
export function fillFacts(id, facts) {
    $(id).replaceChildren(...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

/** Calls `take` with the file that is dropped on an element or chosen in its input. */
export function onFile(dropId, inputId, take) {
    const drop = $(dropId);
    $(inputId).addEventListener("change", ({ target }) => target.files[0] && take(target.files[0]));
    drop.addEventListener("dragover", (event) => {
        event.preventDefault();
        drop.classList.add("over");
    });
    drop.addEventListener("dragleave", () => drop.classList.remove("over"));
    drop.addEventListener("drop", (event) => {
        event.preventDefault();
        drop.classList.remove("over");
        const file = event.dataTransfer.files[0];
        if (file) take(file);
    });
}

/** Fills a select with names. */
export function fillSelect(id, names, chosen) {
    $(id).replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    if (names.includes(chosen)) $(id).value = chosen;
}
