// Evidence: figures of the lab, with one sentence each.

import { $, element } from "./dom.js";

const FIGURES = [
    ["bits-per-key.svg", "Bits per key by rate for 10^6 keys: static kinds come close to the lower bound, and the others pay for what they can do."],
    ["peers-1e7.svg", "Static filters of 10^7 keys beside those of other libraries: query time by bits per key."],
    ["growth-bits.svg", "Sets of unknown size: growing filters keep the rate at every size, and their memory follows the keys without jumps."],
    ["figure-10.svg", "TinySet: measured rate by the keys of a block, with the exact formula."],
    ["sustained.svg", "Adaptive filters under new strangers without end: no filter adapts for free, and the rate stays at the promise."],
    ["redb-replay-accesses.svg", "A dictionary under an adversary that repeats false positives: accesses to the store fall when the filter adapts."],
    ["xor-size.svg", "Static kinds against each other: bits per key by the width of fingerprints."],
    ["rate-by-k.svg", "A Bloom filter's rate by the number of bits that a key sets: measured beside the formula."],
];

export function start() {
    $("figures").replaceChildren(...FIGURES.map(([file, caption]) => {
        const image = element("img", { src: `figures/${file}`, alt: caption, loading: "lazy" });
        return element("figure", { class: "card" }, image, element("figcaption", {}, caption));
    }));
}
