//! `tamis diff`: writes what changed from one filter to another.

use anyhow::Result;
use serde_json::json;

use crate::args::Diff;
use crate::errors::failure;
use crate::{files, output};

/// Records are short gaps and XORed words; higher levels take longer and save less than 1 %.
const LEVEL: i32 = 9;

pub(crate) fn run(args: &Diff) -> Result<()> {
    files::check_stdin(&[args.base.clone(), args.target.clone()], None)?;
    files::check_json(&args.output, args.json)?;
    files::check_target(&args.output)?;
    let (base, target) = (files::read_filter(&args.base)?, files::read_filter(&args.target)?);
    let name = files::name(&args.target);
    let delta = tamis_format::diff(&base, &target).map_err(|error| failure(&name, &error))?;
    let delta = zstd::encode_all(&delta[..], LEVEL).map_err(|error| failure(&name, &error))?;
    files::save_bytes(&delta, &args.output)?;
    let share = delta.len() as f64 / target.len() as f64;
    if args.json {
        return output::print_json([json!({
            "base_bytes": base.len(),
            "target_bytes": target.len(),
            "bytes": delta.len(),
            "share": share,
        })]);
    }
    if !args.quiet {
        let path = files::target_name(&args.output);
        let (bytes, percent) = (delta.len(), 100.0 * share);
        output::message(format_args!("{path}: {bytes} bytes, {percent:.2} % of {name}"));
    }
    Ok(())
}
