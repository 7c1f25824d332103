use super::*;
use crate::hash::{HashId, Key, KeyHasher};

fn hashes(from: u64, count: u64) -> Vec<KeyHash> {
    let hasher = KeyHasher::new(HashId::Fast, [5, 27]);
    (from..from + count).map(|key| key.hash_with(&hasher)).collect()
}

fn words(words: &[u64]) -> Words {
    Words::copy_of(words).unwrap()
}

#[test]
fn every_walk_finds_its_members_at_the_stated_rate() {
    for walk in Walk::ALL {
        assert_eq!(walk.name().parse(), Ok(walk));
        let shape = ForeignBloomShape::new(walk, 191_701, 7, 20_000).unwrap();
        let members = hashes(0, 20_000);
        let mut one_by_one = ForeignBloom::new(shape.clone()).unwrap();
        members.iter().for_each(|key| one_by_one.insert(*key).unwrap());
        let filter = ForeignBloom::build(shape, &members[..]).unwrap();
        assert!(filter == one_by_one && filter.validate().is_ok(), "{walk}");
        let others = hashes(1 << 40, 40_000);
        for keys in [&members, &others] {
            let mut found = vec![false; keys.len()];
            filter.contains_prefetching(keys, &mut found);
            assert!(keys.iter().zip(&found).all(|(key, yes)| filter.contains(*key) == *yes));
        }
        assert!(members.iter().all(|key| filter.contains(*key)), "{walk}");
        let yeses = others.iter().filter(|key| filter.contains(**key)).count();
        // 400 expected at 1 %, with a standard deviation of 20.
        assert!((280..520).contains(&yeses), "{walk}: {yeses} of 40000");
    }
}

#[test]
fn words_of_any_fill_are_taken() {
    for word in [0, 1, u64::MAX] {
        let filter = ForeignBloom::from_words(Walk::Guava64, 640, 7, words(&[word; 10]));
        let filter = filter.unwrap();
        assert!(filter.len() <= filter.shape().keys());
        assert_eq!(hashes(0, 9).iter().all(|key| filter.contains(*key)), word == u64::MAX);
    }
    let full = |bits| ForeignBloom::from_words(Walk::Dcso, bits, 7, words(&[u64::MAX; 2]));
    assert!(full(128).is_ok() && full(127).is_err() && full(129).is_err());
    assert!(ForeignBloom::from_words(Walk::Dcso, 64, 256, words(&[0])).is_err());
}

#[test]
fn a_note_and_a_number_of_keys_are_kept() {
    let hasher = KeyHasher::new(HashId::DcsoFnv1, [0, 0]);
    let filter = ForeignBloom::from_words(Walk::Dcso, 640, 7, words(&[5; 10])).unwrap();
    assert!(filter.clone().with_keys(8, 7).is_err());
    let filter = filter.with_keys(7, 8).unwrap().with_note(&[1, 2, 3]).unwrap();
    let bytes = crate::Keyed::new(hasher, filter.clone()).to_bytes().unwrap();
    let read = crate::Keyed::<ForeignBloom>::from_bytes(&bytes).unwrap();
    assert_eq!((read.len(), read.capacity(), read.filter().note()), (7, 8, &[1, 2, 3][..]));
    assert!(read.filter() == &filter && read.hasher() == &hasher);
}

/// A chain of three layers, each with keys of its own.
fn chain() -> (ForeignBloom, Vec<KeyHash>) {
    let keys = hashes(0, 700);
    let sizes = [(960, 7, 0..100), (2112, 8, 100..300), (4736, 9, 300..700)];
    let mut layers: Vec<_> = sizes
        .map(|(bits, probes, range)| {
            let layer = ForeignLayer { bits, probes, keys: range.len() as u64 };
            let shape = ForeignBloomShape::new(Walk::RedisBloom, bits, probes, layer.keys);
            (layer, ForeignBloom::build(shape.unwrap(), &keys[range]).unwrap())
        })
        .into();
    let (_, newest) = layers.pop().unwrap();
    let newest = newest.with_keys(400, 450).unwrap();
    let older = layers.into_iter().map(|(layer, filter)| (layer, words(filter.words())));
    (newest.with_older(older.collect()).unwrap(), keys)
}

#[test]
fn a_chain_holds_the_keys_of_all_its_layers() {
    let (mut chain, members) = chain();
    assert_eq!((chain.len(), chain.shape().keys(), chain.shape().older().len()), (700, 750, 2));
    assert!(members.iter().all(|key| chain.contains(*key)));
    assert!((600.0..800.0).contains(&chain.cardinality()), "{}", chain.cardinality());
    let others = hashes(1 << 40, 40_000);
    let mut found = vec![false; others.len()];
    chain.contains_prefetching(&others, &mut found);
    assert!(others.iter().zip(&found).all(|(key, yes)| chain.contains(*key) == *yes));
    let mut member = vec![false; members.len() + 9];
    chain.contains_prefetching(&members, &mut member);
    let (member, after) = member.split_at(members.len());
    assert!(member.iter().all(|yes| *yes) && after.iter().all(|yes| !yes));
    let yeses = found.iter().filter(|yes| **yes).count() as f64;
    let expected = chain.shape().fpr_at(700) * 40_000.0;
    assert!((yeses - expected).abs() < 6.0 * expected.sqrt() + 40.0, "{yeses}, not {expected}");
    // Members are accepted again, other keys and other filters are not.
    let before = chain.clone();
    assert!(chain.insert_batch(&members).is_ok());
    let other = others.iter().find(|key| !chain.contains(**key)).unwrap();
    assert!(chain.insert(*other).is_err() && chain.insert_batch(&[*other]).is_err());
    assert!(matches!(chain.merge(&before), Err(Error::Infeasible { .. })));
    assert!(chain.intersect(&before).is_err() && chain.similarity(&before).is_err());
    assert!(chain.force_merge(&before).is_err() && chain == before);
    let shape = ForeignBloomShape::new(Walk::RedisBloom, 4736, 9, 450).unwrap();
    let mut single = ForeignBloom::new(shape).unwrap();
    assert!(matches!(single.merge(&chain), Err(Error::Mismatch { what: "shape" })));
}

#[test]
fn a_chain_is_read_from_its_file_and_damage_is_refused() {
    let (chain, members) = chain();
    let hasher = KeyHasher::new(HashId::RedisBloomMurmur2, [0, 0]);
    let chain = chain.with_note(&[5, 6]).unwrap();
    let bytes = crate::Keyed::new(hasher, chain.clone()).to_bytes().unwrap();
    let mut read = crate::Keyed::<ForeignBloom>::from_bytes(&bytes).unwrap();
    assert!(read.filter() == &chain && read.filter().validate().is_ok());
    assert!(members.iter().all(|key| read.filter().contains(*key)));
    let refused = (0..100u64).filter(|key| read.insert(key).is_err()).count();
    assert!(refused > 90, "{refused} of 100");
    assert_eq!(read.len(), 700);
    let layer = |bits, probes, keys| ForeignLayer { bits, probes, keys };
    let with = |layers: &[(ForeignLayer, &[u64])]| {
        let newest = ForeignBloom::from_words(Walk::RedisBloom, 64, 7, words(&[5])).unwrap();
        let layers = layers.iter().map(|(layer, bits)| (*layer, words(bits)));
        newest.with_keys(1, 1).unwrap().with_older(layers.collect())
    };
    assert!(with(&[]).unwrap().shape().older().is_empty());
    assert_eq!(with(&[(layer(65, 7, 3), &[1, 1])]).unwrap().len(), 4);
    for refused in [
        layer(0, 7, 3),
        layer(64, 7, 3),
        layer(66, 0, 3),
        layer(66, 256, 3),
        layer(u64::MAX, 7, 3),
        layer(66, 7, u64::MAX),
    ] {
        assert!(with(&[(refused, &[1, 1])]).is_err(), "{refused:?}");
    }
    assert!(with(&[(layer(65, 7, 3), &[1, 2])]).is_err(), "a bit past the end");
    let many = [(layer(64, 7, 3), &[1][..]); MAX_FOREIGN_LAYERS];
    assert!(with(&many[1..]).is_ok() && with(&many).is_err());
}

/// Spark's version 1 and Guava's 32-bit strategy set no bit past 2^31, so their rate in larger
/// filters is that of 2^31 bits.
#[test]
fn a_walk_of_31_bits_ends_there() {
    let shape = |walk| ForeignBloomShape::new(walk, 1 << 34, 6, 1_000_000_000).unwrap();
    let [old, new] = [Walk::SparkV1, Walk::SparkV2].map(|walk| shape(walk).fpr_at(1_000_000_000));
    assert!(old > 0.6 && new < 0.001, "{old} {new}");
    let key = KeyHash { hi: u64::MAX, lo: 0x8000_0001 };
    let (mut places, bits) = (Walk::SparkV1.places(key), Walk::SparkV1.reach(1 << 34));
    let mut sum = u32::MAX;
    for _ in 0..1000 {
        sum = sum.wrapping_add(0x8000_0001);
        let expected = if sum >= 1 << 31 { !sum } else { sum };
        assert_eq!(scale(places.next(Reciprocal::new(bits)), bits), u64::from(expected));
    }
}
