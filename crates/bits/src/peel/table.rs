//! Lookups in the cells of fuse graphs.

use super::graphs::{FRACTION, Fuse, offset, product};
use crate::packed::mask;
use crate::prefetch::prefetch;
use crate::range::scale;
use crate::words::Words;

/// The cells of one or more shards of a fuse graph, with all that a lookup needs.
///
/// ```text
///  digest ──► leading bits ──► shard ──► multiplier ──► factor          one word per shard
///    │    ──► · factor ──► first cell, and offsets of the others
///    └──► low bits ──► fingerprint
///
///  table  │ cells of shard 0 │ cells of shard 1 │ …
/// ```
///
/// A digest passes if the XOR of its cells is its fingerprint or if it is listed. Nothing passes if
/// there are no members.
///
/// The sizes are checked once, by [`FuseTable::new`], and a lookup has one branch by the form of the
/// table: about 20 instructions for cells of 8 or 16 bits. The number of instructions decides how
/// many lookups are in flight at a time, and so the time of a lookup in a table outside of the cache.
#[derive(Clone, Debug, PartialEq)]
pub struct FuseTable {
    common: Common,
    /// The number of the form: see [`form_of`].
    form: u8,
    /// Whether the cells alone do not decide, because there are no members or some are listed.
    is_corrected: bool,
    shard_bits: u32,
    /// The number of shards, minus 1.
    shard_mask: u64,
    /// What a lookup in one shard needs, in the order in which it does. The factor is the multiplier if the graph
    /// is small.
    factor: u64,
    /// If the first cell is less, no other cell is folded.
    safe: u64,
    mask: u64,
    words: Words,
    seeds: Words,
    /// The bytes of a shard.
    stride: u64,
    places: u64,
    fold: u64,
    width: u32,
    /// The bits of a fingerprint.
    low_bits: u64,
    listed: Words,
    len: u64,
}

/// The layouts of shards, as constants for generic functions.
const ONE: u8 = 0;
const SHARDS: u8 = 1;
/// One shard whose first cells depend on the multiplier.
const SMALL: u8 = 2;

/// Which of the common forms a table has, if any. They have three cells per digest, and their cells alone
/// decide.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Common {
    /// One shard with cells of 8 bits.
    bytes: bool,
    /// Several shards.
    byte_shards: bool,
    /// One shard with cells of another width than 8 and 16 bits.
    packed: bool,
    packed_shards: bool,
    /// One shard with cells of 16 bits.
    pairs: bool,
    pair_shards: bool,
    small_bytes: bool,
    small_packed: bool,
}

/// The digests of a batch whose cells are prefetched before the first one is read.
const BATCH: usize = 64;

/// Evaluates `$self.$method::<K, LAYOUT, BYTES>($arguments)` with the constants of a table's form.
macro_rules! dispatch {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self.form {
            0 => $self.$method::<3, ONE, 1>($($argument),*),
            1 => $self.$method::<3, ONE, 2>($($argument),*),
            2 => $self.$method::<3, ONE, 0>($($argument),*),
            3 => $self.$method::<3, SHARDS, 1>($($argument),*),
            4 => $self.$method::<3, SHARDS, 2>($($argument),*),
            5 => $self.$method::<3, SHARDS, 0>($($argument),*),
            6 => $self.$method::<3, SMALL, 1>($($argument),*),
            7 => $self.$method::<3, SMALL, 2>($($argument),*),
            8 => $self.$method::<3, SMALL, 0>($($argument),*),
            9 => $self.$method::<4, ONE, 1>($($argument),*),
            10 => $self.$method::<4, ONE, 2>($($argument),*),
            11 => $self.$method::<4, ONE, 0>($($argument),*),
            12 => $self.$method::<4, SHARDS, 1>($($argument),*),
            13 => $self.$method::<4, SHARDS, 2>($($argument),*),
            14 => $self.$method::<4, SHARDS, 0>($($argument),*),
            15 => $self.$method::<4, SMALL, 1>($($argument),*),
            16 => $self.$method::<4, SMALL, 2>($($argument),*),
            _ => $self.$method::<4, SMALL, 0>($($argument),*),
        }
    };
}

/// Returns the number of a form, by which [`dispatch`] selects its constants.
const fn form_of(arity: usize, layout: u8, width: u32) -> u8 {
    let bytes = match width {
        8 => 0,
        16 => 1,
        _ => 2,
    };
    (arity as u8 - 3) * 9 + layout * 3 + bytes
}

/// Where the cells of a digest are.
#[derive(Clone, Copy)]
struct Spot {
    /// The first byte of the shard.
    from: usize,
    first: u64,
    /// Both halves of the product with the offsets.
    halves: (u64, u64),
}

impl FuseTable {
    /// Makes a table of `2^b` shards with cells of `width` bits, 1 to 32, where `b` is the number of
    /// shard bits of `graph`. `words` has the shards, each in whole words, and unless the width is 8
    /// or 16 one more word. `seeds` has the multiplier of each shard, `listed` the members that the
    /// cells reject, ascending. `len` is the number of members.
    ///
    /// Returns `None` if the width is out of range, if `K` is not 3 or 4, or if there are fewer words
    /// or seeds than that.
    pub fn new<const K: usize>(
        graph: Fuse<K>,
        width: u32,
        words: Words,
        seeds: Words,
        listed: Words,
        len: u64,
    ) -> Option<Self> {
        let (shards, bits) = (1u64.checked_shl(graph.shard_bits)?, u64::from(width));
        let stride = (graph.cells as u64 * bits).div_ceil(64) * 8;
        let padding = if matches!(width, 8 | 16) { 0 } else { 8 };
        let bytes = stride.checked_mul(shards)?.checked_add(padding)?;
        let sound = (1..=32).contains(&width)
            && (3..=4).contains(&K)
            && seeds.len() as u64 == shards
            && size_of_val(&words[..]) as u64 >= bytes;
        if !sound {
            return None;
        }
        let layout = match graph.is_small {
            true => SMALL,
            false if graph.shard_bits == 0 => ONE,
            false => SHARDS,
        };
        let form = form_of(K, layout, width);
        let is_corrected = len == 0 || !listed.is_empty();
        let is = |layout, width| !is_corrected && form == form_of(3, layout, width);
        let common = Common {
            bytes: is(ONE, 8),
            byte_shards: is(SHARDS, 8),
            packed: is(ONE, 1),
            packed_shards: is(SHARDS, 1),
            pairs: is(ONE, 16),
            pair_shards: is(SHARDS, 16),
            small_bytes: is(SMALL, 8),
            small_packed: is(SMALL, 1),
        };
        Some(Self {
            common,
            form,
            is_corrected,
            shard_bits: graph.shard_bits,
            shard_mask: shards - 1,
            places: graph.places,
            factor: match layout {
                ONE => Fuse::<K>::factor(graph.places, seeds[0]),
                _ => seeds[0],
            },
            safe: graph.safe,
            mask: graph.mask,
            words,
            seeds,
            stride,
            fold: graph.fold,
            width,
            low_bits: mask(width),
            listed,
            len,
        })
    }

    /// Returns the cells of all shards.
    pub fn words(&self) -> &Words {
        &self.words
    }

    /// Returns the multiplier of each shard.
    pub fn seeds(&self) -> &Words {
        &self.seeds
    }

    /// Returns the listed members.
    pub fn listed(&self) -> &Words {
        &self.listed
    }

    /// Returns the number of members.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether the digest may be a member.
    ///
    /// Only bytes are read inline. More forms there would share the caller's registers, which took up to
    /// 14 instructions more for each of them: as many as a call.
    #[inline(always)]
    pub fn contains(&self, digest: u64) -> bool {
        if self.common.bytes {
            self.holds::<3, ONE, 1>(digest)
        } else if self.common.byte_shards {
            self.holds::<3, SHARDS, 1>(digest)
        } else {
            self.contains_other(digest)
        }
    }

    /// Does the same for all other forms.
    #[inline(never)]
    fn contains_other(&self, digest: u64) -> bool {
        // A chain of branches that are predicted: as a `match` it would become an indirect jump.
        if self.common.packed {
            self.holds::<3, ONE, 0>(digest)
        } else if self.common.packed_shards {
            self.holds::<3, SHARDS, 0>(digest)
        } else if self.common.pairs {
            self.holds::<3, ONE, 2>(digest)
        } else if self.common.pair_shards {
            self.holds::<3, SHARDS, 2>(digest)
        } else if self.common.small_bytes {
            self.holds::<3, SMALL, 1>(digest)
        } else if self.common.small_packed {
            self.holds::<3, SMALL, 0>(digest)
        } else {
            self.contains_rare(digest)
        }
    }

    /// Does the same for tables of any form.
    #[inline(never)]
    fn contains_rare(&self, digest: u64) -> bool {
        if self.is_corrected {
            return self.corrected(dispatch!(self.holds_apart(digest)), digest);
        }
        dispatch!(self.holds_apart(digest))
    }

    /// Does the same as [`FuseTable::holds`], in a function of its own.
    #[inline(never)]
    fn holds_apart<const K: usize, const LAYOUT: u8, const BYTES: usize>(
        &self,
        digest: u64,
    ) -> bool {
        self.holds::<K, LAYOUT, BYTES>(digest)
    }

    /// Corrects the result of the cells if there are no members or some are listed.
    #[cold]
    fn corrected(&self, holds: bool, digest: u64) -> bool {
        self.len > 0 && (holds || self.listed.binary_search(&digest).is_ok())
    }

    /// Sets `out` to whether each digest may be a member. Prefetches the cells, also those of a table that
    /// stays in the cache, where [`FuseTable::contains`] takes less time.
    ///
    /// # Panics
    /// Panics if `out` is shorter than `digests`.
    pub fn contains_batch(&self, digests: impl ExactSizeIterator<Item = u64>, out: &mut [bool]) {
        assert!(out.len() >= digests.len(), "`out` is shorter than `digests`");
        let out = &mut out[..digests.len()];
        dispatch!(self.contains_batch_in(digests, out));
    }

    #[inline(always)]
    fn contains_batch_in<const K: usize, const LAYOUT: u8, const BYTES: usize>(
        &self,
        mut digests: impl ExactSizeIterator<Item = u64>,
        out: &mut [bool],
    ) {
        let correct = |holds, digest| match self.is_corrected {
            true => self.corrected(holds, digest),
            false => holds,
        };
        let mut batch = [(0, [0; K]); BATCH];
        for out in out.chunks_mut(BATCH) {
            for ((kept, places), digest) in batch.iter_mut().zip(digests.by_ref().take(out.len())) {
                let spot = self.spot::<LAYOUT>(digest);
                let place = |i| self.place::<BYTES>(spot.from, self.cell::<true>(&spot, i));
                (*kept, *places) = (digest, core::array::from_fn(place));
                for place in places {
                    prefetch(&self.words, self.byte::<BYTES>(*place) / 8);
                }
            }
            for ((digest, places), out) in batch.iter().zip(out) {
                // SAFETY: `place` made the places, of cells of this table.
                let read = |sum, place: &usize| sum ^ unsafe { self.read::<BYTES>(*place) };
                let sum = places.iter().fold(*digest, read);
                *out = correct(self.matches::<BYTES>(sum, 0), *digest);
            }
        }
    }

    /// Returns whether the XOR of the digest's cells is its fingerprint.
    #[inline(always)]
    fn holds<const K: usize, const LAYOUT: u8, const BYTES: usize>(&self, digest: u64) -> bool {
        let spot = self.spot::<LAYOUT>(digest);
        // In a small table many cells are folded, and a branch would be mispredicted.
        if LAYOUT == SMALL {
            return self.matches::<BYTES>(self.sum::<K, true, BYTES>(&spot), digest);
        }
        if spot.first >= self.safe {
            return self.holds_folded::<K, LAYOUT, BYTES>(digest);
        }
        self.matches::<BYTES>(self.sum::<K, false, BYTES>(&spot), digest)
    }

    /// Does the same if a cell may be folded. Only the digest is passed, so that the caller need not
    /// keep more in memory.
    #[cold]
    #[inline(never)]
    fn holds_folded<const K: usize, const LAYOUT: u8, const BYTES: usize>(
        &self,
        digest: u64,
    ) -> bool {
        let spot = self.spot::<LAYOUT>(digest);
        self.matches::<BYTES>(self.sum::<K, true, BYTES>(&spot), digest)
    }

    /// Returns whether the XOR of the cells is the digest's fingerprint.
    #[inline(always)]
    fn matches<const BYTES: usize>(&self, sum: u64, digest: u64) -> bool {
        let low = if BYTES == 0 { self.low_bits } else { mask(BYTES as u32 * 8) };
        (sum ^ digest) & low == 0
    }

    /// Returns the XOR of the cells, with other bits above if they have no whole bytes.
    #[inline(always)]
    fn sum<const K: usize, const FOLDS: bool, const BYTES: usize>(&self, spot: &Spot) -> u64 {
        // Not `fold`, of which the compiler makes a call in larger functions.
        let mut sum = 0;
        for i in 0..K {
            let place = self.place::<BYTES>(spot.from, self.cell::<FOLDS>(spot, i));
            // SAFETY: `place` made the place, of a cell of this table.
            sum ^= unsafe { self.read::<BYTES>(place) };
        }
        sum
    }

    #[inline(always)]
    fn spot<const LAYOUT: u8>(&self, digest: u64) -> Spot {
        let (mut from, mut key, mut factor) = (0, digest, self.factor);
        match LAYOUT {
            SMALL => key = digest.wrapping_mul(factor),
            ONE => {}
            _ => {
                key = digest.rotate_left(self.shard_bits);
                let shard = key & self.shard_mask;
                from = (shard * self.stride) as usize;
                // SAFETY: `new` has checked that there is a seed for each of `2^shard_bits` shards.
                let seed = unsafe { *self.seeds.get_unchecked(shard as usize) };
                factor = Fuse::<3>::factor(self.places, seed);
            }
        }
        let halves = product(key, factor);
        let first = if LAYOUT == SMALL { scale(key, self.places) } else { halves.0 >> FRACTION };
        Spot { from, first, halves }
    }

    /// Returns cell number `i` of a digest in its shard. `FOLDS` may be false if no cell is folded.
    /// The cell is always less than the number of cells, as for [`Fuse`].
    #[inline(always)]
    fn cell<const FOLDS: bool>(&self, spot: &Spot, i: usize) -> u64 {
        if i == 0 {
            return spot.first;
        }
        let at = spot.first + offset(i, spot.halves, self.mask) + i as u64;
        let at = at + self.mask * (i as u64 - 1);
        if FOLDS { Fuse::<3>::folded(self.fold, at) } else { at }
    }

    /// Returns the place of a cell: its byte, or its bit if cells have no whole bytes.
    #[inline(always)]
    fn place<const BYTES: usize>(&self, from: usize, cell: u64) -> usize {
        match BYTES {
            0 => from * 8 + cell as usize * self.width as usize,
            _ => from + cell as usize * BYTES,
        }
    }

    /// Returns the byte of a place.
    #[inline(always)]
    fn byte<const BYTES: usize>(&self, place: usize) -> usize {
        if BYTES == 0 { place / 8 } else { place }
    }

    /// Reads the cell at a place. Cells that have no whole bytes have other bits above them.
    ///
    /// # Safety
    /// The place must be that of a cell of this table, and the arity and width must be its own.
    #[inline(always)]
    unsafe fn read<const BYTES: usize>(&self, place: usize) -> u64 {
        if cfg!(target_endian = "big") {
            let bit = if BYTES == 0 { place } else { place * 8 } as u64;
            return crate::packed::get_at(&self.words, self.width, bit);
        }
        // SAFETY: the caller guarantees that a cell begins in this byte, and `new` that all cells lie
        // in the words.
        let at = unsafe { self.words.as_ptr().cast::<u8>().add(self.byte::<BYTES>(place)) };
        match BYTES {
            // SAFETY: as above. The words are initialised, and bytes need no alignment.
            1 => unsafe { at.read() }.into(),
            // SAFETY: as above, for a cell of two bytes. Shards begin at words.
            2 => unsafe { at.cast::<u16>().read() }.into(),
            // SAFETY: as above. A word follows the cells, so 8 bytes lie in the words.
            _ => (unsafe { at.cast::<u64>().read_unaligned() }) >> (place % 8),
        }
    }
}
