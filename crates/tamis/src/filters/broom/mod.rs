//! The broom filter: an adaptive filter. The caller reports each false positive, and the filter
//! rejects that key from then on.
//!
//! ```text
//!  hash.hi ──► bin: a cache line     │ head │ index │ ends │ remainders … ──►    ◄── extensions │
//!  hash.lo ──► bucket, remainder,      │
//!              then more bits          └ a full one: │ overflow line of its group │ ──► stash
//!
//!  fingerprint of key y       bin · bucket · remainder         a prefix of the key's bits
//!  after false positive x     bin · bucket · remainder · 01    long enough to separate y from x
//! ```
//!
//! A non-member is a false positive if some fingerprint is a prefix of its bits. The caller, which
//! stores the keys, finds that the key is absent and calls [`Adapt::adapt`]. The filter names the
//! range of hashes that the bin covers, receives the members in that range, and lengthens the
//! fingerprints that matched. A bin has room for a few extensions; when it is full, it switches to
//! a new hash function, its *salt*, and is rebuilt from the members that the caller passed. Each
//! false positive also adds two keys to the sweep: bin after bin moves to the next hash function,
//! and drops the extensions it collected. So space stays bounded.
//!
//! The stated rate is that of the fullest bin that a filter can have, so no non-member has a higher
//! false positive probability, whatever queries came before and whatever their results were. A bin
//! holds as many fingerprints as it has slots. Those in the overflow are lengthened by 5 bits or
//! more when the bin is repaired or changes its hash function, so that all of them together count
//! as one. A non-member that was not queried under the bin's current hash function matches each
//! fingerprint of n bits, bucket included, with probability 2^-n, independently of all former
//! queries. There is one exception: an insertion into a full bin moves a fingerprint out of it that
//! cannot be lengthened, since its key is unknown. The next false positive of the bin corrects that,
//! so the filter accepts at most one additional non-member per insertion into a full bin.
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | 9.8 at 2^-5, 11.0 at 2^-6, 13.2 at 2^-8, 18.9 at 2^-12, with everything counted, extensions included |
//! | with `lines=2` | 9.2, 10.3, 12.1, 17.2: bins of two adjacent lines overflow less often; every operation takes longer. It is the default where it saves more than 8.3 % of the memory, as at 2^-12 |
//! | mean rate | 0.87 to 0.92 of the stated rate, which is that of a full bin. With the mean rate in place of the stated rate, the bits per key would be 0.0, 0.7, 0.3 and 0.5 lower (with `lines=2` 0.0, 0.8, 0.1 and 0.0) |
//! | cache lines | 1.02 on average at 2^-8: a second one where a bin overflows in the key's bucket; with `lines=2` 1.4 for a non-member, 1.6 for a member |
//! | below 2^-12 | a member takes one line more: wide remainders are stored in two places |
//! | building | each bin is written once, from keys sorted by bin, which take 8 to 16 bytes each meanwhile; 200 instructions per key at 2^-8 |
//! | inserting | 1 line per key |
//! | failure | none by chance: fingerprints that fit nowhere else go to a stash, which grows if necessary |
//! | rates | at most 3.5 %, since a higher rate would not save memory; at least 2^-40 |
//!
//! `bin.rs` draws a bin, `overflow.rs` draws the storage of the fingerprints that do not fit into
//! their bin, `table.rs` has the operations on both, and `resize.rs` moves all bins to a larger
//! table, one by one, with the same sweep.
//!
//! A set of non-members that is queried repeatedly is rejected completely after some time, if it is
//! smaller than about [`Broom::working_set`]. With a larger set, the sweep drops some extensions
//! before they are needed again, and the filter accepts as many non-members as any filter of its
//! rate, not more. Removing a key and inserting it again discards the extensions learned for its
//! neighbours. The hash must be secret where an adversary chooses the queries: use
//! [`HashId::Secure`](crate::HashId::Secure). The time of a query is not hidden.
//!
//! Removing deletes the longest fingerprint that matches. Removing a key that was never inserted
//! may delete a member's fingerprint, as in every filter that stores fingerprints.
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, *Bloom Filters, Adaptivity, and the
//! Dictionary Problem*, 2018. Differences: the paper's groups are larger than any filter, so the
//! sizes here come from the distribution of keys over bins. A bin overflows from its last bucket,
//! and takes keys back when it has room. Fingerprints may be prefixes of each other, since the
//! longest is removed first; so inserting never needs the stored keys. A key stays in the same bin
//! when the hash function changes: keys in the order of their hashes serve repair and sweep, and
//! each bin records its hash function. So an adversary that remembers the answers of many sweeps
//! finds the non-members of the fullest bins, and the stated rate is that of these. For wide remainders the paper has a second table of colliding keys; here all
//! remainders that match in their first 8 bits are compared.

mod bin;
mod bulk;
mod fields;
mod inspect;
mod overflow;
mod resize;
mod table;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::array;
use core::ops::RangeInclusive;

use tamis_bits::select::{Bits, Task, run};
use tamis_bits::{LINE_WORDS, LazyLock};
use tamis_format::{Reader, Writer};

use self::bin::{Layout, MAX_REMAINDER, MAX_SLOTS, WHOLE};
use self::resize::Migration;
use self::table::Table;
use super::common::{binomial_mean, build_by_inserting, has_room_for_keys};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Adapt, Build, Filter, Insert, Persist, Remove, Repair};

const MAX_STASH: u64 = 1 << 40;
/// Number of fields of a shape in a file.
const FIELDS: usize = 9;
/// Number of keys swept for each false positive. With 2, a bin uses 6 salts between two sweeps on
/// average, and at most 25 were seen; with 1 it would use 12, and reach the last of 64.
const KEYS_PER_REPAIR: u64 = 2;
/// Number of keys that are prefetched while the batch before them is processed.
const BATCH: usize = 16;

/// The size of the table: bins of one or two cache lines, their layout, overflow lines and stash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroomShape {
    bins: u64,
    layout: Layout,
    /// Overflow lines per group of bins.
    overflow: u64,
    /// Entries of the stash before it grows.
    stash: u64,
    keys: u64,
}

impl BroomShape {
    /// Returns a shape of `bins` bins with `overflow` overflow lines per group of bins and a stash
    /// of `stash` entries, for `keys` keys.
    fn new(bins: u64, layout: Layout, overflow: u64, stash: u64, keys: u64) -> Result<Self, Error> {
        let check_range = |what, asked, min, max| {
            if (min..=max).contains(&asked) {
                Ok(())
            } else {
                Err(Error::Limit { what, asked, most: max })
            }
        };
        let Layout { lines, b, s, r } = layout;
        check_range("cache lines per bin", lines.into(), 1, 2)?;
        check_range("bins", bins, 1, overflow::max_bins(lines))?;
        check_range("buckets per bin", b.into(), 1, Layout::max_buckets(lines).into())?;
        check_range("remainder bits", r.into(), 1, MAX_REMAINDER.into())?;
        check_range("slots per bin", s.into(), 1, Layout::max_slots(lines, b, r).into())?;
        check_range("overflow lines per group", overflow, 1, overflow::MAX_LINES)?;
        check_range("stash entries", stash, 4, MAX_STASH)?;
        crate::shape::check_keys(keys)?;
        Ok(Self { bins, layout, overflow, stash, keys })
    }

    /// Returns the number of bins.
    pub fn bins(&self) -> u64 {
        self.bins
    }

    /// Returns the shape with the fewest bytes that has bins of `lines` lines.
    fn smallest(lines: u32, keys: u64, fpr: f64) -> Option<Self> {
        let fpr = fpr.min(MAX_FPR);
        let mut best = None::<(u64, Self)>;
        Candidate::for_each(lines, keys, fpr, |Candidate { layout, load, excess }| {
            let bins = (keys as f64 / load).ceil().max(1.0) as u64;
            let smallest = best.as_ref().map_or(u64::MAX, |(bytes, _)| *bytes);
            // The bins alone may be too large.
            if bins.saturating_mul(layout.words() as u64 * 8) >= smallest {
                return;
            }
            if let Ok(shape) = Self::sized(layout, bins, excess, keys) {
                let bytes = shape.bytes();
                if bytes < smallest {
                    best = Some((bytes, shape));
                }
            }
        });
        best.map(|(_, shape)| shape)
    }

    /// Returns the number of cache lines per bin.
    pub fn lines(&self) -> u32 {
        self.layout.lines
    }

    /// Returns the width of a remainder in bits.
    pub fn remainder(&self) -> u32 {
        self.layout.r
    }

    /// Returns the number of fingerprints that fit into a bin.
    pub fn slots(&self) -> u32 {
        self.layout.s
    }

    fn bin_words(&self) -> u64 {
        self.bins * self.layout.words() as u64
    }

    fn far_words(&self) -> u64 {
        (self.bins * u64::from(self.layout.s * self.layout.far())).div_ceil(64)
    }

    fn overflow_words(&self) -> u64 {
        overflow::groups(self.bins, self.layout.lines).0 * self.overflow * LINE_WORDS as u64
    }

    fn bytes(&self) -> u64 {
        let words = [self.bin_words(), self.far_words(), self.overflow_words(), self.stash * 2];
        words.map(tamis_bits::lines).iter().sum::<u64>() * 64
    }

    /// Returns the number of distinct fingerprints without extensions. Two keys of one class cannot
    /// be distinguished.
    fn classes(&self) -> f64 {
        self.bins as f64 * classes_per_bin(self.layout.b, self.layout.r)
    }

    /// Returns the shape of `bins` bins for `keys` keys, where `excess` keys per bin do not fit on
    /// average, with overflow lines and a stash for them.
    fn sized(layout: Layout, bins: u64, excess: f64, keys: u64) -> Result<Self, Error> {
        let (_, group) = overflow::groups(bins, layout.lines);
        let expected = excess * group as f64;
        // A full bin overflows with several keys at once, so the variance is 4 times the mean.
        let (line, spilled) = overflow::plan(layout.r);
        let lines = (expected + (4.0 * expected).sqrt()) / line;
        let lines = (lines.ceil() as u64).clamp(1, overflow::MAX_LINES);
        let stash =
            overflow::stash_entries(excess * bins as f64 * spilled).min(MAX_STASH as f64) as u64;
        Self::new(bins, layout, lines, stash.next_multiple_of(4), keys)
    }
}

/// The setting for the number of cache lines per bin.
const LINES: Setting = Setting::new(
    "lines",
    "1 or 2 cache lines per bin; default: 2 where it saves more than the longer lookup costs",
);

/// Returns the smallest number of buckets. With fewer, buckets would have more than two keys on
/// average, which the plan of the overflow lines does not allow for.
const fn min_buckets(lines: u32) -> u32 {
    24 * lines
}

/// A candidate layout of a bin: its mean number of keys, and the mean number of keys that do not fit.
///
/// The candidates hardly depend on the number of keys, and more keys or a lower rate have fewer of
/// them. So more keys or a lower rate never take less memory, and the inverse problem can be solved
/// by bisection. There is one exception: up to 2^-12 remainders are stored whole, which takes more
/// memory than just below that rate, but a lookup of a member then has one dependent memory read
/// instead of two.
struct Candidate {
    layout: Layout,
    load: f64,
    excess: f64,
}

impl Candidate {
    /// Calls `visit` for each candidate that reaches the rate `fpr` with `keys` keys.
    fn for_each(lines: u32, keys: u64, fpr: f64, mut visit: impl FnMut(Self)) {
        let about = (-fpr.log2()).ceil() as u32;
        let widest = if about <= WHOLE { WHOLE } else { MAX_REMAINDER };
        for r in about.saturating_sub(1).max(1)..=(about + 2).min(widest) {
            for s in min_buckets(lines)..=Layout::max_slots(lines, min_buckets(lines), r) {
                let Some(layout) = Self::layout(lines, keys, fpr, s, r) else { break };
                for step in 0..=LOADS {
                    let excess = EXCESS[s as usize][step as usize];
                    visit(Self { layout, load: load(s, step), excess });
                }
            }
        }
    }

    /// Returns the layout of `s` slots and remainders of `r` bits in which the fullest bin has the
    /// rate `fpr`, if it fits.
    fn layout(lines: u32, keys: u64, fpr: f64, s: u32, r: u32) -> Option<Layout> {
        let b = max_weight(s, keys) / fpr / f64::from(r).exp2();
        let b = b.ceil().clamp(min_buckets(lines).into(), f64::from(64 * lines)) as u32;
        let fits = b <= Layout::max_buckets(lines) && Layout::max_slots(lines, b, r) >= s;
        fits.then_some(Layout { lines, b, s, r })
    }
}

/// Number of loads of a bin between which the candidates choose, less 1.
const LOADS: u32 = 48;

/// Returns the mean number of keys of a bin of `s` slots at a load.
fn load(s: u32, step: u32) -> f64 {
    f64::from(s) * (0.76 + 0.24 * f64::from(step) / f64::from(LOADS))
}

/// The mean number of keys of a bin that do not fit, by slots and load. A plan has thousands of candidates, and each
/// mean is a sum over a distribution, so they are computed once.
static EXCESS: LazyLock<Vec<[f64; LOADS as usize + 1]>> = LazyLock::new(|| {
    const MANY: u64 = 1 << 40;
    let excess = |s: u32, step| {
        let left = |n: u64| n.saturating_sub(s.into()) as f64;
        binomial_mean(MANY, (load(s, step) * MANY as f64) as u64, left)
    };
    (0..=MAX_SLOTS).map(|s| array::from_fn(|step| excess(s, step as u32))).collect()
});

/// The highest rate. A bin has at most 64 slots, which leaves enough bits for this rate.
const MAX_FPR: f64 = 0.035;

fn classes_per_bin(buckets: u32, remainder: u32) -> f64 {
    f64::from(buckets) * f64::from(remainder).exp2()
}

/// Returns the highest weight of a bin of `slots` slots in a filter of `keys` keys: a fingerprint
/// with an extension of e bits has the weight 2^-e, and a non-member is a false positive with a
/// probability of the weight of its bin over the number of classes of a bin.
///
/// The fingerprints in the overflow are lengthened so that their total weight is at most 1, by
/// every repair and by every change of the bin's hash function.
fn max_weight(slots: u32, keys: u64) -> f64 {
    keys.min(u64::from(slots) + 1) as f64
}

impl Shape for BroomShape {
    const SETTINGS: &'static [Setting] = &[LINES];
    // Bins of one line may take more memory than bins of two lines at a smaller rate.
    const IS_MONOTONE: bool = false;

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let lines = settings.number(&LINES, |lines| lines == 1 || lines == 2)?;
        let why = "a broom filter has remainders of at most 40 bits";
        if let Some(lines) = lines {
            return Self::smallest(lines as u32, keys, fpr).ok_or(Error::Infeasible { why });
        }
        // Memory times the cost of a lookup, as `plan` compares kinds.
        let score = |shape: &Self| shape.bytes() as f64 * (1.0 + shape.figures().query_cost / 8.0);
        let shapes = [1, 2].into_iter().filter_map(|lines| Self::smallest(lines, keys, fpr));
        shapes.min_by(|a, b| score(a).total_cmp(&score(b))).ok_or(Error::Infeasible { why })
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [
            ("bins", self.bins.into()),
            ("lines", self.layout.lines.into()),
            ("b", self.layout.b.into()),
            ("s", self.layout.s.into()),
            ("r", self.layout.r.into()),
        ]
        .into()
    }

    /// Returns the figures, with the rate of the fullest bin that a filter can have. No non-member
    /// has a higher rate, whatever an adversary learned from former queries.
    fn figures(&self) -> Figures {
        self.figures_at(self.keys)
    }

    fn figures_at(&self, keys: u64) -> Figures {
        let Layout { lines, b, s, r } = self.layout;
        let fpr = (max_weight(s, keys) / classes_per_bin(b, r)).min(1.0);
        let query_cost = if lines == 1 { 3.0 } else { 4.0 };
        Figures { keys: self.keys, fpr, bytes: self.bytes(), query_cost }
    }

    /// Returns the probability that a non-member that was never queried shares the fingerprint of
    /// one of `keys` keys. Extensions only lower it.
    fn fpr_at(&self, keys: u64) -> f64 {
        let others = (-1.0 / self.classes()).ln_1p();
        -(keys as f64 * others).exp_m1()
    }
}

/// A broom filter.
///
/// # Examples
/// ```
/// use tamis::{Broom, HashId, Key, KeyHash, KeyHasher, Keyed};
///
/// let hasher = KeyHasher::random(HashId::Secure)?;
/// let store: Vec<KeyHash> = (0..1000u64).map(|key| key.hash_with(&hasher)).collect();
/// let mut filter = Keyed::<Broom>::builder().fpr(0.03).hasher(&hasher).build(0..1000u64)?;
/// // A false positive: the store does not have the key, and reports it to the filter.
/// let stranger = (1000u64..).find(|key| filter.contains(key)).unwrap();
/// let range = filter.suspects(&stranger);
/// let members: Vec<KeyHash> = store.iter().copied().filter(|key| range.contains(&key.hi)).collect();
/// filter.adapt(&stranger, &members);
/// assert!(!filter.contains(&stranger));
/// assert!((0..1000u64).all(|key| filter.contains(&key)));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Broom {
    table: Table,
    /// The table that the bins are being moved to, if any.
    moving: Option<Box<Migration>>,
    len: u64,
}

impl Broom {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the table cannot be allocated.
    pub fn new(shape: BroomShape) -> Result<Self, Error> {
        Ok(Self { table: Table::new(shape, 0)?, moving: None, len: 0 })
    }

    /// Returns the number of stash entries in use and the number of stash entries allocated.
    pub fn stashed(&self) -> (u64, u64) {
        self.table.overflow.stashed()
    }

    /// Returns the number of completed sweeps.
    pub fn sweeps(&self) -> u64 {
        self.table.sweep().epoch
    }

    /// Returns the approximate number of repeatedly queried non-members that the filter learns to
    /// reject. A bin with room for C repairs rejects C non-members that would be false positives. A quarter of
    /// that number is rejected entirely; of half of it, up to 7 % of the rate remains in bins of one line.
    pub fn working_set(&self) -> f64 {
        let bins = self.table.shape.bins as f64;
        let repairs = self.table.layout.repairs(self.len as f64 / bins);
        repairs * bins / self.table.shape.fpr_at(self.len).max(f64::MIN_POSITIVE)
    }

    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.moving.is_none() && self.table.layout.lines == 1
    }

    /// Returns the table that holds the key.
    #[inline(always)]
    fn table<const PLAIN: bool>(&self, key: KeyHash) -> &Table {
        match &self.moving {
            Some(moving) if !PLAIN && moving.has_moved(&self.table, key) => &moving.to,
            _ => &self.table,
        }
    }

    #[inline(always)]
    fn table_mut<const PLAIN: bool>(&mut self, key: KeyHash) -> &mut Table {
        match &mut self.moving {
            Some(moving) if !PLAIN && moving.has_moved(&self.table, key) => &mut moving.to,
            _ => &mut self.table,
        }
    }
}

/// The tasks for a lookup, a batch of lookups and a batch of insertions: see [`Task`].
///
/// A filter with bins of one line that is not being resized is `PLAIN` and has its own code. With
/// one function for both, a lookup in a plain filter took 10 % more instructions.
///
/// The batches are pipelined: the next batch is prefetched before the current one is processed. The
/// loops of `common` prefetch and process the same batch.
struct ContainsOne<'a, const PLAIN: bool>(&'a Broom, KeyHash);
struct ContainsBatch<'a, const PLAIN: bool>(&'a Broom, &'a [KeyHash], &'a mut [bool]);
struct InsertBatch<'a, const PLAIN: bool>(&'a mut Broom, &'a [KeyHash]);

impl<const PLAIN: bool> Task for ContainsOne<'_, PLAIN> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let Self(filter, key) = self;
        filter.table::<PLAIN>(key).contains::<PLAIN, true>(bits, key)
    }
}

impl<const PLAIN: bool> Task for ContainsBatch<'_, PLAIN> {
    type Output = ();

    #[inline(always)]
    fn work(self, bits: impl Bits) {
        let Self(filter, keys, out) = self;
        let fetch = |keys: &[KeyHash]| {
            for key in keys.iter().take(BATCH) {
                filter.table::<PLAIN>(*key).fetch::<PLAIN>(*key);
            }
        };
        fetch(keys);
        for (i, (batch, out)) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)).enumerate() {
            fetch(keys.get((i + 1) * BATCH..).unwrap_or(&[]));
            for (key, out) in batch.iter().zip(out) {
                *out = filter.table::<PLAIN>(*key).contains::<PLAIN, false>(bits, *key);
            }
        }
    }
}

impl<const PLAIN: bool> Task for InsertBatch<'_, PLAIN> {
    type Output = Result<(), Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Result<(), Full> {
        let Self(filter, keys) = self;
        let (max, before) = (filter.shape().keys, filter.len);
        for (i, batch) in keys.chunks(BATCH).enumerate() {
            if keys.len() > 1 {
                let next = keys.get((i + 1) * BATCH..).unwrap_or(&[]);
                let next = if i == 0 { keys } else { next };
                for key in next.iter().take(BATCH) {
                    filter.table::<PLAIN>(*key).fetch::<PLAIN>(*key);
                }
            }
            for key in batch {
                let full = Full { inserted: filter.len - before };
                if filter.len >= max {
                    return Err(full);
                }
                filter.table_mut::<PLAIN>(*key).insert::<PLAIN>(bits, *key).map_err(|_| full)?;
                filter.len += 1;
            }
        }
        Ok(())
    }
}

impl Filter for Broom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        if self.is_plain() {
            run(ContainsOne::<true>(self, key))
        } else {
            run(ContainsOne::<false>(self, key))
        }
    }

    /// Returns the keys inserted minus the keys removed; a repair corrects the count for its bin.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        let out = &mut out[..keys.len()];
        if self.is_plain() {
            run(ContainsBatch::<true>(self, keys, out));
        } else {
            run(ContainsBatch::<false>(self, keys, out));
        }
    }
}

impl Build for Broom {
    type Shape = BroomShape;

    /// Returns the shape; during a resize, the shape of the new table.
    fn shape(&self) -> &BroomShape {
        self.moving.as_ref().map_or(&self.table.shape, |moving| &moving.to.shape)
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<BroomShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let filter = Self::new(fit(0)?)?;
        let shape = &filter.table.shape;
        match has_room_for_keys(options, shape, shape.keys, bulk::BYTES_PER_KEY) {
            true => bulk::build(options, filter, keys),
            false => build_by_inserting(options, filter, keys),
        }
    }
}

impl Insert for Broom {
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        self.insert_batch(&[key])
    }

    #[inline]
    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        if self.is_plain() {
            run(InsertBatch::<true>(self, keys))
        } else {
            run(InsertBatch::<false>(self, keys))
        }
    }
}

impl Remove for Broom {
    fn remove(&mut self, key: KeyHash) -> bool {
        let removed = self.len > 0 && self.table_mut::<false>(key).remove(key);
        self.len -= u64::from(removed);
        removed
    }
}

impl Adapt for Broom {
    /// Returns the range of hashes that the key's bin covers.
    fn suspects(&self, key: KeyHash) -> RangeInclusive<u64> {
        let table = self.table::<false>(key);
        table.range(table.bin(key))
    }

    fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Repair {
        if !self.contains(stranger) {
            return Repair::NotNeeded;
        }
        let members = &self.in_table_of(stranger, members)[..];
        let table = self.table_mut::<false>(stranger);
        let mut sweep = table.sweep();
        sweep.credit = sweep.credit.saturating_add(KEYS_PER_REPAIR);
        table.set_sweep(sweep);
        let Some((gained, rehashed)) = table.repair(stranger, members) else {
            return Repair::Impossible;
        };
        self.len = self.len.saturating_add_signed(gained);
        if rehashed { Repair::Rehashed } else { Repair::Extended }
    }

    /// Returns the range of the next bin to sweep, if enough false positives have been reported;
    /// during a resize, the range of the next bin to move.
    fn due(&self) -> Option<RangeInclusive<u64>> {
        match &self.moving {
            Some(moving) => Some(self.table.range(moving.next)),
            None => self.table.due().map(|bin| self.table.range(bin)),
        }
    }

    fn renew(&mut self, members: &[KeyHash]) {
        let gained = match &self.moving {
            Some(_) => self.move_next(members),
            None => self.table.sweep_next(members),
        };
        self.len = self.len.saturating_add_signed(gained);
    }
}

impl Table {
    fn range(&self, bin: u64) -> RangeInclusive<u64> {
        let first = self.first_hi(bin).unwrap_or(u64::MAX);
        let last = self.first_hi(bin + 1).map_or(u64::MAX, |next| next.wrapping_sub(1));
        first..=last
    }

    /// Returns the next bin to sweep, if it is due.
    fn due(&self) -> Option<u64> {
        let sweep = self.sweep();
        let keys = u64::from(self.view(sweep.cursor).used()).max(1);
        (sweep.credit >= keys).then_some(sweep.cursor)
    }

    /// Rehashes the next bin with the next function and returns the change of the number of
    /// fingerprints. After the last bin a new epoch begins.
    fn sweep_next(&mut self, members: &[KeyHash]) -> i64 {
        let mut sweep = self.sweep();
        let used = u64::from(self.view(sweep.cursor).used()).max(1);
        sweep.credit = sweep.credit.saturating_sub(used);
        let gained = self.rehash(sweep.cursor, members);
        // Bins that ran out of salts use the next function already.
        while sweep.cursor < self.shape.bins && self.is_swept(sweep.cursor) {
            sweep.cursor += 1;
        }
        if sweep.cursor == self.shape.bins {
            (sweep.epoch, sweep.cursor) = (sweep.epoch.wrapping_add(1), 0);
        }
        self.set_sweep(sweep);
        gained
    }
}

impl Persist for Broom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let mut fields = self.table.fields().to_vec();
        fields.push(self.moving.as_ref().map_or(0, |moving| moving.next + 1));
        if let Some(moving) = &self.moving {
            fields.extend(moving.to.fields());
        }
        to.shape(&fields);
        self.table.write(to);
        if let Some(moving) = &self.moving {
            moving.to.write(to);
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let (shape, stash) = BroomShape::read(&mut fields)?;
        let moving = match fields.next(0..=shape.bins, "moved bins")? {
            0 => None,
            next => Some((next - 1, BroomShape::read(&mut fields)?)),
        };
        fields.finish()?;
        // A repair takes all members that it is given, which may be more than the capacity.
        if len > MAX_KEYS {
            return Err(from.corrupt("the header has too many keys").into());
        }
        let table = Table::read(from, shape, stash)?;
        let moving = match moving {
            Some((next, (shape, stash))) => {
                Some(Box::new(Migration { to: Table::read(from, shape, stash)?, next }))
            }
            None => None,
        };
        Ok(Self { table, moving, len })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Error::from(tamis_format::Error::corrupt(what));
        let mut len = self.table.check().map_err(corrupt)?;
        if let Some(moving) = &self.moving {
            len += moving.to.check().map_err(corrupt)?;
            if (0..moving.next).any(|bin| !self.table.gather(bin).is_empty()) {
                return Err(corrupt("a bin that was moved is not empty"));
            }
        }
        if len != self.len {
            return Err(corrupt("the number of keys in the bins differs from the header"));
        }
        Ok(())
    }
}

impl Table {
    /// Returns the fields of the shape and the size of the stash, as they are saved.
    fn fields(&self) -> [u64; FIELDS] {
        let BroomShape { bins, layout: Layout { lines, b, s, r }, overflow, stash, keys } =
            self.shape;
        let (_, now) = self.overflow.stashed();
        [bins, lines.into(), b.into(), s.into(), r.into(), overflow, stash, keys, now]
    }
}

impl BroomShape {
    fn read(fields: &mut tamis_format::Fields) -> Result<(Self, u64), Error> {
        let bins = fields.next(1..=overflow::max_bins(1), "number of bins")?;
        let lines = fields.next(1..=2, "cache lines per bin")? as u32;
        let max = Layout::max_buckets(lines).into();
        let b = fields.next(1..=max, "buckets per bin")? as u32;
        let s = fields.next(1..=u64::from(64 * lines), "slots per bin")? as u32;
        let r = fields.next(1..=MAX_REMAINDER.into(), "remainder bits")? as u32;
        let overflow = fields.next(1..=overflow::MAX_LINES, "overflow lines per group")?;
        let stash = fields.next(4..=MAX_STASH, "planned stash entries")?;
        let keys = fields.next(0..=MAX_KEYS, "capacity")?;
        let now = fields.next(stash..=MAX_STASH, "stash entries")?;
        Ok((Self::new(bins, Layout { lines, b, s, r }, overflow, stash, keys)?, now))
    }
}
