//! What the dictionary notes in its store about itself.
//!
//! ```text
//!  "state"      version · filter · hash · seed · keys · rate · shards · clean? · generation
//!               then for each shard: the generation it was saved in · keys · room for keys · bytes
//!  "shard/17"   generation · 17 · turn · a .tamis file of the filter's part 17
//!  "counts"     strangers lately asked for · those let in · what has happened
//! ```
//!
//! Words are little-endian. A shard is taken from its note only if the state is clean, the note is of
//! the generation that the state says, the number is its own and the seed is the dictionary's. All
//! else is made anew from the store. The seed is here: whoever can read the store can choose keys that
//! pass for others.

use tamis::{HashId, KeyHasher, Keyed, Limits, Stored};

use crate::error::Error;
use crate::shard::Made;
use crate::stats::Counts;

/// The version of what is noted in a store.
pub const VERSION: u64 = 1;

pub(crate) const STATE: &str = "state";
pub(crate) const COUNTS: &str = "counts";

const MAGIC: u64 = u64::from_le_bytes(*b"tamisdic");
/// Words before those of the shards.
const HEAD: usize = 11;
/// Shards are cut off by so many bits of `hi`.
pub(crate) const MIN_CUT: u32 = 4;
pub(crate) const MAX_CUT: u32 = 10;

/// The dictionary, but for its keys.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct State {
    /// The filter's number in the registry.
    pub(crate) kind: u16,
    pub(crate) hasher: KeyHasher,
    /// Keys that it was made for.
    pub(crate) keys: u64,
    pub(crate) fpr: f64,
    /// Leading bits of `hi` that say which shard.
    pub(crate) cut: u32,
    /// Nothing was written since the shards were saved.
    pub(crate) clean: bool,
    pub(crate) generation: u64,
    pub(crate) shards: Vec<Saved>,
}

/// A shard as it was saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Saved {
    pub(crate) generation: u64,
    /// Keys in it, keys that there is room for, and its memory.
    pub(crate) keys: u64,
    pub(crate) room: u64,
    pub(crate) bytes: u64,
}

impl State {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let [first, second] = self.hasher.seed();
        let head: [u64; HEAD] = [
            MAGIC,
            VERSION,
            self.kind.into(),
            self.hasher.id() as u64,
            first,
            second,
            self.keys,
            self.fpr.to_bits(),
            self.cut.into(),
            self.clean.into(),
            self.generation,
        ];
        let words = |saved: &Saved| [saved.generation, saved.keys, saved.room, saved.bytes];
        let shards = self.shards.iter().flat_map(words);
        to_bytes(head.into_iter().chain(shards))
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Error> {
        let words = to_words(bytes);
        let (head, shards) = words
            .split_first_chunk::<HEAD>()
            .ok_or(Error::Corrupt { what: "the note of its state is too short" })?;
        let [magic, version, kind, hash, first, second, keys, fpr, cut, clean, generation] = *head;
        if magic != MAGIC {
            return Err(Error::Corrupt { what: "the note of its state is none" });
        }
        if version != VERSION {
            return Err(Error::Version { found: version });
        }
        let corrupt = Error::Corrupt { what: "the note of its state makes no sense" };
        let (Ok(kind), Ok(hash)) = (u16::try_from(kind), u16::try_from(hash)) else {
            return Err(corrupt);
        };
        let hasher = KeyHasher::new(HashId::from_id(hash)?, [first, second]);
        let Some(cut) = (MIN_CUT..=MAX_CUT).find(|known| u64::from(*known) == cut) else {
            return Err(corrupt);
        };
        if shards.len() != 4 << cut || clean > 1 {
            return Err(corrupt);
        }
        let saved =
            |&[generation, keys, room, bytes]: &[u64; 4]| Saved { generation, keys, room, bytes };
        let shards = shards.as_chunks().0.iter().map(saved).collect();
        let fpr = f64::from_bits(fpr);
        tamis::plan::check_fpr(fpr)?;
        tamis::plan::check_keys(keys)?;
        Ok(Self { kind, hasher, keys, fpr, cut, clean: clean == 1, generation, shards })
    }
}

pub(crate) fn shard_note(number: usize) -> String {
    format!("shard/{number}")
}

/// A part of the filter as it is noted; gives the filter back.
pub(crate) fn save_shard<F: Stored>(
    hasher: KeyHasher,
    made: Made<F>,
    generation: u64,
    number: usize,
) -> (Made<F>, Result<Vec<u8>, Error>) {
    let Made { filter, turn } = made;
    let mut bytes = to_bytes([generation, number as u64, turn]);
    let keyed = Keyed::new(hasher, filter);
    let written = keyed.write_to(&mut bytes).map_err(Error::from);
    (Made { filter: keyed.into_parts().1, turn }, written.map(|()| bytes))
}

/// The part of the filter that was noted, or what is wrong with it.
pub(crate) fn read_shard<F: Stored>(
    bytes: &[u8],
    hasher: &KeyHasher,
    generation: u64,
    number: usize,
) -> Result<Made<F>, String> {
    let (head, file) = bytes.split_at_checked(24).ok_or("it is too short")?;
    let words = to_words(head);
    if words[..2] != [generation, number as u64] {
        return Err("it is of another time or another part".into());
    }
    let keyed =
        Keyed::<F>::read_from(file, &Limits::default()).map_err(|error| error.to_string())?;
    if keyed.hasher() != hasher {
        return Err("it is of another dictionary".into());
    }
    Ok(Made { filter: keyed.into_parts().1, turn: words[2] })
}

pub(crate) fn counts_bytes(window: (u64, u64), counts: &Counts) -> Vec<u8> {
    let counts = counts.named().map(|(_, count)| count);
    to_bytes([window.0, window.1].into_iter().chain(counts))
}

pub(crate) fn read_counts(bytes: &[u8]) -> ((u64, u64), Counts) {
    let words = to_words(bytes);
    let (window, counts) = words.split_at(words.len().min(2));
    let window = (window.first().copied().unwrap_or(0), window.get(1).copied().unwrap_or(0));
    (window, Counts::from_words(counts))
}

fn to_bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_le_bytes).collect()
}

fn to_words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_comes_back_and_damage_is_told() {
        let state = State {
            kind: 19,
            hasher: KeyHasher::new(HashId::Secure, [1, 2]),
            keys: 1000,
            fpr: 0.01,
            cut: MIN_CUT,
            clean: true,
            generation: 3,
            shards: vec![Saved { generation: 3, keys: 5, room: 9, bytes: 64 }; 1 << MIN_CUT],
        };
        let bytes = state.bytes();
        assert_eq!(State::read(&bytes).unwrap(), state);
        let mut newer = bytes.clone();
        newer[8] = 9;
        assert!(matches!(State::read(&newer), Err(Error::Version { found: 9 })));
        for length in 0..bytes.len() {
            assert!(State::read(&bytes[..length]).is_err() || length / 8 == bytes.len() / 8);
        }
        for at in (0..HEAD * 8).filter(|at| ![2, 4, 5, 6, 7, 10].contains(&(at / 8))) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            assert!(State::read(&damaged).is_err(), "byte {at}");
        }
    }
}
