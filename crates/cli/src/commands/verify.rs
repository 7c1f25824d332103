//! `tamis verify`: checks filter files.

use anyhow::{Result, bail};

use crate::args::Verify;
use crate::{files, output};

pub(crate) fn run(args: &Verify) -> Result<()> {
    let mut failed = 0;
    for path in &args.filters {
        match files::open(path, true) {
            Ok(_) => output::print(format_args!("{}: ok", path.display()))?,
            Err(error) if args.filters.len() == 1 => return Err(error),
            Err(error) => {
                failed += 1;
                output::print_error(error);
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} files failed the check", args.filters.len());
    }
    Ok(())
}
