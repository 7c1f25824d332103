//! Checks that `split_block_bloom` sets the same bits as Parquet's filter, and that the test file
//! of the workspace equals what Parquet's crate makes today.

use parquet::bloom_filter::Sbbf;
use tamis::{Filter, KeyHash, Insert, SplitBlockBloom, SplitBlockBloomShape};

/// Returns Parquet's bits after `insert`.
fn theirs(blocks: usize, insert: impl Fn(&mut Sbbf)) -> Vec<u8> {
    let mut filter = Sbbf::new(&vec![0; blocks * 32]);
    insert(&mut filter);
    let mut bytes = Vec::new();
    filter.write_bitset(&mut bytes).unwrap();
    bytes
}

/// Returns the bits of `split_block_bloom` with these keys.
fn ours<'a>(blocks: u64, keys: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut filter =
        SplitBlockBloom::new(SplitBlockBloomShape::new(blocks, 1 << 20).unwrap()).unwrap();
    for key in keys {
        filter.insert(KeyHash::parquet(key)).unwrap();
        assert!(filter.contains(KeyHash::parquet(key)));
    }
    filter.words().iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn same_bits_for_integers() {
    let keys: Vec<i64> =
        (0..3000).map(|i: i64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed())).collect();
    let bytes: Vec<[u8; 8]> = keys.iter().map(|key| key.to_le_bytes()).collect();
    // Powers of 2, as Parquet writes them, and other numbers.
    for blocks in [1, 2, 3, 64, 97, 128] {
        let theirs = theirs(blocks, |filter| keys.iter().for_each(|key| filter.insert(key)));
        assert_eq!(
            ours(blocks as u64, bytes.iter().map(|key| &key[..])),
            theirs,
            "{blocks} blocks"
        );
    }
}

#[test]
fn same_bits_for_strings() {
    let keys: Vec<String> = (0..3000).map(|i| "key ".repeat(i % 20) + &i.to_string()).collect();
    for blocks in [1, 2, 3, 64, 97, 128] {
        let theirs =
            theirs(blocks, |filter| keys.iter().for_each(|key| filter.insert(key.as_str())));
        assert_eq!(
            ours(blocks as u64, keys.iter().map(|key| key.as_bytes())),
            theirs,
            "{blocks} blocks"
        );
    }
}

/// Checks the keys that testdata/foreign/README.md names. Writes the file if `TAMIS_BLESS` is set.
#[test]
fn the_file_is_theirs() {
    let integers =
        theirs(64, |filter| (0..500i64).for_each(|key| filter.insert(&(key * key - 1000))));
    let strings =
        theirs(32, |filter| (0..300).for_each(|i| filter.insert(format!("key-{i}").as_str())));
    let bytes = [integers, strings].concat();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/foreign/parquet-sbbf.bin");
    if std::env::var_os("TAMIS_BLESS").is_some() {
        std::fs::write(path, &bytes).unwrap();
    }
    assert!(std::fs::read(path).unwrap() == bytes, "{path} is not what Parquet's crate makes");
}
