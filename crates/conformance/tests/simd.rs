//! Every instruction set gives the answers of the portable code.

use tamis_bits::Words;
use tamis_bits::simd::{BLOCK_WORDS, Isa, contains_batch, insert_batch};
use tamis_conformance::Effort;

#[test]
fn every_instruction_set_sets_and_sees_the_same_bits() {
    const BLOCKS: usize = 4096;
    const BATCH: usize = 100_003;
    let effort = Effort::now();
    let mut random = effort.random(71);
    for isa in Isa::available() {
        for _ in 0..effort.times(5_000_000) / BATCH as u64 {
            let items: Vec<u64> = (0..BATCH).map(|_| random.word()).collect();
            let place = |item: &u64| ((item >> 32) as usize % BLOCKS, *item as u32);
            let [portable, tested] = [Isa::Generic, isa].map(|isa| {
                let mut words = Words::zeroed(BLOCKS * BLOCK_WORDS).expect("memory");
                let mut out = vec![false; BATCH];
                insert_batch(isa, words.to_mut(), &items[..BATCH / 2], place);
                contains_batch(isa, &words, &items, place, &mut out);
                (words, out)
            });
            assert!(portable == tested, "{isa:?} differs");
            let (members, strangers) = tested.1.split_at(BATCH / 2);
            assert!(members.iter().all(|yes| *yes) && strangers.contains(&false));
        }
    }
}
