//! Random numbers and random formulas.

use alloc::vec::Vec;

use tamis_bits::range::{mix, scale};

use crate::formula::{Error, Formula};

/// A counter-based generator with a bijective mix. Any seed is valid, and the numbers are the same on every
/// machine.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    /// Creates the generator of a seed and a stream number.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream)))
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    #[inline]
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        scale(self.next(), bound)
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.next() >> 63 == 1
    }

    /// Returns a number in `0.0..1.0` with 24 random bits.
    pub(crate) fn unit_f32(&mut self) -> f32 {
        (self.next() >> 40) as f32 / 16_777_216.0
    }
}

/// The kind of clause that [`Formula::random`] draws.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clauses {
    /// At least one literal is true.
    Or,
    /// At least one literal is true and at least one is false.
    Nae,
}

impl Formula {
    /// Draws a formula of `clauses` clauses, each of `k` distinct variables with random signs.
    ///
    /// # Errors
    /// Returns an error if there are fewer than `k` variables or a limit of the crate is exceeded.
    pub fn random(
        kind: Clauses,
        k: usize,
        vars: u32,
        clauses: usize,
        seed: u64,
    ) -> Result<Self, Error> {
        Self::draw(kind, k, vars, clauses, seed, |_| true)
    }

    /// Draws a formula like [`Formula::random`], of clauses that a random hidden assignment satisfies. Also returns
    /// the assignment.
    ///
    /// # Errors
    /// As for [`Formula::random`].
    pub fn planted(
        kind: Clauses,
        k: usize,
        vars: u32,
        clauses: usize,
        seed: u64,
    ) -> Result<(Self, Vec<bool>), Error> {
        let mut rng = Rng::new(seed, 1);
        let hidden: Vec<bool> = (0..vars).map(|_| rng.coin()).collect();
        let holds = |literal: &i32| hidden[literal.unsigned_abs() as usize - 1] == (*literal > 0);
        let formula = Self::draw(kind, k, vars, clauses, seed, |clause| {
            let trues = clause.iter().filter(|literal| holds(literal)).count();
            trues > 0 && (kind == Clauses::Or || trues < k)
        })?;
        Ok((formula, hidden))
    }

    fn draw(
        kind: Clauses,
        k: usize,
        vars: u32,
        clauses: usize,
        seed: u64,
        keep: impl Fn(&[i32]) -> bool,
    ) -> Result<Self, Error> {
        let mut formula = Self::new(vars)?;
        if k > vars as usize {
            return Err(Error::Variable { variable: k as u64, vars });
        }
        let mut rng = Rng::new(seed, 0);
        let mut clause: Vec<i32> = Vec::with_capacity(k);
        let mut drawn = 0;
        while drawn < clauses {
            clause.clear();
            while clause.len() < k {
                let variable = rng.below(u64::from(vars)) as i32 + 1;
                if !clause.iter().any(|literal| literal.abs() == variable) {
                    clause.push(if rng.coin() { variable } else { -variable });
                }
            }
            if !keep(&clause) {
                continue;
            }
            match kind {
                Clauses::Or => formula.add(&clause)?,
                Clauses::Nae => formula.add_nae(&clause)?,
            }
            drawn += 1;
        }
        Ok(formula)
    }
}
