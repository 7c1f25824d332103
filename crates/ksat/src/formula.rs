//! A formula: clauses side by side in one flat array.
//!
//! ```text
//!   starts    0     3        6   8
//!             |     |        |   |
//!   literals  a b c d  e  f  g h      a literal is 2 * variable + (1 if negated)
//!             clause 0 clause 1 ...
//! ```
//!
//! Outside the crate a literal is a number as in DIMACS files: 3 is the third variable, -3 its
//! negation. In an assignment the third variable is element 2.

use std::fmt;

/// The most variables: a clause's state in the walk has 26 bits for one.
pub const MAX_VARS: u32 = 1 << 26;
/// The most literals of a clause: the state has 6 bits to count the true ones.
pub const MAX_LENGTH: usize = 63;

/// Why a clause is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// More variables than [`MAX_VARS`].
    TooManyVars {
        /// How many were asked for.
        vars: u64,
    },
    /// A literal of a variable that the formula does not have, or zero, which is none.
    Variable {
        /// The variable.
        variable: u64,
        /// How many there are.
        vars: u32,
    },
    /// A clause without a literal cannot be satisfied: it is a mistake of whoever made it, as is a
    /// NAE clause of less than two variables.
    Empty,
    /// More different literals in one clause than [`MAX_LENGTH`].
    TooLong,
    /// More literals in all than 2^32.
    TooLarge,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyVars { vars } => {
                write!(f, "{vars} variables are more than the {MAX_VARS} that can be solved for")
            }
            Self::Variable { variable: 0, .. } => write!(f, "0 is no variable"),
            Self::Variable { variable, vars } => {
                write!(f, "there is no variable {variable}, only {vars}")
            }
            Self::Empty => write!(f, "a clause that nothing can satisfy"),
            Self::TooLong => write!(f, "a clause of more than {MAX_LENGTH} literals"),
            Self::TooLarge => write!(f, "more than 2^32 literals"),
        }
    }
}

impl std::error::Error for Error {}

/// Clauses over numbered variables.
///
/// A literal that a clause has twice counts once. A clause with a variable and its negation is
/// true whatever happens and is not kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formula {
    vars: u32,
    starts: Vec<u32>,
    literals: Vec<u32>,
    nae: usize,
}

impl Formula {
    /// A formula without clauses.
    ///
    /// # Errors
    /// If there are more variables than [`MAX_VARS`].
    pub fn new(vars: u32) -> Result<Self, Error> {
        if vars > MAX_VARS {
            return Err(Error::TooManyVars { vars: u64::from(vars) });
        }
        Ok(Self { vars, starts: vec![0], literals: Vec::new(), nae: 0 })
    }

    /// A formula of these clauses, over as many variables as they name.
    ///
    /// # Errors
    /// As for [`Formula::new`] and [`Formula::add`].
    pub fn from_clauses<C: AsRef<[i32]>>(
        clauses: impl IntoIterator<Item = C>,
    ) -> Result<Self, Error> {
        let mut formula = Self::new(0)?;
        for clause in clauses {
            let clause = clause.as_ref();
            let most = clause.iter().map(|literal| literal.unsigned_abs()).max().unwrap_or(0);
            if most > MAX_VARS {
                return Err(Error::TooManyVars { vars: u64::from(most) });
            }
            formula.vars = formula.vars.max(most);
            formula.add(clause)?;
        }
        Ok(formula)
    }

    /// Adds a clause: one of the literals must be true.
    ///
    /// # Errors
    /// If it is empty, too long, or names a variable that there is not.
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

    /// Adds a *not all equal* clause: one of the literals must be true and one false.
    ///
    /// It is kept as two clauses, of the literals and of their negations, which say the same.
    ///
    /// # Errors
    /// As for [`Formula::add`], and if there is but one variable in it.
    pub fn add_nae(&mut self, clause: &[i32]) -> Result<(), Error> {
        if clause.iter().all(|literal| *literal == clause[0]) {
            return Err(Error::Empty);
        }
        let before = self.clauses();
        self.add(clause)?;
        if self.clauses() > before {
            let mirror: Vec<i32> = clause.iter().map(|literal| -literal).collect();
            if let Err(full) = self.add(&mirror) {
                self.starts.pop();
                self.literals.truncate(self.starts[before] as usize);
                return Err(full);
            }
            self.nae += 1;
        }
        Ok(())
    }

    /// Puts the literals behind the others; false if they hold whatever happens.
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

    /// How many variables there are, in use or not.
    pub fn vars(&self) -> u32 {
        self.vars
    }

    /// How many clauses; a NAE clause counts as two.
    pub fn clauses(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many pairs of clauses came from [`Formula::add_nae`].
    pub fn nae_clauses(&self) -> usize {
        self.nae
    }

    /// How many literals in all.
    pub fn literals(&self) -> usize {
        self.literals.len()
    }

    /// The literals of every clause, in order.
    pub fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = i32>> {
        (0..self.clauses()).map(|clause| {
            self.clause(clause).iter().map(|code| {
                let variable = (code >> 1) as i32 + 1;
                if code & 1 == 0 { variable } else { -variable }
            })
        })
    }

    /// How many clauses `assignment` leaves unsatisfied.
    ///
    /// # Panics
    /// If it is not of as many values as there are variables.
    pub fn unsatisfied(&self, assignment: &[bool]) -> usize {
        assert_eq!(assignment.len(), self.vars as usize, "a value for every variable");
        let holds = |code: &u32| assignment[(code >> 1) as usize] == (code & 1 == 0);
        (0..self.clauses()).filter(|clause| !self.clause(*clause).iter().any(holds)).count()
    }

    /// The literals of a clause, coded.
    #[inline]
    pub(crate) fn clause(&self, clause: usize) -> &[u32] {
        &self.literals[self.starts[clause] as usize..self.starts[clause + 1] as usize]
    }

    /// Where a clause's literals begin.
    pub(crate) fn start(&self, clause: usize) -> usize {
        self.starts[clause] as usize
    }

    /// All literals, coded.
    pub(crate) fn codes(&self) -> &[u32] {
        &self.literals
    }

    /// A formula without clauses over no more variables than this one.
    pub(crate) fn empty_over(&self, vars: u32) -> Self {
        debug_assert!(vars <= self.vars);
        Self { vars, starts: vec![0], literals: Vec::new(), nae: 0 }
    }

    /// Adds a clause that was part of a formula and is none of the special cases.
    pub(crate) fn push(&mut self, codes: impl IntoIterator<Item = u32>) {
        self.literals.extend(codes);
        self.starts.push(self.literals.len() as u32);
    }

    /// The length that most clauses have.
    pub(crate) fn usual_length(&self) -> usize {
        let mut count = [0usize; MAX_LENGTH + 1];
        (0..self.clauses()).for_each(|clause| count[self.clause(clause).len()] += 1);
        (0..=MAX_LENGTH).max_by_key(|length| count[*length]).unwrap_or(0)
    }

    /// The greatest length.
    pub(crate) fn longest(&self) -> usize {
        (0..self.clauses()).map(|clause| self.clause(clause).len()).max().unwrap_or(0)
    }
}

/// Which clauses each literal is in, side by side like the clauses themselves.
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
    fn duplicates_go_and_tautologies_are_not_kept() {
        let mut formula = Formula::new(3).unwrap();
        formula.add(&[1, -2, 1, -2]).unwrap();
        formula.add(&[1, 2, -1]).unwrap();
        formula.add(&[3]).unwrap();
        let clauses: Vec<Vec<i32>> = formula.iter().map(Iterator::collect).collect();
        assert_eq!(clauses, [vec![1, -2], vec![3]]);
    }

    #[test]
    fn a_refused_clause_leaves_no_trace() {
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
    fn a_nae_clause_is_two() {
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
