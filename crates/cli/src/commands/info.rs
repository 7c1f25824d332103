//! `tamis info`: describes a filter file.

use anyhow::Result;
use serde_json::json;
use tamis::Filter;

use crate::args::Info;
use crate::number::{show_rate, show_size};
use crate::{files, output};

pub(crate) fn run(args: &Info) -> Result<()> {
    let keyed = files::open(&args.filter, true)?;
    let (filter, hash) = (keyed.filter(), keyed.hasher().id());
    let (kind, figures) = (filter.kind(), filter.figures());
    let bits = super::bits_per_key(figures.bytes, filter.len());
    let efficiency = super::efficiency(bits, filter.fpr());
    if args.json {
        let mut object = json!({
            "filter": kind.name(),
            "keys": filter.len(),
            "bytes": figures.bytes,
            "bits_per_key": bits,
            "fpr": filter.fpr(),
            "efficiency": efficiency,
            "hash": hash.name(),
            "capabilities": super::names(kind),
        });
        if let Ok(bits) = filter.value_bits() {
            object["value_bits"] = bits.into();
        }
        return output::print_json([object]);
    }
    let mut lines = vec![
        ("filter", kind.to_string()),
        ("keys", filter.len().to_string()),
        ("capacity", figures.keys.to_string()),
        ("bytes", format!("{} ({})", figures.bytes, show_size(figures.bytes))),
        ("bits per key", bits.map_or("-".into(), |bits| format!("{bits:.2}"))),
        ("false positives", format!("{} now", show_rate(filter.fpr()))),
        ("", format!("{} at capacity", show_rate(figures.fpr))),
        ("efficiency", efficiency.map_or("-".into(), |share| format!("{share:.3} of 1"))),
        ("hash", hash.name().into()),
        ("capabilities", super::names(kind).join(", ")),
    ];
    if let Ok(distinct) = filter.cardinality() {
        lines.insert(2, ("distinct keys", format!("about {distinct:.0}")));
    }
    if let Ok(bits) = filter.value_bits() {
        lines.push(("value bits", bits.to_string()));
    }
    let lines: Vec<_> = lines.iter().map(|(name, value)| format!("{name:<17}{value}")).collect();
    output::print(lines.join("\n"))
}
