//! What no filter gets below: so many random reads a query, and nothing done with them.

use anyhow::Result;
use tamis_bits::{Words, range::scale};
use tamis_cli::bench::Args;
use tamis_cli::bench::harness::{Contained, Contender};

use crate::peers::{bytes, mix64};

/// Both, over as many bytes as our split_block_bloom takes, on huge pages as ours are.
pub fn all(args: &Args) -> Result<Vec<Box<dyn Contender>>> {
    let words = bytes(tamis::Kind::SplitBlockBloom, args)? / 8;
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

    fn build(&self, _: &[u64]) -> Result<Box<dyn Contained>> {
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

impl<const LOADS: usize> Contained for Table<LOADS> {
    fn bytes(&self) -> u64 {
        self.0.len() as u64 * 8
    }

    fn count(&self, keys: &[u64]) -> usize {
        let words = &self.0[..];
        let odd = |key: &&u64| {
            let hash = mix64(**key);
            // Places that depend on the hash alone, not on each other: all reads start at once.
            let loads = std::array::from_fn::<_, LOADS, _>(|i| {
                let place = hash.rotate_left(21 * i as u32);
                words[scale(place, words.len() as u64) as usize]
            });
            loads.into_iter().fold(0, |sum, word| sum ^ word) & 1 == 1
        };
        keys.iter().filter(odd).count()
    }
}
