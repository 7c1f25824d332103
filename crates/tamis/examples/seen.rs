//! Remembers which addresses have been seen, and forgets some of them again.
//!
//! `cargo run -p tamis --example seen`

use tamis::{Cuckoo, Keyed};

fn main() -> Result<(), tamis::Error> {
    // Room for 100,000 keys; 1 % of the addresses never inserted are reported as seen.
    let mut seen = Keyed::<Cuckoo>::with_capacity(100_000, 0.01)?;

    seen.insert("ada@example.org")?;
    seen.insert("bob@example.org")?;
    assert!(seen.contains("ada@example.org"));

    // `insert_new` queries and inserts in one step: `true` means that the key was certainly new.
    let new = seen.insert_new("ada@example.org")?;
    assert!(!new);

    // Only remove keys that were inserted.
    assert!(seen.remove("bob@example.org"));
    assert_eq!(seen.len(), 1);

    // Keys may be integers or tuples too. A batch is faster than one key at a time.
    let ids: Vec<u64> = (0..50_000).collect();
    seen.insert_batch(&ids)?;
    assert!(seen.contains_batch(&ids).iter().all(|found| *found));

    let strangers: Vec<u64> = (1_000_000..1_100_000).collect();
    let false_positives = seen.contains_batch(&strangers).iter().filter(|found| **found).count();
    println!("{} keys in {} bytes", seen.len(), seen.bytes());
    println!("{false_positives} false positives among {} non-members", strangers.len());
    assert!(false_positives < strangers.len() / 50);
    Ok(())
}
