//! Changes to the fields and words of a sound file. Lengths, padding and checksums stay right.

use tamis::{Error, FileError, Limits, Persist, Reader};
use tamis_conformance::attack::Parts;

use crate::Input;

/// Numbers at which arithmetic and limits break.
const EDGES: [u64; 24] = [
    0,
    1,
    2,
    3,
    7,
    8,
    63,
    64,
    65,
    0xff,
    0xffff,
    1 << 31,
    u32::MAX as u64,
    1 << 32,
    1 << 39,
    1 << 45,
    (1 << 48) - 1,
    1 << 48,
    (1 << 48) + 1,
    1 << 53,
    1 << 58,
    1 << 63,
    u64::MAX - 1,
    u64::MAX,
];

/// Changes `parts`, whose kind has these `samples`, as `input` says.
pub(crate) fn mutate(parts: &mut Parts, samples: &[Parts], input: &mut Input<'_>) {
    for _ in 0..input.byte() % 6 {
        let what = input.byte();
        match what % 16 {
            0 | 1 => parts.rest[0] = change(parts.rest[0], parts, input),
            2..7 => {
                let field = usize::from(input.byte()) % parts.sections[0].1.len().max(1);
                set(parts, 0, field, input);
            }
            7..13 => {
                let section = usize::from(input.byte()) % parts.sections.len();
                let word = usize::from(input.byte()) | usize::from(input.byte()) << 8;
                set(parts, section, word, input);
            }
            13 => rearrange(parts, input),
            14 => {
                // The tables of another file of the kind, cut or repeated to these lengths.
                let other = &samples[usize::from(input.byte()) % samples.len()];
                for ((_, words), (_, others)) in
                    parts.sections.iter_mut().zip(&other.sections).skip(1)
                {
                    let others = others.iter().chain(std::iter::repeat(&0));
                    words.iter_mut().zip(others).for_each(|(word, other)| *word = *other);
                }
            }
            _ => match input.byte() % 8 {
                0 => parts.ids ^= 1 << (input.byte() % 48),
                1 => parts.rest[usize::from(input.byte()) % 5] ^= 1 << (input.byte() % 64),
                _ => {
                    let section = usize::from(input.byte()) % parts.sections.len();
                    let words = &mut parts.sections[section].1;
                    let len = words.len() as i64 + i64::from(input.byte() as i8) / 8;
                    words.resize(len.max(0) as usize, input.number());
                }
            },
        }
    }
    fit_lengths(parts, input);
}

/// Changes one word.
fn set(parts: &mut Parts, section: usize, word: usize, input: &mut Input<'_>) {
    let Some(old) = parts.sections[section].1.get(word % parts.sections[section].1.len().max(1))
    else {
        return;
    };
    let new = change(*old, parts, input);
    let words = &mut parts.sections[section].1;
    let at = word % words.len();
    words[at] = new;
}

/// Another value in place of `old`.
fn change(old: u64, parts: &Parts, input: &mut Input<'_>) -> u64 {
    let by = input.byte();
    match by % 12 {
        0..3 => EDGES[usize::from(input.byte()) % EDGES.len()],
        3 => old.wrapping_add(1),
        4 => old.wrapping_sub(1),
        5 => old ^ 1 << (input.byte() % 64),
        6 => {
            // Part of a word: fields in tables have any width.
            let (low, width) = (input.byte() % 64, input.byte() % 16 + 1);
            let mask = ((1u64 << width) - 1) << low;
            match input.byte() % 3 {
                0 => old | mask,
                1 => old & !mask,
                _ => old ^ mask & input.number(),
            }
        }
        7 => old.wrapping_add(input.number()),
        8 => {
            let words = &parts.sections[usize::from(input.byte()) % parts.sections.len()].1;
            words.get(usize::from(input.byte()) % words.len().max(1)).copied().unwrap_or(old)
        }
        9 => parts.rest[usize::from(input.byte()) % 3],
        10 => old.rotate_left(u32::from(input.byte() % 64)),
        _ => input.number(),
    }
}

/// Moves, repeats or fills words of one section.
fn rearrange(parts: &mut Parts, input: &mut Input<'_>) {
    let section = usize::from(input.byte()) % parts.sections.len();
    let words = &mut parts.sections[section].1;
    if words.is_empty() {
        return;
    }
    let at = usize::from(input.byte()) % words.len();
    let to = usize::from(input.byte()) % words.len();
    let (from, end) = (at.min(to), at.max(to) + 1);
    match input.byte() % 8 {
        0 => words.swap(at, to),
        1 => words[to] = words[at],
        2 => words[from..end].fill(0),
        3 => words[from..end].fill(u64::MAX),
        4 => words[from..end].rotate_left(1),
        5 => words[from..end].reverse(),
        6 => words[from..end].iter_mut().for_each(|word| *word = word.rotate_left(1)),
        _ => {
            let value = input.number();
            words[from..end].iter_mut().for_each(|word| *word ^= value);
        }
    }
}

/// Gives a section whose length contradicts the changed shape the length that the shape demands, as far
/// as it is small.
fn fit_lengths(parts: &mut Parts, input: &mut Input<'_>) {
    const MOST_WORDS: u64 = 512;
    const LENGTH: &str = "the length of a section does not match the shape";
    if !input.byte().is_multiple_of(4) {
        return;
    }
    for _ in 0..parts.sections.len() {
        let bytes = parts.forge();
        let Ok(mut reader) = Reader::from_bytes(&bytes, &Limits::default()) else { return };
        let at = match tamis::AnyFilter::read(&mut reader) {
            Err(Error::File(FileError::Corrupt { at: Some(at), what })) if what == LENGTH => at,
            _ => return,
        };
        let Some(section) = section_at(parts, at) else { return };
        let fill = parts.sections[section].1.last().copied().unwrap_or(0);
        let fits = |parts: &Parts| {
            let Ok(mut reader) = Reader::from_bytes(&parts.forge(), &Limits::default()) else {
                return false;
            };
            match tamis::AnyFilter::read(&mut reader) {
                Err(Error::File(FileError::Corrupt { at: Some(place), what })) => {
                    what != LENGTH || section_at(parts, place) != Some(section)
                }
                _ => true,
            }
        };
        // Lengths follow from fields of the shape: whole, as bits, as bytes, and a little more.
        let fields: Vec<u64> = parts.sections[0].1.iter().copied().chain([parts.rest[0]]).collect();
        let lengths = fields.iter().flat_map(|field| {
            let field = *field;
            [1, 2, 4, 8].into_iter().flat_map(move |scale| {
                [field.saturating_mul(scale), field.div_ceil(64).saturating_mul(scale)]
            })
        });
        let products = fields.iter().flat_map(|a| {
            fields.iter().map(|b| {
                u64::try_from((u128::from(*a) * u128::from(*b)).div_ceil(64)).unwrap_or(u64::MAX)
            })
        });
        let old = parts.sections[section].1.len() as u64;
        let near = (0..8).flat_map(|by| [old + by, old.saturating_sub(by)]);
        let found =
            near.chain(lengths).chain(products).filter(|len| *len <= MOST_WORDS).find(|len| {
                parts.sections[section].1.resize(*len as usize, fill);
                fits(parts)
            });
        if found.is_none() {
            return;
        }
    }
}

/// The section that begins at byte `at` of the forged file.
fn section_at(parts: &Parts, at: u64) -> Option<usize> {
    let line = |words: usize| words.next_multiple_of(8) as u64 * 8;
    let mut start = line(8 + 3 * parts.sections.len());
    parts.sections.iter().position(|(_, words)| {
        let found = start == at;
        start += line(words.len());
        found
    })
}
