//! `tamis build --values`: a map from lines of a key, a tab and a value.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use tamis::{AnyFilter, Capability, Error, KeyHash, Kind};

use super::{Pass, Read, changed, hasher, kind_with, save, sizing};
use crate::args::Build;
use crate::entries::{
    EntryRuns, EntryValue, each_entry, find, integer, not_an_integer, split, tally,
};
use crate::errors::failure;
use crate::hashing::{Pool, Tally};
use crate::input::{Batch, Keys};
use crate::progress;

pub(super) fn build(args: &Build) -> Result<()> {
    let start = Instant::now();
    args.form.require_lines()?;
    let kind = kind_with(args, Capability::Map)?;
    let keys = Keys::open(&args.keys_from, args.form.separator(), true)?;
    let hasher = hasher(args, Some(kind))?;
    let pass = Pass { args, keys: &keys, hasher: &hasher };
    // Nearly every file of values is all integers or has text early on.
    let (filter, keys) = match solve_and_verify::<i128>(&pass, kind)? {
        Some(built) => built,
        None => solve_and_verify::<Vec<u8>>(&pass, kind)?.ok_or_else(changed)?,
    };
    let read = Read::of_static(&filter, keys, None);
    save(args, hasher, filter, read, start)
}

/// Builds the map and returns it with the number of keys, or returns `None` if a value is not a `V`.
fn solve_and_verify<V: EntryValue>(
    pass: &Pass<'_>,
    kind: Kind,
) -> Result<Option<(AnyFilter, u64)>> {
    let other = AtomicBool::new(false);
    let (filter, tally) = match solve::<V>(pass, kind, &other) {
        _ if other.load(Ordering::Relaxed) => return Ok(None),
        solved => solved?,
    };
    if !pass.args.no_verify {
        verify::<V>(pass, &filter, tally)?;
    }
    Ok(Some((filter, tally.keys)))
}

/// Reads the keys and values of a batch. Sets `other` if a value is not a `V`.
fn read<V: EntryValue>(
    pass: &Pass<'_>,
    batch: &Batch<'_>,
    pool: &Pool<Vec<(KeyHash, V)>>,
    other: &AtomicBool,
) -> Result<Vec<(KeyHash, V)>> {
    let mut entries = pool.take();
    entries.clear();
    each_entry(batch, pass.hasher, |_, key, text| {
        let value = V::parse(text).ok_or_else(|| {
            other.store(true, Ordering::Relaxed);
            not_an_integer(text)
        });
        entries.push((key, value?));
        Ok(())
    })?;
    Ok(entries)
}

fn solve<V: EntryValue>(
    pass: &Pass<'_>,
    kind: Kind,
    other: &AtomicBool,
) -> Result<(AnyFilter, Tally)> {
    let pool = Pool::default();
    let explain = |error| match error {
        Error::Conflict { digest, .. } => conflict::<V>(pass, digest).unwrap_or_else(|error| error),
        Error::Value { bits, .. } => too_wide(pass, bits).unwrap_or_else(|error| error),
        // Integers that span 2^64 or more are byte strings.
        Error::IntegerSpan => {
            other.store(true, Ordering::Relaxed);
            error.into()
        }
        error => error.into(),
    };
    pass.with_options(
        kind,
        |options, bar| {
            let hash = |batch: &Batch<'_>| {
                bar.inc(batch.read_bytes());
                read::<V>(pass, batch, &pool, other)
            };
            pass.keys.pull(pass.args.form.threads(), hash, |next| {
                let mut runs = EntryRuns::new(next, &pool);
                let sizing = sizing(pass.args, kind, None);
                let filter = kind.build_values(&sizing, V::source(&mut runs), options)?;
                Ok((filter, runs.tally))
            })
        },
        explain,
    )
}

/// Describes the two values of one key by their places.
fn conflict<V: EntryValue>(pass: &Pass<'_>, digest: u64) -> Result<anyhow::Error> {
    let threads = pass.args.form.threads();
    let entry = |line: &[u8]| {
        let (key, text) = split(line).ok()?;
        let same = pass.hasher.bytes(key).hi == digest;
        same.then(|| Some((key.to_vec(), V::parse(text)?)))?
    };
    let Some(first) = find(pass.keys, threads, |line| entry(line).is_some())? else {
        return Ok(changed());
    };
    let Some((key, value)) = entry(&first.line) else { return Ok(changed()) };
    let differs = |line: &[u8]| entry(line).is_some_and(|(_, other)| other != value);
    let Some(second) = find(pass.keys, threads, differs)? else { return Ok(changed()) };
    Ok(match entry(&second.line) {
        Some((other, value_here)) if other == key => anyhow!(
            "{}: the key has the value {} here, and {} at {}",
            second.place,
            value_here.shown(),
            value.shown(),
            first.place
        ),
        _ => crate::commands::same_digest(&first, &second),
    })
}

/// Describes the first integer that is too wide by its place.
fn too_wide(pass: &Pass<'_>, bits: u32) -> Result<anyhow::Error> {
    let value = |line: &[u8]| {
        let number = split(line).ok().and_then(|(_, text)| integer(text));
        number.and_then(|number| u64::try_from(number).ok()).unwrap_or(0)
    };
    let wanted = |line: &[u8]| value(line).checked_shr(bits).is_some_and(|high| high != 0);
    let found = find(pass.keys, pass.args.form.threads(), wanted)?;
    Ok(found.map_or_else(changed, |found| {
        failure(&found.place, &Error::Value { value: value(&found.line), bits })
    }))
}

/// Queries every value again.
fn verify<V: EntryValue>(pass: &Pass<'_>, filter: &AnyFilter, built: Tally) -> Result<()> {
    let bar = progress::bar("checking", pass.keys, pass.args.quiet);
    let pool = Pool::default();
    let other = AtomicBool::new(false);
    let ask = |batch: &Batch<'_>| -> Result<(Tally, bool)> {
        let (map, entries) = (filter.as_map()?, read::<V>(pass, batch, &pool, &other)?);
        let keys: Vec<KeyHash> = entries.iter().map(|(key, _)| *key).collect();
        let mut numbers = vec![None; keys.len()];
        map.get_batch(&keys, &mut numbers);
        bar.inc(batch.read_bytes());
        let is = |given: &V, number: &Option<u64>| {
            number.and_then(|number| map.value_of(number)).is_some_and(|value| given.is(&value))
        };
        let right = entries.iter().zip(&numbers).all(|((_, given), number)| is(given, number));
        let tally = tally(&entries);
        pool.give(entries);
        Ok((tally, right))
    };
    let (mut asked, mut all_right) = (Tally::default(), true);
    pass.keys.each_batch(pass.args.form.threads(), ask, |answer| {
        let (tally, right) = answer.map_err(|_| changed())?;
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
