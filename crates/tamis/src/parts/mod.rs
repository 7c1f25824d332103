//! Builds a static filter in parts, on several machines.
//!
//! ```text
//!  worker i of n                                   driver
//!
//!  its keys ──► gather_part ──► GatheredPart
//!                               len() ───────────► adds them up: total
//!                                                  makes the shape for total keys
//!               solve(shape, total) ◄───────────── sends both to all workers
//!               Part ──► to_bytes ───────────────► from_bytes
//!                                                  assemble(shape, parts) ──► the filter
//! ```
//!
//! A static filter is solved in shards by the leading bits of the digest, each from its own records
//! alone. A part is an equal range of digests ([`PartRange`]), so it consists of whole shards if there
//! are at least as many shards as parts. If there are fewer, the parts carry their digests, and the
//! driver solves all shards. Either way the bytes are those of a build on one machine.
//!
//! In bytes, a part is a container of [`tamis_format`] whose kind has the highest bit set, so that no
//! reader takes it for a filter. It is bound to the shape and to the version of this crate.

use alloc::format;
use alloc::vec::Vec;

use core::fmt;
use core::marker::PhantomData;

use tamis_bits::Words;
use tamis_format::{Header, KeyForms, Limits, Name, Reader, Writer};
use xxhash_rust::xxh3::xxh3_64;

use crate::error::Error;
use crate::gather::{Gathered, Gathering, PartRange, Record};
use crate::kind::Kind;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::shape::Shape;
use crate::source::{EntrySource, KeySource, read_all};
use crate::traits::{Build, BuildMap, Persist, Static};
use sealed::{PartRecords, SolveParts};

const TABLE: Name = Name::new("table");
const REST: Name = Name::new("rest");
/// The bit of a container's kind that distinguishes a part from a filter.
const PART: u16 = 1 << 15;

pub(crate) mod sealed {
    use super::*;

    /// A static filter that is solved in shards by the leading bits of the digest.
    pub trait SolveParts: Build + Static + Persist {
        /// The gathered keys.
        type Records: PartRecords;
        /// A solved shard, except for its words of the table.
        type Shard;

        /// Returns the binary logarithm of the number of shards.
        fn shard_bits(shape: &Self::Shape) -> u32;

        /// Returns the words of the table. Those of the shards come first.
        fn table_words(shape: &Self::Shape) -> u64;

        /// Returns the words of the table that belong to one shard. All shards have equally many.
        fn shard_words(shape: &Self::Shape) -> u64;

        /// Solves the shards in the range of `records`, which are some of `total` records. `table`
        /// holds the words of these shards, all 0.
        fn solve_shards(
            options: &BuildOptions<'_>,
            shape: &Self::Shape,
            total: u64,
            records: Self::Records,
            table: &mut [u64],
        ) -> Result<Vec<Self::Shard>, Error>;

        /// Makes the filter of `len` records from all shards and their words.
        fn finish(
            options: &BuildOptions<'_>,
            shape: Self::Shape,
            len: u64,
            table: Words,
            shards: Vec<Self::Shard>,
        ) -> Result<Self, Error>;

        /// Returns a shard as words.
        fn encode_shard(shape: &Self::Shape, shard: Self::Shard) -> Vec<u64>;

        /// Returns the shard with this number from its words, or `None` if [`finish`](Self::finish)
        /// cannot use it. The words may be hostile.
        fn decode_shard(shape: &Self::Shape, number: u64, words: &[u64]) -> Option<Self::Shard>;

        /// Checks that a value fits the shape.
        fn check_value(shape: &Self::Shape, value: u64) -> Result<(), Error> {
            let _ = (shape, value);
            Ok(())
        }

        /// Solves all shards and makes the filter.
        fn solve_whole(
            options: &BuildOptions<'_>,
            shape: Self::Shape,
            records: Self::Records,
        ) -> Result<Self, Error> {
            let len = records.count();
            let mut table = zeroed(Self::table_words(&shape))?;
            let words = Self::shard_words(&shape) << Self::shard_bits(&shape);
            let of_shards = &mut table.to_mut()[..words as usize];
            let shards = Self::solve_shards(options, &shape, len, records, of_shards)?;
            Self::finish(options, shape, len, table, shards)
        }
    }

    /// Gathered records of any width.
    pub trait PartRecords: fmt::Debug + Sized {
        /// Gathers keys of one range, with the value 0.
        fn of_keys(
            options: &BuildOptions<'_>,
            range: PartRange,
            keys: impl KeySource,
        ) -> Result<Self, Error>;

        /// Gathers entries of one range. Returns the largest value as well.
        fn of_entries(
            options: &BuildOptions<'_>,
            range: PartRange,
            entries: impl EntrySource,
        ) -> Result<(Self, u64), Error>;

        /// Gathers the records of several lists. Returns the largest value as well.
        fn of_words(
            options: &BuildOptions<'_>,
            lists: impl Iterator<Item = Words>,
        ) -> Result<(Self, u64), Error>;

        /// Returns whether the words are records of this range.
        fn are_within(range: PartRange, words: &[u64]) -> bool;

        /// Returns the number of records.
        fn count(&self) -> u64;

        /// Returns all records, which lie in `range`, as words.
        fn into_words(self, options: &BuildOptions<'_>, range: PartRange) -> Result<Words, Error>;
    }
}

/// Allocates a table.
fn zeroed(words: u64) -> Result<Words, Error> {
    let bytes = words.saturating_mul(8);
    Ok(Words::zeroed(usize::try_from(words).map_err(|_| Error::Memory { bytes })?)?)
}

/// Makes a record of a digest and, if there is room for it, a value.
fn record<const W: usize>(digest: u64, value: u64) -> Record<W> {
    let mut record = [0; W];
    record.iter_mut().zip([digest, value]).for_each(|(word, from)| *word = from);
    record
}

/// Returns the largest value of the records.
fn largest<const W: usize>(records: &[Record<W>]) -> u64 {
    records.iter().filter_map(|record| record.get(1)).copied().max().unwrap_or(0)
}

impl<const W: usize> PartRecords for Gathered<W> {
    fn of_keys(
        options: &BuildOptions<'_>,
        range: PartRange,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let mut gathering = Gathering::new(options);
        read_all(options, keys, |run| {
            check_range(range, run.iter().map(|key| key.hi))?;
            gathering.extend(run.iter().map(|key| record(key.hi, 0)))
        })?;
        Ok(gathering.finish()?.within(range))
    }

    fn of_entries(
        options: &BuildOptions<'_>,
        range: PartRange,
        entries: impl EntrySource,
    ) -> Result<(Self, u64), Error> {
        let (mut gathering, mut largest) = (Gathering::new(options), 0);
        read_all(options, entries, |run| {
            check_range(range, run.iter().map(|(key, _)| key.hi))?;
            largest = run.iter().fold(largest, |largest, (_, value)| largest.max(*value));
            gathering.extend(run.iter().map(|(key, value)| record(key.hi, *value)))
        })?;
        Ok((gathering.finish()?.within(range), largest))
    }

    fn of_words(
        options: &BuildOptions<'_>,
        lists: impl Iterator<Item = Words>,
    ) -> Result<(Self, u64), Error> {
        let (mut gathering, mut most) = (Gathering::new(options), 0);
        for list in lists {
            options.check(0, 0)?;
            let (records, _) = list.as_chunks::<W>();
            most = most.max(largest(records));
            gathering.extend(records.iter().copied())?;
        }
        Ok((gathering.finish()?, most))
    }

    fn are_within(range: PartRange, words: &[u64]) -> bool {
        let (records, rest) = words.as_chunks::<W>();
        rest.is_empty() && records.iter().all(|record| range.contains_digest(record[0]))
    }

    fn count(&self) -> u64 {
        self.len()
    }

    fn into_words(self, options: &BuildOptions<'_>, range: PartRange) -> Result<Words, Error> {
        let bytes = [self.len() * size_of::<Record<W>>() as u64, 0];
        // The whole range is one shard.
        let copied = self.with_solver_bytes(0).solve_shards(
            options,
            range.bits(),
            bytes,
            |_, records| Ok(Words::copy_of(records.as_flattened())?),
        )?;
        Ok(copied.into_iter().next().expect("one shard"))
    }
}

fn check_range(range: PartRange, mut digests: impl Iterator<Item = u64>) -> Result<(), Error> {
    if digests.all(|digest| range.contains_digest(digest)) {
        Ok(())
    } else {
        Err(Error::Part { part: range.index(), what: "was given a key outside its range" })
    }
}

/// A static filter that can be built in parts on several machines, to the same bytes as on one.
///
/// 1. Each of `n` workers, `n` a power of two up to 256, gathers the keys in its range of
///    [`KeyHash::hi`](crate::KeyHash) with [`gather_part`](Self::gather_part), and reports
///    [`GatheredPart::len`].
/// 2. The driver adds up these numbers and makes a shape for the total, which it sends to all workers.
/// 3. Each worker calls [`GatheredPart::solve`] and returns [`Part::to_bytes`].
/// 4. The driver calls [`assemble`](Self::assemble) with all parts, in any order.
///
/// Workers must hash their keys with the same [`KeyHasher`](crate::KeyHasher). A worker that cannot keep
/// its gathered keys between steps 1 and 3 may gather them again.
///
/// A part is solved by its worker if the filter has at least as many shards as there are parts. If there
/// are fewer shards, the driver receives all digests and solves them. These numbers of keys per part, and
/// more, always leave the work to the workers, with default settings:
///
/// | kind | keys per part |
/// | --- | --- |
/// | `binary_fuse`, `xor`, `bloomier` | 8,400,000 |
/// | `ribbon` | 270,000 |
/// | `xorsat` | 48,000 |
/// | `sat` | 33,000 |
///
/// Of a `ribbon` filter the driver also solves the keys that are bumped from the first layer, 1 in 17. A
/// worker shares the work of a part among at most `256 / n` threads.
///
/// [`Guarded`](crate::Guarded) is not built in parts: which denied keys it has to encode is known only
/// once its first level is assembled.
///
/// # Examples
/// ```
/// use tamis::{BuildOptions, BuildParts, Filter, Part, PartRange, Shape, Xor, XorShape};
/// use tamis::{HashId, Key, KeyHash, KeyHasher};
///
/// let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
/// let keys: Vec<KeyHash> = (0..1000u64).map(|key| key.hash_with(&hasher)).collect();
/// let options = BuildOptions::new();
///
/// // On each worker:
/// let mut gathered = Vec::new();
/// for index in 0..2 {
///     let range = PartRange::new(index, 2)?;
///     let own: Vec<KeyHash> = keys.iter().copied().filter(|key| range.contains(*key)).collect();
///     gathered.push(Xor::gather_part(&options, range, &own[..])?);
/// }
/// // On the driver:
/// let total = gathered.iter().map(|part| part.len()).sum();
/// let shape = XorShape::fit(total, 0.01)?;
/// // On each worker:
/// let mut sent = Vec::new();
/// for part in gathered {
///     sent.push(part.solve(&options, &shape, total)?.to_bytes()?);
/// }
/// // On the driver:
/// let parts: Vec<_> = sent.iter().map(|bytes| Part::from_bytes(bytes)).collect::<Result<_, _>>()?;
/// let filter = Xor::assemble(&options, shape, parts)?;
/// assert!(keys.iter().all(|key| filter.contains(*key)));
/// # Ok::<_, tamis::Error>(())
/// ```
pub trait BuildParts: SolveParts {
    /// Gathers the keys of one part, and counts the distinct ones.
    ///
    /// # Errors
    /// [`Error::Part`] if a key lies outside the range; otherwise as [`Build::build_with`].
    fn gather_part(
        options: &BuildOptions<'_>,
        range: PartRange,
        keys: impl KeySource,
    ) -> Result<GatheredPart<Self>, Error> {
        let records = Self::Records::of_keys(options, range, keys)?;
        Ok(GatheredPart { range, records, largest: 0 })
    }

    /// Gathers the keys of one part, with their values.
    ///
    /// # Errors
    /// As [`gather_part`](Self::gather_part).
    fn gather_map_part(
        options: &BuildOptions<'_>,
        range: PartRange,
        entries: impl EntrySource,
    ) -> Result<GatheredPart<Self>, Error>
    where
        Self: BuildMap,
    {
        let (records, largest) = Self::Records::of_entries(options, range, entries)?;
        Ok(GatheredPart { range, records, largest })
    }

    /// Makes the filter from all its parts, in any order. `shape` is the one that they were solved for.
    ///
    /// The driver holds the filter's tables and one part at a time, if `parts` is an iterator that
    /// reads them one by one.
    ///
    /// # Errors
    /// [`Error::Part`] if a part is missing, given twice, or was solved for another shape, number of keys
    /// or number of parts. [`Error::Capacity`] if they have more keys than the shape is made for.
    /// [`Error::File`] if a part cannot be one of this filter.
    fn assemble(
        options: &BuildOptions<'_>,
        shape: Self::Shape,
        parts: impl IntoIterator<Item = Part<Self>>,
    ) -> Result<Self, Error> {
        Assembly::new(shape).finish(options, parts)
    }
}

/// The gathered keys of one part: step 1 of [`BuildParts`].
pub struct GatheredPart<F: BuildParts> {
    range: PartRange,
    records: F::Records,
    largest: u64,
}

impl<F: BuildParts> GatheredPart<F> {
    /// Returns the range of the part.
    pub fn range(&self) -> PartRange {
        self.range
    }

    /// Returns the number of distinct keys.
    pub fn len(&self) -> u64 {
        self.records.count()
    }

    /// Returns whether the part has no keys.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bits of the widest value, at least 1. A map's shape must have values as wide as the
    /// widest of all parts.
    pub fn value_bits(&self) -> u32 {
        (64 - self.largest.leading_zeros()).max(1)
    }

    /// Solves the part. `total` is the number of keys of all parts.
    ///
    /// # Errors
    /// [`Error::Capacity`] if the shape is made for fewer keys than `total`, [`Error::Part`] if the part
    /// alone has more, [`Error::Value`] if the shape's values are too narrow; otherwise as
    /// [`Build::build_with`] and [`BuildMap::build_map_with`].
    pub fn solve(
        self,
        options: &BuildOptions<'_>,
        shape: &F::Shape,
        total: u64,
    ) -> Result<Part<F>, Error> {
        let Self { range, records, largest } = self;
        let (len, capacity) = (records.count(), shape.keys());
        if total > capacity {
            return Err(Error::Capacity { capacity });
        }
        if len > total {
            return Err(Error::Part {
                part: range.index(),
                what: "has more keys than the stated total",
            });
        }
        F::check_value(shape, largest)?;
        let (mut table, rest);
        match shards_of::<F>(range, shape) {
            None => (table, rest) = (Words::zeroed(0)?, records.into_words(options, range)?),
            Some(shards) => {
                table = zeroed(F::shard_words(shape) * shards.len() as u64)?;
                let solved = F::solve_shards(options, shape, total, records, table.to_mut())?;
                let mut words = Vec::new();
                for shard in solved {
                    let shard = F::encode_shard(shape, shard);
                    words.push(shard.len() as u64);
                    words.extend(shard);
                }
                rest = Words::copy_of(&words)?;
            }
        }
        Ok(Part { range, len, total, shape: check_value(shape), table, rest, kind: PhantomData })
    }
}

impl<F: BuildParts> fmt::Debug for GatheredPart<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut part = f.debug_struct("GatheredPart");
        part.field("range", &self.range).field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Returns the numbers of the shards that a part consists of, or `None` if it is less than a shard.
fn shards_of<F: SolveParts>(range: PartRange, shape: &F::Shape) -> Option<core::ops::Range<usize>> {
    let bits = F::shard_bits(shape);
    (range.bits() <= bits).then(|| range.shards(bits))
}

/// Returns a number that distinguishes shapes and versions of this crate, whose solvers may differ.
fn check_value(shape: &impl Shape) -> u64 {
    xxh3_64(format!("{} {shape:?}", env!("CARGO_PKG_VERSION")).as_bytes())
}

/// One solved part of a filter: step 3 of [`BuildParts`].
pub struct Part<F> {
    range: PartRange,
    len: u64,
    /// The keys of all parts.
    total: u64,
    /// The check value of the shape.
    shape: u64,
    /// The shards' words of the table. Without shards it is empty.
    table: Words,
    /// The other words of the shards, each shard after the number of its words. Without shards: the
    /// records.
    rest: Words,
    kind: PhantomData<fn() -> F>,
}

impl<F: BuildParts> Part<F> {
    /// Returns the range of the part.
    pub fn range(&self) -> PartRange {
        self.range
    }

    /// Returns the number of distinct keys.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the part has no keys.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the part as bytes.
    ///
    /// # Errors
    /// [`Error::Memory`] if the allocation fails.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let mut writer = Writer::new();
        let [table, rest] = [&self.table, &self.rest].map(|words| words.len() as u64);
        let (parts, index) = (self.range.parts(), self.range.index());
        writer.shape(&[parts, index, self.total, self.shape, table, rest]);
        writer.words(TABLE, &self.table);
        writer.words(REST, &self.rest);
        let (kind, key_forms) = (kind_of::<F>(), KeyForms::NONE);
        Ok(writer.to_vec(&Header { kind, hash: 0, keys: self.len, seed: [0; 2], key_forms })?)
    }

    /// Reads a part from bytes, which may be hostile.
    ///
    /// # Errors
    /// [`Error::File`] if they are damaged or not a part, [`Error::Mismatch`] if they are a part of
    /// another kind of filter.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut reader = Reader::from_bytes(bytes, &Limits::default())?;
        let Header { kind, keys: len, .. } = *reader.header();
        if kind & PART == 0 {
            return Err(tamis_format::Error::corrupt("a filter instead of a part").into());
        }
        if kind != kind_of::<F>() {
            return Err(Error::Mismatch { what: "kind" });
        }
        reader.verify()?;
        let mut fields = reader.shape()?;
        let parts = fields.next(1..=PartRange::MAX_PARTS, "number of parts")?;
        let index = fields.next(0..=parts - 1, "number of the part")?;
        let total = fields.next(len..=MAX_KEYS, "number of keys")?;
        let shape = fields.next(0..=u64::MAX, "check value of the shape")?;
        let table = fields.next(0..=u64::MAX, "words of the table")?;
        let rest = fields.next(0..=u64::MAX, "words of the rest")?;
        fields.finish()?;
        let range = PartRange::new(index, parts)
            .map_err(|_| reader.corrupt("the number of parts is not a power of two"))?;
        let (table, rest) = (reader.words(TABLE, table)?, reader.words(REST, rest)?);
        reader.finish()?;
        Ok(Self { range, len, total, shape, table, rest, kind: PhantomData })
    }
}

impl<F> fmt::Debug for Part<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut part = f.debug_struct("Part");
        part.field("range", &self.range).field("len", &self.len).finish_non_exhaustive()
    }
}

/// Returns the kind that the container of a part states.
fn kind_of<F: BuildParts>() -> u16 {
    let kind = Kind::ALL.iter().find(|kind| F::accepts(**kind));
    kind.expect("every filter has a kind").id() | PART
}

/// The parts of a filter that have arrived.
struct Assembly<F: BuildParts> {
    shape: F::Shape,
    check_value: u64,
    /// The number of parts and the total of keys that the first part states.
    stated: Option<(u64, u64)>,
    table: Words,
    arrived: Vec<Option<Arrived<F::Shard>>>,
    len: u64,
}

/// A part without its words of the table.
enum Arrived<S> {
    Shards(Vec<S>),
    Records(Words),
}

impl<F: BuildParts> Assembly<F> {
    fn new(shape: F::Shape) -> Self {
        let check_value = check_value(&shape);
        let table = Words::zeroed(0).expect("no words take no memory");
        Self { shape, check_value, stated: None, table, arrived: Vec::new(), len: 0 }
    }

    fn finish(
        mut self,
        options: &BuildOptions<'_>,
        parts: impl IntoIterator<Item = Part<F>>,
    ) -> Result<F, Error> {
        for part in parts {
            options.check(self.len, self.len)?;
            self.add(part)?;
        }
        let missing = self.arrived.iter().position(Option::is_none);
        let (Some((_, total)), None) = (self.stated, missing) else {
            let part = missing.unwrap_or(0) as u64;
            return Err(Error::Part { part, what: "is missing" });
        };
        if total > self.shape.keys() {
            return Err(Error::Capacity { capacity: self.shape.keys() });
        }
        if self.len != total {
            let what = "was solved for another number of keys than the parts have";
            return Err(Error::Part { part: 0, what });
        }
        let (mut shards, mut lists) = (Vec::new(), Vec::new());
        for part in self.arrived.into_iter().flatten() {
            match part {
                Arrived::Shards(more) => shards.extend(more),
                Arrived::Records(records) => lists.push(records),
            }
        }
        let filter = if lists.is_empty() {
            F::finish(options, self.shape, total, self.table, shards)?
        } else {
            let (records, largest) = F::Records::of_words(options, lists.into_iter())?;
            F::check_value(&self.shape, largest)?;
            if records.count() != total {
                return Err(corrupt("a part has a key twice"));
            }
            F::solve_whole(options, self.shape, records)?
        };
        filter.validate()?;
        Ok(filter)
    }

    fn add(&mut self, part: Part<F>) -> Result<(), Error> {
        let Part { range, len, total, shape, table, rest, .. } = part;
        let index = range.index();
        let wrong = |what| Err(Error::Part { part: index, what });
        if shape != self.check_value {
            return wrong("was solved for another shape");
        }
        let shards = shards_of::<F>(range, &self.shape);
        match self.stated {
            None => {
                self.stated = Some((range.parts(), total));
                self.arrived = (0..range.parts()).map(|_| None).collect();
                if shards.is_some() {
                    self.table = zeroed(F::table_words(&self.shape))?;
                }
            }
            Some((parts, _)) if parts != range.parts() => {
                return wrong("belongs to another number of parts");
            }
            Some((_, keys)) if keys != total => {
                return wrong("was solved for another number of keys");
            }
            Some(_) if self.arrived[index as usize].is_some() => return wrong("was given twice"),
            Some(_) => {}
        }
        self.len += len;
        self.arrived[index as usize] = Some(match shards {
            None => {
                if !table.is_empty() || !F::Records::are_within(range, &rest) {
                    return Err(corrupt("a part has a digest outside its range"));
                }
                Arrived::Records(rest)
            }
            Some(shards) => {
                let words = F::shard_words(&self.shape) as usize;
                if table.len() != words * shards.len() {
                    return Err(corrupt("a part has another number of words"));
                }
                self.table.to_mut()[words * shards.start..][..table.len()].copy_from_slice(&table);
                let decoded = decode_shards::<F>(&self.shape, shards, &rest);
                Arrived::Shards(decoded.ok_or_else(|| corrupt("a shard of a part is not valid"))?)
            }
        });
        Ok(())
    }
}

fn corrupt(what: &'static str) -> Error {
    tamis_format::Error::corrupt(what).into()
}

/// Returns the shards with these numbers from their words, if the words are exactly these shards.
fn decode_shards<F: SolveParts>(
    shape: &F::Shape,
    shards: core::ops::Range<usize>,
    mut words: &[u64],
) -> Option<Vec<F::Shard>> {
    let mut decoded = Vec::new();
    for number in shards {
        let len = usize::try_from(*words.split_off_first()?).ok()?;
        let own = words.split_off(..len)?;
        decoded.push(F::decode_shard(shape, number as u64, own)?);
    }
    words.is_empty().then_some(decoded)
}

#[cfg(test)]
pub(crate) mod tests;
