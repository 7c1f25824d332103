//! Stores records that do not fit in memory in an unnamed file.
//!
//! ```text
//!  ┌─ first time the memory was full ─┬─ second time ────────────────────┬─ …
//!  │ bucket 0 │ bucket 1 │ … │ 255    │ bucket 0 │ bucket 1 │ … │ 255    │
//!  └──────────────────────────────────┴──────────────────────────────────┴─ …
//! ```
//!
//! The file is unlinked before its first byte is written, so it disappears even if the program is
//! killed.

use core::ops::Range;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::sort::reserve;
use super::{BUCKETS, Record};
use crate::error::Error;

/// Blocks written between two checks: 2 MiB of digests.
const CHECKED_BLOCKS: usize = 1 << 10;
/// Reads of 8 KiB of digests between two checks: 2 MiB.
const CHECKED_READS: usize = 1 << 8;

#[derive(Debug)]
pub(super) struct Spill<const W: usize> {
    folder: PathBuf,
    /// Locked, because reads move the position of the file. A thread sorts and solves for much longer
    /// than it reads.
    file: Mutex<File>,
    /// The byte ranges of each bucket's records.
    extents: Vec<Vec<Range<u64>>>,
    end: u64,
}

impl<const W: usize> Spill<W> {
    /// Creates an empty file in `folder`.
    pub(super) fn new(folder: &Path) -> Result<Self, Error> {
        let file = create_unnamed(folder).map_err(|error| failure(folder, error))?;
        let extents = vec![Vec::new(); BUCKETS];
        Ok(Self { folder: folder.into(), file: Mutex::new(file), extents, end: 0 })
    }

    /// Appends records to each bucket. Calls `check` every few milliseconds.
    pub(super) fn write(
        &mut self,
        buckets: &[Vec<&[Record<W>]>],
        check: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Self { folder, file, extents, end } = self;
        let failed = |error| failure(folder, error);
        let file = file.get_mut().expect("no thread panicked");
        file.seek(SeekFrom::Start(*end)).map_err(failed)?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        for (blocks, extents) in buckets.iter().zip(extents) {
            let start = *end;
            for blocks in blocks.chunks(CHECKED_BLOCKS) {
                check()?;
                for block in blocks {
                    tamis_bits::each_le_chunk(block.as_flattened(), |bytes| out.write_all(bytes))
                        .map_err(failed)?;
                    *end += size_of_val(*block) as u64;
                }
            }
            extents.push(start..*end);
        }
        out.flush().map_err(failed)
    }

    /// Returns the number of records of these buckets.
    pub(super) fn len(&self, buckets: Range<usize>) -> u64 {
        let extents = self.extents[buckets].iter().flatten();
        extents.map(|extent| extent.end - extent.start).sum::<u64>() / (8 * W as u64)
    }

    /// Appends the records of these buckets to `records`. Calls `check` every few milliseconds.
    pub(super) fn read(
        &self,
        buckets: Range<usize>,
        records: &mut Vec<Record<W>>,
        check: impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let len = usize::try_from(self.len(buckets.clone())).unwrap_or(usize::MAX);
        reserve(records, len)?;
        for extent in self.extents[buckets].iter().flatten() {
            self.read_extent(extent, records, &check)?;
        }
        Ok(())
    }

    fn read_extent(
        &self,
        extent: &Range<u64>,
        records: &mut Vec<Record<W>>,
        check: &impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let failed = |error| failure(&self.folder, error);
        let mut file = self.file.lock().expect("no thread panicked");
        file.seek(SeekFrom::Start(extent.start)).map_err(failed)?;
        let mut bytes = vec![0; 8192 * W];
        let (mut left, mut reads) = (extent.end - extent.start, 0);
        while left > 0 {
            if reads % CHECKED_READS == 0 {
                check()?;
            }
            reads += 1;
            let bytes = &mut bytes[..left.min(8192 * W as u64) as usize];
            file.read_exact(bytes).map_err(failed)?;
            let (words, _) = bytes.as_chunks();
            let (of_words, _) = words.as_chunks::<W>();
            records.extend(of_words.iter().map(|words| words.map(u64::from_le_bytes)));
            left -= bytes.len() as u64;
        }
        Ok(())
    }

    /// Overwrites 8 bytes of the file.
    #[cfg(test)]
    pub(super) fn tamper(&self) {
        let mut file = self.file.lock().unwrap();
        file.seek(SeekFrom::Start(self.end / 2)).unwrap();
        file.write_all(&[0x5a; 8]).unwrap();
    }

    /// Returns the error for records that differ from those written.
    pub(super) fn damaged(&self) -> Error {
        failure(&self.folder, io::Error::other("records were not read back as they were written"))
    }
}

fn failure(folder: &Path, error: io::Error) -> Error {
    Error::Scratch { folder: folder.into(), error }
}

/// Creates a file that is deleted when it is closed.
fn create_unnamed(folder: &Path) -> io::Result<File> {
    if !cfg!(any(unix, windows)) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(windows)]
    {
        use std::os::windows::fs::OpenOptionsExt;
        const DELETE_ON_CLOSE: u32 = 0x0400_0000;
        options.custom_flags(DELETE_ON_CLOSE).share_mode(0);
    }
    let mut attempt = 0u32;
    loop {
        let path = folder.join(format!(".tamis-{}-{attempt}.tmp", std::process::id()));
        match options.open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {
                attempt += 1;
            }
            Err(error) => return Err(error),
            Ok(file) => {
                if cfg!(unix) {
                    fs::remove_file(&path)?;
                }
                return Ok(file);
            }
        }
    }
}
