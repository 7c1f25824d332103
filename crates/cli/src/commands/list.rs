//! `tamis list`: prints the fingerprints of a filter.

use anyhow::Result;
use serde_json::json;

use crate::args::List;
use crate::errors::failure;
use crate::{files, output};

/// Bytes that are collected before they are printed.
const BLOCK: usize = 1 << 16;

pub(crate) fn run(args: &List) -> Result<()> {
    let filter = files::open(&args.filter, true)?;
    let failed = |error| failure(files::name(&args.filter), &error);
    let digits = filter.filter().fingerprint_bits().map_err(failed)?.div_ceil(4) as usize;
    let mut lines = Vec::new();
    for (fingerprint, count) in filter.list().map_err(failed)? {
        let fingerprint = format!("{fingerprint:0digits$x}");
        if args.json {
            output::push_line(&mut lines, json!({ "fingerprint": fingerprint, "count": count }));
        } else {
            output::push_line(&mut lines, format_args!("{fingerprint}\t{count}"));
        }
        if lines.len() >= BLOCK {
            output::write(&lines)?;
            lines.clear();
        }
    }
    output::write(&lines)
}
