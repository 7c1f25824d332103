//! `tamis verify`: checks filter files.

use anyhow::{Result, bail};
use serde_json::json;

use crate::args::Verify;
use crate::{files, output};

pub(crate) fn run(args: &Verify) -> Result<()> {
    files::check_stdin(&args.filters, None)?;
    let mut failed = 0;
    for path in &args.filters {
        let (name, opened) = (files::name(path), files::open(path, true));
        if args.json {
            let error = opened.as_ref().err().map(ToString::to_string);
            output::print_json([json!({ "file": name, "ok": opened.is_ok(), "error": error })])?;
        }
        match opened {
            Ok(_) if args.json => {}
            Ok(_) => output::print(format_args!("{name}: ok"))?,
            Err(error) if args.filters.len() == 1 => return Err(error),
            Err(_) if args.json => failed += 1,
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
