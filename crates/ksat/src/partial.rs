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
        rename(self.formula, |clause| self.open(clause).is_some(), |code| {
            self.values[(code >> 1) as usize].is_none()
        })
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
