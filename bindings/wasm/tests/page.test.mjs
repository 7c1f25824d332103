// The page in a real browser, used as a person would.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { mkdtempSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { extname, join, normalize } from "node:path";
import test, { after, afterEach, before, beforeEach } from "node:test";
import { chromium } from "playwright-core";

const SITE = process.env.TAMIS_SITE;
const TESTDATA = process.env.TAMIS_TESTDATA;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm", ".svg": "image/svg+xml" };
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const folder = mkdtempSync(join(tmpdir(), "tamis-page-"));
let server, browser, home, address, context, page;
let faults;

before(async () => {
    server = createServer((request, response) => {
        const path = normalize(decodeURIComponent(new URL(request.url, "http://localhost").pathname));
        try {
            const body = readFileSync(join(SITE, path === "/" ? "index.html" : path));
            response.writeHead(200, { "content-type": TYPES[extname(path)] ?? "text/html" }).end(body);
        } catch {
            response.writeHead(404).end();
        }
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    home = `http://127.0.0.1:${server.address().port}/`;
    browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
});

after(async () => {
    await browser?.close();
    server?.close();
});

beforeEach(async () => {
    faults = [];
    address = home;
    context = await browser.newContext({ acceptDownloads: true });
    page = await context.newPage();
    page.setDefaultTimeout(60_000);
    page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
    page.on("pageerror", (error) => faults.push(String(error)));
    page.on("request", (request) => {
        const { origin, protocol } = new URL(request.url());
        if (protocol.startsWith("http") && `${origin}/` !== address) faults.push(`a request to ${origin}`);
    });
});

afterEach(async () => {
    await context.close();
    assert.deepEqual(faults, [], "no console error, and no request elsewhere");
});

const text = (selector) => page.locator(selector).innerText();
const waitForText = (selector, pattern) =>
    page.waitForFunction(([selector, source]) => new RegExp(source).test(document.querySelector(selector).innerText), [selector, pattern.source]);

test("choose: two of three give the third, and the address keeps everything", async () => {
    await page.goto(address);
    await waitForText("#answer", /bits per key/);
    assert.equal(await page.inputValue("#n"), "1M");
    assert.match(await page.getAttribute("#m", "placeholder"), /MiB/);
    assert.ok(await page.locator("#ranking tbody tr").count() > 5);
    await page.locator("#plot svg path.curve").nth(2).waitFor();
    await page.fill("#n", "100M");
    await page.fill("#p", "1 in 1e6");
    await waitForText("#answer", /100,000,000 keys/);
    await page.fill("#m", "64KiB");
    // The memory and the rate are given: the number of keys follows.
    await page.waitForFunction(() => document.querySelector("#n").value === "" && /\d/.test(document.querySelector("#n").placeholder));
    await page.check("#need-remove");
    await page.waitForFunction(() => [...document.querySelectorAll("#ranking tbody tr")].every((row) => row.innerText.includes("remove")));
    await page.click("#lang-python");
    assert.match(await text("#snippet"), /import tamis/);
    await page.waitForFunction(() => location.search.includes("needs=remove") && location.search.includes("lang=python"));
    const [url, before] = [page.url(), await text("#ranking")];
    await page.goto("about:blank");
    await page.goto(url);
    await waitForText("#answer", /bits per key/);
    await page.waitForFunction((before) => document.querySelector("#ranking").innerText === before, before);
    assert.equal(await page.inputValue("#m"), "64KiB");
    assert.match(await text("#snippet"), /import tamis/);
});

test("choose: all switches and impossible goals answer in one sentence", async () => {
    await page.goto(address);
    await waitForText("#answer", /bits per key/);
    for (const name of ["known", "remove", "count", "merge", "unknown", "window", "values", "adversary"]) {
        await page.check(`#need-${name}`);
        await page.waitForTimeout(250);
        await page.waitForFunction(() => document.querySelector("#choose-error").innerText || document.querySelector("#ranking tbody tr"));
        for (const language of ["rust", "python", "js", "cli"]) {
            await page.click(`#lang-${language}`);
            assert.ok((await text("#snippet")).length > 20, `${name} ${language}`);
        }
        await page.uncheck(`#need-${name}`);
    }
    await page.check("#need-ranges");
    await waitForText("#answer", /grafite/);
    const bits = () => page.locator("#ranking tbody td.number").first().innerText();
    const before = await bits();
    await page.fill("#r", "1M");
    await page.waitForFunction((before) => document.querySelector("#ranking tbody td.number")?.innerText !== before, before);
    assert.ok(Number(await bits()) > Number(before) + 10, "longer ranges take more bits");
    await page.waitForFunction(() => location.search.includes("r=1M"));
    for (const [language, call] of [["rust", /contains_range/], ["python", /contains_range/], ["js", /containsRange/], ["cli", /--range-length 1000000/]]) {
        await page.click(`#lang-${language}`);
        assert.match(await text("#snippet"), call);
    }
    await page.uncheck("#need-ranges");
    for (const [n, p, m, error] of [
        ["1e30", "1 %", "", /at most|0 to/], ["abc", "1 %", "", /not a number/], ["10", "0", "", /between 0 and 1/], ["10", "200 %", "", /between/],
        ["10", "1e-300", "", /at least/], ["1M", "", "10 bytes", /too small/], ["5 apples", "", "1KB", /unknown unit/],
    ]) {
        await page.fill("#m", "");
        await page.fill("#n", n);
        await page.fill("#p", p);
        if (m) await page.fill("#m", m);
        await waitForText("#choose-error", error);
        assert.equal((await text("#choose-error")).split(/[.!?](?:\s|$)/).filter(Boolean).length, 1, "one sentence");
    }
});

test("choose: parameters of hur.st are understood", async () => {
    await page.goto(`${address}?n=4000&p=1.0E-7&m=&k=3`);
    await waitForText("#answer", /4,000 keys/);
    await waitForText("#answer", /k = 3/);
    await page.goto(`${address}?n=4000&p=10000000`);
    await waitForText("#answer", /1 in 1[0-9],/);
    await page.goto(`${address}?n=1000&m=16384`);
    await waitForText("#answer", /(2|1\.\d+) KiB/);
});

test("try: keys of one's own, members, false positives", async () => {
    await page.goto(`${address}#try`);
    await page.fill("#keys", "one\ntwo\nthree");
    for (const kind of ["cuckoo", "ribbon", "sliding", "broom"]) {
        await page.selectOption("#try-kind", kind);
        await page.click("#build-button");
        await waitForText("#built", new RegExp(kind));
        await page.fill("#query", "two");
        await waitForText("#verdict", /is a member/);
        await page.fill("#query", "a key that nobody inserted");
        await waitForText("#verdict", /certainly not|false positive/);
    }
    await page.click("#strangers");
    await waitForText("#counted", /1,000,000 non-members.*µs/);
    const [save] = await Promise.all([page.waitForEvent("download"), page.click("#download")]);
    const path = join(folder, "saved.tamis");
    await save.saveAs(path);
    await page.click("a[href='#open']");
    await page.setInputFiles("#file", path);
    await waitForText("#opened-facts", /all verified/);
    await page.click("a[href='#try']");
    await page.fill("#try-p", "2");
    await page.click("#build-button");
    await page.fill("#try-p", "1.5 %%");
    await page.click("#build-button");
    await waitForText("#build-error", /rate/);
});

test("try: odd files, and 50 MB of keys do not freeze the page", async () => {
    await page.goto(`${address}#try`);
    const [empty, binary, large] = ["empty", "binary", "large.txt"].map((name) => join(folder, name));
    writeFileSync(empty, "");
    writeFileSync(binary, Buffer.from(Array.from({ length: 5000 }, (_, i) => (i * 7919) % 256)));
    writeFileSync(large, Array.from({ length: 4_000_000 }, (_, i) => `key ${i * 7919}`).join("\n").slice(0, 50_000_000));
    const huge = join(folder, "huge.txt");
    writeFileSync(huge, "");
    truncateSync(huge, 2 ** 31);
    await page.selectOption("#try-kind", "binary_fuse");
    await page.setInputFiles("#key-file", huge);
    await waitForText("#build-error", /at most/);
    await page.setInputFiles("#key-file", empty);
    await waitForText("#built", /binary_fuse/);
    await page.setInputFiles("#key-file", binary);
    await page.waitForFunction(() => document.querySelector("#build-button").textContent === "Build");
    await page.evaluate(() => {
        globalThis.longest = 0;
        let last = performance.now();
        (function tick() {
            const now = performance.now();
            globalThis.longest = Math.max(globalThis.longest, now - last);
            last = now;
            setTimeout(tick, 10);
        })();
    });
    await page.setInputFiles("#key-file", large);
    await page.waitForFunction(() => /[34],\d\d\d,\d\d\d/.test(document.querySelector("#built").innerText), undefined, { timeout: 180_000 });
    assert.ok(await page.evaluate(() => globalThis.longest) < 1500, `the page stood still for ${await page.evaluate(() => globalThis.longest)} ms`);
    await page.fill("#query", "key 7919");
    await waitForText("#verdict", /may be a member/);
});

test("inside: every kind is drawn, and every action tells what it did", async () => {
    await page.goto(`${address}#inside`);
    for (const kind of ["bloom", "split_block_bloom", "cuckoo", "quotient", "tinyset", "binary_fuse", "ribbon", "broom"]) {
        await page.selectOption("#inside-kind", kind);
        const drawn = () => page.evaluate(() => document.querySelector("#cells").toDataURL());
        const empty = await drawn();
        await page.fill("#inside-key", "apple");
        await page.click("[data-do=insert]");
        assert.match(await text("#story"), /cells? changed/);
        assert.notEqual(await drawn(), empty, `${kind}: the drawing changes`);
        await page.click("[data-do=lookup]");
        assert.match(await text("#story"), /is a member/, kind);
        assert.ok(await page.locator("#steps li").count() > 0);
        const before = await drawn();
        await page.click("[data-do=fill]");
        await page.click("[data-do=lookup]");
        assert.notEqual(await drawn(), before);
        assert.match(await text("#story"), /is a member/, kind);
        if (await page.isEnabled("#forth")) await page.click("#forth");
        if (await page.isEnabled("[data-do=remove]")) {
            await page.click("[data-do=remove]");
            assert.match(await text("#story"), /Removed/);
        }
    }
    await page.click("[data-do=repair]");
    await waitForText("#story", /was a false positive.*now it says no/);
    await page.selectOption("#inside-kind", "cuckoo");
    for (let i = 0; i < 8; i += 1) await page.click("[data-do=fill]");
    assert.match(await text("#story"), /full/);
    await page.waitForFunction(() => location.search.includes("inside=cuckoo"));
    await page.reload();
    assert.equal(await page.inputValue("#inside-kind"), "cuckoo");
});

test("open: golden files answer, hostile files give a message", async () => {
    await page.goto(`${address}#open`);
    const golden = readdirSync(join(TESTDATA, "golden")).filter((file) => file.endsWith(".tamis"));
    for (const file of golden) {
        await page.setInputFiles("#file", join(TESTDATA, "golden", file));
        await waitForText("#opened-name", new RegExp(file.replace(".", "\\.")));
        assert.match(await text("#opened-facts"), /all verified/);
        assert.ok(await page.isHidden("#open-error"));
    }
    await page.fill("#open-query", "1");
    await waitForText("#open-verdict", /member|form/);
    const hostile = readdirSync(join(TESTDATA, "corrupt")).map((file) => join(TESTDATA, "corrupt", file));
    const huge = join(folder, "huge.tamis");
    writeFileSync(huge, Buffer.concat([readFileSync(join(TESTDATA, "golden", golden[0])).subarray(0, 4000), Buffer.alloc(5_000_000, 255)]));
    const noise = join(folder, "noise.tamis");
    writeFileSync(noise, Buffer.from(Array.from({ length: 100_000 }, (_, i) => (i * 2654435761) >>> 24)));
    // A sound file with 2 GiB of nothing behind it.
    const endless = join(folder, "endless.tamis");
    writeFileSync(endless, readFileSync(join(TESTDATA, "golden", golden[0])));
    truncateSync(endless, 2 ** 31);
    for (const path of [...hostile, huge, noise, endless]) {
        await page.evaluate(() => (document.querySelector("#open-error").textContent = ""));
        await page.setInputFiles("#file", path);
        await waitForText("#open-error", /.{10,}/);
        assert.ok(await page.isHidden("#opened"), path);
    }
});

test("evidence: every figure loads", async () => {
    await page.goto(`${address}#evidence`);
    await page.locator("#figures img").first().waitFor();
    for (const image of await page.locator("#figures img").all()) {
        await image.scrollIntoViewIfNeeded();
        await page.waitForFunction((image) => image.complete && image.naturalWidth > 0, await image.elementHandle());
    }
});

test("accessible in light and dark, on a phone and on a wide screen", async () => {
    for (const [width, height] of [[390, 844], [1600, 1000]]) {
        await page.setViewportSize({ width, height });
        for (const colorScheme of ["light", "dark"]) {
            await page.emulateMedia({ colorScheme });
            for (const part of ["choose", "try", "inside", "open", "evidence"]) {
                await page.goto("about:blank");
                await page.goto(`${address}#${part}`, { waitUntil: "networkidle" });
                if (part === "choose") await waitForText("#answer", /bits per key/);
                else await page.locator(`#${part}`).waitFor();
                if (part === "inside") await page.click("[data-do=fill]");
                const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
                assert.ok(wide <= 0, `${part} is ${wide} pixels wider than a screen of ${width}`);
                if (process.env.TAMIS_SHOTS) await page.screenshot({ path: join(process.env.TAMIS_SHOTS, `${part}-${colorScheme}-${width}.png`), fullPage: true });
                await page.addScriptTag({ path: AXE });
                const { violations } = await page.evaluate(() => globalThis.axe.run());
                const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
                const named = serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
                assert.deepEqual(named, [], `${part}, ${colorScheme}, ${width}`);
            }
        }
    }
});

test("explore: the command serves the page, and opens the named file in it", async () => {
    const file = join(TESTDATA, "golden", "cuckoo-v1.tamis");
    const command = spawn(process.env.TAMIS_COMMAND, ["explore", file], { stdio: ["ignore", "pipe", "inherit"] });
    try {
        const [line] = await once(command.stdout, "data");
        address = new URL("/", String(line).trim()).href;
        await page.goto(String(line).trim());
        await waitForText("#opened-facts", /cuckoo/);
        assert.equal(await text("#opened-name"), "cuckoo-v1.tamis");
        await page.click("a[href='#choose']");
        await waitForText("#answer", /bits per key/);
        await page.click("a[href='#inside']");
        await page.click("[data-do=fill]");
        await waitForText("#story", /cells? changed/);
        const other = spawnSync(process.env.TAMIS_COMMAND, ["explore", "--port", new URL(address).port]);
        assert.equal(other.status, 2);
        assert.match(String(other.stderr), /in use/);
    } finally {
        command.kill("SIGINT");
    }
    const [, signal] = command.exitCode === null && command.signalCode === null ? await once(command, "exit") : [0, command.signalCode];
    assert.equal(signal, "SIGINT");
});

test("the first paint comes within a second", async () => {
    await page.goto(address);
    const paint = await page.evaluate(() => new Promise((resolve) => {
        new PerformanceObserver((list) => resolve(list.getEntriesByName("first-contentful-paint")[0]?.startTime)).observe({ type: "paint", buffered: true });
    }));
    assert.ok(paint < 1000, `${paint} ms`);
});
