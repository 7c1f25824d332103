//! Damage: by accident, and by somebody who recomputes the checksums.
//!
//! This file knows the container from FORMAT.md and shares no line with the crate `format`, so
//! that a mistake there is not made here again.

use xxhash_rust::xxh3::xxh3_64;

use crate::keys::Random;

const WORD: usize = 8;
const HEADER: usize = 8 * WORD;
const ENTRY: usize = 3 * WORD;
const ALIGN: usize = 64;
/// Where the header keeps its checksum.
const SUM: usize = 7 * WORD;

/// Each bit of the file flipped, one at a time.
pub fn flips(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    (0..bytes.len() * 8).map(|bit| {
        let mut flipped = bytes.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        flipped
    })
}

/// The file cut at each byte, and with a byte or a line too many.
pub fn truncations(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let longer = [1, ALIGN].map(|more| [bytes, &vec![0; more]].concat());
    (0..bytes.len()).map(|len| bytes[..len].to_vec()).chain(longer)
}

/// Every other value of every byte of the header and the table.
pub fn header_bytes(bytes: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let header = table_end(bytes).unwrap_or(HEADER).min(bytes.len());
    (0..header).flat_map(move |at| {
        (1..=255u8).map(move |by| {
            let mut changed = bytes.to_vec();
            changed[at] = changed[at].wrapping_add(by);
            changed
        })
    })
}

/// One random accident: a burst of noise, a piece lost, doubled, moved or zeroed.
pub fn accident(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    if out.is_empty() {
        return out;
    }
    let from = random.below(out.len());
    let longest = [8, 64, 512][random.below(3)];
    let len = (1 + random.below(longest)).min(out.len() - from);
    let piece = from..from + len;
    match random.below(5) {
        0 => out[piece].fill_with(|| random.word() as u8),
        1 => out[piece].fill(0),
        2 => drop(out.drain(piece)),
        3 => {
            let copy = out[piece].to_vec();
            let to = random.below(out.len());
            out.splice(to..to, copy);
        }
        _ => {
            let to = random.below(out.len() - len + 1);
            out.copy_within(piece, to);
        }
    }
    out
}

/// Makes every checksum fit again, as far as there is a table that says what they cover.
pub fn recompute(bytes: &mut [u8]) {
    let Some(end) = table_end(bytes).filter(|end| *end <= bytes.len()) else { return };
    let mut at = end.next_multiple_of(ALIGN);
    for entry in (HEADER..end).step_by(ENTRY) {
        let words = word(bytes, entry + WORD).unwrap_or(0);
        let section = usize::try_from(words)
            .ok()
            .and_then(|words| words.checked_mul(WORD)?.checked_add(at))
            .and_then(|to| Some((bytes.get(at..to)?, to)));
        let Some((section, to)) = section else { break };
        let sum = xxh3_64(section);
        put(bytes, entry + 2 * WORD, sum);
        at = to.next_multiple_of(ALIGN);
    }
    let covered = [&bytes[..SUM], &bytes[HEADER..end]].concat();
    put(bytes, SUM, xxh3_64(&covered));
}

/// A section's name and its words.
pub type Section = ([u8; 8], Vec<u64>);

/// A file taken apart, to be put together again with something else in it.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Version, kind, hash, in the low 48 bits of word 1.
    pub ids: u64,
    /// Words 2 to 6: keys, seed, two zeros.
    pub rest: [u64; 5],
    /// Names and contents.
    pub sections: Vec<Section>,
}

impl Parts {
    /// Takes a sound file apart.
    ///
    /// # Panics
    /// If it is not sound.
    pub fn of(bytes: &[u8]) -> Self {
        let sound = |at| word(bytes, at).expect("a sound file");
        let end = table_end(bytes).expect("a sound file");
        let mut at = end.next_multiple_of(ALIGN);
        let mut sections = Vec::new();
        for entry in (HEADER..end).step_by(ENTRY) {
            let words = sound(entry + WORD) as usize;
            let content = (0..words).map(|i| sound(at + i * WORD)).collect();
            sections.push((sound(entry).to_le_bytes(), content));
            at = (at + words * WORD).next_multiple_of(ALIGN);
        }
        let rest = [2, 3, 4, 5, 6].map(|index| sound(index * WORD));
        Self { ids: sound(WORD) & 0xffff_ffff_ffff, rest, sections }
    }

    /// The file of these parts: lengths, padding and checksums are right whatever they hold.
    pub fn forge(&self) -> Vec<u8> {
        let mut words = vec![
            u64::from_le_bytes(*b"\x89TAMIS\r\n"),
            self.ids | (self.sections.len() as u64) << 48,
        ];
        words.extend(self.rest);
        words.push(0);
        for (name, content) in &self.sections {
            words.extend([u64::from_le_bytes(*name), content.len() as u64, 0]);
        }
        words.resize(words.len().next_multiple_of(ALIGN / WORD), 0);
        for (_, content) in &self.sections {
            words.extend(content);
            words.resize(words.len().next_multiple_of(ALIGN / WORD), 0);
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        recompute(&mut bytes);
        bytes
    }
}

/// Numbers at which arithmetic breaks.
const EDGES: [u64; 20] = [
    0,
    1,
    2,
    7,
    63,
    64,
    65,
    0xffff,
    1 << 31,
    1 << 32,
    (1 << 32) + 1,
    1 << 45,
    1 << 48,
    1 << 53,
    (1 << 53) + 1,
    1 << 58,
    1 << 61,
    1 << 63,
    u64::MAX - 63,
    u64::MAX,
];

/// Files whose every length and checksum is right and whose fields are not: each word of the
/// shape and the number of keys at each edge, alone and in pairs; sections longer, shorter,
/// missing, doubled, renamed; payloads of all ones and of noise.
pub fn forgeries(bytes: &[u8], random: &mut Random) -> Vec<Vec<u8>> {
    let sound = Parts::of(bytes);
    let mut out = Vec::new();
    // Field 0 is the number of keys, the others are the shape's words.
    let set = |parts: &mut Parts, field: usize, value: u64| match field {
        0 => parts.rest[0] = value,
        _ => parts.sections[0].1[field - 1] = value,
    };
    let fields = 1 + sound.sections[0].1.len();
    for a in 0..fields {
        for x in EDGES {
            let mut one = sound.clone();
            set(&mut one, a, x);
            out.push(one.forge());
            for b in 0..a {
                for y in EDGES {
                    let mut two = one.clone();
                    set(&mut two, b, y);
                    out.push(two.forge());
                }
            }
        }
    }
    for index in 0..sound.sections.len() {
        let mut change = |with: &mut dyn FnMut(&mut Vec<Section>)| {
            let mut parts = sound.clone();
            with(&mut parts.sections);
            out.push(parts.forge());
        };
        change(&mut |sections| sections[index].1.push(0));
        change(&mut |sections| sections[index].1.truncate(1));
        change(&mut |sections| sections[index].1.clear());
        change(&mut |sections| sections[index].1.fill(u64::MAX));
        change(&mut |sections| sections[index].1.fill_with(|| random.word()));
        change(&mut |sections| sections[index].0[0] ^= 1);
        change(&mut |sections| drop(sections.remove(index)));
        change(&mut |sections| sections.insert(index, sections[index].clone()));
        change(&mut |sections| sections.swap(0, index));
        change(&mut |sections| sections.resize(40, sections[index].clone()));
    }
    out
}

fn table_end(bytes: &[u8]) -> Option<usize> {
    Some(HEADER + (word(bytes, WORD)? >> 48) as usize * ENTRY)
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + WORD].copy_from_slice(&word.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let sections = vec![(*b"shape\0\0\0", vec![5, 6]), (*b"bits\0\0\0\0", vec![1; 11])];
        Parts { ids: 1 | 1 << 16 | 1 << 32, rest: [9, 8, 7, 0, 0], sections }.forge()
    }

    #[test]
    fn parts_go_together_again() {
        let bytes = sample();
        assert_eq!(bytes.len() % ALIGN, 0);
        assert_eq!(Parts::of(&bytes).forge(), bytes);
    }

    #[test]
    fn the_container_takes_a_forgery_and_not_an_accident() {
        let opens = |bytes: &[u8]| {
            tamis::Reader::read(bytes, &tamis::Limits::default()).is_ok_and(|r| r.verify().is_ok())
        };
        let mut bytes = sample();
        assert!(opens(&bytes));
        *bytes.last_chunk_mut::<64>().expect("a long file") = [0; 64];
        assert!(!opens(&bytes));
        recompute(&mut bytes);
        assert!(opens(&bytes));
    }

    #[test]
    fn whatever_the_bytes_recomputing_ends() {
        let mut random = Random::new(1);
        for round in 0..20_000 {
            let mut bytes = accident(&sample(), &mut random);
            bytes.truncate(random.below(400));
            recompute(&mut bytes);
            if round % 4 == 0 {
                let mut noise: Vec<u8> =
                    (0..random.below(200)).map(|_| random.word() as u8).collect();
                recompute(&mut noise);
            }
        }
    }
}
