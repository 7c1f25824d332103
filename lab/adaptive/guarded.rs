//! A filter with its store behind it, and what its file says about the inside of a `broom`.

use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use tamis::{
    AnyFilter, Broom, Capability, Filter, Goal, Hash, HashId, Hasher, Keyed, Kind, Limits, Repair,
    Settings,
};

/// The members, in the order of their hashes: what a store with an index on the hash would be.
#[derive(Clone)]
pub(crate) struct Store(pub(crate) Vec<Hash>);

impl Store {
    pub(crate) fn new(mut members: Vec<Hash>) -> Self {
        members.sort_unstable_by_key(|key| (key.hi, key.lo));
        Self(members)
    }

    pub(crate) fn members(&self, range: &RangeInclusive<u64>) -> &[Hash] {
        let start = self.0.partition_point(|key| key.hi < *range.start());
        let count = self.0[start..].partition_point(|key| key.hi <= *range.end());
        &self.0[start..start + count]
    }
}

/// What has happened to a filter.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) asked: u64,
    pub(crate) passed: u64,
    pub(crate) rehashed: u64,
    pub(crate) impossible: u64,
    /// Ranges read to renew them, and how often that began at the first.
    pub(crate) renewed: u64,
    pub(crate) sweeps: u64,
}

impl Counts {
    /// The rate since `before`, in units of `eps`.
    pub(crate) fn since(&self, before: &Self, eps: f64) -> f64 {
        (self.passed - before.passed) as f64 / (self.asked - before.asked).max(1) as f64 / eps
    }
}

/// A filter, adaptive or not, and the store behind it.
pub(crate) struct Guarded {
    pub(crate) filter: AnyFilter,
    pub(crate) store: Store,
    pub(crate) counts: Counts,
    adapts: bool,
}

impl Guarded {
    pub(crate) fn new(kind: Kind, members: Vec<Hash>, fpr: f64) -> Result<Self> {
        let goal = Goal::KeysFpr { keys: members.len() as u64, fpr };
        Self::fitting(kind, goal, members)
    }

    pub(crate) fn fitting(kind: Kind, goal: Goal, members: Vec<Hash>) -> Result<Self> {
        let filter = kind.build(1, goal, &Settings::default(), &members[..])?;
        Ok(Self::of(filter, members))
    }

    pub(crate) fn of(filter: AnyFilter, members: Vec<Hash>) -> Self {
        let adapts = filter.kind().can(Capability::Adapt);
        Self { filter, store: Store::new(members), counts: Counts::default(), adapts }
    }

    /// Asks for a stranger, and tells the filter if it was let in. Whether it was.
    pub(crate) fn ask(&mut self, stranger: Hash) -> Result<bool> {
        self.counts.asked += 1;
        if !self.filter.contains(stranger) {
            return Ok(false);
        }
        self.counts.passed += 1;
        if self.adapts {
            let range = self.filter.suspects(stranger)?;
            match self.filter.adapt(stranger, self.store.members(&range))? {
                Repair::Rehashed => self.counts.rehashed += 1,
                Repair::Impossible => self.counts.impossible += 1,
                Repair::Extended | Repair::NotNeeded => {}
            }
            // More than one falls due only while all is being moved.
            let _ = self.renew()? && self.renew()?;
        }
        Ok(true)
    }

    /// Renews the range that is due, if one is.
    pub(crate) fn renew(&mut self) -> Result<bool> {
        let Some(range) = self.filter.due()? else { return Ok(false) };
        self.counts.renewed += 1;
        self.counts.sweeps += u64::from(*range.start() == 0);
        self.filter.renew(self.store.members(&range))?;
        Ok(true)
    }

    /// How many members are denied: one by one, and in a batch.
    pub(crate) fn denied(&self) -> u64 {
        let members = &self.store.0;
        let mut out = vec![false; members.len()];
        self.filter.contains_each(members, &mut out);
        let alone = members.iter().filter(|key| !self.filter.contains(**key)).count();
        (alone + out.iter().filter(|yes| !**yes).count()) as u64
    }

    pub(crate) fn broom(&self) -> Result<&Broom> {
        match &self.filter {
            AnyFilter::Broom(broom) => Ok(broom),
            other => anyhow::bail!("{} is no broom", other.kind()),
        }
    }

    pub(crate) fn bits_a_key(&self) -> f64 {
        self.filter.figures().bits_per_key()
    }
}

/// Writes a filter to memory and reads it again.
pub(crate) fn through_a_file(filter: AnyFilter) -> Result<AnyFilter> {
    let mut bytes = Vec::new();
    let keyed = Keyed::new(Hasher::new(HashId::Fast, [1, 2]), filter);
    keyed.write(&mut bytes)?;
    Ok(Keyed::<AnyFilter>::read(&bytes[..], &Limits::default())?.into_parts().1)
}

/// What the bins of a `broom` hold, read from its file as FORMAT.md has it.
pub(crate) struct Inside {
    /// Keys outside of their bins.
    pub(crate) outside: u64,
    /// Bits of extension in all bins, and in the bin with the most.
    pub(crate) bits: u64,
    pub(crate) most_bits: u64,
    pub(crate) most_salts: u64,
    /// Lines that a stranger reads on average: its bucket may be any.
    pub(crate) lines: f64,
    /// Prints in an overflow line on average, in the fullest, and those it has room for.
    pub(crate) fill: (f64, u64, u64),
}

impl Inside {
    pub(crate) fn of(broom: &Broom) -> Result<Self> {
        let mut bytes = Vec::new();
        Keyed::new(Hasher::new(HashId::Fast, [1, 2]), broom.clone()).write(&mut bytes)?;
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let shape = section(&words, "shape")?;
        let (bins, b, s, r) = (shape[0], shape[1] as u32, shape[2] as u32, shape[3]);
        let (mut used, mut asked_outside) = (0, 0);
        let (mut bits, mut most_bits, mut most_salts) = (0, 0, 0);
        for line in section(&words, "bins")?.as_chunks::<8>().0 {
            let head = line[0];
            let index = field(line, 12, b);
            used += u64::from(64 - field(line, 12 + b, s).leading_zeros());
            if head >> 7 & 1 == 1 {
                // Buckets from the last one with a key on.
                asked_outside += u64::from(b - (63 - (index | 1).leading_zeros()));
            }
            let entries = (head >> 8 & 15) as u32;
            let codes = (1..=entries).map(|entry| field(line, 512 - 12 * entry, 12) & 63);
            let extended: u64 = codes.map(|code| u64::from(code.ilog2())).sum();
            bits += extended;
            most_bits = most_bits.max(extended);
            most_salts = most_salts.max(head >> 1 & 63);
        }
        // Of wide remainders 8 bits are in the line; who has these in common with a key looks further.
        let far = if r > 12 { used as f64 / 256.0 } else { 0.0 };
        let width = r as u32 + 23;
        let overflow = section(&words, "overflow")?.as_chunks::<8>().0;
        let fill = |line: &[u64; 8]| {
            let taken = |entry: &u32| field(line, entry * width, width) != 0;
            (0..511 / width).filter(taken).count() as u64
        };
        let sum: u64 = overflow.iter().map(fill).sum();
        let most = overflow.iter().map(fill).max().unwrap_or(0);
        Ok(Self {
            outside: broom.len() - used,
            bits,
            most_bits,
            most_salts,
            lines: 1.0 + (asked_outside as f64 + far) / (bins * u64::from(b)) as f64,
            fill: (sum as f64 / overflow.len() as f64, most, u64::from(511 / width)),
        })
    }
}

/// Up to 64 bits of a line.
fn field(line: &[u64; 8], at: u32, bits: u32) -> u64 {
    let (word, shift) = ((at / 64) as usize, at % 64);
    let high = line.get(word + 1).map_or(0, |next| u128::from(*next) << 64);
    (((u128::from(line[word]) | high) >> shift) & ((1 << bits) - 1)) as u64
}

/// The first section of this name.
fn section<'a>(words: &'a [u64], name: &str) -> Result<&'a [u64]> {
    let count = (words[1] >> 48) as usize;
    let mut at = (8 + 3 * count).next_multiple_of(8);
    for entry in words[8..8 + 3 * count].as_chunks::<3>().0 {
        let len = entry[1] as usize;
        if entry[0].to_le_bytes().starts_with(name.as_bytes()) {
            return words.get(at..at + len).context("the file is cut short");
        }
        at += len.next_multiple_of(8);
    }
    anyhow::bail!("no section {name}")
}
