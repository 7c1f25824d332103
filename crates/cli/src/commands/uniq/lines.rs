//! The lines of a batch with their hashes.

use tamis::{KeyHash, KeyHasher};

use crate::hashing::hash_lines;
use crate::input::Batch;

/// The lines of a batch as they are printed, and their hashes.
#[derive(Default)]
pub(super) struct Lines {
    text: Vec<u8>,
    /// The end of each line with its separator.
    ends: Vec<u32>,
    pub(super) hashes: Vec<KeyHash>,
}

impl Lines {
    /// Copies the text in one piece, since most lines are printed, and finds ends and hashes in one pass.
    pub(super) fn read(&mut self, batch: &Batch<'_>, hasher: &KeyHasher) {
        let Self { text, ends, hashes } = self;
        text.clear();
        ends.clear();
        let Some(separator) = batch.separator().byte() else {
            hash_lines(batch, hasher, hashes);
            batch.each_line(|raw, end| {
                text.extend_from_slice(raw);
                text.push(end);
                ends.push(text.len() as u32);
            });
            return;
        };
        hashes.clear();
        let mut end = 0;
        for line in batch.lines() {
            hashes.push(hasher.bytes(line.key));
            end += line.raw.len() + 1;
            ends.push(end as u32);
        }
        text.extend_from_slice(batch.data());
        // The last line of a file may have no separator.
        text.resize(end, separator);
    }

    /// Appends the lines that were not seen to `fresh`, adjacent lines in one copy. `seen` may be
    /// shorter than the batch.
    pub(super) fn collect(&self, seen: &[bool], fresh: &mut Vec<u8>) {
        let (mut from, mut start) = (0, 0);
        for (end, seen) in self.ends.iter().zip(seen) {
            let end = *end as usize;
            if *seen {
                fresh.extend_from_slice(&self.text[from..start]);
                from = end;
            }
            start = end;
        }
        fresh.extend_from_slice(&self.text[from..start]);
    }
}

#[cfg(test)]
impl Lines {
    /// Returns lines of text, each with its line feed.
    pub(super) fn of(lines: &[String], hasher: &KeyHasher) -> Self {
        let mut all = Self::default();
        for line in lines {
            all.text.extend_from_slice(line.as_bytes());
            all.text.push(b'\n');
            all.ends.push(all.text.len() as u32);
            all.hashes.push(hasher.bytes(line.as_bytes()));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_lines_are_collected() {
        let lines =
            Lines { text: b"a\nbb\n\nc\n".to_vec(), ends: vec![2, 5, 6, 8], hashes: vec![] };
        for mask in 0..16 {
            for len in 0..=4 {
                let seen: Vec<bool> = (0..len).map(|line| mask >> line & 1 == 1).collect();
                let mut fresh = Vec::new();
                lines.collect(&seen, &mut fresh);
                let words = ["a\n", "bb\n", "\n", "c\n"];
                let expected: String = words
                    .iter()
                    .zip(&seen)
                    .filter(|(_, seen)| !**seen)
                    .map(|(word, _)| *word)
                    .collect();
                assert_eq!(fresh, expected.as_bytes());
            }
        }
    }
}
