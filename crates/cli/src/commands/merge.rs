//! `tamis merge`: several filters into one.

use anyhow::{Result, bail};

use crate::args::Merge;
use crate::input::failure;
use crate::{output, store};

pub(crate) fn run(args: &Merge) -> Result<()> {
    let [first, rest @ ..] = &args.filters[..] else { bail!("nothing to merge") };
    store::check_target(&args.output)?;
    let mut merged = store::open_to_change(first)?;
    for path in rest {
        let other = store::open(path, true)?;
        let done = if args.intersect { merged.intersect(&other) } else { merged.merge(&other) };
        done.map_err(|error| match error {
            tamis::Error::Mismatch { what } => {
                anyhow::anyhow!("{}: not of the same {what} as {}", path.display(), first.display())
            }
            error => failure(path.display(), &error),
        })?;
    }
    store::save(&merged, &args.output)?;
    if !args.quiet {
        let (path, keys) = (args.output.display(), merged.filter().len());
        let what = if args.intersect { "at most" } else { "with" };
        output::say(format_args!("{path}: {} {what} {keys} keys", merged.filter().kind()));
    }
    Ok(())
}
