// Numbers as people write them: 100M, 0.1 %, 1 in 1e6, 64KiB.

const COUNTS = { "": 1, k: 1e3, thousand: 1e3, m: 1e6, million: 1e6, g: 1e9, b: 1e9, bn: 1e9, billion: 1e9, t: 1e12 };
const SIZES = {
    b: 1, byte: 1, bytes: 1, k: 1e3, kb: 1e3, m: 1e6, mb: 1e6, g: 1e9, gb: 1e9, t: 1e12, tb: 1e12,
    ki: 2 ** 10, kib: 2 ** 10, mi: 2 ** 20, mib: 2 ** 20, gi: 2 ** 30, gib: 2 ** 30, ti: 2 ** 40, tib: 2 ** 40,
    bit: 1 / 8, bits: 1 / 8,
};

/** Splits "64 KiB" into 64 and "kib". */
function split(text, what) {
    const match = /^([0-9][0-9_,' ]*(?:\.[0-9]+)?|\.[0-9]+)(?:e([+-]?[0-9]+))?\s*([a-z%]*)$/i.exec(text.trim());
    if (!match) throw new Error(`${what} is not a number: ${text}`);
    const number = Number(match[1].replace(/[_,' ]/g, "") + (match[2] ? `e${match[2]}` : ""));
    return [number, match[3].toLowerCase()];
}

/** Reads a number of keys. */
export function parseCount(text, what = "The number of keys") {
    const [number, unit] = split(text, what);
    const scale = COUNTS[unit];
    if (scale === undefined) throw new Error(`${what} has an unknown unit: ${unit}`);
    const keys = Math.round(number * scale);
    if (keys < 1) throw new Error(`${what} must be at least 1.`);
    return keys;
}

/** Reads a rate: 0.01, 1 %, 1 in 100, 1/100, or a number above 1, which is one in that many. */
export function parseRate(text) {
    const ratio = /^\s*(\S+)\s*(?:in|\/)\s*(\S.*)$/i.exec(text);
    if (ratio) return checked(split(ratio[1], "The rate")[0] / parseCount(ratio[2]));
    const [number, unit] = split(text, "The rate");
    if (unit === "%") return checked(number / 100);
    if (unit !== "" && COUNTS[unit] === undefined) throw new Error(`The rate has an unknown unit: ${unit}`);
    const rate = number * (COUNTS[unit] ?? 1);
    return checked(rate > 1 ? 1 / rate : rate);
}

function checked(rate) {
    if (!(rate > 0 && rate < 1)) throw new Error("The rate must lie between 0 and 1.");
    return rate;
}

/** Reads a size in bytes. A number without a unit counts `plain` bytes each. */
export function parseSize(text, plain = 1) {
    const [number, unit] = split(text, "The memory");
    const scale = unit === "" ? plain : SIZES[unit];
    if (scale === undefined) throw new Error(`The memory has an unknown unit: ${unit}`);
    const bytes = Math.floor(number * scale);
    if (bytes < 1) throw new Error("The memory must be at least 1 byte.");
    return bytes;
}

export function showCount(keys) {
    return keys < 1e15 ? keys.toLocaleString("en") : keys.toExponential(3);
}

/** Shows a rate with three digits, as a percentage where that is short. */
export function showRate(rate) {
    if (rate >= 0.0005) return `${trim((rate * 100).toPrecision(3))} %`;
    return rate === 0 ? "0" : `1 in ${showCount(Number((1 / rate).toPrecision(3)))}`;
}

export function showSize(bytes) {
    const units = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = 0;
    while (bytes >= 1024 && unit < units.length - 1) {
        bytes /= 1024;
        unit += 1;
    }
    return `${unit === 0 ? bytes : trim(bytes.toPrecision(4))} ${units[unit]}`;
}

function trim(text) {
    return text.includes(".") && !text.includes("e") ? text.replace(/\.?0+$/, "") : text;
}
