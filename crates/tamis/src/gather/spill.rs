//! Records for which there is no room in memory: a file without a name.
//!
//! ```text
//!  ┌─ first time the memory was full ─┬─ second time ────────────────────┬─ …
//!  │ bucket 0 │ bucket 1 │ … │ 255    │ bucket 0 │ bucket 1 │ … │ 255    │
//!  └──────────────────────────────────┴──────────────────────────────────┴─ …
//! ```
//!
//! The file has lost its name before the first byte is in it, so that nothing is left of it
//! however the program ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::sort::reserve;
use super::{BUCKETS, Record};
use crate::error::Error;

#[derive(Debug)]
pub(super) struct Spill<const W: usize> {
    folder: PathBuf,
    /// Behind a lock, since reading moves the one place that a file is read at. Threads that have
    /// read sort and solve for much longer.
    file: Mutex<File>,
    /// Where each bucket's records are, in bytes.
    extents: Vec<Vec<Range<u64>>>,
    end: u64,
}

impl<const W: usize> Spill<W> {
    /// An empty file in `folder`.
    pub(super) fn new(folder: &Path) -> Result<Self, Error> {
        let file = unnamed(folder).map_err(|error| failure(folder, error))?;
        let extents = vec![Vec::new(); BUCKETS];
        Ok(Self { folder: folder.into(), file: Mutex::new(file), extents, end: 0 })
    }

    /// Adds some records to each bucket.
    pub(super) fn write(&mut self, buckets: &[Vec<&[Record<W>]>]) -> Result<(), Error> {
        let written = self.write_to_file(buckets);
        written.map_err(|error| failure(&self.folder, error))
    }

    fn write_to_file(&mut self, buckets: &[Vec<&[Record<W>]>]) -> io::Result<()> {
        let file = self.file.get_mut().expect("no thread panicked");
        file.seek(SeekFrom::Start(self.end))?;
        let mut out = BufWriter::with_capacity(1 << 20, file);
        for (blocks, extents) in buckets.iter().zip(&mut self.extents) {
            let start = self.end;
            for block in blocks {
                tamis_bits::each_le_chunk(block.as_flattened(), |bytes| out.write_all(bytes))?;
                self.end += size_of_val(*block) as u64;
            }
            extents.push(start..self.end);
        }
        out.flush()
    }

    /// How many records these buckets have.
    pub(super) fn len(&self, buckets: Range<usize>) -> u64 {
        let extents = self.extents[buckets].iter().flatten();
        extents.map(|extent| extent.end - extent.start).sum::<u64>() / (8 * W as u64)
    }

    /// Appends the records of these buckets to `records`.
    pub(super) fn read(
        &self,
        buckets: Range<usize>,
        records: &mut Vec<Record<W>>,
    ) -> Result<(), Error> {
        let len = usize::try_from(self.len(buckets.clone())).unwrap_or(usize::MAX);
        reserve(records, len)?;
        for extent in self.extents[buckets].iter().flatten() {
            let read = self.read_extent(extent, records);
            read.map_err(|error| failure(&self.folder, error))?;
        }
        Ok(())
    }

    fn read_extent(&self, extent: &Range<u64>, records: &mut Vec<Record<W>>) -> io::Result<()> {
        let mut file = self.file.lock().expect("no thread panicked");
        file.seek(SeekFrom::Start(extent.start))?;
        let mut bytes = vec![0; 8192 * W];
        let mut left = extent.end - extent.start;
        while left > 0 {
            let bytes = &mut bytes[..left.min(8192 * W as u64) as usize];
            file.read_exact(bytes)?;
            let (words, _) = bytes.as_chunks();
            let (of_words, _) = words.as_chunks::<W>();
            records.extend(of_words.iter().map(|words| words.map(u64::from_le_bytes)));
            left -= bytes.len() as u64;
        }
        Ok(())
    }

    /// Overwrites some bytes with others.
    #[cfg(test)]
    pub(super) fn tamper(&self) {
        let mut file = self.file.lock().unwrap();
        file.seek(SeekFrom::Start(self.end / 2)).unwrap();
        file.write_all(&[0x5a; 8]).unwrap();
    }

    /// That what was read back is not what was written.
    pub(super) fn damaged(&self) -> Error {
        failure(&self.folder, io::Error::other("records were not read back as they were written"))
    }
}

fn failure(folder: &Path, error: io::Error) -> Error {
    Error::Scratch { folder: folder.into(), error }
}

/// A new file that is gone when it is closed.
fn unnamed(folder: &Path) -> io::Result<File> {
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
