// How to use the chosen kind from each language.

const TYPES = { tinyset: "TinySet", removable_tinyset: "RemovableTinySet", xorsat: "XorSat" };

function typeOf(kind) {
    return TYPES[kind] ?? kind.split("_").map((word) => word[0].toUpperCase() + word.slice(1)).join("");
}

const grouped = (number, mark = "_") => String(number).replace(/\B(?=(\d{3})+$)/g, mark);
const rate = (fpr) => String(Number(fpr.toPrecision(6)));

export const LANGUAGES = [["rust", "Rust"], ["python", "Python"], ["js", "JavaScript"], ["cli", "Command line"]];

/** Returns a program that makes and queries a filter. */
export function snippet(language, { kind, keys, fpr, capabilities, secure, rangeLength }) {
    const can = (capability) => capabilities.includes(capability);
    const form = ["window", "map", "range", "static"].find(can) ?? "insert";
    return MAKERS[language]({ kind, type: typeOf(kind), keys, fpr: rate(fpr), form, secure, can, rangeLength });
}

const MAKERS = {
    rust({ type, keys, fpr, form, secure, can, rangeLength }) {
        const builder = `Keyed::<${type}>::builder()`;
        const hash = secure ? ".secure()" : "";
        const head = `use tamis::{${["Keyed", type].sort().join(", ")}};\n\n`;
        switch (form) {
            case "static":
                return `${head}let filter = ${builder}.fpr(${fpr})${hash}.build(["apple", "pear"])?;
assert!(filter.contains("apple"));
filter.save("fruit.tamis")?;`;
            case "map":
                return `${head}let stock = ${builder}.fpr(${fpr})${hash}.build_map([("apple", 3), ("pear", 70)])?;
assert_eq!(stock.get("pear"), Some(70));`;
            case "range":
                return `${head}let times = ${builder}.fpr(${fpr}).set("range_length", ${rangeLength}).build([1000u64, 5000])?;
assert!(times.contains_range(950u64..=1050)?);
times.save("times.tamis")?;`;
            case "window":
                return `${head}let mut recent = ${builder}.capacity(${grouped(keys)}).fpr(${fpr})${hash}.empty()?;
let seen_before = recent.push("apple")?;`;
            default: {
                const made = secure
                    ? `${builder}.capacity(${grouped(keys)}).fpr(${fpr}).secure().empty()?`
                    : `Keyed::<${type}>::with_capacity(${grouped(keys)}, ${fpr})?`;
                const more = can("count") ? `\nlet copies = filter.count("apple");` : "";
                const remove = can("remove") ? `\nfilter.remove("apple");` : "";
                return `${head}let mut filter = ${made};
filter.insert("apple")?;
assert!(filter.contains("apple"));${more}${remove}
filter.save("fruit.tamis")?;`;
            }
        }
    },

    python({ kind, keys, fpr, form, secure, can, rangeLength }) {
        const hash = secure ? `, hash="secure"` : "";
        switch (form) {
            case "static":
                return `import tamis

fruit = tamis.build(["apple", "pear"], ${fpr}, kind="${kind}"${hash})
assert "apple" in fruit
fruit.save("fruit.tamis")`;
            case "map":
                return `import tamis

stock = tamis.Map({"apple": 3, "pear": 70}, ${fpr}${hash})
assert stock["pear"] == 70`;
            case "range":
                return `import tamis

times = tamis.build([1000, 5000], ${fpr}, kind="${kind}", settings={"range_length": ${rangeLength}})
assert times.contains_range(950, 1050)
times.save("times.tamis")`;
            case "window":
                return `import tamis

recent = tamis.Window(${grouped(keys)}, ${fpr}${hash})
seen_before = recent.push("apple")`;
            default: {
                const more = can("count") ? `\ncopies = fruit.count("apple")` : "";
                const remove = can("remove") ? `\nfruit.remove("apple")` : "";
                return `import tamis

fruit = tamis.Filter(${grouped(keys)}, ${fpr}, kind="${kind}"${hash})
fruit.add("apple")
assert "apple" in fruit${more}${remove}
fruit.save("fruit.tamis")`;
            }
        }
    },

    js({ kind, keys, fpr, form, secure, can, rangeLength }) {
        const hash = secure ? `, hash: "secure"` : "";
        const head = `import { Filter } from "tamis";\n\n`;
        switch (form) {
            case "static":
                return `${head}const fruit = Filter.build("${kind}", ["apple", "pear"], { fpr: ${fpr}${hash} });
fruit.contains("apple"); // true
const bytes = fruit.toBytes(); // a .tamis file`;
            case "map":
                return `${head}const stock = Filter.buildMap("${kind}", ["apple", "pear"], [3, 70], { fpr: ${fpr}${hash} });
stock.get("pear"); // 70n`;
            case "range":
                return `${head}const times = Filter.build("${kind}", [1000, 5000], { fpr: ${fpr}, settings: { range_length: ${rangeLength} } });
times.containsRange(950, 1050); // true
const bytes = times.toBytes(); // a .tamis file`;
            case "window":
                return `${head}const recent = new Filter("${kind}", { capacity: ${grouped(keys)}, fpr: ${fpr}${hash} });
const seenBefore = recent.push("apple");`;
            default: {
                const more = can("count") ? `\nfruit.count("apple"); // 1` : "";
                const remove = can("remove") ? `\nfruit.remove("apple");` : "";
                return `${head}const fruit = new Filter("${kind}", { capacity: ${grouped(keys)}, fpr: ${fpr}${hash} });
fruit.insert("apple");
fruit.contains("apple"); // true${more}${remove}
const bytes = fruit.toBytes(); // a .tamis file`;
            }
        }
    },

    cli({ kind, keys, fpr, form, secure, rangeLength }) {
        const hash = secure ? " --hash secure" : "";
        if (form === "window") return `tamis uniq --window ${keys} --fpr ${fpr} stream.txt`;
        if (form === "range") {
            return `tamis build numbers.txt --range-length ${rangeLength} --fpr ${fpr} -o numbers.tamis\ntamis query numbers.tamis --range 950..1050`;
        }
        const capacity = form === "static" || form === "map" ? "" : ` --keys ${keys}`;
        const values = form === "map" ? " --values" : "";
        const build = `tamis build keys.txt --filter ${kind}${capacity} --fpr ${fpr}${hash}${values} -o keys.tamis`;
        return `${build}\ntamis ${form === "map" ? "get" : "query"} keys.tamis probes.txt`;
    },
};
