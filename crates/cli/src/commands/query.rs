//! `tamis query`: prints the lines that the filter accepts, or those that it rejects.

use std::io::Write;
use std::process::exit;

use anyhow::Result;
use tamis::{Filter, KeyHash};

use crate::args::Query;
use crate::hashing::{Pool, hash_lines};
use crate::input::{Batch, Keys};
use crate::{files, output, progress};

/// The buffers of a worker, reused for each batch.
#[derive(Default)]
struct Scratch {
    hashes: Vec<KeyHash>,
    answers: Vec<bool>,
    found: Vec<u8>,
}

pub(crate) fn run(args: &Query) -> Result<bool> {
    let filter = files::open_for(&args.filter, !args.no_check, args.form.key_forms())?;
    let probes = Keys::open(&args.probes, args.form.separator(), false)?;
    let bar = progress::bar_beside_output("querying", &probes);
    let (hasher, filter) = filter.into_parts();
    let pool = Pool::<Scratch>::default();
    let look_up = |batch: &Batch<'_>| {
        let mut scratch = pool.take();
        hash_lines(batch, &hasher, &mut scratch.hashes);
        scratch.answers.resize(scratch.hashes.len(), false);
        filter.contains_batch(&scratch.hashes, &mut scratch.answers);
        let quiet = args.count || args.quiet;
        let count =
            collect(batch, args.invert, &scratch.answers, (!quiet).then_some(&mut scratch.found));
        bar.inc(batch.read_bytes());
        (count, scratch)
    };
    let mut total = 0;
    let outcome = probes.each_batch(args.form.threads(), look_up, |(count, mut scratch)| {
        total += count;
        if !scratch.found.is_empty() {
            output::write(&scratch.found)?;
            scratch.found.clear();
        }
        pool.give(scratch);
        if args.quiet && total > 0 {
            // Exits here because a worker may be blocked on an input that never ends.
            exit(0);
        }
        Ok(())
    });
    bar.finish_and_clear();
    outcome?;
    if args.count {
        output::print(total)?;
    }
    Ok(total > 0)
}

/// Counts the selected lines, and appends them to `found` if it is given.
fn collect(
    batch: &Batch<'_>,
    invert: bool,
    answers: &[bool],
    mut found: Option<&mut Vec<u8>>,
) -> u64 {
    let mut count = 0;
    let Some(end) = batch.separator().byte() else {
        for (word, _) in batch.words().zip(answers).filter(|(_, yes)| **yes != invert) {
            count += 1;
            if let Some(found) = &mut found {
                writeln!(found, "{word}").expect("writing to a vector cannot fail");
            }
        }
        return count;
    };
    for (line, yes) in batch.lines().zip(answers) {
        // A line without a key is never a member.
        if (*yes && !line.key.is_empty()) != invert {
            count += 1;
            if let Some(found) = &mut found {
                found.extend_from_slice(line.raw);
                found.push(end);
            }
        }
    }
    count
}
