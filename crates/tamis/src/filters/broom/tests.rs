use super::bin::{Address, CHUNK, Fingerprint, TAIL, View, ViewMut};
use super::*;
use crate::hash::{HashId, Key, KeyHasher};
use crate::shape::Goal;
use std::collections::BTreeMap;
use tamis_bits::range::{mix, scale};
use tamis_bits::select::Portable;

fn hashes(seed: u64, keys: core::ops::Range<u64>) -> Vec<KeyHash> {
    let hasher = KeyHasher::new(HashId::Fast, [seed, 19]);
    keys.map(|key| key.hash_with(&hasher)).collect()
}

struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    fn below(&mut self, n: u64) -> u64 {
        scale(self.word(), n)
    }
}

/// Lines per bin, buckets and remainder bits.
const LAYOUTS: [(u32, u32, u32); 18] = [
    (1, 16, 1),
    (1, 51, 2),
    (1, 40, 5),
    (1, 51, 6),
    (1, 43, 8),
    (1, 36, 10),
    (1, 24, 12),
    (1, 25, 13),
    (1, 43, 40),
    (2, 16, 1),
    (2, 115, 2),
    (2, 51, 4),
    (2, 64, 5),
    (2, 115, 6),
    (2, 90, 8),
    (2, 63, 12),
    (2, 65, 13),
    (2, 50, 40),
];

fn layout((lines, b, r): (u32, u32, u32)) -> Layout {
    Layout { lines, b, s: Layout::max_slots(lines, b, r), r }
}

/// Returns the planned shape with bins of `lines` lines.
fn fit(lines: u32, keys: u64, fpr: f64) -> BroomShape {
    let mut settings = Settings::default();
    settings.set(LINES.name, lines);
    crate::shape::solve(Goal::KeysFpr { keys, fpr }, &settings).unwrap()
}

/// Returns a shape of one bin.
fn one_bin(b: u32, s: u32, r: u32, keys: u64) -> BroomShape {
    BroomShape::new(1, Layout { lines: 1, b, s, r }, 1, 4, keys).unwrap()
}

/// Compares a bin with a list of fingerprints.
#[test]
fn a_bin_agrees_with_a_list_of_fingerprints() {
    let mut random = Random(1);
    for pair in LAYOUTS {
        let layout = layout(pair);
        let (mut line, mut far) = (vec![0; layout.words()], vec![0; 100]);
        let at = 77;
        let mut model: Vec<Fingerprint> = Vec::new();
        let read = |line: &[u64], far: &[u64]| {
            let view = View { layout, line, far, at };
            assert_eq!(view.fault(), None);
            let mut fingerprints = Vec::new();
            view.fingerprints(&mut fingerprints);
            fingerprints
        };
        for step in 0..30_000 {
            // Few tails, so that fingerprints are prefixes of each other.
            let tail = mix(random.below(12)) & !tamis_bits::packed::mask(64 - TAIL);
            let address = Address { bucket: random.below(layout.b.into()) as u32, tail };
            let view = View { layout, line: &line, far: &far, at };
            let longest = model.iter().filter(|fp| fp.matches(address)).map(|p| p.len).max();
            assert_eq!(view.contains(Portable, address), longest.is_some());
            assert_eq!(view.longest_match(Portable, address).map(|(_, len)| len), longest);
            assert_eq!(view.used() as usize, model.len());
            let mut edit = ViewMut { layout, line: &mut line, far: &mut far, at };
            match random.below(8) {
                0..4 if edit.has_room() => {
                    edit.insert(Portable, address);
                    let before = model.iter().position(|p| p.bucket >= address.bucket);
                    model
                        .insert(before.unwrap_or(model.len()), Fingerprint::new(address, layout.r));
                }
                4..6 => {
                    if let Some((slot, len)) = edit.view().longest_match(Portable, address) {
                        assert_eq!(model[slot as usize], Fingerprint::new(address, len));
                        edit.remove(Portable, address.bucket, slot);
                        model.remove(slot as usize);
                    }
                }
                6 if !model.is_empty() => {
                    let at = random.below(model.len() as u64) as usize;
                    let mut longer = model.clone();
                    let more = random.below(2 * u64::from(CHUNK) + 2) as u32;
                    let len = (model[at].len + more).min(TAIL);
                    longer[at] = Fingerprint::new(
                        Address { bucket: model[at].bucket, tail: mix(random.below(12)) },
                        len,
                    );
                    longer[at].tail = longer[at].tail
                        & tamis_bits::packed::mask(64 - model[at].len)
                        | model[at].tail;
                    if layout.fitting(&longer) == longer.len() {
                        edit.fill(&longer);
                        model = longer;
                    }
                }
                _ if step % 500 == 0 => {
                    model.clear();
                    edit.fill(&[]);
                }
                _ => {}
            }
            assert_eq!(read(&line, &far), model, "{layout:?} step {step}");
        }
        assert!(far[0] == 0 && far[1] & tamis_bits::packed::mask(at as u32 - 64) == 0);
    }
}

/// A multiset of members in the order of their hashes.
#[derive(Default)]
struct Store(BTreeMap<(u64, u64), usize>);

impl Store {
    fn insert(&mut self, key: KeyHash) {
        *self.0.entry((key.hi, key.lo)).or_default() += 1;
    }

    fn remove(&mut self, key: KeyHash) -> bool {
        let Some(count) = self.0.get_mut(&(key.hi, key.lo)) else { return false };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&(key.hi, key.lo));
        }
        true
    }

    fn contains(&self, key: KeyHash) -> bool {
        self.0.contains_key(&(key.hi, key.lo))
    }

    fn members(&self, range: RangeInclusive<u64>) -> Vec<KeyHash> {
        let range = self.0.range((*range.start(), 0)..=(*range.end(), u64::MAX));
        range.flat_map(|(&(hi, lo), count)| vec![KeyHash { hi, lo }; *count]).collect()
    }

    fn all(&self) -> Vec<KeyHash> {
        self.members(0..=u64::MAX)
    }
}

/// Mixes all operations in tables of a few bins with short remainders, so that fingerprints often
/// collide, overflow, spill and are extended, and bins are often rehashed.
#[test]
fn random_operations_with_repairs_and_sweeps_and_moves() {
    for (round, which) in (0..LAYOUTS.len()).chain([9, 13, 14, 0, 3, 4]).enumerate() {
        let mut random = Random(round as u64);
        let mut layout = layout(LAYOUTS[which]);
        // Most rounds have few slots.
        layout.s = layout.s.min(if round % 3 == 0 { 128 } else { 9 });
        let Layout { lines, b, s, r } = layout;
        let bins = [1, 2, 7, 30][round % 4];
        let keys = bins * u64::from(s) * 5 / 4;
        let shape = BroomShape::new(bins, layout, 1, 4, keys).unwrap();
        let mut filter = Broom::new(shape.clone()).unwrap();
        let mut store = Store::default();
        // Few distinct low halves make whole bins collide.
        let key = |random: &mut Random| {
            let word = mix(random.below(keys * 3));
            KeyHash { hi: word, lo: if word.is_multiple_of(3) { word % 64 } else { mix(word) } }
        };
        let (mut repairs, mut moves) = ([0; 4], 0);
        for step in 0..20_000u32 {
            let x = key(&mut random);
            match random.below(100) {
                0..40 => match filter.insert(x) {
                    Ok(()) => store.insert(x),
                    Err(Full { .. }) => assert_eq!(filter.len(), filter.shape().keys),
                },
                40..65 => {
                    if store.remove(x) {
                        assert!(filter.remove(x));
                    }
                }
                65..98 => {
                    let yes = filter.contains(x);
                    if yes && !store.contains(x) {
                        let repair = filter.adapt(x, &store.members(filter.suspects(x)));
                        repairs[repair as usize] += 1;
                        assert_eq!(filter.contains(x), repair == Repair::Impossible);
                        assert_eq!(filter.len(), store.all().len() as u64);
                    }
                    assert!(yes || !store.contains(x));
                }
                98 if step % 37 == 0 && !filter.is_moving() => {
                    let bins = 1 + random.below(40);
                    // The other bin size as well.
                    let lines = if random.below(2) == 0 { lines } else { 3 - lines };
                    let b = b.min(Layout::max_buckets(lines));
                    let s = s.min(Layout::max_slots(lines, b, r));
                    let layout = Layout { lines, b, s, r };
                    let other = BroomShape::new(bins, layout, 2, 4, keys.max(filter.len()));
                    filter.resize(other.unwrap()).unwrap();
                    moves += 1;
                }
                _ => {
                    if let Some(range) = filter.due() {
                        filter.renew(&store.members(range));
                    }
                }
            }
            if step % 64 == 0 {
                filter.validate().unwrap();
                assert_eq!(filter.len(), store.all().len() as u64);
                assert!(store.all().iter().all(|key| filter.contains(*key)), "a false negative");
            }
        }
        assert!(repairs[Repair::Extended as usize] > 0 || r > 5, "{layout:?} {repairs:?}");
        assert!(moves > 0);
        for key in store.all() {
            assert!(filter.remove(key));
        }
        filter.validate().unwrap();
        assert!(filter.is_empty());
    }
}

/// A build gives the bytes of inserting its keys one by one, at all rates, with bins of one line and
/// of two, with copies, at any load, in any runs.
#[test]
fn a_build_equals_insertions() {
    let built = |shape: BroomShape, keys: &[KeyHash], runs: usize| {
        let source = crate::source::Hashes::new(keys.iter().copied());
        let filter = match runs {
            1 => Broom::build(shape.clone(), keys),
            _ => Broom::build(shape.clone(), source),
        };
        let filter = filter.unwrap();
        let mut inserted = Broom::new(shape).unwrap();
        keys.iter().for_each(|key| inserted.insert(*key).unwrap());
        assert!(filter == inserted, "{:?}, {} keys", filter.shape(), keys.len());
        assert_eq!((filter.len(), filter.stashed()), (inserted.len(), inserted.stashed()));
        filter.validate().unwrap();
    };
    for (lines, exponent) in
        [1, 2].into_iter().flat_map(|lines| [5, 8, 12, 13, 20, 40].map(|e| (lines, e)))
    {
        for keys in [0, 1, 100, 4000, 70_000] {
            let shape = fit(lines, keys, f64::exp2(-f64::from(exponent)));
            let members = hashes(keys, 0..keys);
            built(shape.clone(), &members, 1 + keys as usize % 2);
            built(shape.clone(), &members[..members.len() / 2], 2);
            // 100 copies of some keys, which overflow, and keys of a part of the bins only.
            let copies = |i: u64| members[(i % 100 * (keys / 100)) as usize];
            let some = |i: u64| KeyHash { hi: members[i as usize].hi / 9, ..members[i as usize] };
            if keys >= 4000 {
                let mixed = (0..keys).map(|i| if i % 3 == 0 { copies(i) } else { some(i) });
                built(shape, &mixed.collect::<Vec<_>>(), 1);
            }
        }
    }
    // Few slots: most keys overflow, and the stash grows.
    for (round, which) in LAYOUTS.into_iter().enumerate() {
        let mut layout = layout(which);
        layout.s = layout.s.min([1, 5, 20][round % 3]);
        let shape = BroomShape::new(300, layout, 2, 4, 9000).unwrap();
        built(shape, &hashes(3, 0..9000), 1);
    }
}

/// Repaired false positives stay rejected until their bin is rehashed or a key is inserted.
#[test]
fn repaired_false_positives_stay_rejected() {
    let members = hashes(5, 0..2000);
    let mut store = Store::default();
    members.iter().for_each(|key| store.insert(*key));
    for lines in [1, 2] {
        let mut filter = Broom::build(fit(lines, 2000, 0.05), &members[..]).unwrap();
        let mut repaired: Vec<KeyHash> = Vec::new();
        for x in hashes(5, 1 << 40..(1 << 40) + 20_000) {
            if filter.contains(x) {
                let range = filter.suspects(x);
                if filter.adapt(x, &store.members(range.clone())) == Repair::Rehashed {
                    repaired.retain(|x| !range.contains(&x.hi));
                }
                repaired.push(x);
                assert!(repaired.iter().all(|x| !filter.contains(*x)));
            }
        }
        assert!(repaired.len() > 100);
    }
}

/// Non-members that are queried repeatedly are all rejected in the end if they are a quarter of the
/// working set (half of it in bins of two lines); if they are four times as many, the rate still holds.
#[test]
fn a_working_set_is_learned() {
    let members = hashes(12, 0..2000);
    let mut store = Store::default();
    members.iter().for_each(|key| store.insert(*key));
    for (lines, part, max) in [(1, 0.25, 0.005), (1, 4.0, 1.0), (2, 0.5, 0.005), (2, 4.0, 1.0)] {
        let shape = fit(lines, 2000, 0.035);
        let mut filter = Broom::build(shape.clone(), &members[..]).unwrap();
        let count = (filter.working_set() * part) as u64;
        let non_members = hashes(12, 1 << 40..(1 << 40) + count);
        let mut passed = 0;
        // A full bin has room for one extension: it takes several salts until that suffices.
        for _ in 0..40 {
            passed = 0;
            for x in &non_members {
                if filter.contains(*x) {
                    passed += 1;
                    filter.adapt(*x, &store.members(filter.suspects(*x)));
                    while let Some(range) = filter.due() {
                        filter.renew(&store.members(range));
                    }
                }
            }
        }
        let share = f64::from(passed) / count as f64 / shape.fpr_at(2000);
        println!("{lines}: {count} non-members, in the end {share:.3} of the rate");
        assert!(share <= max, "{part} of the working set: {share} of the rate");
    }
}

/// Returns the weight of a bin's fingerprints: 1 for one without an extension, half of it for each
/// bit more.
fn weight(filter: &Broom, bin: u64) -> f64 {
    let weight = |fp: &Fingerprint| f64::from(filter.table.layout.r as i32 - fp.len as i32).exp2();
    filter.table.gather(bin).iter().map(weight).sum()
}

/// No bin that was repaired or swept has more than the stated rate, however many keys it has: the
/// fingerprints in its overflow count as one, or less. The stash does not grow.
#[test]
fn no_bin_exceeds_the_stated_rate() {
    for (lines, fpr) in [(1, 1.0 / 32.0), (1, 1.0 / 256.0), (1, 1e-5), (2, 1.0 / 256.0)] {
        let keys = 20_000;
        let shape = fit(lines, keys, fpr);
        let members = hashes(13, 0..keys);
        let mut store = Store::default();
        members.iter().for_each(|key| store.insert(*key));
        let mut filter = Broom::build(shape.clone(), &members[..]).unwrap();
        let heaviest =
            |filter: &Broom| (0..shape.bins).map(|bin| weight(filter, bin)).fold(0.0, f64::max);
        let slots = f64::from(shape.slots());
        let before = heaviest(&filter);
        assert!(before > slots + 4.0, "{before} in a bin of {slots} slots");
        for bin in 0..shape.bins {
            // A non-member of this bin that is a false positive; with rare ones, any key of the bin.
            let range = filter.table.range(bin);
            let hi = range.start().midpoint(*range.end());
            let strangers = (0..20_000).map(|lo| KeyHash { hi, lo: mix(lo) });
            let found = strangers.clone().find(|x| filter.contains(*x));
            match found {
                Some(x) => {
                    filter.adapt(x, &store.members(filter.suspects(x)));
                    assert!(!filter.contains(x) && weight(&filter, bin) <= slots + 1.0);
                }
                None => assert!(fpr < 1e-4),
            }
        }
        let mut sweep = filter.table.sweep();
        sweep.credit += 2 * keys;
        filter.table.set_sweep(sweep);
        while let Some(range) = filter.due() {
            filter.renew(&store.members(range));
        }
        assert!(filter.sweeps() >= 1 && filter.len() == keys);
        let after = heaviest(&filter);
        assert!(after <= slots + 1.0, "{after} in a bin of {slots} slots");
        let stated = shape.figures().fpr;
        assert!(after / classes_per_bin(shape.layout.b, shape.layout.r) <= stated && stated <= fpr);
        assert_eq!(filter.stashed().1, shape.stash);
        filter.validate().unwrap();
        assert!(members.iter().all(|key| filter.contains(*key)));
    }
    // 40 slots and 200 keys: the fingerprints in the overflow have 8 bits more.
    let members = hashes(13, 0..200);
    let mut filter = Broom::build(one_bin(40, 40, 2, 200), &members[..]).unwrap();
    let x = (1000..).map(|x| hashes(13, x..x + 1)[0]).find(|x| filter.contains(*x)).unwrap();
    filter.adapt(x, &members);
    assert!(weight(&filter, 0) <= 41.0 && members.iter().all(|key| filter.contains(*key)));
    filter.validate().unwrap();
}

/// Lemma 5: after as many false positives as there are keys, every key is under another function.
/// Here two keys are swept for each false positive, so half as many suffice.
#[test]
fn a_sweep_takes_as_many_false_positives_as_half_the_keys() {
    let members = hashes(6, 0..3000);
    for lines in [1, 2] {
        let mut filter = Broom::build(fit(lines, 3000, 1.0 / 16.0), &members[..]).unwrap();
        let mut store = Store::default();
        members.iter().for_each(|key| store.insert(*key));
        let (mut found, mut ends) = (0u64, Vec::new());
        for x in 1 << 40.. {
            let x = hashes(6, x..x + 1)[0];
            if filter.contains(x) {
                found += 1;
                filter.adapt(x, &store.members(filter.suspects(x)));
                while let Some(range) = filter.due() {
                    let before = filter.sweeps();
                    filter.renew(&store.members(range));
                    if filter.sweeps() > before {
                        ends.push(found);
                    }
                }
                if ends.len() == 4 {
                    break;
                }
            }
        }
        filter.validate().unwrap();
        assert!(members.iter().all(|key| filter.contains(*key)));
        for (sweep, end) in (1..).zip(ends) {
            // Keys in the overflow are not counted.
            assert!(
                (1430 * sweep..=1501 * sweep).contains(&end),
                "sweep {sweep} ended after {end}"
            );
        }
    }
}

/// A bin without another salt moves to the next epoch, and then waits for the sweep.
#[test]
fn salts_can_run_out() {
    let members = hashes(7, 0..40);
    let shape = one_bin(20, 40, 2, 40);
    let mut filter = Broom::build(shape, &members[..]).unwrap();
    let mut outcomes = [0u32; 4];
    for x in hashes(7, 1 << 40..(1 << 40) + 20_000) {
        // No false negatives, and no sweep.
        if filter.contains(x) {
            outcomes[filter.adapt(x, &members) as usize] += 1;
            assert!(members.iter().all(|key| filter.contains(*key)));
        }
    }
    assert!(outcomes[Repair::Rehashed as usize] > 60 && outcomes[Repair::Impossible as usize] > 0);
    while filter.due().is_some() {
        filter.renew(&members);
        filter.validate().unwrap();
    }
    assert!(members.iter().all(|key| filter.contains(*key)));
}

/// Keys with the same low half cannot be separated.
#[test]
fn equal_low_halves_cannot_be_separated() {
    let members = [KeyHash { hi: 5, lo: 7 }];
    let mut filter = Broom::build(BroomShape::fit(10, 0.01).unwrap(), &members[..]).unwrap();
    assert_eq!(filter.adapt(KeyHash { hi: 6, lo: 7 }, &members), Repair::Impossible);
    assert_eq!(filter.adapt(KeyHash { hi: 6, lo: 8 }, &members), Repair::NotNeeded);
    assert!(filter.contains(members[0]));
}

/// A renewal drops keys that are no longer members and adds missing ones.
#[test]
fn renewal_replaces_the_fingerprints_of_a_bin() {
    let members = hashes(8, 0..40);
    let shape = one_bin(20, 45, 2, 45);
    let mut filter = Broom::build(shape, &members[..]).unwrap();
    let x = (100..).map(|x| hashes(8, x..x + 1)[0]).find(|x| filter.contains(*x)).unwrap();
    filter.adapt(x, &members[..39]);
    let mut sweep = filter.table.sweep();
    sweep.credit = 100;
    filter.table.set_sweep(sweep);
    filter.renew(&members[..39]);
    assert_eq!(filter.len(), 39);
    filter.renew(&members);
    assert_eq!(filter.len(), 40);
    assert!(members.iter().all(|key| filter.contains(*key)));
    filter.validate().unwrap();
}

/// 10^6 copies of one key take no more work than 10^6 keys.
#[test]
fn copies_are_counted() {
    let key = hashes(9, 0..1)[0];
    let shape = BroomShape::fit(1_000_000, 0.01).unwrap();
    let mut filter = Broom::build(shape, &vec![key; 1_000_000][..]).unwrap();
    filter.validate().unwrap();
    assert_eq!(filter.insert(key), Err(Full::NONE));
    assert!((0..1_000_000).all(|_| filter.remove(key)));
    assert!(!filter.contains(key) && filter.is_empty() && filter.stashed().0 == 0);
    filter.validate().unwrap();
}

fn overflowed(filter: &Broom) -> u64 {
    let inside = |bin| u64::from(filter.table.view(bin).used());
    filter.len() - (0..filter.table.shape.bins).map(inside).sum::<u64>()
}

/// At the planned load the stash does not grow, nor in ten times as many removals and insertions:
/// keys move back into bins and overflow lines with room, so the overflow depends only on the
/// current keys, and equals that of a new filter of these keys.
#[test]
fn overflow_matches_the_plan() {
    let wishes = [(100, 0.01), (3000, 0.004), (100_000, 1.0 / 256.0), (100_000, 1e-4)];
    for (lines, (keys, fpr)) in [1, 2].into_iter().flat_map(|lines| wishes.map(|w| (lines, w))) {
        let shape = fit(lines, keys, fpr);
        let mut present = hashes(10, 0..keys);
        let mut filter = Broom::build(shape.clone(), &present[..]).unwrap();
        let expected =
            binomial_mean(shape.bins, keys, |n| n.saturating_sub(shape.slots().into()) as f64)
                * shape.bins as f64;
        let near = |count: u64| (count as f64 - expected).abs() < 12.0 * expected.sqrt() + 10.0;
        assert!(
            near(overflowed(&filter)),
            "{} overflowed, {expected} expected",
            overflowed(&filter)
        );
        assert_eq!(filter.stashed().1, shape.stash);
        let mut random = Random(keys);
        for new in keys..keys * 11 {
            let at = random.below(keys) as usize;
            assert!(filter.remove(present[at]));
            present[at] = hashes(10, new..new + 1)[0];
            filter.insert(present[at]).unwrap();
        }
        filter.validate().unwrap();
        assert!(present.iter().all(|key| filter.contains(*key)));
        assert!(
            near(overflowed(&filter)),
            "{} overflowed, {expected} expected",
            overflowed(&filter)
        );
        assert_eq!(filter.stashed().1, shape.stash, "{:?}", filter.stashed());
        let rebuilt = Broom::build(shape, &present[..]).unwrap();
        assert_eq!(filter.stashed(), rebuilt.stashed());
        assert_eq!(overflowed(&filter), overflowed(&rebuilt));
    }
}

/// The stash has room for 6 to 25 standard deviations more than its mean number of entries,
/// measured over many sets of keys.
#[test]
fn the_stash_has_six_standard_deviations_to_spare() {
    const SETS: u64 = 24;
    let rates = [1.0 / 64.0, 1.0 / 256.0, 1.0 / 4096.0, 1e-5, 1e-10];
    for (lines, fpr) in [1, 2].into_iter().flat_map(|lines| rates.map(|fpr| (lines, fpr))) {
        let keys = 100_000;
        let shape = fit(lines, keys, fpr);
        let counts = (0..SETS).map(|seed| {
            let filter = Broom::build(shape.clone(), &hashes(seed, 0..keys)[..]).unwrap();
            filter.stashed().0 as f64
        });
        let counts: Vec<f64> = counts.collect();
        let mean = counts.iter().sum::<f64>() / SETS as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>();
        let deviation = (variance / (SETS - 1) as f64).sqrt();
        let spare = (shape.stash as f64 * 0.75 - mean) / deviation;
        println!(
            "{lines} {fpr:e}: {mean:.0} ± {deviation:.0} of {}: {spare:.1} deviations",
            shape.stash
        );
        assert!((6.0..25.0).contains(&spare), "{spare} standard deviations to spare");
    }
}

/// A lookup reads 1 line in filters with bins of one line, and 1 more where its bin overflows in
/// its bucket.
#[test]
fn most_queries_touch_one_line() {
    for (lines, fpr) in [(1, 6), (1, 8), (1, 12), (1, 16), (2, 6), (2, 8), (2, 12), (2, 16)] {
        let members = hashes(11, 0..300_000);
        let shape = fit(lines, 300_000, f64::exp2(-f64::from(fpr)));
        let filter = Broom::build(shape, &members[..]).unwrap();
        let touched = |key: &KeyHash| {
            let bin = filter.table.bin(*key);
            let (view, address) = (filter.table.view(bin), filter.table.address(bin, *key));
            let far = filter.table.layout.far() > 0 && view.reads_far(Portable, address);
            let inside = view.contains(Portable, address);
            let overflow = !inside && view.may_overflow(address.bucket);
            view.lines(Portable, address) + u32::from(far) + u32::from(overflow)
        };
        let non_members = hashes(11, 1 << 40..(1 << 40) + 300_000);
        let mean = |keys: &[KeyHash]| {
            keys.iter().map(|key| f64::from(touched(key))).sum::<f64>() / keys.len() as f64
        };
        let (no, yes) = (mean(&non_members), mean(&members));
        println!("{lines}: 2^-{fpr}: {no:.3} lines per non-member, {yes:.3} per member");
        let (most_no, most_yes) = if lines == 1 { (1.05, 1.10) } else { (1.65, 1.95) };
        assert!(no <= most_no, "{no} lines per non-member");
        // Wide remainders are stored in two places.
        let two = if fpr > 12 { 1.0 } else { 0.0 };
        assert!(yes <= most_yes + two, "{yes} lines per member");
    }
}

#[test]
fn documented_sizes() {
    let promises =
        [(1, 6, 11.2), (1, 8, 13.4), (1, 12, 19.1), (2, 6, 10.4), (2, 8, 12.4), (2, 12, 17.4)];
    for (lines, power, max) in promises {
        for keys in [1_000_000, 10_000_000, 1_000_000_000] {
            let fpr = f64::exp2(-f64::from(power));
            let shape = fit(lines, keys, fpr);
            let figures = shape.figures();
            println!("{shape:?} {:.2}", figures.bits_per_key());
            assert!(
                figures.fpr <= fpr * (1.0 + 1e-9) && figures.bits_per_key() <= max,
                "{figures:?}"
            );
        }
    }
}

/// The default has two lines per bin exactly where memory times the cost of a lookup is less.
#[test]
fn the_planner_chooses_the_lines_of_a_bin() {
    let mut chosen = [0, 0];
    for exponent in 5..=20 {
        let (keys, fpr) = (1_000_000, f64::exp2(-f64::from(exponent)));
        let score = |shape: &BroomShape| {
            let figures = shape.figures();
            figures.bits_per_key() * (1.0 + figures.query_cost / 8.0)
        };
        let shape = BroomShape::fit(keys, fpr).unwrap();
        let other = fit(3 - shape.lines(), keys, fpr);
        assert!(score(&shape) <= score(&other), "2^-{exponent}: {shape:?} and {other:?}");
        chosen[shape.lines() as usize - 1] += 1;
    }
    assert!(chosen.iter().all(|count| *count > 0), "{chosen:?}");
}
