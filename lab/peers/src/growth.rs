//! Filters that begin at a thousand keys and do not know how many will come.

use anyhow::Result;
use growable_bloom_filter::GrowableBloom;
use scalable_cuckoo_filter::ScalableCuckooFilter;
use tamis::{Build, Goal, Grow, Growing, KeyHash, Hashes, Key, Keyed, ScalableBloom, plan};
use tamis_cli::bench::Args;
use tamis_cli::bench::harness::{Contained, Contender};

use crate::peers::peer;

const FIRST: u64 = 1000;

/// Ours.
pub fn ours(args: &Args) -> Result<Vec<Box<dyn Contender>>> {
    let most = args.keys.to_string();
    Ok(vec![
        grown::<Growing>("growing from 1000", args, &[])?,
        grown::<Growing>("growing from 1000, most named", args, &[("most", &most)])?,
        grown::<ScalableBloom>("scalable_bloom from 1000", args, &[])?,
    ])
}

/// The others.
pub fn all(args: &Args) -> Vec<Box<dyn Contender>> {
    let fpr = args.fpr;
    vec![
        peer(
            "growable-bloom-filter from 1000",
            move |members| {
                let mut filter = GrowableBloom::new(fpr, FIRST as usize);
                for key in members {
                    filter.insert(key);
                }
                Ok(filter)
            },
            // It does not say; nearly all that it would write is its bits.
            |filter| bincode::serialized_size(filter).unwrap_or(0) as usize,
            |filter, key| filter.contains(key),
        ),
        peer(
            "scalable_cuckoo_filter from 1000",
            move |members| {
                let mut filter = ScalableCuckooFilter::<u64>::new(FIRST as usize, fpr);
                members.iter().for_each(|key| filter.insert(key));
                Ok(filter)
            },
            |filter| filter.bits().div_ceil(8) as usize,
            |filter, key| filter.contains(&key),
        ),
    ]
}

/// A kind of ours that begins at a thousand keys.
struct Grown<F: Grow> {
    name: &'static str,
    shape: F::Shape,
    hasher: tamis::KeyHasher,
}

fn grown<F: Build + Grow + 'static>(
    name: &'static str,
    args: &Args,
    set: &[(&str, &str)],
) -> Result<Box<dyn Contender>> {
    let mut settings = tamis::Settings::default();
    set.iter().for_each(|(name, value)| settings.set(*name, *value));
    let shape = plan::solve(Goal::KeysFpr { keys: FIRST, fpr: args.fpr }, &settings)?;
    Ok(Box::new(Grown::<F> { name, shape, hasher: args.hasher() }))
}

impl<F: Build + Grow + 'static> Contender for Grown<F> {
    fn name(&self) -> &str {
        self.name
    }

    fn build(&self, keys: &[u64]) -> Result<Box<dyn Contained>> {
        let hashes = Hashes::new(keys.iter().map(|key| -> KeyHash { key.hash_with(&self.hasher) }));
        let filter = F::build(self.shape.clone(), hashes)?;
        Ok(Box::new(Sized { bytes: filter.bytes(), filter: Keyed::new(self.hasher, filter) }))
    }
}

/// A filter that takes another amount of memory than its shape says.
struct Sized<F> {
    filter: Keyed<F>,
    bytes: u64,
}

impl<F: tamis::Filter> Contained for Sized<F> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn count(&self, keys: &[u64]) -> usize {
        self.filter.count(keys)
    }

    fn count_batch(&self, keys: &[u64]) -> Option<usize> {
        self.filter.count_batch(keys)
    }
}
