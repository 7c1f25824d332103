//! Small sound files of every kind: empty, full, overfull, saturated, in the middle of a resize.

use std::sync::LazyLock;

use tamis::{
    AnyFilter, BroomShape, BuildOptions, Capability, Filter, Goal, HashId, Key, KeyHash, KeyHasher,
    Keyed, Kind, Settings, Shape, Sizing, Value, ValueSource,
};
use tamis_conformance::attack::Parts;

/// Larger files are left out, because they would make executions slow.
const MOST_BYTES: usize = 4096;
/// Values of settings that are tried, as far as the kind accepts them.
const VALUES: [&str; 16] = [
    "1", "2", "3", "4", "5", "7", "8", "12", "16", "64", "256", "512", "1024", "multi", "single",
    "nae",
];

/// The hasher of every sample. Key number i is the integer i.
pub(crate) fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Fast, [81, 82])
}

/// Returns the samples of `kind`, taken apart.
pub(crate) fn samples(kind: Kind) -> &'static [Parts] {
    static SAMPLES: LazyLock<Vec<Vec<Parts>>> =
        LazyLock::new(|| Kind::ALL.iter().map(|kind| make(*kind)).collect());
    let index = Kind::ALL.iter().position(|other| *other == kind).expect("a registered kind");
    &SAMPLES[index]
}

fn make(kind: Kind) -> Vec<Parts> {
    let mut samples = Vec::new();
    for settings in variants(kind) {
        for keys in [0, 1, 5, 40, 150] {
            for fpr in [0.3, 0.02, 1e-4] {
                if kind.is_slow_to_build() && (keys > 5 || fpr < 0.02) {
                    continue;
                }
                let sizing = Sizing::fpr(fpr).capacity(keys).settings(settings.clone());
                for count in [0, keys / 2, keys] {
                    if let Some(filter) = build(kind, &sizing, count) {
                        add(&mut samples, filter);
                    }
                }
            }
        }
    }
    if kind.can(Capability::Map) {
        maps(kind).into_iter().for_each(|map| add(&mut samples, map));
    }
    assert!(!samples.is_empty(), "{kind} has no small file");
    samples
}

/// Returns maps of signed integers and of byte strings.
fn maps(kind: Kind) -> Vec<AnyFilter> {
    let types: [fn(u64) -> Value; 3] = [
        |key| Value::Integer(i128::from(key) - 3),
        |key| Value::Integer(if key % 2 == 0 { i64::MIN.into() } else { u64::MAX.into() }),
        |key| Value::Bytes(vec![b'a' + key as u8 % 7; key as usize % 5]),
    ];
    let mut maps = Vec::new();
    for (value, count) in types.into_iter().flat_map(|value| [1, 5, 40].map(|count| (value, count)))
    {
        let entries: Vec<(KeyHash, Value)> =
            (0..count).map(|key| (hash(key), value(key))).collect();
        let sizing = Sizing::fpr(0.02);
        let build =
            |source: ValueSource<'_>| kind.build_values(&sizing, source, &BuildOptions::new());
        maps.extend(ValueSource::with(&entries, build));
    }
    assert!(maps.len() >= 6, "{kind} refuses values");
    maps
}

/// The default settings, and each setting at each value that the kind accepts.
fn variants(kind: Kind) -> Vec<Settings> {
    let mut variants = vec![Settings::default()];
    for setting in kind.settings() {
        for value in VALUES {
            let settings = Settings::new().with(setting.name, value);
            if kind.plan(Goal::KeysFpr { keys: 40, fpr: 0.05 }, &settings).is_ok() {
                variants.push(settings);
            }
        }
    }
    variants
}

fn hash(key: u64) -> KeyHash {
    key.hash_with(&hasher())
}

fn build(kind: Kind, sizing: &Sizing, count: u64) -> Option<AnyFilter> {
    let members: Vec<KeyHash> = (0..count).map(hash).collect();
    if kind.can(Capability::Map) {
        let entries: Vec<(KeyHash, u64)> = members.iter().map(|key| (*key, key.lo & 1)).collect();
        return kind.build_map(sizing, &mut &entries[..], &BuildOptions::new()).ok();
    }
    if kind.can(Capability::Deny) {
        let denied: Vec<KeyHash> = (1000..1000 + 2 * count).map(hash).collect();
        let (keys, denied) = (&mut &members[..], &mut &denied[..]);
        return kind.build_denying(sizing, keys, denied, &BuildOptions::new()).ok();
    }
    kind.build(sizing, &mut &members[..], &BuildOptions::new()).ok()
}

/// Adds the file of `filter`, and those of what becomes of it.
fn add(samples: &mut Vec<Parts>, filter: AnyFilter) {
    let mut push = |filter: &AnyFilter| {
        let bytes = Keyed::new(hasher(), filter.clone()).to_bytes().expect("memory");
        if bytes.len() <= MOST_BYTES {
            samples.push(Parts::of(&bytes));
        }
    };
    push(&filter);
    let (kind, len) = (filter.kind(), filter.len());
    let members: Vec<KeyHash> = (0..len).map(hash).collect();
    if kind.can(Capability::Insert) {
        // One key very often, and then as many keys as it takes.
        for copies in [20, 300] {
            let mut saturated = filter.clone();
            let _ = (0..copies).try_for_each(|_| saturated.insert(hash(0)));
            push(&saturated);
        }
        let mut full = filter.clone();
        let _ = (0..2 * len + 20).try_for_each(|key| full.insert(hash(key)));
        push(&full);
    }
    if kind.can(Capability::Window) {
        let mut window = filter.clone();
        for step in 0..4 * len + 9 {
            // A window of time refuses keys beyond its capacity.
            let _ = window.push(hash(step));
            window.advance(step / 3).expect("a window");
            if step % (len + 3) == 2 {
                push(&window);
            }
        }
    }
    if kind.can(Capability::Adapt) && len > 0 {
        let mut repaired = filter.clone();
        for stranger in (1000..3000).map(hash) {
            if repaired.contains(stranger) {
                let range = repaired.suspects(stranger).expect("it adapts");
                repaired.adapt(stranger, &within(&members, &range)).expect("it adapts");
            }
            if stranger.lo.is_multiple_of(8)
                && let Some(range) = repaired.due().expect("it adapts")
            {
                repaired.renew(&within(&members, &range)).expect("it adapts");
            }
        }
        push(&repaired);
    }
    if let AnyFilter::Broom(mut broom) = filter
        && let Ok(shape) = BroomShape::fit(3 * len + 4, 0.1)
        && broom.resize(shape).is_ok()
    {
        for _ in 0..3 {
            push(&AnyFilter::Broom(broom.clone()));
            if let Some(range) = tamis::Adapt::due(&broom) {
                tamis::Adapt::renew(&mut broom, &within(&members, &range));
            }
        }
    }
}

fn within(members: &[KeyHash], range: &std::ops::RangeInclusive<u64>) -> Vec<KeyHash> {
    members.iter().copied().filter(|key| range.contains(&key.hi)).collect()
}
