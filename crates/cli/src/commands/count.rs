//! `tamis count`: prints the count of each line.

use std::io::Write;

use anyhow::Result;
use serde_json::{Value, json};
use tamis::{AnyFilter, Capability, KeyHash};

use crate::args::Count;
use crate::errors::failure;
use crate::hashing::Pool;
use crate::input::{Batch, Keys};
use crate::{files, output, progress};

pub(crate) fn run(args: &Count) -> Result<bool> {
    files::check_stdin(std::slice::from_ref(&args.filter), Some(&args.probes))?;
    let (hasher, filter) = files::open_for(&args.filter, true, args.form.key_forms())?.into_parts();
    super::require(filter.kind(), Capability::Count, &args.filter)?;
    let limit = filter.count_limit().map_err(|error| failure(files::name(&args.filter), &error))?;

    let probes = Keys::open(&args.probes, args.form.separator(), false)?;
    let bar = progress::bar_beside_output("counting", &probes);
    let pool = Pool::<Vec<u8>>::default();
    let look_up = |batch: &Batch<'_>| {
        let mut lines = pool.take();
        let mut any = false;
        let mut put = |count: u64, raw: &[u8], key: &dyn Fn() -> Value, end: u8| {
            any |= count > 0;
            let (over, count) = (count > limit, count.min(limit));
            if args.json {
                let object = json!({ "key": key(), "count": count, "saturated": over });
                return output::push_line(&mut lines, object);
            }
            let over = if over { ">" } else { "" };
            write!(lines, "{over}{count}\t").expect("writing to a vector cannot fail");
            lines.extend_from_slice(raw);
            lines.push(end);
        };
        match batch.separator().byte() {
            None => batch.words().for_each(|word| {
                let count = count(&filter, hasher.int(word));
                put(count, word.to_string().as_bytes(), &|| word.into(), b'\n');
            }),
            Some(end) => batch.lines().filter(|line| !line.key.is_empty()).for_each(|line| {
                let count = count(&filter, hasher.bytes(line.key));
                put(count, line.raw, &|| output::json_key(line.key), end);
            }),
        }
        bar.inc(batch.read_bytes());
        (lines, any)
    };
    let mut found = false;
    let outcome = probes.each_batch(args.form.threads(), look_up, |(mut lines, any)| {
        found |= any;
        output::write(&lines)?;
        lines.clear();
        pool.give(lines);
        Ok(())
    });
    bar.finish_and_clear();
    outcome?;
    Ok(found)
}

fn count(filter: &AnyFilter, key: KeyHash) -> u64 {
    filter.count(key).expect("`require` checked that the kind counts")
}
