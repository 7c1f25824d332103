//! `tamis get`: prints the values of keys.

use std::io::Write;

use anyhow::Result;
use serde_json::Value as Json;
use tamis::{Capability, KeyHash, Map, Value, ValueType};

use crate::args::Get;
use crate::hashing::{Pool, hash_lines};
use crate::input::{Batch, Keys};
use crate::{files, output, progress};

/// Byte strings are written in pieces of about this size.
const BUFFER: usize = 1 << 16;

/// The buffers of a worker, reused for each batch.
#[derive(Default)]
struct Scratch {
    hashes: Vec<KeyHash>,
    /// The numbers that stand for the values.
    numbers: Vec<Option<u64>>,
    lines: Vec<u8>,
    /// The places in `lines` of byte strings that are yet to be inserted, and their numbers. Together
    /// the byte strings of a batch may be far larger than its keys.
    inserts: Vec<(usize, u64)>,
}

pub(crate) fn run(args: &Get) -> Result<bool> {
    files::check_stdin(std::slice::from_ref(&args.filter), Some(&args.probes))?;
    let (hasher, filter) =
        files::open_for(&args.filter, !args.no_check, args.form.key_forms())?.into_parts();
    super::require(filter.kind(), Capability::Map, &args.filter)?;
    let map = filter.as_map()?;

    let probes = Keys::open(&args.probes, args.form.separator(), false)?;
    let bar = progress::bar_beside_output("querying", &probes);
    let pool = Pool::<Scratch>::default();
    let look_up = |batch: &Batch<'_>| {
        let mut scratch = pool.take();
        hash_lines(batch, &hasher, &mut scratch.hashes);
        scratch.numbers.resize(scratch.hashes.len(), None);
        let map = filter.as_map().expect("`require` checked that the kind has values");
        map.get_batch(&scratch.hashes, &mut scratch.numbers);
        let found = show(args, map, batch, &mut scratch);
        bar.inc(batch.read_bytes());
        (found, scratch)
    };
    let mut any = false;
    let outcome = probes.each_batch(args.form.threads(), look_up, |(found, mut scratch)| {
        any |= found;
        let (mut buffer, mut done) = (Vec::new(), 0);
        for (at, number) in scratch.inserts.drain(..) {
            buffer.extend_from_slice(&scratch.lines[done..at]);
            let bytes = map.value_of(number).map_or(Vec::new(), Value::into_bytes);
            match args.json {
                true => buffer.extend_from_slice(output::json_key(&bytes).to_string().as_bytes()),
                false => buffer.extend_from_slice(&bytes),
            }
            done = at;
            if buffer.len() >= BUFFER {
                output::write(&buffer)?;
                buffer.clear();
            }
        }
        output::write(&buffer)?;
        output::write(&scratch.lines[done..])?;
        scratch.lines.clear();
        pool.give(scratch);
        Ok(())
    });
    bar.finish_and_clear();
    outcome?;
    Ok(any)
}

/// Appends the selected lines to `lines`. Returns whether there are any.
fn show(args: &Get, map: &dyn Map, batch: &Batch<'_>, scratch: &mut Scratch) -> bool {
    let Scratch { numbers, lines, inserts, .. } = scratch;
    let has_integers = matches!(map.value_type(), ValueType::Integers { .. });
    let mut put = |raw: &[u8], key: Json, number: Option<u64>, end: u8| {
        match args.json {
            true => lines.extend_from_slice(format!("{{\"key\":{key}").as_bytes()),
            false => lines.extend_from_slice(raw),
        }
        if let Some(number) = number {
            lines.extend_from_slice(if args.json { b",\"value\":" } else { b"\t" });
            match has_integers.then(|| map.value_of(number)).flatten() {
                Some(value) => {
                    write!(lines, "{value}").expect("writing to a vector cannot fail");
                }
                None => inserts.push((lines.len(), number)),
            }
        }
        lines.extend_from_slice(if args.json { b"}\n" } else { std::slice::from_ref(&end) });
    };
    let mut any = false;
    match batch.separator().byte() {
        Some(end) => {
            // A line without a key is never a member.
            for (line, number) in batch.lines().zip(numbers) {
                let number = number.filter(|_| !line.key.is_empty());
                if number.is_none() == args.invert {
                    any = true;
                    let shown = if args.json { output::json_key(line.key) } else { Json::Null };
                    // The value goes between the key and a carriage return.
                    let raw = if number.is_some() { line.key } else { line.raw };
                    put(raw, shown, number, end);
                }
            }
        }
        None => {
            for (word, number) in batch.words().zip(numbers) {
                if number.is_none() == args.invert {
                    any = true;
                    put(word.to_string().as_bytes(), word.into(), *number, b'\n');
                }
            }
        }
    }
    any
}
