//! Drops duplicates from an endless stream, in memory that does not grow.
//!
//! `cargo run -p tamis --example stream`

use tamis::{Keyed, Sliding};

fn main() -> Result<(), tamis::Error> {
    // Remembers the last 10,000 events. An event that is new is dropped with probability 0.1 %.
    let mut recent = Keyed::<Sliding>::with_window(10_000, 0.001)?;
    let bytes = recent.bytes();

    // Every event arrives twice, the second time 5,000 events later.
    let events = (0..200_000u64).flat_map(|event| [Some(event), event.checked_sub(2_500)]);
    let (mut passed, mut dropped) = (0u64, 0u64);
    for event in events.flatten() {
        // `push` states whether the event seemed to be in the window, and adds it.
        if recent.push(&event)? {
            dropped += 1;
        } else {
            passed += 1;
        }
    }
    println!("{passed} events passed, {dropped} dropped, {bytes} bytes of memory");

    // No duplicate within the window passes.
    assert!(passed <= 200_000);
    // Of the events that are new, few are dropped.
    assert!(passed > 199_000);
    assert_eq!(recent.bytes(), bytes);
    Ok(())
}
