//! The other crates' filters, each along its quickest way.
//!
//! A Bloom filter gets as many bits as our `bloom` takes for the goal, a split-block filter as many
//! as our `split_block_bloom`: all of these take any size, so nothing is rounded.

use anyhow::{Result, anyhow};
use bloomfilter::Bloom;
use fastbloom::BloomFilter;
use foldhash::fast::FixedState;
use parquet::bloom_filter::Sbbf;
use tamis::Kind;
use tamis_cli::bench::Args;
use tamis_cli::bench::harness::{Contained, Contender};

/// All of them.
pub fn all(args: &Args) -> Result<Vec<Box<dyn Contender>>> {
    let (keys, seed) = (args.keys as usize, args.seed);
    let bloom_bytes = bytes(Kind::Bloom, args)?;
    let split_bytes = bytes(Kind::SplitBlockBloom, args)?;
    // Parquet's takes any size only if it is made from bytes; these are there before it is timed.
    let zeros = vec![0u8; split_bytes];
    Ok(vec![
        peer(
            "fastbloom default",
            bloom_bytes,
            move |members| {
                let bits = BloomFilter::with_num_bits(bloom_bytes * 8).seed(&seed.into());
                let mut filter = bits.expected_items(keys);
                filter.insert_all(members);
                Ok(filter)
            },
            |filter, key| filter.contains(&key),
        ),
        peer(
            "fastbloom foldhash",
            bloom_bytes,
            move |members| {
                let bits = BloomFilter::with_num_bits(bloom_bytes * 8);
                let mut filter = bits.hasher(FixedState::with_seed(seed)).expected_items(keys);
                filter.insert_all(members);
                Ok(filter)
            },
            |filter, key| filter.contains(&key),
        ),
        peer(
            "bloomfilter default",
            bloom_bytes,
            move |members| {
                let seed = std::array::from_fn(|i| (mix64(seed) >> i) as u8);
                let filter = Bloom::<u64>::new_with_seed(bloom_bytes, keys, &seed);
                let mut filter = filter.map_err(|error| anyhow!(error))?;
                members.iter().for_each(|key| filter.set(key));
                Ok(filter)
            },
            |filter, key| filter.check(&key),
        ),
        peer(
            "sbbf-rs-safe mix64",
            split_bytes,
            move |members| {
                let mut filter = sbbf_rs_safe::Filter::new(8, split_bytes);
                for key in members {
                    filter.insert_hash(mix64(*key));
                }
                Ok(filter)
            },
            |filter, key| filter.contains_hash(mix64(key)),
        ),
        peer(
            "parquet sbbf",
            split_bytes,
            move |members| {
                let mut filter = Sbbf::new(&zeros);
                members.iter().for_each(|key| filter.insert(&key.cast_signed()));
                Ok(filter)
            },
            |filter, key| filter.check(&key.cast_signed()),
        ),
    ])
}

/// Bytes that one of ours takes for the goal.
pub fn bytes(kind: Kind, args: &Args) -> Result<usize> {
    Ok(kind.plan(args.goal(), &Default::default())?.bytes as usize)
}

/// A quick and good hash of an integer for those that take hashes: two multiplications, where
/// ours spends five on its 128 bits.
#[inline(always)]
pub fn mix64(key: u64) -> u64 {
    bits::range::mix(key ^ 0x9e37_79b9_7f4a_7c15)
}

/// A filter of type `F`, made by `build` and asked by `contains`.
struct Peer<B, C> {
    name: &'static str,
    bytes: usize,
    build: B,
    contains: C,
}

struct Made<F, C> {
    filter: F,
    bytes: usize,
    contains: C,
}

fn peer<F: 'static>(
    name: &'static str,
    bytes: usize,
    build: impl Fn(&[u64]) -> Result<F> + 'static,
    contains: impl Fn(&F, u64) -> bool + Copy + 'static,
) -> Box<dyn Contender> {
    Box::new(Peer { name, bytes, build, contains })
}

impl<F, B, C> Contender for Peer<B, C>
where
    F: 'static,
    B: Fn(&[u64]) -> Result<F>,
    C: Fn(&F, u64) -> bool + Copy + 'static,
{
    fn name(&self) -> &str {
        self.name
    }

    fn build(&self, keys: &[u64]) -> Result<Box<dyn Contained>> {
        let (bytes, contains) = (self.bytes, self.contains);
        Ok(Box::new(Made { filter: (self.build)(keys)?, bytes, contains }))
    }
}

impl<F, C: Fn(&F, u64) -> bool> Contained for Made<F, C> {
    fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn count(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| (self.contains)(&self.filter, **key)).count()
    }
}
