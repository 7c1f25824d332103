//! What the numbers in the cells stand for: unsigned integers, integers from a smallest one on, or the
//! places of byte strings in a sorted table.
//!
//! ```text
//!  number i ──► ends, ⌈log2(t + 1)⌉ bits  │ … │ i - 1 │ i │ …      none if all lengths are equal
//!                                              └───┬───┘
//!  values, t bytes  │ ant │ bee │ … │ from end i - 1 to end i │ …  ascending, each once
//! ```

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec::Vec;

use tamis_bits::{Words, as_le_bytes, lines, packed, set};
use tamis_format::{Fields, Name, Reader, Writer};

use super::width_of;
use crate::error::Error;
use crate::filters::common::usize_words;
use crate::limits::MAX_KEYS;
use crate::values::{Value, ValueType, integer_range};

const VALUES: Name = Name::new("values");
const ENDS: Name = Name::new("ends");
/// The numbers of the forms in a shape.
const OFFSET: u64 = 1;
const TABLE: u64 = 2;
/// The most bytes of all distinct byte strings.
const MAX_BYTES: u64 = 1 << 48;

/// What a number stands for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Codec {
    /// The number itself.
    Plain,
    /// The number plus this one, which is the smallest of the values.
    Offset(i64),
    /// The byte string at this place of the table.
    Table(Table),
}

impl Codec {
    /// Returns the codec of integers, and the largest number that it needs.
    pub(super) fn of_integers(min: i128, max: i128) -> Result<(Self, u64), Error> {
        integer_range([min, max].into_iter()).ok_or(Error::IntegerSpan)?;
        Ok(match i64::try_from(min) {
            Ok(min) if min < 0 => (Self::Offset(min), (max - i128::from(min)) as u64),
            _ => (Self::Plain, max as u64),
        })
    }

    /// Returns the value that `number` stands for. Only numbers of a hostile file stand for none.
    pub(super) fn decode(&self, number: u64) -> Option<Value> {
        match self {
            Self::Plain => Some(number.into()),
            Self::Offset(min) => Some((i128::from(*min) + i128::from(number)).into()),
            Self::Table(table) => table.get(number).map(Value::Bytes),
        }
    }

    /// Returns the number that stands for `value`, of at most `bits` bits.
    pub(super) fn encode(&self, value: &Value, bits: u32) -> Result<u64, Error> {
        let min = match (self, value) {
            (Self::Table(table), Value::Bytes(bytes)) => {
                return table.find(bytes).ok_or_else(|| self.refuse(bits));
            }
            (Self::Table(table), Value::Integer(number)) => {
                let digits = number.to_string();
                return table.find(digits.as_bytes()).ok_or_else(|| self.refuse(bits));
            }
            (Self::Plain, _) => 0,
            (Self::Offset(min), _) => *min,
        };
        let Value::Integer(value) = value else { return Err(self.refuse(bits)) };
        let number = value.checked_sub(min.into()).and_then(|number| number.try_into().ok());
        match number {
            Some(number) if width_of(number) <= bits => Ok(number),
            // The widths of an unsigned integer are all that its user has to know.
            Some(value) if *self == Self::Plain => Err(Error::Value { value, bits }),
            _ => Err(self.refuse(bits)),
        }
    }

    /// Checks that `number` stands for a value.
    pub(super) fn check(&self, number: u64, bits: u32) -> Result<(), Error> {
        match self {
            _ if width_of(number) > bits => Err(Error::Value { value: number, bits }),
            Self::Table(table) if number >= table.len => Err(self.refuse(bits)),
            _ => Ok(()),
        }
    }

    fn refuse(&self, bits: u32) -> Error {
        Error::ValueType { holds: self.value_type(bits) }
    }

    /// Returns the type of values with numbers of `bits` bits.
    pub(super) fn value_type(&self, bits: u32) -> ValueType {
        let of = |min: i64| {
            let (min, span) = (i128::from(min), i128::from(packed::mask(bits)));
            ValueType::Integers { min, max: min + span }
        };
        match self {
            Self::Plain => of(0),
            Self::Offset(min) => of(*min),
            Self::Table(table) => ValueType::Bytes { distinct: table.len },
        }
    }

    /// Returns the bytes of the byte strings, in whole cache lines.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Self::Plain | Self::Offset(_) => 0,
            Self::Table(table) => table.bytes(),
        }
    }

    /// Returns the fields that follow those of the shape; none if the values are unsigned integers.
    pub(super) fn fields(&self) -> Vec<u64> {
        match self {
            Self::Plain => Vec::new(),
            Self::Offset(min) => [OFFSET, *min as u64].into(),
            Self::Table(table) => {
                let form = u64::from(table.is_uniform());
                [TABLE, table.len, table.bytes, form].into()
            }
        }
    }

    /// Reads those fields of a file whose layout has them.
    pub(super) fn read_fields(from: &Reader, fields: &mut Fields) -> Result<Head, Error> {
        if fields.next(OFFSET..=TABLE, "form of the values")? == OFFSET {
            return Ok(Head::Offset(fields.next(0..=u64::MAX, "smallest value")? as i64));
        }
        let len = fields.next(1..=MAX_KEYS, "number of distinct values")?;
        let bytes = fields.next(0..=MAX_BYTES, "bytes of the values")?;
        let uniform = fields.next(0..=1, "form of the table of values")? == 1;
        if uniform && !bytes.is_multiple_of(len) {
            return Err(from.corrupt("the values do not have equal lengths").into());
        }
        Ok(Head::Table { len, bytes, uniform })
    }

    /// Writes the sections.
    pub(super) fn write<'a>(&'a self, to: &mut Writer<'a>) {
        if let Self::Table(table) = self {
            to.words(VALUES, &table.values);
            to.words(ENDS, &table.ends);
        }
    }

    /// Reads the sections that `head` states.
    pub(super) fn read(from: &mut Reader, head: Head) -> Result<Self, Error> {
        Ok(match head {
            Head::Plain => Self::Plain,
            Head::Offset(min) => Self::Offset(min),
            Head::Table { len, bytes, uniform } => {
                let values = from.words(VALUES, bytes.div_ceil(8))?;
                let ends = if uniform { 0 } else { end_words(len, bytes) };
                Self::Table(Table { len, bytes, values, ends: from.words(ENDS, ends)? })
            }
        })
    }

    /// Checks every byte string, and that each of `numbers` stands for a value.
    pub(super) fn validate(&self, mut numbers: impl Iterator<Item = u64>) -> Result<(), Error> {
        let corrupt = |what| Err(tamis_format::Error::corrupt(what).into());
        let Self::Table(table) = self else { return Ok(()) };
        if let Err(what) = table.validate() {
            return corrupt(what);
        }
        match numbers.any(|number| number >= table.len) {
            true => corrupt("a cell has a number beyond the table of values"),
            false => Ok(()),
        }
    }
}

/// What the fields of a shape state about the values.
pub(super) enum Head {
    Plain,
    Offset(i64),
    Table { len: u64, bytes: u64, uniform: bool },
}

/// Distinct byte strings in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    len: u64,
    /// The bytes of all byte strings.
    bytes: u64,
    /// The byte strings, one after another.
    values: Words,
    /// The end of each, as packed integers; none if all have the same length.
    ends: Words,
}

/// Returns the words of the ends.
fn end_words(len: u64, bytes: u64) -> u64 {
    (len * u64::from(width_of(bytes))).div_ceil(64)
}

impl Table {
    fn is_uniform(&self) -> bool {
        self.ends.is_empty()
    }

    fn bytes(&self) -> u64 {
        (lines(self.values.len() as u64) + lines(self.ends.len() as u64)) * 64
    }

    fn end(&self, index: u64) -> u64 {
        match self.is_uniform() {
            true => (self.bytes / self.len) * (index + 1),
            false => packed::get(&self.ends, width_of(self.bytes), index),
        }
    }

    /// Returns the byte string at `index`, or `None` if there is none or its ends are wrong.
    fn get(&self, index: u64) -> Option<Vec<u8>> {
        if index >= self.len {
            return None;
        }
        let start = index.checked_sub(1).map_or(0, |before| self.end(before));
        let end = self.end(index);
        if start > end || end > self.bytes {
            return None;
        }
        let words = &self.values[(start / 8) as usize..end.div_ceil(8) as usize];
        let (skip, len) = ((start % 8) as usize, (end - start) as usize);
        Some(match as_le_bytes(words) {
            Some(bytes) => bytes[skip..skip + len].to_vec(),
            None => words.iter().flat_map(|word| word.to_le_bytes()).skip(skip).take(len).collect(),
        })
    }

    /// Returns the place of a byte string.
    fn find(&self, bytes: &[u8]) -> Option<u64> {
        let (mut from, mut to) = (0, self.len);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.get(middle)?.as_slice().cmp(bytes) {
                core::cmp::Ordering::Less => from = middle + 1,
                core::cmp::Ordering::Greater => to = middle,
                core::cmp::Ordering::Equal => return Some(middle),
            }
        }
        None
    }

    fn validate(&self) -> Result<(), &'static str> {
        let mut before: Option<Vec<u8>> = None;
        for index in 0..self.len {
            let Some(value) = self.get(index) else {
                return Err("a value does not end after its start, within the values");
            };
            if before.is_some_and(|before| before >= value) {
                return Err("the values are not sorted");
            }
            before = Some(value);
        }
        let end_bits = self.len * u64::from(width_of(self.bytes));
        if self.end(self.len - 1) != self.bytes
            || !set::ends_at(&self.values, self.bytes * 8)
            || (!self.is_uniform() && !set::ends_at(&self.ends, end_bits))
        {
            return Err("the values do not end with the last of them");
        }
        Ok(())
    }
}

/// Collects distinct byte strings and numbers them in the order of their arrival.
#[derive(Default)]
pub(super) struct Interner {
    numbers: BTreeMap<Vec<u8>, u64>,
    bytes: u64,
}

impl Interner {
    /// Returns the number of a byte string.
    pub(super) fn number(&mut self, bytes: &[u8]) -> Result<u64, Error> {
        if let Some(number) = self.numbers.get(bytes) {
            return Ok(*number);
        }
        let mut copy = Vec::new();
        let failed = |_| Error::Memory { bytes: bytes.len() as u64 };
        copy.try_reserve_exact(bytes.len()).map_err(failed)?;
        copy.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        let number = self.numbers.len() as u64;
        self.numbers.insert(copy, number);
        Ok(number)
    }

    /// Returns about how much memory the byte strings and their table take.
    pub(super) fn memory(&self) -> u64 {
        2 * self.bytes + 96 * self.numbers.len() as u64
    }

    /// Returns the codec, the number that replaces each number, and the largest one.
    pub(super) fn finish(self) -> Result<(Codec, Vec<u64>, u64), Error> {
        let Self { numbers, bytes } = self;
        let len = numbers.len() as u64;
        if len == 0 {
            return Ok((Codec::Plain, Vec::new(), 0));
        }
        if bytes > MAX_BYTES {
            let what = "bytes of distinct values";
            return Err(Error::Limit { what, asked: bytes, most: MAX_BYTES });
        }
        let uniform = numbers.keys().all(|value| value.len() as u64 * len == bytes);
        let mut values = Words::zeroed(usize_words(bytes.div_ceil(8))?)?;
        let ends = if uniform { 0 } else { end_words(len, bytes) };
        let mut ends = Words::zeroed(usize_words(ends)?)?;
        let (width, mut ranks, mut end) = (width_of(bytes), Vec::new(), 0);
        let failed = |_| Error::Memory { bytes: len * 8 };
        ranks.try_reserve_exact(numbers.len()).map_err(failed)?;
        ranks.resize(numbers.len(), 0);
        for (rank, (value, number)) in (0..).zip(&numbers) {
            for (at, byte) in (end..).zip(value) {
                values.to_mut()[(at / 8) as usize] |= u64::from(*byte) << (at % 8 * 8);
            }
            end += value.len() as u64;
            if !uniform {
                packed::set(ends.to_mut(), width, rank, end);
            }
            ranks[*number as usize] = rank;
        }
        Ok((Codec::Table(Table { len, bytes, values, ends }), ranks, len - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_of(values: &[&str]) -> (Table, Vec<u64>) {
        let mut interner = Interner::default();
        let numbers: Vec<u64> =
            values.iter().map(|value| interner.number(value.as_bytes()).unwrap()).collect();
        let (codec, ranks, largest) = interner.finish().unwrap();
        let Codec::Table(table) = codec else { panic!("a table") };
        assert_eq!(largest + 1, table.len);
        (table, numbers.iter().map(|number| ranks[*number as usize]).collect())
    }

    #[test]
    fn a_table_is_sorted_and_gives_back_its_values() {
        let values = ["pear", "", "apple", "pear", "a", "zebra crossing", "apple"];
        let (table, places) = table_of(&values);
        assert_eq!((table.len, table.bytes, table.is_uniform()), (5, 24, false));
        for (value, place) in values.iter().zip(&places) {
            assert_eq!(table.get(*place).unwrap(), value.as_bytes());
            assert_eq!(table.find(value.as_bytes()), Some(*place));
        }
        assert_eq!((table.get(0).unwrap(), table.get(5)), (Vec::new(), None));
        assert_eq!(table.find(b"plum"), None);
        table.validate().unwrap();
        // Values of equal length need no ends, and the order of arrival does not matter.
        let (table, _) = table_of(&["red", "tan", "mud"]);
        assert!(table.is_uniform() && table.validate().is_ok());
        assert_eq!(table, table_of(&["mud", "red", "red", "tan"]).0);
        assert!(table_of(&[""]).0.validate().is_ok());
    }

    #[test]
    fn hostile_tables_are_refused_and_do_no_harm() {
        let (sound, _) = table_of(&["a", "bb", "ccc", "dddd"]);
        let width = width_of(sound.bytes);
        let changed = |change: &dyn Fn(&mut Table)| {
            let mut table = sound.clone();
            change(&mut table);
            for index in 0..6 {
                let _ = table.get(index);
            }
            let _ = table.find(b"bb");
            table.validate()
        };
        assert_eq!(changed(&|_| ()), Ok(()));
        let end = |index, end| {
            move |table: &mut Table| {
                packed::set(table.ends.to_mut(), width, index, end);
            }
        };
        // Out of order, out of range, short of the end, and equal values.
        for change in [end(0, 5), end(1, 15), end(3, 9), end(1, 1)] {
            assert!(changed(&change).is_err());
        }
        assert!(
            changed(&|table| table.values.to_mut()[0] = u64::from_le_bytes(*b"zbbcccdd")).is_err()
        );
        assert!(changed(&|table| table.values.to_mut()[1] |= 1 << 63).is_err());
        assert!(changed(&|table| table.ends.to_mut()[0] |= 1 << 63).is_err());
    }

    #[test]
    fn integers_of_any_sign() {
        let (least, most) = (i128::from(i64::MIN), i128::from(u64::MAX));
        assert_eq!(Codec::of_integers(0, most).unwrap(), (Codec::Plain, u64::MAX));
        assert_eq!(Codec::of_integers(-3, 4).unwrap(), (Codec::Offset(-3), 7));
        let (codec, largest) = Codec::of_integers(least, least + most).unwrap();
        assert_eq!(largest, u64::MAX);
        for value in [least, -1, 0, least + most] {
            let number = codec.encode(&Value::Integer(value), 64).unwrap();
            assert_eq!(codec.decode(number), Some(Value::Integer(value)));
        }
        for (min, max) in [(least - 1, 0), (0, most + 1), (-1, most), (least, least + most + 1)] {
            assert!(matches!(Codec::of_integers(min, max), Err(Error::IntegerSpan)));
        }
        let codec = Codec::Offset(-3);
        for value in [-4, 5, i128::MIN, i128::MAX] {
            assert!(matches!(codec.encode(&value.into(), 3), Err(Error::ValueType { .. })));
        }
        assert!(matches!(
            Codec::Plain.encode(&8.into(), 3),
            Err(Error::Value { value: 8, bits: 3 })
        ));
        assert!(matches!(Codec::Plain.encode(&"8".into(), 3), Err(Error::ValueType { .. })));
    }

    #[test]
    fn numbers_beyond_the_table_are_refused() {
        let (table, _) = table_of(&["a", "b", "c"]);
        let codec = Codec::Table(table);
        assert!(codec.validate([0, 1, 2].into_iter()).is_ok());
        assert!(codec.validate([0, 3].into_iter()).is_err());
        assert!(codec.check(2, 2).is_ok() && codec.check(3, 2).is_err());
        assert_eq!(codec.decode(3), None);
    }
}
