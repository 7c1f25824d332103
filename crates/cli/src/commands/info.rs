//! `tamis info`: describes a filter file.

use anyhow::Result;
use serde_json::{Map, Value, json};
use tamis::{AnyFilter, Build, Filter, Kind, SettingValue, Shape, ValueType};

use crate::args::Info;
use crate::number::{show_rate, show_size};
use crate::{files, output};

pub(crate) fn run(args: &Info) -> Result<()> {
    if files::is_parquet(&args.filter) {
        return super::parquet::info(args);
    }
    let keyed = files::open(&args.filter, true)?;
    let (filter, hash) = (keyed.filter(), keyed.hasher().id());
    let (kind, figures) = (filter.kind(), filter.figures());
    let (keys, entries) = keys_and_entries(filter);
    let distinct = filter.cardinality().ok();
    let bits = super::bits_per_key(figures.bytes, keys);
    let efficiency = super::efficiency(bits, filter.fpr());
    if args.json {
        let parameters =
            filter.parameters().into_iter().map(|(name, value)| (name.to_owned(), number(value)));
        let mut object = json!({
            "filter": kind.name(),
            "keys": keys,
            "capacity": figures.keys,
            "bytes": figures.bytes,
            "bits_per_key": bits,
            "fpr": filter.fpr(),
            "promised_fpr": figures.fpr,
            "efficiency": efficiency,
            "parameters": Map::from_iter(parameters),
            "hash": hash.name(),
            "key_form": keyed.key_forms().to_string(),
            "capabilities": super::names(kind),
        });
        let map = filter.as_map().ok().map(tamis::Map::value_type);
        let optional = [
            ("entries", entries.map(Value::from)),
            ("distinct_keys", distinct.map(Value::from)),
            ("value_bits", filter.value_bits().ok().map(Value::from)),
            ("value_type", map.map(|values| type_name(values).into())),
            ("distinct_values", map.and_then(distinct_values).map(Value::from)),
            ("range_length", filter.as_range().ok().map(|range| range.range_length().into())),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                object[name] = value;
            }
        }
        return output::print_json([object]);
    }
    let about = if entries.is_some() { "about " } else { "" };
    let mut lines = vec![("filter", kind.to_string()), ("keys", format!("{about}{keys}"))];
    if let Some(entries) = entries {
        lines.push(("entries", format!("{entries} distinct fingerprints")));
    }
    if let Some(distinct) = distinct {
        lines.push(("distinct keys", format!("about {distinct:.0}")));
    }
    let parameters = filter.parameters().into_iter();
    let parameters: Vec<_> = parameters.map(|(name, value)| format!("{name}={value}")).collect();
    lines.extend([
        ("capacity", figures.keys.to_string()),
        ("bytes", format!("{} ({})", figures.bytes, show_size(figures.bytes))),
        ("bits per key", bits.map_or("-".into(), |bits| format!("{bits:.2}"))),
        ("false positives", format!("{} now", show_rate(filter.fpr()))),
        ("", format!("{} promised, at capacity{}", show_rate(figures.fpr), bound(kind))),
        ("efficiency", efficiency.map_or("-".into(), |share| format!("{share:.3} of 1"))),
        ("parameters", parameters.join(", ")),
        ("hash", hash.name().into()),
        ("key form", keyed.key_forms().to_string()),
        ("capabilities", super::names(kind).join(", ")),
    ]);
    if let Ok(range) = filter.as_range() {
        let length = range.range_length();
        lines.push(("range length", format!("{length}: the promised rate is that of such ranges")));
    }
    if let Ok(map) = filter.as_map() {
        lines.push(("value bits", map.value_bits().to_string()));
        lines.push(("values", map.value_type().to_string()));
    }
    let lines: Vec<_> = lines.iter().map(|(name, value)| format!("{name:<17}{value}")).collect();
    output::print(lines.join("\n"))
}

/// Returns the number of keys and, for a kind that stores equal fingerprints once, the entries.
fn keys_and_entries(filter: &AnyFilter) -> (u64, Option<u64>) {
    let entries = filter.len();
    match filter {
        AnyFilter::TinySet(filter) => (keys_of(filter.shape(), entries), Some(entries)),
        AnyFilter::HashCompaction(filter) => (keys_of(filter.shape(), entries), Some(entries)),
        _ => (entries, None),
    }
}

/// Estimates the keys that make this many entries. A new key is dropped with the probability of a false
/// positive, so an entry takes `1 / (1 - fpr)` keys at the rate that the filter has by then.
fn keys_of(shape: &impl Shape, entries: u64) -> u64 {
    const STEPS: u64 = 64;
    let keys = |step: u64| 1.0 / (1.0 - shape.fpr_at(entries * (2 * step + 1) / (2 * STEPS)));
    let mean = (0..STEPS).map(keys).sum::<f64>() / STEPS as f64;
    (entries as f64 * mean).round() as u64
}

/// Returns what the rate of an exact kind is.
fn bound(kind: Kind) -> &'static str {
    if kind.is_exact() { ": keys x 2^-128, with a random secret seed" } else { "" }
}

/// Returns the name of a map's type of values.
fn type_name(values: ValueType) -> &'static str {
    match values {
        ValueType::Integers { .. } => "integers",
        ValueType::Bytes { .. } => "bytes",
    }
}

/// Returns the number of distinct byte strings of a map.
fn distinct_values(values: ValueType) -> Option<u64> {
    match values {
        ValueType::Integers { .. } => None,
        ValueType::Bytes { distinct } => Some(distinct),
    }
}

/// Returns a parameter as JSON: numbers as numbers.
fn number(value: SettingValue) -> Value {
    match value {
        SettingValue::Integer(number) => number.into(),
        SettingValue::Real(number) => number.into(),
        other => other.to_string().into(),
    }
}
