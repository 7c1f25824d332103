//! The toy filter: a key sets 1 bit of `m`, and is in if that bit is set.

use tamis_bits::{Words, lines, range, set};
use tamis_format::{Name, Reader, Writer};

use super::common::{build_by_inserting, usize_words};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::Settings;
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Build, Filter, Insert, Persist};

const BITS: Name = Name::new("bits");

/// `m` bits for `keys` keys.
#[derive(Clone, Debug, PartialEq)]
pub struct ToyShape {
    bits: u64,
    keys: u64,
}

impl Shape for ToyShape {
    fn fit_with(keys: u64, fpr: f64, _: &Settings) -> Result<Self, Error> {
        Ok(Self { bits: (keys as f64 / -(-fpr).ln_1p()).ceil().max(1.0) as u64, keys })
    }

    fn figures(&self) -> Figures {
        let bytes = lines(self.bits.div_ceil(64)) * 64;
        Figures { keys: self.keys, fpr: self.fpr_at(self.keys), bytes, query_cost: 1.125 }
    }

    fn fpr_at(&self, keys: u64) -> f64 {
        -(keys as f64 * (-1.0 / self.bits as f64).ln_1p()).exp_m1()
    }
}

/// A toy filter.
#[derive(Clone, Debug, PartialEq)]
pub struct Toy {
    shape: ToyShape,
    len: u64,
    words: Words,
}

impl Filter for Toy {
    fn contains(&self, key: KeyHash) -> bool {
        set::get(&self.words, range::scale(key.hi, self.shape.bits))
    }

    fn len(&self) -> u64 {
        self.len
    }
}

impl Build for Toy {
    type Shape = ToyShape;

    fn shape(&self) -> &ToyShape {
        &self.shape
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<ToyShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        let shape = fit(0)?;
        let words = Words::zeroed(usize_words(shape.bits.div_ceil(64))?)?;
        build_by_inserting(options, Self { shape, len: 0, words }, keys)
    }
}

impl Insert for Toy {
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        if self.len == self.shape.keys {
            return Err(Full::NONE);
        }
        set::set(self.words.to_mut(), range::scale(key.hi, self.shape.bits));
        self.len += 1;
        Ok(())
    }
}

impl Persist for Toy {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.shape(&[self.shape.bits, self.shape.keys]);
        to.words(BITS, &self.words);
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let bits = fields.next(1..=1 << 53, "number of bits")?;
        let keys = fields.next(len..=MAX_KEYS, "capacity")?;
        fields.finish()?;
        let words = from.words(BITS, bits.div_ceil(64))?;
        Ok(Self { shape: ToyShape { bits, keys }, len, words })
    }

    fn validate(&self) -> Result<(), Error> {
        match set::ends_at(&self.words, self.shape.bits) {
            true => Ok(()),
            false => Err(tamis_format::Error::corrupt("bits are set past the end").into()),
        }
    }
}
