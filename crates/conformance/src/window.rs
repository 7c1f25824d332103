//! Filters of a window: no key inside of it is denied, and beyond window and slack a key is a
//! stranger like any other.

use std::collections::{HashMap, VecDeque};

use tamis::{Filter, HashId, KeyHash, KeyHasher, Keyed, Limits, Settings, Shape, Window};

use crate::keys::{Form, Random};
use crate::members::{bytes, shape};
use crate::{Effort, Subject, stats, variants};

fn empty<F: Subject>(keys: u64, fpr: f64, settings: &Settings) -> Option<F> {
    let shape = shape::<F>(keys, fpr, settings)?;
    Some(F::build(shape, &[][..]).expect("nothing fits"))
}

/// A window of so many ticks, for so many keys in that time; `None` if the kind does not know time.
fn timed<F: Subject>(keys: u64, ticks: u64) -> Option<F> {
    if F::Shape::SETTINGS.iter().all(|setting| setting.name != "ticks") {
        return None;
    }
    let mut settings = Settings::default();
    settings.set("ticks", ticks);
    empty(keys, 0.01, &settings)
}

fn all_in<F: Filter>(filter: &F, keys: impl Iterator<Item = KeyHash>, what: &str) {
    let keys: Vec<KeyHash> = keys.collect();
    let mut out = vec![false; keys.len()];
    crate::members::contains_batch(filter, &keys, &mut out);
    assert!(!out.contains(&false), "{what}: a key of the window is denied in a batch");
    let denied = keys.iter().position(|key| !filter.contains(*key));
    assert_eq!(denied, None, "{what}: a key of the window is denied");
}

/// Streams whose keys come again, soon and late, one by one and in batches, for each way to set the kind
/// up: what is in the window is seen when it comes again, and is in whenever it is asked for.
pub fn no_key_of_the_window_is_denied<F: Subject + Window>() {
    let effort = Effort::now();
    let mut random = effort.random(81);
    let variants = variants::<F::Shape>();
    let sizes = [(1u64, 0.3), (2, 0.01), (9, 0.3), (100, 0.01), (1001, 0.05), (20_000, 0.01)];
    let pushes = effort.times(1_500_000) / (variants.len() * sizes.len()) as u64;
    for settings in &variants {
        // A window of time refuses keys beyond its capacity until time passes: see `time_is_kept`.
        if settings.iter().any(|(name, _)| name == "ticks") {
            continue;
        }
        for (keys, fpr) in sizes {
            let Some(mut filter) = empty::<F>(keys, fpr, settings) else { continue };
            let hasher = KeyHasher::new(HashId::Fast, random.seed());
            let mut window: VecDeque<KeyHash> = VecDeque::new();
            // When each key was last pushed.
            let (mut last, mut pushed) = (HashMap::new(), 0u64);
            while pushed < pushes {
                let run: Vec<KeyHash> = (0..1 + random.below(50))
                    .map(|_| {
                        let old = random.below(2) == 0 && !window.is_empty();
                        let fresh = Form::Integers.hashes(&hasher, random.word() >> 20, 1)[0];
                        if old { window[random.below(window.len())] } else { fresh }
                    })
                    .collect();
                let mut seen = vec![false; run.len()];
                if random.below(2) == 0 {
                    filter.push_batch(&run, &mut seen).expect("room for a window");
                } else {
                    for (seen, key) in seen.iter_mut().zip(&run) {
                        *seen = filter.push(*key).expect("room for a window");
                    }
                }
                for (key, seen) in run.iter().zip(seen) {
                    if window.len() as u64 == keys {
                        window.pop_front();
                    }
                    window.push_back(*key);
                    let before = last.insert(key.hi, pushed);
                    let inside = before.is_some_and(|before| pushed - before <= keys);
                    assert!(seen || !inside, "a key of the last {keys} came again, unnoticed");
                    pushed += 1;
                }
                let key = window[random.below(window.len())];
                assert!(filter.contains(key), "a key of the last {keys} is denied");
                let most = keys + filter.slack();
                assert!(filter.len() <= most, "{} keys of {most}", filter.len());
                if random.below(keys as usize / 8 + 1) == 0 {
                    all_in(&filter, window.iter().copied(), "in mid-stream");
                }
            }
            filter.validate().expect("a sound filter");
        }
    }
}

/// The last of a window is seen again at the very last moment; with one key more it may not be.
pub fn the_window_ends_where_it_says<F: Subject + Window>() {
    let hasher = KeyHasher::new(HashId::Fast, [82, 83]);
    for keys in [1u64, 2, 7, 8, 9, 63, 64, 1000, 1001] {
        let mut filter = empty::<F>(keys, 1e-4, &Settings::default()).expect("within reach");
        assert_eq!(filter.window(), keys);
        assert!(filter.slack() >= 1 && filter.slack() <= keys.max(2), "{}", filter.slack());
        let stream = Form::Integers.hashes(&hasher, 0, keys * 5 + 10);
        let mut forgotten = 0u64;
        for (at, key) in stream.iter().enumerate() {
            filter.push(*key).expect("room for a window");
            let at = at as u64 + 1;
            if let Some(first) = at.checked_sub(keys) {
                assert!(
                    filter.contains(stream[first as usize]),
                    "key {first} of {at}, {keys} last"
                );
            }
            if let Some(old) = at.checked_sub(keys + filter.slack() + 1) {
                forgotten += u64::from(!filter.contains(stream[old as usize]));
            }
        }
        let asked = (keys * 5 + 10).saturating_sub(keys + filter.slack());
        assert!(forgotten + 3 + asked / 500 >= asked, "{forgotten} of {asked} are forgotten");
    }
}

/// After many turnovers strangers get in as often as stated for what it remembers, never more often than
/// was asked for; and keys past window and slack are such strangers.
pub fn the_rate_holds_after_turnovers<F: Subject + Window>() {
    const KEYS: u64 = 2000;
    let effort = Effort::now();
    let mut random = effort.random(84);
    for (fpr, seeds) in [(0.2, 20), (0.01, 100), (1e-3, 40)] {
        let seeds = effort.times(seeds);
        let [mut fresh, mut old, mut asked] = [0u64; 3];
        let mut stated = 0.0;
        for seed in 0..seeds {
            let mut filter = empty::<F>(KEYS, fpr, &Settings::default()).expect("within reach");
            let hasher = KeyHasher::new(HashId::Fast, random.seed());
            // To a hundred turnovers and a part of a generation.
            let count = 100 * KEYS + seed % (filter.slack() + 1);
            let stream = Form::Integers.hashes(&hasher, 0, count);
            for run in stream.chunks(500) {
                filter.push_batch(run, &mut [false; 500]).expect("room for a window");
            }
            let rate = filter.shape().fpr_at(filter.len());
            assert!(rate <= fpr, "{rate} where {fpr} was asked for");
            stated += rate / seeds as f64;
            let end = (count - KEYS - filter.slack()) as usize;
            let strangers = Form::Integers.hashes(&hasher, 1 << 40, KEYS);
            fresh += strangers.iter().filter(|key| filter.contains(**key)).count() as u64;
            let gone = &stream[end - KEYS as usize..end];
            old += gone.iter().filter(|key| filter.contains(**key)).count() as u64;
            asked += KEYS;
            filter.validate().expect("a sound filter");
        }
        stats::check(&format!("{} fresh at {fpr}", F::KIND), fresh, asked, stated);
        stats::check(&format!("{} forgotten at {fpr}", F::KIND), old, asked, stated);
    }
}

/// A window of a million keys in a long run, over a hundred turnovers: every second key is one of the
/// window and is seen, each of the fifty million times. Then, full of keys that are all different, it lets
/// in strangers as often as stated, and those that it has forgotten no more often.
pub fn a_large_window_turns_over<F: Subject + Window>() {
    let effort = Effort::now();
    let mut random = effort.random(90);
    let keys = effort.times(10_000);
    let mut filter = empty::<F>(keys, 0.01, &Settings::default()).expect("within reach");
    let hasher = KeyHasher::new(HashId::Fast, random.seed());
    let (mut fresh, mut again) = (0, 0u64);
    let mut next = || {
        fresh += 1;
        hasher.int(fresh)
    };
    // The last keys, of which the oldest is replaced.
    let mut window: Vec<KeyHash> = (0..keys).map(|_| next()).collect();
    filter.push_batch(&window, &mut vec![false; window.len()]).expect("room for a window");
    let mut oldest = 0;
    for _ in 0..100 * keys / 500 {
        let run: [(KeyHash, bool); 500] = std::array::from_fn(|_| {
            let inside = random.below(2) == 0;
            let key = if inside { window[random.below(window.len())] } else { next() };
            window[oldest] = key;
            oldest = (oldest + 1) % window.len();
            (key, inside)
        });
        let mut seen = [false; 500];
        filter.push_batch(&run.map(|(key, _)| key), &mut seen).expect("room for a window");
        for ((_, inside), seen) in run.into_iter().zip(seen) {
            assert!(seen || !inside, "a key of the last {keys} came again, unnoticed");
            again += u64::from(inside);
        }
        let key = window[random.below(window.len())];
        assert!(filter.contains(key), "a key of the last {keys} is denied");
    }
    assert!(again > 49 * keys, "{again} keys again");
    all_in(&filter, window.iter().copied(), "after a hundred turnovers");

    let forgotten = fresh - keys..fresh;
    let most = keys + filter.slack();
    let rest: Vec<KeyHash> =
        (fresh..fresh + most).map(|number| hasher.int(1 << 40 | number)).collect();
    filter.push_batch(&rest, &mut vec![false; rest.len()]).expect("room for a window");
    assert!(filter.len() <= most, "{} keys of {most}", filter.len());
    filter.validate().expect("a sound filter");
    let stated = filter.shape().fpr_at(filter.len());
    assert!(stated <= 0.01, "{stated} where 0.01 was asked for");
    let yes = |numbers: std::ops::Range<u64>| {
        numbers.filter(|number| filter.contains(hasher.int(*number))).count() as u64
    };
    let strangers = (1 << 41)..(1 << 41) + 10 * keys;
    stats::check(&format!("{} strangers", F::KIND), yes(strangers), 10 * keys, stated);
    stats::check(&format!("{} forgotten", F::KIND), yes(forgotten), keys, stated);
}

/// Through a file at any point of a generation, and on as if nothing had happened.
pub fn a_file_in_mid_window_goes_on<F: Subject + Window>() {
    let hasher = KeyHasher::new(HashId::Fast, [85, 86]);
    let mut filter = empty::<F>(300, 0.01, &Settings::default()).expect("within reach");
    let stream = Form::Integers.hashes(&hasher, 0, 3000);
    for (at, key) in stream.iter().enumerate() {
        if at % 41 == 0 {
            let written = bytes(&Keyed::new(hasher, filter.clone()));
            let read =
                Keyed::<F>::read_from(&written[..], &Limits::default()).expect("just written");
            assert!(bytes(&read) == written, "other bytes the second time");
            let (_, mut read) = read.into_parts();
            let mut stayed = filter.clone();
            for key in &stream[at..(at + 100).min(stream.len())] {
                assert_eq!(read.push(*key), stayed.push(*key));
            }
            assert_eq!(read, stayed);
        }
        filter.push(*key).expect("room for a window");
    }
}

/// By the clock: in for the whole of the time, gone after time and slack, whether keys come or not; a clock
/// that goes back, or jumps, does no harm.
pub fn time_is_kept<F: Subject + Window>() {
    const TICKS: u64 = 800;
    let mut random = Random::new(87);
    let Some(mut filter) = timed::<F>(2000, TICKS) else { return };
    assert_eq!(filter.window(), TICKS);
    let (most, mut now) = (TICKS + filter.slack(), 1_000_000u64);
    filter.advance(now);
    let mut pushed: VecDeque<(u64, KeyHash)> = VecDeque::new();
    let (mut asked, mut ghosts) = (0u64, 0u64);
    for step in 0..40_000 {
        if random.below(2) == 0 {
            let key = random.hash();
            filter.push(key).expect("fewer keys than planned");
            pushed.push_back((now, key));
        }
        match random.below(1000) {
            0 => now += random.word() % 3000,
            // Back, by a little and by everything.
            1..20 => filter.advance(now - random.word() % now),
            20..500 => now += 1,
            _ => {}
        }
        filter.advance(now);
        while pushed.front().is_some_and(|(then, _)| now - then > most) {
            let (_, key) = pushed.pop_front().expect("looked at");
            (asked, ghosts) = (asked + 1, ghosts + u64::from(filter.contains(key)));
        }
        if step % 50 == 0 {
            let inside = pushed.iter().filter(|(then, _)| now - then <= TICKS);
            all_in(&filter, inside.map(|(_, key)| *key), "by the clock");
            filter.validate().expect("a sound filter");
        }
    }
    assert!(asked > 15_000 && ghosts < asked / 30, "{ghosts} of {asked} are still there");
    // No key comes for very long, and nothing is left.
    filter.advance(u64::MAX);
    assert!(filter.is_empty() && !pushed.iter().any(|(_, key)| filter.contains(*key)));
}

/// Ten times the keys that the window was planned for: the filter refuses those that find no room, one by
/// one and in batches. It never denies a key that it accepted, and accepts no more non-members than stated.
/// When the time is over it takes keys again.
pub fn a_full_window_refuses_keys<F: Subject + Window>() {
    const KEYS: u64 = 2000;
    let Some(mut filter) = timed::<F>(KEYS, 1000) else { return };
    let hasher = KeyHasher::new(HashId::Fast, [88, 89]);
    let crowd = Form::Integers.hashes(&hasher, 0, 10 * KEYS);
    filter.advance(5000);
    let (mut accepted, mut refused, mut rest) = (Vec::new(), Vec::new(), &crowd[..]);
    while !rest.is_empty() {
        let run = &rest[..rest.len().min(100)];
        let (mut seen, mut one_by_one) = ([false; 100], filter.clone());
        let outcome = filter.push_batch(run, &mut seen);
        let done = outcome.map_or_else(|full| full.inserted as usize, |()| run.len());
        for (key, seen) in run[..done].iter().zip(seen) {
            assert_eq!(one_by_one.push(*key), Ok(seen), "a batch differs from single keys");
        }
        accepted.extend_from_slice(&run[..done]);
        if let Some(key) = run.get(done) {
            assert_eq!(outcome.map_err(|full| full.inserted), Err(done as u64));
            assert!(one_by_one.push(*key).is_err(), "only the batch refuses the key");
            refused.push(*key);
        }
        assert!(filter == one_by_one, "a batch differs from single keys");
        rest = &rest[(done + 1).min(rest.len())..];
    }
    assert!(accepted.len() as u64 >= KEYS, "{} of {KEYS} keys find room", accepted.len());
    assert!(refused.len() as u64 > 7 * KEYS, "{} keys are refused", refused.len());
    filter.advance(5999);
    all_in(&filter, accepted.iter().copied(), "of a full filter");
    filter.validate().expect("a sound filter");
    // Every refused key was looked up when it was pushed, and keys have been accepted since.
    let stated = filter.shape().fpr_at(filter.len());
    let strangers = Form::Integers.hashes(&hasher, 1 << 40, 100 * KEYS);
    let yes = strangers.iter().filter(|key| filter.contains(**key)).count() as u64;
    stats::check(&format!("{} full", F::KIND), yes, 100 * KEYS, stated);
    assert!(stated < 0.0125, "{stated} where 0.01 was planned");
    filter.advance(5000 + 1000 + filter.slack() + 1000);
    assert!(filter.is_empty() && !crowd.iter().any(|key| filter.contains(*key)));
    let room = &crowd[..KEYS as usize];
    filter.push_batch(room, &mut vec![false; room.len()]).expect("room again");
    all_in(&filter, room.iter().copied(), "after a full filter");
}
