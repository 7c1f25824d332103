//! Filter files: open, save, check a target.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::process::exit;

use anyhow::{Result, bail};
use tamis::{AnyFilter, Error, FileError, KeyForms, Keyed, Limits};
use tamis_interop::{Foreign, Format};

use crate::errors::failure;
use crate::memory::{self, check_memory};
use crate::signals::{exit_if_interrupted, finish_before_interrupts};

/// Returns whether a path is `-`: standard input of what is read, standard output of what is written.
pub(crate) fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the name of a file to read, for messages.
pub(crate) fn name(path: &Path) -> String {
    if is_dash(path) { "standard input".into() } else { path.display().to_string() }
}

/// Returns the name of a file to write, for messages.
pub(crate) fn target_name(path: &Path) -> String {
    if is_dash(path) { "standard output".into() } else { path.display().to_string() }
}

/// Checks that at most one of the filters is standard input, and none if the keys are. An empty list of
/// key files is standard input.
pub(crate) fn check_stdin(filters: &[PathBuf], keys: Option<&[PathBuf]>) -> Result<()> {
    let of_filters = filters.iter().filter(|path| is_dash(path)).count();
    let of_keys = keys.is_some_and(|keys| keys.is_empty() || keys.iter().any(|path| is_dash(path)));
    match of_filters + usize::from(of_keys) {
        0 | 1 => Ok(()),
        _ if of_filters == 0 => Ok(()),
        _ if of_keys => bail!("the filter and the keys cannot both come from standard input"),
        _ => bail!("only one filter can come from standard input"),
    }
}

/// Opens a filter. With `check`, verifies every checksum and the structure first. A filter from a pipe is
/// read into memory and always verified.
pub(crate) fn open(path: &Path, check: bool) -> Result<Keyed<AnyFilter>> {
    let is_pipe = || fs::metadata(path).is_ok_and(|file| !file.is_file() && !file.is_dir());
    let limits = || memory::available().map_or_else(Limits::default, |bytes| Limits { bytes });
    let opened = match check {
        _ if is_dash(path) => Keyed::read_from(io::stdin().lock(), &limits()),
        _ if is_pipe() => File::open(path)
            .map_err(|error| FileError::Io(error).into())
            .and_then(|pipe| Keyed::read_from(pipe, &limits())),
        true => Keyed::open_verified(path),
        false => Keyed::open(path),
    };
    opened.map_err(|error| failure(name(path), &error))
}

/// Opens a filter to look up keys of these forms, which its own keys must have.
pub(crate) fn open_for(path: &Path, check: bool, forms: KeyForms) -> Result<Keyed<AnyFilter>> {
    let opened = open(path, check)?;
    opened.check_key_form(forms).map_err(|error| failure(name(path), &error))?;
    Ok(opened)
}

/// Opens and verifies a filter that will be changed by keys of these forms, if its copy in memory takes at
/// most `limit` bytes or, without a limit, the available memory.
pub(crate) fn open_within(
    path: &Path,
    forms: KeyForms,
    limit: Option<u64>,
) -> Result<Keyed<AnyFilter>> {
    let opened = open_to_change(path, limit)?;
    opened.check_key_form(forms).map_err(|error| failure(name(path), &error))?;
    Ok(opened)
}

/// Opens and verifies a filter that will be changed, if its copy in memory takes at most `limit` bytes or,
/// without a limit, the available memory.
pub(crate) fn open_to_change(path: &Path, limit: Option<u64>) -> Result<Keyed<AnyFilter>> {
    let opened = open(path, true)?;
    check_memory(opened.filter().figures().bytes, limit)
        .map_err(|error| failure(name(path), error.as_ref()))?;
    if !path.is_file() {
        return Ok(opened);
    }
    drop(opened);
    // Read instead of mapped: the first change to a mapped filter would copy it, and panic without memory.
    let file = File::open(path).map_err(|error| failure(name(path), &error))?;
    Keyed::read_from(file, &Limits::default()).map_err(|error| failure(name(path), &error))
}

/// Saves a filter. On an error the target keeps its old contents. An interrupt during the save ends
/// the program after it.
///
/// If the reader of standard output has closed the pipe, the process exits with status 0.
pub(crate) fn save(filter: &Keyed<AnyFilter>, path: &Path) -> Result<()> {
    if is_dash(path) {
        let mut out = BufWriter::new(io::stdout().lock());
        let written = filter.write_to(&mut out);
        return match written.and_then(|()| Ok(out.flush().map_err(FileError::Io)?)) {
            Err(Error::File(FileError::Io(error))) if error.kind() == ErrorKind::BrokenPipe => {
                exit(0)
            }
            done => done.map_err(|error| failure("standard output", &error)),
        };
    }
    finish_before_interrupts();
    filter.save(path).map_err(|error| failure(path.display(), &error))?;
    exit_if_interrupted();
    Ok(())
}

/// Saves bytes as [`save`] saves a filter.
pub(crate) fn save_bytes(bytes: &[u8], path: &Path) -> Result<()> {
    if is_dash(path) {
        return write_stdout(bytes);
    }
    finish_before_interrupts();
    tamis_format::save(path, |out| out.write_all(bytes))
        .map_err(|error| failure(path.display(), &error))?;
    exit_if_interrupted();
    Ok(())
}

fn write_stdout(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit(0),
        done => done.map_err(|error| failure("standard output", &error)),
    }
}

/// Returns all bytes of a file, or of standard input, if they fit in the available memory.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = memory::available().unwrap_or(u64::MAX);
    let read = match is_dash(path) {
        true => io::stdin().lock().take(limit).read_to_end(&mut bytes),
        false => File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)),
    };
    let len = read.map_err(|error| failure(name(path), &error))?;
    check_memory(len as u64, None).map_err(|error| failure(name(path), error.as_ref()))?;
    Ok(bytes)
}

/// Returns the bytes of a filter file, or of standard input, after checking every byte.
pub(crate) fn read_filter(path: &Path) -> Result<Vec<u8>> {
    let bytes = read(path)?;
    Keyed::<AnyFilter>::from_bytes(&bytes).map_err(|error| failure(name(path), &error))?;
    Ok(bytes)
}

/// Opens a filter of another program. A file is mapped, and copied only if its layout requires it.
pub(crate) fn open_foreign(path: &Path, format: Format) -> Result<Keyed<AnyFilter>> {
    let opened = match path.is_file() {
        true => Keyed::open_foreign(format, path),
        false => Keyed::import(format, &read(path)?),
    };
    opened.map_err(|error| failure(name(path), &error))
}

/// Returns whether a file begins as a Parquet file does. A pipe is not looked at.
pub(crate) fn is_parquet(path: &Path) -> bool {
    let mut first = [0; 4];
    path.is_file()
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut first).is_ok())
        && tamis_interop::parquet_file::is_parquet(&first)
}

/// Checks that a file can be written at `path`, so that a wrong path is reported before the work.
pub(crate) fn check_target(path: &Path) -> Result<()> {
    if is_dash(path) {
        if io::stdout().is_terminal() {
            bail!("standard output is a terminal; redirect it, or give a file");
        }
        return Ok(());
    }
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => bail!("{}: is a directory", path.display()),
        Ok(metadata) if !metadata.is_file() => return Ok(()),
        _ => {}
    }
    tempfile::tempfile_in(folder_of(path)).map_err(|error| failure(path.display(), &error))?;
    Ok(())
}

/// Checks that a filter and a JSON object do not both go to standard output.
pub(crate) fn check_json(target: &Path, json: bool) -> Result<()> {
    if json && is_dash(target) {
        bail!("the filter and --json cannot both go to standard output");
    }
    Ok(())
}

/// Returns the folder for temporary files: that of the target.
pub(crate) fn scratch_of(target: &Path) -> PathBuf {
    if is_dash(target) { std::env::temp_dir() } else { folder_of(target).into() }
}

/// Returns the folder of a file, which need not exist.
pub(crate) fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    folder.unwrap_or(Path::new("."))
}
