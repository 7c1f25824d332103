use super::grid::Remove;
use super::*;
use tamis_bits::range::mix;
use tamis_bits::select::{Portable, Task, run};

struct Do<'a, const W: usize, const STOP: bool>(&'a mut [u64; W], usize, u64, Op);

#[derive(Clone, Copy, PartialEq)]
enum Op {
    Contains,
    Insert,
    Slots,
    Sound,
}

impl<const W: usize, const STOP: bool> Task for Do<'_, W, STOP> {
    type Output = usize;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> usize {
        let Self(block, chain, remainder, op) = self;
        match op {
            Op::Contains => {
                let has = Code::<W, STOP>::is_used(block, chain);
                usize::from(has && Code::<W, STOP>::contains(bits, block, chain, remainder))
            }
            Op::Insert => usize::from(
                Code::<W, STOP>::insert(bits, block, chain, remainder) == Insertion::Added,
            ),
            Op::Slots => Code::<W, STOP>::slots(bits, block).map_or(usize::MAX, |slots| slots.all),
            Op::Sound => Code::<W, STOP>::is_sound(bits, block).into(),
        }
    }
}

fn run_both<const W: usize, const STOP: bool>(
    block: &mut [u64; W],
    (chain, remainder): (usize, u64),
    op: Op,
) -> usize {
    let mut twin = *block;
    let portable = Do::<W, STOP>(&mut twin, chain, remainder, op).work(Portable);
    let out = run(Do::<W, STOP>(block, chain, remainder, op));
    assert_eq!((out, &*block), (portable, &twin), "portable and native code differ");
    out
}

/// A block as a list: its chains and remainders in the order of its slots, cut to the width of
/// the slot by the formula, and the number of slots.
#[derive(Default)]
struct Model<const W: usize, const STOP: bool> {
    slots: Vec<(usize, u64)>,
    all: usize,
}

impl<const W: usize, const STOP: bool> Model<W, STOP> {
    fn width(&self, slot: usize) -> (u32, bool) {
        let bits = 56 * W - usize::from(STOP);
        let (size, longer) = (bits / self.all - 1, bits % self.all);
        if size >= 57 {
            (57, false)
        } else {
            ((size + usize::from(slot < longer)) as u32, slot < longer)
        }
    }

    fn matches(&self, slot: usize, key: (usize, u64)) -> Option<u32> {
        let ((mut width, long), (chain, record)) = (self.width(slot), self.slots[slot]);
        if STOP && long && record >> (width - 1) == 0 {
            width -= 1;
        }
        (chain == key.0 && (record ^ key.1) & mask(width) == 0).then_some(width)
    }

    fn contains(&self, key: (usize, u64)) -> bool {
        (0..self.slots.len()).any(|slot| self.matches(slot, key).is_some())
    }

    fn insert(&mut self, key: (usize, u64)) {
        self.all = self.all.max(self.slots.len() + 1);
        let place = self.slots.iter().position(|slot| slot.0 >= key.0);
        self.slots.insert(place.unwrap_or(self.slots.len()), key);
        self.cut();
    }

    fn remove(&mut self, key: (usize, u64)) -> bool {
        let best = (0..self.slots.len()).filter_map(|slot| Some((self.matches(slot, key)?, slot)));
        let Some((_, slot)) = best.max() else { return false };
        self.slots.remove(slot);
        self.cut();
        true
    }

    fn cut(&mut self) {
        for slot in 0..self.slots.len() {
            self.slots[slot].1 &= mask(self.width(slot).0);
        }
    }
}

fn key<const W: usize>(random: u64) -> (usize, u64) {
    ((random >> 32) as usize % (8 * W), mix(random) & mask(REMAINDER))
}

/// Compares insertions and removals with the list, from empty to crowded, in few chains and in
/// all; some keys differ in one bit of the remainder.
fn agrees_with_a_list<const W: usize, const STOP: bool>() {
    let mut fullest = 0;
    for round in 0..60u64 {
        let mut block = [0; W];
        let mut model = Model::<W, STOP> { slots: Vec::new(), all: 0 };
        let mut live: Vec<(usize, u64)> = Vec::new();
        let target = 2 + (mix(round) % (30 * W as u64)) as usize;
        let few = 1 + mix(round + 77) % (8 * W as u64);
        for step in 0..1500 {
            let random = mix(round << 32 | step);
            let (mut chain, mut remainder) = key::<W>(random);
            chain %= few as usize;
            if random.is_multiple_of(4) && !live.is_empty() {
                (chain, remainder) = live[random as usize % live.len()];
                remainder ^= 1 << ((random >> 40) % 20);
            }
            let up = random >> 8 & 127 < if live.len() < target { 90 } else { 57 };
            if up
                && (STOP || run_both::<W, STOP>(&mut block, (chain, remainder), Op::Contains) == 0)
            {
                assert_eq!(run_both::<W, STOP>(&mut block, (chain, remainder), Op::Insert), 1);
                model.insert((chain, remainder));
                live.push((chain, remainder));
            } else if STOP && !up && !live.is_empty() {
                let gone = live.swap_remove(random as usize % live.len());
                assert!(with_remove(&mut block, gone) && model.remove(gone));
            }
            let stranger = key::<W>(random ^ 0xabcd);
            let yes = run_both::<W, STOP>(&mut block, stranger, Op::Contains) == 1;
            assert_eq!(yes, model.contains(stranger));
            assert_eq!(run_both::<W, STOP>(&mut block, stranger, Op::Slots), model.all);
            if step % 16 == 0 {
                assert_eq!(run_both::<W, STOP>(&mut block, stranger, Op::Sound), 1);
                for key in &live {
                    assert_eq!(
                        run_both::<W, STOP>(&mut block, *key, Op::Contains),
                        1,
                        "a false negative"
                    );
                }
            }
            fullest = fullest.max(model.all);
        }
    }
    assert!(fullest > 20 * W, "only {fullest} slots");
}

fn with_remove<const W: usize>(block: &mut [u64; W], (chain, remainder): (usize, u64)) -> bool {
    run(Remove { block, lo: (chain as u64) << (64 - (8 * W).ilog2()) | remainder })
}

#[test]
fn insert_only_blocks_agree_with_a_list() {
    agrees_with_a_list::<4, false>();
    agrees_with_a_list::<8, false>();
    agrees_with_a_list::<16, false>();
}

#[test]
fn removable_blocks_agree_with_a_list() {
    agrees_with_a_list::<4, true>();
    agrees_with_a_list::<8, true>();
    agrees_with_a_list::<16, true>();
}
