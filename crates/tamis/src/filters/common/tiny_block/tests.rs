use super::grid::{Contains, Insert};
use super::layout::Fixed;
use super::*;
use tamis_bits::range::mix;
use tamis_bits::select::{Portable, Task, run};

struct Do<'a, L, const W: usize, const STOP: bool> {
    code: Code<L, W, STOP>,
    block: &'a mut [u64; W],
    key: (usize, u64),
    op: Op,
}

#[derive(Clone, Copy, PartialEq)]
enum Op {
    Contains,
    Insert,
    Slots,
    Sound,
}

impl<L: Layout<W, STOP>, const W: usize, const STOP: bool> Task for Do<'_, L, W, STOP> {
    type Output = usize;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> usize {
        let Self { code, block, key: (chain, remainder), op } = self;
        match op {
            Op::Contains => {
                let has = Code::<L, W, STOP>::is_used(block, chain);
                usize::from(has && code.contains(bits, block, chain, remainder))
            }
            Op::Insert => {
                usize::from(code.insert(bits, block, chain, remainder) == Insertion::Added)
            }
            Op::Slots => code.slots(bits, block).map_or(usize::MAX, |slots| slots.all),
            Op::Sound => code.is_sound(bits, block).into(),
        }
    }
}

fn run_both<L: Layout<W, STOP>, const W: usize, const STOP: bool>(
    layout: L,
    block: &mut [u64; W],
    key: (usize, u64),
    op: Op,
) -> usize {
    let (mut twin, code) = (*block, Code(layout));
    let portable = Do { code, block: &mut twin, key, op }.work(Portable);
    let out = run(Do { code, block, key, op });
    assert_eq!((out, &*block), (portable, &twin), "portable and native code differ");
    out
}

/// A block as a list: its chains and remainders in the order of its slots, cut to the width of
/// the slot by the formula, and the number of slots.
struct Model<const STOP: bool> {
    bits: usize,
    slots: Vec<(usize, u64)>,
    all: usize,
}

impl<const STOP: bool> Model<STOP> {
    fn width(&self, slot: usize) -> (u32, bool) {
        let bits = self.bits;
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

fn key(chains: usize, random: u64) -> (usize, u64) {
    ((random >> 32) as usize % chains, mix(random) & mask(REMAINDER))
}

/// Compares insertions and removals with the list, from empty to crowded, in few chains and in
/// all; some keys differ in one bit of the remainder.
fn agrees_with_a_list<L: Layout<W, STOP>, const W: usize, const STOP: bool>(
    layout: L,
    remove: impl Fn(&mut [u64; W], (usize, u64)) -> bool,
) {
    let (array, chains) = (layout.array(), layout.chains());
    let both = |block: &mut [u64; W], key, op| run_both(layout, block, key, op);
    let mut fullest = 0;
    for round in 0..60u64 {
        let mut block = [0; W];
        let mut model = Model::<STOP> { bits: array, slots: Vec::new(), all: 0 };
        let mut live: Vec<(usize, u64)> = Vec::new();
        let target = 2 + (mix(round) % (array / 2) as u64) as usize;
        let few = 1 + mix(round + 77) % chains as u64;
        for step in 0..1500 {
            let random = mix(round << 32 | step);
            let (mut chain, mut remainder) = key(chains, random);
            chain %= few as usize;
            if random.is_multiple_of(4) && !live.is_empty() {
                (chain, remainder) = live[random as usize % live.len()];
                remainder ^= 1 << ((random >> 40) % 20);
            }
            let up = random >> 8 & 127 < if live.len() < target { 90 } else { 57 };
            if up && (STOP || both(&mut block, (chain, remainder), Op::Contains) == 0) {
                let full = model.slots.len() == array;
                let added = both(&mut block, (chain, remainder), Op::Insert) == 1;
                assert_eq!(added, !full);
                if added {
                    model.insert((chain, remainder));
                    live.push((chain, remainder));
                }
            } else if STOP && !up && !live.is_empty() {
                let gone = live.swap_remove(random as usize % live.len());
                assert!(remove(&mut block, gone) && model.remove(gone));
            }
            let stranger = key(chains, random ^ 0xabcd);
            let yes = both(&mut block, stranger, Op::Contains) == 1;
            assert_eq!(yes, model.contains(stranger));
            assert_eq!(both(&mut block, stranger, Op::Slots), model.all);
            if step % 16 == 0 {
                assert_eq!(both(&mut block, stranger, Op::Sound), 1);
                for key in &live {
                    assert_eq!(both(&mut block, *key, Op::Contains), 1, "a false negative");
                }
            }
            fullest = fullest.max(model.all);
        }
    }
    assert!(fullest > array / 5, "only {fullest} slots");
}

struct RemoveAt<'a, L, const W: usize> {
    code: Code<L, W, true>,
    block: &'a mut [u64; W],
    key: (usize, u64),
}

impl<L: Layout<W, true>, const W: usize> Task for RemoveAt<'_, L, W> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        self.code.remove(bits, self.block, self.key.0, self.key.1)
    }
}

fn agrees_without_removal<const W: usize>(layout: impl Layout<W, false>) {
    agrees_with_a_list(layout, |_, _| false);
}

fn agrees_with_removal<const W: usize>(layout: impl Layout<W, true>) {
    agrees_with_a_list(layout, |block, key| run(RemoveAt { code: Code(layout), block, key }));
}

#[test]
fn insert_only_blocks_agree_with_a_list() {
    agrees_without_removal(Fixed::<4, false>);
    agrees_without_removal(Fixed::<8, false>);
    agrees_without_removal(Fixed::<16, false>);
}

#[test]
fn removable_blocks_agree_with_a_list() {
    agrees_with_removal(Fixed::<4, true>);
    agrees_with_removal(Fixed::<8, true>);
    agrees_with_removal(Fixed::<16, true>);
}

#[test]
fn free_blocks_agree_with_a_list() {
    for (bits, chains) in [(128, 16), (131, 3), (161, 16), (512, 80), (577, 64), (2048, 640)] {
        agrees_without_removal(Free::<false> { bits, chains });
        agrees_with_removal(Free::<true> { bits, chains });
    }
}

/// Fixed blocks are free blocks with their numbers, bit by bit.
#[test]
fn fixed_and_free_blocks_are_the_same() {
    let (fixed, free) = (Fixed::<8, false>, Free::<false> { bits: 512, chains: 64 });
    let (mut a, mut words) = ([0; 8], [0; 8]);
    for step in 0..600 {
        let lo = mix(step);
        assert_eq!(fixed.split(lo), free.split(lo));
        let one = run(Insert { code: Code(fixed), block: &mut a, lo });
        assert_eq!(free.insert(&mut words, 0, lo), one);
        assert_eq!(a, words);
        let asked = mix(step + 7777);
        let contained = run(Contains { code: Code(fixed), block: &a, lo: asked });
        assert_eq!(free.contains(&words, 0, asked), contained);
    }
}

/// A block with as many slots as its array has bits, as a file may hold one: every chain that is
/// missing gets a slot that another can spare, and no key is lost.
#[test]
fn a_full_block_takes_every_chain() {
    let free = Free::<false> { bits: 240, chains: 80 };
    let (mut words, chain) = ([0; 12], 17);
    // Block 2 is bits 480 to 719. All slots are of one chain: its index, and the last of the ends.
    for bit in [480 + chain, 719] {
        words[bit / 64] |= 1 << (bit % 64);
    }
    assert_eq!(free.count(&words, 2).map(|slots| slots.all), Some(free.array()));
    let keys: Vec<u64> = (0..2000).map(mix).collect();
    for (i, lo) in keys.iter().enumerate() {
        assert_eq!(free.insert(&mut words, 2, *lo), Insertion::Present);
        assert_eq!(free.count(&words, 2).map(|slots| slots.all), Some(free.array()));
        assert!(keys[..=i].iter().all(|lo| free.contains(&words, 2, *lo)));
    }
    // The blocks beside it are untouched.
    assert!(words[..7].iter().all(|word| *word == 0) && words[7] << 32 == 0);
    assert_eq!(words[11] >> 16, 0);
}

/// A block with the most slots that rejects a key, as only a hostile file has one: an insertion makes it
/// contain every key, and the number of slots stays.
fn takes_a_rejected_key<const W: usize>(layout: impl Layout<W, false>) {
    let (chains, slots) = (layout.chains(), layout.most_slots());
    assert!(slots < layout.array());
    // Chain 0 has the slots of one bit, all of them 0; the last chain has the others.
    let longer = layout.spread(slots).longer;
    let mut block = [0; W];
    for bit in [0, chains - 1, chains + longer - 1, chains + slots - 1] {
        block[bit / 64] |= 1 << (bit % 64);
    }
    let mut do_it = |key, op| run_both(layout, &mut block, key, op);
    let rejected = (0, 1);
    assert_eq!(do_it(rejected, Op::Sound), 1);
    assert_eq!(do_it(rejected, Op::Contains), 0);
    assert_eq!(do_it(rejected, Op::Insert), 0);
    assert_eq!((do_it(rejected, Op::Sound), do_it(rejected, Op::Slots)), (1, slots));
    for chain in 0..chains {
        for remainder in 0..4 {
            assert_eq!(do_it((chain, remainder), Op::Contains), 1, "{chain} {remainder}");
        }
    }
}

#[test]
fn the_fullest_blocks_take_a_rejected_key() {
    takes_a_rejected_key(Fixed::<4, false>);
    takes_a_rejected_key(Fixed::<8, false>);
    takes_a_rejected_key(Fixed::<16, false>);
    for (bits, chains) in [(128, 16), (131, 3), (577, 64), (2048, 32)] {
        takes_a_rejected_key(Free::<false> { bits, chains });
    }
}
