//! Builds a filter of the lines of a text once, saves it, and queries the mapped file.
//!
//! `cargo run -p tamis --example static_set`

use tamis::{Keyed, Ribbon};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text: String = (0..100_000).map(|line| format!("word {line}\n")).collect();

    // A static kind counts its keys itself, so no capacity is needed.
    let words = Keyed::<Ribbon>::builder().fpr(0.001).threads(2).build(text.lines())?;
    assert_eq!(words.len(), 100_000);
    let bits_per_key = 8.0 * words.bytes() as f64 / words.len() as f64;
    println!("{} keys, {bits_per_key:.2} bits per key", words.len());
    assert!(bits_per_key < 12.0);

    // The file is written whole or not at all.
    let path = std::env::temp_dir().join(format!("tamis-example-{}.tamis", std::process::id()));
    words.save(&path)?;

    // `open` maps the file and copies nothing; `open_verified` also checks every byte.
    let mapped = Keyed::<Ribbon>::open(&path)?;
    assert_eq!(mapped.heap_bytes(), 0);
    assert!(text.lines().all(|line| mapped.contains(line)));

    let strangers = (0..100_000).filter(|line| mapped.contains(&format!("other {line}"))).count();
    println!("{strangers} false positives among 100000 non-members");
    assert!(strangers < 200);

    drop(mapped);
    std::fs::remove_file(path)?;
    Ok(())
}
