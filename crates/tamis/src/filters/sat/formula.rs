//! The formulas of a filter to be, for any solver, and the filter of their solutions.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use tamis_bits::Words;

use super::build::{Plane, Solved};
use super::clause::{MOST, clause};
use super::{Construction, Sat, SatShape};
use crate::error::Error;
use crate::filters::common::usize_words;
use crate::hash::KeyHash;
use crate::options::BuildOptions;
use crate::parts::sealed::SolveParts;

/// The formulas of a SAT filter of one block, which any solver may solve.
///
/// `sliced` and `multi` have a formula for each plane, with one solution each. `single` and `nae` have
/// one formula for all planes, which needs as many solutions as there are planes; they should differ as
/// much as possible.
///
/// # Examples
/// ```
/// use tamis::{Construction, Filter, HashId, Key, KeyHasher, SatFormula, SatShape};
///
/// let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
/// let keys: Vec<_> = (0..100u64).map(|key| key.hash_with(&hasher)).collect();
/// let formula = SatFormula::new(&keys, |keys| SatShape::new(Construction::Sliced, 4, 3, 0.5, keys))?;
/// let solutions = (0..formula.formulas()).map(|plane| {
///     let clauses = tamis_ksat::Formula::from_clauses(formula.clauses(plane)).expect("valid clauses");
///     let solved = tamis_ksat::solve(&clauses, &Default::default(), &Default::default());
///     let mut values = solved.assignment().expect("an easy formula");
///     // Variables that are in no clause.
///     values.resize(formula.variables() as usize, false);
///     values
/// });
/// let filter = formula.build(&solutions.collect::<Vec<_>>())?;
/// assert!(keys.iter().all(|key| filter.contains(*key)));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SatFormula {
    shape: SatShape,
    digests: Vec<u64>,
}

impl SatFormula {
    /// Returns the formulas of these keys. `fit` makes the shape for the number of distinct keys.
    ///
    /// # Errors
    /// Those of `fit`, and [`Error::Infeasible`] if the shape has more than one block.
    pub fn new(
        keys: &[KeyHash],
        fit: impl FnOnce(u64) -> Result<SatShape, Error>,
    ) -> Result<Self, Error> {
        let mut digests: Vec<u64> = keys.iter().map(|key| key.hi).collect();
        digests.sort_unstable();
        digests.dedup();
        let shape = fit(digests.len() as u64)?;
        if shape.block_bits > 0 {
            let why =
                "the keys are split into several blocks; only one block has formulas to export";
            return Err(Error::Infeasible { why });
        }
        Ok(Self { shape, digests })
    }

    /// Returns the shape of the filter.
    pub fn shape(&self) -> &SatShape {
        &self.shape
    }

    /// Returns the number of variables of each formula.
    pub fn variables(&self) -> u64 {
        let least = self.shape.construction.least(self.shape.k);
        (self.shape.entries - 1).max(least)
    }

    /// Returns the number of formulas: one per plane, or one.
    pub fn formulas(&self) -> u64 {
        if self.shape.construction.is_exact() { self.shape.planes } else { 1 }
    }

    /// Returns the number of solutions that [`SatFormula::build`] needs: one per plane.
    pub fn solutions(&self) -> u64 {
        self.shape.planes
    }

    /// Returns the number of clauses of each formula: one per key, or two for `nae`.
    pub fn len(&self) -> u64 {
        let per_key = if self.shape.construction == Construction::Nae { 2 } else { 1 };
        self.digests.len() as u64 * per_key
    }

    /// Returns whether there are no keys, and no clauses.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }

    /// Returns the clauses of a formula. A literal is the number of a variable, from 1, negated if the
    /// variable must be false. A clause may have a variable twice.
    pub fn clauses(&self, formula: u64) -> impl Iterator<Item = Vec<i32>> {
        let signs: RangeInclusive<u8> =
            if self.shape.construction == Construction::Nae { 0..=1 } else { 0..=0 };
        self.digests.iter().flat_map(move |digest| {
            let literals = self.clause(*digest, formula as usize);
            let k = self.shape.k as usize;
            signs.clone().map(move |negated| {
                literals[..k].iter().map(|x| if negated == 1 { -x } else { *x }).collect()
            })
        })
    }

    fn clause(&self, digest: u64, formula: usize) -> [i32; MOST] {
        clause(&self.shape, self.variables(), 0, digest, formula, false)
    }

    /// Returns the filter of these solutions, one per plane: the values of all variables in order.
    ///
    /// # Errors
    /// [`Error::Unsatisfied`] names the first clause that a solution violates; [`Error::Mismatch`] if
    /// there are more or fewer solutions, or one has more or fewer variables; [`Error::Infeasible`] if the
    /// solutions are nearer to each other than [`SatShape::with_distance`] requires.
    pub fn build(&self, solutions: &[Vec<bool>]) -> Result<Sat, Error> {
        let (vars, len) = (self.variables(), self.digests.len() as u64);
        if solutions.len() as u64 != self.solutions() {
            return Err(Error::Mismatch { what: "number of solutions" });
        }
        for (number, values) in (0..).zip(solutions) {
            if values.len() as u64 != vars {
                return Err(Error::Mismatch { what: "number of variables" });
            }
            let formula = if self.shape.construction.is_exact() { number } else { 0 };
            let holds =
                |literal: &i32| values[literal.unsigned_abs() as usize - 1] == (*literal > 0);
            let violated = self.clauses(formula).position(|clause| !clause.iter().any(holds));
            if let Some(clause) = violated {
                let clause = clause as u64 + 1;
                return Err(Error::Unsatisfied { solution: number + 1, clause });
            }
        }
        if len > 0 && !self.shape.is_distant(solutions) {
            return Err(Error::Infeasible { why: "the solutions differ less than `distance`" });
        }
        let planes: Vec<Plane> = solutions
            .iter()
            .map(|values| Plane { values: values.clone(), retried: false })
            .collect();
        let block = match len {
            0 => Solved::of_solutions(0, &[])?,
            _ => Solved::of_solutions(vars, &planes)?,
        };
        let table = Words::zeroed(usize_words(self.shape.words())?)?;
        Sat::finish(&BuildOptions::new(), self.shape.clone(), len, table, [block].into())
    }
}
