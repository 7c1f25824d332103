//! A solver of random k-SAT close to the satisfiability threshold.
//!
//! A formula in conjunctive normal form is a list of clauses, and a clause is a list of literals. A solution
//! assigns values to the variables such that every clause has a true literal. Whether a random formula with `k`
//! literals per clause has solutions depends on its density, the number of clauses per variable. Below a
//! threshold ([`threshold`]) nearly every large formula has solutions, above it nearly none. Solvers that learn
//! clauses from conflicts fail on random formulas well below the threshold. The two incomplete methods used here
//! do not.
//!
//! ```
//! use tamis_ksat::{Formula, Outcome, Settings, Watch, solve};
//!
//! let formula = Formula::from_clauses([[1, -2, 3], [-1, 2, 3], [-3, 1, 2]])?;
//! match solve(&formula, &Settings::default(), &Watch::default()) {
//!     Outcome::Solved(solution) => assert_eq!(formula.unsatisfied(&solution.assignment), 0),
//!     outcome => panic!("{outcome:?}"),
//! }
//! # Ok::<(), tamis_ksat::Error>(())
//! ```
//!
//! # Method
//!
//! **Local search** (`walk.rs`) picks an unsatisfied clause and flips one of its variables, preferring those
//! that break few other clauses, at 10^6 to 10^7 flips per second. It solves formulas well below the threshold in
//! milliseconds; with a few per cent more clauses it hardly ever succeeds.
//!
//! **Survey propagation** (`survey.rs`) passes messages between clauses and variables until it knows which
//! variables have the same value in most solutions of a cluster. It fixes these and continues with the residual
//! formula, which is easier, until local search can solve it. With backtracking it reaches densities within
//! about 2 % of the threshold.
//!
//! [`solve()`] first runs local search for as long as that is the faster method, then alternates survey propagation
//! and local search from the assignment that it suggests. The parameters depend on clause length, number of
//! variables and density; [`Plan::of`] takes them from a table that `lab/ksat` has measured.
//!
//! # Figures
//!
//! | k | threshold, clauses per variable | load at the threshold | highest load solved at 2^17 clauses | mean CPU time |
//! | --- | --- | --- | --- | --- |
//! | 3 | 4.267 | 0.822 | 0.81 | 0.56 s |
//! | 4 | 9.931 | 0.925 | 0.91 | 1.54 s |
//! | 5 | 21.117 | 0.967 | 0.93 | 1.25 s |
//! | 6 | 43.37 | 0.985 | 0.91 | 1.33 s |
//! | 7 | 87.79 | 0.993 | not measured | |
//!
//! The load is defined at [`Formula::load`]. The last two columns are of 2 instances per row, on one thread, by
//! `cargo run --release -p tamis-lab --bin ksat`, which writes `lab/ksat/table-2.csv`. Memory is about 30 bytes
//! per literal.
//!
//! # Guarantees
//!
//! * An assignment is checked against every clause before it is returned.
//! * The solver reports that a formula is unsatisfiable ([`Outcome::Unsatisfiable`]) only if propagating its unit
//!   clauses shows it. Otherwise it gives up ([`GaveUp`]) and reports the fewest unsatisfied clauses that it reached.
//! * The budget is given in flips and sweeps. The same formula, seed and budget give the same answer on every
//!   machine: floating-point code uses only `+ - * /` and square roots, which IEEE 754 defines exactly. A
//!   deadline or a cancellation flag ([`Watch`]) can stop the solver and changes nothing else.
//! * Memory grows with the clauses that were read, not with the numbers in the header of a file.
//!
//! # Input
//!
//! Clauses have 1 to [`MAX_LENGTH`] literals, and one formula may mix lengths. Unit clauses are propagated
//! first, duplicate literals are dropped, and tautologies are left out. An empty clause is an error.
//! [`Formula::add_nae`] adds *not all equal* clauses, and [`Formula::read`] reads DIMACS files. Survey propagation
//! is used only if no clause has more than 8 literals and none is a NAE clause, because the two halves of a NAE
//! clause would confirm each other's messages.
//!
//! To find several solutions that differ, start each search ([`Settings::start`]) away from the solutions found
//! so far, bias it away from them ([`Lean`]), and then move all of them apart ([`spread()`]).
//!
//! # Features
//! `std` (default) enables deadlines and DIMACS files. Without it the crate is `no_std` with `alloc`.

#![cfg_attr(not(any(test, feature = "std")), no_std)]

extern crate alloc;

#[cfg(feature = "std")]
mod dimacs;
mod formula;
mod partial;
mod random;
mod row;
mod rows;
mod solve;
mod spread;
mod survey;
mod table;
mod walk;
mod watch;

#[cfg(feature = "std")]
pub use dimacs::{Fault, ReadError, read_solutions};
pub use formula::{Error, Formula, MAX_LENGTH, MAX_VARS};
pub use random::Clauses;
pub use row::Fall;
pub use solve::{GaveUp, Outcome, Settings, Solution, solve};
pub use spread::{mean_distance, spread};
pub use survey::Decimation;
pub use table::{Plan, threshold};
pub use walk::Lean;
pub use watch::{Progress, Watch, Why};
