//! A formula, with all clauses in one flat array.
//!
//! ```text
//!   starts    0     3        6   8
//!             |     |        |   |
//!   literals  a b c d  e  f  g h      a literal is 2 * variable + (1 if negated)
//!             clause 0 clause 1 ...
//! ```
//!
//! In the public interface a literal is a number as in DIMACS files: 3 is the third variable, -3 its negation.
//! The third variable is element 2 of an assignment.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// The maximum number of variables. The state of a clause in the local search has 26 bits for a variable.
pub const MAX_VARS: u32 = 1 << 26;
/// The maximum number of literals in a clause. The state of a clause has 6 bits for the number of true literals.
pub const MAX_LENGTH: usize = 63;

/// The error of an invalid clause or formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// More variables than [`MAX_VARS`].
    TooManyVars {
        /// The requested number of variables.
        vars: u64,
    },
    /// A literal is 0 or names a variable that the formula does not have.
    Variable {
        /// The variable.
        variable: u64,
        /// The number of variables of the formula.
        vars: u32,
    },
    /// A clause has no literals, or all literals of a NAE clause are equal. Such a clause cannot be satisfied.
    Empty,
    /// A clause has more than [`MAX_LENGTH`] distinct literals.
    TooLong,
    /// The formula has 2^32 literals or more.
    TooLarge,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyVars { vars } => {
                write!(f, "{vars} variables exceed the maximum of {MAX_VARS}")
            }
            Self::Variable { variable: 0, .. } => write!(f, "0 is not a variable"),
            Self::Variable { variable, vars } => {
                write!(f, "variable {variable} exceeds the {vars} variables of the formula")
            }
            Self::Empty => write!(f, "a clause is empty or unsatisfiable"),
            Self::TooLong => write!(f, "a clause has more than {MAX_LENGTH} literals"),
            Self::TooLarge => {
                write!(f, "the formula has too many literals: the maximum is 2^32 - 1")
            }
        }
    }
}

impl core::error::Error for Error {}

/// A formula in conjunctive normal form.
///
/// Duplicate literals of a clause are dropped. A tautology, which contains a variable and its negation, is left
/// out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    vars: u32,
    starts: Vec<u32>,
    literals: Vec<u32>,
    nae: usize,
}

impl Formula {
    /// Creates a formula without clauses.
    ///
    /// # Errors
    /// Returns [`Error::TooManyVars`] if `vars` exceeds [`MAX_VARS`].
    pub fn new(vars: u32) -> Result<Self, Error> {
        if vars > MAX_VARS {
            return Err(Error::TooManyVars { vars: u64::from(vars) });
        }
        Ok(Self { vars, starts: vec![0], literals: Vec::new(), nae: 0 })
    }

    /// Creates a formula of clauses, over the variables up to the highest that they name.
    ///
    /// # Errors
    /// As for [`Formula::new`] and [`Formula::add`].
    pub fn from_clauses<C: AsRef<[i32]>>(
        clauses: impl IntoIterator<Item = C>,
    ) -> Result<Self, Error> {
        let mut formula = Self::new(0)?;
        for clause in clauses {
            let clause = clause.as_ref();
            let highest = clause.iter().map(|literal| literal.unsigned_abs()).max().unwrap_or(0);
            if highest > MAX_VARS {
                return Err(Error::TooManyVars { vars: u64::from(highest) });
            }
            formula.vars = formula.vars.max(highest);
            formula.add(clause)?;
        }
        Ok(formula)
    }

    /// Adds a clause, in which at least one literal must be true.
    ///
    /// # Errors
    /// Returns an error if the clause is empty, too long, or names a variable that the formula does not have. The
    /// formula is then unchanged.
    pub fn add(&mut self, clause: &[i32]) -> Result<(), Error> {
        let start = self.literals.len();
        let added = self.push_literals(clause);
        if !matches!(added, Ok(true)) {
            self.literals.truncate(start);
        }
        if added? {
            self.starts.push(self.literals.len() as u32);
        }
        Ok(())
    }

    /// Adds a *not all equal* (NAE) clause, in which at least one literal must be true and one false.
    ///
    /// It is stored as two clauses, one of the literals and one of their negations, which together are equivalent.
    ///
    /// # Errors
    /// As for [`Formula::add`], and returns [`Error::Empty`] if all literals are equal.
    pub fn add_nae(&mut self, clause: &[i32]) -> Result<(), Error> {
        if clause.iter().all(|literal| *literal == clause[0]) {
            return Err(Error::Empty);
        }
        let before = self.clauses();
        self.add(clause)?;
        if self.clauses() > before {
            let negated: Vec<i32> = clause.iter().map(|literal| -literal).collect();
            if let Err(error) = self.add(&negated) {
                self.starts.pop();
                self.literals.truncate(self.starts[before] as usize);
                return Err(error);
            }
            self.nae += 1;
        }
        Ok(())
    }

    /// Appends the literals of a clause. Returns false if the clause is a tautology.
    fn push_literals(&mut self, clause: &[i32]) -> Result<bool, Error> {
        let start = self.literals.len();
        if clause.is_empty() {
            return Err(Error::Empty);
        }
        let mut always_true = false;
        for literal in clause {
            let variable = literal.unsigned_abs();
            if variable == 0 || variable > self.vars {
                return Err(Error::Variable { variable: u64::from(variable), vars: self.vars });
            }
            let code = 2 * (variable - 1) + u32::from(*literal < 0);
            let own = &self.literals[start..];
            always_true |= own.contains(&(code ^ 1));
            if always_true || own.contains(&code) {
                continue;
            }
            if own.len() == MAX_LENGTH {
                return Err(Error::TooLong);
            }
            if self.literals.len() >= u32::MAX as usize {
                return Err(Error::TooLarge);
            }
            self.literals.push(code);
        }
        Ok(!always_true)
    }

    /// Returns the number of variables, used or not.
    pub fn vars(&self) -> u32 {
        self.vars
    }

    /// Returns the number of clauses. A NAE clause counts as two.
    pub fn clauses(&self) -> usize {
        self.starts.len() - 1
    }

    /// Returns the number of NAE clauses, each of which is a pair of clauses.
    pub fn nae_clauses(&self) -> usize {
        self.nae
    }

    /// Returns the total number of literals.
    pub fn literals(&self) -> usize {
        self.literals.len()
    }

    /// Returns the most bytes of memory that the formula, a search for a solution and a list of its values
    /// take, by the sizes of their tables.
    pub fn memory_bytes(&self) -> u64 {
        const PER_LITERAL: u64 = 48;
        const PER_CLAUSE: u64 = 48;
        const PER_VARIABLE: u64 = 96;
        PER_LITERAL * self.literals() as u64
            + PER_CLAUSE * self.clauses() as u64
            + PER_VARIABLE * u64::from(self.vars)
    }

    /// Returns an iterator over the clauses, each an iterator over its literals.
    pub fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = i32>> {
        (0..self.clauses()).map(|clause| {
            self.clause(clause).iter().map(|code| {
                let variable = (code >> 1) as i32 + 1;
                if code & 1 == 0 { variable } else { -variable }
            })
        })
    }

    /// Returns the number of clauses that `assignment` leaves unsatisfied.
    ///
    /// # Panics
    /// Panics if `assignment` does not have one value per variable.
    pub fn unsatisfied(&self, assignment: &[bool]) -> usize {
        assert_eq!(
            assignment.len(),
            self.vars as usize,
            "the assignment needs one value per variable"
        );
        let holds = |code: &u32| assignment[(code >> 1) as usize] == (code & 1 == 0);
        (0..self.clauses()).filter(|clause| !self.clause(*clause).iter().any(holds)).count()
    }

    /// Returns the encoded literals of a clause.
    #[inline]
    pub(crate) fn clause(&self, clause: usize) -> &[u32] {
        &self.literals[self.starts[clause] as usize..self.starts[clause + 1] as usize]
    }

    /// Returns the position of the first literal of a clause.
    pub(crate) fn start(&self, clause: usize) -> usize {
        self.starts[clause] as usize
    }

    /// Returns all encoded literals.
    pub(crate) fn codes(&self) -> &[u32] {
        &self.literals
    }

    /// Returns a formula without clauses over no more variables than this one.
    pub(crate) fn empty_over(&self, vars: u32) -> Self {
        debug_assert!(vars <= self.vars);
        Self { vars, starts: vec![0], literals: Vec::new(), nae: 0 }
    }

    /// Adds a clause of encoded, distinct literals that is not a tautology.
    pub(crate) fn push(&mut self, codes: impl IntoIterator<Item = u32>) {
        self.literals.extend(codes);
        self.starts.push(self.literals.len() as u32);
    }

    /// Returns the most common clause length.
    pub(crate) fn most_common_length(&self) -> usize {
        let mut count = [0usize; MAX_LENGTH + 1];
        (0..self.clauses()).for_each(|clause| count[self.clause(clause).len()] += 1);
        (0..=MAX_LENGTH).max_by_key(|length| count[*length]).unwrap_or(0)
    }

    /// Returns the length of the longest clause.
    pub(crate) fn max_length(&self) -> usize {
        (0..self.clauses()).map(|clause| self.clause(clause).len()).max().unwrap_or(0)
    }
}

/// The clauses in which each literal occurs, in one flat array.
#[derive(Debug)]
pub(crate) struct Occurrences {
    starts: Vec<u32>,
    clauses: Vec<u32>,
}

impl Occurrences {
    pub(crate) fn of(formula: &Formula) -> Self {
        let codes = 2 * formula.vars() as usize;
        let mut starts = vec![0u32; codes + 1];
        formula.codes().iter().for_each(|code| starts[*code as usize + 1] += 1);
        for code in 0..codes {
            starts[code + 1] += starts[code];
        }
        let mut next = starts.clone();
        let mut clauses = vec![0u32; formula.literals()];
        for clause in 0..formula.clauses() {
            for code in formula.clause(clause) {
                let place = &mut next[*code as usize];
                clauses[*place as usize] = clause as u32;
                *place += 1;
            }
        }
        Self { starts, clauses }
    }

    #[inline]
    pub(crate) fn of_literal(&self, code: u32) -> &[u32] {
        let code = code as usize;
        &self.clauses[self.starts[code] as usize..self.starts[code + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_and_tautologies_are_dropped() {
        let mut formula = Formula::new(3).unwrap();
        formula.add(&[1, -2, 1, -2]).unwrap();
        formula.add(&[1, 2, -1]).unwrap();
        formula.add(&[3]).unwrap();
        let clauses: Vec<Vec<i32>> = formula.iter().map(Iterator::collect).collect();
        assert_eq!(clauses, [vec![1, -2], vec![3]]);
    }

    #[test]
    fn a_refused_clause_leaves_the_formula_unchanged() {
        let mut formula = Formula::new(100).unwrap();
        formula.add(&[1, 2, 3]).unwrap();
        let before = formula.clone();
        let long: Vec<i32> = (1..=64).collect();
        assert_eq!(formula.add(&[]), Err(Error::Empty));
        assert_eq!(formula.add(&[1, 0]), Err(Error::Variable { variable: 0, vars: 100 }));
        assert_eq!(formula.add(&[5, 101]), Err(Error::Variable { variable: 101, vars: 100 }));
        assert_eq!(formula.add(&[i32::MIN]), Err(Error::Variable { variable: 1 << 31, vars: 100 }));
        assert_eq!(formula.add(&[5, -5, 101]), Err(Error::Variable { variable: 101, vars: 100 }));
        assert_eq!(formula.add(&long), Err(Error::TooLong));
        assert_eq!(formula.add_nae(&[]), Err(Error::Empty));
        assert_eq!(formula.add_nae(&[7, 7]), Err(Error::Empty));
        assert_eq!(formula.add_nae(&[7, 101]), Err(Error::Variable { variable: 101, vars: 100 }));
        assert_eq!(formula, before);
        formula.add(&long[..63]).unwrap();
        assert!(
            Formula::new(MAX_VARS + 1).is_err() && Formula::from_clauses([[i32::MIN]]).is_err()
        );
    }

    #[test]
    fn a_nae_clause_is_stored_as_two_clauses() {
        let mut formula = Formula::new(3).unwrap();
        formula.add_nae(&[1, -2, 3]).unwrap();
        formula.add_nae(&[1, -1]).unwrap();
        assert_eq!((formula.clauses(), formula.nae_clauses()), (2, 1));
        for bits in 0..8 {
            let values: Vec<bool> = (0..3).map(|bit| bits >> bit & 1 == 1).collect();
            let literals = [values[0], !values[1], values[2]];
            let equal = literals.iter().all(|literal| *literal == literals[0]);
            assert_eq!(formula.unsatisfied(&values) > 0, equal);
        }
    }
}
