//! Filters of other crates, each called in its fastest way.
//!
//! A Bloom filter gets as many bits as `bloom` of tamis takes for the goal, and a split-block
//! filter as many as `split_block_bloom`. All of these accept any size, so nothing is rounded. The
//! filters with fingerprints have a power of 2 of slots, and most of them only one fingerprint
//! width. Their sizes and rates are therefore their own, and both are reported.

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

/// Returns all of them.
pub fn all(options: &Options) -> Result<Vec<Box<dyn Contender>>> {
    let (keys, fpr, seed) = (options.keys, options.fpr, options.seed);
    let bloom_bytes = bytes(Kind::Bloom, options)?;
    let split_bytes = bytes(Kind::SplitBlockBloom, options)?;
    // The load factor that buckets of 4 slots reach. Above it an insertion may fail.
    let slots = (keys as f64 / 0.95).ceil() as usize;
    // Parquet's filter accepts any size only when it is made from bytes, which are allocated before
    // the timing starts.
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
                // It adds spare slots itself.
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

/// A filter of qfilter with foldhash.
pub type Quotient = qfilter::Filter<Box<[u8]>, FixedState>;

/// Returns an empty filter with the shortest remainders that meet the rate `fpr` at the load factor
/// that `keys` give.
///
/// Its own constructor takes the rate of a full table, so the remainders are a bit longer than
/// needed where rounding to a power of 2 leaves the table half empty.
pub fn quotient_filter(keys: u64, fpr: f64, seed: u64) -> Result<Quotient> {
    let quotient = qfilter::filter_specs(keys, 0.5)?.fingerprint_bits - 1;
    let load = keys as f64 / 2f64.powi(quotient.into());
    // A non-member meets load / 2^remainder equal fingerprints on average.
    let remainder = (load / -(-fpr).ln_1p()).log2().ceil().max(1.0) as u8;
    let hasher = FixedState::with_seed(seed);
    Ok(Quotient::with_fingerprint_size_and_hasher(keys, quotient + remainder, hasher)?)
}

/// ahash with constant keys, which the compiler can fold. By default each hash loads the random
/// keys that the program drew at its start.
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

/// Returns a filter with fingerprints of `width` bits in buckets of 4.
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

/// Returns the size of a kind of tamis for the goal, in bytes.
pub fn bytes(kind: Kind, options: &Options) -> Result<usize> {
    Ok(kind.plan(options.goal(), &Default::default())?.bytes as usize)
}

/// Hashes an integer for the filters that take hashes: 2 multiplications, where tamis uses 5 for
/// its 128 bits.
#[inline(always)]
pub fn mix64(key: u64) -> u64 {
    tamis_bits::range::mix(key ^ 0x9e37_79b9_7f4a_7c15)
}

/// A filter of type `F`: `build` makes it, `contains` queries it, and `batch` queries many keys if
/// the crate supports it.
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

/// Returns a peer with batch queries.
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

    /// Checks that the peers find their keys and meet their rates.
    #[test]
    fn peers_hold_their_keys() {
        // Slots are powers of 2. Of 2^14 slots, the last count fills 95 % and the one before 49 %.
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
                // Two buckets of 4 fingerprints of at least 8 bits.
                if peer.name().contains("cuckoo") { 8.0 / 255.0 } else { options.fpr }
            };
            let others = all(&options).unwrap().into_iter().map(|peer| (rate(&*peer), peer));
            // These have fingerprints of 8 bits at every goal.
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
