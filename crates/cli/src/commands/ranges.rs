//! `tamis query --range` and `--ranges`: prints the ranges that may hold a key.

use std::ops::Bound;
use std::process::exit;

use anyhow::{Result, anyhow, bail};
use serde_json::json;
use tamis::{AnyFilter, Capability, KeyForms, Keyed};

use crate::args::Query;
use crate::input::{Batch, Keys};
use crate::{files, output, progress};

pub(super) fn query(args: &Query) -> Result<bool> {
    let filter = files::open(&args.filter, !args.no_check)?;
    super::require(filter.kind(), Capability::Range, &args.filter)?;
    if !args.range.is_empty() {
        return given(args, &filter);
    }
    let probes = Keys::open(&args.probes, args.form.separator(), false)?;
    let bar = progress::bar_beside_output("querying", &probes);
    let look_up = |batch: &Batch<'_>| {
        let (mut count, mut found) = (0, Vec::new());
        for (number, line) in (batch.first_line()..).zip(batch.lines()) {
            if !line.key.is_empty() {
                let answer = contains(&filter, line.key);
                let answer =
                    answer.map_err(|error| anyhow!("{}:{number}: {error}", batch.name()))?;
                count += u64::from(select(args, line.raw, answer, &mut found));
            }
        }
        bar.inc(batch.read_bytes());
        anyhow::Ok((count, found))
    };
    let mut total = 0;
    let outcome = probes.each_batch(args.form.threads(), look_up, |looked_up| {
        let (count, found) = looked_up?;
        total += count;
        if !found.is_empty() {
            output::write(&found)?;
        }
        if args.quiet && total > 0 {
            // Exits here because a worker may be blocked on an input that never ends.
            exit(0);
        }
        Ok(())
    });
    bar.finish_and_clear();
    outcome?;
    super::query::finish(args, total)
}

/// Answers the ranges of `--range`.
fn given(args: &Query, filter: &Keyed<AnyFilter>) -> Result<bool> {
    let (mut total, mut found) = (0, Vec::new());
    for range in &args.range {
        let answer = contains(filter, range.as_bytes());
        let answer = answer.map_err(|error| anyhow!("--range {range}: {error}"))?;
        total += u64::from(select(args, range.as_bytes(), answer, &mut found));
    }
    output::write(&found)?;
    super::query::finish(args, total)
}

/// Appends a range to `found` if it is selected and to be printed. Returns whether it is selected.
fn select(args: &Query, range: &[u8], maybe: bool, found: &mut Vec<u8>) -> bool {
    if maybe == args.invert {
        return false;
    }
    if args.json && !args.count {
        output::push_line(found, json!({ "range": output::json_key(range), "maybe": maybe }));
    } else if !args.count && !args.quiet {
        found.extend_from_slice(range);
        found.push(args.form.separator().byte().unwrap_or(b'\n'));
    }
    true
}

/// Answers a range as a user writes it: `A..B` without its end, or `A..=B` with it.
fn contains(filter: &Keyed<AnyFilter>, text: &[u8]) -> Result<bool> {
    let at = text.windows(2).position(|pair| pair == b"..");
    let at = at.ok_or_else(|| anyhow!("expected a range such as 10..20 or 10..=20"))?;
    let (start, end) = (&text[..at], &text[at + 2..]);
    let (end, included) = match end.strip_prefix(b"=") {
        Some(end) => (end, true),
        None => (end, false),
    };
    if start.is_empty() || end.is_empty() {
        bail!("a range has two ends");
    }
    if filter.key_forms() != KeyForms::INTEGERS {
        return Ok(filter.contains_range::<&[u8]>(bounds(start, end, included))?);
    }
    let (start, end) = (integer(start)?, integer(end)?);
    // Negative integers are those of an i64; others may be larger.
    if start < 0 || end < 0 {
        let signed = |number| {
            i64::try_from(number)
                .map_err(|_| anyhow!("{number} and a negative number in one range"))
        };
        return Ok(filter.contains_range(bounds(signed(start)?, signed(end)?, included))?);
    }
    let unsigned = |number| u64::try_from(number).expect("neither negative nor too large");
    Ok(filter.contains_range(bounds(unsigned(start), unsigned(end), included))?)
}

fn bounds<T>(start: T, end: T, included: bool) -> (Bound<T>, Bound<T>) {
    let end = if included { Bound::Included(end) } else { Bound::Excluded(end) };
    (Bound::Included(start), end)
}

/// Reads an integer of 64 bits, signed or not.
fn integer(text: &[u8]) -> Result<i128> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok());
    let fits = |number: &i128| (i64::MIN.into()..=u64::MAX.into()).contains(number);
    number
        .filter(fits)
        .ok_or_else(|| anyhow!("`{}` is not a 64-bit integer", String::from_utf8_lossy(text)))
}
