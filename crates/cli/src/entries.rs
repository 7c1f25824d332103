//! Reads lines of a key, a tab and a value.

use anyhow::{Result, anyhow, bail};
use tamis::{HashId, KeyHash, KeyHasher, Source, Value, ValueSource};

use crate::hashing::{Pool, Tally};
use crate::input::{Batch, Keys};

/// Splits a line at its last tab into the key and the text of the value, which may be empty.
pub(crate) fn split(line: &[u8]) -> Result<(&[u8], &[u8])> {
    let Some(tab) = memchr::memrchr(b'\t', line) else {
        bail!("expected a key, a tab and a value");
    };
    let (key, text) = (&line[..tab], &line[tab + 1..]);
    if key.is_empty() {
        bail!("the key before the tab is empty");
    }
    Ok((key, text))
}

/// Returns the integer that a text states, between -2^63 and 2^64 - 1: 17, -17 or 0x11. Other spellings,
/// such as 017, are not integers, because decimal digits would not give them back.
pub(crate) fn integer(text: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(text).ok()?;
    if let Some(digits) = text.strip_prefix("0x") {
        let hexadecimal = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        return u64::from_str_radix(digits, 16).ok().filter(|_| hexadecimal).map(i128::from);
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    let decimal = digits.bytes().all(|digit| digit.is_ascii_digit());
    let shortest = !digits.starts_with('0') || text == "0";
    let number = text.parse().ok().filter(|_| decimal && shortest)?;
    (i128::from(i64::MIN)..=i128::from(u64::MAX)).contains(&number).then_some(number)
}

/// Returns the text of a value for a message: its start, quoted.
pub(crate) fn quote(text: &[u8]) -> String {
    // The text may be of any length.
    let shown = String::from_utf8_lossy(&text[..text.len().min(200)]);
    let start: String = shown.chars().take(40).collect();
    format!("{start:?}")
}

/// A value of an entry, as the lines of a file state it.
pub(crate) trait EntryValue: Sized + Clone + PartialEq + Send + Sync {
    /// Returns the value of a text, or `None` if the text states none.
    fn parse(text: &[u8]) -> Option<Self>;

    /// Returns a hash of the value.
    fn mark(&self) -> u64;

    /// Returns the value for a message.
    fn shown(&self) -> String;

    /// Returns whether this is `value`.
    fn is(&self, value: &Value) -> bool;

    /// Returns the runs as the source of a map.
    fn source<'a>(runs: &'a mut EntryRuns<'_, Self>) -> ValueSource<'a>;
}

impl EntryValue for i128 {
    fn parse(text: &[u8]) -> Option<Self> {
        integer(text)
    }

    fn mark(&self) -> u64 {
        *self as u64
    }

    fn shown(&self) -> String {
        self.to_string()
    }

    fn is(&self, value: &Value) -> bool {
        *value == Value::Integer(*self)
    }

    fn source<'a>(runs: &'a mut EntryRuns<'_, Self>) -> ValueSource<'a> {
        ValueSource::Integers(runs)
    }
}

impl EntryValue for Vec<u8> {
    fn parse(text: &[u8]) -> Option<Self> {
        Some(text.to_vec())
    }

    fn mark(&self) -> u64 {
        KeyHasher::new(HashId::Fast, [0, 0]).bytes(self).lo
    }

    fn shown(&self) -> String {
        quote(self)
    }

    fn is(&self, value: &Value) -> bool {
        matches!(value, Value::Bytes(bytes) if bytes == self)
    }

    fn source<'a>(runs: &'a mut EntryRuns<'_, Self>) -> ValueSource<'a> {
        ValueSource::Bytes(runs)
    }
}

/// Calls `sink` with the line number, the hash and the text of the value of every line, in order. Empty
/// lines are skipped. An error of `sink` is reported with its line.
pub(crate) fn each_entry(
    batch: &Batch<'_>,
    hasher: &KeyHasher,
    mut sink: impl FnMut(u64, KeyHash, &[u8]) -> Result<()>,
) -> Result<()> {
    for (number, line) in (batch.first_line()..).zip(batch.lines()) {
        if line.key.is_empty() {
            continue;
        }
        let entry = split(line.key);
        let done = entry.and_then(|(key, text)| sink(number, hasher.bytes(key), text));
        if let Err(error) = done {
            bail!("{}:{number}: {error}", batch.name());
        }
    }
    Ok(())
}

/// Returns the error of a value that is not an integer.
pub(crate) fn not_an_integer(text: &[u8]) -> anyhow::Error {
    anyhow!("the value {} is not an integer such as 17, -17 or 0x11", quote(text))
}

/// Returns the tally of entries, in which a changed value shows like a changed key.
pub(crate) fn tally<V: EntryValue>(entries: &[(KeyHash, V)]) -> Tally {
    let with_value =
        |(hash, value): &(KeyHash, V)| KeyHash { lo: hash.lo.wrapping_add(value.mark()), ..*hash };
    Tally::of(&entries.iter().map(with_value).collect::<Vec<_>>())
}

/// Returns the next run, the error of a line in it, or `None` at the end.
type NextRun<'a, V> = dyn FnMut() -> Result<Option<Result<Vec<(KeyHash, V)>>>> + 'a;

/// An [`Source`] over the results of [`Keys::pull`].
pub(crate) struct EntryRuns<'a, V> {
    next: &'a mut NextRun<'a, V>,
    run: Vec<(KeyHash, V)>,
    /// Receives each run after use.
    pool: &'a Pool<Vec<(KeyHash, V)>>,
    /// The entries returned so far.
    pub(crate) tally: Tally,
}

impl<'a, V> EntryRuns<'a, V> {
    /// Returns a source that calls `next` until it returns `None`.
    pub(crate) fn new(next: &'a mut NextRun<'a, V>, pool: &'a Pool<Vec<(KeyHash, V)>>) -> Self {
        Self { next, pool, tally: Tally::default(), run: Vec::new() }
    }
}

impl<V: EntryValue> Source<(KeyHash, V)> for EntryRuns<'_, V> {
    fn next_run(&mut self) -> Result<&[(KeyHash, V)], tamis::Error> {
        let mut used = std::mem::take(&mut self.run);
        used.clear();
        self.pool.give(used);
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
    fn a_line_is_a_key_a_tab_and_a_value() {
        let good: [(&[u8], &[u8], &[u8]); 5] = [
            (b"a\t0", b"a", b"0"),
            (b"a b\tmany words", b"a b", b"many words"),
            (b"a\tb\t7", b"a\tb", b"7"),
            (b"\xff\t\xff", b"\xff", b"\xff"),
            (b"a\t", b"a", b""),
        ];
        for (line, key, value) in good {
            assert_eq!(split(line).unwrap(), (key, value));
        }
        let bad: [(&[u8], &str); 2] = [
            (b"apple", "expected a key, a tab and a value"),
            (b"\t5", "the key before the tab is empty"),
        ];
        for (line, message) in bad {
            assert_eq!(split(line).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn an_integer_has_one_decimal_spelling_or_is_hexadecimal() {
        let (least, most) = (i128::from(i64::MIN), i128::from(u64::MAX));
        for number in [0, 7, -7, 10, -100, least, most] {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        assert_eq!(integer(b"0x1F"), Some(31));
        assert_eq!(integer(b"0xffffffffffffffff"), Some(most));
        let other = [
            "", "-", "0x", "0x+1", "+1", "007", "-0", "00", "1 ", "1e3", "ten", "\u{661}", "1_000",
        ];
        for text in other {
            assert_eq!(integer(text.as_bytes()), None, "{text:?}");
        }
        for number in [least - 1, most + 1] {
            assert_eq!(integer(number.to_string().as_bytes()), None);
        }
        assert_eq!(integer(b"0x10000000000000000"), None);
        assert_eq!(integer(b"\xff"), None);
        assert_eq!(quote(&[b'x'; 500]).len(), 42);
    }
}
