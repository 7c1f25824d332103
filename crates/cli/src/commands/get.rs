//! `tamis get`: prints the values of keys.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};
use tamis::{Capability, KeyHash};

use crate::args::Get;
use crate::hashing::{Pool, hash_lines};
use crate::input::{Batch, Keys};
use crate::{files, output, progress};

/// The buffers of a worker, reused for each batch.
#[derive(Default)]
struct Scratch {
    hashes: Vec<KeyHash>,
    values: Vec<Option<u64>>,
    lines: Vec<u8>,
}

pub(crate) fn run(args: &Get) -> Result<bool> {
    files::check_stdin(std::slice::from_ref(&args.filter), Some(&args.probes))?;
    let (hasher, filter) =
        files::open_for(&args.filter, !args.no_check, args.form.key_forms())?.into_parts();
    super::require(filter.kind(), Capability::Map, &args.filter)?;

    let probes = Keys::open(&args.probes, args.form.separator(), false)?;
    let bar = progress::bar_beside_output("querying", &probes);
    let pool = Pool::<Scratch>::default();
    let look_up = |batch: &Batch<'_>| {
        let mut scratch = pool.take();
        hash_lines(batch, &hasher, &mut scratch.hashes);
        scratch.values.resize(scratch.hashes.len(), None);
        let done = filter.get_batch(&scratch.hashes, &mut scratch.values);
        done.expect("`require` checked that the kind has values");
        let found = show(args, batch, &scratch.values, &mut scratch.lines);
        bar.inc(batch.read_bytes());
        (found, scratch)
    };
    let mut any = false;
    let outcome = probes.each_batch(args.form.threads(), look_up, |(found, mut scratch)| {
        any |= found;
        output::write(&scratch.lines)?;
        scratch.lines.clear();
        pool.give(scratch);
        Ok(())
    });
    bar.finish_and_clear();
    outcome?;
    Ok(any)
}

/// Appends the selected lines to `lines`. Returns whether there are any.
fn show(args: &Get, batch: &Batch<'_>, values: &[Option<u64>], lines: &mut Vec<u8>) -> bool {
    let mut put = |raw: &[u8], key: Value, value: Option<u64>, end: u8| {
        if args.json {
            let object = match value {
                Some(value) => json!({ "key": key, "value": value }),
                None => json!({ "key": key }),
            };
            return output::push_line(lines, object);
        }
        lines.extend_from_slice(raw);
        if let Some(value) = value {
            write!(lines, "\t{value}").expect("writing to a vector cannot fail");
        }
        lines.push(end);
    };
    let mut any = false;
    match batch.separator().byte() {
        Some(end) => {
            // A line without a key is never a member.
            for (line, value) in batch.lines().zip(values) {
                let value = value.filter(|_| !line.key.is_empty());
                if value.is_none() == args.invert {
                    any = true;
                    let shown = if args.json { output::json_key(line.key) } else { Value::Null };
                    // The value goes between the key and a carriage return.
                    let raw = if value.is_some() { line.key } else { line.raw };
                    put(raw, shown, value, end);
                }
            }
        }
        None => {
            for (word, value) in batch.words().zip(values) {
                if value.is_none() == args.invert {
                    any = true;
                    put(word.to_string().as_bytes(), word.into(), *value, b'\n');
                }
            }
        }
    }
    any
}
