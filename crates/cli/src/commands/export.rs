//! `tamis export`: writes a filter in the format of another program, or the Bloom filter inside one.

use anyhow::{Result, bail};
use tamis::{AnyFilter, Keyed};
use tamis_interop::parquet_file::fold_to_fpr;
use tamis_interop::{Foreign, Format};

use crate::args::{Export, ExportTo};
use crate::errors::failure;
use crate::{files, output};

pub(crate) fn run(args: &Export) -> Result<()> {
    files::check_target(&args.output)?;
    let name = files::name(&args.filter);
    let mut filter = files::open(&args.filter, true)?;
    if args.fpr.is_some() && args.to != ExportTo::Format(Format::Parquet) {
        bail!("--fpr requires --to parquet: other filters cannot be folded");
    }
    let (what, bytes) = match args.to {
        ExportTo::Bloom => {
            let plain = to_bloom(&filter, &name)?;
            files::save(&plain, &args.output)?;
            ("bloom", plain.serialized_len())
        }
        ExportTo::Format(format) => {
            if let Some(fpr) = args.fpr {
                filter = fold_to_fpr(filter, fpr).map_err(|error| failure(&name, &error))?;
            }
            let bytes = filter.export(format).map_err(|error| failure(&name, &error))?;
            files::save_bytes(&bytes, &args.output)?;
            (format.name(), bytes.len() as u64)
        }
    };
    if !args.quiet {
        let target = files::target_name(&args.output);
        output::message(format_args!("{target}: {what}, {bytes} bytes"));
    }
    Ok(())
}

/// Returns the plain Bloom filter inside a counting filter.
fn to_bloom(filter: &Keyed<AnyFilter>, name: &str) -> Result<Keyed<AnyFilter>> {
    let plain = match filter.filter() {
        AnyFilter::CountingBloom(counting) => counting.to_bloom(),
        AnyFilter::SpectralBloom(counting) => counting.to_bloom(),
        AnyFilter::RemovableSpectralBloom(counting) => counting.to_bloom(),
        other => bail!(
            "{name}: {} has no Bloom filter inside; counting_bloom, spectral_bloom and removable_spectral_bloom have",
            other.kind()
        ),
    };
    let plain = plain.map_err(|error| failure(name, &error))?;
    let mut plain = Keyed::new(*filter.hasher(), AnyFilter::from(plain));
    plain.record_key_forms(filter.key_forms());
    Ok(plain)
}
