//! The graphs: how a digest selects its cells.

use core::cmp::min;

use super::{Edge, Graph};
use crate::range::scale;

/// Returns the upper and the lower half of the product.
#[inline(always)]
pub(super) const fn product(a: u64, b: u64) -> (u64, u64) {
    let product = a as u128 * b as u128;
    ((product >> 64) as u64, product as u64)
}

/// The fuse graph: the cells of a record are near each other, and the first grows with the digest.
///
/// ```text
///  0          y          y + s         y + 2s          places        cells
///  ├──────────┼─────────────┼──────────────┼──────── … ───┼─────────────┤
///             ▲└── one in ──┘└─── one in ──┘              └── s · K/4 ──┤
///             first                                                     └─ cells past the end
///                                                                          are folded back
/// ```
///
/// One product gives all cells. Its factor is `places · 2^32` less the low 32 bits of the multiplier, so
/// `digest · factor` has the first cell in its highest 32 bits and the offsets of the others below. The
/// fingerprint is the low bits of the digest.
///
/// `y` grows with the digest, so that records in the order of their leading bits use the table from
/// one end to the other. Another multiplier changes it by 1 at most, so another attempt needs no other
/// order. In a graph of fewer than 2^16 cells the first cells can be so uneven that no multiplier
/// helps. There they depend on the multiplier too, which takes a second product, unless the graph belongs to
/// one of several shards.
///
/// It differs from the graph of the binary fuse filter (Graf, Lemire 2022), which is divided into
/// segments, has fewer records per cell at both ends and begins to peel at both. One end is enough,
/// so here the other end is folded back and as full as the middle. At an equal success rate this
/// takes 1.143 cells per record instead of 1.162 for 10^5 records and `K = 3`, and 1.138 instead of
/// 1.176 for 10^4 records and `K = 4`. The number of cells need not be a multiple of `s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fuse<const K: usize> {
    pub(super) cells: usize,
    pub(super) places: u64,
    /// The sum of a place past the end and the cell that it is folded to.
    pub(super) fold: u64,
    /// The number of cells of a segment, minus 1.
    pub(super) mask: u64,
    pub(super) shard_bits: u32,
    /// Whether the first cell depends on the multiplier.
    pub(super) is_small: bool,
    /// If the first cell is less, none of the others is folded.
    pub(super) safe: u64,
}

/// Tables with fewer cells than this may be accessed in any order.
const SMALL: usize = 1 << 16;
/// The largest logarithm of a segment: the middle of a product provides three places of 20 bits.
const MAX_SEGMENT: u32 = 20;
/// The bits below the number of the first cell in the upper half of a product.
pub(super) const FRACTION: u32 = 32;
/// The logarithm of the cells that the records of a run have their first cell in.
const RUN_CELLS: u32 = 11;

impl<const K: usize> Fuse<K> {
    /// Makes a graph of `cells` cells with segments of `2^segment`. The `shard_bits` leading bits of
    /// the digest are the same for all records. Returns `None` if the cells are too few for the
    /// segment or too many, or if `K` is not 2, 3 or 4.
    pub fn new(cells: u64, segment: u32, shard_bits: u32) -> Option<Self> {
        let sound = (1..=MAX_SEGMENT).contains(&segment)
            && shard_bits < 64
            && cells < 1 << 32
            && (2..=4).contains(&K);
        (sound && cells >= Self::least(segment)).then(|| Self {
            cells: cells as usize,
            places: cells - Self::tail(segment),
            fold: 2 * cells - 1,
            mask: (1 << segment) - 1,
            shard_bits,
            is_small: shard_bits == 0 && cells < SMALL as u64,
            safe: cells.saturating_sub((K as u64 - 1) << segment),
        })
    }

    /// Returns the factor of digests in a large graph: for any multiplier, a first cell is below `places`.
    #[inline(always)]
    pub(super) const fn factor(places: u64, multiplier: u64) -> u64 {
        (places << FRACTION) - multiplier as u32 as u64
    }

    /// Returns the least number of cells for a segment.
    pub const fn least(segment: u32) -> u64 {
        Self::tail(segment) + (1 << segment)
    }

    /// Returns the number of cells after the last first cell: as many as give them the same load.
    const fn tail(segment: u32) -> u64 {
        ((K as u64) << segment) / 4
    }

    /// Returns the cell of place `at`.
    #[inline(always)]
    pub(super) fn folded(fold: u64, at: u64) -> u64 {
        min(at, fold - at)
    }
}

/// Returns the offset of a record's cell number `i`, from 1 on, in its segment, given the upper and
/// the lower half of the product. Shifts by constants: a variable shift costs three times as much.
#[inline(always)]
pub(super) const fn offset(i: usize, (high, low): (u64, u64), mask: u64) -> u64 {
    match i {
        1 => low >> (64 - MAX_SEGMENT) & mask,
        2 => low >> (64 - 2 * MAX_SEGMENT) & mask,
        _ => high & mask,
    }
}

// SAFETY: the first cell is below `places`, which is less than `cells`: `factor` is at most `places · 2^32`. The
// others are below `places + (K - 1) s` before folding, which is at most `fold + 1`, because there are at
// least `least` cells. So neither part of the sum `fold` is negative, and the smaller is below `cells`.
unsafe impl<const K: usize> Graph<K> for Fuse<K> {
    #[inline]
    fn cells(&self) -> usize {
        self.cells
    }

    #[inline(always)]
    fn form(&self) -> u8 {
        match self.is_small {
            true => FOLDED,
            false if self.shard_bits == 0 => ONE_SHARD,
            false => SHARDS,
        }
    }

    /// In large graphs few cells are folded, and a branch takes 6 instructions less.
    #[inline(always)]
    fn edge_of<const FORM: u8>(&self, multiplier: u64, digest: u64) -> Edge<K> {
        let key = match FORM {
            FOLDED => return self.edge(multiplier, digest),
            SHARDS => digest.rotate_left(self.shard_bits),
            _ => digest,
        };
        let halves = product(key, Self::factor(self.places, multiplier));
        let first = halves.0 >> FRACTION;
        let (mut cells, mut next) = ([first as usize; K], first + 1);
        for (i, cell) in cells.iter_mut().enumerate().skip(1) {
            *cell = (next + offset(i, halves, self.mask)) as usize;
            next += self.mask + 1;
        }
        if first >= self.safe {
            rarely();
            for cell in &mut cells[1..] {
                *cell = Self::folded(self.fold, *cell as u64) as usize;
            }
        }
        Edge { cells, print: digest }
    }

    /// Records wait for cells in the segments near the last closed cell. Of 824 attempts that peeled all of
    /// 10^5 records, 3 had half as many at a time, and none three quarters.
    fn most_waiting(&self) -> usize {
        if self.cells < SMALL { usize::MAX } else { 8 * (self.mask as usize + 1) }
    }

    fn order_bits(&self) -> u32 {
        if self.cells < SMALL { 0 } else { self.shard_bits + self.cells.ilog2() - RUN_CELLS }
    }

    /// Folding moves cells back to at most one segment before the last first cell.
    #[inline]
    fn closed_below(&self, first: usize) -> usize {
        let fold = (self.places - self.mask - 1) as usize;
        if self.cells < SMALL { 0 } else { min(first, fold) }
    }

    #[inline]
    fn open_from(&self, first: usize) -> usize {
        let last = first + (self.mask + 1) as usize * (K - 1) + 1;
        if self.cells < SMALL { self.cells } else { min(last, self.cells) }
    }

    #[inline(always)]
    fn edge(&self, multiplier: u64, digest: u64) -> Edge<K> {
        let (halves, first) = if self.is_small {
            let key = digest.wrapping_mul(multiplier);
            (product(key, multiplier), scale(key, self.places))
        } else {
            let key = digest.rotate_left(self.shard_bits);
            let halves = product(key, Self::factor(self.places, multiplier));
            (halves, halves.0 >> FRACTION)
        };
        let (mut cells, mut next) = ([first as usize; K], first + 1);
        for (i, cell) in cells.iter_mut().enumerate().skip(1) {
            let at = next + offset(i, halves, self.mask);
            *cell = Self::folded(self.fold, at) as usize;
            next += self.mask + 1;
        }
        Edge { cells, print: digest }
    }
}

/// The forms of a fuse graph.
const ONE_SHARD: u8 = 0;
const SHARDS: u8 = 1;
/// One small shard: its first cells depend on the multiplier, and many cells are folded.
const FOLDED: u8 = 2;

/// Makes the compiler place the code of a branch apart.
#[cold]
fn rarely() {}

/// The graph of the xor filter: one cell in each of `K` blocks of equal size.
///
/// Cells of the last block are owned late, so that many of them stay empty and need not be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks<const K: usize> {
    block: u64,
    skip: u32,
}

impl<const K: usize> Blocks<K> {
    /// Makes a graph with blocks of `block` cells. The `skip` leading bits of the digest are the same
    /// for all records. Returns `None` if there are no cells or too many.
    pub fn new(block: u64, skip: u32) -> Option<Self> {
        let sound = block > 0 && block < (1 << 32) / K as u64 && skip < 64;
        sound.then_some(Self { block, skip })
    }
}

// SAFETY: cell `i` is one of `block` cells from `i · block` on, and there are `K · block` cells.
unsafe impl<const K: usize> Graph<K> for Blocks<K> {
    #[inline]
    fn cells(&self) -> usize {
        self.block as usize * K
    }

    #[inline(always)]
    fn is_late(&self, cell: usize) -> bool {
        cell >= self.block as usize * (K - 1)
    }

    #[inline(always)]
    fn edge(&self, multiplier: u64, digest: u64) -> Edge<K> {
        let (print, mut low) = product(multiplier, digest);
        let mut cells = [scale(digest << self.skip, self.block) as usize; K];
        let mut from = self.block;
        for cell in &mut cells[1..] {
            *cell = (from + scale(low, self.block)) as usize;
            // The high half is used, the low half has other bits.
            low = low.rotate_left(32);
            from += self.block;
        }
        Edge { cells, print }
    }
}

/// The finalizer of Murmur3, a bijection of 64 bits.
#[inline(always)]
pub const fn murmur64(mut x: u64) -> u64 {
    x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 33)
}

/// The graph of the binary fuse filters of FastFilter's libraries: one cell in each of three
/// consecutive segments.
///
/// ```text
///  0            s            2s           3s                 count · s      (count + 2) · s
///  ├────────────┼────────────┼────────────┼─────── … ────────────┼──────────────┤
///        ▲ first ──► + s, low bits ──► + 2s, low bits            └─ no first cell here
/// ```
///
/// The digest is the key, and the multiplier is added to it as the seed: `h = murmur64(digest + seed)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segments {
    /// Cells that can be first: a multiple of the segment.
    places: u64,
    /// The number of cells of a segment, minus 1.
    mask: u64,
}

impl Segments {
    /// The largest logarithm of a segment.
    pub const MAX_SEGMENT: u32 = 24;

    /// Makes a graph of `count` segments of `2^segment` cells for first cells, and two more. Returns
    /// `None` if there are no segments, or too many cells.
    pub fn new(segment: u32, count: u64) -> Option<Self> {
        let sound = segment <= Self::MAX_SEGMENT
            && count > 0
            && count.checked_add(2)?.checked_mul(1 << segment)? < 1 << 32;
        sound.then(|| Self { places: count << segment, mask: (1 << segment) - 1 })
    }
}

// SAFETY: the first cell is below `places`, a multiple of the segment. The others are in the next two
// segments, within which an exclusive or with fewer than `mask + 1` stays.
unsafe impl Graph<3> for Segments {
    #[inline]
    fn cells(&self) -> usize {
        (self.places + 2 * (self.mask + 1)) as usize
    }

    #[inline(always)]
    fn edge(&self, multiplier: u64, digest: u64) -> Edge<3> {
        let hash = murmur64(digest.wrapping_add(multiplier));
        let first = scale(hash, self.places);
        let second = (first + self.mask + 1) ^ (hash >> 18 & self.mask);
        let third = (first + 2 * (self.mask + 1)) ^ (hash & self.mask);
        Edge { cells: [first, second, third].map(|cell| cell as usize), print: hash ^ hash >> 32 }
    }
}
