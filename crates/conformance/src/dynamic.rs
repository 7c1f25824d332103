//! A filter whose kind is known only at run time has every operation, which agrees with the typed
//! one or fails with an error that names the missing capability.

use tamis::{
    AnyFilter, Capability, Error, ErrorKind, Filter, KeyForms, KeyHash, KeyHasher, Keyed, Kind,
    Limits, Shape,
};

use crate::Subject;
use crate::keys::Form;
use crate::members::bytes;

const KEYS: u64 = 500;

fn hasher(kind: Kind) -> KeyHasher {
    KeyHasher::new(kind.default_hash(), [71, 72])
}

/// Returns a filter of [`KEYS`] text keys with 4 times that capacity.
fn filter(kind: Kind) -> Keyed<AnyFilter> {
    let keys = (0..KEYS).map(|key| format!("key {key}"));
    let builder = Keyed::<AnyFilter>::builder(kind).capacity(4 * KEYS).fpr(0.01);
    builder.hasher(&hasher(kind)).build(keys).expect("room")
}

/// Checks that a result is `Ok` if the kind has the capability, and otherwise the error that names
/// it.
fn agrees<T>(kind: Kind, capability: Capability, result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => {
            assert!(kind.can(capability), "{kind} has no {capability}");
            Some(value)
        }
        Err(error) => {
            assert!(!kind.can(capability), "{kind} {capability}: {error}");
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let Error::Unsupported { kind: told, capability: lacks, .. } = error else {
                panic!("{error}")
            };
            assert_eq!((told, lacks), (kind, capability));
            None
        }
    }
}

/// Checks that each operation succeeds if the kind claims it, and otherwise returns the error that
/// names the capability.
pub fn every_operation_is_there<F: Subject>() {
    let kind = F::KIND;
    let mut any = filter(kind);
    let other = filter(kind);
    assert_eq!(any.kind(), kind);
    assert_eq!(any.key_forms(), KeyForms::BYTES);
    assert!(any.capacity() >= 4 * KEYS && any.len() <= KEYS && !any.is_empty());
    assert_eq!(any.figures().keys, any.capacity());
    assert!((0.0..0.02).contains(&any.fpr()));
    let (text, texts) = ("key 1", ["key 1", "key 2", "new key"]);
    let hash = any.hash(text);
    assert!(any.contains(text) && any.contains_hash(hash));
    assert_eq!(any.contains_batch(&texts), texts.map(|text| any.contains(text)));

    if agrees(kind, Capability::Insert, any.insert("apple")).is_some() {
        assert!(any.contains("apple"));
    }
    agrees(kind, Capability::Insert, any.insert_batch(&["pear", "plum"]));
    agrees(kind, Capability::Insert, any.insert_hash(hash));
    if let Some(new) = agrees(kind, Capability::Insert, any.insert_new("pear")) {
        assert!(!new);
    }
    if let Some(new) =
        agrees(kind, Capability::Insert, any.insert_new_batch(&["fig", "fig", "pear"]))
    {
        assert!(!new[1] && !new[2] && any.contains("fig"));
    }
    if let Some(removed) = agrees(kind, Capability::Remove, any.remove("plum")) {
        assert!(removed);
    }
    if let Some(removed) = agrees(kind, Capability::Remove, any.remove_batch(&["key 3", "key 4"])) {
        assert_eq!(removed, [true, true]);
    }
    if let Some(count) = agrees(kind, Capability::Count, any.count("key 1")) {
        assert!(count >= 1);
        let counts = any.count_batch(&["key 1", "key 5"]).expect("as the single one");
        assert_eq!(counts, [count, any.count("key 5").expect("as before")]);
    }
    if let Some(value) = agrees(kind, Capability::Map, any.get("key 1")) {
        assert_eq!(value, Some(0));
        assert_eq!(any.set("key 1", 1).expect("a value of 1 bit"), Some(0));
        assert_eq!(any.get_batch(&["key 1", "key 2"]).expect("a map"), [Some(1), Some(0)]);
    } else {
        agrees(kind, Capability::Map, any.set("key 1", 1));
        agrees(kind, Capability::Map, any.get_batch(&["key 1"]));
    }
    if let Some(seen) = agrees(kind, Capability::Window, any.push("key 499")) {
        assert!(seen);
    }
    agrees(kind, Capability::Window, any.push_batch(&["key 498", "new"]));
    agrees(kind, Capability::Window, any.advance(7));
    agrees(kind, Capability::Adapt, any.suspects("key 1"));
    if !kind.can(Capability::Adapt) {
        agrees(kind, Capability::Adapt, any.adapt("no key", &[]));
    }
    let within = agrees(kind, Capability::Range, any.contains_range("key 1"..="key 1"));
    assert!(within.unwrap_or(true), "a range with a key");
    agrees(kind, Capability::Range, any.contains_range_batch(&["key 1".."key 2", "a".."b"]));
    agrees(kind, Capability::Range, any.fpr_of_range(10));
    agrees(kind, Capability::SetOps, any.similarity(&other));
    agrees(kind, Capability::SetOps, any.cardinality());
    agrees(kind, Capability::Merge, any.merge(&other));
    agrees(kind, Capability::List, any.list());
    agrees(kind, Capability::Resize, any.resize(any.capacity(), None));
    agrees(kind, Capability::SetOps, any.intersect(&other));
    assert!((5..490).all(|key| any.contains(&format!("key {key}"))), "a member is denied");
}

/// Checks that a filter built and cleared through the dynamic layer has the bytes of the typed one.
pub fn typed_and_dynamic_agree<F: Subject>() {
    let any = filter(F::KIND);
    let keys = (0..KEYS).map(|key| format!("key {key}"));
    let typed =
        Keyed::<F>::builder().capacity(4 * KEYS).fpr(0.01).hasher(&hasher(F::KIND)).build(keys);
    let typed = typed.expect("room");
    assert!(bytes(&typed) == bytes(&any));
    assert_eq!(typed.capacity(), any.capacity());
    assert_eq!(typed.fpr(), any.fpr());

    let (empty, mut cleared) = (any.empty_like().expect("memory"), any.clone());
    cleared.clear().expect("memory");
    assert!(bytes(&empty) == bytes(&cleared) && empty.is_empty());
    assert!(empty.hasher() == any.hasher() && empty.capacity() == any.capacity());
    assert!(!(0..KEYS).any(|key| empty.contains(&format!("key {key}"))));
    assert!(bytes(&typed.empty_like().expect("memory")) == bytes(&empty));
}

/// Checks that a batch does what single operations do, in order, including duplicates in the batch.
pub fn batches_do_what_single_operations_do<F: Subject>() {
    let mut keys = Form::Integers.hashes(&hasher(F::KIND), 0, 200);
    keys.extend_from_within(50..150);
    keys.extend(Form::Integers.hashes(&hasher(F::KIND), 1 << 30, 50));
    let empty = || filter(F::KIND).into_parts().1.empty_like().expect("memory");
    if F::KIND.can(Capability::Insert) {
        let (mut single, mut batch) = (empty(), empty());
        let expected: Vec<bool> = (keys.iter())
            .map(|key| {
                let new = !single.contains(*key);
                if new {
                    single.insert(*key).expect("room");
                }
                new
            })
            .collect();
        let mut new = vec![false; keys.len()];
        batch.insert_new_batch(&keys, &mut new).expect("room");
        assert!(new == expected && batch == single);
        // A batch of several runs into a filter that is full in its second run.
        let small =
            Keyed::<AnyFilter>::builder(F::KIND).capacity(700).fpr(0.001).hasher(&hasher(F::KIND));
        let mut small = small.empty().expect("memory");
        let many: Vec<u64> = (0..2000).collect();
        match small.insert_batch(&many) {
            Err(Error::Full { inserted }) => {
                assert!((700..2000).contains(&inserted), "full after {inserted}");
            }
            done => assert!(done.is_ok() && small.len() > 1900, "{done:?}"),
        }
    }
    if F::KIND.can(Capability::Remove) {
        let mut single = empty();
        single.insert_batch(&keys[..260]).expect("room");
        let mut batch = single.clone();
        let remove = |key: &KeyHash| single.remove(*key).expect("it can");
        let expected: Vec<bool> = keys.iter().map(remove).collect();
        let mut removed = vec![false; keys.len()];
        batch.remove_batch(&keys, &mut removed).expect("it can");
        assert!(removed == expected && batch == single);
    }
    if F::KIND.can(Capability::Count) {
        let mut filter = empty();
        filter.insert_batch(&keys[..260]).expect("room");
        let mut counts = vec![0; keys.len()];
        filter.count_batch(&keys, &mut counts).expect("it counts");
        let single = |key: &KeyHash| filter.count(*key).expect("it counts");
        assert_eq!(counts, keys.iter().map(single).collect::<Vec<_>>());
        assert!(counts[..260].iter().all(|count| *count >= 1));
    }
}

/// Checks that the form of the keys is recorded, stored in files, and checked on request.
pub fn key_forms_are_recorded<F: Subject>() {
    let text = filter(F::KIND);
    let read = Keyed::<F>::from_bytes(&bytes(&text)).expect("what was just written");
    assert_eq!(read.key_forms(), KeyForms::BYTES);
    read.check_key_form(KeyForms::BYTES).expect("the same form");
    let error = read.check_key_form(KeyForms::INTEGERS).expect_err("another form");
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    let numbers = Keyed::<F>::builder().capacity(100).build(0..100u64).expect("room");
    assert_eq!(numbers.key_forms(), KeyForms::INTEGERS);
    if F::KIND.can(Capability::Insert) {
        let mut both = text.clone();
        both.insert(&7u64).expect("room");
        assert_eq!(both.key_forms(), KeyForms::BYTES.union(KeyForms::INTEGERS));
    }
    // A filter that was filled with hashes says nothing of their form, as older files do.
    let shape = F::Shape::fit(10, 0.01).expect("1 % is within reach");
    let hashed = Keyed::new(hasher(F::KIND), F::build(shape, &[][..]).expect("nothing fits"));
    assert!(hashed.key_forms().is_none());
    hashed.check_key_form(KeyForms::INTEGERS).expect("the form is unknown");
}

/// Checks that a template makes an empty filter of the same shape and hash, and that a damaged
/// template is an error.
pub fn templates_make_empty_filters<F: Subject>() {
    let any = filter(F::KIND);
    let template = any.to_template().expect("memory");
    let made = Keyed::<AnyFilter>::from_template(&template, &Limits::default());
    let made = made.expect("the template was just made");
    assert!(bytes(&made) == bytes(&any.empty_like().expect("memory")));
    assert!(template.len() as u64 <= any.serialized_len() + 16, "{} bytes", template.len());
    let mut merged = any.clone();
    if F::KIND.can(Capability::Merge) {
        merged.merge(&made).expect("the same shape and hash");
        assert!(merged == any);
    }
    let small = Limits { bytes: made.serialized_len() - 1 };
    assert!(Keyed::<AnyFilter>::from_template(&template, &small).is_err(), "read beyond the limit");
    for len in 0..template.len() {
        assert!(Keyed::<AnyFilter>::from_template(&template[..len], &Limits::default()).is_err());
    }
    for bit in 0..template.len() * 8 {
        let mut flipped = template.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let read = Keyed::<AnyFilter>::from_template(&flipped, &Limits { bytes: 1 << 20 });
        assert!(read.is_err(), "flipped bit {bit} was not detected");
    }
}
