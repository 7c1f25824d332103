//! `tamis similar --passages`: prints the passages of texts that are most alike.
//!
//! A passage is a set of tokens. Its size is counted, and its tokens set bits of a Bloom filter with one bit
//! per token. The union of two passages is estimated from the bits that are set in either filter, and
//! everything else follows: a + b - union tokens are common. [`super::pairs`] finds the pairs to compare.

use std::io::Read;

use anyhow::Result;
use serde_json::json;
use tamis::{HashId, Key, KeyHash, KeyHasher};

use super::pairs::{Bands, Sketch, most_alike};
use crate::args::{Passages, Similar};
use crate::errors::failure;
use crate::input::read_one;
use crate::memory::{self, check_memory_of};
use crate::{files, output};

/// Fixed, so that the same texts give the same estimates.
const SEED: [u64; 2] = [0x7061_7373, 0x6167_6573];
/// Most bits of a passage's filter.
const MAX_BITS: usize = 1 << 16;

/// A passage: the place where it begins, and its tokens.
struct Passage {
    file: usize,
    line: u64,
    tokens: Vec<KeyHash>,
}

pub(super) fn run(args: &Similar) -> Result<()> {
    files::check_stdin(&args.filters, None)?;
    let names: Vec<String> = args.filters.iter().map(|path| files::name(path)).collect();
    let hasher = KeyHasher::new(HashId::Fast, SEED);
    let mut passages = Vec::new();
    for (file, path) in args.filters.iter().enumerate() {
        let text = read_one(path, |name, bytes| {
            let mut text = Vec::new();
            let limit = memory::available().unwrap_or(u64::MAX);
            let read = bytes.take(limit).read_to_end(&mut text);
            let len = read.map_err(|error| failure(name, &error))? as u64;
            // What was read is no longer available: this fails if it took more than half of the memory.
            check_memory_of("the text", len, None)?;
            Ok(text)
        })?;
        let text = String::from_utf8_lossy(&text);
        split(&text, args.passage, |line, passage| {
            let tokens = tokens(passage, args.shingle.get(), &hasher);
            if !tokens.is_empty() {
                passages.push(Passage { file, line, tokens });
            }
        });
    }
    // In all but the longest passages at most 1 bit of 32 is set. The relative standard error of the union
    // is then about 1 / sqrt(2 * bits).
    let mut sizes: Vec<usize> = passages.iter().map(|passage| passage.tokens.len()).collect();
    sizes.sort_unstable();
    let long = sizes.get(sizes.len() * 99 / 100).copied().unwrap_or(0);
    let bits = (32 * long).next_power_of_two().clamp(256, MAX_BITS);
    check_memory_of("the passages", (passages.len() * bits / 8) as u64, None)?;
    let bands = Bands::for_jaccard(args.min);
    let sketches: Vec<Sketch> =
        passages.iter().map(|passage| Sketch::new(&passage.tokens, bits, &bands)).collect();
    let pairs = most_alike(&sketches, &bands, args.min, args.top);
    let place = |at: usize| (&names[passages[at].file], passages[at].line);

    if args.json {
        return output::print_json(pairs.iter().map(|pair| {
            let [(a, a_line), (b, b_line)] = [place(pair.a), place(pair.b)];
            json!({
                "a": a,
                "a_line": a_line,
                "b": b,
                "b_line": b_line,
                "jaccard": pair.alike.jaccard,
                "jaccard_error": pair.alike.jaccard_error,
                "cosine": pair.alike.cosine,
                "cosine_error": pair.alike.cosine_error,
                "recall": bands.recall(args.min),
            })
        }));
    }
    let rows = pairs.iter().map(|pair| {
        let alike = &pair.alike;
        let [a, b] = [place(pair.a), place(pair.b)].map(|(name, line)| format!("{name}:{line}"));
        let with_error = |value: f64, error: f64| format!("{value:.3} ±{error:.3}");
        vec![
            with_error(alike.jaccard, alike.jaccard_error),
            with_error(alike.cosine, alike.cosine_error),
            a,
            b,
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    if !rows.is_empty() {
        output::print(output::table(&["jaccard", "cosine", "a", "b"], &[], rows))?;
    }
    output::message(format_args!(
        "{} passages; {:.1} % of the pairs with a Jaccard index of {} are found, and more of those above",
        passages.len(),
        100.0 * bands.recall(args.min),
        args.min,
    ));
    Ok(())
}

/// Calls `each` with every passage that is not blank and the line on which it begins, from 1.
fn split(text: &str, by: Passages, mut each: impl FnMut(u64, &str)) {
    match by {
        Passages::Lines => {
            for (number, line) in (1..).zip(text.lines()) {
                each(number, line);
            }
        }
        Passages::Paragraphs => {
            let (mut first, mut passage) = (1, String::new());
            for (number, line) in (1..).zip(text.lines().chain([""])) {
                if line.trim().is_empty() {
                    if !passage.is_empty() {
                        each(first, &passage);
                    }
                    passage.clear();
                    continue;
                }
                if passage.is_empty() {
                    first = number;
                }
                passage.push_str(line);
                passage.push('\n');
            }
        }
        Passages::Words(count) => {
            let (mut first, mut passage, mut words) = (1, String::new(), 0);
            for (number, line) in (1..).zip(text.lines()) {
                for word in line.split_whitespace() {
                    if words == 0 {
                        first = number;
                    }
                    passage.push_str(word);
                    passage.push(' ');
                    words += 1;
                    if words == count.get() {
                        each(first, &passage);
                        passage.clear();
                        words = 0;
                    }
                }
            }
            if words > 0 {
                each(first, &passage);
            }
        }
    }
}

/// Returns the distinct tokens of a passage in ascending order: runs of `shingle` words in lower case. A
/// passage of fewer words is one token.
fn tokens(passage: &str, shingle: usize, hasher: &KeyHasher) -> Vec<KeyHash> {
    let lower = passage.to_lowercase();
    let words: Vec<&str> = lower
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    if words.is_empty() {
        return Vec::new();
    }
    let mut tokens: Vec<KeyHash> = words
        .windows(shingle.min(words.len()))
        .map(|words| words.join(" ").hash_with(hasher))
        .collect();
    tokens.sort_unstable_by_key(|token| (token.hi, token.lo));
    tokens.dedup();
    tokens
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use super::*;

    #[test]
    fn texts_are_split() {
        let text = "One two\nthree.\n\n  \nFour\n five six\n\nseven";
        let passages = |by| {
            let mut found = Vec::new();
            split(text, by, |line, passage| found.push((line, passage.trim().to_owned())));
            found
        };
        let paragraphs = passages(Passages::Paragraphs);
        let lines: Vec<u64> = paragraphs.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 5, 8]);
        assert_eq!(paragraphs[1].1, "Four\n five six");
        assert_eq!(passages(Passages::Lines).len(), 8);
        let words = passages(Passages::Words(NonZeroUsize::new(3).unwrap()));
        assert_eq!(words[0], (1, "One two three.".into()));
        assert_eq!(words[2], (8, "seven".into()));
    }

    #[test]
    fn tokens_are_words_or_shingles() {
        let hasher = KeyHasher::new(HashId::Fast, SEED);
        let of = |text: &str, shingle| tokens(text, shingle, &hasher);
        assert_eq!(of("One, two! TWO one", 1), of("two one", 1));
        assert_eq!(of("a b c d", 2).len(), 3);
        assert_ne!(of("a b c", 2), of("c b a", 2));
        assert_eq!(of("a b", 5).len(), 1);
        assert!(of(" ?! ", 1).is_empty());
        assert_eq!(
            of("Größe", 1),
            of("GRÖSSE größe", 1)
                .into_iter()
                .filter(|token| of("größe", 1).contains(token))
                .collect::<Vec<_>>()
        );
    }
}
