//! Reads lines of a key, a tab and a value.

use anyhow::{Result, bail};
use tamis::{KeyHash, KeyHasher, Source};

use crate::hashing::{Pool, Tally};
use crate::input::{Batch, Keys};

/// Splits a line at its last tab into the key and the value.
pub(crate) fn split(line: &[u8]) -> Result<(&[u8], u64)> {
    let Some(tab) = memchr::memrchr(b'\t', line) else {
        bail!("expected a key, a tab and a value");
    };
    let (key, text) = (&line[..tab], &line[tab + 1..]);
    if key.is_empty() {
        bail!("the key before the tab is empty");
    }
    Ok((key, number(text)?))
}

fn number(text: &[u8]) -> Result<u64> {
    let shown = String::from_utf8_lossy(text);
    let (digits, radix) = match shown.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (&*shown, 10),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| char::from(digit).is_digit(radix)) {
        // The text may be of any length; the message quotes its start.
        let start: String = shown.chars().take(40).collect();
        bail!("the value {start:?} is not an integer such as 17 or 0x11");
    }
    let number = u64::from_str_radix(digits, radix);
    number.or_else(|_| bail!("the value {shown} does not fit in 64 bits"))
}

/// Calls `sink` with the line number, the hash and the value of every line, in order. Empty lines are
/// skipped.
pub(crate) fn each_entry(
    batch: &Batch<'_>,
    hasher: &KeyHasher,
    mut sink: impl FnMut(u64, KeyHash, u64),
) -> Result<()> {
    for (number, line) in (batch.first_line()..).zip(batch.lines()) {
        if line.key.is_empty() {
            continue;
        }
        match split(line.key) {
            Ok((key, value)) => sink(number, hasher.bytes(key), value),
            Err(error) => bail!("{}:{number}: {error}", batch.name()),
        }
    }
    Ok(())
}

/// Returns the tally of entries, in which a changed value shows like a changed key.
pub(crate) fn tally(entries: &[(KeyHash, u64)]) -> Tally {
    let with_value =
        |(hash, value): &(KeyHash, u64)| KeyHash { lo: hash.lo.wrapping_add(*value), ..*hash };
    Tally::of(&entries.iter().map(with_value).collect::<Vec<_>>())
}

/// Returns the next run, the error of a line in it, or `None` at the end.
type NextRun<'a> = dyn FnMut() -> Result<Option<Result<Vec<(KeyHash, u64)>>>> + 'a;

/// An [`Source`] over the results of [`Keys::pull`].
pub(crate) struct EntryRuns<'a> {
    next: &'a mut NextRun<'a>,
    run: Vec<(KeyHash, u64)>,
    /// Receives each run after use.
    pool: &'a Pool<Vec<(KeyHash, u64)>>,
    /// The entries returned so far.
    pub(crate) tally: Tally,
}

impl<'a> EntryRuns<'a> {
    /// Returns a source that calls `next` until it returns `None`.
    pub(crate) fn new(next: &'a mut NextRun<'a>, pool: &'a Pool<Vec<(KeyHash, u64)>>) -> Self {
        Self { next, pool, tally: Tally::default(), run: Vec::new() }
    }
}

impl Source<(KeyHash, u64)> for EntryRuns<'_> {
    fn next_run(&mut self) -> Result<&[(KeyHash, u64)], tamis::Error> {
        self.pool.give(std::mem::take(&mut self.run));
        let unreadable = |error: anyhow::Error| tamis::Error::Source(error.into());
        while let Some(run) = (self.next)().map_err(unreadable)? {
            let run = run.map_err(unreadable)?;
            // A batch of empty lines has no entries; returning an empty run would end the source.
            if !run.is_empty() {
                self.tally.add(tally(&run));
                self.run = run;
                return Ok(&self.run);
            }
        }
        Ok(&[])
    }
}

/// A line found by [`find`].
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// Its file and line number.
    pub(crate) place: String,
    /// Its text, or the 8 bytes of a raw integer.
    pub(crate) line: Vec<u8>,
}

/// Returns the first line for which `wanted` is true.
pub(crate) fn find(
    keys: &Keys,
    threads: usize,
    wanted: impl Fn(&[u8]) -> bool + Sync,
) -> Result<Option<Found>> {
    let look = |batch: &Batch<'_>| {
        let is_wanted = |line: &[u8]| !line.is_empty() && wanted(line);
        let found = match batch.separator().byte() {
            Some(_) => {
                let lines = batch.lines().map(|line| line.key);
                lines
                    .enumerate()
                    .find(|(_, line)| is_wanted(line))
                    .map(|(at, line)| (at, line.to_vec()))
            }
            None => {
                let words = batch.words().map(u64::to_le_bytes);
                words
                    .enumerate()
                    .find(|(_, word)| is_wanted(word))
                    .map(|(at, word)| (at, word.to_vec()))
            }
        };
        found.map(|(at, line)| Found {
            place: format!("{}:{}", batch.name(), batch.first_line() + at as u64),
            line,
        })
    };
    let mut first = None;
    keys.each_batch(threads, look, |found| {
        first = first.take().or(found);
        Ok(())
    })?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_key_a_tab_and_a_number() {
        let good: [(&[u8], &[u8], u64); 5] = [
            (b"a\t0", b"a", 0),
            (b"a b\t0x1F", b"a b", 31),
            (b"a\tb\t7", b"a\tb", 7),
            (b"\xff\t18446744073709551615", b"\xff", u64::MAX),
            (b"x\t0xffffffffffffffff", b"x", u64::MAX),
        ];
        for (line, key, value) in good {
            assert_eq!(split(line).unwrap(), (key, value));
        }
        let bad: [(&[u8], &str); 9] = [
            (b"apple", "expected a key, a tab and a value"),
            (b"\t5", "the key before the tab is empty"),
            (b"a\t", "the value \"\" is not an integer such as 17 or 0x11"),
            (b"a\t0x", "the value \"0x\" is not an integer such as 17 or 0x11"),
            (b"a\t-1", "the value \"-1\" is not an integer such as 17 or 0x11"),
            (b"a\t+1", "the value \"+1\" is not an integer such as 17 or 0x11"),
            (b"a\t1 ", "the value \"1 \" is not an integer such as 17 or 0x11"),
            (b"a\tten", "the value \"ten\" is not an integer such as 17 or 0x11"),
            (b"a\t18446744073709551616", "the value 18446744073709551616 does not fit in 64 bits"),
        ];
        for (line, message) in bad {
            assert_eq!(split(line).unwrap_err().to_string(), message);
        }
    }
}
