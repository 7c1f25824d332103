//! `tamis merge`: merges or intersects filters.

use anyhow::{Result, bail};
use tamis::Filter;

use crate::args::Merge;
use crate::errors::failure;
use crate::{files, output};

pub(crate) fn run(args: &Merge) -> Result<()> {
    let [first, rest @ ..] = &args.filters[..] else { bail!("expected at least 2 filters") };
    files::check_target(&args.output)?;
    let mut merged = files::open_to_change(first)?;
    for path in rest {
        let other = files::open(path, true)?;
        let done = if args.intersect { merged.intersect(&other) } else { merged.merge(&other) };
        done.map_err(|error| match error {
            tamis::Error::Mismatch { what } => {
                anyhow::anyhow!("{}: the {what} differs from {}", path.display(), first.display())
            }
            error => failure(path.display(), &error),
        })?;
    }
    files::save(&merged, &args.output)?;
    if !args.quiet {
        let (path, keys) = (args.output.display(), merged.filter().len());
        let bound = if args.intersect { "at most " } else { "" };
        output::message(format_args!("{path}: {}, {bound}{keys} keys", merged.filter().kind()));
    }
    Ok(())
}
