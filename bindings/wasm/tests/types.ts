// Compiled by tsc and never run: the declarations accept what the documentation shows.
import { Filter, FullError, importFilter, kinds, open, peek, plan, type Advice, type Keys, type Options } from "tamis";

const options: Options = { capacity: 10, fpr: 0.01, settings: { k: 3 }, hash: "secure", seed: 1n };
const filter = new Filter("bloom", options);
filter.insert("a");
filter.insert(1n);
const keys: Keys = new BigUint64Array(3);
const found: Uint8Array = filter.containsBatch(keys);
const counts: Float64Array = filter.countBatch(["a"]);
const value: bigint | undefined = filter.get("a");
const best: Advice | undefined = plan({ keys: 1e6, needs: ["remove"] })[0];
const names: string[] = kinds().map((kind) => kind.name);
const opened: Promise<Filter> = open("words.tamis");
const { kind }: { kind: string } = peek(filter.toBytes());
const { bitsPerKey } = filter.figures;
const exported: Uint8Array = importFilter(new Uint8Array(20), { format: "guava" }).exportTo("guava");
try {
    Filter.build("ribbon", { lines: new Uint8Array(3) }, { fpr: 0.1 });
} catch (error) {
    if (error instanceof FullError) console.log(error.inserted);
}
// @ts-expect-error a key is no object
filter.contains({});
// @ts-expect-error there is no such option
new Filter("bloom", { frp: 0.1 });
// @ts-expect-error there is no such capability
plan({ keys: 10, needs: ["fly"] });
// @ts-expect-error there is no such format
importFilter(new Uint8Array(20), { format: "java" });
console.log(exported, found, counts, value, best, names, opened, kind, bitsPerKey);
