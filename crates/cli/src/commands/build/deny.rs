//! `tamis build --deny`: a filter that no key of a given list passes.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use indicatif::ProgressBar;
use tamis::{AnyFilter, Error, Guarded, KeyHash, Keyed, Kind};

use super::{Pass, changed, goal, hasher, place, report, settings};
use crate::args::Build;
use crate::entries::find;
use crate::hashing::{Pool, Tally, hash_keys};
use crate::input::{Batch, Keys, Separator};
use crate::{files, output, progress};

pub(super) fn build(args: &Build) -> Result<()> {
    let start = Instant::now();
    if let Some(kind) = args.filter.0.filter(|kind| *kind != Kind::Guarded) {
        bail!("--deny takes a {} filter, but --filter says {kind}", Kind::Guarded);
    }
    files::check_target(&args.output)?;
    let separator = args.form.separator();
    let stdin =
        |paths: &[PathBuf]| paths.is_empty() || paths.iter().any(|path| path.as_os_str() == "-");
    if stdin(&args.keys_from) && stdin(&args.deny) {
        bail!("keys and --deny cannot both come from standard input");
    }
    let keys = Keys::open(&args.keys_from, separator, true)?;
    let denied = Keys::open(&args.deny, separator, true)?;
    let hasher = hasher(args);
    let members = Pass { args, keys: &keys, hasher: &hasher };
    let strangers = Pass { args, keys: &denied, hasher: &hasher };

    let (filter, tally, refused) = solve(&members, &strangers)?;
    if !args.no_verify {
        members.verify(&filter, tally)?;
    }
    none_passes(&strangers, &filter, refused)?;
    let filter = Keyed::new(hasher, filter);
    files::save(&filter, &args.output)?;
    let denied = Some(refused.keys);
    report(args, filter.filter(), tally.keys, denied, start.elapsed().as_secs_f64())?;
    if !args.quiet && !args.json {
        output::message(format_args!("{} denied keys, none of which passes", refused.keys));
    }
    Ok(())
}

/// Builds from both lists: the filter, the keys and the denied keys that were read.
fn solve(members: &Pass<'_>, strangers: &Pass<'_>) -> Result<(AnyFilter, Tally, Tally)> {
    let (args, mut refused) = (members.args, Tally::default());
    let settings = settings(args);
    let explain = |error| match error {
        Error::Conflict { digest, .. } => {
            conflict(members, strangers, digest).unwrap_or_else(|error| error)
        }
        error => error.into(),
    };
    let (filter, tally) = members.with_means(
        |means, bar| {
            members.hash_into(bar, |keys| {
                // The denied keys wait until all keys are read: a bar of theirs would be in the way.
                let (filter, tally) = strangers.hash_into(&ProgressBar::hidden(), |denied| {
                    let fit = |count| tamis::plan::solve(goal(args, count), &settings);
                    Guarded::build_denying(means, fit, keys, denied).map(AnyFilter::Guarded)
                })?;
                refused = tally;
                Ok(filter)
            })
        },
        explain,
    )?;
    Ok((filter, tally, refused))
}

/// Where the key is that is in both lists.
fn conflict(members: &Pass<'_>, strangers: &Pass<'_>, digest: u64) -> Result<anyhow::Error> {
    let wanted = |line: &[u8]| {
        let hash = match (members.args.form.separator(), line.as_array()) {
            (Separator::U64, Some(word)) => members.hasher.int(u64::from_le_bytes(*word)),
            _ => members.hasher.bytes(line),
        };
        hash.hi == digest
    };
    let threads = members.args.form.threads();
    let (member, stranger) =
        (find(members.keys, threads, wanted)?, find(strangers.keys, threads, wanted)?);
    Ok(match (member, stranger) {
        (Some(member), Some(stranger)) if member.line == stranger.line => {
            anyhow!("{}: a key to deny, but also a key at {}", stranger.place, member.place)
        }
        (Some(member), Some(stranger)) => crate::commands::same_digest(&member, &stranger),
        _ => changed(),
    })
}

/// Asks for every denied key. That one passes is the one thing this filter must not do.
fn none_passes(strangers: &Pass<'_>, filter: &AnyFilter, read: Tally) -> Result<()> {
    let bar = progress::bar("checking", strangers.keys, strangers.args.quiet);
    let pool = Pool::<(Vec<KeyHash>, Vec<bool>)>::default();
    let ask = |batch: &Batch<'_>| {
        let (mut hashes, mut answers) = pool.take();
        hash_keys(batch, strangers.hasher, &mut hashes);
        answers.resize(hashes.len(), false);
        filter.contains_batch(&hashes, &mut answers);
        bar.inc(batch.read_bytes());
        let passes = answers.iter().position(|yes| *yes).map(|at| place(batch, at));
        let tally = Tally::of(&hashes);
        pool.give((hashes, answers));
        (tally, passes)
    };
    let (mut asked, mut first) = (Tally::default(), None);
    strangers.keys.each_batch(strangers.args.form.threads(), ask, |(tally, passes)| {
        asked.add(tally);
        first = first.take().or(passes);
        Ok(())
    })?;
    bar.finish_and_clear();
    match first {
        _ if asked != read => Err(changed()),
        Some(place) => {
            bail!("{place}: a denied key passes; this is a fault of tamis, nothing was saved")
        }
        None => Ok(()),
    }
}
