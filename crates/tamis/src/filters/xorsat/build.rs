//! Building: every block is solved on its own. Its place in the table follows from the sizes of the
//! blocks before it.

use alloc::vec::Vec;

use tamis_bits::gf2::dot::{self, Question, Solution, View};
use tamis_bits::gf2::windows::{Row, System};
use tamis_bits::{Words, packed, range};

use super::{Places, SEED_BITS, SPARE, WINDOW, XorSat, XorSatShape, equation, words};
use crate::error::Error;
use crate::filters::common::usize_words;
use crate::gather::{Gathered, Record};
use crate::options::BuildOptions;
use crate::parts::{BuildParts, sealed::SolveParts};
use crate::shape::Shape;

impl SolveParts for XorSat {
    type Records = Gathered<1>;
    type Shard = Solved;

    fn shard_bits(shape: &XorSatShape) -> u32 {
        shape.shard_bits
    }

    fn table_words(shape: &XorSatShape) -> u64 {
        words(shape.slots(), shape.width)
    }

    /// Returns 0: where a shard begins is known once all are solved.
    fn shard_words(_: &XorSatShape) -> u64 {
        0
    }

    fn solve_shards(
        options: &BuildOptions<'_>,
        shape: &XorSatShape,
        _: u64,
        records: Gathered<1>,
        _: &mut [u64],
    ) -> Result<Vec<Solved>, Error> {
        let len = records.len();
        // The shards return as many bytes as the table has, and both exist at the same time.
        let parts = (1 << shape.shard_bits) / records.shards(shape.shard_bits).len() as u64;
        let bytes = [2 * shape.figures().bytes / parts, System::bytes(shape.max_block_keys())];
        let check = || options.check(0, len);
        records.solve_shards(options, shape.shard_bits, bytes, |shard, records| {
            let mut solved = Solved::default();
            solved.add_shard(shape, shard as u64, records, &check)?;
            Ok(solved)
        })
    }

    fn finish(
        options: &BuildOptions<'_>,
        shape: XorSatShape,
        len: u64,
        mut table: Words,
        shards: Vec<Solved>,
    ) -> Result<Self, Error> {
        let sizes: Vec<_> = shards.iter().flat_map(|shard| &shard.sizes).copied().collect();
        let places = Places::new(&shape, &sizes)?;
        if places.end > shape.slots() {
            table = Words::zeroed(usize_words(words(places.end, shape.width))?)?;
        }
        let wide_slots = shape.wide_slots().max(places.get(shape.wide).0);
        let mut more = Words::zeroed(usize_words(words(wide_slots, 1))?)?;
        let (mut block, mut extra) = (0, Vec::new());
        for shard in shards {
            options.check(len, len)?;
            let mut rest = &shard.words[..];
            for (slots, _) in shard.sizes {
                let (first, _) = places.get(block);
                let width = shape.width_of(block);
                let own = rest.split_off(..words(slots, width) as usize).expect("all its words");
                let (few, one) = (shape.width as usize, shape.width as usize..width as usize);
                let groups = || own.chunks_exact(width as usize);
                store_block(table.to_mut(), first, groups().map(|group| &group[..few]));
                store_block(more.to_mut(), first, groups().map(|group| &group[one.clone()]));
                block += 1;
            }
            extra.extend(shard.listed);
        }
        let extra = Words::copy_of(&extra)?;
        let (table, more) = (Solution::new(table, shape.width), Solution::new(more, 1));
        Ok(Self { shape, len, table, places, more, extra })
    }

    fn encode_shard(_: &XorSatShape, shard: Solved) -> Vec<u64> {
        let Solved { sizes, mut words, listed } = shard;
        let sizes = sizes.into_iter().map(|(slots, seed)| slots << SEED_BITS | seed);
        words.splice(..0, sizes);
        words.extend(listed);
        words
    }

    fn decode_shard(shape: &XorSatShape, number: u64, from: &[u64]) -> Option<Solved> {
        let (sizes, mut rest) = from.split_at_checked(usize::try_from(shape.shard).ok()?)?;
        let size = |word: &u64| (word >> SEED_BITS, word & packed::mask(SEED_BITS));
        let sizes: Vec<_> = sizes.iter().map(size).collect();
        let most = (shape.max_block_keys() + SPARE).max(WINDOW);
        let mut all = Vec::new();
        for (block, (slots, _)) in (number * shape.shard..).zip(&sizes) {
            if !(WINDOW..=most).contains(slots) {
                return None;
            }
            let width = shape.width_of(block);
            let own = rest.split_off(..words(*slots, width) as usize)?;
            // Slots past the last one would be stored in the next block.
            let (_, last) = own.split_at(own.len() - width as usize);
            if slots % WINDOW != 0 && last.iter().any(|word| word >> (slots % WINDOW) != 0) {
                return None;
            }
            all.extend(own);
        }
        Some(Solved { sizes, words: all, listed: rest.to_vec() })
    }
}

impl BuildParts for XorSat {}

/// Stores the words of a block, one group for each 64 slots, from slot `first` on.
fn store_block<'a>(table: &mut [u64], first: u64, groups: impl Iterator<Item = &'a [u64]>) {
    let shift = first % WINDOW;
    for (group, words) in (first / WINDOW..).zip(groups) {
        let at = group as usize * words.len();
        for (to, word) in (at..).zip(words) {
            table[to] |= word << shift;
            let over = word >> 1 >> (WINDOW - 1 - shift);
            if over != 0 {
                table[to + words.len()] |= over;
            }
        }
    }
}

/// The solved blocks of a shard.
#[derive(Default)]
pub struct Solved {
    /// The slots and the seed number of each block.
    pub(super) sizes: Vec<(u64, u64)>,
    pub(super) words: Vec<u64>,
    pub(super) listed: Vec<u64>,
}

impl Solved {
    fn add_shard(
        &mut self,
        shape: &XorSatShape,
        shard: u64,
        mut records: &[Record<1>],
        check: &impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (mut system, mut rows) = (System::default(), Vec::new());
        for block in shard * shape.shard..(shard + 1) * shape.shard {
            let ends = |[digest]: &Record<1>| range::scale(*digest, shape.blocks()) <= block;
            let (here, others) = records.split_at(records.partition_point(ends));
            records = others;
            let (most, width) = (shape.max_block_keys(), shape.width_of(block));
            self.add_block(here, most, width, &mut system, &mut rows, check)?;
        }
        Ok(())
    }

    /// Adds a block of these keys, or of the first `most` of them.
    pub(super) fn add_block(
        &mut self,
        keys: &[Record<1>],
        most: u64,
        width: u32,
        system: &mut System,
        rows: &mut Vec<Row>,
        check: &impl Fn() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (taken, left) = keys.split_at(keys.len().min(most as usize));
        let slots = (taken.len() as u64 + SPARE).max(WINDOW);
        let mut conflicts = |seed| {
            check()?;
            rows.clear();
            rows.extend(taken.iter().map(|[digest]| {
                let Question { slots, coefficients, value } = equation(*digest, 0, slots, seed);
                let value = value & packed::mask(width);
                Row { slots: slots.map(|slot| slot as u32), coefficients, value }
            }));
            Ok::<_, Error>(system.eliminate(slots as usize, rows)?)
        };
        let mut seed = 0;
        while conflicts(seed)? > 0 {
            seed += 1;
            if seed >> SEED_BITS != 0 {
                seed = 0;
                conflicts(seed)?;
                break;
            }
        }
        let from = self.words.len();
        self.words.resize(from + words(slots, width) as usize, 0);
        let own = &mut self.words[from..];
        system.solve(width, own);
        // Every key is looked up, so that no bug can cause a false negative.
        let rejected = |[digest]: &&Record<1>| {
            !dot::holds(View::new(own, width), equation(*digest, 0, slots, seed))
        };
        self.listed.extend(taken.iter().filter(rejected).chain(left).map(|[digest]| *digest));
        self.sizes.push((slots, seed));
        Ok(())
    }
}
