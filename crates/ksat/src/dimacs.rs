//! DIMACS files, as solvers read them.
//!
//! ```text
//!   c a comment
//!   p cnf 3 2          3 variables, 2 clauses
//!   1 -2 3 0           x1 or not x2 or x3
//!   -1 2 0
//! ```
//!
//! A clause ends with 0, wherever lines end. A `%` ends the file: some collections have one.
//! Nothing is set aside for what the header promises: memory grows with what was read.

use std::fmt;
use std::io::{self, BufRead, Write};

use crate::formula::{Error, Formula, MAX_VARS};

/// Why a file is refused, and where.
#[derive(Debug)]
pub struct ReadError {
    /// The line, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub what: Fault,
}

/// What is wrong with a line.
#[derive(Debug)]
pub enum Fault {
    /// It could not be read.
    Io(io::Error),
    /// Something else than `p cnf VARIABLES CLAUSES` where that must be.
    Header,
    /// A second header.
    HeaderAgain,
    /// Neither a number nor a comment.
    NotANumber(String),
    /// A clause that cannot be.
    Clause(Error),
    /// The file ends in the middle of a clause.
    Unfinished,
    /// Not as many clauses as the header says.
    Count {
        /// By the header.
        promised: u64,
        /// In the file, or one more than promised.
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
            Fault::NotANumber(token) => write!(f, "{token:?} is no literal"),
            Fault::Clause(error) => write!(f, "{error}"),
            Fault::Unfinished => write!(f, "the file ends within a clause"),
            Fault::Count { promised, found } if found > promised => {
                write!(f, "more than the {promised} clauses that the header promises")
            }
            Fault::Count { promised, found } => {
                write!(f, "the file ends after {found} of the {promised} promised clauses")
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

/// The longest word that can be a number or part of a header.
const LONGEST_WORD: usize = 20;

/// Words and where they are, a buffer at a time: a line may be as long as it likes.
struct Words<R> {
    input: R,
    line: u64,
    /// Whether the next word is the first of its line.
    fresh: bool,
}

struct Word {
    text: String,
    first: bool,
}

impl<R: BufRead> Words<R> {
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

    fn step(&mut self, byte: u8) {
        self.input.consume(1);
        if byte == b'\n' {
            self.line += 1;
            self.fresh = true;
        }
    }

    /// Up to the end of the line.
    fn skip_line(&mut self) -> Result<(), ReadError> {
        while let Some(byte) = self.peek()?.filter(|byte| *byte != b'\n') {
            self.step(byte);
        }
        Ok(())
    }

    fn next(&mut self) -> Result<Option<Word>, ReadError> {
        while let Some(byte) = self.peek()?.filter(u8::is_ascii_whitespace) {
            self.step(byte);
        }
        let mut text = Vec::new();
        while let Some(byte) = self.peek()?.filter(|byte| !byte.is_ascii_whitespace()) {
            // A `c` at the beginning of a line may be followed by anything.
            let comment = self.fresh && text == b"c";
            if text.len() > LONGEST_WORD || comment {
                break;
            }
            text.push(byte);
            self.step(byte);
        }
        let first = std::mem::take(&mut self.fresh);
        let text = String::from_utf8_lossy(&text).into_owned();
        Ok((!text.is_empty()).then_some(Word { text, first }))
    }
}

impl Formula {
    /// Reads a DIMACS file.
    ///
    /// # Errors
    /// If it is not one, or past one of the crate's limits.
    pub fn read(input: impl BufRead) -> Result<Self, ReadError> {
        let mut words = Words { input, line: 1, fresh: true };
        let (mut formula, promised) = header(&mut words)?;
        let mut clause: Vec<i32> = Vec::new();
        let mut found = 0u64;
        // A clause may begin lines before its end, where the mistake is told.
        while let Some(word) = words.next()? {
            match word.text.as_str() {
                "c" if word.first => words.skip_line()?,
                "p" if word.first => return Err(words.error(Fault::HeaderAgain)),
                "%" if word.first => break,
                text => {
                    let number: i32 =
                        text.parse().map_err(|_| words.error(Fault::NotANumber(text.into())))?;
                    if number != 0 {
                        // Past this length it is refused anyway, unless duplicates shrink it.
                        clause.push(number);
                        if clause.len() > 1 << 16 {
                            return Err(words.error(Fault::Clause(Error::TooLong)));
                        }
                        continue;
                    }
                    found += 1;
                    if found > promised {
                        return Err(words.error(Fault::Count { promised, found }));
                    }
                    formula.add(&clause).map_err(|error| words.error(Fault::Clause(error)))?;
                    clause.clear();
                }
            }
        }
        if !clause.is_empty() {
            return Err(words.error(Fault::Unfinished));
        }
        if found < promised {
            return Err(words.error(Fault::Count { promised, found }));
        }
        Ok(formula)
    }

    /// Writes a DIMACS file. A NAE clause is written as the two clauses that it is.
    ///
    /// # Errors
    /// Those of `output`.
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

/// Reads the header: a formula of so many variables, and how many clauses it is to have.
fn header<R: BufRead>(words: &mut Words<R>) -> Result<(Formula, u64), ReadError> {
    while let Some(word) = words.next()? {
        match word.text.as_str() {
            "c" if word.first => words.skip_line()?,
            "p" if word.first => {
                let line = words.line;
                let mut next = || {
                    let word = words.next()?.filter(|word| !word.first);
                    word.ok_or(ReadError { line, what: Fault::Header })
                };
                let (format, vars, clauses) = (next()?.text, next()?.text, next()?.text);
                let bad = |_| ReadError { line, what: Fault::Header };
                let vars: u64 = vars.parse().map_err(bad)?;
                let clauses: u64 = clauses.parse().map_err(bad)?;
                if format != "cnf" {
                    return Err(ReadError { line, what: Fault::Header });
                }
                let most = vars.min(u64::from(MAX_VARS) + 1) as u32;
                let formula = Formula::new(most).map_err(|_| ReadError {
                    line,
                    what: Fault::Clause(Error::TooManyVars { vars }),
                })?;
                return Ok((formula, clauses));
            }
            _ => return Err(words.error(Fault::Header)),
        }
    }
    Err(words.error(Fault::Header))
}
