//! `tamis resize`: changes the capacity of a filter.

use anyhow::{Result, anyhow};
use serde_json::json;
use tamis::{Capability, Error, Filter};

use crate::args::Resize;
use crate::errors::failure;
use crate::number::show_rate;
use crate::{files, memory, output};

pub(crate) fn run(args: &Resize) -> Result<()> {
    let to = args.output.as_ref().unwrap_or(&args.filter);
    files::check_json(to, args.json)?;
    files::check_target(to)?;
    let name = files::name(&args.filter);
    let mut filter = files::open_to_change(&args.filter, args.max_memory)?;
    super::require(filter.kind(), Capability::Resize, &args.filter)?;
    // The new table is at most as many times larger as it has more slots, rounded up to a power of 2.
    let before = filter.figures();
    let factor = args.keys.div_ceil(before.keys.max(1)).saturating_mul(2);
    if args.keys > before.keys {
        memory::check_memory(before.bytes.saturating_mul(factor), args.max_memory)
            .map_err(|error| failure(&name, error.as_ref()))?;
    }
    let len = filter.filter().len();
    filter.resize(args.keys, args.fpr).map_err(|error| match error {
        Error::Capacity { capacity } if capacity < len => {
            anyhow!("{name}: the filter holds {len} keys, more than a capacity of {capacity}")
        }
        error => failure(&name, &error),
    })?;
    files::save(&filter, to)?;
    let (kind, figures) = (filter.kind(), filter.figures());
    if args.json {
        return output::print_json([json!({
            "filter": kind.name(),
            "keys": len,
            "capacity": figures.keys,
            "bytes": figures.bytes,
            "fpr": filter.fpr(),
            "promised_fpr": figures.fpr,
        })]);
    }
    if !args.quiet {
        output::message(format_args!(
            "{}: {kind} with {len} of {} keys, {} bytes, {} false positives at capacity",
            files::target_name(to),
            figures.keys,
            figures.bytes,
            show_rate(figures.fpr),
        ));
    }
    Ok(())
}
