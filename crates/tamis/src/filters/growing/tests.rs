use super::*;
use crate::hash::{HashId, Key, KeyHasher};

fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
    let hasher = KeyHasher::new(HashId::Fast, [seed, 7]);
    keys.map(|key| key.hash_with(&hasher)).collect()
}

fn grown(keys: u64, fpr: f64, most: Option<u64>, members: &[KeyHash]) -> Growing {
    Growing::build(GrowingShape::new(keys, fpr, most).unwrap(), members).unwrap()
}

/// Checks the drawing entry by entry: each key has its own entry, which is a prefix of its bits, in
/// the bucket that its bits lead to.
#[test]
fn every_key_has_an_entry_of_its_own() {
    for (fpr, most, size) in [(0.01, None, 40_000), (0.3, None, 300_000), (0.3, Some(3000), 40_000)]
    {
        let members = hashes(1, 0..size);
        let filter = grown(1100, fpr, most, &members);
        filter.validate().unwrap();
        let mut keys = vec![Vec::new(); filter.list.len() as usize];
        for key in &members {
            let product = u128::from(key.hi) * 2 + u128::from(key.lo >> 63);
            let (first, bits) = ((product >> 64) as u64, product as u64);
            let index = (0..filter.list.len())
                .find(|index| {
                    let depth = filter.depth_of(*index);
                    let path = bits.reverse_bits() & ((1 << depth) - 1);
                    *index == first + 2 * path
                })
                .unwrap();
            let bits = bits << filter.depth_of(index);
            keys[index as usize].push((bits >> 54, bits << 10));
        }
        let mut voids = 0;
        for (keys, (depth, segment)) in keys.into_iter().zip(filter.segments_in_order()) {
            let layout = filter.layout(depth);
            let mut left = segment.entries(layout);
            // The longest match first: a short entry may match several keys.
            for (bucket, bits) in keys {
                let matching = left.iter().enumerate().filter(|(_, (of, entry))| {
                    let length = layout.width - 1 - entry.trailing_zeros();
                    u64::from(*of) == bucket
                        && (length == 0
                            || bits >> (64 - length) == entry >> (layout.width - length))
                });
                let longest = matching.min_by_key(|(_, (_, entry))| entry.trailing_zeros());
                let (at, _) = longest.expect("each key has an entry");
                left.remove(at);
            }
            assert!(
                left.iter().all(|(_, entry)| *entry == layout.void()),
                "only void copies are left"
            );
            voids += left.len();
        }
        let share = voids as f64 / (filter.list.len() as f64 * 1024.0);
        assert!(share < fpr && (share > 0.0) == (fpr == 0.3), "{share} copies per bucket");
    }
}

/// The computed rate rises with each doubling, never exceeds the planned rate, and ends above half
/// of it.
#[test]
fn lengths_leave_a_share_for_later_rounds() {
    for (keys, fpr, most) in
        [(1, 0.01, None), (1000, 0.01, Some(100_000_000)), (1 << 30, 1e-4, None), (500, 0.9, None)]
    {
        let shape = GrowingShape::new(keys, fpr, most).unwrap();
        let size = |doubling: u32| (shape.base() * SEGMENT_KEYS) << doubling;
        let rates: Vec<f64> = (0..)
            .take_while(|doubling| size(*doubling) <= shape.max_segments() * SEGMENT_KEYS)
            .map(|doubling| shape.fpr_at(size(doubling)))
            .collect();
        // Averages over samples of the segments differ by their sampling errors.
        let rising = rates.windows(2).all(|pair| pair[1] > pair[0] * 0.999);
        assert!(rising && rates.iter().all(|rate| *rate <= fpr), "{rates:?}");
        assert!(rates.len() > 9 && rates[rates.len() - 1] > 0.5 * fpr, "{rates:?}");
    }
}

/// The planned memory and rate at all sizes from 10^3 keys to 10^8, which conformance compares with
/// the allocated memory and the measured rate.
#[test]
fn memory_and_rate_follow_the_bound_at_every_size() {
    for fpr in [0.05, 0.03, 0.02, 0.013, 0.01, 0.007, 0.001, 1e-6] {
        for first in [1, 1025, 1535, 1_000_000] {
            let shape = GrowingShape::new(first, fpr, None).unwrap();
            let named = GrowingShape::new(first, fpr, Some(100_000_000)).unwrap();
            // Sizes with 3 steps per doubling, and those around each doubling, where memory is largest.
            let sizes = (0..54).map(|step| (1000.0 * (f64::from(step) / 3.2).exp2()) as u64);
            let doubled = (0..18).flat_map(|round| {
                let full = (shape.base() * SEGMENT_KEYS) << round;
                [full, full + 1, full + full / 10]
            });
            for keys in
                sizes.chain(doubled).filter(|keys| (first.max(1000)..=100_000_000).contains(keys))
            {
                let bits = shape.figures_at(keys).bits_per_key();
                let bound = -fpr.log2() + 2.0 * (keys as f64).log2().log2() + 3.5;
                assert!(bits <= bound, "{first} to {keys} at {fpr}: {bits} bits, bound {bound}");
                for shape in [&shape, &named] {
                    let rate = shape.fpr_at(keys) / fpr;
                    assert!((0.25..=1.0).contains(&rate), "{first} to {keys} at {fpr}: {rate}");
                }
            }
        }
    }
    let shape = GrowingShape::new(1000, 0.01, Some(100_000_000)).unwrap();
    assert!(shape.figures_at(100_000_000).bits_per_key() < 14.0);
}

/// The schedule of version 0.1.0, whose files are still read, written and built.
#[test]
fn the_first_schedule_is_kept() {
    let shape = GrowingShape::with_schedule(Schedule::First, 1025, 0.01, None).unwrap();
    assert_eq!((shape.base(), shape.generation(0).length_in(0)), (3, 11));
    assert_eq!(shape.generation(0).length_in(1023), 11);
}

/// Counts the lines that an insertion changes by comparing the whole filter before and after;
/// memory grows by no more than that.
#[test]
fn no_insertion_does_more_in_a_larger_filter() {
    let lines = |segment: &Segment| segment.words().len() / tamis_bits::LINE_WORDS;
    for size in [1000, 20_000, 400_000] {
        let members = hashes(3, 0..size + 1100);
        let mut filter = grown(1000, 0.01, None, &members[..size as usize]);
        let mut worst = 0;
        for key in &members[size as usize..] {
            let (before, bytes) = (filter.clone(), filter.bytes());
            filter.insert(*key).unwrap();
            let new = filter.segments_in_order().skip(before.list.len() as usize);
            let same = filter.segments_in_order().zip(before.segments_in_order());
            let changed = same.filter(|(now, then)| now.1 != then.1);
            let work: usize = changed.map(|(now, then)| lines(now.1) + lines(then.1)).sum();
            worst = worst.max(work + new.map(|(_, segment)| lines(segment)).sum::<usize>());
            let more = filter.bytes() - bytes;
            assert!(more <= 64 * 72, "{more} bytes");
        }
        assert!((20..200).contains(&worst), "{worst} lines at {size} keys");
    }
}

/// Copies are removed one at a time, and of the entries that match a key the longest.
#[test]
fn removal_takes_the_longest_match() {
    let members = hashes(5, 0..60_000);
    let mut filter = grown(1000, 0.3, None, &members[..30_000]);
    filter.insert_batch(&members).unwrap();
    for key in &members[..30_000] {
        assert!(filter.remove(*key));
    }
    assert!(members.iter().all(|key| filter.contains(*key)));
    assert_eq!(filter.len(), 60_000);
    for (at, key) in members.iter().enumerate() {
        assert!(filter.remove(*key));
        if at % 10_000 == 0 {
            filter.validate().unwrap();
            assert!(members[at + 1..].iter().all(|key| filter.contains(*key)));
        }
    }
    assert_eq!(filter.len(), 0);
}

/// Entries of a key with too many copies are permanent, in every split and after they become void;
/// and their number does not grow.
#[test]
fn any_number_of_copies_is_accepted() {
    let (key, others) = (KeyHash { hi: 77 << 40, lo: 5 }, hashes(6, 0..300_000));
    let mut filter = grown(10, 0.3, Some(1000), &[key; 200]);
    assert_eq!(filter.len(), 200);
    for (at, other) in others.iter().enumerate() {
        filter.insert(*other).unwrap();
        if at % 50_000 == 0 {
            filter.validate().unwrap();
            assert!(filter.contains(key) && filter.remove(key) && filter.insert(key).is_ok());
        }
    }
    assert!((0..200).all(|_| filter.remove(key)) && filter.contains(key));
    assert_eq!(filter.len(), 300_000);
    assert!(others.iter().all(|key| filter.contains(*key)));
    let voids = filter.segments_in_order().map(|(depth, segment)| {
        let entries = segment.entries(filter.layout(depth));
        entries.iter().filter(|(_, entry)| *entry == filter.layout(depth).void()).count()
    });
    let voids = voids.max().unwrap();
    assert!(
        (MAX_VOIDS * 10..=MAX_VOIDS * 1024).contains(&voids),
        "{voids} void entries in a segment"
    );
}

/// For all numbers of entries and widths, every bucket can be queried, also past the last entry,
/// and every entry is found, and can be removed and inserted again.
#[test]
fn segments_of_every_size() {
    use tamis_bits::select::Portable;
    for width in [2, 3, 7, 8, 13, 31, 57] {
        let layout = &Layout::new(width);
        let contains = |segment: &Segment, bucket, query| {
            segment.contains(Portable, layout, segment.group(layout, bucket), bucket, query)
        };
        let mut segment = Segment::empty().unwrap();
        let mut made = Vec::new();
        for (at, key) in hashes(u64::from(width), 0..300).into_iter().enumerate() {
            // Many entries in the lowest groups, none in the last.
            let bucket = key.hi % 1000 / (1 + key.lo % 50);
            let entry = layout.entry(key.lo, width - 1);
            segment.insert(Portable, layout, bucket, entry).unwrap();
            made.push((bucket as u32, entry));
            made.sort_by_key(|(bucket, _)| *bucket);
            assert_eq!(segment.entries(layout), made, "{width} bits, {at} before");
            for (bucket, entry) in &made {
                assert!(contains(&segment, (*bucket).into(), *entry));
            }
            let any = (0..1024).filter(|bucket| contains(&segment, *bucket, 0));
            assert!(any.count() <= made.len());
            let before = segment.clone();
            // The first of equal entries is removed, and inserted again as the last.
            assert!(segment.remove(Portable, layout, bucket, entry));
            segment.insert(Portable, layout, bucket, entry).unwrap();
            let moved = made.iter().position(|other| *other == (bucket as u32, entry)).unwrap();
            let moved = made.remove(moved);
            made.push(moved);
            made.sort_by_key(|(bucket, _)| *bucket);
            segment.validate(layout).unwrap();
            assert_eq!(segment.count(), before.count());
        }
    }
}

/// An insertion reads and writes one segment, and a split reads one and writes two: the words of the largest
/// segment bound the work. Late in a round the segments that are still to be split have about 960 keys.
#[test]
fn segments_do_not_grow_with_the_filter() {
    let largest = [3, 6, 9].map(|round| {
        let filter = grown(1000, 0.01, None, &hashes(3, 0..960 << round));
        let words = filter.segments_in_order().map(|(_, segment)| segment.words().len());
        words.max().unwrap()
    });
    assert!(largest.iter().all(|words| (150..400).contains(words)), "{largest:?} words");
}

#[test]
fn paths_are_reversed_bits() {
    for depth in 0..48 {
        for fraction in (0..100u64).map(tamis_bits::range::mix) {
            let mask = packed::mask(depth);
            assert_eq!(path(fraction, depth) & mask, fraction.reverse_bits() & mask, "{depth}");
        }
    }
}
