//! How programs derive the places of a key from its hash.

use core::fmt;
use core::str::FromStr;

use super::reciprocal::Reciprocal;
use crate::capability::UnknownName;
use crate::hash::KeyHash;

/// The bits that a walk of 31-bit places reaches.
const REACH_31: u64 = 1 << 31;

/// How a program derives the places of a key from its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(u16)]
pub enum Walk {
    /// Spark's `BloomFilterImpl`, version 1: 32-bit sums. It reaches 2^31 bits and no more.
    SparkV1 = 1,
    /// Spark's `BloomFilterImplV2`: 64-bit sums of 32-bit hashes.
    SparkV2 = 2,
    /// Guava's `MURMUR128_MITZ_64`: 64-bit sums.
    Guava64 = 3,
    /// Guava's `MURMUR128_MITZ_32`: 32-bit sums. It reaches 2^31 bits and no more.
    Guava32 = 4,
    /// The Python package rbloom: a 128-bit linear congruential generator.
    Rbloom = 5,
    /// DCSO's bloom and poppy's version 1: a multiplicative generator.
    Dcso = 6,
    /// Apache DataSketches: 64-bit sums, halved.
    DataSketches = 7,
    /// RedisBloom: 64-bit sums.
    RedisBloom = 8,
    /// The crate `bloomfilter`: both hashes, then 64-bit sums modulo a prime.
    Bloomfilter = 9,
}

/// Evaluates an expression for each walk on its own, so that the loop in it has no branch on the walk. On
/// WebAssembly, where code is downloaded, it is evaluated once for all.
#[cfg(target_family = "wasm")]
macro_rules! specialise {
    ($walk:expr, $known:ident => $body:expr) => {{
        let $known = $walk;
        $body
    }};
}

/// See above.
#[cfg(not(target_family = "wasm"))]
macro_rules! specialise {
    ($walk:expr, $known:ident => $body:expr) => {
        match $walk {
            Walk::SparkV1 => {
                let $known = Walk::SparkV1;
                $body
            }
            Walk::SparkV2 => {
                let $known = Walk::SparkV2;
                $body
            }
            Walk::Guava64 => {
                let $known = Walk::Guava64;
                $body
            }
            Walk::Guava32 => {
                let $known = Walk::Guava32;
                $body
            }
            Walk::Rbloom => {
                let $known = Walk::Rbloom;
                $body
            }
            Walk::Dcso => {
                let $known = Walk::Dcso;
                $body
            }
            Walk::DataSketches => {
                let $known = Walk::DataSketches;
                $body
            }
            Walk::RedisBloom => {
                let $known = Walk::RedisBloom;
                $body
            }
            Walk::Bloomfilter => {
                let $known = Walk::Bloomfilter;
                $body
            }
        }
    };
}

impl Walk {
    /// All walks.
    pub const ALL: [Self; 9] = [
        Self::SparkV1,
        Self::SparkV2,
        Self::Guava64,
        Self::Guava32,
        Self::Rbloom,
        Self::Dcso,
        Self::DataSketches,
        Self::RedisBloom,
        Self::Bloomfilter,
    ];

    pub(super) const NAMES: [&str; 9] = [
        "spark_v1",
        "spark_v2",
        "guava_64",
        "guava_32",
        "rbloom",
        "dcso",
        "datasketches",
        "redisbloom",
        "bloomfilter",
    ];

    /// Returns its name, as the setting `walk` has it.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize - 1]
    }

    pub(super) fn from_id(id: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|walk| *walk as u64 == id)
    }

    /// Returns how many of `bits` bits the walk can reach.
    pub fn reach(self, bits: u64) -> u64 {
        match self {
            Self::SparkV1 | Self::Guava32 => bits.min(REACH_31),
            _ => bits,
        }
    }

    /// Returns the places of a key, without end.
    #[inline(always)]
    pub(super) fn places(self, key: KeyHash) -> Places {
        let (at, step) = match self {
            Self::SparkV1 => (key.hi & 0xffff_ffff, key.lo & 0xffff_ffff),
            Self::Guava32 => (key.hi & 0xffff_ffff, key.hi >> 32),
            Self::SparkV2 => {
                let first = i64::from(key.hi as i32).wrapping_mul(i32::MAX.into());
                (first as u64, i64::from(key.lo as i32) as u64)
            }
            Self::Dcso => (modulo_prime(key.hi), 0),
            _ => (key.hi, key.lo),
        };
        Places { walk: self, taken: 0, at, step }
    }
}

impl fmt::Display for Walk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Walk {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|walk| walk.name() == name);
        found.ok_or_else(|| UnknownName::new("walk", name))
    }
}

/// The multiplier of rbloom's generator.
const RBLOOM: u128 = 47_026_247_687_942_121_848_144_207_491_837_418_733;
/// The modulus of DCSO's generator and of `bloomfilter`, the largest prime below 2^64, and DCSO's
/// multiplier.
const LARGEST_PRIME: u64 = 18_446_744_073_709_551_557;
const DCSO: u64 = 18_446_744_073_709_550_147;

/// Returns `number % LARGEST_PRIME`.
#[inline(always)]
fn modulo_prime(number: u64) -> u64 {
    if number >= LARGEST_PRIME { number - LARGEST_PRIME } else { number }
}

/// See [`Walk::places`].
#[derive(Clone, Copy)]
pub(super) struct Places {
    walk: Walk,
    /// The places before the next one: counted for `bloomfilter` alone.
    taken: u32,
    at: u64,
    step: u64,
}

impl Places {
    /// Returns a hash that [`scale`](tamis_bits::range::scale) maps to the next place among the bits.
    #[cfg_attr(not(target_family = "wasm"), inline(always))]
    pub(super) fn next(&mut self, bits: Reciprocal) -> u64 {
        let place = match self.walk {
            Walk::SparkV1 | Walk::Guava32 => {
                self.at = u64::from((self.at as u32).wrapping_add(self.step as u32));
                let sum = self.at as i32;
                return bits.fraction_31((if sum < 0 { !sum } else { sum }) as u32);
            }
            Walk::SparkV2 => {
                self.at = self.at.wrapping_add(self.step);
                let sum = self.at as i64;
                (if sum < 0 { !sum } else { sum }) as u64
            }
            Walk::Guava64 => {
                let sum = self.at;
                self.at = sum.wrapping_add(self.step);
                sum & (u64::MAX >> 1)
            }
            Walk::Rbloom => {
                let state = u128::from(self.at) << 64 | u128::from(self.step);
                let state = state.wrapping_mul(RBLOOM).wrapping_add(1);
                (self.at, self.step) = ((state >> 64) as u64, state as u64);
                (state >> 32) as u64
            }
            Walk::Dcso => {
                self.at = modulo_prime(self.at.wrapping_mul(DCSO));
                self.at
            }
            Walk::DataSketches => {
                self.at = self.at.wrapping_add(self.step);
                self.at >> 1
            }
            Walk::RedisBloom => {
                let sum = self.at;
                self.at = sum.wrapping_add(self.step);
                sum
            }
            Walk::Bloomfilter => {
                let sum = self.at;
                self.at = sum.wrapping_add(self.step);
                self.taken += 1;
                match self.taken {
                    1 => sum,
                    2 => self.step,
                    _ => modulo_prime(sum),
                }
            }
        };
        bits.fraction(place)
    }
}

pub(super) use specialise;
