//! The scalable Bloom filter: when a Bloom filter is full, one of twice the keys is put beside it.
//!
//! ```text
//!  stage 0 | n keys  at e(1-t)     |
//!  stage 1 | 2n keys at e(1-t)t             |      a stranger must be denied by all of them,
//!  stage 2 | 4n keys at e(1-t)t^2                            |      so their rates add up: to e at most
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | 1.44 (log2(1/fpr) + log2(1/(1-t)) + i log2(1/t)) in stage i: at 1 % and t = 0.85, 13.3 at first, 14.7 to 17.1 at full stages after 10^7 keys from 10^3, and more than twice that when a stage has just begun |
//! | cache lines | a stranger: 2 a stage; a member: k of its own stage and 2 of each that is newer |
//! | building | k bits set a key; a new stage is cleared in one go |
//!
//! The newest stage has about half of all keys, and is asked first. It cannot forget a key, and a
//! query takes longer with each stage: [`growing`](super::growing) does both better, in less memory, and its memory
//! does not double when a stage begins. This one is for those who know it, and for a set that will
//! rarely outgrow its first size.
//!
//! Almeida, Baquero, Preguiça, Hutchison, *Scalable Bloom Filters*, 2007. Differences: stages are
//! Bloom filters of any number of bits, not sliced into k; a stage is full at so many keys, not at so
//! many bits set; the first stage's rate is e(1-t), so that the sum is what was asked for.

use tamis_bits::Words;
use tamis_format::{Name, Reader, Writer};

use super::bloom::{MAX_PROBES, all_set, rate, smallest};
use super::common::{build_by_inserting, insert_batch, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::{MAX_BYTES, MAX_KEYS};
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Grow, Insert, Persist};

const BITS: Name = Name::new("bits");
/// Percent of a stage's rate that the next has.
const USUAL_TIGHTENING: u64 = 85;

const TIGHTENING: Setting = Setting::new(
    "tightening",
    "50 to 99: the percent of a stage's rate that the next one has; else 85",
);

/// Keys of the first stage, and the rate of all.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalableBloomShape {
    keys: u64,
    fpr: f64,
    tightening: u64,
}

/// One of the Bloom filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stage {
    bits: u64,
    probes: u32,
    keys: u64,
}

impl ScalableBloomShape {
    /// A shape by hand: keys of the first stage, the rate of all stages together, and the percent
    /// of a stage's rate that the next one has.
    pub fn new(keys: u64, fpr: f64, tightening: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        crate::shape::check_fpr(fpr)?;
        if !(50..=99).contains(&tightening) {
            let why = "a stage has 50 to 99 percent of the rate of the one before";
            return Err(Error::Infeasible { why });
        }
        let shape = Self { keys, fpr, tightening };
        shape.stage(0).map(|_| shape)
    }

    /// Stage number `i`. Its rate is a product and its size comes of logarithms: a file holds what
    /// came of them, since not all machines agree to the last bit.
    fn stage(&self, i: u32) -> Result<Stage, Error> {
        let tightening = self.tightening as f64 / 100.0;
        let rate = self.fpr * (1.0 - tightening) * tightening.powi(i as i32);
        let keys = self.keys.max(1).checked_shl(i).filter(|keys| *keys <= MAX_KEYS);
        let keys =
            keys.ok_or(Error::Infeasible { why: "that is more keys than any filter takes" })?;
        let (bits, probes) = smallest(keys, rate, &Settings::default())?;
        if u64::from(probes) > MAX_PROBES || bits > MAX_BYTES * 8 {
            return Err(Error::Infeasible { why: "a stage's rate gets too small" });
        }
        Ok(Stage { bits, probes, keys })
    }

    /// The stages of so many keys, each with those that are in it.
    fn stages(&self, mut keys: u64) -> impl Iterator<Item = (Stage, u64)> {
        (0..).map_while(|i| self.stage(i).ok()).enumerate().map_while(move |(i, stage)| {
            let here = keys.min(stage.keys);
            keys -= here;
            (i == 0 || here > 0).then_some((stage, here))
        })
    }
}

impl Shape for ScalableBloomShape {
    const SETTINGS: &'static [Setting] = &[TIGHTENING];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let percent = settings.number(&TIGHTENING, |percent| (50..=99).contains(&percent))?;
        Self::new(keys, fpr, percent.unwrap_or(USUAL_TIGHTENING))
    }

    /// At its first size: one stage.
    fn figures(&self) -> Figures {
        self.figures_at(self.keys)
    }

    fn figures_at(&self, keys: u64) -> Figures {
        let stages: Vec<_> = self.stages(keys).collect();
        let probes: u32 = stages.last().map_or(0, |(stage, _)| stage.probes);
        Figures {
            keys,
            fpr: self.fpr_at(keys),
            bytes: stages.iter().map(|(stage, _)| stage.bits / 8).sum(),
            query_cost: f64::from(probes) * 1.125 + (stages.len() as f64 - 1.0) * 2.25,
        }
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        let denied =
            self.stages(keys).map(
                |(Stage { bits, probes, .. }, keys)| {
                    if keys == 0 { 1.0 } else { 1.0 - rate(bits, probes, keys) }
                },
            );
        1.0 - denied.product::<f64>()
    }
}

/// A scalable Bloom filter.
///
/// ```
/// use tamis::{Keyed, ScalableBloom};
///
/// let mut seen = Keyed::<ScalableBloom>::with_capacity(1000, 0.01)?;
/// for key in 0..100_000u64 {
///     seen.insert(&key)?;
/// }
/// assert!(seen.contains(&99_999u64));
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ScalableBloom {
    shape: ScalableBloomShape,
    len: u64,
    /// Keys for which there is room in the stages.
    room: u64,
    stages: Vec<(Stage, Words)>,
}

impl ScalableBloom {
    /// An empty filter.
    pub fn new(shape: ScalableBloomShape) -> Result<Self, Error> {
        let mut filter = Self { shape, len: 0, room: 0, stages: Vec::new() };
        filter.begin_stage()?;
        Ok(filter)
    }

    fn begin_stage(&mut self) -> Result<(), Error> {
        let stage = self.shape.stage(self.stages.len() as u32)?;
        let words = Words::zeroed(usize_words(stage.bits / 64)?)?;
        self.room += stage.keys;
        self.stages.push((stage, words));
        Ok(())
    }
}

impl Filter for ScalableBloom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        let in_stage =
            |(stage, words): &(Stage, Words)| all_set(words, stage.bits, stage.probes, key);
        self.stages.iter().rev().any(in_stage)
    }

    /// Every insertion.
    fn len(&self) -> u64 {
        self.len
    }

    /// Stage by stage, the newest first, those that are denied so far side by side.
    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        const LANES: usize = 64;
        assert!(out.len() >= keys.len(), "an answer for each key");
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            let (mut left, mut places, mut yes) =
                ([KeyHash { hi: 0, lo: 0 }; LANES], [0; LANES], [false; LANES]);
            let mut count = keys.len();
            left[..count].copy_from_slice(keys);
            places.iter_mut().enumerate().for_each(|(at, place)| *place = at);
            out[..count].fill(false);
            for (stage, words) in self.stages.iter().rev() {
                super::bloom::contains_batch_in_rounds(
                    words,
                    stage.bits,
                    stage.probes,
                    &left[..count],
                    &mut yes,
                );
                let mut kept = 0;
                for at in 0..count {
                    out[places[at]] = yes[at];
                    (left[kept], places[kept]) = (left[at], places[at]);
                    kept += usize::from(!yes[at]);
                }
                count = kept;
            }
        }
    }
}

impl Build for ScalableBloom {
    type Shape = ScalableBloomShape;

    fn shape(&self) -> &ScalableBloomShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<ScalableBloomShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for ScalableBloom {
    /// Full only where there is no memory for another stage, or no rate left for it.
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        if self.len >= self.room {
            self.begin_stage().map_err(|_| Full::NONE)?;
        }
        let (stage, words) = self.stages.last_mut().ok_or(Full::NONE)?;
        let words = words.to_mut();
        for bit in key.probes(stage.bits).take(stage.probes as usize) {
            tamis_bits::set::set(words, bit);
        }
        self.len += 1;
        Ok(())
    }

    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        insert_batch(self, keys, |filter, key| {
            if let Some((stage, words)) = filter.stages.last() {
                for bit in key.probes(stage.bits).take(stage.probes as usize) {
                    tamis_bits::prefetch(words, (bit / 64) as usize);
                }
            }
        })
    }
}

impl Grow for ScalableBloom {}

impl Persist for ScalableBloom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let mut fields = vec![self.shape.keys, self.shape.fpr.to_bits(), self.shape.tightening];
        for (stage, _) in &self.stages {
            fields.extend([stage.bits, stage.probes.into()]);
        }
        to.shape(&fields);
        to.pieces(BITS, self.stages.iter().map(|(_, words)| words.into()));
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let keys = fields.next(0..=MAX_KEYS, "keys of its first stage")?;
        let fpr = f64::from_bits(fields.next(0..=f64::MAX.to_bits(), "false positive rate")?);
        let tightening = fields.next(50..=99, "percent of a rate")?;
        let corrupt = |what| Error::from(tamis_format::Error::corrupt(what));
        let shape =
            ScalableBloomShape::new(keys, fpr, tightening).map_err(|_| corrupt("no such shape"))?;
        let (mut stages, mut room, mut words) = (Vec::new(), 0u64, 0u64);
        // As many stages as its keys take.
        while stages.is_empty() || room < len {
            let keys =
                keys.max(1).checked_shl(stages.len() as u32).filter(|keys| *keys <= MAX_KEYS);
            let keys = keys.ok_or_else(|| corrupt("more keys than any filter takes"))?;
            let bits = fields.next(512..=MAX_BYTES * 8, "number of bits")?;
            let probes = fields.next(1..=MAX_PROBES, "bits a key")? as u32;
            // No rate takes fewer bits than a fifth of one a key; and the next stage is as large as
            // the keys of this one say.
            if bits % 512 != 0 || keys / 8 > bits {
                return Err(corrupt("a stage has no such size"));
            }
            (room, words) = (room + keys, words.saturating_add(bits / 64));
            stages.push(Stage { bits, probes, keys });
        }
        fields.finish()?;
        let all = from.words(BITS, words)?;
        let mut at = 0;
        let parts = stages.into_iter().map(|stage| {
            let len = (stage.bits / 64) as usize;
            at += len;
            Ok((stage, all.part(at - len, len)?))
        });
        let stages = parts.collect::<Result<_, Error>>()?;
        Ok(Self { shape, len, room, stages })
    }

    /// Any bits might have been set; but in a stage that no key has come to, none.
    fn validate(&self) -> Result<(), Error> {
        if self.len > 0 || self.stages.iter().all(|(_, words)| words.iter().all(|word| *word == 0))
        {
            return Ok(());
        }
        Err(tamis_format::Error::corrupt("bits are set, though no key is in").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{HashId, Key, KeyHasher};

    #[test]
    fn stages_begin_when_they_are_needed_and_add_up_to_the_rate() {
        let shape = ScalableBloomShape::new(100, 0.02, 50).unwrap();
        let mut filter = ScalableBloom::new(shape.clone()).unwrap();
        let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
        for key in 0..6500u64 {
            let stages = (1..).find(|stages| key < ((1 << stages) - 1) * 100).unwrap_or(0);
            filter.insert(key.hash_with(&hasher)).unwrap();
            assert_eq!(filter.stages.len(), stages, "{key} keys");
        }
        // Stages so large that whole lines do not show.
        let shape = ScalableBloomShape::new(100_000, 0.02, 50).unwrap();
        let full = 6_300_000;
        let sum: f64 = shape.stages(full).map(|(s, keys)| rate(s.bits, s.probes, keys)).sum();
        assert!(sum < 0.02 && sum > 0.0195, "{sum}");
        assert!(shape.fpr_at(full) < sum && shape.fpr_at(full) > 0.98 * sum);
        assert!(shape.fpr_at(2 * full) > shape.fpr_at(full) && shape.fpr_at(1 << 30) < 0.02);
    }
}
