//! The operations whose instructions `cargo xtask speed` counts under callgrind.
//!
//! `instructions write FOLDER` builds a filter of each kind and saves it as `FOLDER/KIND.tamis`.
//! `instructions run FILE OPERATION` opens one and runs one operation on 10^4 keys in the function
//! `measured`, whose instructions are counted. Filters are built without callgrind, which is 50 times as
//! slow.

use std::hint::black_box;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use tamis::{AnyFilter, Capability, Filter, KeyHasher, Keyed, Kind};

const KEYS: u64 = 100_000;
/// The keys of kinds that are slow to build.
const FEW_KEYS: u64 = 10_000;
const QUERIES: u64 = 10_000;
const FPR: f64 = 1.0 / 256.0;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", folder] => Kind::ALL.iter().try_for_each(|kind| write(*kind, folder.as_ref())),
        ["run", file, operation] => run(file.as_ref(), operation),
        _ => bail!("usage: instructions write FOLDER | run FILE OPERATION"),
    }
}

fn keys(kind: Kind) -> u64 {
    if kind.is_slow_to_build() { FEW_KEYS } else { KEYS }
}

fn write(kind: Kind, folder: &Path) -> Result<()> {
    let hasher = KeyHasher::new(kind.default_hash(), [1, 2]);
    let keys = 0..keys(kind);
    let builder = Keyed::<AnyFilter>::builder(kind).fpr(FPR).hasher(&hasher);
    let filter = builder.capacity(keys.end).build(keys).with_context(|| kind.to_string())?;
    Ok(filter.save(folder.join(format!("{kind}.tamis")))?)
}

fn run(file: &Path, operation: &str) -> Result<()> {
    let filter = Keyed::<AnyFilter>::open(file)?;
    let kind = filter.filter().kind();
    let (keys, all_found) = match operation {
        "hit" | "hit, batch" => (spread(0, keys(kind)), true),
        "miss" | "miss, batch" => (spread(1 << 40, keys(kind)), false),
        "insert" => return insert_into(filter.empty_like()?, keys(kind) / 2),
        _ => bail!("there is no operation {operation}"),
    };
    let found = look_up(kind, file, &keys, operation.ends_with("batch"))?;
    ensure!(!all_found || found == keys.len(), "{found} of {} members were found", keys.len());
    Ok(())
}

/// Counts insertions into a filter that holds `half` keys.
fn insert_into(mut filter: Keyed<AnyFilter>, half: u64) -> Result<()> {
    let window = filter.filter().kind().can(Capability::Window);
    let mut insert = |keys: Vec<u64>| -> Result<()> {
        for key in &keys {
            if window {
                filter.push(key)?;
            } else {
                filter.insert(key)?;
            }
        }
        Ok(())
    };
    insert((0..half).collect())?;
    let keys = spread(half, QUERIES);
    measured(|| insert(keys))
}

/// Returns 10^4 of `count` consecutive keys, in an order that visits the whole table.
fn spread(from: u64, count: u64) -> Vec<u64> {
    (0..QUERIES).map(|index| from + index * 7_919 % count).collect()
}

macro_rules! define_look_up {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        /// Returns how many of the keys the filter of `file` holds, as a program does that names its type.
        fn look_up(kind: Kind, file: &Path, keys: &[u64], batch: bool) -> Result<usize> {
            match kind {
                $( Kind::$type => Ok(look_up_in(&Keyed::<tamis::$type>::open(file)?, keys, batch)), )*
                // `Kind` is non-exhaustive; the registry lists every kind of this version.
                other => bail!("{other} is not in the registry"),
            }
        }
    };
}
tamis::registry!(define_look_up);

fn look_up_in<F: Filter>(filter: &Keyed<F>, keys: &[u64], batch: bool) -> usize {
    if batch {
        let found = measured(|| filter.contains_batch(keys));
        return found.into_iter().filter(|found| *found).count();
    }
    measured(|| keys.iter().filter(|key| filter.contains(*key)).count())
}

/// Runs `operation` where callgrind counts.
#[inline(never)]
fn measured<R>(operation: impl FnOnce() -> R) -> R {
    black_box(operation())
}
