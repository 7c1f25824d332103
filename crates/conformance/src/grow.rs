//! A kind that grows keeps its false positive rate for every number of keys, and accepts them all.

use tamis::{
    Build, BuildOptions, Filter, Grow, Growing, HashId, Insert, KeyHash, KeyHasher, Keyed, Persist,
    Settings, Shape, Sizing,
};

use crate::keys::Form;
use crate::members::{bytes, shape};
use crate::{Effort, Subject, stats, variants};

/// Checks the rate at the first size and at each doubling with the exact binomial test: it is what
/// the shape states for that number of keys, which never exceeds the rate that was requested.
pub fn the_rate_is_kept_at_every_size<F: Subject + Grow>() {
    let effort = Effort::now();
    let mut random = effort.random(81);
    for settings in variants::<F::Shape>() {
        // Every setting is tested, the defaults with more filters.
        let filters = if settings == Settings::default() { 20 } else { 3 };
        for (keys, fpr, doublings) in [(100, 0.01, 8), (700, 0.1, 7), (5000, 0.01, 4)] {
            let Some(shape) = shape::<F>(keys, fpr, &settings) else { continue };
            let filters = effort.times(filters);
            let mut yeses = vec![0; doublings + 1];
            for _ in 0..filters {
                let hasher = KeyHasher::new(HashId::Fast, random.seed());
                let mut filter = F::build(shape.clone(), &[][..]).expect("nothing fits");
                let strangers = Form::Integers.hashes(&hasher, 1 << 40, keys * 8);
                let mut out = vec![false; strangers.len()];
                for (doubling, yeses) in yeses.iter_mut().enumerate() {
                    let members = Form::Integers.hashes(&hasher, 0, keys << doubling);
                    filter.insert_batch(&members[filter.len() as usize..]).expect("it grows");
                    assert_eq!(filter.len(), keys << doubling);
                    filter.contains_batch(&strangers, &mut out);
                    *yeses += out.iter().filter(|yes| **yes).count() as u64;
                }
            }
            for (doubling, yeses) in yeses.into_iter().enumerate() {
                let stated = shape.fpr_at(keys << doubling);
                assert!(stated <= fpr * (1.0 + 1e-9), "{settings:?}, {doubling}: {stated}");
                let what =
                    format!("{} {settings:?}: {keys} keys doubled {doubling} times", F::KIND);
                stats::check(&what, yeses, filters * keys * 8, stated);
            }
        }
    }
}

/// Checks that a `growing` filter spends what the bound allows at every size from 1000 keys on, and no more: measured
/// bytes, and a measured rate that is not below a quarter of the requested one, nor above it. It grows to 10^6 keys,
/// and to 10^7 with `TAMIS_SOAK=10`.
pub fn growing_spends_its_rate_at_every_size() {
    for fpr in [0.05, 0.01, 0.001] {
        growing_spends(fpr);
    }
}

fn growing_spends(fpr: f64) {
    let effort = Effort::now();
    let hasher = KeyHasher::new(HashId::Fast, effort.random(87).seed());
    let shape = shape::<Growing>(1000, fpr, &Settings::default()).expect("it is within reach");
    let mut filter = Growing::build(shape, &[][..]).expect("nothing fits");
    let strangers = Form::Integers.hashes(&hasher, 1 << 40, effort.times(200_000));
    let mut out = vec![false; strangers.len()];
    let most = effort.times(1_000_000);
    let (mut size, mut closest) = (1000.0, f64::MAX);
    let (mut lowest, mut highest) = (f64::MAX, 0.0f64);
    while filter.len() < most {
        let keys = (size as u64).min(most);
        while filter.len() < keys {
            let members =
                Form::Integers.hashes(&hasher, filter.len(), (keys - filter.len()).min(1 << 16));
            filter.insert_batch(&members).expect("it grows");
        }
        let bits = filter.bytes() as f64 * 8.0 / keys as f64;
        let bound = -fpr.log2() + 2.0 * (keys as f64).log2().log2() + 3.5;
        assert!(bits <= bound, "{fpr}, {keys} keys: {bits} bits, and the bound is {bound}");
        filter.contains_batch(&strangers, &mut out);
        let yeses = out.iter().filter(|yes| **yes).count() as u64;
        let trials = strangers.len() as u64;
        let fewest = stats::bounds(trials, fpr / 4.0, stats::ALPHA).start;
        let most = stats::bounds(trials, fpr, stats::ALPHA).end;
        assert!((fewest..most).contains(&yeses), "{fpr}, {keys} keys: {yeses} of {trials}");
        let share = yeses as f64 / trials as f64 / fpr;
        (lowest, highest) = (lowest.min(share), highest.max(share));
        closest = closest.min(bound - bits);
        size *= 1.19;
    }
    println!(
        "{fpr}: {most} keys, rate {lowest:.3} to {highest:.3} of it, memory at least {closest:.2} bits a key below the bound"
    );
}

/// Checks a filter that grows to 1000 times its first size and is saved and mapped on the way: no
/// member is denied, and the bytes are those of a filter that was never saved.
pub fn it_goes_on_through_files<F: Subject + Grow>() {
    let hasher = KeyHasher::new(HashId::Fast, [83, 84]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("growing.tamis");
    for settings in variants::<F::Shape>() {
        let shape = shape::<F>(64, 0.02, &settings).expect("2 % is within reach");
        let members: Vec<KeyHash> = Form::Strings.hashes(&hasher, 0, 64_000);
        let mut whole = F::build(shape.clone(), &[][..]).expect("nothing fits");
        let mut saved = whole.clone();
        for keys in members.chunks(9_001) {
            whole.insert_batch(keys).expect("it grows");
            keys.iter().for_each(|key| saved.insert(*key).expect("it grows"));
            Keyed::new(hasher, saved).save(&path).expect("room for a file");
            let read = Keyed::<F>::open(&path).expect("what was just saved");
            std::fs::remove_file(&path).expect("it is there");
            saved = read.into_parts().1;
            assert!(members.iter().take(whole.len() as usize).all(|key| saved.contains(*key)));
        }
        assert!(whole.validate().is_ok() && saved == whole, "{settings:?}");
        let file = |filter: F| bytes(&Keyed::new(hasher, filter));
        let (whole, saved, built) =
            (whole, saved, F::build(shape, &members[..]).expect("it grows"));
        let whole = file(whole);
        assert!(file(saved) == whole && file(built) == whole, "{settings:?}");
    }
}

/// Checks that the memory is within 3 % of what the shape states for the number of keys, and that
/// the filter's figures follow its size.
pub fn its_figures_are_those_of_its_size<F: Subject + Grow>() {
    let hasher = KeyHasher::new(HashId::Fast, [85, 86]);
    let shape = shape::<F>(1000, 0.01, &Settings::default()).expect("1 % is within reach");
    let mut filter = F::build(shape.clone(), &[][..]).expect("nothing fits");
    for keys in [1000, 1500, 10_000, 33_000, 100_000, 200_000] {
        let members = Form::Integers.hashes(&hasher, filter.len(), keys - filter.len());
        filter.insert_batch(&members).expect("it grows");
        let figures = shape.figures_at(keys);
        assert_eq!((figures.keys, figures.fpr), (keys, shape.fpr_at(keys)));
        let off = filter.bytes() as f64 / figures.bytes as f64 - 1.0;
        assert!(off.abs() < 0.03, "{keys} keys: {} bytes, not {}", filter.bytes(), figures.bytes);
        let members = Form::Integers.hashes(&hasher, 0, keys);
        let any = F::KIND.build(
            &Sizing::fpr(0.01).capacity(1000),
            &mut &members[..],
            &BuildOptions::new(),
        );
        let any = any.expect("it grows").figures();
        assert_eq!((any.keys, any.bytes, any.fpr), (keys, filter.bytes(), figures.fpr));
    }
}
