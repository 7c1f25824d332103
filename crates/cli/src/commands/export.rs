//! `tamis export`: writes a filter in the format of another program.

use anyhow::{Result, bail};
use tamis_interop::parquet_file::fold_to_fpr;
use tamis_interop::{Foreign, Format};

use crate::args::Export;
use crate::errors::failure;
use crate::{files, output};

pub(crate) fn run(args: &Export) -> Result<()> {
    files::check_target(&args.output)?;
    let name = files::name(&args.filter);
    let mut filter = files::open(&args.filter, true)?;
    if let Some(fpr) = args.fpr {
        if args.to != Format::Parquet {
            bail!("--fpr requires --to parquet: other filters cannot be folded");
        }
        filter = fold_to_fpr(filter, fpr).map_err(|error| failure(&name, &error))?;
    }
    let bytes = filter.export(args.to).map_err(|error| failure(&name, &error))?;
    files::save_bytes(&bytes, &args.output)?;
    if !args.quiet {
        let target = files::target_name(&args.output);
        output::message(format_args!("{target}: {}, {} bytes", args.to, bytes.len()));
    }
    Ok(())
}
