//! From digests to clauses, and whether the entries satisfy them.

use bits::range::{mix, scale};
use bits::unaligned;

use super::{Construction, SatShape};

/// Planes that are looked at together: seven bytes, so that they begin at the same bit of a byte
/// as the entry does, and a word from that byte holds them all.
const CHUNK: usize = 56;
/// The most literals.
const MOST: usize = 7;
/// Draws before positions that will not differ are taken as they are: only a forged file gets there.
const NONCES: u64 = 256;

/// Where a block's entries are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// The bit of the table that its first entry begins at.
    pub(super) first: usize,
    /// Variables; behind them is one more entry, with the planes that took other signs.
    pub(super) vars: u64,
    pub(super) seed: u64,
}

/// Of a digest and a seed, what the draws start from.
#[inline(always)]
fn base(digest: u64, seed: u64) -> u64 {
    digest.wrapping_add(seed.wrapping_mul(0xd1b5_4a32_d192_ed03))
}

/// 64 bits for each lane: the position from the high ones, signs from the low ones.
#[inline(always)]
fn draw(base: u64, lane: u64) -> u64 {
    mix(base.wrapping_add((lane + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// The signs of a literal in a chunk of planes, from its draw. The low bits of the product depend on
/// the low bits of the draw, which the position does not.
#[inline(always)]
fn signs(draw: u64, chunk: usize) -> u64 {
    match chunk as u64 {
        0 => draw.wrapping_mul(0xd6e8_feb8_6659_fd93),
        more => mix(draw.wrapping_add(more.wrapping_mul(0xd1b5_4a32_d192_ed03))),
    }
}

/// The signs of planes that are marked in `retried` replaced by their second choice: the XOR with
/// another bit of the word. The bits of one chunk stay independent whichever planes are marked: a
/// sum of some is zero only if a step of 29 leads from each of them to another, which goes round
/// all 64, and there are 56.
#[inline(always)]
pub(super) fn chosen(signs: u64, retried: u64) -> u64 {
    signs ^ (signs.rotate_right(29) & retried)
}

/// The planes from this bit on, at least [`CHUNK`] of them.
#[inline(always)]
fn read(words: &[u64], bit: usize) -> u64 {
    u64::from_le_bytes(unaligned::read(words, bit / 8)) >> (bit % 8)
}

/// As many ones as there are planes in the chunk that begins with this one.
#[inline(always)]
fn all_of(planes: usize, from: usize) -> u64 {
    !0 >> (64 - (planes - from).min(CHUNK))
}

/// What a query of the sliced construction goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe<const K: usize> {
    draws: [u64; K],
    bits: [usize; K],
    /// Where the retries are; `None` in a block without keys.
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
        let base = base(digest, block.seed);
        let draws = std::array::from_fn(|literal| draw(base, literal as u64));
        let bits = draws.map(|draw| block.first + scale(draw, block.vars) as usize * planes);
        let retries = block.first + block.vars as usize * planes;
        Self { draws, bits, retries: (block.vars > 0).then_some(retries) }
    }

    /// The bits that its entries begin at.
    #[inline(always)]
    pub(super) fn entries(&self) -> [usize; K] {
        self.bits
    }

    #[inline(always)]
    pub(super) fn holds(&self, planes: usize, words: &[u64]) -> bool {
        let Some(retries) = self.retries else { return false };
        let chunk_holds = |chunk: usize| {
            let from = chunk * CHUNK;
            let retried = read(words, retries + from);
            let mut any = 0;
            for (draw, bit) in self.draws.iter().zip(self.bits) {
                any |= read(words, bit + from) ^ chosen(signs(*draw, chunk), retried);
            }
            !any & all_of(planes, from) == 0
        };
        // Where there is one chunk, no branch depends on the answer.
        match planes.div_ceil(CHUNK) {
            1 => chunk_holds(0),
            chunks => (0..chunks).all(chunk_holds),
        }
    }
}

/// Literals with positions that differ.
type Literals = [(u64, bool); MOST];

/// Algorithm 3 of the paper: literals from `first` lane on, drawn until no two are of one variable.
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

/// The first lane of a plane's clause.
#[inline(always)]
fn lane(plane: usize, retried: bool) -> u64 {
    (plane as u64 * 2 + u64::from(retried)) * 8
}

/// Whether the block satisfies all clauses of a digest.
#[inline(always)]
pub(super) fn holds(shape: &SatShape, words: &[u64], block: Block, digest: u64) -> bool {
    let planes = shape.planes as usize;
    match (shape.construction, shape.k) {
        (Construction::Sliced, 4) => Probe::<4>::new(planes, block, digest).holds(planes, words),
        (Construction::Sliced, 5) => Probe::<5>::new(planes, block, digest).holds(planes, words),
        _ => holds_otherwise(shape, words, block, digest),
    }
}

/// The less usual ones, out of the way of the others.
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

/// A clause of its own in every plane.
fn holds_multi(k: usize, planes: usize, words: &[u64], block: Block, digest: u64) -> bool {
    let base = base(digest, block.seed);
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

/// One clause for all planes; `sound` says of each plane whether some and whether all literals hold.
#[inline(always)]
fn holds_single(
    k: usize,
    planes: usize,
    words: &[u64],
    block: Block,
    digest: u64,
    sound: impl Fn(u64, u64) -> u64,
) -> bool {
    let literals = literals(base(digest, block.seed), 0, k, block.vars);
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

/// The clause of a digest in a plane, as the solver numbers variables and negates them.
pub(super) fn clause(
    shape: &SatShape,
    vars: u64,
    seed: u64,
    digest: u64,
    plane: usize,
    retried: bool,
) -> [i32; MOST] {
    let base = base(digest, seed);
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
                let draw = draw(base, at);
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
