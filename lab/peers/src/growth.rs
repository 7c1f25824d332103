//! Filters that start with a capacity of 1000 keys and grow.

use anyhow::Result;
use growable_bloom_filter::GrowableBloom;
use scalable_cuckoo_filter::ScalableCuckooFilter;
use tamis::{Build, Goal, Grow, Growing, Hashes, Key, KeyHash, Keyed, Persist, ScalableBloom, plan};
use tamis_bench::{Built, Contender, Options};

use crate::peers::peer;

const FIRST: u64 = 1000;

/// Returns the kinds of tamis.
pub fn ours(options: &Options) -> Result<Vec<Box<dyn Contender>>> {
    let most = options.keys.to_string();
    Ok(vec![
        grown::<Growing>("growing from 1000", options, &[])?,
        grown::<Growing>("growing from 1000, most named", options, &[("most", &most)])?,
        grown::<ScalableBloom>("scalable_bloom from 1000", options, &[])?,
    ])
}

/// Returns the peers.
pub fn all(options: &Options) -> Vec<Box<dyn Contender>> {
    let fpr = options.fpr;
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
            // It has no method for its size; its serialised form is nearly all bits.
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

/// A kind of tamis that starts with a capacity of 1000 keys.
struct Grown<F: Build> {
    name: &'static str,
    shape: F::Shape,
    hasher: tamis::KeyHasher,
}

fn grown<F: Build + Grow + Persist + 'static>(
    name: &'static str,
    options: &Options,
    set: &[(&str, &str)],
) -> Result<Box<dyn Contender>> {
    let mut settings = tamis::Settings::default();
    set.iter().for_each(|(name, value)| settings.set(*name, *value));
    let shape = plan::solve(Goal::KeysFpr { keys: FIRST, fpr: options.fpr }, &settings)?;
    Ok(Box::new(Grown::<F> { name, shape, hasher: options.hasher() }))
}

impl<F: Build + Grow + Persist + 'static> Contender for Grown<F> {
    fn name(&self) -> &str {
        self.name
    }

    fn build(&self, keys: &[u64]) -> Result<Box<dyn Built>> {
        let hashes = Hashes::new(keys.iter().map(|key| -> KeyHash { key.hash_with(&self.hasher) }));
        let filter = F::build(self.shape.clone(), hashes)?;
        Ok(Box::new(Sized { bytes: filter.bytes(), filter: Keyed::new(self.hasher, filter) }))
    }
}

/// A filter whose size differs from that of its shape.
struct Sized<F> {
    filter: Keyed<F>,
    bytes: u64,
}

impl<F: Persist> Built for Sized<F> {
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
