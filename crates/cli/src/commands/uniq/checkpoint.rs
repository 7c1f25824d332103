//! The checkpoint of `tamis uniq`: a file of one filter, or of several one after the other, and a
//! lock that admits one process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use tamis::{KeyForms, Keyed, Kind, Limits, Sliding};
use tamis_format::PEEK_BYTES;

use crate::errors::failure;
use crate::memory::check_memory;
use crate::{files, signals};

/// A checkpoint that this process has locked.
#[derive(Debug)]
pub(super) struct Checkpoint {
    path: PathBuf,
    /// Held for its lock, which ends with the process, however that ends.
    _lock: File,
    #[cfg(unix)]
    lock_path: PathBuf,
}

impl Checkpoint {
    /// Locks the checkpoint. The lock is on a file of its own beside it, because a save replaces the
    /// checkpoint.
    pub(super) fn lock(path: &Path) -> Result<Self> {
        files::check_target(path)?;
        // Two names of one file have one lock.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let mut lock_path = target.into_os_string();
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        let open =
            |path: &Path| OpenOptions::new().write(true).create(true).truncate(false).open(path);
        let locked = lock_at(&lock_path, open);
        let Some(lock) = locked.map_err(|error| failure(lock_path.display(), &error))? else {
            bail!("{}: another process uses this checkpoint", path.display());
        };
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
            #[cfg(unix)]
            lock_path,
        })
    }

    /// Reads and verifies the filters, oldest first. Returns `None` if the file does not exist.
    pub(super) fn load(
        &self,
        forms: KeyForms,
        max_memory: Option<u64>,
    ) -> Result<Option<Vec<Keyed<Sliding>>>> {
        let failed = |error: &dyn std::error::Error| failure(self.path.display(), error);
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&error)),
        };
        let bytes = file.metadata().map_err(|error| failed(&error))?.len();
        check_memory(bytes, max_memory).map_err(|error| failed(error.as_ref()))?;
        let (mut filters, mut at) = (Vec::new(), 0);
        while at < bytes || filters.is_empty() {
            let filter = read_one(&mut file, &mut at).map_err(|error| failed(error.as_ref()))?;
            filter.check_key_form(forms).map_err(|error| failed(&error))?;
            filters.push(filter);
        }
        Ok(Some(filters))
    }

    /// Replaces the checkpoint atomically and durably. On an error it keeps its old contents.
    pub(super) fn save(&self, filters: &[Keyed<Sliding>]) -> Result<()> {
        signals::finish_before_interrupts();
        let saved = tamis_format::save(&self.path, |mut out| {
            filters
                .iter()
                .try_for_each(|filter| filter.write_to(&mut out).map_err(io::Error::other))
        });
        saved.map_err(|error| failure(self.path.display(), &error))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(unix)]
impl Drop for Checkpoint {
    /// Removes the lock file while it is locked. A file that is left after a crash is not locked.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.lock_path);
    }
}

/// Opens and locks the file at `path`. Returns `None` if another process has locked it.
fn lock_at(
    path: &Path,
    mut open: impl FnMut(&Path) -> io::Result<File>,
) -> io::Result<Option<File>> {
    loop {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The process that had the lock may have removed the file before it was locked here.
        if is_at(&file, path) {
            return Ok(Some(file));
        }
    }
}

/// Reads the filter that begins at byte `at` of a file, and sets `at` to its end.
fn read_one(file: &mut File, at: &mut u64) -> Result<Keyed<Sliding>> {
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(*at))?;
    file.take(PEEK_BYTES as u64).read_to_end(&mut head)?;
    let info = tamis::peek(&head)?;
    if info.kind != Kind::Sliding {
        bail!("not a checkpoint, but a {} filter", info.kind);
    }
    file.seek(SeekFrom::Start(*at))?;
    *at = at.saturating_add(info.serialized_len);
    Ok(Keyed::read_from(file.take(info.serialized_len), &Limits::default())?)
}

/// Returns whether the file is still the one at `path`.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    file.metadata().map(id).ok() == fs::metadata(path).map(id).ok()
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_has_the_lock_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen");
        for _ in 0..3 {
            let first = Checkpoint::lock(&path).unwrap();
            let message = Checkpoint::lock(&path).unwrap_err().to_string();
            assert!(message.ends_with("seen: another process uses this checkpoint"), "{message}");
            drop(first);
        }
        drop(Checkpoint::lock(&path).unwrap());
        // A file that a killed process left is not locked.
        fs::write(folder.path().join("seen.lock"), b"").unwrap();
        drop(Checkpoint::lock(&path).unwrap());
        #[cfg(unix)]
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    }

    /// A file that is removed between opening and locking it is no lock.
    #[cfg(unix)]
    #[test]
    fn a_lock_file_that_was_removed_meanwhile_is_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("seen.lock");
        let mut opened = 0;
        let lock = lock_at(&path, |path| {
            let file = File::create(path)?;
            if opened < 2 {
                fs::remove_file(path)?;
            }
            opened += 1;
            Ok(file)
        });
        assert!(is_at(&lock.unwrap().unwrap(), &path));
        assert_eq!(opened, 3);
    }

    /// Whoever removes the file and whoever opens it at that moment never both believe to have the lock.
    #[test]
    fn threads_take_turns_at_the_lock() {
        use std::sync::atomic::{AtomicU32, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let (path, inside, turns) =
            (folder.path().join("seen"), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while turns.load(Ordering::Relaxed) < 300 {
                        let Ok(lock) = Checkpoint::lock(&path) else { continue };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two have the lock");
                        turns.fetch_add(1, Ordering::Relaxed);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        drop(lock);
                    }
                });
            }
        });
    }
}
