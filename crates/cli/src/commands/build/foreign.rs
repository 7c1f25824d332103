//! `tamis build --format`: builds a filter of another program.

use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use tamis::{BuildOptions, KeyHash};
use tamis_interop::{Foreign, Format, KeyType};

use super::{Read, changed, place, report};
use crate::args::Build;
use crate::hashing::{Pool, Runs, Tally, hash_typed};
use crate::input::{Batch, Keys};
use crate::{files, progress};

pub(super) fn build(args: &Build, format: Format) -> Result<()> {
    let start = Instant::now();
    let fallback = if format == Format::Rbloom { KeyType::Hash128 } else { KeyType::Utf8 };
    let key_type = args.key_type.unwrap_or(fallback);
    let keys = Keys::open(&args.keys_from, args.form.separator(), true)?;
    let (hasher, threads) = (format.hasher(), args.form.threads());
    let hash = |batch: &Batch<'_>| {
        let mut hashes = Vec::new();
        hash_typed(batch, &hasher, key_type, false, &mut hashes)?;
        let tally = Tally::of(&hashes);
        anyhow::Ok((hashes, tally))
    };
    let mut counted = Tally::default();
    let bar = progress::bar("counting", &keys, args.quiet);
    keys.each_batch(threads, hash, |hashed| {
        counted.add(hashed?.1);
        Ok(())
    })?;
    bar.finish_and_clear();
    let capacity = args.keys.unwrap_or(counted.keys);

    let pool = Pool::<Vec<KeyHash>>::default();
    let built = keys.pull(threads, hash, |next| {
        let mut next = || next()?.transpose();
        let mut runs = Runs::new(&mut next, &pool);
        let fpr = args.fpr.unwrap_or(0.01);
        let built = format.build(capacity, fpr, &mut runs, &BuildOptions::new());
        built.map(|filter| (filter, runs.tally))
    });
    let (filter, tally) = built.map_err(|error| match error {
        tamis_interop::Error::Filter(tamis::Error::Capacity { capacity }) => {
            anyhow!("there are more keys than the {capacity} of --keys")
        }
        tamis_interop::Error::Filter(tamis::Error::Source(error)) => anyhow!("{error}"),
        error => error.into(),
    })?;
    if tally != counted {
        return Err(changed());
    }
    if !args.no_verify {
        let check = |batch: &Batch<'_>| {
            let (hashes, _) = hash(batch)?;
            let mut answers = vec![false; hashes.len()];
            filter.contains_hashes(&hashes, &mut answers);
            anyhow::Ok(answers.iter().position(|found| !found).map(|index| place(batch, index)))
        };
        keys.each_batch(threads, check, |denied| match denied? {
            Some(place) => bail!(
                "{place}: the filter denies this key; this is a fault of tamis, nothing was saved"
            ),
            None => Ok(()),
        })?;
    }
    files::save_bytes(&filter.export(format)?, &args.output)?;
    let read = Read { keys: tally.keys, duplicates: None, denied: None };
    report(args, filter.filter(), &read, start.elapsed().as_secs_f64())
}
