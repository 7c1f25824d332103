//! The filters inside a Parquet file: `tamis info x.parquet` and `tamis query x.parquet --column c`.

use std::fs::File;
use std::process::exit;

use anyhow::{Result, bail};
use serde_json::json;
use tamis::{AnyFilter, KeyHash, Keyed};
use tamis_interop::parquet_file::ParquetFile;
use tamis_interop::{Format, KeyType};

use crate::args::{Info, Query};
use crate::errors::failure;
use crate::hashing::hash_typed;
use crate::input::{Batch, Keys};
use crate::number::show_rate;
use crate::{files, output, progress};

fn open(path: &std::path::Path) -> Result<ParquetFile<File>> {
    ParquetFile::open(path).map_err(|error| failure(files::name(path), &error))
}

/// Lists row groups and columns with filters, their size and their expected rate.
pub(crate) fn info(args: &Info) -> Result<()> {
    let name = files::name(&args.filter);
    let mut file = open(&args.filter)?;
    let groups = file.row_groups.clone();
    let mut rows = Vec::new();
    let mut objects = Vec::new();
    for (group, of) in groups.iter().enumerate() {
        for chunk in of.chunks.iter().filter(|chunk| chunk.has_filter()) {
            let filter = file.filter_of(chunk).map_err(|error| failure(&name, &error))?;
            let Some(filter) = filter else { continue };
            let physical = chunk.physical.map_or("-", |physical| physical.name());
            objects.push(json!({
                "row_group": group,
                "rows": of.rows,
                "column": chunk.column,
                "type": physical,
                "bytes": filter.bytes(),
                "distinct_keys": filter.len(),
                "fpr": filter.fpr(),
            }));
            rows.push(vec![
                group.to_string(),
                of.rows.to_string(),
                chunk.column.clone(),
                physical.into(),
                filter.bytes().to_string(),
                format!("about {}", filter.len()),
                show_rate(filter.fpr()),
            ]);
        }
    }
    let encrypted = groups.iter().flat_map(|group| &group.chunks).find(|chunk| chunk.is_encrypted);
    match (rows.is_empty(), encrypted) {
        (true, Some(chunk)) => bail!("{name}: the column `{}` is encrypted", chunk.column),
        (true, None) => bail!("{name}: no Bloom filters: {}", file.with_filters()),
        _ if args.json => output::print_json(objects),
        _ => {
            let head = [
                "row group",
                "rows",
                "column",
                "type",
                "bytes",
                "distinct keys",
                "false positives",
            ];
            output::print(output::table(&head, &[0, 1, 4], rows))
        }
    }
}

/// The answers to the keys of a batch.
#[derive(Default)]
struct Answers {
    found: Vec<u8>,
    count: u64,
}

/// Prints each key with the row groups that may hold it.
pub(crate) fn query(args: &Query) -> Result<bool> {
    let name = files::name(&args.filter);
    let mut file = open(&args.filter)?;
    let Some(column) = &args.column else {
        bail!("{name}: choose a column of the Parquet file with --column: {}", file.with_filters());
    };
    let column = file.column(column).map_err(|error| failure(&name, &error))?;
    let key_type = match args.key_type {
        Some(key_type) => key_type,
        None => column.key_type().map_err(|error| failure(&name, &error))?,
    };
    let filters: Vec<Option<Keyed<AnyFilter>>> = (0..file.row_groups.len())
        .map(|group| file.filter(group, column).map_err(|error| failure(&name, &error)))
        .collect::<Result<_>>()?;
    let probes = Keys::open(&args.probes, args.form.separator(), false)?;
    let bar = progress::bar_beside_output("querying", &probes);
    let answer = |batch: &Batch<'_>| {
        let answers = answer(args, batch, key_type, &filters);
        bar.inc(batch.read_bytes());
        answers
    };
    let mut total = 0;
    probes.each_batch(args.form.threads(), answer, |answers| {
        let Answers { found, count } = answers?;
        total += count;
        output::write(&found)?;
        if args.quiet && total > 0 {
            // Exits here because a worker may be blocked on an input that never ends.
            exit(0);
        }
        Ok(())
    })?;
    bar.finish_and_clear();
    match (args.count, args.json) {
        (true, true) => output::print_json([json!({ "count": total })])?,
        (true, false) => output::print(total)?,
        _ => {}
    }
    Ok(total > 0)
}

fn answer(
    args: &Query,
    batch: &Batch<'_>,
    key_type: KeyType,
    filters: &[Option<Keyed<AnyFilter>>],
) -> Result<Answers> {
    let mut hashes: Vec<KeyHash> = Vec::new();
    hash_typed(batch, &Format::Parquet.hasher(), key_type, true, &mut hashes)?;
    let mut answers = Answers::default();
    for (line, hash) in batch.lines().zip(hashes) {
        // A row group without a filter may hold any key.
        let may_hold = |filter: &Option<Keyed<AnyFilter>>| {
            filter.as_ref().is_none_or(|filter| filter.contains_hash(hash))
        };
        let has_key = !line.key.is_empty();
        let groups = filters.iter().enumerate().filter(|(_, of)| has_key && may_hold(of));
        let groups: Vec<usize> = groups.map(|(group, _)| group).collect();
        if groups.is_empty() != args.invert {
            continue;
        }
        answers.count += 1;
        if args.count || args.quiet {
            continue;
        }
        let key = String::from_utf8_lossy(line.key);
        match (args.json, args.invert) {
            (true, _) => {
                output::push_line(&mut answers.found, json!({ "key": key, "row_groups": groups }));
            }
            (false, true) => output::push_line(&mut answers.found, key),
            (false, false) => {
                let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
                output::push_line(&mut answers.found, format_args!("{key}\t{}", groups.join(",")));
            }
        }
    }
    Ok(answers)
}
