//! The Morton filter: a cuckoo filter whose buckets are packed into cache lines, so that most
//! lookups read one line.
//!
//! ```text
//!  one block, 512 bits            f = 8                  f = 12
//!  ┌──────────────────────┐
//!  │ fullness counters    │   64 buckets · 2 bits   32 buckets · 2 bits   0 to 3 keys each
//!  ├──────────────────────┤
//!  │ overflow bits        │        16 bits               16 bits          bucket mod 16
//!  ├──────────────────────┤
//!  │ fingerprints         │   46 slots · 8 bits     36 slots · 12 bits    bucket after bucket,
//!  └──────────────────────┘                                               without gaps
//! ```
//!
//! | figure | f = 8 | f = 12 |
//! | --- | --- | --- |
//! | bits per key | 11.7 at 0.31 % | 15.0 at 0.03 % |
//! | cache lines | 1; a second one where the first bucket has spilled | |
//! | building | 1 line per key; a few more when nearly full, to make room | |
//!
//! A bucket has no fixed position: its fingerprints begin after those of all buckets before it, at
//! the sum of their counters. So buckets that are mostly empty take little space, and a key nearly
//! always fits into its first bucket. When it does not, because the bucket has 3 keys or the block
//! is full, the overflow bit of the bucket is set, and the key goes to its other bucket or takes
//! the slot of a fingerprint that moves. A lookup that does not find the key in its first bucket
//! reads the overflow bit, and usually ends there.
//!
//! Removing never clears an overflow bit, since other keys may have spilled too; that only costs
//! second reads. As in every filter that stores fingerprints, only members may be removed: removing
//! a false positive removes a member. The filter holds 6 copies of a key; then it returns [`Full`].
//!
//! Breslow, Jayasena, *Morton Filters: Faster, Space-Efficient Cuckoo Filters via Biasing,
//! Compression, and Decoupled Logical Sparsity*, 2018. Differences: the other bucket is anywhere,
//! as in `cuckoo`, not a few blocks away; the search for room ends before anything is moved, so a
//! refused key changes nothing; fingerprints have 6 to 16 bits, with 64 buckets per block up to 8 bits, 48
//! for 9 and 10, and 32 for more.
//!
//! It is fast in batches: with 10^8 keys they take 0.65 of the time of `cuckoo` for lookups and
//! 0.58 for insertions. Single lookups take nearly twice as long as in `cuckoo`, though they read
//! half the lines: the branch on the second read is mispredicted for every eighth non-member, and
//! nothing after it can begin before the line has arrived and the misprediction is resolved. A
//! branchless lookup would double the instructions of every query, and `cuckoo` has fewer of those.

mod block;

use alloc::vec;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use tamis_bits::{LINE_WORDS, Words, packed, prefetch, range};
use tamis_format::{Name, Reader, Writer};

use self::block::{BUCKET_SLOTS, Block, FLAGS, Layout};
use super::common::{build_by_inserting, usize_words};
use super::cuckoo::spread;
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Insert, Persist, Remove};

const BLOCKS: Name = Name::new("blocks");
const MAX_BLOCKS: u64 = 1 << 44;
/// Number of keys that are prefetched while the batch before them is processed.
const BATCH: usize = 16;
/// Half the number of keys between the prefetch of a key and its insertion.
const AHEAD: usize = 16;
/// The largest load factor.
const LOAD: f64 = 0.95;
/// Number of buckets without room that the search visits before a key is refused.
const MAX_NODES: usize = 64;

/// Evaluates an expression with the fingerprint width as a constant.
macro_rules! of_width {
    ($width:expr, $f:ident => $work:expr) => {
        of_width!(@each $width, $f => $work, 6 7 9 10 11 12 13 14 15 16)
    };
    (@each $width:expr, $f:ident => $work:expr, $($number:literal)*) => {
        match $width {
            $($number => {
                const $f: u32 = $number;
                $work
            })*
            _ => {
                const $f: u32 = 8;
                $work
            }
        }
    };
}

/// The size of the table: blocks of one cache line with fingerprints of `f` bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MortonShape {
    blocks: u64,
    width: u32,
    keys: u64,
}

const WIDTH: Setting =
    Setting::new("f", "6 to 16 fingerprint bits; default: 8, 12 or 16, derived from the rate");
const WIDTHS: RangeInclusive<u64> = 6..=16;

impl MortonShape {
    /// Returns a shape of `blocks` blocks with fingerprints of 6 to 16 bits, for `keys` keys.
    ///
    /// # Errors
    /// [`Error::Limit`] if a parameter is out of range or the blocks have fewer than `keys` slots.
    pub fn new(blocks: u64, width: u32, keys: u64) -> Result<Self, Error> {
        if blocks == 0 || blocks > MAX_BLOCKS {
            return Err(Error::Limit { what: "blocks", asked: blocks, most: MAX_BLOCKS });
        }
        if !WIDTHS.contains(&width.into()) {
            let what = "fingerprint bits (6 to 16)";
            return Err(Error::Limit { what, asked: width.into(), most: 16 });
        }
        let shape = Self { blocks, width, keys };
        let most = MAX_KEYS.min(blocks * u64::from(shape.slots()));
        if keys > most {
            return Err(Error::Limit { what: "keys for this number of blocks", asked: keys, most });
        }
        Ok(shape)
    }

    /// Returns the number of blocks of 64 bytes.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the width of a fingerprint in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the number of buckets per block.
    #[inline(always)]
    fn buckets(&self) -> u32 {
        of_width!(self.width, F => Layout::<F>::BUCKETS)
    }

    /// Returns the number of slots per block.
    fn slots(&self) -> u32 {
        of_width!(self.width, F => Layout::<F>::SLOTS)
    }

    /// Returns the expected fractions of the keys that have spilled and of the overflow bits that
    /// are set, with `keys` keys.
    ///
    /// The model is one block, and one of its buckets. `held[m][j]` is the probability that the
    /// bucket holds j keys when the block holds m: the next key goes to any bucket that has fewer
    /// than 3. `full[m]` is the probability that the block refuses a key: 1 when all slots are in
    /// use, otherwise the probability that its bucket has 3. A refused key goes to another block
    /// that accepts it.
    ///
    /// Key by key this gives `here[m]`, the probability that the block holds m. `clear[m]` is the
    /// part of it where the block has not yet refused a key of a given overflow bit because it had
    /// no free slot, and `calm[m][j]` the part where the bucket holds j and has refused none
    /// because it has 3 itself. An overflow bit is clear if it is clear for the first reason and
    /// all its buckets are for the second.
    fn spilled(&self, keys: u64) -> (f64, f64) {
        const STEPS: u64 = 1024;
        let (slots, buckets) = (self.slots() as usize, f64::from(self.buckets()));
        // The probability that an accepted key goes to the bucket, if that has fewer than 3.
        let gets = |held: [f64; 4]| 1.0 / (buckets * (1.0 - held[3]));
        let one_more = |[a, b, c, d]: [f64; 4], gets: f64| {
            let [up_a, up_b, up_c] = [a, b, c].map(|chance| chance * gets);
            [a - up_a, b - up_b + up_a, c - up_c + up_b, d + up_c]
        };
        let mut held = vec![[1.0, 0.0, 0.0, 0.0]];
        (0..slots).for_each(|m| held.push(one_more(held[m], gets(held[m]))));
        let full: Vec<f64> =
            (0..=slots).map(|m| if m < slots { held[m][3] } else { 1.0 }).collect();

        let steps = keys.clamp(1, STEPS);
        let rate = keys as f64 / steps as f64 / self.blocks as f64;
        let (mut here, mut clear) = (vec![0.0; slots + 1], vec![0.0; slots + 1]);
        let mut calm = vec![[0.0; 4]; slots + 1];
        (here[0], clear[0], calm[0][0]) = (1.0, 1.0, 1.0);
        let mut spilled = 0.0;
        for step in 0..steps {
            let turned = here.iter().zip(&full).map(|(here, full)| here * full).sum::<f64>();
            spilled += turned / steps as f64;
            clear[slots] *= 1.0 - (rate / f64::from(FLAGS)).min(1.0);
            calm[..slots].iter_mut().for_each(|calm| calm[3] *= 1.0 - (rate / buckets).min(1.0));
            for i in 0..slots {
                // In descending order a step adds at most one key, in ascending order several.
                // Alternating gives the right variance of the number of keys.
                let (m, again) = if step % 2 == 0 { (slots - 1 - i, 0.0) } else { (i, rate) };
                let comes = rate / (1.0 + again) * (1.0 - full[m]) / (1.0 - turned).max(1e-9);
                let comes = comes.min(1.0);
                for chance in [&mut here, &mut clear] {
                    let up = chance[m] * comes;
                    (chance[m], chance[m + 1]) = (chance[m] - up, chance[m + 1] + up);
                }
                let up = one_more(calm[m].map(|chance| chance * comes), gets(held[m]));
                calm[m] = calm[m].map(|chance| chance * (1.0 - comes));
                (0..4).for_each(|j| calm[m + 1][j] += up[j]);
            }
        }
        let together = buckets / f64::from(FLAGS);
        let unset = (0..=slots)
            .filter(|m| here[*m] > 0.0)
            .map(|m| clear[m] * (calm[m].iter().sum::<f64>() / here[m]).min(1.0).powf(together));
        (spilled, 1.0 - unset.sum::<f64>())
    }

    /// Returns the false positive rate. A non-member matches a key with its fingerprint in its
    /// first bucket; or in its second one, if that key came from the first, or other keys set the
    /// overflow bit of the first.
    fn rate(&self, keys: u64, spilled: f64, set: f64) -> f64 {
        let looks = 1.0 + spilled + (1.0 - spilled) * set;
        let buckets = self.blocks as f64 * f64::from(self.buckets());
        -(-(keys as f64) / buckets * looks / packed::mask(self.width) as f64).exp_m1()
    }
}

impl Shape for MortonShape {
    const SETTINGS: &'static [Setting] = &[WIDTH];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let widths = match settings.number(&WIDTH, |f| WIDTHS.contains(&f))? {
            Some(width) => vec![width as u32],
            None => vec![8, 12, 16],
        };
        for width in widths {
            let mut shape = Self { blocks: 1, width, keys };
            shape.blocks = (keys as f64 / (LOAD * f64::from(shape.slots()))).ceil().max(1.0) as u64;
            if shape.fpr_at(keys) <= fpr {
                return Self::new(shape.blocks, width, keys);
            }
        }
        Err(Error::Infeasible { why: "a Morton filter has fingerprints of at most 16 bits" })
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("blocks", self.blocks.into()), ("f", self.width.into())].into()
    }

    fn figures(&self) -> Figures {
        let (spilled, set) = self.spilled(self.keys);
        Figures {
            keys: self.keys,
            fpr: self.rate(self.keys, spilled, set),
            bytes: self.blocks * 64,
            // The branch on reading the second block is often mispredicted.
            query_cost: 1.125 * (1.0 + set) + 1.0,
        }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        let (spilled, set) = self.spilled(keys);
        self.rate(keys, spilled, set)
    }
}

/// A Morton filter.
///
/// # Examples
/// ```
/// use tamis::{Keyed, Morton};
///
/// let mut guests = Keyed::<Morton>::with_capacity(1000, 0.01)?;
/// guests.insert("Ada")?;
/// assert!(guests.contains("Ada"));
/// assert!(guests.remove("Ada") && !guests.contains("Ada"));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Morton {
    shape: MortonShape,
    len: u64,
    words: Words,
}

/// Calls a method with the fingerprint width as a constant.
macro_rules! by_width {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        of_width!($self.shape.width, F => $self.$method::<F>($($argument),*))
    };
}

/// A node of the search for room: bucket `bucket` needs a free slot for a fingerprint that is now
/// in bucket `from`.
#[derive(Clone, Copy)]
struct Node {
    bucket: u64,
    fingerprint: u64,
    from: u64,
    /// The node whose bucket gets a free slot by this move.
    parent: usize,
}

impl Morton {
    /// Creates an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the blocks cannot be allocated.
    pub fn new(shape: MortonShape) -> Result<Self, Error> {
        let words = Words::zeroed(usize_words(shape.blocks * LINE_WORDS as u64)?)?;
        Ok(Self { shape, len: 0, words })
    }

    /// Returns the first bucket of a key and its fingerprint.
    #[inline(always)]
    fn place<const F: u32>(&self, key: KeyHash) -> (u64, u64) {
        let buckets = self.shape.blocks * u64::from(Layout::<F>::BUCKETS);
        (range::scale(key.hi, buckets), range::scale(key.lo, packed::mask(F)) + 1)
    }

    #[inline(always)]
    fn other<const F: u32>(&self, bucket: u64, fp: u64) -> u64 {
        let buckets = self.shape.blocks * u64::from(Layout::<F>::BUCKETS);
        let odd = range::scale(spread(fp), buckets / 2) * 2 + 1;
        if odd >= bucket { odd - bucket } else { odd + buckets - bucket }
    }

    /// Returns the block of a bucket and the bucket's number in it.
    #[inline(always)]
    fn block<const F: u32>(&self, bucket: u64) -> (&Block, u32) {
        let buckets = u64::from(Layout::<F>::BUCKETS);
        (&self.words.as_chunks().0[(bucket / buckets) as usize], (bucket % buckets) as u32)
    }

    #[inline(always)]
    fn block_mut<const F: u32>(&mut self, bucket: u64) -> (&mut Block, u32) {
        let buckets = u64::from(Layout::<F>::BUCKETS);
        let blocks = self.words.to_mut().as_chunks_mut().0;
        (&mut blocks[(bucket / buckets) as usize], (bucket % buckets) as u32)
    }

    #[inline(always)]
    fn fetch<const F: u32>(&self, bucket: u64) {
        let block = bucket / u64::from(Layout::<F>::BUCKETS);
        prefetch(&self.words, block as usize * LINE_WORDS);
    }

    /// Returns whether the key is in its first bucket, and whether it may be in its second.
    #[inline(always)]
    fn contains_first<const F: u32>(&self, bucket: u64, fp: u64) -> (bool, bool) {
        let (block, bucket) = self.block::<F>(bucket);
        (Layout::<F>::contains(block, bucket, fp), Layout::<F>::spilled(block, bucket))
    }

    #[inline(always)]
    fn contains_second<const F: u32>(&self, bucket: u64, fp: u64) -> bool {
        let (block, bucket) = self.block::<F>(bucket);
        Layout::<F>::contains(block, bucket, fp)
    }

    #[inline(always)]
    fn contains_key<const F: u32>(&self, key: KeyHash) -> bool {
        let (bucket, fp) = self.place::<F>(key);
        let (found, more) = self.contains_first::<F>(bucket, fp);
        found || more && self.contains_second::<F>(self.other::<F>(bucket, fp), fp)
    }

    /// Writes to `out` whether each key is in the filter.
    ///
    /// The loop has two stages: while a batch reads first buckets, the next batch and the second
    /// buckets of the batch before it are prefetched. The loop of `common` has one stage.
    fn contains_keys<const F: u32>(&self, keys: &[KeyHash], out: &mut [bool]) {
        let mut places = self.places::<F>(keys);
        // Keys of the previous batch that need their second bucket, which is prefetched.
        let (mut later, mut waiting) = ([(0, 0, 0); BATCH], 0);
        for (i, batch) in keys.chunks(BATCH).enumerate() {
            let now = core::mem::replace(&mut places, self.places::<F>(batch_after(keys, i)));
            let (mut more, mut count) = ([0; BATCH], 0);
            for (at, (bucket, fp)) in now[..batch.len()].iter().enumerate() {
                let (found, spilled) = self.contains_first::<F>(*bucket, *fp);
                out[i * BATCH + at] = found;
                // Counted without a branch, which would be mispredicted.
                more[count] = at;
                count += usize::from(spilled & !found);
            }
            for (at, bucket, fp) in &later[..waiting] {
                out[*at] = self.contains_second::<F>(*bucket, *fp);
            }
            waiting = count;
            for (later, at) in later.iter_mut().zip(&more[..count]) {
                let (bucket, fp) = now[*at];
                *later = (i * BATCH + at, self.other::<F>(bucket, fp), fp);
                self.fetch::<F>(later.1);
            }
        }
        for (at, bucket, fp) in &later[..waiting] {
            out[*at] = self.contains_second::<F>(*bucket, *fp);
        }
    }

    /// Returns the places of the first keys and prefetches their blocks.
    #[inline(always)]
    fn places<const F: u32>(&self, keys: &[KeyHash]) -> [(u64, u64); BATCH] {
        let mut places = [(0, 0); BATCH];
        for (place, key) in places.iter_mut().zip(keys) {
            *place = self.place::<F>(*key);
            self.fetch::<F>(place.0);
        }
        places
    }

    #[inline(always)]
    fn insert_place<const F: u32>(&mut self, (bucket, fp): (u64, u64)) -> Result<(), Full> {
        if self.len >= self.shape.keys {
            return Err(Full::NONE);
        }
        let (block, at) = self.block_mut::<F>(bucket);
        if !Layout::<F>::insert(block, at, fp) && !self.insert_second::<F>(bucket, fp) {
            return Err(Full::NONE);
        }
        self.len += 1;
        Ok(())
    }

    #[inline(never)]
    fn insert_second<const F: u32>(&mut self, bucket: u64, fp: u64) -> bool {
        let second = self.other::<F>(bucket, fp);
        let (block, at) = self.block_mut::<F>(second);
        if Layout::<F>::insert(block, at, fp) {
            self.spill::<F>(bucket);
            return true;
        }
        self.make_room::<F>(bucket, second, fp)
    }

    fn spill<const F: u32>(&mut self, bucket: u64) {
        let (block, at) = self.block_mut::<F>(bucket);
        Layout::<F>::spill(block, at);
    }

    /// Searches breadth first for fingerprints that can move to their other bucket: those of a
    /// bucket that has 3, or any of a block without a free slot.
    fn make_room<const F: u32>(&mut self, first: u64, second: u64, fp: u64) -> bool {
        let root = |bucket| Node { bucket, fingerprint: fp, from: first, parent: usize::MAX };
        let mut nodes = vec![root(first), root(second)];
        let mut at = 0;
        while at < nodes.len() && at < MAX_NODES {
            let wanted = nodes[at].bucket;
            let (block, bucket) = self.block::<F>(wanted);
            let block = *block;
            let base = wanted - u64::from(bucket);
            let crowded = Layout::<F>::find(&block, bucket).1 == BUCKET_SLOTS;
            let among = if crowded { bucket..bucket + 1 } else { 0..Layout::<F>::BUCKETS };
            for from in among {
                for fp in Layout::<F>::fingerprints(&block, from) {
                    let from = base + u64::from(from);
                    let node = Node {
                        bucket: self.other::<F>(from, fp),
                        fingerprint: fp,
                        from,
                        parent: at,
                    };
                    let (there, bucket) = self.block::<F>(node.bucket);
                    let room = Layout::<F>::has_room(there, bucket);
                    if room && self.apply_path::<F>(&nodes, node) {
                        return true;
                    }
                    nodes.push(node);
                }
            }
            at += 1;
        }
        false
    }

    /// Applies the moves of the path that ends in `node`, from its end back. If a move fails,
    /// because the path meets a block twice, all moves are undone.
    fn apply_path<const F: u32>(&mut self, nodes: &[Node], mut node: Node) -> bool {
        let mut undo = Vec::new();
        loop {
            let Node { bucket, fingerprint: fp, from, parent } = node;
            for touched in [bucket, from] {
                undo.push((touched, *self.block::<F>(touched).0));
            }
            let (block, in_block) = self.block_mut::<F>(from);
            let removed = parent == usize::MAX || Layout::<F>::remove(block, in_block, fp);
            let (block, in_block) = self.block_mut::<F>(bucket);
            if !removed || !Layout::<F>::insert(block, in_block, fp) {
                for (bucket, block) in undo.into_iter().rev() {
                    *self.block_mut::<F>(bucket).0 = block;
                }
                return false;
            }
            if bucket != from {
                self.spill::<F>(from);
            }
            match nodes.get(parent) {
                Some(parent) => node = *parent,
                None => return true,
            }
        }
    }

    /// Inserts keys. The first block of a key is prefetched when twice `AHEAD` others are to be
    /// inserted before it. Half way it has arrived, and if it has no room, the second block is
    /// prefetched. The loop of `common` has no second stage.
    fn insert_keys<const F: u32>(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        const RING: usize = 2 * AHEAD;
        let mut ring: [_; RING] = core::array::from_fn(|i| self.prefetched_place::<F>(keys.get(i)));
        for i in 0..keys.len() {
            let later = self.prefetched_place::<F>(keys.get(i + RING));
            let place = core::mem::replace(&mut ring[i % RING], later);
            let (bucket, fp) = ring[(i + AHEAD) % RING];
            let (block, at) = self.block::<F>(bucket);
            if !Layout::<F>::has_room(block, at) {
                self.fetch::<F>(self.other::<F>(bucket, fp));
            }
            self.insert_place::<F>(place).map_err(|full| full.after(i))?;
        }
        Ok(())
    }

    /// Returns the place of a key and prefetches its first block.
    #[inline(always)]
    fn prefetched_place<const F: u32>(&self, key: Option<&KeyHash>) -> (u64, u64) {
        let Some(key) = key else { return (0, 0) };
        let place = self.place::<F>(*key);
        self.fetch::<F>(place.0);
        place
    }

    fn insert_key<const F: u32>(&mut self, key: KeyHash) -> Result<(), Full> {
        self.insert_place::<F>(self.place::<F>(key))
    }

    fn remove_key<const F: u32>(&mut self, key: KeyHash) -> bool {
        if self.len == 0 {
            return false;
        }
        let (bucket, fp) = self.place::<F>(key);
        let (block, at) = self.block_mut::<F>(bucket);
        let spilled = Layout::<F>::spilled(block, at);
        let mut removed = Layout::<F>::remove(block, at, fp);
        if !removed && spilled {
            let (block, at) = self.block_mut::<F>(self.other::<F>(bucket, fp));
            removed = Layout::<F>::remove(block, at, fp);
        }
        self.len -= u64::from(removed);
        removed
    }

    fn check<const F: u32>(&self) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let mut len = 0;
        for block in self.words.as_chunks().0 {
            let here = Layout::<F>::len(block);
            if here > Layout::<F>::SLOTS {
                return corrupt("the counters of a block exceed its slots");
            }
            for slot in 0..Layout::<F>::SLOTS {
                let fp = Layout::<F>::slots_from(block, slot) & packed::mask(F);
                if (fp == 0) != (slot >= here) {
                    return corrupt("the counters of a block differ from its fingerprints");
                }
            }
            if !Layout::<F>::ends_clear(block) {
                return corrupt("bits are set past the last slot of a block");
            }
            len += u64::from(here);
        }
        if len != self.len {
            return corrupt("the number of keys in the blocks differs from the header");
        }
        Ok(())
    }
}

/// Returns the keys after batch `i`.
fn batch_after(keys: &[KeyHash], i: usize) -> &[KeyHash] {
    keys.get((i + 1) * BATCH..).unwrap_or(&[])
}

impl Filter for Morton {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        by_width!(self.contains_key(key))
    }

    /// Returns the keys inserted minus the keys removed.
    fn len(&self) -> u64 {
        self.len
    }

    fn fits_cache(&self) -> bool {
        super::common::near(self.words.len())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        by_width!(self.contains_keys(keys, &mut out[..keys.len()]));
    }
}

impl Build for Morton {
    type Shape = MortonShape;

    fn shape(&self) -> &MortonShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<MortonShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for Morton {
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        by_width!(self.insert_key(key))
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        by_width!(self.insert_keys(keys))
    }
}

impl Remove for Morton {
    fn remove(&mut self, key: KeyHash) -> bool {
        by_width!(self.remove_key(key))
    }
}

impl Persist for Morton {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.blocks, self.shape.width.into(), self.shape.keys]);
        to.words(BLOCKS, &self.words);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let blocks = fields.next(1..=MAX_BLOCKS, "number of blocks")?;
        let width = fields.next(WIDTHS, "fingerprint bits")?;
        let keys = fields.next(len..=MAX_KEYS, "capacity")?;
        fields.finish()?;
        let shape = MortonShape::new(blocks, width as u32, keys)
            .map_err(|_| from.corrupt("the shape of the Morton filter is invalid"))?;
        let words = from.words(BLOCKS, blocks * LINE_WORDS as u64)?;
        Ok(Self { shape, len, words })
    }

    fn validate(&self) -> Result<(), Error> {
        by_width!(self.check())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};
    use std::collections::HashMap;
    use tamis_bits::range::mix;

    fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
        let hasher = KeyHasher::new(HashId::Fast, [seed, 9]);
        keys.map(|key| key.hash_with(&hasher)).collect()
    }

    /// Compares tables of a few blocks with a multiset of keys: overflow, chains of moves and
    /// refusals. There are no false negatives, and removed keys leave nothing behind.
    #[test]
    fn tiny_tables_agree_with_a_multiset() {
        for width in 6..=16 {
            for blocks in [1, 2, 3, 7] {
                let shape = MortonShape::new(blocks, width, 0).unwrap();
                let slots = blocks * u64::from(shape.slots());
                let shape = MortonShape { keys: slots, ..shape };
                let mut filter = Morton::new(shape).unwrap();
                let keys = hashes(u64::from(width) << 8 | blocks, 0..slots * 5 / 4);
                let mut model = HashMap::<usize, u64>::new();
                let mut refused = 0;
                for step in 0..20_000 {
                    let index = range::scale(mix(step), keys.len() as u64) as usize;
                    let count = model.entry(index).or_default();
                    assert!(*count == 0 || filter.contains(keys[index]));
                    if mix(step ^ 0xaaaa_0000) % 16 < 9 {
                        let before = (step % 16 == 0).then(|| filter.clone());
                        match filter.insert(keys[index]) {
                            Ok(()) => *count += 1,
                            Err(Full { .. }) => {
                                refused += 1;
                                assert!(before.is_none_or(|before| before == filter));
                            }
                        }
                    } else if *count > 0 {
                        assert!(filter.remove(keys[index]));
                        *count -= 1;
                    }
                    if step % 64 == 0 {
                        filter.validate().unwrap();
                        let members = model.iter().filter(|(_, count)| **count > 0);
                        let denied = members.filter(|(index, _)| !filter.contains(keys[**index]));
                        assert_eq!(denied.count(), 0);
                    }
                }
                assert!(refused > 0, "the table was never full");
                assert_eq!(filter.len(), model.values().sum::<u64>());
                for (index, count) in model {
                    assert!((0..count).all(|_| filter.remove(keys[index])));
                }
                assert!(filter.is_empty() && !keys.iter().any(|key| filter.contains(*key)));
            }
        }
    }

    /// Tables of every width take their keys at every load up to 0.95.
    #[test]
    fn every_load_up_to_the_largest_is_reached() {
        for width in 6..=16 {
            for load in [0.5, 0.8, 0.9, 0.95] {
                let slots = MortonShape::new(1, width, 0).unwrap().slots();
                let keys = (1000.0 * f64::from(slots) * load) as u64;
                let shape = MortonShape::new(1000, width, keys).unwrap();
                let keys = hashes(u64::from(width), 0..keys);
                let filter = Morton::build(shape, &keys[..]).unwrap();
                filter.validate().unwrap();
                assert!(keys.iter().all(|key| filter.contains(*key)), "{width} bits at {load}");
            }
        }
    }

    #[test]
    fn six_copies() {
        for width in [6, 8, 9, 12, 16] {
            let shape = MortonShape::new(100, width, 2500).unwrap();
            let mut filter = Morton::build(shape, &hashes(1, 1..500)[..]).unwrap();
            let (len, key) = (filter.len(), hashes(1, 0..1)[0]);
            let copies = (0..1_000_000).take_while(|_| filter.insert(key).is_ok()).count();
            assert_eq!(copies, 6);
            assert!((0..copies).all(|_| filter.remove(key)));
            filter.validate().unwrap();
            assert_eq!(filter.len(), len);
            assert!(hashes(1, 1..500).iter().all(|key| filter.contains(*key)));
        }
    }

    #[test]
    fn planned_tables_do_not_fail() {
        for (keys, rounds) in [(1, 500), (43, 1000), (44, 1000), (90, 1000), (300, 300), (9000, 20)]
        {
            for fpr in [0.01, 0.001] {
                let shape = MortonShape::fit(keys, fpr).unwrap();
                for round in 0..rounds {
                    let keys = hashes(mix(keys << 20 | round), 0..keys);
                    Morton::build(shape.clone(), &keys[..]).unwrap();
                }
            }
        }
    }

    /// The model of one block predicts the overflow bits of a filter.
    #[test]
    fn overflow_is_as_expected() {
        for width in [6u32, 8, 10, 12, 16] {
            for load in [0.7, 0.9, 1.0] {
                let mut settings = Settings::default();
                settings.set("f", u64::from(width));
                let shape = MortonShape::fit_with(200_000, 0.2, &settings).unwrap();
                let keys = (200_000.0 * load) as u64;
                let filter = Morton::build(shape.clone(), &hashes(5, 0..keys)[..]).unwrap();
                let (at, shift) = (shape.buckets() as usize * 2 / 64, shape.buckets() * 2 % 64);
                let flags = filter.words.iter().skip(at).step_by(LINE_WORDS);
                let set: u32 = flags.map(|word| (word >> shift & 0xffff).count_ones()).sum();
                let share = f64::from(set) / (shape.blocks() as f64 * 16.0);
                let expected = shape.spilled(keys).1;
                assert!((share - expected).abs() < 0.004, "{load}: {share}, not {expected}");
            }
        }
    }

    #[test]
    fn documented_size() {
        let figures = MortonShape::fit(10_000_000, 0.0032).unwrap().figures();
        assert!(figures.bits_per_key() < 11.8 && figures.fpr < 0.0032, "{figures:?}");
        let finer = MortonShape::fit(10_000_000, 0.000_32).unwrap().figures();
        assert!(finer.bits_per_key() < 15.1, "{finer:?}");
        assert!(MortonShape::fit(10_000_000, 1e-4).unwrap().width() == 16);
        assert!(MortonShape::fit(10_000_000, 1e-6).is_err());
    }
}
