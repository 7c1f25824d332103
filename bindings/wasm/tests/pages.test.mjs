// The blocks of JavaScript in the documentation run, and have the values that they state.

import assert from "node:assert/strict";
import { copyFileSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import test from "node:test";

const ROOT = process.env.TAMIS_ROOT;
/** A statement with its value: `filter.contains("a"); // true` */
const STATED = /^(\S.*); \/\/ (true|false|\d+n?|"[^"]*")$/gm;

function pages() {
    const docs = readdirSync(join(ROOT, "docs"), { recursive: true }).filter((name) => name.endsWith(".md"));
    return [join(ROOT, "README.md"), join(ROOT, "bindings/wasm/package/README.md"), ...docs.map((name) => join(ROOT, "docs", name))];
}

// Files that blocks read.
for (const name of ["guava-utf8.bin", "rbloom.bin"]) copyFileSync(join(ROOT, "testdata/foreign", name), name);

let found = 0;
for (const page of pages()) {
    for (const [, block] of readFileSync(page, "utf8").matchAll(/^```js\n(.*?)^```/gms)) {
        const file = new URL(`block-${(found += 1)}.mjs`, import.meta.url);
        test(`${relative(ROOT, page)}: block ${found}`, async () => {
            const program = block.replace(STATED, "assert.deepEqual($1, $2);");
            writeFileSync(file, `import assert from "node:assert/strict";\n${program}`);
            await import(file);
        });
    }
}

test("there are blocks", () => assert.ok(found >= 4, `${found} blocks`));
