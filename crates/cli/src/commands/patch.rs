//! `tamis patch`: makes a new filter of an old one and what changed.

use std::io::Read;

use anyhow::Result;
use serde_json::json;
use tamis::{AnyFilter, Filter, Keyed, Limits};

use crate::args::Patch;
use crate::errors::failure;
use crate::input::read_one;
use crate::{files, memory, output};

pub(crate) fn run(args: &Patch) -> Result<()> {
    files::check_stdin(&[args.base.clone(), args.delta.clone()], None)?;
    let to = args.output.as_ref().unwrap_or(&args.base);
    files::check_json(to, args.json)?;
    files::check_target(to)?;
    let base = files::read_filter(&args.base)?;
    let limit = args.max_memory.or_else(memory::available).unwrap_or(u64::MAX);
    let delta = read_one(&args.delta, |name, bytes| {
        let mut delta = Vec::new();
        let read = bytes.take(limit).read_to_end(&mut delta);
        read.map_err(|error| failure(name, &error))?;
        Ok(delta)
    })?;
    let name = files::name(&args.delta);
    let target =
        tamis_format::apply(&base, &delta, &Limits { bytes: limit }).map_err(
            |error| match error {
                tamis_format::Error::OtherBase => {
                    anyhow::anyhow!(
                        "{name}: the changes are not those of {}",
                        files::name(&args.base)
                    )
                }
                error => failure(&name, &error),
            },
        )?;
    // The checksum of the target matches, but the file that was compared may have been hostile.
    let filter = Keyed::<AnyFilter>::from_bytes(&target).map_err(|error| failure(&name, &error))?;
    files::save_bytes(&target, to)?;
    let (kind, keys, bytes) = (filter.kind(), filter.filter().len(), target.len());
    if args.json {
        return output::print_json([json!({
            "filter": kind.name(),
            "keys": keys,
            "bytes": bytes,
        })]);
    }
    if !args.quiet {
        let path = files::target_name(to);
        output::message(format_args!("{path}: {kind} with {keys} keys, {bytes} bytes"));
    }
    Ok(())
}
