//! A solver of random k-SAT, as close to the threshold as can be had in seconds.
//!
//! A formula is a list of clauses, a clause a list of literals, and the question is for values of
//! the variables that make one literal of every clause true. If the clauses are random, with k
//! literals each, then all depends on how many there are for each variable. Up to a threshold
//! ([`threshold`]: 4.27 for k = 3, 9.93 for k = 4) nearly every large formula has solutions, past it
//! nearly none. Solvers that reason, learning clauses from conflicts, are lost on such formulas long
//! before the threshold: there is nothing to learn. Two methods that guess well are not.
//!
//! ```
//! use tamis_ksat::{Formula, Outcome, Settings, Watch, solve};
//!
//! let formula = Formula::from_clauses([[1, -2, 3], [-1, 2, 3], [-3, 1, 2]])?;
//! match solve(&formula, &Settings::default(), &Watch::default()) {
//!     Outcome::Solved(solution) => assert_eq!(formula.unsatisfied(&solution.assignment), 0),
//!     Outcome::GaveUp(how_far) => panic!("{how_far:?}"),
//! }
//! # Ok::<(), tamis_ksat::Error>(())
//! ```
//!
//! # How
//!
//! **A walk** (`walk.rs`) takes an unsatisfied clause and flips one of its variables, preferring
//! those that break few other clauses, some million times a second. It solves what is well below the
//! threshold in milliseconds, and then, within a few per cent more clauses, hardly ever ends.
//!
//! **Survey propagation** (`survey.rs`) lets clauses and variables exchange warnings until it
//! shows which variables have the same value in most solutions of a cluster, gives these their
//! value, and goes on with what is left, which is easier, until a walk can finish it. Taking
//! back what later looks wrong brings it within about two per cent of the threshold.
//!
//! [`solve`] walks first for as long as that pays, then alternates surveys and walks from where
//! they lead. How long, with what weights and what share of variables at a time depends on clause
//! length, number of variables and density; [`Plan::of`] reads it from a table that a program of
//! the lab wrote after trying.
//!
//! # What it promises
//!
//! * An assignment is checked against every clause before it is returned.
//! * It never says that there is no solution: it gives up ([`GaveUp`]), and tells how far it came.
//! * The budget is in flips and sweeps. The same formula, seed and budget give the same answer on
//!   every machine. A deadline or a cancelled token ([`Watch`]) can stop it, and
//!   change nothing else. Floating-point numbers go through `+ - * /` and square roots only, which
//!   IEEE 754 fixes to the last bit.
//! * Memory is about 30 bytes a literal. A header that promises more costs nothing.
//!
//! # What it takes
//!
//! Clauses of 1 to [`MAX_LENGTH`] literals, in one formula if need be: clauses of one literal
//! are propagated first, duplicate literals dropped, clauses that are true anyway left out. An empty clause is
//! refused as a mistake. [`Formula::add_nae`] takes *not all equal* clauses, and [`Formula::read`]
//! DIMACS files. Survey propagation takes part if no clause has more than eight literals and none is a NAE
//! clause, whose two halves would confirm each other for ever.
//!
//! Several solutions that differ: start each walk ([`Settings::start`]) away from those found so
//! far, and lean away from them ([`Lean`]) while there is a choice.

mod dimacs;
mod formula;
mod partial;
mod random;
mod rows;
mod solve;
mod survey;
mod table;
mod walk;
mod watch;

pub use dimacs::{Fault, ReadError};
pub use formula::{Error, Formula, MAX_LENGTH, MAX_VARS};
pub use random::Clauses;
pub use solve::{GaveUp, Outcome, Settings, Solution, solve};
pub use survey::Decimation;
pub use table::{Fall, Plan, threshold};
pub use walk::Lean;
pub use watch::{Progress, Watch, Why};
