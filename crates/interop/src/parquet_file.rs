//! Bloom filters inside Parquet files: where they lie, and what they answer.
//!
//! Only the footer is read, and of it only what leads to the filters, by a reader of Thrift's compact
//! protocol that allocates nothing. Data pages are never read.
//!
//! ```
//! use tamis_interop::parquet_file::ParquetFile;
//!
//! let mut file = ParquetFile::open("../../testdata/foreign/pyarrow.parquet")?;
//! let column = file.column("id")?;
//! let key = column.key_type()?.hash(&tamis_interop::Format::Parquet.hasher(), b"-1000")?;
//! let filter = file.filter(0, column)?.expect("row group 0 has a filter");
//! assert!(filter.contains_hash(key));
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use tamis::{AnyFilter, Keyed};
use tamis_bits::Words;

use crate::bytes::Input;
use crate::error::Error;
use crate::thrift::{Fields, Thrift, Type};
use crate::{KeyType, parquet};

/// The bytes of a footer that are read at most.
const MAX_FOOTER: u64 = 1 << 30;
const MAGIC: &[u8; 4] = b"PAR1";
const ENCRYPTED: &[u8; 4] = b"PARE";

/// Returns whether bytes begin as a Parquet file does.
pub fn is_parquet(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(ENCRYPTED)
}

/// The physical type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Physical {
    /// `BOOLEAN`, which has no filters.
    Boolean,
    /// `INT32`.
    Int32,
    /// `INT64`.
    Int64,
    /// `INT96`.
    Int96,
    /// `FLOAT`.
    Float,
    /// `DOUBLE`.
    Double,
    /// `BYTE_ARRAY`: text or bytes.
    ByteArray,
    /// `FIXED_LEN_BYTE_ARRAY`.
    FixedLenByteArray,
}

impl Physical {
    const NAMES: [(Self, &str); 8] = [
        (Self::Boolean, "BOOLEAN"),
        (Self::Int32, "INT32"),
        (Self::Int64, "INT64"),
        (Self::Int96, "INT96"),
        (Self::Float, "FLOAT"),
        (Self::Double, "DOUBLE"),
        (Self::ByteArray, "BYTE_ARRAY"),
        (Self::FixedLenByteArray, "FIXED_LEN_BYTE_ARRAY"),
    ];

    fn from_id(id: i64) -> Option<Self> {
        Some(Self::NAMES.get(usize::try_from(id).ok()?)?.0)
    }

    /// Returns its name in the format's specification.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(physical, _)| *physical == self).map_or("", |(_, name)| name)
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    index: usize,
    physical: Option<Physical>,
}

impl Column {
    /// Returns the type of its keys.
    ///
    /// # Errors
    /// [`Error::Parquet`] for a type that texts do not state.
    pub fn key_type(&self) -> Result<KeyType, Error> {
        Ok(match self.physical {
            Some(Physical::Int32) => KeyType::Int32,
            Some(Physical::Int64) => KeyType::Int64,
            Some(Physical::Float) => KeyType::Float,
            Some(Physical::Double) => KeyType::Double,
            Some(Physical::ByteArray | Physical::FixedLenByteArray) => KeyType::Utf8,
            _ => return fail("the column's type has no keys that can be looked up"),
        })
    }
}

/// A column chunk: the part of a column in a row group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chunk {
    /// The path of the column, its parts joined by dots.
    pub column: String,
    /// Its type, unless the file is of a later version.
    pub physical: Option<Physical>,
    /// Whether it is encrypted: its filter cannot be read.
    pub is_encrypted: bool,
    /// Where its filter begins in the file, if it has one.
    offset: Option<u64>,
    /// The bytes of header and filter, if the file states them.
    len: Option<u64>,
}

impl Chunk {
    /// Returns whether it has a filter that can be read.
    pub fn has_filter(&self) -> bool {
        self.offset.is_some() && !self.is_encrypted
    }
}

/// A row group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowGroup {
    /// Its rows.
    pub rows: u64,
    /// Its column chunks.
    pub chunks: Vec<Chunk>,
}

/// The footer of a Parquet file, and its source.
#[derive(Debug)]
pub struct ParquetFile<R> {
    source: R,
    len: u64,
    /// The row groups, in order.
    pub row_groups: Vec<RowGroup>,
}

fn fail<T>(what: impl Into<String>) -> Result<T, Error> {
    Err(Error::Parquet(what.into()))
}

impl ParquetFile<File> {
    /// Opens a file and reads its footer.
    ///
    /// # Errors
    /// As [`ParquetFile::read`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::read(File::open(path)?)
    }
}

impl<R: Read + Seek> ParquetFile<R> {
    /// Reads the footer of a file.
    ///
    /// # Errors
    /// [`Error::Parquet`] if it is damaged or encrypted, and [`Error::Io`] if it cannot be read.
    pub fn read(mut source: R) -> Result<Self, Error> {
        let len = source.seek(SeekFrom::End(0))?;
        let mut file = Self { source, len, row_groups: Vec::new() };
        let Some(at) = len.checked_sub(8).filter(|at| *at >= 4) else {
            return fail("not a Parquet file: it is too short");
        };
        let end = file.bytes(at, 8)?;
        if end.ends_with(ENCRYPTED) {
            return fail("the footer is encrypted");
        }
        let Some(([a, b, c, d], _)) = end.split_first_chunk().filter(|(_, magic)| magic == MAGIC)
        else {
            return fail("not a Parquet file: it does not end with PAR1");
        };
        let footer = u64::from(u32::from_le_bytes([*a, *b, *c, *d]));
        let Some(start) = at.checked_sub(footer).filter(|start| *start >= 4) else {
            return fail("the footer is longer than the file");
        };
        if footer > MAX_FOOTER {
            return fail("the footer has more than 1 GiB");
        }
        let footer = file.bytes(start, footer)?;
        let Some(row_groups) = row_groups(&mut Thrift::new(&footer)) else {
            return fail("the footer is damaged");
        };
        file.row_groups = row_groups;
        Ok(file)
    }

    /// Reads `len` bytes from `at` on, which lie in the file.
    fn bytes(&mut self, at: u64, len: u64) -> Result<Vec<u8>, Error> {
        if at.checked_add(len).is_none_or(|end| end > self.len) {
            return fail("a filter lies outside the file");
        }
        self.source.seek(SeekFrom::Start(at))?;
        let mut bytes = Vec::new();
        let size = usize::try_from(len).unwrap_or(usize::MAX);
        if bytes.try_reserve_exact(size).is_err() {
            return Err(tamis::Error::Memory { bytes: len }.into());
        }
        (&mut self.source).take(len).read_to_end(&mut bytes)?;
        if (bytes.len() as u64) < len {
            return fail("the file became shorter");
        }
        Ok(bytes)
    }

    /// Returns the names of all columns.
    pub fn columns(&self) -> Vec<&str> {
        let first = self.row_groups.first();
        first.map_or_else(Vec::new, |group| {
            group.chunks.iter().map(|chunk| chunk.column.as_str()).collect()
        })
    }

    /// Returns the column with this name.
    ///
    /// # Errors
    /// [`Error::Parquet`] names the columns if there is none, if it has no filters, or if it is
    /// encrypted.
    pub fn column(&self, name: &str) -> Result<Column, Error> {
        let chunks = || self.row_groups.iter().flat_map(|group| &group.chunks);
        let columns = self.columns();
        let Some(index) = columns.iter().position(|column| *column == name) else {
            return fail(format!(
                "there is no column `{name}`; its columns are {}",
                columns.join(", ")
            ));
        };
        if chunks().any(|chunk| chunk.column == name && chunk.is_encrypted) {
            return fail(format!("the column `{name}` is encrypted"));
        }
        if !chunks().any(|chunk| chunk.column == name && chunk.has_filter()) {
            return fail(format!(
                "the column `{name}` has no Bloom filter; {}",
                self.with_filters()
            ));
        }
        let physical = chunks().find(|chunk| chunk.column == name).and_then(|chunk| chunk.physical);
        Ok(Column { index, physical })
    }

    /// Says which columns have filters.
    pub fn with_filters(&self) -> String {
        let has = |name: &&str| {
            let mut chunks = self.row_groups.iter().flat_map(|group| &group.chunks);
            chunks.any(|chunk| chunk.column == *name && chunk.has_filter())
        };
        let (columns, with): (Vec<_>, Vec<_>) =
            (self.columns(), self.columns().into_iter().filter(has).collect());
        match with.is_empty() {
            true => format!("no column has one; its columns are {}", columns.join(", ")),
            false => format!("columns with filters are {}", with.join(", ")),
        }
    }

    /// Reads the filter of a column in a row group, or `None` if it has none.
    ///
    /// # Errors
    /// [`Error::Parquet`] or [`Error::Malformed`] if it is damaged or encrypted.
    pub fn filter(
        &mut self,
        row_group: usize,
        column: Column,
    ) -> Result<Option<Keyed<AnyFilter>>, Error> {
        let Some(group) = self.row_groups.get(row_group) else {
            return fail(format!("there are only {} row groups", self.row_groups.len()));
        };
        match group.chunks.get(column.index).cloned() {
            Some(chunk) => self.filter_of(&chunk),
            None => Ok(None),
        }
    }

    /// Reads the filter of a column chunk of this file, or `None` if it has none.
    ///
    /// # Errors
    /// As [`ParquetFile::filter`].
    pub fn filter_of(&mut self, chunk: &Chunk) -> Result<Option<Keyed<AnyFilter>>, Error> {
        if chunk.is_encrypted {
            return fail(format!("the column `{}` is encrypted", chunk.column));
        }
        let Some(at) = chunk.offset else { return Ok(None) };
        let most = self.len.saturating_sub(at).min(parquet::MAX_HEADER as u64);
        let first = self.bytes(at, chunk.len.map_or(most, |len| len.min(most)))?;
        let (len, rest) = parquet::header(&first)?;
        let header = (first.len() as u64).saturating_sub(rest.len() as u64);
        if chunk.len.is_some_and(|stated| stated != header.saturating_add(len)) {
            return fail("the length of a filter contradicts its header");
        }
        let blocks = self.bytes(at.saturating_add(header), len)?;
        parquet::from_blocks(Input::copied(&blocks).words_le(&blocks)?).map(Some)
    }

    /// Reads the filters of a column in all row groups and returns their union. Larger filters are folded
    /// to the size of the smallest.
    ///
    /// # Errors
    /// [`Error::Parquet`] if a row group has no filter, or the sizes have no common divisor that is a
    /// power of 2 apart; otherwise as [`ParquetFile::filter`].
    pub fn union(&mut self, column: Column) -> Result<Keyed<AnyFilter>, Error> {
        let mut whole: Option<Keyed<AnyFilter>> = None;
        for group in 0..self.row_groups.len() {
            let Some(mut next) = self.filter(group, column)? else {
                return fail(format!("row group {group} has no filter of the column"));
            };
            let Some(mut before) = whole.take() else {
                whole = Some(next);
                continue;
            };
            let bytes = before.bytes().min(next.bytes());
            (before, next) = (fold_to(before, bytes)?, fold_to(next, bytes)?);
            whole = Some(merge(&before, &next)?);
        }
        whole.map_or_else(|| fail("the file has no row groups"), Ok)
    }
}

/// Folds a filter until it has at most `bytes`.
fn fold_to(mut filter: Keyed<AnyFilter>, bytes: u64) -> Result<Keyed<AnyFilter>, Error> {
    while filter.bytes() > bytes {
        match parquet::fold(&filter)? {
            Some(folded) => filter = folded,
            None => return fail("the filters of the row groups have sizes that do not fold"),
        }
    }
    Ok(filter)
}

/// Returns the union of two filters of one size, whatever their capacities.
fn merge(a: &Keyed<AnyFilter>, b: &Keyed<AnyFilter>) -> Result<Keyed<AnyFilter>, Error> {
    let (AnyFilter::SplitBlockBloom(left), AnyFilter::SplitBlockBloom(right)) =
        (a.filter(), b.filter())
    else {
        return fail("the filters are not Parquet's");
    };
    if left.words().len() != right.words().len() {
        return fail("the filters of the row groups have sizes that do not fold");
    }
    let mut union = Words::copy_of(left.words()).map_err(tamis::Error::from)?;
    union.to_mut().iter_mut().zip(right.words()).for_each(|(word, other)| *word |= other);
    parquet::from_blocks(union)
}

/// Reads the row groups of a footer, or returns `None` if it is damaged.
fn row_groups(from: &mut Thrift<'_>) -> Option<Vec<RowGroup>> {
    let (mut groups, mut fields) = (Vec::new(), Fields::default());
    while let Some((number, of)) = fields.next(from)? {
        match (number, of) {
            (4, Type::List) => each(from, |from| {
                groups.push(row_group(from)?);
                Some(())
            })?,
            (_, of) => from.skip(of)?,
        }
    }
    Some(groups)
}

/// Calls `take` for each structure of a list.
fn each(from: &mut Thrift<'_>, mut take: impl FnMut(&mut Thrift<'_>) -> Option<()>) -> Option<()> {
    let (len, of) = from.list()?;
    if of != Type::Struct {
        return None;
    }
    (0..len).try_for_each(|_| take(from))
}

fn row_group(from: &mut Thrift<'_>) -> Option<RowGroup> {
    let (mut group, mut fields) = (RowGroup::default(), Fields::default());
    while let Some((number, of)) = fields.next(from)? {
        match (number, of) {
            (1, Type::List) => each(from, |from| {
                group.chunks.push(chunk(from)?);
                Some(())
            })?,
            (3, Type::Integer) => group.rows = u64::try_from(from.integer()?).ok()?,
            (_, of) => from.skip(of)?,
        }
    }
    Some(group)
}

fn chunk(from: &mut Thrift<'_>) -> Option<Chunk> {
    let (mut chunk, mut fields) = (Chunk::default(), Fields::default());
    while let Some((number, of)) = fields.next(from)? {
        match (number, of) {
            (3, Type::Struct) => metadata(from, &mut chunk)?,
            // How the column is encrypted, and its metadata if they are encrypted too.
            (8, Type::Struct) => {
                chunk.is_encrypted = true;
                crypto(from, &mut chunk)?;
            }
            (9, Type::Binary) => {
                chunk.is_encrypted = true;
                from.skip(of)?;
            }
            (_, of) => from.skip(of)?,
        }
    }
    // Without a name nothing can be said about it.
    (!chunk.column.is_empty() || chunk.is_encrypted).then_some(chunk)
}

/// Reads `ColumnMetaData`.
fn metadata(from: &mut Thrift<'_>, chunk: &mut Chunk) -> Option<()> {
    let mut fields = Fields::default();
    while let Some((number, of)) = fields.next(from)? {
        match (number, of) {
            (1, Type::Integer) => chunk.physical = Physical::from_id(from.integer()?),
            (3, Type::List) => chunk.column = path(from)?,
            (14, Type::Integer) => chunk.offset = Some(u64::try_from(from.integer()?).ok()?),
            (15, Type::Integer) => chunk.len = Some(u64::try_from(from.integer()?).ok()?),
            (_, of) => from.skip(of)?,
        }
    }
    Some(())
}

/// Reads `ColumnCryptoMetaData`, a union, whose field 2 names a column that has a key of its own.
fn crypto(from: &mut Thrift<'_>, chunk: &mut Chunk) -> Option<()> {
    let mut fields = Fields::default();
    while let Some((number, of)) = fields.next(from)? {
        if (number, of) != (2, Type::Struct) {
            from.skip(of)?;
            continue;
        }
        let mut inner = Fields::default();
        while let Some((number, of)) = inner.next(from)? {
            match (number, of) {
                (1, Type::List) => chunk.column = path(from)?,
                (_, of) => from.skip(of)?,
            }
        }
    }
    Some(())
}

/// Reads the path of a column.
fn path(from: &mut Thrift<'_>) -> Option<String> {
    let (len, of) = from.list()?;
    if of != Type::Binary {
        return None;
    }
    let mut path = String::new();
    for index in 0..len {
        if index > 0 {
            path.push('.');
        }
        path.push_str(&String::from_utf8_lossy(from.binary()?));
    }
    Some(path)
}

/// Folds a filter to the smallest size at which it has this false positive rate, or leaves it as it is if
/// its rate is higher already.
///
/// # Errors
/// [`Error::Unsuitable`] if the filter is not Parquet's.
pub fn fold_to_fpr(mut filter: Keyed<AnyFilter>, fpr: f64) -> Result<Keyed<AnyFilter>, Error> {
    while let Some(folded) = parquet::fold(&filter)?.filter(|folded| folded.fpr() <= fpr) {
        filter = folded;
    }
    Ok(filter)
}
