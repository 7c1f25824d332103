//! Bit for bit what Parquet's split-block Bloom filter sets: `testdata/foreign` says of what.

use tamis::{Insert, KeyHash, SplitBlockBloom, SplitBlockBloomShape};

fn bits(blocks: u64, keys: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let shape = SplitBlockBloomShape::new(blocks, 1000).unwrap();
    let mut filter = SplitBlockBloom::new(shape).unwrap();
    keys.for_each(|key| filter.insert(KeyHash::parquet(&key)).unwrap());
    filter.words().iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn sets_the_bits_that_parquet_sets() {
    let theirs = include_bytes!("../../../testdata/foreign/parquet-sbbf.bin");
    let integers = bits(64, (0..500i64).map(|i| (i * i - 1000).to_le_bytes().to_vec()));
    let strings = bits(32, (0..300).map(|i| format!("key-{i}").into_bytes()));
    let (first, second) = theirs.split_at(64 * 32);
    assert!(integers == first, "integers");
    assert!(strings == second, "strings");
}
