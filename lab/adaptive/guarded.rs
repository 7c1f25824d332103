//! A filter with its store behind it, and what its file says about the inside of a `broom`.

use std::ops::RangeInclusive;

use anyhow::{Context, Result};
use tamis::{
    AnyFilter, Broom, BuildOptions, Capability, Filter, HashId, KeyHash, KeyHasher, Keyed, Kind,
    Limits, Repair, Sizing,
};

/// The members, in the order of their hashes: what a store with an index on the hash would be.
#[derive(Clone)]
pub(crate) struct Store(pub(crate) Vec<KeyHash>);

impl Store {
    pub(crate) fn new(mut members: Vec<KeyHash>) -> Self {
        members.sort_unstable_by_key(|key| (key.hi, key.lo));
        Self(members)
    }

    pub(crate) fn members(&self, range: &RangeInclusive<u64>) -> &[KeyHash] {
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
    /// Whether ranges that are due are renewed.
    pub(crate) renews: bool,
}

impl Guarded {
    pub(crate) fn new(kind: Kind, members: Vec<KeyHash>, fpr: f64) -> Result<Self> {
        Self::fitting(kind, &Sizing::fpr(fpr).capacity(members.len() as u64), members)
    }

    pub(crate) fn fitting(kind: Kind, sizing: &Sizing, members: Vec<KeyHash>) -> Result<Self> {
        let filter = kind.build(sizing, &mut &members[..], &BuildOptions::new())?;
        Ok(Self::of(filter, members))
    }

    pub(crate) fn of(filter: AnyFilter, members: Vec<KeyHash>) -> Self {
        let adapts = filter.kind().can(Capability::Adapt);
        let counts = Counts::default();
        Self { filter, store: Store::new(members), counts, adapts, renews: true }
    }

    /// Asks for a stranger, and tells the filter if it was let in. Whether it was.
    pub(crate) fn ask(&mut self, stranger: KeyHash) -> Result<bool> {
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
                _ => {}
            }
            // More than one falls due only while all is being moved.
            let _ = self.renew()? && self.renew()?;
        }
        Ok(true)
    }

    /// Renews the range that is due, if one is.
    pub(crate) fn renew(&mut self) -> Result<bool> {
        let due = if self.renews { self.filter.due()? } else { None };
        let Some(range) = due else { return Ok(false) };
        self.counts.renewed += 1;
        self.counts.sweeps += u64::from(*range.start() == 0);
        self.filter.renew(self.store.members(&range))?;
        Ok(true)
    }

    /// How many members are denied: one by one, and in a batch.
    pub(crate) fn denied(&self) -> u64 {
        let members = &self.store.0;
        let mut out = vec![false; members.len()];
        self.filter.contains_batch(members, &mut out);
        let alone = members.iter().filter(|key| !self.filter.contains(**key)).count();
        (alone + out.iter().filter(|yes| !**yes).count()) as u64
    }

    pub(crate) fn broom(&self) -> Result<&Broom> {
        match &self.filter {
            AnyFilter::Broom(broom) => Ok(broom),
            other => anyhow::bail!("{} is no broom", other.kind()),
        }
    }

    /// Takes a member out of the filter, and puts it in again.
    pub(crate) fn reinsert(&mut self, key: KeyHash) -> Result<()> {
        anyhow::ensure!(self.filter.remove(key)?, "a member was denied");
        Ok(self.filter.insert(key)?)
    }

    /// Puts a new member in the place of an old one.
    pub(crate) fn replace(&mut self, at: usize, new: KeyHash) -> Result<()> {
        let old = self.store.0.remove(at);
        anyhow::ensure!(self.filter.remove(old)?, "a member was denied");
        self.filter.insert(new)?;
        let at = self.store.0.partition_point(|other| other.hi < new.hi);
        self.store.0.insert(at, new);
        Ok(())
    }

    pub(crate) fn bits_a_key(&self) -> f64 {
        self.filter.figures().bits_per_key()
    }
}

/// Writes a filter to memory and reads it again.
pub(crate) fn through_a_file(filter: AnyFilter) -> Result<AnyFilter> {
    let mut bytes = Vec::new();
    let keyed = Keyed::new(KeyHasher::new(HashId::Fast, [1, 2]), filter);
    keyed.write_to(&mut bytes)?;
    Ok(Keyed::<AnyFilter>::read_from(&bytes[..], &Limits::default())?.into_parts().1)
}

/// What the bins of a `broom` hold, read from its file as FORMAT.md has it.
pub(crate) struct Inside {
    /// Keys outside of their bins.
    pub(crate) outside: u64,
    /// The share of bins that are full.
    pub(crate) full: f64,
    /// Bits of extension in all bins, and in the bin with the most.
    pub(crate) bits: u64,
    pub(crate) most_bits: u64,
    pub(crate) most_salts: u64,
    /// Lines that a stranger reads on average: its bucket may be any. And a member.
    pub(crate) lines: f64,
    pub(crate) member_lines: f64,
    /// Prints in an overflow line on average, in the fullest, and those it has room for.
    pub(crate) fill: (f64, u64, u64),
}

impl Inside {
    pub(crate) fn of(broom: &Broom) -> Result<Self> {
        let mut bytes = Vec::new();
        Keyed::new(KeyHasher::new(HashId::Fast, [1, 2]), broom.clone()).write_to(&mut bytes)?;
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let shape = section(&words, "shape")?;
        let [bins, lines, b, s, r] = [0, 1, 2, 3, 4].map(|i| shape[i]);
        let (w, b, s) = (lines as u32, b as u32, s as u32);
        // Of wide remainders 8 bits are in the bin; who has these in common with a key looks further.
        let (near, is_wide) = if r > 12 { (8, 1.0) } else { (r as u32, 0.0) };
        let (mut used, mut full, mut asked_outside, mut asked_second, mut in_second) =
            (0, 0, 0, 0, 0);
        let (mut bits, mut most_bits, mut most_salts) = (0, 0, 0);
        for line in section(&words, "bins")?.chunks_exact(8 * w as usize) {
            let head = line[0];
            let index = field(line, 11 + w, b);
            let ends = field(line, 11 + w + b, s);
            let slots = 128 - ends.leading_zeros();
            used += u64::from(slots);
            full += u64::from(slots == s);
            if head >> 7 & 1 == 1 {
                // Buckets from the last one with a key on.
                asked_outside += u64::from(b - (127 - (index | 1).leading_zeros()));
            }
            // Slots that end in the second line, and buckets that end with one of them.
            let first = (512 - (11 + w + b + s)) / near;
            if slots > first {
                in_second += u64::from(slots - first);
                asked_second += u64::from((ends >> first).count_ones());
            }
            let entries = (head >> 8) as u32 & (16 * w - 1);
            let width = 11 + w;
            let codes = (1..=entries).map(|entry| field(line, 512 * w - width * entry, width) & 63);
            let extended: u64 = codes.map(|code| u64::from(code.ilog2())).sum();
            bits += extended;
            most_bits = most_bits.max(extended);
            most_salts = most_salts.max(head >> 1 & 63);
        }
        let far = is_wide * used as f64 / 256.0;
        let width = r as u32 + 23;
        let overflow = section(&words, "overflow")?.as_chunks::<8>().0;
        let fill = |line: &[u64; 8]| {
            let taken = |entry: &u32| field(line, entry * width, width) != 0;
            (0..511 / width).filter(taken).count() as u64
        };
        let sum: u64 = overflow.iter().map(fill).sum();
        let most = overflow.iter().map(fill).max().unwrap_or(0);
        let outside = broom.len() - used;
        // Those outside are looked for in the bin first.
        let more = (in_second + outside) as f64 / broom.len().max(1) as f64;
        Ok(Self {
            outside,
            full: full as f64 / bins as f64,
            bits,
            most_bits,
            most_salts,
            lines: 1.0
                + ((asked_outside + asked_second) as f64 + far) / (bins * u64::from(b)) as f64,
            member_lines: 1.0 + is_wide + more,
            fill: (sum as f64 / overflow.len() as f64, most, u64::from(511 / width)),
        })
    }
}

/// Up to 128 bits of a bin.
fn field(line: &[u64], at: u32, bits: u32) -> u128 {
    let bit = |i: u32| u128::from(line[i as usize / 64] >> (i % 64) & 1);
    (0..bits).map(|i| bit(at + i) << i).sum()
}

/// The first section of this name.
fn section<'a>(words: &'a [u64], name: &str) -> Result<&'a [u64]> {
    sections(words, name)?.first().copied().with_context(|| format!("no section {name}"))
}

/// All sections of this name.
pub(crate) fn sections<'a>(words: &'a [u64], name: &str) -> Result<Vec<&'a [u64]>> {
    let count = (words[1] >> 48) as usize;
    let mut at = (8 + 3 * count).next_multiple_of(8);
    let mut found = Vec::new();
    for entry in words[8..8 + 3 * count].as_chunks::<3>().0 {
        let len = entry[1] as usize;
        if entry[0].to_le_bytes().starts_with(name.as_bytes()) {
            found.push(words.get(at..at + len).context("the file is cut short")?);
        }
        at += len.next_multiple_of(8);
    }
    Ok(found)
}
