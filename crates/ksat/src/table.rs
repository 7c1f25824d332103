//! Which parameters for which formula.

use crate::formula::Formula;
use crate::survey::{Decimation, MAX_CLAUSE};

/// How the weight of a variable in the walk falls with its break.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fall {
    /// By this factor for each.
    Power(f64),
    /// As 1 / (offset + breaks)^2.
    Square(f64),
}

/// How to go about a formula.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// The weights of the walk.
    pub fall: Fall,
    /// Flips of the walk before survey propagation is tried; all of them, if it never is.
    pub opening: u64,
    /// What to try then, one after the other, the last one again and again.
    pub surveys: &'static [Decimation],
}

impl Plan {
    /// What is best for a formula of this size, density and clause length.
    pub fn of(formula: &Formula) -> Self {
        let k = formula.usual_length();
        let e = formula.clauses() as f64 / f64::from(formula.vars().max(1)) / (2f64.powi(k as i32) * 2f64.ln());
        let fall = match k {
            0..=3 => Fall::Square(0.9),
            4 => Fall::Power(3.0),
            5 => Fall::Power(4.0),
            6 => Fall::Power(4.6),
            _ => Fall::Power(5.4),
        };
        let easy = [0.0, 0.0, 0.0, 0.8, 0.865, 0.865, 0.835, 0.80][k.min(7)];
        const PLAIN: &[Decimation] = &[
            Decimation { share: 0.025, back: 0.0 },
            Decimation { share: 0.02, back: 0.3 },
            Decimation { share: 0.01, back: 0.4 },
        ];
        let opening = if e < easy || k < 3 || formula.longest() > MAX_CLAUSE || formula.nae_clauses() > 0 {
            u64::MAX
        } else {
            10 * formula.literals() as u64
        };
        Self { fall, opening, surveys: PLAIN }
    }
}
