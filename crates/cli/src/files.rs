//! Filter files: open, save, check a target.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use tamis::{AnyFilter, KeyForms, Keyed};

use crate::errors::failure;
use crate::memory::check_memory;
use crate::signals::{exit_if_interrupted, finish_before_interrupts};

/// Opens a filter. With `check`, verifies every checksum and the structure first.
pub(crate) fn open(path: &Path, check: bool) -> Result<Keyed<AnyFilter>> {
    let opened = if check { Keyed::open_verified(path) } else { Keyed::open(path) };
    opened.map_err(|error| failure(path.display(), &error))
}

/// Opens a filter to look up keys of these forms, which its own keys must have.
pub(crate) fn open_for(path: &Path, check: bool, forms: KeyForms) -> Result<Keyed<AnyFilter>> {
    let opened = open(path, check)?;
    opened.check_key_form(forms).map_err(|error| failure(path.display(), &error))?;
    Ok(opened)
}

/// Opens and verifies a filter that will be changed by keys of these forms, which takes a copy in memory.
pub(crate) fn open_to_change_for(path: &Path, forms: KeyForms) -> Result<Keyed<AnyFilter>> {
    let opened = open_to_change(path)?;
    opened.check_key_form(forms).map_err(|error| failure(path.display(), &error))?;
    Ok(opened)
}

/// Opens and verifies a filter that will be changed, which takes a copy in memory.
pub(crate) fn open_to_change(path: &Path) -> Result<Keyed<AnyFilter>> {
    let opened = open(path, true)?;
    check_memory(opened.filter().figures().bytes, None)
        .map_err(|error| failure(path.display(), error.as_ref()))?;
    Ok(opened)
}

/// Saves a filter. On an error the target keeps its old contents. An interrupt during the save ends
/// the program after it.
pub(crate) fn save(filter: &Keyed<AnyFilter>, path: &Path) -> Result<()> {
    finish_before_interrupts();
    filter.save(path).map_err(|error| failure(path.display(), &error))?;
    exit_if_interrupted();
    Ok(())
}

/// Checks that a file can be written at `path`, so that a wrong path is reported before the work.
pub(crate) fn check_target(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => bail!("{}: is a directory", path.display()),
        Ok(metadata) if !metadata.is_file() => return Ok(()),
        _ => {}
    }
    tempfile::tempfile_in(folder_of(path)).map_err(|error| failure(path.display(), &error))?;
    Ok(())
}

/// Returns the folder of a file, which need not exist.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}
