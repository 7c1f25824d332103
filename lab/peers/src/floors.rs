//! Lower bounds of the time of a lookup: random reads and no other work.

use anyhow::Result;
use tamis_bits::{Words, range::scale};
use tamis_bench::{Built, Contender, Options};

use crate::peers::{bytes, mix64};

/// Returns both bounds. Their table has the size of `split_block_bloom` and uses huge pages, as the
/// tables of tamis do.
pub fn all(options: &Options) -> Result<Vec<Box<dyn Contender>>> {
    let words = bytes(tamis::Kind::SplitBlockBloom, options)? / 8;
    Ok(vec![
        Box::new(Floor::<1> { name: "floor-1-load", words }),
        Box::new(Floor::<3> { name: "floor-3-loads", words }),
    ])
}

struct Floor<const LOADS: usize> {
    name: &'static str,
    words: usize,
}

impl<const LOADS: usize> Contender for Floor<LOADS> {
    fn name(&self) -> &str {
        self.name
    }

    fn build(&self, _: &[u64]) -> Result<Box<dyn Built>> {
        let mut words = Words::zeroed(self.words)
            .map_err(|_| tamis::Error::Memory { bytes: self.words as u64 * 8 })?;
        words.to_mut().iter_mut().zip(0..).for_each(|(word, i)| *word = mix64(i));
        Ok(Box::new(Table::<LOADS>(words)))
    }

    fn is_filter(&self) -> bool {
        false
    }
}

struct Table<const LOADS: usize>(Words);

impl<const LOADS: usize> Built for Table<LOADS> {
    fn bytes(&self) -> u64 {
        self.0.len() as u64 * 8
    }

    fn count(&self, keys: &[u64]) -> usize {
        let words = &self.0[..];
        let odd = |key: &&u64| {
            let hash = mix64(**key);
            // The positions depend only on the hash, so all reads can overlap.
            let loads = std::array::from_fn::<_, LOADS, _>(|i| {
                let place = hash.rotate_left(21 * i as u32);
                words[scale(place, words.len() as u64) as usize]
            });
            loads.into_iter().fold(0, |sum, word| sum ^ word) & 1 == 1
        };
        keys.iter().filter(odd).count()
    }
}
