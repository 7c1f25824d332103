//! Atomic replacement of a file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file with `write` and replaces `path` by it atomically: writes a temporary file in the
/// same folder, syncs it, renames it to `path`, and syncs the folder. If anything fails, an existing
/// file is unchanged. The new file has the permissions of the old one. A symbolic link is followed.
///
/// Devices and pipes cannot be replaced; they are written to directly.
///
/// # Errors
/// Returns the errors of `write` and of the file system.
pub fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let old = fs::metadata(path).ok();
    if old.as_ref().is_some_and(|old| !old.is_file() && !old.is_dir()) {
        let mut out = BufWriter::with_capacity(1 << 20, OpenOptions::new().write(true).open(path)?);
        return write(&mut out).and_then(|()| out.flush());
    }
    let path = &if old.is_some() { fs::canonicalize(path)? } else { path.to_owned() };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let (temporary, file) = create_beside(path)?;
    let done = old
        .map_or(Ok(()), |old| file.set_permissions(old.permissions()))
        .and_then(|()| fill(file, write))
        .and_then(|()| fs::rename(&temporary, path));
    if done.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    done?;
    // Not every system can sync a folder. The rename is done in any case.
    File::open(folder).and_then(|folder| folder.sync_all()).or(Ok(()))
}

fn fill(file: File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    write(&mut out)?;
    out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Creates a temporary file in the same folder, because a rename cannot cross file systems.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let name = path.file_name().ok_or(io::ErrorKind::IsADirectory)?;
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let mut attempt = 0u32;
    loop {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}-{attempt}.tmp", std::process::id()));
        let temporary = path.with_file_name(hidden);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {
                attempt = attempt.saturating_add(1);
            }
            Err(error) => return Err(error),
            Ok(file) => return Ok((temporary, file)),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_failed_save_leaves_the_old_file_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("tamis-save-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("f");
        save(&path, |out| out.write_all(b"old")).unwrap();
        let failed = save(&path, |out| {
            out.write_all(b"ne")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        save(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert!(save(&folder, |_| Ok(())).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn permissions_and_links_stay() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = std::env::temp_dir().join(format!("tamis-links-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, link) = (folder.join("f"), folder.join("link"));
        fs::write(&path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        symlink("f", &link).unwrap();
        save(&link, |out| out.write_all(b"new")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_dir_all(folder).unwrap();
    }

    /// Writes through the path of a pipe in /proc, where a rename would fail.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_is_written_to() {
        use std::io::Read;
        use std::os::fd::AsRawFd;
        let (mut reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        save(Path::new(&path), |out| out.write_all(b"through")).unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
