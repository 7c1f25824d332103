//! Where the keys of a build come from: hashes, read once, in order, in runs.

use alloc::vec::Vec;

use crate::error::Error;
use crate::hash::KeyHash;
use crate::options::BuildOptions;

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
        for run in run.chunks(CHECKED_RUN) {
            options.check(read, read)?;
            each(run)?;
            read += run.len() as u64;
        }
    }
}

/// Keys between two checks for cancelling: 25 ms at 100 ns per key.
const CHECKED_RUN: usize = 1 << 18;
