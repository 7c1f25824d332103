//! `tamis filters`: lists all kinds of filter.

use anyhow::Result;
use serde_json::{Map, json};
use tamis::{Copies, Goal, Kind, Settings};

use crate::args::Filters;
use crate::output;

/// The rates at which kinds are compared: the name in JSON, the name in the table, the rate.
const RATES: [(&str, &str, f64); 4] = [
    ("0.01", "1 %", 0.01),
    ("0.001", "0.1 %", 0.001),
    ("2^-8", "2^-8", 1.0 / 256.0),
    ("2^-16", "2^-16", 1.0 / 65536.0),
];
/// Large enough that rounding to whole cache lines does not matter.
const KEYS: u64 = 1_000_000;

pub(crate) fn run(args: &Filters) -> Result<()> {
    if args.json {
        return output::print_json(Kind::ALL.iter().map(|kind| {
            let bits = RATES.map(|(name, _, fpr)| (name.to_owned(), json!(bits(*kind, fpr))));
            json!({
                "name": kind.name(),
                "capabilities": super::names(*kind),
                "copies": copies(*kind),
                "settings": kind.settings().iter().map(|setting| {
                    json!({ "name": setting.name, "accepts": setting.takes })
                }).collect::<Vec<_>>(),
                "paper": kind.paper(),
                "bits_per_key": Map::from_iter(bits),
            })
        }));
    }
    let rows = Kind::ALL.iter().map(|kind| {
        let bits = RATES.map(|(_, _, fpr)| {
            bits(*kind, fpr).map_or("-".to_owned(), |bits| format!("{bits:.2}"))
        });
        let settings = kind.settings().iter().map(|setting| setting.name);
        let mut row = vec![kind.to_string()];
        row.extend(bits);
        row.push(super::names(*kind).join(" "));
        row.push(copies(*kind).to_owned());
        row.push(settings.collect::<Vec<_>>().join(" "));
        row.push(kind.paper().to_owned());
        row
    });
    let mut head = vec!["filter"];
    head.extend(RATES.map(|(_, name, _)| name));
    head.extend(["capabilities", "copies", "settings", "paper"]);
    output::print(output::table(&head, &[1, 2, 3, 4], rows.collect()))?;
    let settings = Kind::ALL.iter().flat_map(|kind| {
        let line = |setting: &tamis::Setting| {
            format!("  --filter {kind} --set {}=…: {}\n", setting.name, setting.takes)
        };
        kind.settings().iter().map(line).collect::<Vec<_>>()
    });
    let settings: String = settings.collect();
    output::print(format_args!(
        "\nBits per key at each false positive rate, for {KEYS} keys.\n\
         Copies of a key: `free` take no capacity, `kept` take as much as a new key, and of `few` the \
         filter holds\nonly some, for which `--distinct` builds it.\nSettings:\n{}",
        settings.trim_end()
    ))
}

/// Returns what a kind does with repeated keys, in a word.
fn copies(kind: Kind) -> &'static str {
    match kind.copies() {
        Copies::Kept => "kept",
        Copies::Bounded => "few",
        _ => "free",
    }
}

fn bits(kind: Kind, fpr: f64) -> Option<f64> {
    let goal = Goal::KeysFpr { keys: KEYS, fpr };
    kind.plan(goal, &Settings::default()).ok().map(|figures| figures.bits_per_key())
}
