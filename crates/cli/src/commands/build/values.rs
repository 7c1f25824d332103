//! `tamis build --values`: a map from lines of a key, a tab and a value.

use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use tamis::{AnyFilter, Capability, Error, KeyHash, Kind};

use super::{Pass, Read, changed, hasher, kind_with, save, sizing};
use crate::args::Build;
use crate::entries::{EntryRuns, each_entry, find, split, tally};
use crate::errors::failure;
use crate::hashing::{Pool, Tally};
use crate::input::{Batch, Keys};
use crate::progress;

type Entries = Vec<(KeyHash, u64)>;

pub(super) fn build(args: &Build) -> Result<()> {
    let start = Instant::now();
    args.form.require_lines()?;
    let kind = kind_with(args, Capability::Map)?;
    let keys = Keys::open(&args.keys_from, args.form.separator(), true)?;
    let hasher = hasher(args)?;
    let pass = Pass { args, keys: &keys, hasher: &hasher };
    let (filter, tally) = solve(&pass, kind)?;
    if !args.no_verify {
        verify(&pass, &filter, tally)?;
    }
    let read = Read::of_static(&filter, tally.keys, None);
    save(args, hasher, filter, read, start)
}

/// Reads the keys and values of a batch.
fn read(pass: &Pass<'_>, batch: &Batch<'_>, pool: &Pool<Entries>) -> Result<Entries> {
    let mut entries = pool.take();
    entries.clear();
    each_entry(batch, pass.hasher, |_, key, value| entries.push((key, value)))?;
    Ok(entries)
}

fn solve(pass: &Pass<'_>, kind: Kind) -> Result<(AnyFilter, Tally)> {
    let pool = Pool::default();
    let explain = |error| match error {
        Error::Conflict { digest, .. } => conflict(pass, digest).unwrap_or_else(|error| error),
        Error::Value { bits, .. } => too_wide(pass, bits).unwrap_or_else(|error| error),
        error => error.into(),
    };
    pass.with_options(
        kind,
        |options, bar| {
            let hash = |batch: &Batch<'_>| {
                bar.inc(batch.read_bytes());
                read(pass, batch, &pool)
            };
            pass.keys.pull(pass.args.form.threads(), hash, |next| {
                let mut runs = EntryRuns::new(next, &pool);
                let sizing = sizing(pass.args, kind, None);
                let filter = kind.build_map(&sizing, &mut runs, options)?;
                Ok((filter, runs.tally))
            })
        },
        explain,
    )
}

/// Describes the two values of one key by their places.
fn conflict(pass: &Pass<'_>, digest: u64) -> Result<anyhow::Error> {
    let threads = pass.args.form.threads();
    let entry = |line: &[u8]| {
        let (key, value) = split(line).ok()?;
        (pass.hasher.bytes(key).hi == digest).then(|| (key.to_vec(), value))
    };
    let Some(first) = find(pass.keys, threads, |line| entry(line).is_some())? else {
        return Ok(changed());
    };
    let Some((key, value)) = entry(&first.line) else { return Ok(changed()) };
    let differs = |line: &[u8]| entry(line).is_some_and(|(_, other)| other != value);
    let Some(second) = find(pass.keys, threads, differs)? else { return Ok(changed()) };
    Ok(match entry(&second.line) {
        Some((other, value_here)) if other == key => anyhow!(
            "{}: the key has the value {value_here} here, and {value} at {}",
            second.place,
            first.place
        ),
        _ => crate::commands::same_digest(&first, &second),
    })
}

/// Describes the first value that is too wide by its place.
fn too_wide(pass: &Pass<'_>, bits: u32) -> Result<anyhow::Error> {
    let value = |line: &[u8]| split(line).map_or(0, |(_, value)| value);
    let wanted = |line: &[u8]| value(line).checked_shr(bits).is_some_and(|high| high != 0);
    let found = find(pass.keys, pass.args.form.threads(), wanted)?;
    Ok(found.map_or_else(changed, |found| {
        failure(&found.place, &Error::Value { value: value(&found.line), bits })
    }))
}

/// Queries every value again.
fn verify(pass: &Pass<'_>, filter: &AnyFilter, built: Tally) -> Result<()> {
    let bar = progress::bar("checking", pass.keys, pass.args.quiet);
    let pool = Pool::default();
    let ask = |batch: &Batch<'_>| -> Result<(Tally, bool)> {
        let entries = read(pass, batch, &pool)?;
        let keys: Vec<KeyHash> = entries.iter().map(|(key, _)| *key).collect();
        let mut values = vec![None; keys.len()];
        filter.get_batch(&keys, &mut values)?;
        bar.inc(batch.read_bytes());
        let right = entries.iter().zip(&values).all(|((_, given), got)| *got == Some(*given));
        let tally = tally(&entries);
        pool.give(entries);
        Ok((tally, right))
    };
    let (mut asked, mut all_right) = (Tally::default(), true);
    pass.keys.each_batch(pass.args.form.threads(), ask, |answer| {
        let (tally, right) = answer?;
        asked.add(tally);
        all_right &= right;
        Ok(())
    })?;
    bar.finish_and_clear();
    match all_right {
        _ if asked != built => Err(changed()),
        false => bail!("a key has lost its value; this is a fault of tamis, nothing was saved"),
        true => Ok(()),
    }
}
