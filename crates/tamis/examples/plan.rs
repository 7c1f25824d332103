//! Prints the kinds that meet a goal, best first.
//!
//! `cargo run -p tamis --example plan`

use tamis::{Capability, Goal, Kind, plan};

fn main() -> Result<(), tamis::Error> {
    let goal = Goal::KeysFpr { keys: 10_000_000, fpr: 0.001 };

    println!("10^7 keys at a false positive rate of 0.1 %, with insertion and removal");
    table(&plan::recommend(goal, &[Capability::Insert, Capability::Remove])?);

    println!("\nThe same for a set that never changes");
    let fixed = plan::recommend(goal, &[Capability::Static])?;
    table(&fixed);

    // No filter is smaller than log2(1/rate) bits per key.
    assert!(fixed.iter().all(|advice| advice.figures.bits_per_key() > 9.96));

    // The reverse question: which rate fits in 8 MiB?
    let small = Goal::KeysBytes { keys: 10_000_000, bytes: 8 << 20 };
    let best = &plan::recommend(small, &[Capability::Insert])?[0];
    println!("\nIn 8 MiB, {} has the lowest rate: {:.3} %", best.kind, 100.0 * best.figures.fpr);
    assert!(best.kind.can(Capability::Insert) && best.figures.bytes <= 8 << 20);
    Ok(())
}

fn table(advice: &[plan::Advice]) {
    println!("{:<26} {:>8} {:>12} {:>10}  merits", "kind", "MB", "bits per key", "query cost");
    for plan::Advice { kind, figures, merits, .. } in advice {
        let megabytes = figures.bytes as f64 / 1e6;
        let (bits, cost) = (figures.bits_per_key(), figures.query_cost);
        println!(
            "{:<26} {megabytes:>8.1} {bits:>12.2} {cost:>10.2}  {merits:?}",
            Kind::name(*kind)
        );
    }
}
