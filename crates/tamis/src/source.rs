//! Where the keys of a build come from: hashes, read once, in order, in runs.

use alloc::vec::Vec;

use crate::error::Error;
use crate::hash::KeyHash;
use crate::options::BuildOptions;

/// A source of hashes, read once and in order.
pub trait KeySource {
    /// Returns the next run of hashes; an empty run ends the source.
    ///
    /// # Errors
    /// A source that fails ends the build with its error: wrap it in [`Error::Source`].
    fn next_run(&mut self) -> Result<&[KeyHash], Error>;
}

impl KeySource for &[KeyHash] {
    fn next_run(&mut self) -> Result<&[KeyHash], Error> {
        Ok(core::mem::take(self))
    }
}

impl<S: KeySource + ?Sized> KeySource for &mut S {
    fn next_run(&mut self) -> Result<&[KeyHash], Error> {
        (**self).next_run()
    }
}

/// A source of hashes and their values, read once and in order.
pub trait EntrySource {
    /// Returns the next run of entries; an empty run ends the source.
    ///
    /// # Errors
    /// As [`KeySource::next_run`].
    fn next_run(&mut self) -> Result<&[(KeyHash, u64)], Error>;
}

impl EntrySource for &[(KeyHash, u64)] {
    fn next_run(&mut self) -> Result<&[(KeyHash, u64)], Error> {
        Ok(core::mem::take(self))
    }
}

impl<S: EntrySource + ?Sized> EntrySource for &mut S {
    fn next_run(&mut self) -> Result<&[(KeyHash, u64)], Error> {
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

    fn run(&mut self) -> &[I::Item] {
        self.run.clear();
        self.run.extend(self.iter.by_ref().take(Self::RUN));
        &self.run
    }
}

impl<I: Iterator<Item = KeyHash>> KeySource for Hashes<I> {
    fn next_run(&mut self) -> Result<&[KeyHash], Error> {
        Ok(self.run())
    }
}

impl<I: Iterator<Item = (KeyHash, u64)>> EntrySource for Hashes<I> {
    fn next_run(&mut self) -> Result<&[(KeyHash, u64)], Error> {
        Ok(self.run())
    }
}

/// Hands `each` all hashes of `keys`, at most 2^18 at a time, and checks between them whether the build
/// should go on. Returns the number of hashes.
pub(crate) fn read_keys(
    options: &BuildOptions<'_>,
    mut keys: impl KeySource,
    mut each: impl FnMut(&[KeyHash]) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut read = 0;
    loop {
        options.check(read, read)?;
        let run = keys.next_run()?;
        if run.is_empty() {
            return Ok(read);
        }
        for run in run.chunks(CHECKED_RUN) {
            options.check(read, read)?;
            each(run)?;
            read += run.len() as u64;
        }
    }
}

/// The same for hashes with values.
pub(crate) fn read_entries(
    options: &BuildOptions<'_>,
    mut entries: impl EntrySource,
    mut each: impl FnMut(&[(KeyHash, u64)]) -> Result<(), Error>,
) -> Result<u64, Error> {
    let mut read = 0;
    loop {
        options.check(read, read)?;
        let run = entries.next_run()?;
        if run.is_empty() {
            return Ok(read);
        }
        for run in run.chunks(CHECKED_RUN) {
            options.check(read, read)?;
            each(run)?;
            read += run.len() as u64;
        }
    }
}

/// Keys between two checks for cancelling: 25 ms at 100 ns per key.
const CHECKED_RUN: usize = 1 << 18;
