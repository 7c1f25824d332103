use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::*;
use crate::{Bloom, CountingBloom, Cuckoo, KeyForms};

const SEED: [u64; 2] = [3, 4];

fn empty<F: Registered>(keys: u64) -> Keyed<F> {
    Keyed::<F>::builder().capacity(keys).fpr(1e-6).seed(SEED).empty().unwrap()
}

/// More than two runs.
fn words() -> Vec<String> {
    (0..2 * RUN + 100).map(|number| format!("word {number}")).collect()
}

#[test]
fn a_batch_of_several_runs_does_what_single_keys_do() {
    let words = words();
    let (mut single, mut batch) = (empty::<CountingBloom>(5000), empty::<CountingBloom>(5000));
    words.iter().for_each(|word| single.insert(word).unwrap());
    batch.insert_batch(&words).unwrap();
    assert!(single == batch);
    batch.insert_batch(&words[..RUN + 7]).unwrap();
    let counts = batch.count_batch(&words);
    assert!((0..words.len()).all(|at| counts[at] == 1 + u64::from(at < RUN + 7)));
    let removed = batch.remove_batch(&words);
    assert!(removed.iter().all(|removed| *removed));
    let found = batch.contains_batch(&words);
    assert!((0..words.len()).all(|at| found[at] == (at < RUN + 7)));
}

#[test]
fn a_batch_that_does_not_fit_states_how_many_keys_are_in() {
    let words = words();
    let capacity = RUN as u64 + 50;
    let mut filter = empty::<CountingBloom>(capacity);
    let full = filter.insert_batch(&words).unwrap_err();
    assert_eq!(full.inserted, capacity);
    assert!(words[..full.inserted as usize].iter().all(|word| filter.contains(word)));
    let mut filter = empty::<CountingBloom>(capacity);
    assert_eq!(filter.insert_new_batch(&words).unwrap_err().inserted, capacity);
}

#[test]
#[should_panic(expected = "the filter has room for all keys")]
fn extending_drops_no_key_silently() {
    empty::<CountingBloom>(600).extend(words());
}

#[test]
fn only_a_new_key_is_inserted() {
    let mut filter = empty::<CountingBloom>(100);
    assert_eq!(filter.insert_new("apple"), Ok(true));
    assert_eq!(filter.insert_new("apple"), Ok(false));
    assert_eq!((filter.count("apple"), filter.len()), (1, 1));
}

#[test]
fn filters_combine_only_under_one_hash_and_keep_the_forms_of_keys() {
    let (mut text, mut numbers) = (empty::<Bloom>(100), empty::<Bloom>(100));
    text.insert("apple").unwrap();
    numbers.insert(&7u64).unwrap();
    let both = KeyForms::BYTES.union(KeyForms::INTEGERS);
    let mut mixed = text.clone();
    mixed.insert(&7u64).unwrap();
    assert_eq!(mixed.key_forms(), both);
    for merge in [Keyed::<Bloom>::merge, Keyed::<Bloom>::force_merge] {
        let mut union = text.clone();
        merge(&mut union, &numbers).unwrap();
        assert_eq!(union.key_forms(), both);
        assert!(union.contains("apple") && union.contains(&7u64));
        assert_eq!(union.try_clone().unwrap().key_forms(), both);
        let read = Keyed::<Bloom>::from_bytes(&union.to_bytes().unwrap()).unwrap();
        assert_eq!(read.key_forms(), both);
    }
    assert!(text.check_key_form(KeyForms::BYTES).is_ok());
    let refused = text.check_key_form(KeyForms::INTEGERS).unwrap_err();
    assert!(matches!(refused, Error::KeyForm { .. }), "{refused}");
    let shape = text.filter().shape().clone();
    let hasher = KeyHasher::new(text.hasher().id(), [3, 5]);
    let other = Keyed::new(hasher, Bloom::new(shape).unwrap());
    let before = text.clone();
    let mismatch = |done: Result<(), Error>| assert!(matches!(done, Err(Error::Mismatch { .. })));
    mismatch(text.merge(&other));
    mismatch(text.force_merge(&other));
    mismatch(text.intersect(&other));
    mismatch(text.similarity(&other).map(drop));
    assert!(text == before);
}

#[test]
fn bytes_of_another_kind_are_refused() {
    let bytes = empty::<Bloom>(100).to_bytes().unwrap();
    let refused = Keyed::<Cuckoo>::from_bytes(&bytes).unwrap_err();
    assert!(matches!(refused, Error::Mismatch { what: "kind" }), "{}", refused.to_string());
}

#[test]
fn a_build_has_room_for_all_keys() {
    let words = words();
    let filter = Keyed::<CountingBloom>::builder().fpr(0.01).seed(SEED).build(&words).unwrap();
    assert_eq!((filter.len(), filter.capacity()), (words.len() as u64, words.len() as u64));
    assert_eq!(filter.key_forms(), KeyForms::BYTES);
    assert!(words.iter().all(|word| filter.contains(word)));
}
