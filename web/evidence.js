// Evidence: figures of the lab, with one sentence each.

import { $, element } from "./dom.js";

const FIGURES = [
    ["bits-per-key.svg", "Bits per key by rate for 10^6 keys: static kinds come close to the lower bound, and the others pay for what they can do."],
    ["peers-1e7.svg", "Static filters of 10^7 keys beside those of other libraries: memory over the lower bound, and time of a query."],
    ["growth-bits.svg", "Filters that grow from 1000 keys at 1 %: growing takes 16 to 18 bits per key at every size, scalable_bloom jumps with each new part."],
    ["figure-10.svg", "TinySet: rate by bits per key for blocks of 16 to 128 keys, computed and measured, beside a Bloom filter."],
    ["sustained.svg", "New non-members without end: adaptive filters let in no more of them than their rate promises, give or take chance."],
    ["redb-replay-accesses.svg", "Non-members that are asked again and again: an adaptive filter lets about 1 in 500 reach the store, a static one more than 1 in 3."],
    ["xor-size.svg", "Memory over the lower bound at a rate of 2^-8, by the number of keys: small sets pay more."],
    ["rate-by-k.svg", "A Bloom filter with 8 bits of memory per key: rate by the number of bits that a key sets, computed and measured."],
];

export function start() {
    $("figures").replaceChildren(...FIGURES.map(([file, caption]) => {
        const image = element("img", { src: `figures/${file}`, alt: caption, loading: "lazy" });
        return element("figure", { class: "card" }, image, element("figcaption", {}, caption));
    }));
}
