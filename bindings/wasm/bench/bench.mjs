// Batched lookups beside other npm packages, in one process. Rounds alternate; ratios are medians of the ratios of a round, so
// that other work on the machine, which slows a whole round, counts little.

import bloomFilters from "bloom-filters";
import * as davies from "bloomfilter";
import { Filter } from "tamis";

const { BloomFilter: Callidon, CuckooFilter } = bloomFilters;
const KEYS = 200_000;
const ROUNDS = 5;
const FPR = 0.01;
const members = Array.from({ length: KEYS }, (_, i) => `key ${i}`);
const strangers = Array.from({ length: KEYS }, (_, i) => `stranger ${i}`);
const probes = members.map((key, i) => (i % 2 ? key : strangers[i]));
const integers = BigUint64Array.from(probes, (_, i) => BigInt(i));
const count = (flags) => flags.reduce((sum, flag) => sum + flag, 0);

function tamis(kind) {
    const filter = Filter.build(kind, members, { fpr: FPR });
    return [`tamis ${kind}, array of strings`, () => count(filter.containsBatch(probes))];
}

function tamisLines(kind) {
    const filter = Filter.build(kind, members, { fpr: FPR });
    const lines = new TextEncoder().encode(probes.join("\n"));
    return [`tamis ${kind}, lines of a text`, () => count(filter.containsBatch({ lines }))];
}

function tamisIntegers(kind) {
    const filter = Filter.build(kind, new BigUint64Array(members.length).map((_, i) => BigInt(i)), { fpr: FPR });
    return [`tamis ${kind}, BigUint64Array`, () => count(filter.containsBatch(integers))];
}

function tamisSingle(kind) {
    const filter = Filter.build(kind, members, { fpr: FPR });
    return [`tamis ${kind}, one by one`, () => probes.reduce((sum, key) => sum + filter.contains(key), 0)];
}

function callidon() {
    const filter = Callidon.create(KEYS, FPR);
    for (const key of members) filter.add(key);
    return ["bloom-filters BloomFilter", () => probes.reduce((sum, key) => sum + filter.has(key), 0)];
}

function cuckoo() {
    const filter = CuckooFilter.create(KEYS, FPR);
    for (const key of members) filter.add(key);
    return ["bloom-filters CuckooFilter", () => probes.reduce((sum, key) => sum + filter.has(key), 0)];
}

function jasonDavies() {
    const { BloomFilter } = davies.default ?? davies;
    const filter = new BloomFilter(Math.ceil(KEYS * 9.6), 7);
    for (const key of members) filter.add(key);
    return ["bloomfilter BloomFilter", () => probes.reduce((sum, key) => sum + filter.test(key), 0)];
}

const rivals = [
    tamis("split_block_bloom"), tamis("bloom"), tamis("cuckoo"), tamis("binary_fuse"), tamisLines("split_block_bloom"),
    tamisIntegers("split_block_bloom"), tamisSingle("split_block_bloom"), callidon(), cuckoo(), jasonDavies(),
];
const median = (numbers) => [...numbers].sort((a, b) => a - b)[numbers.length >> 1];
const times = rivals.map(() => []);
const found = [];
for (let round = 0; round < ROUNDS; round += 1) {
    rivals.forEach(([, look], i) => {
        const start = performance.now();
        found[i] = look();
        times[i].push(performance.now() - start);
    });
}
console.log(`${KEYS} lookups, half of them members, at ${FPR * 100} %: nanoseconds per key, and the time over that of the first`);
rivals.forEach(([name], i) => {
    const lost = found[i] < KEYS / 2 ? `   denies at least ${KEYS / 2 - found[i]} members` : "";
    const ratio = median(times[i].map((time, round) => time / times[0][round]));
    const nanoseconds = median(times[i]) * 1e6 / KEYS;
    console.log(`${name.padEnd(42)}${nanoseconds.toFixed(0).padStart(7)}${ratio.toFixed(2).padStart(8)}${lost}`);
});
