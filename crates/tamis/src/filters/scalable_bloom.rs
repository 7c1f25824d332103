//! The scalable Bloom filter: when a Bloom filter is full, another one of g times the capacity is added.
//!
//! ```text
//!  stage 0 | n keys    at e(1-t)    |
//!  stage 1 | gn keys   at e(1-t)t            |     a non-member must be rejected by all stages,
//!  stage 2 | g^2 n keys at e(1-t)t^2                          |    so their rates add up to at most e
//! ```
//!
//! | figure | |
//! | --- | --- |
//! | bits per key | 1.44 (log2(1/fpr) + log2(1/(1-t)) + i log2(1/t)) in stage i: at 1 %, t = 0.85 and g = 2, 13.3 at first, 14.7 to 17.1 at full stages after 10^7 keys from 10^3, and more than twice that when a stage has just begun |
//! | cache lines | 2 per stage for a non-member; for a member, k in its own stage and 2 in each newer one |
//! | building | k bits set per key; a new stage is allocated as zeros |
//!
//! `growth` sets g. With the default of 2, the newest stage has about half of all keys. With 4 it has
//! about three quarters, and there are half as many stages, so lookups are faster and later stages
//! have higher rates, which take fewer bits; but a new stage takes 4 times the memory of the one
//! before. Lookups start with the newest stage.
//!
//! Keys cannot be removed, and a lookup takes longer with each stage. [`growing`](super::growing)
//! removes keys, takes less memory, and its memory does not double when a stage begins. This filter
//! suits a set that rarely outgrows its first capacity.
//!
//! Almeida, Baquero, Preguiça, Hutchison, *Scalable Bloom Filters*, 2007. Differences: stages are
//! Bloom filters of any number of bits, not sliced into k parts; a stage is full at a number of keys,
//! not at a number of set bits; the rate of the first stage is e(1-t), so that the sum is the rate of
//! the shape.

use alloc::vec;
use alloc::vec::Vec;

use tamis_bits::Words;
use tamis_format::{Name, Reader, Writer};

use super::bloom::{MAX_PROBES, all_set, rate, smallest};
use super::common::{build_by_inserting, insert_batch, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::{MAX_BYTES, MAX_KEYS};
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Grow, Insert, Persist};

const BITS: Name = Name::new("bits");
/// The fewest bits of a stage.
const MIN_BITS: u64 = 512;
const DEFAULT_TIGHTENING: u64 = 85;
const DEFAULT_GROWTH: u64 = 2;
const FAST_GROWTH: u64 = 4;

const TIGHTENING: Setting = Setting::new(
    "tightening",
    "50 to 99: the rate of a stage as a percentage of the one before; default 85",
);
const GROWTH: Setting = Setting::new(
    "growth",
    "2 or 4: how many times larger a stage's capacity is than the one before; default 2",
);

/// The shape: the capacity of the first stage, the rate of all stages together, and how capacity and
/// rate change from stage to stage.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalableBloomShape {
    keys: u64,
    fpr: f64,
    tightening: u64,
    growth: u64,
}

/// One of the Bloom filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stage {
    bits: u64,
    probes: u32,
    keys: u64,
}

impl ScalableBloomShape {
    /// Returns the shape for `keys` keys in the first stage and a rate of `fpr` of all stages together.
    /// The rate of a stage is `tightening` percent of the one before, 50 to 99, and its capacity is
    /// twice as large.
    ///
    /// # Errors
    /// [`Error::Limit`], [`Error::Fpr`] or [`Error::Infeasible`] if an argument is out of range.
    pub fn new(keys: u64, fpr: f64, tightening: u64) -> Result<Self, Error> {
        crate::shape::check_keys(keys)?;
        crate::shape::check_fpr(fpr)?;
        if !(50..=99).contains(&tightening) {
            let why = "the tightening must be 50 to 99 percent";
            return Err(Error::Infeasible { why });
        }
        let shape = Self { keys, fpr, tightening, growth: DEFAULT_GROWTH };
        shape.stage(0).map(|_| shape)
    }

    /// Sets how many times larger the capacity of a stage is than that of the one before: 2 or 4.
    ///
    /// # Errors
    /// [`Error::Infeasible`] for other values.
    pub fn with_growth(self, growth: u64) -> Result<Self, Error> {
        if growth != DEFAULT_GROWTH && growth != FAST_GROWTH {
            return Err(Error::Infeasible { why: "the growth must be 2 or 4" });
        }
        Ok(Self { growth, ..self })
    }

    /// Returns how many times larger the capacity of a stage is than that of the one before.
    pub fn growth(&self) -> u64 {
        self.growth
    }

    /// Returns the capacity of stage `i`, unless it exceeds [`MAX_KEYS`].
    fn stage_keys(&self, i: u32) -> Option<u64> {
        let factor = self.growth.checked_pow(i)?;
        self.keys.max(1).checked_mul(factor).filter(|keys| *keys <= MAX_KEYS)
    }

    /// Returns stage `i`. Its rate is a product and its size follows from logarithms. A file stores the
    /// results, because machines may differ in the last bit of these.
    fn stage(&self, i: u32) -> Result<Stage, Error> {
        let tightening = self.tightening as f64 / 100.0;
        let rate = self.fpr * (1.0 - tightening) * tightening.powi(i as i32);
        let too_many = Error::Infeasible { why: "a stage has more keys than any filter takes" };
        let keys = self.stage_keys(i).ok_or(too_many)?;
        let (bits, probes) = smallest(keys, rate, &Settings::default())?;
        if u64::from(probes) > MAX_PROBES || bits > MAX_BYTES * 8 {
            return Err(Error::Infeasible { why: "the rate of a stage is too small" });
        }
        Ok(Stage { bits, probes, keys })
    }

    /// Returns the stages that `keys` keys take, each with its number of keys.
    fn stages(&self, mut keys: u64) -> impl Iterator<Item = (Stage, u64)> {
        (0..).map_while(|i| self.stage(i).ok()).enumerate().map_while(move |(i, stage)| {
            let here = keys.min(stage.keys);
            keys -= here;
            (i == 0 || here > 0).then_some((stage, here))
        })
    }
}

impl Shape for ScalableBloomShape {
    const SETTINGS: &'static [Setting] = &[TIGHTENING, GROWTH];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let percent = settings.number(&TIGHTENING, |percent| (50..=99).contains(&percent))?;
        let growth =
            settings.number(&GROWTH, |growth| growth == DEFAULT_GROWTH || growth == FAST_GROWTH)?;
        Self::new(keys, fpr, percent.unwrap_or(DEFAULT_TIGHTENING))?
            .with_growth(growth.unwrap_or(DEFAULT_GROWTH))
    }

    fn parameters(&self) -> crate::settings::Parameters {
        [("tightening", self.tightening.into()), ("growth", self.growth.into())].into()
    }

    /// Returns the figures of the first stage.
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
        let rejected =
            self.stages(keys).map(
                |(Stage { bits, probes, .. }, keys)| {
                    if keys == 0 { 1.0 } else { 1.0 - rate(bits, probes, keys) }
                },
            );
        1.0 - rejected.product::<f64>()
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
    /// The capacity of all stages.
    room: u64,
    stages: Vec<(Stage, Words)>,
}

impl ScalableBloom {
    /// Returns an empty filter.
    ///
    /// # Errors
    /// [`Error::Memory`] if the first stage cannot be allocated.
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

    /// Returns the number of insertions.
    fn len(&self) -> u64 {
        self.len
    }

    // Unlike `common::contains_prefetching` this loop tests the keys of a batch stage by stage, newest first,
    // and drops those that were found.
    fn fits_cache(&self) -> bool {
        super::common::near(self.stages.iter().map(|(_, words)| words.len()).sum())
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        const LANES: usize = 64;
        assert!(out.len() >= keys.len(), "`out` is shorter than `keys`");
        for (keys, out) in keys.chunks(LANES).zip(out.chunks_mut(LANES)) {
            let (mut left, mut places, mut found) =
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
                    &mut found,
                );
                let mut kept = 0;
                for at in 0..count {
                    out[places[at]] = found[at];
                    (left[kept], places[kept]) = (left[at], places[at]);
                    kept += usize::from(!found[at]);
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
    /// Inserts a key. [`Full`] states that another stage cannot be allocated, or that its rate would be
    /// too small.
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
        let ScalableBloomShape { keys, fpr, tightening, growth } = self.shape;
        let mut fields = vec![keys, fpr.to_bits(), tightening];
        if growth != DEFAULT_GROWTH {
            fields.push(growth);
        }
        for (stage, _) in &self.stages {
            fields.extend([stage.bits, stage.probes.into()]);
        }
        to.shape(&fields);
        to.pieces(BITS, self.stages.iter().map(|(_, words)| words.into()));
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let keys = fields.next(0..=MAX_KEYS, "capacity of the first stage")?;
        let fpr = f64::from_bits(fields.next(0..=f64::MAX.to_bits(), "false positive rate")?);
        let tightening = fields.next(50..=99, "tightening in percent")?;
        let corrupt = |what| Error::from(tamis_format::Error::corrupt(what));
        let mut shape = ScalableBloomShape::new(keys, fpr, tightening)
            .map_err(|_| corrupt("the shape is out of range"))?;
        // The growth precedes the bits of the first stage, unless it is the default.
        let mut bits = Some(fields.next(FAST_GROWTH..=MAX_BYTES * 8, "growth or number of bits")?);
        if bits == Some(FAST_GROWTH) {
            (shape.growth, bits) = (FAST_GROWTH, None);
        }
        let (mut stages, mut room, mut words) = (Vec::new(), 0u64, 0u64);
        // There are as many stages as the keys take.
        while stages.is_empty() || room < len {
            let keys = shape.stage_keys(stages.len() as u32);
            let keys = keys.ok_or_else(|| corrupt("a stage has too many keys"))?;
            let bits = match bits.take() {
                Some(bits) => bits,
                None => fields.next(MIN_BITS..=MAX_BYTES * 8, "number of bits")?,
            };
            let probes = fields.next(1..=MAX_PROBES, "bits per key")? as u32;
            // No rate takes fewer bits than a fifth of one per key. The capacity of the next stage
            // follows from that of this one.
            if bits % MIN_BITS != 0 || keys / 8 > bits {
                return Err(corrupt("the size of a stage is out of range"));
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

    /// Checks that an empty filter has no bits set. Otherwise any bits are possible.
    fn validate(&self) -> Result<(), Error> {
        if self.len > 0 || self.stages.iter().all(|(_, words)| words.iter().all(|word| *word == 0))
        {
            return Ok(());
        }
        Err(tamis_format::Error::corrupt("bits are set in an empty filter").into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Keyed;
    use crate::hash::{HashId, Key, KeyHasher};
    use crate::settings::SettingValue;
    use tamis_format::Limits;

    fn hasher() -> KeyHasher {
        KeyHasher::new(HashId::Fast, [1, 2])
    }

    #[test]
    fn stages_begin_when_they_are_needed_and_add_up_to_the_rate() {
        let shape = ScalableBloomShape::new(100, 0.02, 50).unwrap();
        let mut filter = ScalableBloom::new(shape.clone()).unwrap();
        let hasher = hasher();
        for key in 0..6500u64 {
            let stages = (1..).find(|stages| key < ((1 << stages) - 1) * 100).unwrap_or(0);
            filter.insert(key.hash_with(&hasher)).unwrap();
            assert_eq!(filter.stages.len(), stages, "{key} keys");
        }
        // Stages so large that rounding to whole lines has no effect.
        let shape = ScalableBloomShape::new(100_000, 0.02, 50).unwrap();
        let full = 6_300_000;
        let sum: f64 = shape.stages(full).map(|(s, keys)| rate(s.bits, s.probes, keys)).sum();
        assert!(sum < 0.02 && sum > 0.0195, "{sum}");
        assert!(shape.fpr_at(full) < sum && shape.fpr_at(full) > 0.98 * sum);
        assert!(shape.fpr_at(2 * full) > shape.fpr_at(full) && shape.fpr_at(1 << 30) < 0.02);
    }

    fn grown(growth: u64, keys: u64) -> ScalableBloom {
        let shape = ScalableBloomShape::new(100, 0.02, 85).unwrap().with_growth(growth).unwrap();
        let (mut filter, hasher) = (ScalableBloom::new(shape).unwrap(), hasher());
        (0..keys).for_each(|key| filter.insert(key.hash_with(&hasher)).unwrap());
        filter
    }

    /// Stages of 100, 400, 1600 … keys hold as many keys in half as many stages, at the same rate.
    #[test]
    fn stages_grow_by_the_growth() {
        for (growth, expected) in [(2, 7), (4, 4)] {
            let filter = grown(growth, 8500);
            assert_eq!(filter.stages.len(), expected);
            let capacities: Vec<u64> = filter.stages.iter().map(|(stage, _)| stage.keys).collect();
            assert!(capacities.windows(2).all(|pair| pair[1] == growth * pair[0]));
            let hasher = hasher();
            assert!((0..8500u64).all(|key| filter.contains(key.hash_with(&hasher))));
            let keys: Vec<_> = (0..200_000u64).map(|key| key.hash_with(&hasher)).collect();
            let mut out = vec![false; keys.len()];
            filter.contains_batch(&keys, &mut out);
            assert!(out[..8500].iter().all(|found| *found));
            let passed = out[8500..].iter().filter(|found| **found).count() as f64;
            let rate = filter.shape.fpr_at(8500);
            assert!(rate < 0.02, "{rate}");
            let passed = passed / 191_500.0;
            assert!((passed - rate).abs() < 6.0 * (rate / 191_500.0).sqrt(), "{passed} {rate}");
            let figures = filter.shape.figures_at(8500);
            let bytes: u64 = filter.stages.iter().map(|(stage, _)| stage.bits / 8).sum();
            assert_eq!((figures.keys, figures.bytes, figures.fpr), (8500, bytes, rate));
        }
        let slow = grown(2, 8500).shape.figures_at(8500).query_cost;
        assert!(grown(4, 8500).shape.figures_at(8500).query_cost < slow);
    }

    #[test]
    fn the_growth_is_a_setting() {
        let fit = |growth: &str| {
            let mut settings = Settings::default();
            settings.set("growth", SettingValue::parse(growth));
            ScalableBloomShape::fit_with(1000, 0.01, &settings)
        };
        let default = ScalableBloomShape::fit(1000, 0.01).unwrap();
        assert_eq!((fit("2").unwrap(), default.growth()), (default, 2));
        assert_eq!(fit("4").unwrap().growth(), 4);
        for refused in ["0", "1", "3", "8", "x"] {
            assert!(matches!(fit(refused), Err(Error::Setting { .. })), "{refused}");
        }
        let shape = ScalableBloomShape::new(1000, 0.01, 85).unwrap();
        assert!(matches!(shape.with_growth(3), Err(Error::Infeasible { .. })));
    }

    /// A file has a field for the growth only if it is not the default, and reads as the same filter.
    #[test]
    fn files_state_the_growth() {
        for (growth, keys) in [(2, 0), (2, 900), (4, 0), (4, 100), (4, 101), (4, 8500)] {
            let keyed = Keyed::new(hasher(), grown(growth, keys));
            let mut bytes = Vec::new();
            keyed.write_to(&mut bytes).unwrap();
            let read = Keyed::<ScalableBloom>::read_from(&bytes[..], &Limits::default()).unwrap();
            assert!(read == keyed, "{growth}, {keys} keys");
            read.filter().validate().unwrap();
        }
    }
}
