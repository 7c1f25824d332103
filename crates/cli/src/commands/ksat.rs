//! `tamis ksat`: solves a formula.

use std::cell::Cell;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufReader, IsTerminal, stderr};
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tamis_ksat::{Fault, Formula, GaveUp, Outcome, Progress, Settings, Solution, Watch, solve};

use crate::args::Ksat;
use crate::errors::failure;
use crate::input::read_one;
use crate::memory::{self, check_memory_of};
use crate::{files, output};

pub(crate) fn run(args: &Ksat) -> Result<bool> {
    let start = Instant::now();
    // The timeout includes the time to read the formula.
    let deadline = args.timeout.and_then(|timeout| start.checked_add(timeout));
    let output = args.output.as_ref().filter(|path| !files::is_dash(path));
    if let Some(path) = output {
        files::check_target(path)?;
    }
    let formula = read_one(&args.formula, |name, bytes| {
        let limit = args.max_memory.or_else(memory::available).unwrap_or(u64::MAX);
        Formula::read_within(BufReader::new(bytes), limit).map_err(|error| match error.what {
            Fault::MemoryLimit { needs, .. } => {
                let refused = check_memory_of("the formula", needs, args.max_memory);
                failure(name, &*refused.expect_err("more than the limit"))
            }
            _ => failure(name, &error),
        })
    })?;

    let bar = bar(args);
    let shown = Cell::new(Instant::now());
    let tell = |progress: &Progress| {
        if shown.get().elapsed() >= Duration::from_millis(100) {
            shown.set(Instant::now());
            bar.set_position(progress.flips);
            let Progress { sweeps, unsatisfied, fewest, .. } = progress;
            bar.set_message(format!("{unsatisfied} unsatisfied, fewest {fewest}, {sweeps} sweeps"));
        }
    };
    let settings = Settings { seed: args.seed, flips: args.flips, ..Settings::default() };
    let outcome =
        solve(&formula, &settings, &Watch { deadline, progress: Some(&tell), cancel: None });
    bar.finish_and_clear();

    let seconds = start.elapsed().as_secs_f64();
    let text = if args.json {
        format!("{}\n", as_json(&formula, &outcome, seconds))
    } else {
        as_lines(&outcome)
    };
    match output {
        Some(path) => {
            fs::write(path, text).map_err(|error| failure(path.display(), &error))?;
        }
        None => output::write(text.as_bytes())?,
    }
    if let (Outcome::GaveUp(GaveUp { why, fewest, flips, sweeps }), false) = (&outcome, args.quiet)
    {
        output::message(format_args!(
            "stopped, {why}: fewest unsatisfied {fewest} of {} clauses, {flips} flips, {sweeps} sweeps",
            formula.clauses()
        ));
    }
    Ok(matches!(outcome, Outcome::Solved(_)))
}

/// Returns a progress bar, hidden unless standard error is a terminal.
fn bar(args: &Ksat) -> ProgressBar {
    if args.quiet || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let template = "solving   {wide_bar} {human_pos} flips, {per_sec}; {msg}";
    let style = ProgressStyle::with_template(template).expect("the template above is valid");
    let bar = ProgressBar::new(args.flips).with_style(style);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Returns the number of each variable, negated if it is false.
fn literals(solution: &Solution) -> impl Iterator<Item = i64> {
    (1..).zip(&solution.assignment).map(|(name, value)| if *value { name } else { -name })
}

/// Formats the answer as SAT solvers do, in lines of less than 80 characters.
fn as_lines(outcome: &Outcome) -> String {
    let solution = match outcome {
        Outcome::Solved(solution) => solution,
        Outcome::GaveUp(_) => return "s UNKNOWN\n".into(),
        Outcome::Unsatisfiable => return "s UNSATISFIABLE\n".into(),
    };
    let mut text = String::from("s SATISFIABLE\nv");
    let mut line = 1;
    for literal in literals(solution).chain([0]) {
        let word = format!(" {literal}");
        if line + word.len() > 78 {
            text += "\nv";
            line = 1;
        }
        line += word.len();
        let _ = text.write_str(&word);
    }
    text + "\n"
}

fn as_json(formula: &Formula, outcome: &Outcome, seconds: f64) -> serde_json::Value {
    let (variables, clauses) = (formula.vars(), formula.clauses());
    match outcome {
        Outcome::Solved(solution) => json!({
            "status": "satisfiable",
            "variables": variables,
            "clauses": clauses,
            "unsatisfied": 0,
            "flips": solution.flips,
            "sweeps": solution.sweeps,
            "seconds": seconds,
            "assignment": literals(solution).collect::<Vec<_>>(),
        }),
        Outcome::GaveUp(end) => json!({
            "status": "unknown",
            "why": end.why.to_string(),
            "variables": variables,
            "clauses": clauses,
            "unsatisfied": end.fewest,
            "flips": end.flips,
            "sweeps": end.sweeps,
            "seconds": seconds,
        }),
        Outcome::Unsatisfiable => json!({
            "status": "unsatisfiable",
            "variables": variables,
            "clauses": clauses,
            "flips": 0,
            "sweeps": 0,
            "seconds": seconds,
        }),
    }
}
