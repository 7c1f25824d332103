//! `tamis query`: prints the lines that the filter accepts, or those that it rejects.

use std::process::exit;

use anyhow::Result;
use serde_json::{Value, json};
use tamis::{Filter, KeyHash};
use tamis_interop::KeyType;

use crate::args::Query;
use crate::hashing::{Pool, hash_lines, hash_typed};
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
    files::check_stdin(std::slice::from_ref(&args.filter), Some(&args.probes))?;
    if args.column.is_some() || args.format.is_none() && files::is_parquet(&args.filter) {
        return super::parquet::query(args);
    }
    if args.ranges || !args.range.is_empty() {
        return super::ranges::query(args);
    }
    let filter = match args.format {
        Some(format) => files::open_foreign(&args.filter, format)?,
        None => {
            let form = args.key_type.map_or(args.form.key_forms(), KeyType::form);
            files::open_for(&args.filter, !args.no_check, form)?
        }
    };
    let probes = Keys::open(&args.probes, args.form.separator(), false)?;
    let bar = progress::bar_beside_output("querying", &probes);
    let (hasher, filter) = filter.into_parts();
    let pool = Pool::<Scratch>::default();
    let look_up = |batch: &Batch<'_>| {
        let mut scratch = pool.take();
        match args.key_type {
            Some(of) => hash_typed(batch, &hasher, of, true, &mut scratch.hashes)?,
            None => hash_lines(batch, &hasher, &mut scratch.hashes),
        }
        scratch.answers.resize(scratch.hashes.len(), false);
        filter.contains_batch(&scratch.hashes, &mut scratch.answers);
        let quiet = args.count || args.quiet;
        let Scratch { answers, found, .. } = &mut scratch;
        let count = collect(args, batch, answers, (!quiet).then_some(found));
        bar.inc(batch.read_bytes());
        anyhow::Ok((count, scratch))
    };
    let mut total = 0;
    let outcome = probes.each_batch(args.form.threads(), look_up, |looked_up| {
        let (count, mut scratch) = looked_up?;
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
    finish(args, total)
}

/// Prints the number of selected lines for --count. Returns whether there are any.
pub(super) fn finish(args: &Query, total: u64) -> Result<bool> {
    match (args.count, args.json) {
        (true, true) => output::print_json([json!({ "count": total })])?,
        (true, false) => output::print(total)?,
        _ => {}
    }
    Ok(total > 0)
}

/// Counts the selected lines, and appends them to `found` if it is given.
fn collect(
    args: &Query,
    batch: &Batch<'_>,
    answers: &[bool],
    mut found: Option<&mut Vec<u8>>,
) -> u64 {
    let mut count = 0;
    let object = |key: Value, maybe: bool| json!({ "key": key, "maybe": maybe });
    let Some(end) = batch.separator().byte() else {
        for (word, yes) in batch.words().zip(answers).filter(|(_, yes)| **yes != args.invert) {
            count += 1;
            match &mut found {
                Some(found) if args.json => output::push_line(found, object(word.into(), *yes)),
                Some(found) => output::push_line(found, word),
                None => {}
            }
        }
        return count;
    };
    for (line, yes) in batch.lines().zip(answers) {
        // A line without a key is never a member.
        let maybe = *yes && !line.key.is_empty();
        if maybe != args.invert {
            count += 1;
            match &mut found {
                Some(found) if args.json => {
                    output::push_line(found, object(output::json_key(line.key), maybe));
                }
                Some(found) => {
                    found.extend_from_slice(line.raw);
                    found.push(end);
                }
                None => {}
            }
        }
    }
    count
}
