//! Bit arrays that threads fill without locks.
//!
//! Bits are only ever set. A key is in as soon as all its bits are set, whichever threads set them, so
//! insertions need no order among each other and `Relaxed` operations are enough.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tamis_bits::{AtomicWords, Words, prefetch};

use super::storage::{InsertStorage, Storage};
use crate::any::Registered;
use crate::error::{Error, Full};
use crate::filters::common::bit_array::{BitArray, BitShape, Room, recount};
use crate::hash::KeyHash;
use crate::shape::Shape;
use crate::traits::Build;

/// The operations of an atomic word, all `Relaxed`. Tests implement it for the words of a model checker.
pub(super) trait Atomic {
    fn load(&self) -> u64;
    fn fetch_or(&self, mask: u64) -> u64;
    fn fetch_add(&self, value: u64);
    fn fetch_sub(&self, value: u64);
    fn compare_exchange(&self, current: u64, new: u64) -> bool;
}

impl Atomic for AtomicU64 {
    #[inline(always)]
    fn load(&self) -> u64 {
        self.load(Relaxed)
    }

    #[inline(always)]
    fn fetch_or(&self, mask: u64) -> u64 {
        self.fetch_or(mask, Relaxed)
    }

    #[inline(always)]
    fn fetch_add(&self, value: u64) {
        self.fetch_add(value, Relaxed);
    }

    #[inline(always)]
    fn fetch_sub(&self, value: u64) {
        self.fetch_sub(value, Relaxed);
    }

    #[inline(always)]
    fn compare_exchange(&self, current: u64, new: u64) -> bool {
        self.compare_exchange_weak(current, new, Relaxed, Relaxed).is_ok()
    }
}

/// A filter whose keys are bits of an array, and nothing else.
pub(super) trait BitFilter: Registered<Shape: MaskShape> {
    /// Returns the shape and the bits.
    fn split(self) -> (Self::Shape, BitArray);

    /// Returns the filter of this shape and these bits.
    fn join(shape: Self::Shape, bits: BitArray) -> Self;

    /// Removes bits that no filter has, from words that were copied while threads set the bits of keys.
    fn clear_partial_keys(_words: &mut [u64]) {}
}

/// A shape that maps a key to masks of words.
pub(super) trait MaskShape: BitShape {
    /// Calls `visit` with each word of a key and the mask of the key's bits there, until it returns
    /// `false`. Returns whether it never did.
    fn all_masks(&self, key: KeyHash, visit: impl FnMut(usize, u64) -> bool) -> bool;
}

/// Returns whether all bits of a key are set.
#[inline(always)]
fn contains<A: Atomic>(shape: &impl MaskShape, words: &[A], key: KeyHash) -> bool {
    shape.all_masks(key, |word, mask| words[word].load() & mask == mask)
}

/// Sets the bits of a key. Returns whether one of them was clear.
#[inline(always)]
fn set<A: Atomic>(shape: &impl MaskShape, words: &[A], key: KeyHash) -> bool {
    let mut changed = false;
    shape.all_masks(key, |word, mask| {
        // Half of the bits are set in a full filter. A load first leaves their line shared, where
        // `fetch_or` would take it away from the other threads.
        if words[word].load() & mask != mask {
            changed |= words[word].fetch_or(mask) & mask != mask;
        }
        true
    });
    changed
}

fn ones<A: Atomic>(words: &[A]) -> u64 {
    words.iter().map(|word| u64::from(word.load().count_ones())).sum()
}

/// Inserts a key. Returns whether it changed a bit.
#[inline(always)]
fn insert<A: Atomic>(
    shape: &impl MaskShape,
    words: &[A],
    counter: &Counter<A>,
    key: KeyHash,
) -> Result<bool, Full> {
    if !counter.count_insertion(shape.keys()) {
        if contains(shape, words, key) {
            return Ok(false);
        }
        counter.count_change(shape, || ones(words))?;
    }
    Ok(set(shape, words, key))
}

/// The number of keys, and the rule of [`BitArray`] for when the array is full.
///
/// A thread counts its key before it sets the bits, so that two threads cannot both take the last place.
/// A recount does not see keys that are counted and whose bits are not set yet, so the limit can be
/// exceeded by one key per thread.
#[derive(Debug)]
pub(super) struct Counter<A> {
    /// While insertions are counted, at most the capacity. After a recount it may exceed the capacity.
    len: A,
    /// The low [`ROOM_BITS`] are the number of keys that may still change a bit, or one of the two marks
    /// below. The others are the number of recounts: a thread that was slow to recount finds them changed
    /// and recounts again.
    state: A,
}

const ROOM_BITS: u32 = 48;
const ROOM_MASK: u64 = (1 << ROOM_BITS) - 1;
/// Insertions are counted, whether or not they change a bit.
const COUNTING: u64 = ROOM_MASK;
/// A recount is due.
const UNKNOWN: u64 = ROOM_MASK - 1;

impl<A: Atomic> Counter<A> {
    /// Counts an insertion. Returns `false` if the bits must be read first.
    #[inline(always)]
    fn count_insertion(&self, capacity: u64) -> bool {
        let mut len = self.len.load();
        while self.state.load() == COUNTING && len < capacity {
            if self.len.compare_exchange(len, len + 1) {
                return true;
            }
            len = self.len.load();
        }
        false
    }

    /// Counts a key that changes a bit: see [`BitArray::count_change`].
    #[cold]
    fn count_change(&self, shape: &impl BitShape, ones: impl Fn() -> u64) -> Result<(), Full> {
        loop {
            let state = self.state.load();
            let (recounts, room) = (state >> ROOM_BITS, state & ROOM_MASK);
            if room == 0 {
                return Err(Full::NONE);
            }
            if room < UNKNOWN {
                let left = if room == 1 { UNKNOWN } else { room - 1 };
                if self.state.compare_exchange(state, recounts << ROOM_BITS | left) {
                    self.len.fetch_add(1);
                    return Ok(());
                }
                continue;
            }
            let (keys, found) = recount(shape, ones());
            let left = match found {
                Room::Left(left) => left.min(UNKNOWN - 1),
                Room::Unknown | Room::Full => 0,
            };
            let next = (recounts + 1) << ROOM_BITS | left;
            if self.state.compare_exchange(state, next) && room == COUNTING && left > 0 {
                // As many insertions as the capacity were counted. Threads that count at the same
                // time only add.
                self.len.fetch_sub(shape.keys() - keys);
            }
        }
    }

    fn len(&self, capacity: u64) -> u64 {
        self.len.load().min(capacity)
    }
}

/// A bit array that threads fill without locks.
#[derive(Debug)]
pub struct AtomicBits<G: Build> {
    shape: G::Shape,
    words: AtomicWords,
    counter: Counter<AtomicU64>,
}

impl<G: BitFilter> Storage for AtomicBits<G> {
    type Filter = G;

    fn max_shards() -> usize {
        1
    }

    fn new(shards: Vec<G>) -> Result<Self, Error> {
        let mut shards = shards.into_iter();
        let only = shards.next().filter(|_| shards.len() == 0);
        let why = "a kind that is shared without locks has one shard";
        let (shape, bits) = only.ok_or(Error::Infeasible { why })?.split();
        let (words, len) = bits.into_parts();
        let counter = Counter { len: AtomicU64::new(len), state: AtomicU64::new(COUNTING) };
        Ok(Self { shape, words: AtomicWords::new(words)?, counter })
    }

    fn into_only_shard(self) -> Result<G, Self> {
        let capacity = self.shape.keys();
        let len = self.counter.len(capacity);
        let bits = BitArray::from_parts(self.words.into_words(), len, capacity);
        Ok(G::join(self.shape, bits))
    }

    fn shard_count(&self) -> usize {
        1
    }

    fn for_each_shard(&self, mut each: impl FnMut(&G) -> Result<(), Error>) -> Result<(), Error> {
        // The number of keys first: a key that is counted later may have its bits in the copy.
        let (len, atomics) = (self.len(), self.words.as_atomics());
        let mut words = Words::zeroed(atomics.len())?;
        for (word, atomic) in words.to_mut().iter_mut().zip(atomics) {
            *word = atomic.load(Relaxed);
        }
        G::clear_partial_keys(words.to_mut());
        let bits = BitArray::from_parts(words, len, self.shape.keys());
        each(&G::join(self.shape.clone(), bits))
    }

    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        contains(&self.shape, self.words.as_atomics(), key)
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            prefetch_all(&self.shape, self.words.as_atomics(), keys);
            for (key, out) in keys.iter().zip(out) {
                *out = self.contains(*key);
            }
        }
    }

    fn len(&self) -> u64 {
        self.counter.len(self.shape.keys())
    }
}

/// Keys whose memory is prefetched at a time.
const LANES: usize = 16;

fn prefetch_all(shape: &impl MaskShape, words: &[AtomicU64], keys: &[KeyHash]) {
    for key in keys {
        shape.all_masks(*key, |word, _| {
            prefetch(words, word);
            true
        });
    }
}

impl<G: BitFilter> InsertStorage for AtomicBits<G> {
    #[inline]
    fn insert(&self, key: KeyHash) -> Result<(), Error> {
        insert(&self.shape, self.words.as_atomics(), &self.counter, key)?;
        Ok(())
    }

    fn insert_new(&self, key: KeyHash) -> Result<bool, Error> {
        let words = self.words.as_atomics();
        Ok(!self.contains(key) && insert(&self.shape, words, &self.counter, key)?)
    }

    fn insert_batch(&self, keys: &[KeyHash]) -> Result<(), Error> {
        let words = self.words.as_atomics();
        for (run, keys) in keys.chunks(LANES).enumerate() {
            prefetch_all(&self.shape, words, keys);
            for (index, key) in keys.iter().enumerate() {
                insert(&self.shape, words, &self.counter, *key)
                    .map_err(|full| full.after(run * LANES + index))?;
            }
        }
        Ok(())
    }

    fn insert_new_batch(&self, keys: &[KeyHash], new: &mut [bool]) -> Result<(), Error> {
        self.contains_batch(keys, new);
        for (index, (key, new)) in keys.iter().zip(new).enumerate() {
            // A key that the batch reports as absent may be a duplicate of an earlier one.
            *new = !*new && self.insert_new(*key).map_err(|error| error.after(index))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loom::sync::atomic::AtomicU64 as LoomU64;

    use super::*;
    use crate::filters::BloomShape;

    impl Atomic for LoomU64 {
        fn load(&self) -> u64 {
            self.load(Relaxed)
        }

        fn fetch_or(&self, mask: u64) -> u64 {
            self.fetch_or(mask, Relaxed)
        }

        fn fetch_add(&self, value: u64) {
            self.fetch_add(value, Relaxed);
        }

        fn fetch_sub(&self, value: u64) {
            self.fetch_sub(value, Relaxed);
        }

        fn compare_exchange(&self, current: u64, new: u64) -> bool {
            self.compare_exchange(current, new, Relaxed, Relaxed).is_ok()
        }
    }

    /// Checks the interleavings, with at most 2 preemptions, of two threads that insert `keys[0]` and
    /// `keys[1]` into a filter of the keys `before`. No key that was accepted is denied, and as many keys
    /// are accepted as `fit` allows.
    fn model<S: MaskShape + 'static>(
        shape: &S,
        before: &[KeyHash],
        keys: [KeyHash; 2],
        fit: [usize; 2],
    ) {
        let (shape, before) = (shape.clone(), before.to_vec());
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let words = (0..shape.words()).map(|_| LoomU64::new(0)).collect::<Vec<_>>();
            let counter = Counter { len: LoomU64::new(0), state: LoomU64::new(COUNTING) };
            let array = Arc::new((shape.clone(), words, counter));
            for key in &before {
                insert(&array.0, &array.1, &array.2, *key).unwrap();
            }
            let threads = keys.map(|key| {
                let array = Arc::clone(&array);
                loom::thread::spawn(move || {
                    let (shape, words, counter) = &*array;
                    let inserted = insert(shape, words, counter, key).is_ok();
                    assert!(!inserted || contains(shape, words, key), "denied to its own thread");
                    inserted
                })
            });
            let inserted = threads.map(|thread| thread.join().unwrap());
            let (shape, words, counter) = &*array;
            for (key, inserted) in keys.iter().zip(inserted) {
                assert!(!inserted || contains(shape, words, *key), "denied");
            }
            let count = inserted.iter().filter(|inserted| **inserted).count();
            assert!((fit[0]..=fit[1]).contains(&count), "{count} of 2 keys fit");
            assert!(counter.len(shape.keys()) <= shape.keys());
        });
    }

    const KEYS: [KeyHash; 3] = [
        KeyHash { hi: 0x1357_9bdf_0246_8ace, lo: 0x0123_4567_89ab_cdef },
        KeyHash { hi: 0x9bdf_0246_8ace_1357, lo: 0x89ab_cdef_0123_4567 },
        KeyHash { hi: 0xdf02_468a_ce13_579b, lo: 0xfedc_ba98_7654_3210 },
    ];

    #[test]
    fn interleavings_of_two_insertions() {
        let [a, b, c] = KEYS;
        let bloom = |keys| BloomShape::new(64, 2, keys).unwrap();
        // Room for both; for one of two, where the other may recount before the bits of the first are
        // set; and a duplicate at the limit.
        model(&bloom(2), &[], [a, b], [2, 2]);
        model(&bloom(1), &[], [a, b], [1, 2]);
        model(&bloom(1), &[c], [a, c], [1, 1]);
    }

    #[test]
    fn interleavings_of_two_recounts() {
        let [a, b, c] = KEYS;
        let shape = BloomShape::new(64, 2, 2).unwrap();
        // Two insertions of one key: a recount finds room for one key more. Both threads recount. The
        // second may do so before the first has set its bits, and pass the limit by one key.
        model(&shape, &[c, c], [a, b], [1, 2]);
    }
}
