//! Bytes never change, damage is detected, hostile files are harmless.

use std::fs;
use std::path::{Path, PathBuf};

use tamis::{
    AdaptiveQuotient, AnyFilter, Bloomier, Broom, Build, BuildOptions, Capability, Cuckoo, Deny,
    Error, Filter, Growing, Guarded, GuardedShape, HashId, Key, KeyHash, KeyHasher, Keyed, Kind,
    Limits, Morton, Persist, Reader, RemovableSpectralBloom, RemovableTinySet, Sat, SettingValue,
    Settings, Shape, SpectralBloom, TinySet, Value, ValueType,
};

use crate::attack::{self, Parts};
use crate::keys::{Random, extremes};
use crate::members::{bytes, shape};
use crate::{Effort, Subject};

/// Seed of the golden files. Never change it, nor the counts below: the files must stay valid.
const SEED: [u64; 2] = [0x7461_6d69_7320_676f, 0x6c64_656e_2066_696c];
const MEMBERS: u64 = 200;
const CAPACITY: u64 = 256;

/// Returns the path of the golden file of `kind`.
pub fn golden_path(kind: Kind) -> PathBuf {
    testdata("golden").join(format!("{kind}-v1.tamis"))
}

/// Returns the path of a folder under `testdata`.
pub fn testdata(folder: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata")).join(folder)
}

/// Reads the golden file of `kind`.
///
/// # Panics
/// Panics if there is none.
pub fn golden(kind: Kind) -> Vec<u8> {
    fs::read(golden_path(kind)).unwrap_or_else(|error| {
        panic!(
            "{}: {error}; make it with `cargo run -p tamis-conformance --bin golden`",
            golden_path(kind).display()
        )
    })
}

/// Returns the members as strings, 16 of them twice: 216 of 256.
fn golden_members(hasher: &KeyHasher) -> Vec<KeyHash> {
    let keys = (0..MEMBERS).chain(0..16).map(|key| format!("member {key}"));
    keys.map(|key| key.hash_with(hasher)).collect()
}

/// Returns the bytes of a new golden file.
pub fn make_golden<F: Subject>() -> Vec<u8> {
    make_golden_with::<F>(&Settings::default())
}

fn make_golden_with<F: Subject>(settings: &Settings) -> Vec<u8> {
    let hasher = KeyHasher::new(HashId::Fast, SEED);
    let shape = shape::<F>(CAPACITY, 0.01, settings).expect("1 % is within reach");
    let filter = F::build(shape, &golden_members(&hasher)[..]).expect("room");
    bytes(&Keyed::new(hasher, filter))
}

/// Checks that every version reads the file, finds its members, and writes it and builds it again
/// byte for byte. The shape comes from the file, so a better planner does not break the check.
pub fn golden_file_is_kept<F: Subject>() {
    file_is_kept::<F>(&golden_path(F::KIND));
}

/// The name of a golden file, a function that makes its bytes, and one that checks the file.
pub type Variant = (&'static str, fn() -> Vec<u8>, fn(&Path));

/// Golden files of newer layouts and of settings, beside the first of each kind.
pub const VARIANTS: [Variant; 14] = [
    (
        "adaptive_quotient-levels2-v1",
        || make_golden_of::<AdaptiveQuotient>("levels", 2),
        file_is_kept::<AdaptiveQuotient>,
    ),
    ("broom-lines2-v1", || make_golden_of::<Broom>("lines", 2), file_is_kept::<Broom>),
    ("cuckoo-sorted-v1", || make_golden_of::<Cuckoo>("sorted", 1), file_is_kept::<Cuckoo>),
    ("morton-f7-v1", || make_golden_of::<Morton>("f", 7), file_is_kept::<Morton>),
    ("morton-f11-v1", || make_golden_of::<Morton>("f", 11), file_is_kept::<Morton>),
    ("morton-f16-v1", || make_golden_of::<Morton>("f", 16), file_is_kept::<Morton>),
    ("sat-multi-v1", || make_golden_of::<Sat>("construction", "multi"), file_is_kept::<Sat>),
    ("sat-nae-v1", || make_golden_of::<Sat>("construction", "nae"), file_is_kept::<Sat>),
    ("sat-single-v1", || make_golden_of::<Sat>("construction", "single"), file_is_kept::<Sat>),
    ("growing-v2", make_golden::<Growing>, file_is_kept::<Growing>),
    ("spectral_bloom-v2", make_golden::<SpectralBloom>, file_is_kept::<SpectralBloom>),
    (
        "removable_spectral_bloom-v2",
        make_golden::<RemovableSpectralBloom>,
        file_is_kept::<RemovableSpectralBloom>,
    ),
    ("tinyset-block-v1", make_tinyset_of_free_blocks::<TinySet>, file_is_kept::<TinySet>),
    (
        "removable_tinyset-block-v1",
        make_tinyset_of_free_blocks::<RemovableTinySet>,
        file_is_kept::<RemovableTinySet>,
    ),
];

/// As in Table 1 of the TinySet paper: as many chains as keys, and a block of no round size.
fn make_tinyset_of_free_blocks<F: Subject>() -> Vec<u8> {
    make_golden_with::<F>(&Settings::new().with("chains", 32).with("load", 32))
}

/// Returns the bytes of a new golden file of a filter with one setting.
fn make_golden_of<F: Subject>(setting: &str, value: impl Into<SettingValue>) -> Vec<u8> {
    let mut settings = Settings::default();
    settings.set(setting, value);
    make_golden_with::<F>(&settings)
}

/// The name of a golden file of a map, and the value of each of its keys.
pub type ValueFile = (&'static str, fn(u64) -> Value);

/// The golden files of maps whose values are not unsigned integers: names and values. The bindings do
/// not all read such values, so they are not in [`VARIANTS`].
pub const VALUE_FILES: [ValueFile; 3] = [
    ("bloomier-integers-v1", |key| Value::Integer(i128::from(key % 50) - 20)),
    ("bloomier-bytes-v1", |key| Value::from("value".repeat(key as usize % 7))),
    ("bloomier-equal-v1", |key| Value::from(format!("{:03}", key % 9))),
];

/// Returns the bytes of a file of [`VALUE_FILES`].
pub fn make_values(value: fn(u64) -> Value) -> Vec<u8> {
    let hasher = KeyHasher::new(HashId::Fast, SEED);
    let entries = (0..MEMBERS).map(|key| (format!("member {key}"), value(key)));
    let builder = Keyed::<Bloomier>::builder().hasher(&hasher).fpr(0.01);
    bytes(&builder.build_values(entries).expect("room"))
}

fn value_files_are_kept() {
    for (name, value) in VALUE_FILES {
        let path = variant_path(name);
        let kept = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(kept.len() <= 4096, "{} bytes", kept.len());
        assert!(make_values(value) == kept, "{name}: building it again gives other bytes");
        let mut map = Keyed::<AnyFilter>::open_verified(&path).expect("a golden file");
        assert!(bytes(&map) == kept, "{name}: writing it again gives other bytes");
        for key in 0..MEMBERS {
            let found = map.get_value(&format!("member {key}")).expect("a map");
            assert_eq!(found, Some(value(key)), "{name}");
        }
        // Each key can take the value of any other.
        for key in 0..MEMBERS {
            let old = map.set_value(&format!("member {key}"), value(MEMBERS - key - 1));
            assert_eq!(old.expect("a value of the map"), Some(value(key)));
        }
        for key in 0..MEMBERS {
            let found = map.get_value(&format!("member {key}")).expect("a map");
            assert_eq!(found, Some(value(MEMBERS - key - 1)), "{name}");
        }
        for none in [Value::from("no such value"), Value::Integer(1 << 40)] {
            let told = map.set_value("member 0", none).expect_err("not a value of the map");
            assert!(matches!(told, Error::ValueType { .. }), "{told}");
        }
        assert!(matches!(map.get("member 0"), Err(Error::ValueType { .. })));
        assert!(matches!(map.set("member 0", 0), Err(Error::ValueType { .. })));
        let figures = map.filter().figures();
        assert_eq!(figures.bytes, map.filter().bytes(), "{name}");
    }
}

/// Returns the path of a golden file of [`VARIANTS`] or [`VALUE_FILES`].
pub fn variant_path(name: &str) -> PathBuf {
    testdata("golden").join(format!("{name}.tamis"))
}

/// Checks the files of [`VARIANTS`].
pub fn variants_are_kept() {
    for (name, _, check) in VARIANTS {
        check(&variant_path(name));
    }
    value_files_are_kept();
}

fn file_is_kept<F: Subject>(path: &Path) {
    let kept = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(kept.len() <= 8192, "{} bytes", kept.len());
    let read = Keyed::<F>::read_from(&kept[..], &Limits::default()).expect("a golden file");
    let hasher = KeyHasher::new(HashId::Fast, SEED);
    assert_eq!(read.hasher(), &hasher);
    assert!((0..MEMBERS).all(|key| read.contains(&format!("member {key}"))));
    let strangers = (0..10_000).filter(|key| read.contains(&format!("stranger {key}"))).count();
    // `single` and `nae` of `sat` state the rate that they measured, which may exceed the requested 1 %.
    let stated = read.filter().shape().figures().fpr.max(0.01);
    let name = path.display();
    assert!(
        (strangers as f64) < 20_000.0 * stated,
        "{name}: {strangers} of 10000, stated {stated}"
    );
    assert!(bytes(&read) == kept, "writing it again gives other bytes");
    let built = F::build(read.filter().shape().clone(), &golden_members(&hasher)[..]);
    assert!(
        bytes(&Keyed::new(hasher, built.expect("room"))) == kept,
        "building it again gives other bytes"
    );
    let mapped = Keyed::<AnyFilter>::open_verified(path).expect("a golden file");
    assert!(mapped.filter().kind() == F::KIND && bytes(&mapped) == kept);
}

/// Returns the path of the golden file of a guarded filter with denied keys.
pub fn denying_path() -> PathBuf {
    testdata("golden").join("guarded-denying-v1.tamis")
}

/// Returns the bytes of that file. Some of the denied keys were false positives, and all are
/// denied.
pub fn make_denying() -> Vec<u8> {
    let hasher = KeyHasher::new(HashId::Fast, SEED);
    let fit = |keys| GuardedShape::fit(keys, 0.1);
    let denied: Vec<KeyHash> =
        (0..MEMBERS).map(|key| format!("denied {key}").hash_with(&hasher)).collect();
    let members = golden_members(&hasher);
    let filter = Guarded::build_denying(&BuildOptions::new(), fit, &members[..], &denied[..]);
    bytes(&Keyed::new(hasher, filter.expect("room")))
}

/// Checks the file of [`denying_path`] as [`golden_file_is_kept`] does.
pub fn denying_file_is_kept() {
    let kept = fs::read(denying_path()).expect("a golden file");
    let read = Keyed::<Guarded>::read_from(&kept[..], &Limits::default()).expect("a golden file");
    assert!(read.filter().shape().denied() > 0, "none of the denied keys passed");
    assert!((0..MEMBERS).all(|key| read.contains(&format!("member {key}"))));
    assert!((0..MEMBERS).all(|key| !read.contains(&format!("denied {key}"))));
    assert!(bytes(&read) == kept, "writing it again gives other bytes");
    assert!(make_denying() == kept, "building it again gives other bytes");
}

fn accidents(sound: &[u8], salt: u64) -> impl Iterator<Item = Vec<u8>> {
    let effort = Effort::now();
    let mut random = effort.random(salt);
    attack::flips(sound)
        .chain(attack::truncations(sound))
        .chain(attack::header_bytes(sound))
        .chain((0..effort.times(10_000)).map(move |_| attack::accident(sound, &mut random)))
}

/// Checks that damage is detected: every flipped bit, every truncation, every other header byte,
/// bursts, losses, zeros.
pub fn every_accident_is_noticed<F: Subject>() {
    let sound = golden(F::KIND);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("damaged.tamis");
    for (index, damaged) in accidents(&sound, 31).enumerate() {
        if damaged == sound {
            continue;
        }
        let read = Keyed::<AnyFilter>::read_from(&damaged[..], &Limits::default());
        assert!(read.is_err(), "damage {index} was not detected");
        if index % 16 == 0 {
            fs::write(&path, &damaged).expect("room for a file");
            let open = Keyed::<AnyFilter>::open_verified(&path);
            assert!(open.is_err(), "damage {index} was not detected in a map");
        }
    }
}

/// Returns the damaged files with checksums recomputed, and forged ones.
pub fn hostile(sound: &[u8], salt: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut random = Random::new(salt);
    let forgeries = attack::forgeries(sound, &mut random);
    accidents(sound, salt)
        .map(|mut bytes| {
            attack::recompute(&mut bytes);
            bytes
        })
        .chain(forgeries)
}

/// Returns whether the filter is a map of unsigned integers.
fn is_unsigned(filter: &AnyFilter) -> bool {
    let Ok(map) = filter.as_map() else { return false };
    matches!(map.value_type(), ValueType::Integers { min: 0, .. })
}

/// Reads and writes a value of any type. A number may stand for none.
fn exercise_values(filter: &mut AnyFilter, key: KeyHash, random: &mut Random) {
    let Ok(map) = filter.as_map() else { return };
    for number in [0, 1, random.word() >> 56, random.word(), u64::MAX] {
        if let Some(value) = map.value_of(number) {
            let _ = map.number_of(&value);
        }
    }
    let Ok(Some(value)) = filter.get_value(key) else { return };
    if filter.set_value(key, &value).is_ok() {
        assert!(filter.contains(key), "a key whose value was set is denied");
    }
}

/// Does every operation on a filter of unknown origin. Each must return; its answer may be any.
pub fn exercise(filter: &mut Keyed<AnyFilter>, random: &mut Random, queries: usize) {
    let keys: Vec<KeyHash> = (0..queries).map(|_| random.hash()).chain(extremes()).collect();
    let filter = filter.filter_mut();
    let kind = filter.kind();
    let mut out = vec![false; keys.len()];
    crate::members::contains_batch(filter, &keys, &mut out);
    assert!(keys.iter().zip(&out).all(|(key, yes)| filter.contains(*key) == *yes));
    let figures = filter.figures();
    assert!((0.0..=1.0).contains(&figures.fpr) && (0.0..=1.0).contains(&filter.fpr()));
    let can = |what| kind.can(what);
    for key in &keys[keys.len().saturating_sub(24)..] {
        assert_eq!(filter.count(*key).is_ok(), can(Capability::Count));
        match (filter.get(*key), filter.set(*key, 1)) {
            (Ok(before), Ok(was)) => {
                assert!(can(Capability::Map) && before == was);
                assert_eq!(filter.get(*key).ok(), Some(was.map(|_| 1)));
            }
            (read, written) => assert!(read.is_err() && written.is_err() && !is_unsigned(filter)),
        }
        exercise_values(filter, *key, random);
        match filter.insert(*key) {
            Ok(()) => assert!(filter.contains(*key), "an inserted key is denied"),
            Err(error) => {
                assert!(
                    matches!(
                        error,
                        Error::Full { .. } | Error::Capacity { .. } | Error::Unsupported { .. }
                    ),
                    "{error}"
                );
            }
        }
        assert_eq!(filter.remove(*key).is_ok(), can(Capability::Remove));
        let pushed = filter.push_batch(&[*key], &mut [false]);
        let full = matches!(pushed, Err(Error::Full { inserted: 0 }));
        assert_eq!(pushed.is_ok() || full, can(Capability::Window));
        assert!(pushed.is_err() || filter.contains(*key), "pushed, and denied");
        assert_eq!(filter.advance(random.word()).is_ok(), can(Capability::Window));
        let suspects = filter.suspects(*key);
        assert_eq!(suspects.is_ok(), can(Capability::Adapt));
        if let Ok(range) = suspects {
            let members =
                [*range.start(), *range.end()].map(|hi| KeyHash { hi, lo: random.word() });
            filter.adapt(*key, &members).expect("it adapts");
            if filter.due().expect("it adapts").is_some() {
                filter.renew(&members).expect("it adapts");
            }
        }
    }
    for pair in keys.windows(2) {
        let (first, last) = (pair[0].hi, pair[1].hi >> (pair[1].lo % 64));
        let within = filter.contains_range(first, first.wrapping_add(last));
        assert_eq!(within.is_ok(), can(Capability::Range));
    }
    let copy = filter.clone();
    match filter.merge(&copy) {
        Ok(()) => assert!(can(Capability::Merge)),
        Err(error) => {
            assert!(
                matches!(
                    error,
                    Error::Full { .. } | Error::Capacity { .. } | Error::Unsupported { .. }
                ),
                "{error}"
            );
        }
    }
    assert_eq!(filter.cardinality().is_ok(), can(Capability::SetOps));
    assert_eq!(filter.similarity(&copy).is_ok(), can(Capability::SetOps));
    assert_eq!(filter.intersect(&copy).is_ok(), can(Capability::SetOps));
    crate::members::contains_batch(filter, &keys, &mut out);
}

/// Reads hostile bytes with every check and, where they pass the structural checks, without the
/// others. Both must end in an error or in a filter that works. A file that passes all checks is
/// canonical.
pub fn survive(bytes: &[u8], random: &mut Random, queries: usize) {
    if let Ok(mut filter) = Keyed::<AnyFilter>::read_from(bytes, &Limits::default()) {
        assert!(crate::members::bytes(&filter) == bytes, "writing it again gives other bytes");
        exercise(&mut filter, random, queries);
    }
    let unchecked =
        Reader::read(bytes, &Limits::default()).map_err(Error::from).and_then(|mut reader| {
            let header = *reader.header();
            let hasher = KeyHasher::new(HashId::from_id(header.hash)?, header.seed);
            Ok(Keyed::new(hasher, AnyFilter::read(&mut reader)?))
        });
    if let Ok(mut filter) = unchecked {
        exercise(&mut filter, random, queries);
    }
}

/// Checks that a file with recomputed checksums gives an error or a filter that works.
pub fn attackers_do_no_harm<F: Subject>() {
    let mut random = Random::new(32);
    for bytes in hostile(&golden(F::KIND), 33) {
        survive(&bytes, &mut random, 1000);
    }
}

/// Does the same with a sample of the files for those of [`VARIANTS`].
pub fn attackers_do_no_harm_to_variants() {
    let mut random = Random::new(36);
    let names = VARIANTS.iter().map(|(name, ..)| *name);
    for name in names.chain(VALUE_FILES.map(|(name, _)| name)) {
        let sound = fs::read(variant_path(name)).expect("a golden file");
        for bytes in hostile(&sound, 37).step_by(5) {
            survive(&bytes, &mut random, 200);
        }
    }
}

/// Does the same with a sample of the files through a map, which reads no payload when it opens.
pub fn attackers_do_no_harm_through_a_map<F: Subject>() {
    let mut random = Random::new(34);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("hostile.tamis");
    for bytes in hostile(&golden(F::KIND), 35).step_by(11) {
        fs::write(&path, &bytes).expect("room for a file");
        if let Ok(mut filter) = Keyed::<AnyFilter>::open(&path) {
            exercise(&mut filter, &mut random, 1000);
        }
        let _ = fs::remove_file(&path); // a new file: the map must not change under the filter
    }
}

/// Checks that an unknown version, kind, hash or section is an error of its own kind.
pub fn the_unknown_is_an_error<F: Subject>() {
    let sound = Parts::of(&golden(F::KIND));
    let told = |change: &dyn Fn(&mut Parts)| {
        let mut parts = sound.clone();
        change(&mut parts);
        let bytes = parts.forge();
        let any =
            Keyed::<AnyFilter>::read_from(&bytes[..], &Limits::default()).expect_err("unknown");
        let typed = Keyed::<F>::read_from(&bytes[..], &Limits::default()).expect_err("unknown");
        assert_eq!(any.to_string(), typed.to_string());
        any
    };
    let id = |parts: &mut Parts, shift: u32, id: u64| {
        parts.ids = parts.ids & !(0xffff << shift) | id << shift;
    };
    for version in [2, 9, 0xffff] {
        let error = told(&|parts| id(parts, 0, version));
        let Error::File(tamis_format::Error::Version { found, newest: 1 }) = error else {
            panic!("{error}")
        };
        assert_eq!(u64::from(found), version);
    }
    assert!(matches!(
        told(&|parts| id(parts, 0, 0)),
        Error::File(tamis_format::Error::Corrupt { at: Some(8), .. })
    ));
    for kind in [0, 999, 0xffff] {
        let error = told(&|parts| id(parts, 16, kind));
        assert!(matches!(&error, Error::Unknown(name) if name.what == "filter"), "{error}");
    }
    for hash in [0, 5, 0xffff] {
        let error = told(&|parts| id(parts, 32, hash));
        assert!(matches!(&error, Error::Unknown(name) if name.what == "hash"), "{error}");
    }
    let error = told(&|parts| id(parts, 32, 1));
    assert!(matches!(error, Error::Outdated { .. }), "{error}");
    for section in 0..sound.sections.len() {
        let error = told(&|parts| parts.sections[section].0 = *b"nonsense");
        assert!(matches!(error, Error::File(tamis_format::Error::Corrupt { .. })), "{error}");
    }
    let error = told(&|parts| parts.sections.push((*b"nonsense", vec![1])));
    assert!(matches!(error, Error::File(tamis_format::Error::Corrupt { .. })), "{error}");
    for (word, value, place) in [(3, 8, 40), (4, 1, 48)] {
        let error = told(&|parts| parts.rest[word] = value);
        assert!(
            matches!(error, Error::File(tamis_format::Error::Corrupt { at: Some(at), .. }) if at == place),
            "{error}"
        );
    }
}
