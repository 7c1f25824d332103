//! A read-only view of a filter's memory: its cells, and those that a lookup reads.
//!
//! It is made for drawings and for teaching, from the words that the filter holds and by the functions
//! that its lookups use. It is slow, and limited to small filters.

use alloc::vec::Vec;

use tamis_bits::packed;

use crate::hash::KeyHash;
use crate::traits::Filter;

/// The largest filter that [`AnyFilter::cells`](crate::AnyFilter::cells) shows, in bytes.
pub(crate) const MAX_INSPECTED: u64 = 1 << 14;

/// A part of a filter's memory with one meaning, such as a bit or a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cell {
    /// The bucket, block, bin or slot that it belongs to.
    pub row: u64,
    /// Its meaning: `bit`, `fingerprint`, `remainder`, …
    pub role: &'static str,
    /// Its width in bits; 0 if it is empty for now.
    pub width: u32,
    /// Its value.
    pub value: u64,
}

impl Cell {
    pub(crate) fn new(row: u64, role: &'static str, width: u32, value: u64) -> Self {
        Self { row, role, width, value }
    }
}

/// An array of a filter as cells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CellTable {
    /// Its name, as in files.
    pub name: &'static str,
    /// What a row is: `bucket`, `block`, `bin`, …
    pub row: &'static str,
    /// Its cells, row by row.
    pub cells: Vec<Cell>,
}

impl CellTable {
    pub(crate) fn new(name: &'static str, row: &'static str, cells: Vec<Cell>) -> Self {
        Self { name, row, cells }
    }

    /// Returns a table of `count` cells of `width` bits that lie side by side, `in_row` to a row.
    pub(crate) fn packed(
        (name, row, role): (&'static str, &'static str, &'static str),
        words: &[u64],
        (width, count, in_row): (u32, u64, u64),
    ) -> Self {
        let cell = |i| Cell::new(i / in_row, role, width, packed::get(words, width, i));
        Self::new(name, row, (0..count).map(cell).collect())
    }
}

/// A step of a lookup: cells that are read, and what they must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// What is read, in words.
    pub what: &'static str,
    /// The index of the table.
    pub table: usize,
    /// The indexes of the cells in the table.
    pub cells: Vec<u64>,
    /// The value that the lookup compares with.
    pub wanted: u64,
    /// Whether the cells hold it, so that the lookup goes on or finds the key.
    pub matches: bool,
}

impl Step {
    pub(crate) fn new(
        what: &'static str,
        cells: impl IntoIterator<Item = u64>,
        wanted: u64,
        matches: bool,
    ) -> Self {
        Self { what, table: 0, cells: cells.into_iter().collect(), wanted, matches }
    }
}

/// A kind whose memory can be shown.
pub trait Inspect: Filter {
    /// Returns the arrays of the filter as cells.
    fn cells(&self) -> Vec<CellTable>;

    /// Returns the steps of a lookup. The key is reported as a member if the last step matches.
    fn path(&self, key: KeyHash) -> Vec<Step>;
}
