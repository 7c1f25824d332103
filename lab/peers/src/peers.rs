//! The other crates' filters, each along its quickest way.
//!
//! A Bloom filter gets as many bits as our `bloom` takes for the goal, a split-block filter as many
//! as our `split_block_bloom`: all of these take any size, so nothing is rounded. Those that keep
//! fingerprints have a power of two of slots, and most of them one width: they say how large they
//! became, and what is counted says how precise.

use std::hash::{BuildHasher, Hasher};

use ahash::{AHasher, RandomState};
use anyhow::{Result, anyhow};
use atomic_cuckoo_filter::CuckooFilterBuilder;
use bloomfilter::Bloom;
use fastbloom::BloomFilter;
use foldhash::fast::FixedState;
use parquet::bloom_filter::Sbbf;
use tamis::Kind;
use tamis_bench::{Built, Contender, Options};

/// All of them.
pub fn all(options: &Options) -> Result<Vec<Box<dyn Contender>>> {
    let (keys, fpr, seed) = (options.keys, options.fpr, options.seed);
    let bloom_bytes = bytes(Kind::Bloom, options)?;
    let split_bytes = bytes(Kind::SplitBlockBloom, options)?;
    // What buckets of four hold: above, they may find no place for a key.
    let slots = (keys as f64 / 0.95).ceil() as usize;
    // Parquet's takes any size only if it is made from bytes; these are there before it is timed.
    let zeros = vec![0u8; split_bytes];
    Ok(vec![
        peer(
            "fastbloom default",
            move |members| {
                let bits = BloomFilter::with_num_bits(bloom_bytes * 8).seed(&seed.into());
                let mut filter = bits.expected_items(keys as usize);
                filter.insert_all(members);
                Ok(filter)
            },
            move |_| bloom_bytes,
            |filter, key| filter.contains(&key),
        ),
        peer(
            "fastbloom foldhash",
            move |members| {
                let bits = BloomFilter::with_num_bits(bloom_bytes * 8);
                let mut filter =
                    bits.hasher(FixedState::with_seed(seed)).expected_items(keys as usize);
                filter.insert_all(members);
                Ok(filter)
            },
            move |_| bloom_bytes,
            |filter, key| filter.contains(&key),
        ),
        peer(
            "bloomfilter default",
            move |members| {
                let seed = std::array::from_fn(|i| (mix64(seed) >> i) as u8);
                let filter = Bloom::<u64>::new_with_seed(bloom_bytes, keys as usize, &seed);
                let mut filter = filter.map_err(|error| anyhow!(error))?;
                members.iter().for_each(|key| filter.set(key));
                Ok(filter)
            },
            move |_| bloom_bytes,
            |filter, key| filter.check(&key),
        ),
        peer(
            "sbbf-rs-safe mix64",
            move |members| {
                let mut filter = sbbf_rs_safe::Filter::new(8, split_bytes);
                for key in members {
                    filter.insert_hash(mix64(*key));
                }
                Ok(filter)
            },
            move |_| split_bytes,
            |filter, key| filter.contains_hash(mix64(key)),
        ),
        peer(
            "parquet sbbf",
            move |members| {
                let mut filter = Sbbf::new(&zeros);
                members.iter().for_each(|key| filter.insert(&key.cast_signed()));
                Ok(filter)
            },
            move |_| split_bytes,
            |filter, key| filter.check(&key.cast_signed()),
        ),
        peer(
            "qfilter foldhash",
            move |members| {
                let mut filter = quotient_filter(keys, fpr, seed)?;
                for key in members {
                    filter.insert(key)?;
                }
                Ok(filter)
            },
            qfilter::Filter::memory_usage,
            |filter, key| filter.contains(key),
        ),
        peer(
            "qfilter sorted",
            move |members| {
                let mut builder = qfilter::Builder::new(quotient_filter(keys, fpr, seed)?);
                let (hasher, bits) = (FixedState::with_seed(seed), builder.fingerprint_size());
                let hash = |key| qfilter::compute_fingerprint_with_hasher(&hasher, key, bits);
                let mut fingerprints: Vec<u64> = members.iter().map(hash).collect();
                fingerprints.sort_unstable();
                for fingerprint in fingerprints {
                    builder.insert_fingerprint(false, fingerprint)?;
                }
                Ok(builder.into_filter())
            },
            qfilter::Filter::memory_usage,
            |filter, key| filter.contains(key),
        ),
        peer(
            "cuckoofilter ahash",
            move |members| {
                let mut filter = cuckoofilter::CuckooFilter::<FixedAHash>::with_capacity(slots);
                for key in members {
                    filter.add(key)?;
                }
                Ok(filter)
            },
            cuckoofilter::CuckooFilter::memory_usage,
            |filter, key| filter.contains(&key),
        ),
        peer(
            "bloom-lib cuckoo",
            move |members| {
                // It leaves room by itself.
                let hasher = FixedState::with_seed(seed);
                let mut filter = bloom_lib::CuckooFilter::with_hasher(keys as usize, hasher)?;
                for key in members {
                    filter.insert(key)?;
                }
                Ok(filter)
            },
            |filter| filter.capacity() * 2,
            |filter, key| filter.contains(&key),
        ),
        atomic_cuckoo("atomic-cuckoo-filter ahash 8", slots, 8),
        atomic_cuckoo("atomic-cuckoo-filter ahash 16", slots, 16),
    ])
}

/// qfilter's, with foldhash.
pub type Quotient = qfilter::Filter<Box<[u8]>, FixedState>;

/// An empty one with the shortest remainders that keep to the goal at the load that `keys` are.
///
/// Its own constructor takes the rate for a full table, and so gives a bit more than it takes
/// where rounding to a power of two has left the table half empty.
pub fn quotient_filter(keys: u64, fpr: f64, seed: u64) -> Result<Quotient> {
    let quotient = qfilter::filter_specs(keys, 0.5)?.fingerprint_bits - 1;
    let load = keys as f64 / 2f64.powi(quotient.into());
    // A stranger meets load / 2^remainder equal fingerprints on average.
    let remainder = (load / -(-fpr).ln_1p()).log2().ceil().max(1.0) as u8;
    let hasher = FixedState::with_seed(seed);
    Ok(Quotient::with_fingerprint_size_and_hasher(keys, quotient + remainder, hasher)?)
}

/// ahash with keys that the compiler knows. By itself it fetches random ones for each hash anew,
/// which the program drew when it started.
#[derive(Clone)]
pub struct FixedAHash(AHasher);

impl Default for FixedAHash {
    #[inline(always)]
    fn default() -> Self {
        let [a, b, c, d] = [1, 2, 3, 4].map(mix64);
        Self(RandomState::with_seeds(a, b, c, d).build_hasher())
    }
}

impl Hasher for FixedAHash {
    #[inline(always)]
    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    #[inline(always)]
    fn write_u64(&mut self, number: u64) {
        self.0.write_u64(number);
    }

    #[inline(always)]
    fn write_usize(&mut self, number: usize) {
        self.0.write_usize(number);
    }

    #[inline(always)]
    fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// Fingerprints of so many bits, in buckets of four.
fn atomic_cuckoo(name: &'static str, slots: usize, width: usize) -> Box<dyn Contender> {
    peer(
        name,
        move |members| {
            let builder = CuckooFilterBuilder::<FixedAHash>::default();
            let filter = builder.capacity(slots).fingerprint_size(width).build()?;
            for key in members {
                filter.insert(key)?;
            }
            Ok(filter)
        },
        move |filter| filter.capacity() * width / 8,
        |filter, key| filter.contains(&key),
    )
}

/// Bytes that one of ours takes for the goal.
pub fn bytes(kind: Kind, options: &Options) -> Result<usize> {
    Ok(kind.plan(options.goal(), &Default::default())?.bytes as usize)
}

/// A quick and good hash of an integer for those that take hashes: two multiplications, where
/// ours spends five on its 128 bits.
#[inline(always)]
pub fn mix64(key: u64) -> u64 {
    tamis_bits::range::mix(key ^ 0x9e37_79b9_7f4a_7c15)
}

/// A filter of type `F`, made by `build`, asked by `contains`, and by `batch` where it knows batches.
struct Peer<B, S, C, T> {
    name: &'static str,
    build: B,
    bytes: S,
    contains: C,
    batch: Option<T>,
}

struct Made<F, C, T> {
    filter: F,
    bytes: usize,
    contains: C,
    batch: Option<T>,
}

type Batch<F> = fn(&F, &[u64], &mut [bool]);

pub fn peer<F: 'static>(
    name: &'static str,
    build: impl Fn(&[u64]) -> Result<F> + 'static,
    bytes: impl Fn(&F) -> usize + 'static,
    contains: impl Fn(&F, u64) -> bool + Copy + 'static,
) -> Box<dyn Contender> {
    Box::new(Peer { name, build, bytes, contains, batch: None::<Batch<F>> })
}

/// A peer that also takes many keys at once.
pub fn batching<F: 'static>(
    name: &'static str,
    build: impl Fn(&[u64]) -> Result<F> + 'static,
    bytes: impl Fn(&F) -> usize + 'static,
    contains: impl Fn(&F, u64) -> bool + Copy + 'static,
    batch: impl Fn(&F, &[u64], &mut [bool]) + Copy + 'static,
) -> Box<dyn Contender> {
    Box::new(Peer { name, build, bytes, contains, batch: Some(batch) })
}

impl<F, B, S, C, T> Contender for Peer<B, S, C, T>
where
    F: 'static,
    B: Fn(&[u64]) -> Result<F>,
    S: Fn(&F) -> usize,
    C: Fn(&F, u64) -> bool + Copy + 'static,
    T: Fn(&F, &[u64], &mut [bool]) + Copy + 'static,
{
    fn name(&self) -> &str {
        self.name
    }

    fn build(&self, keys: &[u64]) -> Result<Box<dyn Built>> {
        let filter = (self.build)(keys)?;
        let bytes = (self.bytes)(&filter);
        Ok(Box::new(Made { bytes, filter, contains: self.contains, batch: self.batch }))
    }
}

impl<F, C, T> Built for Made<F, C, T>
where
    C: Fn(&F, u64) -> bool,
    T: Fn(&F, &[u64], &mut [bool]),
{
    fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    fn count(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| (self.contains)(&self.filter, **key)).count()
    }

    fn count_batch(&self, keys: &[u64]) -> Option<usize> {
        let batch = self.batch.as_ref()?;
        let mut answers = vec![false; keys.len()];
        batch(&self.filter, keys, &mut answers);
        Some(answers.into_iter().filter(|yes| *yes).count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamis_bench::Keys;

    /// A peer that lost keys or missed its rate would be no peer.
    #[test]
    fn peers_hold_their_keys() {
        // Slots are powers of two: of 2^14, the last count fills 95 % and the one before 49 %.
        for keys in [1, 100, 8_000, 15_564] {
            let options = Options {
                filters: vec!["all".to_owned()],
                keys,
                fpr: 0.01,
                rounds: 1,
                seed: 1,
                json: false,
                dynamic: false,
                peak_of: None,
            };
            let members = Keys::members_only(keys, 7).members;
            let strangers = &Keys::members_only(keys + 1_000_000, 7).members[keys as usize..];
            let rate = |peer: &dyn Contender| {
                // Two buckets of four fingerprints, each of eight bits at the least.
                if peer.name().contains("cuckoo") { 8.0 / 255.0 } else { options.fpr }
            };
            let others = all(&options).unwrap().into_iter().map(|peer| (rate(&*peer), peer));
            // Prints of eight bits, whatever is asked for.
            let statics = crate::statics::all().into_iter().map(|peer| (1.0 / 256.0, peer));
            for (most, peer) in others.chain(statics) {
                let filter = peer.build(&members).unwrap();
                assert_eq!(filter.count(&members) as u64, keys, "{}, {keys} keys", peer.name());
                let fpr = filter.count(strangers) as f64 / strangers.len() as f64;
                assert!(fpr < most * 1.05 + 0.0005, "{}, {keys} keys: {fpr}", peer.name());
            }
        }
    }
}
