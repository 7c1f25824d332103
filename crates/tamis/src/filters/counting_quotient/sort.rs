//! Sorting numbers that are spread evenly, as fingerprints are.
//!
//! Their high bits alone put them into parts of nearly equal size: a pass to count, a pass to move,
//! and parts that fit the cache. Twice or three times as fast as comparing, for a spare array.

/// So few are sorted by comparing.
const FEW: usize = 128;
/// Parts that a pass fills side by side: more would be more than the cache has lines and pages for.
const MAX_DIGIT: u32 = 12;

/// Sorts numbers that differ in their low `bits` bits only. Any will do; even ones are fast.
pub(super) fn sort(numbers: &mut [u64], bits: u32) {
    if numbers.len() <= FEW {
        return numbers.sort_unstable();
    }
    sort_with(numbers, &mut vec![0; numbers.len()], bits);
}

fn sort_with(numbers: &mut [u64], spare: &mut [u64], bits: u32) {
    if numbers.len() <= FEW || bits == 0 {
        return numbers.sort_unstable();
    }
    // Parts of 8 to 16, if they are even.
    let digit = (numbers.len() / 8).ilog2().min(MAX_DIGIT).min(bits);
    let (shift, mask) = (bits - digit, (1 << digit) - 1);
    let part = |number: u64| (number >> shift & mask) as usize;
    let mut ends = vec![0; 1 << digit];
    for number in &*numbers {
        ends[part(*number)] += 1;
    }
    let mut sum = 0;
    for end in &mut ends {
        (*end, sum) = (sum, sum + *end);
    }
    for number in &*numbers {
        let place = &mut ends[part(*number)];
        spare[*place] = *number;
        *place += 1;
    }
    numbers.copy_from_slice(spare);
    let mut begin = 0;
    for end in ends {
        sort_with(&mut numbers[begin..end], &mut spare[begin..end], shift);
        begin = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tamis_bits::range::mix;

    #[test]
    fn it_sorts_whatever_comes() {
        for len in [0, 1, 2, 100, 129, 1000, 40_000] {
            for bits in [1, 2, 9, 20, 40, 63, 64] {
                let mask = tamis_bits::packed::mask(bits);
                let even = (0..len).map(|i| mix(i) & mask);
                let equal = (0..len).map(|i| if i % 7 == 0 { mask } else { 0 });
                let crowded = (0..len).map(|i| (mix(i) & mix(i + 1) & mix(i + 2) & 0xfff) & mask);
                let falling = (0..len).map(|i| (len - i) & mask);
                let sets: [Vec<u64>; 4] =
                    [even.collect(), equal.collect(), crowded.collect(), falling.collect()];
                for mut numbers in sets {
                    let mut expected = numbers.clone();
                    expected.sort_unstable();
                    sort(&mut numbers, bits);
                    assert!(numbers == expected, "{len} of {bits} bits");
                }
            }
        }
    }
}
