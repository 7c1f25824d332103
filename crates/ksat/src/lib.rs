//! placeholder

mod formula;
mod partial;
mod random;
mod solve;
mod survey;
mod table;
mod walk;
mod watch;

pub use formula::{Error, Formula, MAX_LENGTH, MAX_VARS};
pub use random::Clauses;
pub use solve::{GaveUp, Outcome, Settings, Solution, solve};
pub use survey::Decimation;
pub use table::{Fall, Plan};
pub use walk::Lean;
pub use watch::{Progress, Watch, Why};
