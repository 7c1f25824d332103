//! `tamis merge`: merges or intersects filters.

use anyhow::{Result, anyhow, bail};
use serde_json::json;
use tamis::{AnyFilter, Capability, Error, Filter, Keyed};

use crate::args::Merge;
use crate::errors::failure;
use crate::number::show_rate;
use crate::{files, output};

pub(crate) fn run(args: &Merge) -> Result<()> {
    let [first, rest @ ..] = &args.filters[..] else { bail!("expected at least 2 filters") };
    files::check_stdin(&args.filters, None)?;
    files::check_json(&args.output, args.json)?;
    files::check_target(&args.output)?;
    let mut merged = files::open_to_change(first, args.max_memory)?;
    let before = merged.filter().figures();
    for path in rest {
        let other = files::open(path, true)?;
        let done = match args {
            Merge { intersect: true, .. } => merged.intersect(&other),
            Merge { force: true, .. } => merged.force_merge(&other),
            _ => merged.merge(&other),
        };
        let name = files::name(path);
        done.map_err(|error| match error {
            Error::Mismatch { what } => {
                anyhow!("{name}: the {what} differs from {}", files::name(first))
            }
            Error::Capacity { capacity } => over_capacity(&name, capacity, &mut merged, &other),
            error => failure(name, &error),
        })?;
    }
    files::save(&merged, &args.output)?;
    let (kind, figures) = (merged.filter().kind(), merged.filter().figures());
    let (keys, rate) = (merged.filter().len(), merged.filter().fpr());
    // Only a union that `--force` allows.
    let forced = keys > before.keys;
    if args.json {
        return output::print_json([json!({
            "filter": kind.name(),
            "keys": keys,
            "capacity": figures.keys,
            "bytes": figures.bytes,
            "fpr": rate,
            "forced": forced,
        })]);
    }
    if !args.quiet {
        let path = files::target_name(&args.output);
        let bound = match (args.intersect, forced) {
            (true, _) => "at most ",
            (_, true) => "about ",
            _ => "",
        };
        let plural = if keys == 1 { "key" } else { "keys" };
        output::message(format_args!("{path}: {kind} with {bound}{keys} {plural}"));
        if forced {
            let (capacity, now, planned) = (before.keys, show_rate(rate), show_rate(before.fpr));
            output::message(format_args!(
                "warning: the capacity was {capacity}; the false positive rate is now about {now}, not \
                 {planned}"
            ));
        }
    }
    Ok(())
}

/// Returns the error of a union that exceeds the capacity. Merges anyway, to state what `--force` would give.
fn over_capacity(
    name: &str,
    capacity: u64,
    merged: &mut Keyed<AnyFilter>,
    other: &Keyed<AnyFilter>,
) -> anyhow::Error {
    if merged.force_merge(other).is_err() {
        return anyhow!(
            "{name}: the union has more keys than the capacity of {capacity}; build the filters with a \
             larger --keys{}",
            match merged.kind().can(Capability::Resize) {
                true => ", or enlarge the first with `tamis resize`",
                false => "",
            }
        );
    }
    let (keys, rate) = (merged.filter().len(), show_rate(merged.filter().fpr()));
    anyhow!(
        "{name}: the union has about {keys} keys, more than the capacity of {capacity}; build the filters \
         with a larger --keys, or accept a false positive rate of about {rate} with --force"
    )
}
