//! The ring of blocks: where a bucket is, eviction from a block, and room for a key.

use tamis_bits::packed::mask;
use tamis_bits::select::Bits;

use super::block::{EPOCH, Head, Side};
use super::{Place, Sliding};

/// The most blocks through which buckets are moved to make room for a key. A chain that ends sooner
/// is looked for first.
const REACH: [usize; 3] = [1, 12, 512];

impl Sliding {
    #[inline(always)]
    pub(super) fn block(&self, block: usize) -> &[u64] {
        &self.blocks[block * self.layout.words..][..self.layout.words]
    }

    #[inline(always)]
    pub(super) fn block_mut(&mut self, block: usize) -> &mut [u64] {
        &mut self.blocks.to_mut()[block * self.layout.words..][..self.layout.words]
    }

    #[inline(always)]
    pub(super) fn head(&self, block: usize) -> Option<Head> {
        self.layout.head(self.block(block))
    }

    #[inline(always)]
    pub(super) fn next(&self, block: usize, side: Side) -> usize {
        let last = self.shape.blocks as usize - 1;
        match side {
            Side::Last => {
                if block < last {
                    block + 1
                } else {
                    0
                }
            }
            Side::First => {
                if block > 0 {
                    block - 1
                } else {
                    last
                }
            }
        }
    }

    /// Returns the block that has a bucket now, its head, and the number of the bucket in it; `None`
    /// only in a damaged filter.
    #[inline(always)]
    pub(super) fn locate(&self, place: &Place) -> Option<(usize, Head, usize)> {
        let (block, head) = (place.block, self.head(place.block)?);
        let bucket = place.bucket as i64 - head.shift;
        if (0..head.buckets as i64).contains(&bucket) {
            return Some((block, head, bucket as usize));
        }
        self.locate_elsewhere(block, head, bucket)
    }

    #[cold]
    fn locate_elsewhere(
        &self,
        mut block: usize,
        mut head: Head,
        mut bucket: i64,
    ) -> Option<(usize, Head, usize)> {
        // A bucket is at most that far from its place, and each block has a bucket.
        for _ in 0..2 * self.max_shift() {
            if bucket < 0 {
                block = self.next(block, Side::First);
                head = self.head(block)?;
                bucket += head.buckets as i64;
            } else if bucket >= head.buckets as i64 {
                bucket -= head.buckets as i64;
                block = self.next(block, Side::Last);
                head = self.head(block)?;
            } else {
                return Some((block, head, bucket as usize));
            }
        }
        None
    }

    /// Returns the most buckets by which a block may begin before or after its place.
    fn max_shift(&self) -> i64 {
        (4 * self.layout.buckets as i64).min(1 << 14)
    }

    /// Returns the ticks since the last eviction from a block.
    #[inline(always)]
    pub(super) fn lag(&self, head: Head) -> u64 {
        self.ticks().wrapping_sub(head.epoch) & mask(EPOCH)
    }

    /// Evicts the expired slots of a block.
    #[inline(always)]
    pub(super) fn evict(&mut self, bits: impl Bits, block: usize) {
        if let Some(head) = self.head(block)
            && self.lag(head) > 0
        {
            self.evict_now(bits, block, head);
        }
    }

    #[inline(always)]
    fn evict_now(&mut self, bits: impl Bits, block: usize, mut head: Head) {
        let (layout, clock, lag) = (self.layout, self.clock, self.lag(head));
        let (classes, buckets) = (1u64 << self.log, layout.buckets as u64);
        let epoch = self.ticks() & mask(EPOCH);
        let words = self.block_mut(block);
        if lag >= clock.period() {
            head = layout.clear(words, head);
        } else {
            let first = head.shift.rem_euclid(buckets as i64);
            for since in 0..lag.min(classes) {
                let class = clock.class(since);
                let ages = clock.ages(class, lag);
                // The buckets of the class in an empty block.
                let [from, to] = [class, class + 1].map(|n| (n * buckets).div_ceil(classes) as i64);
                let mut begin = from - first - if from >= first { buckets as i64 } else { 0 };
                while begin < head.buckets as i64 {
                    let end = (begin + to - from).min(head.buckets as i64);
                    if end > begin.max(0) {
                        let range = (begin.max(0) as usize, end as usize);
                        head =
                            layout.evict(bits, words, head, range, |stamp| ages.is_expired(stamp));
                    }
                    begin += buckets as i64;
                }
            }
        }
        layout.set_head(words, Head { epoch, ..head });
    }

    /// Moves buckets to other blocks until a block has room for a slot. Returns the side to which
    /// they left, which is `side` if any chain to that side ends; if there is none, it is the side
    /// with the shorter chain, or that where buckets are nearer to their place.
    #[inline(never)]
    pub(super) fn make_room(
        &mut self,
        bits: impl Bits,
        block: usize,
        side: Option<Side>,
    ) -> Option<Side> {
        let (need, all) = (self.layout.slot_bits(), self.shape.blocks as usize - 1);
        let shift = |block| self.head(block).map_or(0, |head| head.shift);
        let ends = shift(block) + shift(self.next(block, Side::Last));
        let better = side.unwrap_or(if ends > 0 { Side::Last } else { Side::First });
        let first = if side.is_some() { REACH.len() - 1 } else { 0 };
        REACH[first..].iter().find_map(|reach| {
            let mut sides = [better, better.other()].into_iter();
            sides.find(|side| self.drain(bits, block, *side, need, all.min(*reach)))
        })
    }

    /// Moves buckets from a block to the next one, and if that is full from there to the one after
    /// it, through at most `reach` blocks.
    fn drain(
        &mut self,
        bits: impl Bits,
        block: usize,
        side: Side,
        need: usize,
        reach: usize,
    ) -> bool {
        // The free bits that each block needs.
        let mut needs = [need; REACH[REACH.len() - 1] + 1];
        let (mut at, mut depth) = (block, 0);
        loop {
            self.evict(bits, at);
            let Some(head) = self.head(at) else { return false };
            let free = self.layout.free(head);
            if free >= needs[depth] {
                break;
            }
            if depth == reach {
                return false;
            }
            let edge = self.layout.edge(self.block(at), head, side, needs[depth] - free);
            let Some((_, moved)) = edge else { return false };
            depth += 1;
            needs[depth] = moved;
            at = self.next(at, side);
        }
        for need in needs[..depth].iter().rev() {
            let to = at;
            at = self.next(to, side.other());
            if !self.pass(bits, at, to, side, *need) {
                return false;
            }
        }
        true
    }

    /// Moves buckets to the next block: enough that `need` bits are free, and if there is room half
    /// of what the next block has more room.
    fn pass(&mut self, bits: impl Bits, from: usize, to: usize, side: Side, need: usize) -> bool {
        let (Some(source), Some(target)) = (self.head(from), self.head(to)) else { return false };
        let [free, room] = [source, target].map(|head| self.layout.free(head));
        let half = room.saturating_sub(free) / 2;
        let enough = need.saturating_sub(free);
        let fitting = [half.max(enough), enough].into_iter().find_map(|bits| {
            let edge = self.layout.edge(self.block(from), source, side, bits);
            edge.filter(|(_, bits)| *bits <= room)
        });
        let Some((count, _)) = fitting else { return false };
        let shift = match side {
            Side::Last => target.shift - count as i64,
            Side::First => source.shift + count as i64,
        };
        if shift.abs() > self.max_shift() {
            return false;
        }
        let (layout, words) = (self.layout, self.layout.words);
        let (low, high) = (from.min(to), from.max(to));
        let (before, after) = self.blocks.to_mut().split_at_mut(high * words);
        let (low, high) = (&mut before[low * words..][..words], &mut after[..words]);
        // The left one of a pair is the higher one where the ring closes.
        let from_is_left = side == Side::Last;
        let blocks = if from_is_left == (from < to) { (low, high) } else { (high, low) };
        layout.pass(bits, blocks, side, count)
    }
}
