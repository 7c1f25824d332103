//! Atomic replacement of a file.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a file with `write` and replaces `path` by it atomically: writes a temporary file in the
/// same folder, syncs it, renames it to `path`, and syncs the folder. If anything before the rename
/// fails, an existing file is unchanged. The new file has the permissions of the old one. A symbolic
/// link is followed.
///
/// Devices and pipes cannot be replaced; they are written to directly.
///
/// # Errors
/// Returns the errors of `write` and of the file system. If only the sync of the folder fails, the
/// new file is there, but may be gone after a power failure.
pub fn save(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    save_on(&mut System, path, write)
}

/// The calls that a save makes, so that tests can record them and let them fail.
trait Calls {
    type File: Write;

    fn create_new(&mut self, path: &Path) -> io::Result<Self::File>;

    fn set_permissions(&mut self, file: &Self::File, permissions: Permissions) -> io::Result<()>;

    fn sync(&mut self, file: &Self::File) -> io::Result<()>;

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    fn remove(&mut self, path: &Path) -> io::Result<()>;

    fn sync_folder(&mut self, folder: &Path) -> io::Result<()>;
}

struct System;

impl Calls for System {
    type File = File;

    fn create_new(&mut self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(path)
    }

    fn set_permissions(&mut self, file: &File, permissions: Permissions) -> io::Result<()> {
        file.set_permissions(permissions)
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

fn save_on<C: Calls>(
    calls: &mut C,
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
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
    let (temporary, file) = create_beside(calls, path)?;
    let permissions = old.map(|old| old.permissions());
    let done = fill(calls, file, permissions, write).and_then(|()| calls.rename(&temporary, path));
    if done.is_err() {
        let _ = calls.remove(&temporary);
    }
    done?;
    match calls.sync_folder(folder) {
        // Not every system can open or sync a folder.
        Err(error) if is_unsupported(&error) => Ok(()),
        synced => synced,
    }
}

fn fill<C: Calls>(
    calls: &mut C,
    file: C::File,
    permissions: Option<Permissions>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    if let Some(permissions) = permissions {
        calls.set_permissions(&file, permissions)?;
    }
    let mut out = BufWriter::with_capacity(1 << 20, file);
    write(&mut out)?;
    let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    calls.sync(&file)
}

/// Creates a temporary file in the same folder, because a rename cannot cross file systems.
fn create_beside<C: Calls>(calls: &mut C, path: &Path) -> io::Result<(PathBuf, C::File)> {
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
        match calls.create_new(&temporary) {
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
    use std::cell::RefCell;
    use std::rc::Rc;

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

    /// A file that has the name of the temporary file, such as that of a killed process, is not touched.
    #[test]
    fn a_temporary_file_of_another_process_is_kept() {
        let folder = std::env::temp_dir().join(format!("tamis-kept-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, other) = (folder.join("f"), format!(".f.{}-0.tmp", std::process::id()));
        fs::write(folder.join(&other), b"of another").unwrap();
        save(&path, |out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read(folder.join(&other)).unwrap(), b"of another");
        fs::remove_dir_all(folder).unwrap();
    }

    /// The last bytes for a device are written before the save returns.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_device_is_an_error() {
        let full = save(Path::new("/dev/full"), |out| out.write_all(b"few bytes"));
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }

    /// Makes the calls and records them. Call number `fails`, from 0, fails instead; writes count.
    #[derive(Default)]
    struct Recorder {
        log: Rc<RefCell<Vec<String>>>,
        fails: Option<usize>,
    }

    struct RecordedFile {
        file: File,
        log: Rc<RefCell<Vec<String>>>,
        fails: Option<usize>,
    }

    fn record(log: &RefCell<Vec<String>>, fails: Option<usize>, call: String) -> io::Result<()> {
        let mut log = log.borrow_mut();
        let fails = fails == Some(log.len());
        log.push(call);
        if fails { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    impl Recorder {
        fn call(&self, call: &str, path: &Path) -> io::Result<()> {
            let name = path.file_name().unwrap().to_string_lossy();
            let name = if name.ends_with(".tmp") { "temporary" } else { &name };
            record(&self.log, self.fails, format!("{call} {name}"))
        }
    }

    impl Write for RecordedFile {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            record(&self.log, self.fails, format!("write {}", bytes.len()))?;
            self.file.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            self.file.flush()
        }
    }

    impl Calls for Recorder {
        type File = RecordedFile;

        fn create_new(&mut self, path: &Path) -> io::Result<RecordedFile> {
            self.call("create", path)?;
            let file = System.create_new(path)?;
            Ok(RecordedFile { file, log: Rc::clone(&self.log), fails: self.fails })
        }

        fn set_permissions(&mut self, file: &RecordedFile, to: Permissions) -> io::Result<()> {
            record(&self.log, self.fails, "set permissions".into())?;
            System.set_permissions(&file.file, to)
        }

        fn sync(&mut self, file: &RecordedFile) -> io::Result<()> {
            record(&self.log, self.fails, "sync".into())?;
            System.sync(&file.file)
        }

        fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
            assert!(from.file_name().unwrap().to_string_lossy().ends_with(".tmp"));
            self.call("rename to", to)?;
            System.rename(from, to)
        }

        fn remove(&mut self, path: &Path) -> io::Result<()> {
            // Never fails, so that the tests find what is left behind.
            self.log.borrow_mut().push("remove".into());
            System.remove(path)
        }

        fn sync_folder(&mut self, folder: &Path) -> io::Result<()> {
            self.call("sync folder", folder)?;
            System.sync_folder(folder)
        }
    }

    #[test]
    fn the_file_is_synced_before_the_rename_and_the_folder_after_it() {
        let folder = std::env::temp_dir().join(format!("tamis-order-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, name) = (folder.join("f"), folder.file_name().unwrap().to_string_lossy());
        // More than the buffer, so that the last part is written when the buffer is flushed.
        let data = vec![7; (1 << 20) + 5];
        let last = format!("sync folder {name}");
        let fresh = ["create temporary", "write 1048576", "write 5", "sync", "rename to f", &last];
        let mut again = fresh.to_vec();
        again.insert(1, "set permissions");
        for expected in [&fresh[..], &again] {
            let mut calls = Recorder::default();
            save_on(&mut calls, &path, |out| {
                data.chunks(1 << 19).try_for_each(|run| out.write_all(run))
            })
            .unwrap();
            assert_eq!(*calls.log.borrow(), expected);
            assert_eq!(fs::read(&path).unwrap(), data);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_call_that_fails_leaves_the_old_file_or_the_new_one() {
        let folder = std::env::temp_dir().join(format!("tamis-calls-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("f");
        for fails in 0.. {
            fs::write(&path, b"old").unwrap();
            let mut calls = Recorder { fails: Some(fails), ..Recorder::default() };
            let outcome = save_on(&mut calls, &path, |out| out.write_all(b"new"));
            let log = calls.log.borrow();
            let failed = log.get(fails).map(String::as_str);
            assert_eq!(outcome.is_err(), failed.is_some(), "{failed:?}");
            let renamed = failed.is_none_or(|call| call.starts_with("sync folder"));
            let expected: &[u8] = if renamed { b"new" } else { b"old" };
            assert_eq!(fs::read(&path).unwrap(), expected, "{failed:?}");
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "{failed:?}");
            if failed.is_none() {
                assert_eq!(fails, 6);
                break;
            }
        }
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

    /// A pipe cannot be synced, so that an error shows that the system was called.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_system_is_called_to_sync() {
        use std::os::fd::{AsRawFd, OwnedFd};
        let (reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let error = System.sync_folder(Path::new(&path)).unwrap_err();
        assert!(is_unsupported(&error), "{error}");
        let error = System.sync(&File::from(OwnedFd::from(writer))).unwrap_err();
        assert!(is_unsupported(&error), "{error}");
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
