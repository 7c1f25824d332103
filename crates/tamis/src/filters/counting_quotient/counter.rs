//! How often, inside a run.
//!
//! A run lists its remainders in ascending order. So whatever does *not* ascend after a remainder
//! `x` is free to say how often it is in:
//!
//! ```text
//!  x > 0                            x = 0, which nothing is below
//!  x            once                0              once
//!  x x          twice               0 0            twice
//!  x y          y + 2, 0 < y < x    0 0 0          three times
//!  x 0 d d …    x + 2 and more      0 0 0 0 d d …  4 and more
//! ```
//!
//! The digits `d` hold what is more than the x + 2 or 4, lowest first: each has r - 1 bits of it,
//! and its highest bit says that another follows. The last digit is not 0, unless it is the only
//! one. Each row is told from the others by the slots it shows, and the digits say where they end:
//! a run can be read in one way only, and each count of each remainder is written in one way only.
//!
//! A count takes at most as many slots as copies would, save four zeros, which take five.

use tamis_bits::packed::mask;

/// A remainder of a run, how often it is in, and the slots that say so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) remainder: u64,
    pub(super) count: u64,
    pub(super) slots: u64,
}

/// The largest count that is written: more than any filter takes keys.
pub(super) const MAX_COUNT: u64 = 1 << 49;

/// Slots that `count` of `remainder` takes, at `width` bits a slot.
pub(super) fn slots(width: u32, remainder: u64, count: u64) -> u64 {
    let mut slots = 0;
    encode(width, remainder, count, |_, _| slots += 1);
    slots
}

/// Hands `put` the slots of `count` times `remainder`, numbered from 0.
#[inline]
pub(super) fn encode(width: u32, remainder: u64, count: u64, mut put: impl FnMut(u64, u64)) {
    let (announced, shown) = if remainder > 0 {
        put(0, remainder);
        match count {
            0 | 1 => return,
            2 => return put(1, remainder),
            _ if count < remainder + 2 => return put(1, count - 2),
            _ => put(1, 0),
        }
        (2, remainder + 2)
    } else {
        (0..count.min(4)).for_each(|slot| put(slot, 0));
        if count < 4 {
            return;
        }
        (4, 4)
    };
    let (mut rest, mut slot, digit) = (count - shown, announced, width - 1);
    while rest > mask(digit) {
        put(slot, rest & mask(digit) | 1 << digit);
        (rest, slot) = (rest >> digit, slot + 1);
    }
    put(slot, rest);
}

/// Reads the entry at the beginning of `left` slots, at least one, which end with the run; `None`
/// if it is not one that is written.
#[inline]
pub(super) fn decode(width: u32, left: u64, slot: impl Fn(u64) -> u64) -> Option<Entry> {
    let remainder = slot(0);
    let entry = |count, slots| Some(Entry { remainder, count, slots });
    let next = if left > 1 { slot(1) } else { u64::MAX };
    if next > remainder {
        return entry(1, 1);
    }
    let (announced, shown) = if remainder > 0 {
        match next {
            0 => {}
            _ if next == remainder => return entry(2, 2),
            _ => return entry(next + 2, 2),
        }
        (2, remainder + 2)
    } else {
        match (2..left.min(4)).take_while(|at| slot(*at) == 0).count() {
            2 => {}
            more => return entry(2 + more as u64, 2 + more as u64),
        }
        (4, 4)
    };
    let (digit, mut rest) = (width - 1, 0u64);
    for (number, at) in (announced..left).enumerate() {
        let (value, shift) = (slot(at), number as u32 * digit);
        // No count needs a digit that begins so high: neither it nor its shift can overflow.
        if shift > 49 || (value & mask(digit)).leading_zeros() < shift {
            return None;
        }
        rest |= (value & mask(digit)) << shift;
        if value >> digit == 0 {
            let short = value > 0 || number == 0;
            let count = rest.checked_add(shown).filter(|count| short && *count <= MAX_COUNT)?;
            return entry(count, at + 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(width: u32, remainder: u64, count: u64) -> Vec<u64> {
        let mut slots = Vec::new();
        encode(width, remainder, count, |at, value| {
            assert_eq!(at, slots.len() as u64);
            assert!(value <= mask(width));
            slots.push(value);
        });
        slots
    }

    /// There and back, alone and with anything that may follow, in no more slots than there should
    /// be, and growing by one slot with the count, or by two.
    fn check(width: u32, remainder: u64, count: u64, before: u64) -> u64 {
        let mut slots = written(width, remainder, count);
        let len = slots.len() as u64;
        assert!(len <= count || (remainder, count, len) == (0, 4, 5));
        assert!(len >= before && len <= before + 2);
        let expected = Some(Entry { remainder, count, slots: len });
        let read = |slots: &[u64]| decode(width, slots.len() as u64, |at| slots[at as usize]);
        assert_eq!(read(&slots), expected, "width {width}");
        for next in [remainder + 1, mask(width)] {
            if (remainder + 1..=mask(width)).contains(&next) {
                slots.push(next);
                assert_eq!(read(&slots), expected, "width {width}, before {next}");
                slots.pop();
            }
        }
        len
    }

    /// There and back for each count to a million, at the least width, a middle one and that of a
    /// rate of 2^-8: 292 million pairs, so without all that [`check`] looks at.
    #[test]
    fn every_count_of_every_remainder() {
        let mut slots = [0; 32];
        for width in [2, 5, 8] {
            for remainder in 0..=mask(width) {
                for count in 1..=1_000_000 {
                    let mut len = 0;
                    encode(width, remainder, count, |at, value| {
                        slots[at as usize] = value;
                        len = at + 1;
                    });
                    let read = decode(width, len, |at| slots[at as usize]);
                    assert_eq!(read, Some(Entry { remainder, count, slots: len }), "width {width}");
                }
            }
        }
    }

    #[test]
    fn small_counts_among_others() {
        for width in 2..=8 {
            for remainder in 0..=mask(width) {
                (1..=3000).fold(0, |before, count| check(width, remainder, count, before));
            }
        }
    }

    /// Every remainder, at each count where a digit is added or all bits change.
    #[test]
    fn every_boundary() {
        for width in (2..=12).chain([31, 32, 33, 59, 60]) {
            let few = [0, 1, 2, 3, 5, mask(width) / 2, mask(width) - 1, mask(width)];
            let remainders = if width <= 8 { (0..=mask(width)).collect() } else { few.to_vec() };
            for remainder in remainders {
                let shown = if remainder == 0 { 4 } else { remainder + 2 };
                let edges = (0..49).map(|bits| (1u64 << bits).saturating_add(shown));
                for edge in edges.chain([1, 2, 3, 4, 5, 10, 1000, MAX_COUNT - 2]) {
                    let range = edge.saturating_sub(2).max(1)..=edge + 2;
                    for count in range.filter(|count| *count <= MAX_COUNT) {
                        let before = slots(width, remainder, (count - 1).max(1));
                        check(width, remainder, count, before.min(count - 1));
                    }
                }
            }
        }
    }

    #[test]
    fn the_same_key_a_million_times_takes_few_slots() {
        let slots: Vec<u64> = (2..=8).map(|width| slots(width, 1, 1_000_000)).collect();
        assert_eq!(slots, [22, 12, 9, 7, 6, 6, 5]);
    }

    /// Nothing but what is written is read, whatever the slots hold.
    #[test]
    fn what_is_read_is_what_is_written() {
        for width in 2..=4 {
            let values = 1u64 << width;
            for len in 1..=(u64::from(12 / width) + 2) {
                for number in 0..values.pow(len as u32) {
                    let slot = |at: u64| number >> (at as u32 * width) & mask(width);
                    if let Some(entry) = decode(width, len, slot) {
                        assert!(entry.slots <= len);
                        let again = written(width, entry.remainder, entry.count);
                        assert!(again.iter().copied().eq((0..entry.slots).map(slot)));
                    }
                }
            }
        }
        let endless = |at: u64| if at < 4 { 0 } else { 0b11 };
        assert_eq!(decode(2, 10_000, endless), None);
        assert_eq!(decode(60, 10, |at| if at < 4 { 0 } else { mask(60) }), None);
    }
}
