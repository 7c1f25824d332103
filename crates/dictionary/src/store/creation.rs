//! Files that mark an unfinished creation. The process that creates holds a lock on its file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// A file that exists as long as a creation is unfinished. It is removed on drop.
///
/// Only the process that has locked the file removes its name, so two processes cannot create at one
/// location.
#[derive(Debug)]
pub(super) struct UnfinishedFile {
    path: PathBuf,
    #[cfg_attr(not(feature = "redb"), expect(dead_code, reason = "it holds the lock"))]
    file: File,
}

impl UnfinishedFile {
    /// Creates and locks the file, or takes over the file of a process that has ended. Returns `None` if
    /// another process has the file locked.
    pub(super) fn lock(path: PathBuf) -> io::Result<Option<Self>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        loop {
            let file = options.open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            match names(&path, &file)? {
                Names::One => return Ok(Some(Self { path, file })),
                // Another process has removed the name before it unlocked the file.
                Names::Other => {}
                // Another process was killed after it had published the file under its final name.
                Names::Several => fs::remove_file(&path)?,
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a handle of the file, which shares the lock.
    #[cfg(feature = "redb")]
    pub(super) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Drop for UnfinishedFile {
    fn drop(&mut self) {
        // If this fails, the next creation takes the file over.
        let _ = fs::remove_file(&self.path);
    }
}

/// The names of an open file.
enum Names {
    /// Only the expected name.
    One,
    /// The expected name and others.
    Several,
    /// The expected name is that of another file or of none.
    Other,
}

#[cfg(unix)]
fn names(path: &Path, file: &File) -> io::Result<Names> {
    use std::os::unix::fs::MetadataExt;
    let own = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) if (named.dev(), named.ino()) != (own.dev(), own.ino()) => Ok(Names::Other),
        Ok(_) if own.nlink() > 1 => Ok(Names::Several),
        Ok(_) => Ok(Names::One),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Names::Other),
        Err(error) => Err(error),
    }
}

#[cfg(not(unix))]
fn names(_: &Path, _: &File) -> io::Result<Names> {
    Ok(Names::One)
}

/// Returns the error of opening a location whose creation is in progress or was interrupted.
pub(super) fn unfinished(path: &Path) -> Error {
    let lock = File::open(path).and_then(|file| Ok(file.try_lock_shared()?));
    match lock {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Error::InUse,
        _ => Error::Unfinished,
    }
}

/// Writes the names in the folder of `path` to the disk.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
}
