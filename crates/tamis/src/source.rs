//! Where the keys of a build come from: hashes, read once, in order, in runs.

use alloc::vec::Vec;
use core::fmt;

use crate::error::Error;
use crate::hash::KeyHash;
use crate::options::BuildOptions;
use crate::values::{Value, integer_range};

/// A source of hashes or entries, read once and in order.
pub trait Source<T> {
    /// Returns the next run; an empty run ends the source.
    ///
    /// # Errors
    /// A source that fails ends the build with its error: wrap it in [`Error::Source`].
    fn next_run(&mut self) -> Result<&[T], Error>;
}

/// A source of hashes.
pub trait KeySource: Source<KeyHash> {}
impl<S: Source<KeyHash> + ?Sized> KeySource for S {}

/// A source of hashes and their values.
pub trait EntrySource: Source<(KeyHash, u64)> {}
impl<S: Source<(KeyHash, u64)> + ?Sized> EntrySource for S {}

/// A source of hashes and [`Value`]s, all of one type.
pub enum ValueSource<'a> {
    /// Integers between -2^63 and 2^64 - 1 that span less than 2^64.
    Integers(&'a mut dyn Source<(KeyHash, i128)>),
    /// Byte strings.
    Bytes(&'a mut dyn Source<(KeyHash, Vec<u8>)>),
}

impl ValueSource<'_> {
    /// Calls `build` with the source of these entries: of integers if all values are integers that one
    /// map can hold, else of byte strings.
    pub fn with<R>(entries: &[(KeyHash, Value)], build: impl FnOnce(ValueSource<'_>) -> R) -> R {
        let number = |value: &Value| match value {
            Value::Integer(number) => Some(*number),
            Value::Bytes(_) => None,
        };
        let numbers = || entries.iter().filter_map(|(key, value)| Some((*key, number(value)?)));
        let all = entries.iter().all(|(_, value)| number(value).is_some());
        if all && integer_range(numbers().map(|(_, number)| number)).is_some() {
            return build(ValueSource::Integers(&mut Hashes::new(numbers())));
        }
        build(ValueSource::Bytes(&mut ByteRuns { entries, run: Vec::new() }))
    }
}

/// Reads entries as byte strings, in runs of bounded size.
struct ByteRuns<'a> {
    entries: &'a [(KeyHash, Value)],
    run: Vec<(KeyHash, Vec<u8>)>,
}

impl Source<(KeyHash, Vec<u8>)> for ByteRuns<'_> {
    fn next_run(&mut self) -> Result<&[(KeyHash, Vec<u8>)], Error> {
        /// The bytes of values, with 32 for each, after which a run ends.
        const RUN_BYTES: usize = 1 << 20;
        self.run.clear();
        let mut bytes = 0;
        while let Some(((key, value), rest)) = self.entries.split_first()
            && bytes < RUN_BYTES
        {
            let value = value.clone().into_bytes();
            bytes += value.len() + 32;
            self.run.push((*key, value));
            self.entries = rest;
        }
        Ok(&self.run)
    }
}

impl fmt::Debug for ValueSource<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Integers(_) => "ValueSource::Integers",
            Self::Bytes(_) => "ValueSource::Bytes",
        })
    }
}

impl<T> Source<T> for &[T] {
    fn next_run(&mut self) -> Result<&[T], Error> {
        Ok(core::mem::take(self))
    }
}

impl<T, S: Source<T> + ?Sized> Source<T> for &mut S {
    fn next_run(&mut self) -> Result<&[T], Error> {
        (**self).next_run()
    }
}

/// Reads an iterator of hashes, or of hashes and values, in runs.
#[derive(Debug)]
pub struct Hashes<I: Iterator> {
    iter: I,
    run: Vec<I::Item>,
}

impl<I: Iterator> Hashes<I> {
    /// The length of a run: enough to share among threads, little to hold.
    const RUN: usize = 1 << 16;

    /// Makes a source of `iter`.
    pub fn new(iter: impl IntoIterator<IntoIter = I>) -> Self {
        Self { iter: iter.into_iter(), run: Vec::new() }
    }
}

impl<I: Iterator> Source<I::Item> for Hashes<I> {
    fn next_run(&mut self) -> Result<&[I::Item], Error> {
        self.run.clear();
        self.run.extend(self.iter.by_ref().take(Self::RUN));
        Ok(&self.run)
    }
}

/// Hands `each` everything in `source`, at most 2^18 hashes or entries at a time, and checks between them
/// whether the build should go on. Returns how many there were.
pub(crate) fn read_all<T>(
    options: &BuildOptions<'_>,
    mut source: impl Source<T>,
    mut each: impl FnMut(&[T]) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut read = 0;
    loop {
        options.check(read, read)?;
        let run = source.next_run()?;
        if run.is_empty() {
            return Ok(read);
        }
        for run in run.chunks(LONGEST_RUN) {
            options.check(read, read)?;
            each(run)?;
            read += run.len() as u64;
        }
    }
}

/// The most keys that [`read_all`] hands over at a time: 25 ms at 100 ns per key.
pub(crate) const LONGEST_RUN: usize = 1 << 18;
