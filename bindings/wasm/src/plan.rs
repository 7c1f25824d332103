//! Planning: which kind suits a goal.

use js_sys::{Array, Uint8Array};
use tamis::plan::{
    MAX_BYTES, MAX_KEYS, recommend, recommend_distinct, recommend_ranges, recommend_unknown,
};
use tamis::{Advice, Capability, Figures, Goal, Kind, Merit, UnknownName};
use wasm_bindgen::prelude::*;

use crate::errors::{invalid, raise};
use crate::options::{fields, number as read_number, settings, whole};
use crate::{number, object, strings};

/// The longest range that a `number` states exactly.
const MAX_RANGE: u64 = (1 << 53) - 1;

/// Returns what a shape promises, as an object.
pub(crate) fn figures(figures: &Figures) -> Vec<(&'static str, JsValue)> {
    vec![
        ("keys", number(figures.keys)),
        ("fpr", figures.fpr.into()),
        ("bytes", number(figures.bytes)),
        ("bitsPerKey", figures.bits_per_key().into()),
        ("queryCost", figures.query_cost.into()),
    ]
}

fn capabilities(kind: Kind) -> JsValue {
    strings(kind.capabilities().iter().map(|capability| capability.name()))
}

fn advice(advice: &Advice) -> JsValue {
    let merits = advice.merits.iter().map(|merit| match merit {
        Merit::OnlyChoice => "only choice",
        Merit::LowestRate => "lowest rate",
        Merit::Smallest => "smallest",
        Merit::LeastWork => "least work",
        _ => "best balance",
    });
    let mut properties = vec![("kind", advice.kind.name().into())];
    properties.extend(figures(&advice.figures));
    properties.push(("capabilities", capabilities(advice.kind)));
    properties.push(("merits", strings(merits)));
    object(&properties)
}

/// Ranks the kinds that meet a goal, best first. The goal states two of `keys`, `fpr` and `bytes`, or `fpr`
/// alone for a set of unknown size; `needs` names capabilities; `distinct` states that each key is
/// inserted once; `rangeLength` asks for kinds that answer ranges of up to that many integers; `kind` plans
/// that kind alone, with `settings`.
#[wasm_bindgen]
pub fn plan(
    #[wasm_bindgen(unchecked_param_type = "Goal")] goal: &JsValue,
) -> Result<Ranking, JsValue> {
    let names = ["keys", "fpr", "bytes", "needs", "distinct", "rangeLength", "kind", "settings"];
    let get = fields(goal, &names)?;
    let keys = whole(get("keys")?, "keys", MAX_KEYS)?;
    let bytes = whole(get("bytes")?, "bytes", MAX_BYTES)?;
    let fpr = read_number(get("fpr")?, "fpr")?;
    let needs = get("needs")?;
    let needs = needs.dyn_ref::<Array>().map(Array::to_vec).unwrap_or_default();
    let needs: Result<Vec<Capability>, UnknownName> =
        needs.iter().map(|need| need.as_string().unwrap_or_default().parse()).collect();
    let needs = needs.map_err(|error| raise(error.into()))?;
    let kind = get("kind")?.as_string();
    let goal = match (keys, fpr, bytes) {
        (Some(keys), fpr, None) => Goal::KeysFpr { keys, fpr: fpr.unwrap_or(0.01) },
        (Some(keys), None, Some(bytes)) => Goal::KeysBytes { keys, bytes },
        (None, Some(fpr), Some(bytes)) => Goal::BytesFpr { bytes, fpr },
        (None, Some(fpr), None) if kind.is_none() => {
            let ranked = recommend_unknown(fpr, &needs).map_err(raise)?;
            return Ok(ranking(&ranked));
        }
        _ => {
            return Err(invalid(
                "give two of keys, fpr and bytes, or fpr alone for an unknown number of keys",
            ));
        }
    };
    if let Some(kind) = kind {
        let kind: Kind = kind.parse().map_err(|error: UnknownName| raise(error.into()))?;
        let planned = kind.plan(goal, &settings(&get("settings")?)?).map_err(raise)?;
        let mut properties = vec![("kind", JsValue::from_str(kind.name()))];
        properties.extend(figures(&planned));
        properties.push(("capabilities", capabilities(kind)));
        properties.push(("merits", Array::new().into()));
        return Ok([object(&properties)].into_iter().collect::<Array>().unchecked_into());
    }
    let range_length = whole(get("rangeLength")?, "rangeLength", MAX_RANGE)?;
    let ranked = match (range_length, get("distinct")?.is_truthy()) {
        (Some(length), _) => recommend_ranges(goal, &needs, length),
        (None, true) => recommend_distinct(goal, &needs),
        (None, false) => recommend(goal, &needs),
    };
    Ok(ranking(&ranked.map_err(raise)?))
}

fn ranking(ranked: &[Advice]) -> Ranking {
    ranked.iter().map(advice).collect::<Array>().unchecked_into()
}

/// Lists the kinds of filter: name, capabilities, paper, settings.
#[wasm_bindgen]
pub fn kinds() -> KindList {
    let kinds = Kind::ALL.iter().map(|kind| {
        let settings = kind.settings().iter().map(|setting| {
            object(&[("name", setting.name.into()), ("takes", setting.takes.into())])
        });
        object(&[
            ("name", kind.name().into()),
            ("capabilities", capabilities(*kind)),
            ("paper", kind.paper().into()),
            ("settings", settings.collect::<Array>().into()),
            ("slowToBuild", kind.is_slow_to_build().into()),
        ])
    });
    kinds.collect::<Array>().unchecked_into()
}

/// Reads what the first bytes of a `.tamis` file state, without the rest.
#[wasm_bindgen]
pub fn peek(bytes: &Uint8Array) -> Result<FileInfo, JsValue> {
    // The header and the first entries of the table of sections.
    const HEAD: u32 = 4096;
    let head = bytes.subarray(0, bytes.length().min(HEAD)).to_vec();
    let info = tamis::peek(&head).map_err(raise)?;
    let properties = [
        ("kind", info.kind.name().into()),
        ("hash", info.hash.name().into()),
        ("keys", number(info.keys)),
        ("keyForms", info.key_forms.to_string().into()),
        ("bytes", number(info.serialized_len)),
    ];
    Ok(object(&properties).unchecked_into())
}

#[wasm_bindgen]
extern "C" {
    /// An array of `Advice`.
    #[wasm_bindgen(typescript_type = "Advice[]")]
    pub type Ranking;
    /// An array of `KindInfo`.
    #[wasm_bindgen(typescript_type = "KindInfo[]")]
    pub type KindList;
    /// What a file states.
    #[wasm_bindgen(typescript_type = "FileInfo")]
    pub type FileInfo;
}

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** The name of a kind of filter, as on the command line; `kinds()` lists them. */
export type KindName = string;
/** A key: a string by its UTF-8 bytes, a Uint8Array by its bytes, an integer by its value. */
export type Key = string | number | bigint | Uint8Array;
/** Many keys. `lines` is a text with one key per line. */
export type Keys =
    | readonly Key[] | BigUint64Array | BigInt64Array | Uint32Array | Int32Array
    | { readonly lines: Uint8Array };
/** Something that a kind can do beyond answering queries. */
export type Capability =
    | "insert" | "remove" | "count" | "merge" | "set_ops" | "list" | "resize" | "overfill" | "grow"
    | "window" | "adapt" | "static" | "map" | "deny" | "range";
/** How a filter is made. Give at most one of `fpr`, `bytes` and `bitsPerKey`; the default is an fpr of 0.01. */
export interface Options {
    /** The number of keys that the filter is made for. */
    capacity?: number;
    /** The false positive rate, in (0, 1). */
    fpr?: number;
    /** The size in bytes; the rate is then as low as possible. */
    bytes?: number;
    /** The size in bits per key; the rate is then as low as possible. */
    bitsPerKey?: number;
    /** Settings of the kind, by name. */
    settings?: Record<string, number | string>;
    /** `secure` is for keys that an adversary may choose. */
    hash?: "fast" | "secure";
    /** A seed of 128 bits; random by default. */
    seed?: bigint;
}
/** What a filter must meet: two of `keys`, `fpr` and `bytes`, or `fpr` alone for an unknown number of keys. */
export interface Goal {
    keys?: number;
    fpr?: number;
    bytes?: number;
    /** The capabilities that are needed. */
    needs?: readonly Capability[];
    /** Each key is inserted once. */
    distinct?: boolean;
    /** The filter answers ranges of up to this many integers at its rate. */
    rangeLength?: number;
    /** Plans this kind alone. */
    kind?: KindName;
    /** Settings of `kind`. */
    settings?: Record<string, number | string>;
}
/** What a filter promises. */
export interface Figures {
    keys: number;
    fpr: number;
    bytes: number;
    bitsPerKey: number;
    /** The work of a query, in random reads of a cache line. */
    queryCost: number;
}
/** A kind that meets a goal. */
export interface Advice extends Figures {
    kind: KindName;
    capabilities: Capability[];
    /** In what it is the best of the list. */
    merits: ("only choice" | "lowest rate" | "smallest" | "least work" | "best balance")[];
}
/** A kind of filter. */
export interface KindInfo {
    name: KindName;
    capabilities: Capability[];
    paper: string;
    settings: { name: string; takes: string }[];
    /** Building takes minutes from 10^5 keys on. */
    slowToBuild: boolean;
}
/** What the header of a `.tamis` file states. */
export interface FileInfo {
    kind: KindName;
    hash: string;
    keys: number;
    keyForms: string;
    /** The length of the file. */
    bytes: number;
}
"#;
