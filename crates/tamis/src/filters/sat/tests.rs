use super::*;
use crate::hash::{HashId, Hasher, Key};

fn hashes(seed: u64, keys: std::ops::Range<u64>) -> Vec<Hash> {
    let hasher = Hasher::new(HashId::Fast, [seed, 17]);
    keys.map(|key| key.hash(&hasher)).collect()
}

#[test]
fn scratch() {
    for k in [3, 4, 5, 6, 7] {
        let planes = (-(0.01f64).log2() / Construction::Sliced.bits(k)).ceil() as u64;
        for keys in [1u64, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] {
            let shape = SatShape::new(Construction::Sliced, k, planes, 0.75, keys).unwrap();
            let rounds = (20_000 / (keys + 20)).clamp(4, 300);
            let (mut grown, mut seeds, mut retried) = (0, 0, 0);
            let start = std::time::Instant::now();
            for seed in 0..rounds {
                let members = hashes(seed, 0..keys);
                let filter = Sat::build(shape.clone(), &members[..]).unwrap();
                assert!(members.iter().all(|key| filter.contains(*key)));
                assert!(filter.extra.is_empty());
                grown += u64::from(filter.shape != shape);
                seeds += filter.table[0] >> 48;
                let block = filter.block(0);
                let own = block.first + block.vars as usize * planes as usize;
                retried += (0..planes as usize).filter(|p| filter.table[(own+p)/64] >> ((own+p)%64) & 1 == 1).count();
            }
            let t = start.elapsed().as_secs_f64() * 1e6 / (rounds * keys) as f64;
            println!("k {k} keys {keys} vars {} ({:.3}): rounds {rounds} grown {grown} seeds {seeds} retried {:.4} {t:.1} us/key {:.3} us/key-plane eff {:.3}", shape.entries - 1, keys as f64 * Construction::Sliced.bits(k)/(shape.entries-1) as f64, retried as f64 / (rounds * planes) as f64, t / planes as f64, shape.efficiency());
        }
    }
}
