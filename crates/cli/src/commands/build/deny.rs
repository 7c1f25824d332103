//! `tamis build --deny`: a filter that no key of a given list passes.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use indicatif::ProgressBar;
use tamis::{AnyFilter, Capability, Error, Kind};

use super::{Pass, Read, changed, hasher, kind_with, save, sizing};
use crate::args::Build;
use crate::duplicates::hash_of;
use crate::entries::find;
use crate::hashing::Tally;
use crate::input::Keys;
use crate::output;

pub(super) fn build(args: &Build) -> Result<()> {
    let start = Instant::now();
    let kind = kind_with(args, Capability::Deny)?;
    let separator = args.form.separator();
    let stdin =
        |paths: &[PathBuf]| paths.is_empty() || paths.iter().any(|path| path.as_os_str() == "-");
    if stdin(&args.keys_from) && stdin(&args.deny) {
        bail!("keys and --deny cannot both come from standard input");
    }
    let keys = Keys::open(&args.keys_from, separator, true)?;
    let denied = Keys::open(&args.deny, separator, true)?;
    let hasher = hasher(args, Some(kind))?;
    let members = Pass { args, keys: &keys, hasher: &hasher };
    let strangers = Pass { args, keys: &denied, hasher: &hasher };

    let (filter, tally, refused) = solve(kind, &members, &strangers)?;
    if !args.no_verify {
        members.verify(&filter, tally)?;
    }
    none_passes(&strangers, &filter, refused)?;
    let read = Read::of_static(&filter, tally.keys, Some(refused.keys));
    save(args, hasher, filter, read, start)?;
    if !args.quiet && !args.json {
        output::message(format_args!("{} denied keys, none of which passes", refused.keys));
    }
    Ok(())
}

/// Builds from both lists: the filter, the keys and the denied keys that were read.
fn solve(
    kind: Kind,
    members: &Pass<'_>,
    strangers: &Pass<'_>,
) -> Result<(AnyFilter, Tally, Tally)> {
    let mut refused = Tally::default();
    let sizing = sizing(members.args, kind, None);
    let explain = |error| match error {
        Error::Conflict { digest, .. } => {
            conflict(members, strangers, digest).unwrap_or_else(|error| error)
        }
        error => error.into(),
    };
    let (filter, tally) = members.with_options(
        kind,
        |options, bar| {
            members.hash_into(bar, |keys| {
                // The denied keys wait until all keys are read: a bar of theirs would be in the way.
                let (filter, tally) = strangers.hash_into(&ProgressBar::hidden(), |denied| {
                    kind.build_denying(&sizing, keys, denied, options)
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
    let separator = members.args.form.separator();
    let wanted = |line: &[u8]| hash_of(separator, members.hasher, line).hi == digest;
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

/// Queries every denied key: none may pass.
fn none_passes(strangers: &Pass<'_>, filter: &AnyFilter, read: Tally) -> Result<()> {
    match strangers.query_all(filter, false)? {
        (asked, _) if asked != read => Err(changed()),
        (_, Some(place)) => {
            bail!("{place}: a denied key passes; this is a fault of tamis, nothing was saved")
        }
        (_, None) => Ok(()),
    }
}
