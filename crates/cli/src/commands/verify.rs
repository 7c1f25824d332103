//! `tamis verify`: is every byte as it was written?

use anyhow::{Result, bail};

use crate::args::Verify;
use crate::{files, output};

pub(crate) fn run(args: &Verify) -> Result<()> {
    let mut bad = 0;
    for path in &args.filters {
        match files::open(path, true) {
            Ok(_) => output::print(format_args!("{}: ok", path.display()))?,
            Err(error) if args.filters.len() == 1 => return Err(error),
            Err(error) => {
                bad += 1;
                output::print_error(error);
            }
        }
    }
    if bad > 0 {
        bail!("{bad} of {} files are not as they should be", args.filters.len());
    }
    Ok(())
}
