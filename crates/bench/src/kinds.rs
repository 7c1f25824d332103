//! The kinds of the registry as contenders.

use anyhow::{Result, bail, ensure};
use tamis::{
    Build, BuildOptions, Error, Goal, Hashes, Key, KeyHasher, Keyed, Kind, Persist, Settings,
    Shape, Sizing, plan,
};

use crate::comparison::Options;
use crate::harness::{Built, Contender};

/// The largest number of keys that is measured: more would take hours.
const MAX_KEYS: u64 = 2_000_000_000;
/// The largest number of keys for which `all` includes the kinds that are slow to build.
const MAX_KEYS_SLOW: u64 = 100_000;

/// A filter of type `F`, built from a fixed shape.
#[derive(Debug)]
pub struct KindContender<F: Build> {
    /// The name in tables.
    pub name: &'static str,
    /// The shape that every build uses.
    pub shape: F::Shape,
    /// Hashes the keys.
    pub hasher: KeyHasher,
}

impl<F: Build + Persist + 'static> Contender for KindContender<F> {
    fn name(&self) -> &str {
        self.name
    }

    fn build(&self, keys: &[u64]) -> Result<Box<dyn Built>> {
        let hashes = Hashes::new(keys.iter().map(|key| key.hash_with(&self.hasher)));
        Ok(Box::new(Keyed::new(self.hasher, F::build(self.shape.clone(), hashes)?)))
    }

    fn table_bytes(&self) -> u64 {
        self.shape.figures().bytes
    }
}

/// The same kind through [`AnyFilter`](tamis::AnyFilter), which costs a dispatch per query.
#[derive(Debug)]
struct DynamicContender {
    name: String,
    kind: Kind,
    sizing: Sizing,
    hasher: KeyHasher,
    table_bytes: u64,
}

impl Contender for DynamicContender {
    fn name(&self) -> &str {
        &self.name
    }

    fn build(&self, keys: &[u64]) -> Result<Box<dyn Built>> {
        let mut hashes = Hashes::new(keys.iter().map(|key| key.hash_with(&self.hasher)));
        let filter = self.kind.build(&self.sizing, &mut hashes, &BuildOptions::new())?;
        Ok(Box::new(Keyed::new(self.hasher, filter)))
    }

    fn table_bytes(&self) -> u64 {
        self.table_bytes
    }
}

/// Returns a kind of the registry through [`AnyFilter`](tamis::AnyFilter), named `KIND dynamic`.
fn dynamic(kind: Kind, options: &Options, table_bytes: u64) -> Box<dyn Contender> {
    let name = format!("{kind} dynamic");
    let sizing = Sizing::fpr(options.fpr).capacity(options.keys);
    Box::new(DynamicContender { name, kind, sizing, hasher: options.hasher(), table_bytes })
}

impl<F: Persist> Built for Keyed<F> {
    fn bytes(&self) -> u64 {
        self.filter().bytes()
    }

    fn count(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.contains(*key)).count()
    }

    fn count_batch(&self, keys: &[u64]) -> Option<usize> {
        Some(self.contains_batch(keys).into_iter().filter(|yes| *yes).count())
    }
}

macro_rules! define_kind {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        /// Returns a kind of the registry with its default settings.
        ///
        /// # Errors
        ///
        /// Returns an error if the kind cannot meet `goal`.
        pub fn kind(kind: Kind, goal: Goal, hasher: KeyHasher) -> Result<Box<dyn Contender>> {
            Ok(match kind { $(
                Kind::$type => Box::new(KindContender::<tamis::filters::$type> {
                    name: kind.name(),
                    shape: plan::solve(goal, &Settings::default())?,
                    hasher,
                }),
            )*
                // `Kind` is non-exhaustive; the registry lists every kind of this version.
                other => bail!("{other} is not in the registry"),
            })
        }
    };
}
tamis::registry!(define_kind);

/// Returns the kinds of the registry that `options` selects.
///
/// With `all`, kinds for filters of other programs are left out. A kind that cannot meet the goal, or
/// that would take minutes to build, is left out with a line on standard error. A kind selected by its name is never left out.
///
/// # Errors
///
/// Returns an error if `options` is out of range, or if a kind selected by its name cannot meet
/// the goal.
pub fn kinds(options: &Options) -> Result<Vec<Box<dyn Contender>>> {
    plan::check_fpr(options.fpr)?;
    ensure!(options.keys > 0, "--keys must be at least 1");
    if options.keys > MAX_KEYS {
        bail!(Error::Limit { what: "keys", asked: options.keys, most: MAX_KEYS });
    }
    let mut contenders = Vec::new();
    for one in Kind::ALL.iter().filter(|kind| options.selects(kind.name())) {
        let by_name = options.filters.iter().any(|filter| filter == one.name());
        if one.is_foreign() && !by_name {
            continue;
        }
        if one.is_slow_to_build() && options.keys > MAX_KEYS_SLOW && !by_name {
            eprintln!(
                "skipped {one}: building it takes minutes; select it with --filter {one} to measure it"
            );
            continue;
        }
        match kind(*one, options.goal(), options.hasher()) {
            Ok(contender) => {
                let table_bytes = contender.table_bytes();
                contenders.push(contender);
                if options.dynamic {
                    contenders.push(dynamic(*one, options, table_bytes));
                }
            }
            Err(error) if !by_name => eprintln!("skipped {one}: {error}"),
            Err(error) => return Err(error.context(one.name())),
        }
    }
    Ok(contenders)
}
