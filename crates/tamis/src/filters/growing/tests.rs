use std::collections::HashMap;

use super::*;
use crate::hash::{HashId, Hasher, Key};

fn hashes(seed: u64, keys: std::ops::Range<u64>) -> Vec<Hash> {
    let hasher = Hasher::new(HashId::Fast, [seed, 7]);
    keys.map(|key| key.hash(&hasher)).collect()
}

fn grown(fpr: f64, most: Option<u64>, keys: &[Hash]) -> Growing {
    Growing::build(GrowingShape::new(1000, fpr, most).unwrap(), keys).unwrap()
}

#[test]
fn no_member_is_denied_while_it_grows() {
    for (fpr, most) in [(0.01, None), (0.01, Some(100_000)), (0.3, None), (0.3, Some(2000))] {
        let keys = hashes(1, 0..300_000);
        let filter = grown(fpr, most, &keys);
        filter.validate().unwrap();
        assert!(keys.iter().all(|key| filter.contains(*key)));
        println!(
            "{fpr} {most:?}: {} bits a key, {} planned",
            filter.bytes() as f64 * 8.0 / 3e5,
            filter.shape.figures_at(300_000).bytes as f64 * 8.0 / 3e5
        );
        let strangers = hashes(1, 1_000_000..2_000_000);
        let yes = strangers.iter().filter(|key| filter.contains(**key)).count();
        println!("{} of {}", yes as f64 / 1e6, filter.shape.fpr_at(300_000));
    }
}
