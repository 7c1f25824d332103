//! The operations whose instructions `cargo xtask speed` counts under callgrind.
//!
//! `instructions write FOLDER` builds a filter of each kind and saves it as `FOLDER/KIND.tamis`.
//! `instructions run FILE` opens one and runs every operation of its kind on 10^4 keys, each in a
//! function of its own whose name starts with `measured_`. Filters are built without callgrind, which
//! is 50 times as slow.

use std::hint::black_box;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use tamis::{AnyFilter, Capability, Filter, HashId, KeyHasher, Keyed, Kind};

const KEYS: u64 = 100_000;
/// The keys of kinds that are slow to build.
const FEW_KEYS: u64 = 10_000;
const QUERIES: u64 = 10_000;
const FPR: f64 = 1.0 / 256.0;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["write", folder] => Kind::ALL.iter().try_for_each(|kind| write(*kind, folder.as_ref())),
        ["run", file] => run(file.as_ref()),
        _ => bail!("usage: instructions write FOLDER | run FILE"),
    }
}

fn keys(kind: Kind) -> u64 {
    if kind.is_slow_to_build() { FEW_KEYS } else { KEYS }
}

fn write(kind: Kind, folder: &Path) -> Result<()> {
    let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
    let keys = 0..keys(kind);
    let builder = Keyed::<AnyFilter>::builder(kind).fpr(FPR).hasher(&hasher);
    let filter = builder.capacity(keys.end).build(keys).with_context(|| kind.to_string())?;
    Ok(filter.save(folder.join(format!("{kind}.tamis")))?)
}

fn run(file: &Path) -> Result<()> {
    let mut filter = Keyed::<AnyFilter>::open(file)?;
    let kind = filter.filter().kind();
    let members = spread(0, keys(kind));
    let non_members = spread(1 << 40, keys(kind));
    look_up(kind, file, &members, &non_members)?;
    if kind.can(Capability::Insert) || kind.can(Capability::Window) {
        filter = filter.empty_like()?;
        // The filter is half full when insertions are counted.
        let half = keys(kind) / 2;
        insert(&mut filter, &(0..half).collect::<Vec<_>>())?;
        measured_insert(&mut filter, &spread(half, QUERIES))?;
    }
    Ok(())
}

/// Returns 10^4 of `count` consecutive keys, in an order that visits the whole table.
fn spread(from: u64, count: u64) -> Vec<u64> {
    (0..QUERIES).map(|index| from + index * 7_919 % count).collect()
}

macro_rules! define_look_up {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        /// Looks keys up in the filter of `file`, as a program does that names the kind's type.
        fn look_up(kind: Kind, file: &Path, members: &[u64], non_members: &[u64]) -> Result<()> {
            match kind {
                $( Kind::$type => look_up_in(&Keyed::<tamis::$type>::open(file)?, members, non_members), )*
                // `Kind` is non-exhaustive; the registry lists every kind of this version.
                other => bail!("{other} is not in the registry"),
            }
        }
    };
}
tamis::registry!(define_look_up);

fn look_up_in<F: Filter>(filter: &Keyed<F>, members: &[u64], non_members: &[u64]) -> Result<()> {
    let found = measured_hit(filter, members);
    ensure!(found == members.len(), "{found} of {} members were found", members.len());
    black_box(measured_miss(filter, non_members));
    let found = measured_hit_batch(filter, members).into_iter().filter(|found| *found).count();
    ensure!(found == members.len(), "{found} of {} members were found", members.len());
    black_box(measured_miss_batch(filter, non_members));
    Ok(())
}

#[inline(never)]
fn measured_hit<F: Filter>(filter: &Keyed<F>, keys: &[u64]) -> usize {
    keys.iter().filter(|key| filter.contains(*key)).count()
}

#[inline(never)]
fn measured_miss<F: Filter>(filter: &Keyed<F>, keys: &[u64]) -> usize {
    keys.iter().filter(|key| filter.contains(*key)).count()
}

#[inline(never)]
fn measured_hit_batch<F: Filter>(filter: &Keyed<F>, keys: &[u64]) -> Vec<bool> {
    filter.contains_batch(keys)
}

#[inline(never)]
fn measured_miss_batch<F: Filter>(filter: &Keyed<F>, keys: &[u64]) -> Vec<bool> {
    filter.contains_batch(keys)
}

#[inline(never)]
fn measured_insert(filter: &mut Keyed<AnyFilter>, keys: &[u64]) -> Result<()> {
    insert(filter, keys)
}

/// Inserts or pushes the keys one by one.
fn insert(filter: &mut Keyed<AnyFilter>, keys: &[u64]) -> Result<()> {
    let window = filter.filter().kind().can(Capability::Window);
    for key in keys {
        if window {
            filter.push(key)?;
        } else {
            filter.insert(key)?;
        }
    }
    Ok(())
}
