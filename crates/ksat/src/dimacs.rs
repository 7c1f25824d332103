//! DIMACS files, the common input format of SAT solvers.
//!
//! ```text
//!   c a comment
//!   p cnf 3 2          3 variables, 2 clauses
//!   1 -2 3 0           x1 or not x2 or x3
//!   -1 2 0
//! ```
//!
//! A clause ends with 0 and may span lines. A `%` at the start of a line ends the file, as in some collections.
//! No memory is allocated for the numbers in the header: memory grows with the clauses that were read.

use std::fmt;
use std::io::{self, BufRead, Write};

use crate::formula::{Error, Formula, MAX_VARS};

/// The error of a malformed file, with its line.
#[derive(Debug)]
pub struct ReadError {
    /// The line number, from 1.
    pub line: u64,
    /// The error in the line.
    pub what: Fault,
}

/// The error in a line of a file.
#[derive(Debug)]
pub enum Fault {
    /// Reading failed.
    Io(io::Error),
    /// The header `p cnf VARIABLES CLAUSES` is missing or malformed.
    Header,
    /// A second header.
    HeaderAgain,
    /// A token is neither a number nor a comment.
    NotANumber(String),
    /// A clause is invalid.
    Clause(Error),
    /// The file ends in the middle of a clause or a solution.
    Unfinished,
    /// A solution has a variable that the formula does not have.
    Variable {
        /// The literal.
        literal: i64,
        /// The number of variables of the formula.
        vars: u32,
    },
    /// The solver states that there is no solution, or that it found none.
    NoSolution,
    /// More solutions than the limit.
    TooMany {
        /// The limit.
        most: usize,
    },
    /// Solving the formula may need more memory than the limit: see [`Formula::memory_bytes`].
    MemoryLimit {
        /// The limit in bytes.
        limit: u64,
        /// The bytes that the part of the formula up to this line needs.
        needs: u64,
    },
    /// The number of clauses differs from the header.
    Count {
        /// The number in the header.
        promised: u64,
        /// The number in the file. Counting stops at one more than the number in the header.
        found: u64,
    },
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        match &self.what {
            Fault::Io(error) => write!(f, "{error}"),
            Fault::Header => write!(f, "expected `p cnf VARIABLES CLAUSES`"),
            Fault::HeaderAgain => write!(f, "a second header"),
            Fault::NotANumber(token) => write!(f, "{token:?} is not a literal"),
            Fault::Clause(error) => write!(f, "{error}"),
            Fault::Unfinished => write!(f, "the file ends inside a clause or a solution"),
            Fault::Variable { literal, vars } => {
                write!(f, "{literal} is no literal of a formula with {vars} variables")
            }
            Fault::NoSolution => write!(f, "the solver found no solution"),
            Fault::TooMany { most } => write!(f, "more than {most} solutions"),
            Fault::MemoryLimit { limit, needs } => {
                write!(
                    f,
                    "the formula needs more than {needs} bytes of memory, the limit is {limit}"
                )
            }
            Fault::Count { promised, found } if found > promised => {
                write!(f, "more clauses than the {promised} in the header")
            }
            Fault::Count { promised, found } => {
                write!(f, "the file ends after {found} of {promised} clauses")
            }
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.what {
            Fault::Io(error) => Some(error),
            Fault::Clause(error) => Some(error),
            _ => None,
        }
    }
}

/// The length after which a token is cut off. Longer tokens are invalid.
const MAX_TOKEN_LEN: usize = 20;

/// Splits the input into tokens, without buffering lines, which may have any length.
struct Tokens<R> {
    input: R,
    line: u64,
    /// Whether the next token is the first of its line.
    at_line_start: bool,
}

struct Token {
    text: String,
    first: bool,
}

impl<R: BufRead> Tokens<R> {
    fn error(&self, what: Fault) -> ReadError {
        ReadError { line: self.line, what }
    }

    fn peek(&mut self) -> Result<Option<u8>, ReadError> {
        loop {
            match self.input.fill_buf() {
                Ok(buffer) => return Ok(buffer.first().copied()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ReadError { line: self.line, what: Fault::Io(error) }),
            }
        }
    }

    fn advance(&mut self, byte: u8) {
        self.input.consume(1);
        if byte == b'\n' {
            self.line += 1;
            self.at_line_start = true;
        }
    }

    /// Skips to the end of the line.
    fn skip_line(&mut self) -> Result<(), ReadError> {
        while let Some(byte) = self.peek()?.filter(|byte| *byte != b'\n') {
            self.advance(byte);
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Token>, ReadError> {
        while let Some(byte) = self.peek()?.filter(u8::is_ascii_whitespace) {
            self.advance(byte);
        }
        let mut text = Vec::new();
        while let Some(byte) = self.peek()?.filter(|byte| !byte.is_ascii_whitespace()) {
            // A `c` at the start of a line begins a comment, with or without a space.
            let comment = self.at_line_start && text == b"c";
            if text.len() > MAX_TOKEN_LEN || comment {
                break;
            }
            text.push(byte);
            self.advance(byte);
        }
        let first = std::mem::take(&mut self.at_line_start);
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok((!text.is_empty()).then_some(Token { text, first }))
    }
}

impl Formula {
    /// Reads a DIMACS file.
    ///
    /// # Errors
    /// Returns an error if the input is not a DIMACS file or exceeds a limit of the crate.
    pub fn read(input: impl BufRead) -> Result<Self, ReadError> {
        Self::read_within(input, u64::MAX)
    }

    /// Reads a DIMACS file if it can be solved in `limit` bytes of memory: see [`Formula::memory_bytes`].
    ///
    /// # Errors
    /// As [`Formula::read`], and [`Fault::MemoryLimit`] as soon as the clauses read so far exceed the limit.
    pub fn read_within(input: impl BufRead, limit: u64) -> Result<Self, ReadError> {
        let mut tokens = Tokens { input, line: 1, at_line_start: true };
        let (mut formula, promised) = header(&mut tokens)?;
        check_memory(&formula, limit, &tokens)?;
        let mut clause: Vec<i32> = Vec::new();
        let mut found = 0u64;
        // A clause may span lines; errors name the line of its end.
        while let Some(token) = tokens.next()? {
            match token.text.as_str() {
                "c" if token.first => tokens.skip_line()?,
                "p" if token.first => return Err(tokens.error(Fault::HeaderAgain)),
                "%" if token.first => break,
                text => {
                    let number: i32 =
                        text.parse().map_err(|_| tokens.error(Fault::NotANumber(text.into())))?;
                    if number != 0 {
                        // Bounds the memory of a clause that never ends. Duplicates may still shorten it.
                        clause.push(number);
                        if clause.len() > 1 << 16 {
                            return Err(tokens.error(Fault::Clause(Error::TooLong)));
                        }
                        continue;
                    }
                    found += 1;
                    if found > promised {
                        return Err(tokens.error(Fault::Count { promised, found }));
                    }
                    formula.add(&clause).map_err(|error| tokens.error(Fault::Clause(error)))?;
                    check_memory(&formula, limit, &tokens)?;
                    clause.clear();
                }
            }
        }
        if !clause.is_empty() {
            return Err(tokens.error(Fault::Unfinished));
        }
        if found < promised {
            return Err(tokens.error(Fault::Count { promised, found }));
        }
        Ok(formula)
    }

    /// Writes a DIMACS file. A NAE clause is written as its two clauses.
    ///
    /// # Errors
    /// Returns errors of `output`.
    pub fn write(&self, mut output: impl Write) -> io::Result<()> {
        writeln!(output, "p cnf {} {}", self.vars(), self.clauses())?;
        for clause in self.iter() {
            for literal in clause {
                write!(output, "{literal} ")?;
            }
            writeln!(output, "0")?;
        }
        Ok(())
    }
}

/// Reads the solutions that a solver prints: `v` lines, each solution up to a 0, among `s` and `c` lines. A
/// file of literals without `v`, after a line `SAT`, is read as well. A variable that a solution does not
/// mention is false.
///
/// # Examples
/// ```
/// let output = "c a comment\ns SATISFIABLE\nv 1 -2\nv 3 0\n";
/// assert_eq!(tamis_ksat::read_solutions(output.as_bytes(), 3, 1)?, [[true, false, true]]);
/// # Ok::<(), tamis_ksat::ReadError>(())
/// ```
///
/// # Errors
/// Returns an error if there are more than `most` solutions, if one has a variable above `vars`, or if the
/// solver states that it found none.
pub fn read_solutions(
    input: impl BufRead,
    vars: u32,
    most: usize,
) -> Result<Vec<Vec<bool>>, ReadError> {
    let mut tokens = Tokens { input, line: 1, at_line_start: true };
    let mut solutions = Vec::new();
    let mut values: Option<Vec<bool>> = None;
    while let Some(token) = tokens.next()? {
        match token.text.as_str() {
            "c" if token.first => tokens.skip_line()?,
            "v" | "s" if token.first => {}
            "SAT" | "SATISFIABLE" => {}
            "UNSAT" | "UNSATISFIABLE" | "UNKNOWN" | "INDET" => {
                return Err(tokens.error(Fault::NoSolution));
            }
            text => {
                let literal: i64 =
                    text.parse().map_err(|_| tokens.error(Fault::NotANumber(text.into())))?;
                if values.is_none() && solutions.len() == most {
                    return Err(tokens.error(Fault::TooMany { most }));
                }
                let open = values.get_or_insert_with(|| vec![false; vars as usize]);
                if literal == 0 {
                    solutions.extend(values.take());
                    continue;
                }
                let at = usize::try_from(literal.unsigned_abs() - 1).ok();
                match at.and_then(|at| open.get_mut(at)) {
                    Some(value) => *value = literal > 0,
                    None => return Err(tokens.error(Fault::Variable { literal, vars })),
                }
            }
        }
    }
    match values {
        Some(_) => Err(tokens.error(Fault::Unfinished)),
        None => Ok(solutions),
    }
}

/// Checks that a formula of which a part was read keeps to the limit.
fn check_memory<R: BufRead>(
    formula: &Formula,
    limit: u64,
    tokens: &Tokens<R>,
) -> Result<(), ReadError> {
    match formula.memory_bytes() {
        needs if needs > limit => Err(tokens.error(Fault::MemoryLimit { limit, needs })),
        _ => Ok(()),
    }
}

/// Reads the header. Returns an empty formula over its variables and the declared number of clauses.
fn header<R: BufRead>(tokens: &mut Tokens<R>) -> Result<(Formula, u64), ReadError> {
    while let Some(token) = tokens.next()? {
        match token.text.as_str() {
            "c" if token.first => tokens.skip_line()?,
            "p" if token.first => {
                let line = tokens.line;
                let mut next = || {
                    let token = tokens.next()?.filter(|token| !token.first);
                    token.ok_or(ReadError { line, what: Fault::Header })
                };
                let (format, vars, clauses) = (next()?.text, next()?.text, next()?.text);
                let bad = |_| ReadError { line, what: Fault::Header };
                let vars: u64 = vars.parse().map_err(bad)?;
                let clauses: u64 = clauses.parse().map_err(bad)?;
                if format != "cnf" {
                    return Err(ReadError { line, what: Fault::Header });
                }
                let capped = vars.min(u64::from(MAX_VARS) + 1) as u32;
                let formula = Formula::new(capped).map_err(|_| ReadError {
                    line,
                    what: Fault::Clause(Error::TooManyVars { vars }),
                })?;
                return Ok((formula, clauses));
            }
            _ => return Err(tokens.error(Fault::Header)),
        }
    }
    Err(tokens.error(Fault::Header))
}
