//! Derives clauses from digests, and evaluates them on the entries.

use tamis_bits::range::{mix, scale};
use tamis_bits::unaligned;

use super::{Construction, SatShape};

/// Planes that are evaluated together: six bytes, so that they start at the same bit of a byte as the
/// entry does, and a word from that byte holds them all.
const CHUNK: usize = 48;
/// The most literals of a clause.
pub(super) const MOST: usize = 7;
/// Draws until positions that are not distinct are accepted. Only a hostile file gets there.
const NONCES: u64 = 256;

/// The entries of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    /// The bit of the table at which the first entry starts.
    pub(super) first: usize,
    /// The number of variables. One more entry after them marks the planes that use their other signs.
    pub(super) vars: u64,
    /// A number that is added to the digests.
    pub(super) salt: u64,
}

/// Returns the number that a block with this seed adds to its digests.
#[inline(always)]
pub(super) fn salt(seed: u64) -> u64 {
    seed.wrapping_mul(0xd1b5_4a32_d192_ed03)
}

/// Returns 64 bits for a literal of the sliced construction: the position from the high bits, signs from
/// the low [`CHUNK`] bits. The two halves of a product are folded, because the digest is already a hash
/// and a full mix per literal would double the time of a query.
#[inline(always)]
fn fold(base: u64, literal: usize) -> u64 {
    let product = u128::from(base ^ FACTORS[(literal + 1) % MOST]) * u128::from(FACTORS[literal]);
    (product >> 64) as u64 ^ product as u64
}

/// Arbitrary odd numbers.
const FACTORS: [u64; MOST] = [
    0xa076_1d64_78bd_642f,
    0xe703_7ed1_a0b4_28db,
    0x8ebc_6af0_9c88_c6e3,
    0x5899_65cc_7537_4cc3,
    0x1d8e_4e27_c47d_124f,
    0xeb44_acca_b455_d165,
    0xd6e8_feb8_6659_fd93,
];

/// Returns 64 bits per lane for the other constructions: the position from the high bits, and the sign
/// in the lowest.
#[inline(always)]
fn draw(base: u64, lane: u64) -> u64 {
    mix(base.wrapping_add((lane + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// Returns the signs of a literal in a chunk of planes, from its draw.
#[inline(always)]
fn signs(draw: u64, chunk: usize) -> u64 {
    match chunk as u64 {
        0 => draw,
        more => mix(draw.wrapping_add(more.wrapping_mul(0xd1b5_4a32_d192_ed03))),
    }
}

/// Replaces the signs of the planes marked in `retried` by their second choice: the XOR with another
/// bit of the word. The bits of one chunk stay independent for any set of marked planes: a sum of some
/// has none of the 48 bits left only if a step of 29 leads from each of them to another one, and these
/// steps go through all 64 bits.
#[inline(always)]
pub(super) fn chosen(signs: u64, retried: u64) -> u64 {
    signs ^ (signs.rotate_right(29) & retried)
}

/// Reads the planes from this bit on, at least [`CHUNK`] of them.
#[inline(always)]
fn read(words: &[u64], bit: usize) -> u64 {
    u64::from_le_bytes(unaligned::read(words, bit / 8)) >> (bit % 8)
}

/// Returns a mask of the planes in the chunk that starts with plane `from`.
#[inline(always)]
fn all_of(planes: usize, from: usize) -> u64 {
    !0 >> (64 - (planes - from).min(CHUNK))
}

/// The positions and signs of a query of the sliced construction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe<const K: usize> {
    draws: [u64; K],
    bits: [usize; K],
    /// The bit of the retries, or `None` in a block without keys.
    retries: Option<usize>,
}

impl<const K: usize> Default for Probe<K> {
    fn default() -> Self {
        Self { draws: [0; K], bits: [0; K], retries: None }
    }
}

impl<const K: usize> Probe<K> {
    #[inline(always)]
    pub(super) fn new(planes: usize, block: Block, digest: u64) -> Self {
        let base = digest.wrapping_add(block.salt);
        let draws = core::array::from_fn(|literal| fold(base, literal));
        let bits = draws.map(|draw| block.first + scale(draw, block.vars) as usize * planes);
        let retries = block.first + block.vars as usize * planes;
        Self { draws, bits, retries: (block.vars > 0).then_some(retries) }
    }

    /// Returns the bits at which the entries start.
    #[inline(always)]
    pub(super) fn entries(&self) -> [usize; K] {
        self.bits
    }

    #[inline(always)]
    pub(super) fn holds(&self, planes: usize, words: &[u64]) -> bool {
        let Some(retries) = self.retries else { return false };
        let chunk_holds = |chunk: usize| {
            let from = chunk * CHUNK;
            let all = all_of(planes, from);
            let retried = read(words, retries + from) & all;
            let mut any = 0;
            // Most blocks have no retried planes.
            if retried == 0 {
                for (draw, bit) in self.draws.iter().zip(self.bits) {
                    any |= read(words, bit + from) ^ signs(*draw, chunk);
                }
            } else {
                for (draw, bit) in self.draws.iter().zip(self.bits) {
                    any |= read(words, bit + from) ^ chosen(signs(*draw, chunk), retried);
                }
            }
            !any & all == 0
        };
        // With one chunk no branch depends on the result.
        if planes <= CHUNK {
            return chunk_holds(0);
        }
        (0..planes.div_ceil(CHUNK)).all(chunk_holds)
    }
}

/// Literals with distinct positions.
type Literals = [(u64, bool); MOST];

/// Draws literals from lane `first` on until no two have the same variable: Algorithm 3 of the paper.
#[inline]
fn literals(base: u64, first: u64, k: usize, vars: u64) -> Literals {
    let mut literals = [(0, false); MOST];
    for nonce in 0..NONCES {
        for (literal, at) in literals[..k].iter_mut().zip(0..) {
            let draw = draw(base, nonce << 32 | (first + at));
            *literal = (scale(draw, vars), draw & 1 == 1);
        }
        let differs = |at: usize| literals[..at].iter().all(|other| other.0 != literals[at].0);
        if (1..k).all(differs) {
            break;
        }
    }
    literals
}

/// Returns the first lane of a plane's clause.
#[inline(always)]
fn lane(plane: usize, retried: bool) -> u64 {
    (plane as u64 * 2 + u64::from(retried)) * 8
}

/// Returns whether the block satisfies all clauses of a digest.
#[inline(always)]
pub(super) fn holds(shape: &SatShape, words: &[u64], block: Block, digest: u64) -> bool {
    let planes = shape.planes as usize;
    match (shape.construction, shape.k) {
        (Construction::Sliced, 4) => Probe::<4>::new(planes, block, digest).holds(planes, words),
        (Construction::Sliced, 5) => Probe::<5>::new(planes, block, digest).holds(planes, words),
        _ => holds_otherwise(shape, words, block, digest),
    }
}

/// Does the same for rarely used shapes, in a separate function that is not inlined.
#[inline(never)]
fn holds_otherwise(shape: &SatShape, words: &[u64], block: Block, digest: u64) -> bool {
    let planes = shape.planes as usize;
    match (shape.construction, shape.k) {
        _ if block.vars == 0 => false,
        (Construction::Sliced, 3) => Probe::<3>::new(planes, block, digest).holds(planes, words),
        (Construction::Sliced, 6) => Probe::<6>::new(planes, block, digest).holds(planes, words),
        (Construction::Sliced, _) => Probe::<7>::new(planes, block, digest).holds(planes, words),
        (Construction::Multi, k) => holds_multi(k as usize, planes, words, block, digest),
        (Construction::Single, k) => {
            holds_single(k as usize, planes, words, block, digest, |any, _| any)
        }
        (Construction::Nae, k) => {
            holds_single(k as usize, planes, words, block, digest, |any, all| any & !all)
        }
    }
}

/// Evaluates `multi`, which has another clause in every plane.
fn holds_multi(k: usize, planes: usize, words: &[u64], block: Block, digest: u64) -> bool {
    let base = digest.wrapping_add(block.salt);
    let retries = block.first + block.vars as usize * planes;
    (0..planes).all(|plane| {
        let retried = read(words, retries + plane) & 1 == 1;
        let literals = literals(base, lane(plane, retried), k, block.vars);
        literals[..k].iter().any(|(position, negated)| {
            let bit = block.first + *position as usize * planes + plane;
            (read(words, bit) & 1 == 1) != *negated
        })
    })
}

/// Evaluates one clause in all planes. `sound` maps whether any and whether all literals hold, per plane,
/// to whether the clause holds.
#[inline(always)]
fn holds_single(
    k: usize,
    planes: usize,
    words: &[u64],
    block: Block,
    digest: u64,
    sound: impl Fn(u64, u64) -> u64,
) -> bool {
    let literals = literals(digest.wrapping_add(block.salt), 0, k, block.vars);
    (0..planes).step_by(CHUNK).all(|from| {
        let (mut any, mut all) = (0, !0);
        for (position, negated) in &literals[..k] {
            let bit = block.first + *position as usize * planes + from;
            let holds = read(words, bit) ^ if *negated { !0 } else { 0 };
            (any, all) = (any | holds, all & holds);
        }
        !sound(any, all) & all_of(planes, from) == 0
    })
}

/// Returns the clause of a digest in a plane, with variables and negations as the solver numbers them.
pub(super) fn clause(
    shape: &SatShape,
    vars: u64,
    seed: u64,
    digest: u64,
    plane: usize,
    retried: bool,
) -> [i32; MOST] {
    let base = digest.wrapping_add(salt(seed));
    let k = shape.k as usize;
    let mut clause = [0; MOST];
    let number = |position: u64, negated: bool| {
        let variable = position as i32 + 1;
        if negated { -variable } else { variable }
    };
    match shape.construction {
        Construction::Sliced => {
            let marked = if retried { !0 } else { 0 };
            for (literal, at) in clause[..k].iter_mut().zip(0..) {
                let draw = fold(base, at);
                let signs = chosen(signs(draw, plane / CHUNK), marked);
                *literal = number(scale(draw, vars), signs >> (plane % CHUNK) & 1 == 1);
            }
        }
        construction => {
            let multi = construction == Construction::Multi;
            let first = if multi { lane(plane, retried) } else { 0 };
            let literals = literals(base, first, k, vars);
            for (literal, (position, negated)) in clause[..k].iter_mut().zip(literals) {
                *literal = number(position, negated);
            }
        }
    }
    clause
}
