//! Keeps a small number for each key, without the keys: a static map from hosts to shards.
//!
//! `cargo run -p tamis --example map`

use tamis::{Bloomier, Error, Keyed};

fn main() -> Result<(), Error> {
    let hosts: Vec<String> = (0..10_000).map(|host| format!("host-{host}.example.org")).collect();
    let shard_of = |index: usize| index as u64 % 16;

    let entries = hosts.iter().enumerate().map(|(index, host)| (host.as_str(), shard_of(index)));
    let mut shards = Keyed::<Bloomier>::build_map(entries, 0.001)?;

    // A key of the set always has its value.
    for (index, host) in hosts.iter().enumerate() {
        assert_eq!(shards.get(host), Some(shard_of(index)));
    }

    // Any other key is `None`, except for a false positive with an arbitrary value.
    let wrong = (0..10_000).filter(|host| shards.get(&format!("no-{host}")).is_some()).count();
    println!("{} keys in {} bytes; {wrong} of 10000 non-members have a value", shards.len(), {
        shards.bytes()
    });
    assert!(wrong < 40);

    // Values can change; the set of keys and the width of a value cannot.
    assert_eq!(shards.set(&hosts[3], 15)?, Some(3));
    assert_eq!(shards.get(&hosts[3]), Some(15));
    assert!(matches!(shards.set(&hosts[3], 16), Err(Error::Value { value: 16, bits: 4 })));
    Ok(())
}
