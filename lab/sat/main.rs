//! SAT filters: Tables 2 to 5 and Figure 1 of "Satisfiability-based Set Membership Filters" (Weaver,
//! Ray, Marek, Mayer and Walker, 2014), and where they stand among other filters.
//!
//! `cargo run --release -p tamis-lab --bin sat` takes some minutes; `-- --long` fills all cells of
//! Table 2, which takes hours.
//! `... --bin sat -- CONSTRUCTION K LOG2_KEYS EFFICIENCY [PLANES]` measures one filter.

use std::time::Instant;

use anyhow::{Context, Result};
use lab::{STRANGERS, hashes};
use tamis::filters::sat::{Construction, Sat, SatShape};
use tamis::{Build, Filter, Hash, Shape};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let [name, k, log_keys, efficiency, ref rest @ ..] = words[..] else { return Ok(()) };
    let names = [
        ("sliced", Construction::Sliced),
        ("multi", Construction::Multi),
        ("single", Construction::Single),
        ("nae", Construction::Nae),
    ];
    let construction = names.into_iter().find(|known| known.0 == name).context("a construction")?.1;
    let k: u32 = k.parse()?;
    let planes = match rest {
        [planes] => planes.parse()?,
        _ => [11, 22, 44, 89, 177][k as usize - 3],
    };
    let keys = 1u64 << log_keys.parse::<u32>()?;
    let shape = SatShape::new(construction, k, planes, efficiency.parse()?, keys)?;
    let members = hashes(1, 0, keys);
    let start = Instant::now();
    let cpu = lab::processor_time()?;
    let filter = Sat::build(shape.clone(), &members[..])?;
    let cpu = (lab::processor_time()? - cpu) * 1e-9;
    println!("built in {:.3} s wall, {cpu:.3} s cpu", start.elapsed().as_secs_f64());
    assert!(members.iter().all(|key| filter.contains(*key)));
    let strangers: Vec<Hash> = hashes(1, STRANGERS, 1 << 22);
    let bloom = tamis::Bloom::build(tamis::BloomShape::fit(keys, 0.25)?, &members[..])?;
    let few = &strangers[..1 << 14];
    let (mut best, mut other) = (f64::MAX, f64::MAX);
    for _ in 0..40 {
        best = best.min(time(&filter, few)?);
        other = other.min(time(&bloom, few)?);
    }
    println!("sat {best:.2} ns, bloom {other:.2} ns");
    let ns = best;
    let yes = strangers.iter().filter(|key| filter.contains(**key)).count();
    println!(
        "{} bits, grown {}, efficiency {:.4} p {:.5} stated {:.5} nominal {:.5} query {ns:.1} ns",
        filter.shape().figures().bytes * 8,
        filter.shape() != &shape,
        filter.shape().efficiency(),
        yes as f64 / strangers.len() as f64,
        filter.shape().figures().fpr,
        shape.figures().fpr,
    );
    Ok(())
}

fn time(filter: &impl Filter, keys: &[Hash]) -> Result<f64> {
    let cpu = lab::processor_time()?;
    let mut yes = 0;
    for _ in 0..16 {
        for key in keys {
            yes += u32::from(filter.contains(std::hint::black_box(*key)));
        }
    }
    std::hint::black_box(yes);
    Ok((lab::processor_time()? - cpu) / (keys.len() * 16) as f64)
}
