//! Partial assignments and residual formulas.

use alloc::vec;
use alloc::vec::Vec;

use crate::formula::{Formula, Occurrences};

/// A partial assignment, with the number of true and of unassigned literals of each clause.
#[derive(Debug)]
pub(crate) struct Partial<'a> {
    formula: &'a Formula,
    occurrences: &'a Occurrences,
    values: Vec<Option<bool>>,
    assigned: usize,
    /// The numbers of true and of unassigned literals of each clause.
    clauses: Vec<(u8, u8)>,
    /// Clauses that had one unassigned and no true literal when they were pushed.
    units: Vec<u32>,
    contradiction: bool,
}

impl<'a> Partial<'a> {
    pub(crate) fn new(formula: &'a Formula, occurrences: &'a Occurrences) -> Self {
        let open = |clause| formula.clause(clause).len() as u8;
        let clauses: Vec<(u8, u8)> = (0..formula.clauses()).map(|at| (0, open(at))).collect();
        let units = (0..clauses.len() as u32).filter(|at| clauses[*at as usize].1 == 1).collect();
        let values = vec![None; formula.vars() as usize];
        Self { formula, occurrences, values, assigned: 0, clauses, units, contradiction: false }
    }

    pub(crate) fn value(&self, variable: usize) -> Option<bool> {
        self.values[variable]
    }

    /// Returns the number of assigned variables.
    pub(crate) fn assigned(&self) -> usize {
        self.assigned
    }

    /// Returns the number of unassigned literals of a clause, or `None` if the clause is satisfied.
    pub(crate) fn unassigned_literals(&self, clause: usize) -> Option<u8> {
        let (trues, open) = self.clauses[clause];
        (trues == 0).then_some(open)
    }

    /// Returns the number of true literals of a clause.
    pub(crate) fn true_literals(&self, clause: usize) -> u8 {
        self.clauses[clause].0
    }

    /// Assigns an unassigned variable such that the literal `code` becomes true.
    pub(crate) fn assign(&mut self, code: u32) {
        let value = &mut self.values[(code >> 1) as usize];
        debug_assert!(value.is_none());
        *value = Some(code & 1 == 0);
        self.assigned += 1;
        for clause in self.occurrences.of_literal(code) {
            let (trues, open) = &mut self.clauses[*clause as usize];
            (*trues, *open) = (*trues + 1, *open - 1);
        }
        for clause in self.occurrences.of_literal(code ^ 1) {
            let (trues, open) = &mut self.clauses[*clause as usize];
            *open -= 1;
            match (*trues, *open) {
                (0, 0) => self.contradiction = true,
                (0, 1) => self.units.push(*clause),
                _ => {}
            }
        }
    }

    /// Unassigns a variable.
    pub(crate) fn unassign(&mut self, variable: usize) {
        let Some(value) = self.values[variable].take() else { return };
        self.assigned -= 1;
        let code = 2 * variable as u32 + u32::from(!value);
        for (code, was_true) in [(code, 1), (code ^ 1, 0)] {
            for clause in self.occurrences.of_literal(code) {
                let (trues, open) = &mut self.clauses[*clause as usize];
                (*trues, *open) = (*trues - was_true, *open + 1);
                if (*trues, *open) == (0, 1) {
                    self.units.push(*clause);
                }
            }
        }
    }

    /// Propagates unit clauses. Returns false if a clause has become unsatisfiable.
    pub(crate) fn propagate(&mut self) -> bool {
        while let Some(clause) = self.units.pop() {
            if self.contradiction {
                return false;
            }
            // Since it was pushed, the clause may have been satisfied or have got a further unassigned literal.
            if self.clauses[clause as usize] == (0, 1) {
                let free = |code: &&u32| self.values[(**code >> 1) as usize].is_none();
                let last = self.formula.clause(clause as usize).iter().find(free);
                if let Some(code) = last {
                    self.assign(*code);
                }
            }
        }
        !self.contradiction
    }

    /// Returns the residual formula: the unsatisfied clauses without their false literals, over renumbered
    /// variables. Also returns the original variable of each new one.
    ///
    /// Only variables that occur get a number, so the cost depends on the number of literals alone.
    pub(crate) fn residual(&self) -> (Formula, Vec<u32>) {
        restrict(
            self.formula,
            |clause| self.unassigned_literals(clause).is_some(),
            |code| self.values[(code >> 1) as usize].is_none(),
        )
    }
}

/// Returns the formula of the kept literals of the kept clauses, over renumbered variables, and the original
/// variable of each new one.
pub(crate) fn restrict(
    formula: &Formula,
    keep_clause: impl Fn(usize) -> bool,
    keep_literal: impl Fn(u32) -> bool,
) -> (Formula, Vec<u32>) {
    let clauses = || (0..formula.clauses()).filter(|clause| keep_clause(*clause));
    let codes = |clause| formula.clause(clause).iter().copied().filter(|code| keep_literal(*code));
    let mut used: Vec<u32> = clauses().flat_map(codes).map(|code| code >> 1).collect();
    used.sort_unstable();
    used.dedup();
    let renumbered = |code: u32| {
        let at = used.binary_search(&(code >> 1)).expect("every kept literal is in the list");
        2 * at as u32 + (code & 1)
    };
    let mut smaller = formula.empty_over(used.len() as u32);
    clauses().for_each(|clause| smaller.push(codes(clause).map(renumbered)));
    (smaller, used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Clauses, Rng};

    #[test]
    fn unassigning_restores_the_state() {
        let formula = Formula::random(Clauses::Or, 4, 50, 200, 1).unwrap();
        let occurrences = Occurrences::of(&formula);
        let fresh = Partial::new(&formula, &occurrences);
        let mut partial = Partial::new(&formula, &occurrences);
        let mut rng = Rng::new(1, 1);
        for _ in 0..200 {
            let code = rng.below(100) as u32;
            match partial.value((code >> 1) as usize) {
                None => partial.assign(code),
                Some(_) => partial.unassign((code >> 1) as usize),
            }
            let assigned = (0..50).filter(|variable| partial.value(*variable).is_some()).count();
            assert_eq!(partial.assigned(), assigned);
        }
        (0..50).for_each(|variable| partial.unassign(variable));
        assert_eq!((partial.clauses, partial.values), (fresh.clauses, fresh.values));
    }

    #[test]
    fn unit_clauses_are_propagated() {
        let formula =
            Formula::from_clauses([vec![1], vec![-1, 2], vec![-1, -2, 3], vec![-3, 4, 5, 6]])
                .unwrap();
        let occurrences = Occurrences::of(&formula);
        let mut partial = Partial::new(&formula, &occurrences);
        assert!(partial.propagate());
        let values: Vec<Option<bool>> = (0..6).map(|variable| partial.value(variable)).collect();
        assert_eq!(values, [Some(true), Some(true), Some(true), None, None, None]);
        let (residual, variables) = partial.residual();
        assert_eq!(variables, [3, 4, 5]);
        assert_eq!(residual, Formula::from_clauses([[1, 2, 3]]).unwrap());
        // A forced variable that is unassigned is forced again.
        partial.unassign(2);
        assert!(partial.propagate());
        assert_eq!(partial.value(2), Some(true));
        partial.assign(2 * 3 + 1);
        partial.assign(2 * 4 + 1);
        assert!(partial.propagate());
        assert_eq!(partial.value(5), Some(true));
    }

    #[test]
    fn a_contradiction_is_detected() {
        let formula = Formula::from_clauses([vec![1, 2], vec![1, -2], vec![-1, 3], vec![-1, -3]]);
        let formula = formula.unwrap();
        let occurrences = Occurrences::of(&formula);
        for code in [0, 1] {
            let mut partial = Partial::new(&formula, &occurrences);
            assert!(partial.propagate());
            partial.assign(code);
            assert!(!partial.propagate());
        }
    }
}
