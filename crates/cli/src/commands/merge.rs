//! `tamis merge`: several filters into one.

use anyhow::{Result, bail};

use crate::args::Merge;
use crate::errors::failure;
use crate::{files, output};

pub(crate) fn run(args: &Merge) -> Result<()> {
    let [first, rest @ ..] = &args.filters[..] else { bail!("nothing to merge") };
    files::check_target(&args.output)?;
    let mut merged = files::open_to_change(first)?;
    for path in rest {
        let other = files::open(path, true)?;
        let done = if args.intersect { merged.intersect(&other) } else { merged.merge(&other) };
        done.map_err(|error| match error {
            tamis::Error::Mismatch { what } => {
                anyhow::anyhow!("{}: not of the same {what} as {}", path.display(), first.display())
            }
            error => failure(path.display(), &error),
        })?;
    }
    files::save(&merged, &args.output)?;
    if !args.quiet {
        let (path, keys) = (args.output.display(), merged.filter().len());
        let what = if args.intersect { "at most" } else { "with" };
        output::message(format_args!("{path}: {} {what} {keys} keys", merged.filter().kind()));
    }
    Ok(())
}
