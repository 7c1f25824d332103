//! Some variables have values: what that leaves of the formula.

use crate::formula::{Formula, Occurrences};

/// A partial assignment, and for each clause what it still needs to know of it.
#[derive(Debug)]
pub(crate) struct Partial<'a> {
    formula: &'a Formula,
    occurrences: &'a Occurrences,
    values: Vec<Option<bool>>,
    set: usize,
    /// True literals of each clause, and literals without a value.
    clauses: Vec<(u8, u8)>,
    /// Clauses that were down to their last literal when they were put here.
    units: Vec<u32>,
    contradiction: bool,
}

impl<'a> Partial<'a> {
    pub(crate) fn new(formula: &'a Formula, occurrences: &'a Occurrences) -> Self {
        let open = |clause| formula.clause(clause).len() as u8;
        let clauses: Vec<(u8, u8)> = (0..formula.clauses()).map(|at| (0, open(at))).collect();
        let units = (0..clauses.len() as u32).filter(|at| clauses[*at as usize].1 == 1).collect();
        let values = vec![None; formula.vars() as usize];
        Self { formula, occurrences, values, set: 0, clauses, units, contradiction: false }
    }

    pub(crate) fn value(&self, variable: usize) -> Option<bool> {
        self.values[variable]
    }

    /// How many variables have a value.
    pub(crate) fn set(&self) -> usize {
        self.set
    }

    /// Whether nothing satisfies the clause yet; then how many literals are left to do so.
    pub(crate) fn open(&self, clause: usize) -> Option<u8> {
        let (yes, open) = self.clauses[clause];
        (yes == 0).then_some(open)
    }

    /// How many true literals a clause has.
    pub(crate) fn satisfied_by(&self, clause: usize) -> u8 {
        self.clauses[clause].0
    }

    /// Gives a variable without a value the one that makes this literal true.
    pub(crate) fn assign(&mut self, code: u32) {
        let value = &mut self.values[(code >> 1) as usize];
        debug_assert!(value.is_none());
        *value = Some(code & 1 == 0);
        self.set += 1;
        for clause in self.occurrences.of_literal(code) {
            let (yes, open) = &mut self.clauses[*clause as usize];
            (*yes, *open) = (*yes + 1, *open - 1);
        }
        for clause in self.occurrences.of_literal(code ^ 1) {
            let (yes, open) = &mut self.clauses[*clause as usize];
            *open -= 1;
            match (*yes, *open) {
                (0, 0) => self.contradiction = true,
                (0, 1) => self.units.push(*clause),
                _ => {}
            }
        }
    }

    /// Takes a variable's value back.
    pub(crate) fn release(&mut self, variable: usize) {
        let Some(value) = self.values[variable].take() else { return };
        self.set -= 1;
        let code = 2 * variable as u32 + u32::from(!value);
        for (code, was_true) in [(code, 1), (code ^ 1, 0)] {
            for clause in self.occurrences.of_literal(code) {
                let (yes, open) = &mut self.clauses[*clause as usize];
                (*yes, *open) = (*yes - was_true, *open + 1);
                if (*yes, *open) == (0, 1) {
                    self.units.push(*clause);
                }
            }
        }
    }

    /// Assigns every literal that is the last hope of its clause; false if a clause has none.
    pub(crate) fn propagate(&mut self) -> bool {
        while let Some(clause) = self.units.pop() {
            if self.contradiction {
                return false;
            }
            // Since it was put here it may have been satisfied, or widened again.
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

    /// The open clauses without their false literals, over new variables; and which variable
    /// each of the new ones stands for.
    ///
    /// Only variables that occur are renamed, so it costs no more than there are literals.
    pub(crate) fn residual(&self) -> (Formula, Vec<u32>) {
        rename(
            self.formula,
            |clause| self.open(clause).is_some(),
            |code| self.values[(code >> 1) as usize].is_none(),
        )
    }
}

/// The literals that pass, of the clauses that pass, over the variables that occur in them.
pub(crate) fn rename(
    formula: &Formula,
    keep_clause: impl Fn(usize) -> bool,
    keep_literal: impl Fn(u32) -> bool,
) -> (Formula, Vec<u32>) {
    let clauses = || (0..formula.clauses()).filter(|clause| keep_clause(*clause));
    let codes = |clause| formula.clause(clause).iter().copied().filter(|code| keep_literal(*code));
    let mut used: Vec<u32> = clauses().flat_map(codes).map(|code| code >> 1).collect();
    used.sort_unstable();
    used.dedup();
    let new_name = |code: u32| {
        let at = used.binary_search(&(code >> 1)).expect("every literal that passes is listed");
        2 * at as u32 + (code & 1)
    };
    let mut smaller = formula.empty_over(used.len() as u32);
    clauses().for_each(|clause| smaller.push(codes(clause).map(new_name)));
    (smaller, used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Clauses, Rng};

    #[test]
    fn what_is_released_was_never_there() {
        let formula = Formula::random(Clauses::Or, 4, 50, 200, 1).unwrap();
        let occurrences = Occurrences::of(&formula);
        let fresh = Partial::new(&formula, &occurrences);
        let mut partial = Partial::new(&formula, &occurrences);
        let mut rng = Rng::new(1, 1);
        for _ in 0..200 {
            let code = rng.below(100) as u32;
            match partial.value((code >> 1) as usize) {
                None => partial.assign(code),
                Some(_) => partial.release((code >> 1) as usize),
            }
            let set = (0..50).filter(|variable| partial.value(*variable).is_some()).count();
            assert_eq!(partial.set(), set);
        }
        (0..50).for_each(|variable| partial.release(variable));
        assert_eq!((partial.clauses, partial.values), (fresh.clauses, fresh.values));
    }

    #[test]
    fn units_are_propagated_to_the_end() {
        let formula =
            Formula::from_clauses([vec![1], vec![-1, 2], vec![-1, -2, 3], vec![-3, 4, 5, 6]])
                .unwrap();
        let occurrences = Occurrences::of(&formula);
        let mut partial = Partial::new(&formula, &occurrences);
        assert!(partial.propagate());
        let values: Vec<Option<bool>> = (0..6).map(|variable| partial.value(variable)).collect();
        assert_eq!(values, [Some(true), Some(true), Some(true), None, None, None]);
        let (open, names) = partial.residual();
        assert_eq!(names, [3, 4, 5]);
        assert_eq!(open, Formula::from_clauses([[1, 2, 3]]).unwrap());
        // A forced value that is taken back is forced again.
        partial.release(2);
        assert!(partial.propagate());
        assert_eq!(partial.value(2), Some(true));
        partial.assign(2 * 3 + 1);
        partial.assign(2 * 4 + 1);
        assert!(partial.propagate());
        assert_eq!(partial.value(5), Some(true));
    }

    #[test]
    fn a_contradiction_is_seen() {
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
