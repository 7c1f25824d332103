//! Filters on disk and in memory.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use tamis::{AnyFilter, Keyed};

use crate::input::failure;
use crate::number::show_size;

/// Opens a filter, after checking every byte of it unless that is not wanted.
pub(crate) fn open(path: &Path, check: bool) -> Result<Keyed<AnyFilter>> {
    let opened = if check { Keyed::open_verified(path) } else { Keyed::open(path) };
    opened.map_err(|error| failure(path.display(), &error))
}

/// Opens a filter to change it, for which it needs memory of its own.
pub(crate) fn open_to_change(path: &Path) -> Result<Keyed<AnyFilter>> {
    let opened = open(path, true)?;
    check_memory(opened.filter().figures().bytes, None)
        .map_err(|error| failure(path.display(), error.as_ref()))?;
    Ok(opened)
}

/// Saves a filter, whole or not at all.
pub(crate) fn save(filter: &Keyed<AnyFilter>, path: &Path) -> Result<()> {
    finish_before_interrupts();
    filter.save(path).map_err(|error| failure(path.display(), &error))
}

/// Finds out whether a file could be saved there, better now than after an hour of work.
pub(crate) fn check_target(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(there) if there.is_dir() => bail!("{}: is a directory", path.display()),
        Ok(there) if !there.is_file() => return Ok(()),
        _ => {}
    }
    tempfile::tempfile_in(folder_of(path)).map_err(|error| failure(path.display(), &error))?;
    Ok(())
}

/// The folder that a file is in, or would be.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}

/// Refuses a table of so many bytes if there is less memory than that: `limit`, or what the
/// system has to give, if it says so.
pub(crate) fn check_memory(bytes: u64, limit: Option<u64>) -> Result<()> {
    let needs = show_size(bytes);
    match (limit, available()) {
        (Some(limit), _) if bytes > limit => {
            bail!("the filter takes {needs}, more than the {} of --max-memory", show_size(limit))
        }
        (None, Some(free)) if bytes > free => {
            bail!("the filter takes {needs}, but only {} of memory are available", show_size(free))
        }
        _ => Ok(()),
    }
}

/// Memory that can be had without driving others out, as Linux tells it.
pub(crate) fn available() -> Option<u64> {
    kibibytes("/proc/meminfo", "MemAvailable:")
}

/// The most memory that this program has had at a time, as Linux tells it.
pub(crate) fn peak() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM:")
}

fn kibibytes(file: &str, field: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib.saturating_mul(1024))
}

/// From here on the first interrupt waits, so that it leaves no half of a file behind; the second
/// ends the program as usual.
#[cfg(unix)]
pub(crate) fn finish_before_interrupts() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;

    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let asked = std::sync::Arc::default();
        for signal in [SIGINT, SIGTERM] {
            // If the handler cannot be set, the interrupt ends the program as it always did.
            let _ = flag::register_conditional_shutdown(
                signal,
                128 + signal,
                std::sync::Arc::clone(&asked),
            );
            let _ = flag::register(signal, std::sync::Arc::clone(&asked));
        }
    });
}

#[cfg(not(unix))]
pub(crate) fn finish_before_interrupts() {}

/// Makes a file that grows past the allowed size an error of the write, which is told and
/// cleaned up after, where the system would end the program.
#[cfg(unix)]
pub(crate) fn survive_size_limits() {
    let unread = std::sync::Arc::default();
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, unread);
}

#[cfg(not(unix))]
pub(crate) fn survive_size_limits() {}
