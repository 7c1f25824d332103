//! Every operation on a filter of unknown origin.

use tamis::{
    AnyFilter, BroomShape, Capability, Error, Filter, KeyHash, Keyed, Kind, Limits, Persist, Shape,
    ValueType,
};
use tamis_conformance::keys::Random;

/// Keys per execution.
const KEYS: usize = 8;
const EDGES: [u64; 6] = [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1, u32::MAX as u64];

/// Does to `filter` all that its kind can do, in an order that `seed` decides. Answers may be any. If
/// `sound` is true, every check has passed: what was inserted is found, and the filter validates and can
/// be saved and opened again after whatever was done to it.
pub(crate) fn exercise(mut filter: Keyed<AnyFilter>, seed: u64, sound: bool) {
    let mut random = Random::new(seed);
    let keys: Vec<KeyHash> = (0..KEYS as u64)
        .map(|index| match index % 4 {
            // A member of the sample.
            0 | 1 => filter.hash(&(index + seed % 32)),
            2 => random.hash(),
            _ => KeyHash { hi: edge(&mut random), lo: edge(&mut random) },
        })
        .collect();
    query(&filter, &keys, sound);
    check(&filter, sound, "it was opened");
    for _ in 0..6 {
        let step = random.below(STEPS.len());
        let (name, operation) = STEPS[step];
        operation(&mut filter, &keys, &mut random, sound);
        check(&filter, sound, name);
    }
    query(&filter, &keys, sound);
    if sound {
        save(&filter);
    }
}

fn edge(random: &mut Random) -> u64 {
    EDGES[random.below(EDGES.len())]
}

type Step = fn(&mut Keyed<AnyFilter>, &[KeyHash], &mut Random, bool);

const STEPS: [(&str, Step); 16] = [
    ("inserts", insert),
    ("inserts", insert),
    ("batches of inserts", insert_batch),
    ("inserts of new keys", insert_new),
    ("removals", remove),
    ("removals", remove),
    ("values", values),
    ("pushes", push),
    ("pushes", push),
    ("repairs", adapt),
    ("repairs", adapt),
    ("renewals", renew),
    ("merging", merge),
    ("intersecting", intersect),
    ("copying", copy),
    ("resizing", resize),
];

fn check(filter: &Keyed<AnyFilter>, sound: bool, after: &str) {
    if sound && let Err(error) = filter.filter().validate() {
        panic!("{} does not validate after {after}: {error}", filter.kind());
    }
}

fn query(filter: &Keyed<AnyFilter>, keys: &[KeyHash], sound: bool) {
    let kind = filter.kind();
    let mut out = [false; KEYS];
    filter.contains_hashes(keys, &mut out);
    assert!(keys.iter().zip(&out).all(|(key, yes)| filter.contains_hash(*key) == *yes));
    let (figures, fpr) = (filter.figures(), filter.fpr());
    assert!((0.0..=1.0).contains(&figures.fpr) && (0.0..=1.0).contains(&fpr), "{kind}: {fpr}");
    let _ = (filter.capacity(), filter.bytes(), filter.heap_bytes(), filter.serialized_len());
    let any = filter.filter();
    let mut counts = [0; KEYS];
    assert_eq!(any.count_batch(keys, &mut counts).is_ok(), kind.can(Capability::Count));
    if kind.can(Capability::Count) {
        any.count_limit().expect("it counts");
        let single = |key: &KeyHash| any.count(*key).expect("it counts");
        assert!(!sound || keys.iter().zip(&counts).all(|(key, count)| single(key) == *count));
    }
    let mut values = [None; KEYS];
    assert_eq!(any.get_batch(keys, &mut values).is_ok(), is_unsigned(any));
    assert_eq!(any.as_map().is_ok(), kind.can(Capability::Map));
    for key in keys {
        let _ = any.get_value(*key);
    }
    if is_unsigned(any) {
        any.value_bits().expect("a map");
        assert!(keys.iter().zip(&values).all(|(key, value)| any.get(*key).ok() == Some(*value)));
    }
    for pair in keys.windows(2) {
        let within = any.contains_range(pair[0].hi, pair[1].hi);
        assert_eq!(within.is_ok(), kind.can(Capability::Range));
        let length = pair[0].lo >> (pair[1].lo % 64);
        let near = any.contains_range(pair[0].hi, pair[0].hi.wrapping_add(length));
        // A verified filter never denies a range with a key that it contains.
        let found = near.is_err() || near.is_ok_and(|found| found) || !any.contains(pair[0]);
        assert!(!sound || found, "{kind} denies a range");
    }
    assert_eq!(any.window().is_ok(), kind.can(Capability::Window));
    assert_eq!(any.due().is_ok(), kind.can(Capability::Adapt));
    match any.list() {
        Ok(list) => drop(list.count()),
        Err(_) => assert!(!kind.can(Capability::List)),
    }
    match any.cardinality() {
        Ok(keys) => assert!(keys >= 0.0, "{keys} keys"),
        Err(_) => assert!(!kind.can(Capability::SetOps)),
    }
    match any.similarity(any) {
        Ok(likeness) => assert!((0.0..1.0 + 1e-9).contains(&likeness), "{likeness} like itself"),
        Err(_) => assert!(!kind.can(Capability::SetOps)),
    }
}

/// What an insertion may refuse with.
fn refused(kind: Kind, error: &Error) {
    let known = match error {
        Error::Full { .. } | Error::Capacity { .. } => kind.can(Capability::Insert),
        Error::Unsupported { .. } => true,
        _ => false,
    };
    assert!(known, "{kind}: {error}");
}

fn insert(filter: &mut Keyed<AnyFilter>, keys: &[KeyHash], random: &mut Random, sound: bool) {
    let kind = filter.kind();
    let times = if random.below(16) == 0 { 40 } else { 1 };
    for key in keys.iter().flat_map(|key| std::iter::repeat_n(key, times)) {
        match filter.insert_hash(*key) {
            Ok(()) if sound => {
                assert!(filter.contains_hash(*key), "inserted, and denied");
                let counted = filter.filter().count(*key).is_ok_and(|count| count == 0);
                assert!(!counted, "inserted, and counted 0 times");
            }
            Ok(()) => {}
            Err(error) => {
                refused(kind, &error);
                return;
            }
        }
    }
}

fn insert_batch(filter: &mut Keyed<AnyFilter>, keys: &[KeyHash], _: &mut Random, sound: bool) {
    let kind = filter.kind();
    match filter.filter_mut().insert_batch(keys) {
        Ok(()) => {
            let all = keys.iter().all(|key| filter.contains_hash(*key));
            assert!(all || !sound, "inserted, and denied");
        }
        Err(error) => refused(kind, &error),
    }
}

fn insert_new(filter: &mut Keyed<AnyFilter>, keys: &[KeyHash], random: &mut Random, sound: bool) {
    let kind = filter.kind();
    let mut new = [false; KEYS];
    if let Err(error) = filter.filter_mut().insert_new_batch(keys, &mut new) {
        refused(kind, &error);
    }
    let key = random.word();
    match filter.insert_new(&key) {
        Ok(_) => assert!(filter.contains(&key) || !sound, "inserted, and denied"),
        Err(error) => refused(kind, &error),
    }
}

fn remove(filter: &mut Keyed<AnyFilter>, keys: &[KeyHash], random: &mut Random, sound: bool) {
    let can = filter.kind().can(Capability::Remove);
    let any = filter.filter_mut();
    for key in keys {
        if random.below(2) == 0 && any.insert(*key).is_ok() && can {
            let removed = any.remove(*key).expect("it removes");
            assert!(removed || !sound, "inserted, and not removed");
        } else {
            assert_eq!(any.remove(*key).is_ok(), can);
        }
    }
    assert_eq!(any.remove_batch(keys, &mut [false; KEYS]).is_ok(), can);
}

/// Returns whether the filter is a map of unsigned integers.
fn is_unsigned(any: &AnyFilter) -> bool {
    let Ok(map) = any.as_map() else { return false };
    matches!(map.value_type(), ValueType::Integers { min: 0, .. })
}

fn values(filter: &mut Keyed<AnyFilter>, keys: &[KeyHash], random: &mut Random, sound: bool) {
    let any = filter.filter_mut();
    if !is_unsigned(any) {
        assert!(any.set(keys[0], 1).is_err());
        if let Ok(Some(value)) = any.get_value(keys[0]) {
            let _ = any.set_value(keys[0], &value);
        }
        return;
    }
    let bits = any.value_bits().expect("a map");
    for key in keys {
        let value = random.word() >> random.below(64);
        let before = any.get(*key).expect("a map");
        match any.set(*key, value) {
            Ok(was) => {
                assert_eq!(before, was);
                assert!(!sound || any.get(*key).expect("a map") == was.map(|_| value));
            }
            Err(Error::Value { .. }) => assert!(bits < 64 && value >> bits > 0),
            Err(error) => panic!("{error}"),
        }
    }
}

fn push(filter: &mut Keyed<AnyFilter>, keys: &[KeyHash], random: &mut Random, sound: bool) {
    let can = filter.kind().can(Capability::Window);
    let any = filter.filter_mut();
    for key in keys {
        match any.push(*key) {
            Ok(_) => assert!(any.contains(*key) || !sound, "pushed, and denied"),
            Err(Error::Full { .. }) => assert!(can),
            Err(_) => assert!(!can),
        }
    }
    match any.push_batch(keys, &mut [false; KEYS]) {
        Ok(()) | Err(Error::Full { .. }) => assert!(can),
        Err(_) => assert!(!can),
    }
    let now = if random.below(2) == 0 { random.below(1000) as u64 } else { random.word() };
    assert_eq!(any.advance(now >> random.below(64)).is_ok(), can);
}

fn adapt(filter: &mut Keyed<AnyFilter>, keys: &[KeyHash], random: &mut Random, _: bool) {
    let can = filter.kind().can(Capability::Adapt);
    for key in keys {
        let range = filter.filter().suspects(*key);
        assert_eq!(range.is_ok(), can);
        let Ok(range) = range else { return };
        let mut members = vec![];
        for _ in 0..random.below(4) {
            let hi = [*range.start(), *range.end(), key.hi, random.word()][random.below(4)];
            members.push(KeyHash { hi, lo: random.word() });
        }
        members.extend(keys.iter().filter(|key| range.contains(&key.hi)));
        filter.filter_mut().adapt(*key, &members).expect("it adapts");
    }
}

fn renew(filter: &mut Keyed<AnyFilter>, keys: &[KeyHash], random: &mut Random, _: bool) {
    for _ in 0..1 + random.below(8) {
        let Ok(Some(range)) = filter.filter().due() else { return };
        let mut members: Vec<KeyHash> =
            keys.iter().copied().filter(|key| range.contains(&key.hi)).collect();
        if random.below(2) == 0 {
            members.push(KeyHash { hi: *range.end(), lo: random.word() });
        }
        filter.filter_mut().renew(&members).expect("it adapts");
    }
}

fn merge(filter: &mut Keyed<AnyFilter>, keys: &[KeyHash], random: &mut Random, _: bool) {
    let kind = filter.kind();
    let mut other = match random.below(2) {
        0 => filter.clone(),
        _ => filter.empty_like().expect("memory"),
    };
    if random.below(2) == 0 {
        let _ = other.filter_mut().insert_batch(keys);
    }
    // Most kinds cannot, and some tables have no bit to spare.
    if random.below(4) == 0 {
        let _ = other.resize(other.capacity().saturating_mul(2), None);
    }
    let merged = match random.below(2) {
        0 => filter.merge(&other),
        _ => filter.force_merge(&other),
    };
    match merged {
        Ok(()) => assert!(kind.can(Capability::Merge)),
        Err(Error::Capacity { .. } | Error::Full { .. }) => assert!(kind.can(Capability::Merge)),
        Err(Error::Unsupported { .. }) => assert!(!kind.can(Capability::Merge)),
        Err(error) => panic!("{kind} does not merge with itself: {error}"),
    }
}

fn intersect(filter: &mut Keyed<AnyFilter>, keys: &[KeyHash], _: &mut Random, _: bool) {
    let kind = filter.kind();
    let mut other = filter.clone();
    if filter.filter_mut().insert_batch(keys).is_err() {
        other = filter.clone();
    }
    assert_eq!(filter.similarity(&other).is_ok(), kind.can(Capability::SetOps));
    assert_eq!(filter.intersect(&other).is_ok(), kind.can(Capability::SetOps));
}

fn copy(filter: &mut Keyed<AnyFilter>, _: &[KeyHash], random: &mut Random, sound: bool) {
    match filter.try_clone() {
        Ok(copy) => assert!(copy == *filter, "the copy differs"),
        Err(error) => assert!(!sound, "there is no copy: {error}"),
    }
    if filter.make_owned().is_err() {
        assert!(!sound, "it cannot be copied");
    }
    if filter.kind().is_slow_to_build() && random.below(16) > 0 {
        return;
    }
    let empty = filter.empty_like().expect("memory");
    assert!(empty.is_empty() && empty.capacity() == filter.capacity());
    let template = filter.to_template().expect("memory");
    let made = Keyed::<AnyFilter>::from_template(&template, &Limits::default());
    match made {
        Ok(made) => assert!(made == empty, "the template makes another filter"),
        Err(error) => assert!(!sound, "the template is refused: {error}"),
    }
    if random.below(8) == 0 {
        filter.clear().expect("memory");
    }
}

fn resize(filter: &mut Keyed<AnyFilter>, _: &[KeyHash], random: &mut Random, _: bool) {
    if let AnyFilter::Broom(broom) = filter.filter_mut() {
        if let Ok(shape) = BroomShape::fit(random.below(200) as u64, 0.1) {
            let _ = broom.resize(shape);
        }
    } else {
        let fpr = [None, Some(0.1), Some(1e-6)][random.below(3)];
        let _ = filter.resize(random.below(400) as u64, fpr);
    }
}

/// Saves, opens again and compares.
fn save(filter: &Keyed<AnyFilter>) {
    let kind = filter.kind();
    let bytes = filter.to_bytes().expect("memory");
    assert_eq!(bytes.len() as u64, filter.serialized_len());
    match Keyed::<AnyFilter>::from_bytes(&bytes) {
        Ok(again) => assert!(again == *filter, "{kind}: read again, it differs"),
        Err(error) => panic!("{kind} is refused after it was saved: {error}"),
    }
}
