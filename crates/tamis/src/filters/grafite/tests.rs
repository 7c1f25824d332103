use super::*;
use tamis_bits::range::mix;

fn build(shape: GrafiteShape, seed: [u64; 2], keys: &[u64]) -> Grafite {
    let hashes: Vec<KeyHash> = keys.iter().map(|key| KeyHash { hi: *key, lo: 0 }).collect();
    let options = BuildOptions::new().seed(seed);
    Grafite::build_with(&options, |_| Ok(shape), &hashes[..]).unwrap()
}

fn contains(filter: &Grafite, number: u64) -> bool {
    filter.contains(KeyHash { hi: number, lo: 0 })
}

/// A range is reported exactly if one of its numbers is, for all ranges of a few blocks at both ends and in
/// the middle of the numbers, and for ranges that wrap around.
#[test]
fn a_range_is_any_of_its_numbers() {
    for seed in 0..40u64 {
        let codes = 3 + mix(seed) % 30;
        let middle = mix(seed + 1) / codes * codes;
        for base in [0, middle, (3 * codes).wrapping_neg(), (codes + codes / 2).wrapping_neg()] {
            // Numbers from `base` on may pass 2^64 and go on at 0.
            let numbers: Vec<u64> = (0..3 * codes).map(|at| base.wrapping_add(at)).collect();
            let count = mix(base.wrapping_add(seed)) % codes.min(4) + 1;
            let keys: Vec<u64> =
                (0..count).map(|at| numbers[(mix(at + seed) % (3 * codes)) as usize]).collect();
            let shape = GrafiteShape::new(count, codes, 1).unwrap();
            let filter = build(shape, [seed, base], &keys);
            filter.validate().unwrap();
            let single: Vec<bool> =
                numbers.iter().map(|number| contains(&filter, *number)).collect();
            assert!(keys.iter().all(|key| contains(&filter, *key)));
            for (first, from) in numbers.iter().enumerate() {
                for (length, to) in numbers[first..].iter().enumerate() {
                    let any = single[first..=first + length].iter().any(|yes| *yes);
                    let found = filter.contains_range(*from, *to);
                    // Ranges of all codes may be reported without a look.
                    let long = length as u64 + 1 >= codes;
                    assert!(found == any || found && long, "{from}..={to}: {found}");
                }
            }
        }
    }
}

/// Neighbours, the ends of the numbers and copies, in a filter of random keys.
#[test]
fn every_range_with_a_key_is_reported() {
    for seed in 0..20u64 {
        let mut keys: Vec<u64> = (0..300).map(|at| mix(at + 1 + seed * 1000)).collect();
        keys.extend(1000..1300);
        keys.extend([0, 0, u64::MAX, u64::MAX, 1 << 63, (1 << 63) - 1]);
        let settings = Settings::new().with("range_length", 64);
        let fit = |len| GrafiteShape::fit_with(len, 0.01, &settings);
        let hashes: Vec<KeyHash> = keys.iter().map(|key| KeyHash { hi: *key, lo: 7 }).collect();
        let filter = Grafite::build_with(&BuildOptions::new(), fit, &hashes[..]).unwrap();
        assert_eq!(filter.len(), 604);
        for key in &keys {
            for before in [0, 1, 63, 64, 10_000, 1 << 40] {
                for after in [0, 1, 64, 1 << 50] {
                    let (first, last) = (key.wrapping_sub(before), key.wrapping_add(after));
                    assert!(filter.contains_range(first, last), "{key}: {first}..={last}");
                }
            }
        }
        let ranges: Vec<(u64, u64)> =
            (0..1000).map(|at| (mix(at), mix(at).wrapping_add(mix(at + 1) >> (at % 64)))).collect();
        let mut out = [false; 1000];
        filter.contains_range_batch(&ranges, &mut out);
        for ((first, last), out) in ranges.iter().zip(out) {
            assert_eq!(filter.contains_range(*first, *last), out);
        }
    }
}

/// The arrays take at most 1.1 times n log2(L / fpr) + 2 n bits, and the stated bytes are those of the filter.
#[test]
fn the_bytes_are_close_to_the_bound() {
    for keys in [10_000u64, 1_000_000, 1_000_000_000] {
        for length in [1u64, 16, 1000, 1 << 20] {
            for fpr in [0.3, 0.01, 1e-4, 1e-6] {
                let settings = Settings::new().with("range_length", length);
                let Ok(shape) = GrafiteShape::fit_with(keys, fpr, &settings) else { continue };
                let bound = keys as f64 * ((length as f64 / fpr).log2() + 2.0);
                let bits = shape.figures().bytes as f64 * 8.0;
                assert!(bits <= 1.1 * bound, "{} of the bound: {shape:?}", bits / bound);
            }
        }
    }
    let shape = GrafiteShape::fit(5000, 0.01).unwrap();
    let keys: Vec<u64> = (0..5000).map(mix).collect();
    assert_eq!(build(shape.clone(), [1, 2], &keys).bytes(), shape.figures().bytes);
}

/// Another seed gives other codes, and the same seed the same bytes.
#[test]
fn the_seed_is_the_key_of_the_codes() {
    let keys: Vec<u64> = (0..1000).map(mix).collect();
    let shape = GrafiteShape::fit(1000, 0.01).unwrap();
    let filter = build(shape.clone(), [1, 2], &keys);
    assert_eq!(filter, build(shape.clone(), [1, 2], &keys));
    for seed in [[1, 3], [0, 2], [2, 1]] {
        let other = build(shape.clone(), seed, &keys);
        let both = (0..100_000u64)
            .map(|n| mix(!n))
            .filter(|n| contains(&filter, *n) && contains(&other, *n));
        assert!(both.count() < 40, "10 of 100000 pass both filters at 1 %");
    }
}

#[test]
fn a_build_keeps_its_memory_limit() {
    let hashes: Vec<KeyHash> = (0..100_000).map(|at| KeyHash { hi: mix(at), lo: 0 }).collect();
    let build = |limit| {
        let options = BuildOptions::new().max_memory(limit, std::env::temp_dir());
        Grafite::build_with(&options, |len| GrafiteShape::fit(len, 0.01), &hashes[..])
    };
    assert_eq!(build(2_000_000).unwrap().len(), 100_000);
    let error = build(1_600_000).unwrap_err();
    assert!(matches!(error, Error::MemoryLimit { limit: 1_600_000, needs } if needs > 1_600_000));
    assert!(matches!(build(1000), Err(Error::MemoryLimit { .. })));
}
