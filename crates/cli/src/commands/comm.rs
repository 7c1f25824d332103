//! `tamis comm`: prints rejected and accepted lines in two columns.

use anyhow::Result;
use serde_json::json;
use tamis::{Filter, KeyHash};

use crate::args::Comm;
use crate::hashing::{Pool, hash_lines};
use crate::input::{Batch, Keys};
use crate::{files, output, progress};

/// The buffers of a worker, reused for each batch.
#[derive(Default)]
struct Scratch {
    hashes: Vec<KeyHash>,
    answers: Vec<bool>,
    text: Vec<u8>,
}

pub(crate) fn run(args: &Comm) -> Result<bool> {
    files::check_stdin(std::slice::from_ref(&args.filter), Some(&args.keys_from))?;
    let (hasher, filter) =
        files::open_for(&args.filter, !args.no_check, args.form.key_forms())?.into_parts();
    let keys = Keys::open(&args.keys_from, args.form.separator(), false)?;
    let bar = progress::bar_beside_output("querying", &keys);
    let pool = Pool::<Scratch>::default();
    let quiet = args.count || args.json;
    let split = |batch: &Batch<'_>| {
        let mut scratch = pool.take();
        let Scratch { hashes, answers, text } = &mut scratch;
        hash_lines(batch, &hasher, hashes);
        answers.resize(hashes.len(), false);
        filter.contains_batch(hashes, answers);
        let (mut answers, mut counts) = (answers.iter(), [0u64; 2]);
        batch.each_line(|raw, end| {
            // A line without a key is never a member.
            let maybe = answers.next() == Some(&true) && !matches!(raw, [] | [b'\r']);
            counts[usize::from(maybe)] += 1;
            let hidden = if maybe { args.hide_maybe } else { args.hide_new };
            if !quiet && !hidden {
                if maybe && !args.hide_new {
                    text.push(b'\t');
                }
                text.extend_from_slice(raw);
                text.push(end);
            }
        });
        bar.inc(batch.read_bytes());
        (counts, scratch)
    };
    let mut totals = [0u64; 2];
    let outcome = keys.each_batch(args.form.threads(), split, |(counts, mut scratch)| {
        totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        if !scratch.text.is_empty() {
            output::write(&scratch.text)?;
            scratch.text.clear();
        }
        pool.give(scratch);
        Ok(())
    });
    bar.finish_and_clear();
    outcome?;
    let [new, maybe] = totals;
    if args.json {
        // Non-members are split between both columns as 1 - rate : rate.
        let rate = filter.fpr();
        let false_positives = (new as f64 * rate / (1.0 - rate)).min(maybe as f64);
        output::print_json([json!({
            "lines": new + maybe,
            "new": new,
            "maybe": maybe,
            "false_positives": false_positives,
        })])?;
    } else if args.count {
        output::print(format_args!("{new}\t{maybe}"))?;
    }
    Ok(maybe > 0)
}
