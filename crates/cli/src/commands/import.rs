//! `tamis import`: reads a filter of another program.

use anyhow::{Result, anyhow, bail};
use tamis::{AnyFilter, Filter, Keyed};
use tamis_interop::parquet_file::ParquetFile;
use tamis_interop::{Foreign, Format};

use crate::args::Import;
use crate::errors::failure;
use crate::number::show_rate;
use crate::{files, output};

pub(crate) fn run(args: &Import) -> Result<()> {
    files::check_target(&args.output)?;
    let filter = read(args)?;
    files::save(&filter, &args.output)?;
    if !args.quiet {
        output::message(format_args!(
            "{}: {}, about {} keys in {} bytes, {} false positives expected",
            files::target_name(&args.output),
            filter.kind(),
            filter.filter().len(),
            filter.bytes(),
            show_rate(filter.fpr()),
        ));
    }
    Ok(())
}

fn read(args: &Import) -> Result<Keyed<AnyFilter>> {
    let name = files::name(&args.file);
    if args.from.is_none() && files::is_parquet(&args.file) {
        let mut file = ParquetFile::open(&args.file).map_err(|error| failure(&name, &error))?;
        let Some(column) = &args.column else {
            bail!("{name}: choose a column with --column: {}", file.with_filters());
        };
        let column = file.column(column).map_err(|error| failure(&name, &error))?;
        let filter = match args.row_group {
            Some(group) => file.filter(group, column).transpose().unwrap_or_else(|| {
                let what = format!("row group {group} has no filter of the column");
                Err(tamis_interop::Error::Parquet(what))
            }),
            None => file.union(column),
        };
        return filter.map_err(|error| failure(&name, &error));
    }
    if args.column.is_some() {
        bail!("{name}: --column requires a Parquet file");
    }
    let bytes = files::read(&args.file)?;
    let format = args.from.map_or_else(|| recognise(&bytes), Ok);
    let format = format.map_err(|error| anyhow!("{name}: {error}"))?;
    Keyed::import(format, &bytes).map_err(|error| failure(&name, &error))
}

/// Returns the one format whose structure the bytes have.
fn recognise(bytes: &[u8]) -> Result<Format> {
    let found = Format::recognise(bytes);
    let names = |formats: &[Format]| {
        formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
    };
    match found[..] {
        [format] => Ok(format),
        [] => bail!(
            "the format is not recognised; if it is one of these, state it with --from: {}",
            names(Format::ALL)
        ),
        _ => bail!("the bytes fit several formats; state one with --from: {}", names(&found)),
    }
}
