//! `tamis merge`: merges or intersects filters.

use anyhow::{Result, anyhow, bail};
use serde_json::json;
use tamis::{Error, Filter};

use crate::args::Merge;
use crate::errors::failure;
use crate::{files, output};

pub(crate) fn run(args: &Merge) -> Result<()> {
    let [first, rest @ ..] = &args.filters[..] else { bail!("expected at least 2 filters") };
    files::check_stdin(&args.filters, None)?;
    files::check_json(&args.output, args.json)?;
    files::check_target(&args.output)?;
    let mut merged = files::open_to_change(first, args.max_memory)?;
    for path in rest {
        let other = files::open(path, true)?;
        let done = if args.intersect { merged.intersect(&other) } else { merged.merge(&other) };
        let name = files::name(path);
        done.map_err(|error| match error {
            Error::Mismatch { what } => {
                anyhow!("{name}: the {what} differs from {}", files::name(first))
            }
            Error::Capacity { capacity } => anyhow!(
                "{name}: the union has more keys than the capacity of {capacity}; build the filters \
                 with a larger --keys"
            ),
            error => failure(name, &error),
        })?;
    }
    files::save(&merged, &args.output)?;
    let (kind, figures) = (merged.filter().kind(), merged.filter().figures());
    let (keys, rate) = (merged.filter().len(), merged.filter().fpr());
    if args.json {
        return output::print_json([json!({
            "filter": kind.name(),
            "keys": keys,
            "capacity": figures.keys,
            "bytes": figures.bytes,
            "fpr": rate,
        })]);
    }
    if !args.quiet {
        let path = files::target_name(&args.output);
        let bound = if args.intersect { "at most " } else { "" };
        let plural = if keys == 1 { "key" } else { "keys" };
        output::message(format_args!("{path}: {kind} with {bound}{keys} {plural}"));
    }
    Ok(())
}
