//! Measures rate and memory of a sliding filter over 100 turnovers of its window.

use anyhow::Result;
use lab::{Line, STRANGERS, Sheet, hashes, share_of_yes};
use tamis::{Build, Filter, Shape, Sliding, SlidingShape, Window};

const WINDOW: u64 = 1_000_000;
const FPR: f64 = 0.01;

pub(crate) fn run() -> Result<()> {
    let columns =
        ["turnovers", "keys remembered", "calculated", "measured", "forgotten keys", "bits a key"];
    let mut sheet = Sheet::new("survey", "window", &columns);
    let shape = SlidingShape::fit(WINDOW, FPR)?;
    let bits = shape.figures().bits_per_key();
    let mut filter = Sliding::build(shape, &[][..])?;
    let strangers = hashes(301, STRANGERS, 1_000_000);
    let (mut calculated, mut measured) = (Vec::new(), Vec::new());
    let mut pushed = 0;
    // Every 1/16 of a window at first, then every 8 windows.
    let stops =
        (1..=48).map(|part| part * WINDOW / 16).chain((4..=100).step_by(8).map(|n| n * WINDOW));
    for stop in stops {
        while pushed < stop {
            let run = hashes(300, pushed, 10_000.min(stop - pushed));
            filter.push_batch(&run, &mut vec![false; run.len()])?;
            pushed += run.len() as u64;
        }
        let rate = filter.shape().fpr_at(filter.len());
        let yes = share_of_yes(&filter, &strangers);
        let gone = (filter.window() + filter.slack() + 250_000).min(pushed);
        let old = if gone < pushed {
            format!("{:.3} %", 100.0 * share_of_yes(&filter, &hashes(300, pushed - gone, 250_000)))
        } else {
            String::new()
        };
        let turnovers = pushed as f64 / WINDOW as f64;
        sheet.row(&[
            &format!("{turnovers:.4}"),
            &filter.len(),
            &format!("{:.3} %", rate * 100.0),
            &format!("{:.3} %", yes * 100.0),
            &old,
            &format!("{bits:.2}"),
        ]);
        if turnovers <= 3.0 {
            calculated.push((turnovers, rate * 100.0));
            measured.push((turnovers, yes * 100.0));
        }
    }
    sheet.finish(
        &format!("A window of a million keys at 1 %, slack 1/8, {bits:.2} bits a key"),
        "turnovers of the window",
        "false positives in %",
        false,
        vec![Line::calculated("calculated", calculated), Line::measured("measured", measured)],
    )
}
