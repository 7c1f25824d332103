//! The encoding of counts inside a run.
//!
//! A run lists its remainders in ascending order. So any value that does *not* ascend after a remainder
//! `x` can state its count:
//!
//! ```text
//!  x > 0                            x = 0, below which there is no value
//!  x            once                0              once
//!  x x          twice               0 0            twice
//!  x y          y + 2, 0 < y < x    0 0 0          three times
//!  x 0 d d …    x + 2 and more      0 0 0 0 d d …  4 and more
//! ```
//!
//! The digits `d` hold the count minus x + 2, or minus 4, lowest digit first. Each has r - 1 bits of it,
//! and its highest bit states that another digit follows. The last digit is not 0, unless it is the
//! only one. The rows differ in the slots shown, and the digits state where they end, so the encoding is
//! unique in both directions.
//!
//! A count takes at most as many slots as the copies would, except that four zeros take five slots.

use tamis_bits::packed::mask;

/// A remainder of a run, its count, and the number of its slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) remainder: u64,
    pub(super) count: u64,
    pub(super) slots: u64,
}

/// The largest count that can be stored, above the capacity of any filter.
pub(super) const MAX_COUNT: u64 = 1 << 49;

/// Returns the slots that `count` copies of `remainder` take, at `width` bits per slot.
pub(super) fn slots(width: u32, remainder: u64, count: u64) -> u64 {
    let mut slots = 0;
    encode(width, remainder, count, |_, _| slots += 1);
    slots
}

/// Calls `set` with the number, from 0 on, and value of each slot of `count` copies of `remainder`.
#[inline]
pub(super) fn encode(width: u32, remainder: u64, count: u64, mut set: impl FnMut(u64, u64)) {
    let (announced, shown) = if remainder > 0 {
        set(0, remainder);
        match count {
            0 | 1 => return,
            2 => return set(1, remainder),
            _ if count < remainder + 2 => return set(1, count - 2),
            _ => set(1, 0),
        }
        (2, remainder + 2)
    } else {
        (0..count.min(4)).for_each(|slot| set(slot, 0));
        if count < 4 {
            return;
        }
        (4, 4)
    };
    let (mut rest, mut slot, digit) = (count - shown, announced, width - 1);
    while rest > mask(digit) {
        set(slot, rest & mask(digit) | 1 << digit);
        (rest, slot) = (rest >> digit, slot + 1);
    }
    set(slot, rest);
}

/// Decodes the entry at the start of `left` slots, at least 1, which end with the run. Returns `None` for
/// slots that [`encode`] does not write.
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
        // The digits of a valid count start at bit 49 or below, so neither a digit nor its shift
        // can overflow.
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

    fn encoded(width: u32, remainder: u64, count: u64) -> Vec<u64> {
        let mut slots = Vec::new();
        encode(width, remainder, count, |at, value| {
            assert_eq!(at, slots.len() as u64);
            assert!(value <= mask(width));
            slots.push(value);
        });
        slots
    }

    /// Checks that the decoded entry is the encoded one, alone and before any possible next value, that
    /// it takes no more slots than allowed, and that it grows by at most two slots with the count.
    fn check(width: u32, remainder: u64, count: u64, before: u64) -> u64 {
        let mut slots = encoded(width, remainder, count);
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

    /// Encodes and decodes each count up to 10^6, at the least width, a middle one and that of a rate of
    /// 2^-8. These are 292 million pairs, so it does less than [`check`].
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

    /// Every remainder, at each count at which a digit is added or all bits change.
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

    /// Only slots that [`encode`] writes are decoded, for any values.
    #[test]
    fn only_encoded_slots_are_decoded() {
        for width in 2..=4 {
            let values = 1u64 << width;
            for len in 1..=(u64::from(12 / width) + 2) {
                for number in 0..values.pow(len as u32) {
                    let slot = |at: u64| number >> (at as u32 * width) & mask(width);
                    if let Some(entry) = decode(width, len, slot) {
                        assert!(entry.slots <= len);
                        let again = encoded(width, entry.remainder, entry.count);
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
