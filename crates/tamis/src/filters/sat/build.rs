//! Solving the blocks.
//!
//! A block is solved plane by plane. A plane that is not solved within its budget is tried with its
//! other signs; if that fails as well, the whole block begins anew with another seed, and unless it is
//! small with one per cent more entries. Budgets are flips and sweeps, never seconds: the same
//! keys give the same bytes on any machine.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use tamis_bits::range::mix;
use tamis_ksat::{Formula, GaveUp, Lean, Outcome, Settings, Watch, Why};

use super::clause::{Block, clause, holds, salt};
use super::{Construction, SatShape};
use crate::error::Error;
use crate::gather::{Gathered, Record};
use crate::options::{BuildOptions, Progress, Search};

/// Seeds that a block may try.
pub(super) const SEEDS: u64 = 256;
/// Up to so many keys a block tries [`SEEDS_A_SIZE`] seeds before it grows: that takes milliseconds,
/// and of small formulas some have no solution by chance.
const SMALL: usize = 1 << 9;
const SEEDS_A_SIZE: u64 = 16;
/// Flips for each variable during which a walk of `single` leans away from earlier solutions, by an
/// eighth of a doubling of the odds for each that it has too many. For 2^14 keys and k = 5 that makes a
/// rate of 0.237; leaning twice as steeply 0.30, a tenth as long 0.27, not at all 0.31.
const LEANING: u64 = 3000;

/// What the solver takes for a literal.
const BYTES_A_LITERAL: u64 = 30;

/// A block that is solved.
#[derive(Debug)]
pub(super) struct Solved {
    vars: u64,
    seed: u64,
    /// Its entries, one after the other, and a word more.
    words: Vec<u64>,
    denied: Vec<u64>,
}

impl Solved {
    /// Entries that it takes: none if it has no keys.
    pub(super) fn entries(&self) -> u64 {
        if self.vars == 0 { 0 } else { self.vars + 1 }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// Digests that no seed would do for.
    pub(super) fn into_denied(self) -> Vec<u64> {
        self.denied
    }

    /// Puts its entries behind `start` others.
    pub(super) fn store(&self, planes: u64, start: u64, to: &mut [u64]) {
        let bit = start * planes;
        let (at, shift) = ((bit / 64) as usize, bit % 64);
        let used = (self.entries() * planes).div_ceil(64) as usize;
        for (word, at) in self.words[..used].iter().zip(at..) {
            to[at] |= word << shift;
            if shift > 0 {
                to[at + 1] |= word >> (64 - shift);
            }
        }
    }
}

/// A solution of a plane, and whether it took the other signs.
struct Plane {
    values: Vec<bool>,
    retried: bool,
}

/// Solves all blocks; `table` is there to be counted as memory.
pub(super) fn solve(
    options: &BuildOptions<'_>,
    shape: &SatShape,
    gathered: Gathered<1>,
    table: &mut [u64],
) -> Result<Vec<Solved>, Error> {
    let len = gathered.len();
    // Blocks side by side as far as there are some, and else the planes of a block.
    let outer = options.thread_count().min(gathered.groups(shape.block_bits));
    let tally = Tally { options, shape, len, done: Mutex::default() };
    let threads = options.thread_count() / outer;
    // A formula for each plane in hand, and its entries until all blocks are known.
    let each = BYTES_A_LITERAL * u64::from(shape.k) * threads as u64;
    let entries = (shape.planes * shape.entries).div_ceil(8) / len + 1;
    gathered.with_solver_bytes(each + entries).solve(
        &options.without_progress(),
        shape.block_bits,
        table,
        |number, records, _| {
            let work = Work { shape, records, number: number as u64, threads, tally: &tally };
            work.solve(len)
        },
    )
}

/// How far all blocks are together.
struct Tally<'a> {
    options: &'a BuildOptions<'a>,
    shape: &'a SatShape,
    len: u64,
    done: Mutex<Done>,
}

#[derive(Clone, Copy, Default)]
struct Done {
    /// Keys times planes.
    work: u64,
    planes: u64,
    reseeds: u64,
    /// Entries beyond those of the shape.
    more: u64,
}

impl Tally<'_> {
    /// Tells while nobody else does: numbers must not go back.
    fn add(&self, change: impl FnOnce(&mut Done)) {
        let mut done = self.done.lock().expect("no thread panicked");
        change(&mut done);
        let shape = SatShape { entries: self.shape.entries + done.more, ..self.shape.clone() };
        let search = Search {
            solved: done.planes,
            formulas: shape.planes << shape.block_bits,
            reseeds: done.reseeds,
            efficiency: shape.efficiency(),
        };
        let placed = done.work / shape.planes;
        self.options.report(Progress { placed, keys: self.len, search: Some(search) });
    }

    fn stopped(&self, why: Why) -> Error {
        let done = *self.done.lock().expect("no thread panicked");
        let why = match why {
            Why::Cancelled => "the build was cancelled",
            _ => "the time limit was reached",
        };
        Error::Stopped { why, placed: done.work / self.shape.planes, keys: self.len }
    }
}

/// A block to solve.
struct Work<'a> {
    shape: &'a SatShape,
    records: &'a [Record<1>],
    number: u64,
    threads: usize,
    tally: &'a Tally<'a>,
}

impl Work<'_> {
    fn solve(&self, len: u64) -> Result<Solved, Error> {
        let keys = self.records.len() as u64;
        if keys == 0 {
            self.tally.add(|done| done.planes += self.shape.planes);
            return Ok(Solved { vars: 0, seed: 0, words: Vec::new(), denied: Vec::new() });
        }
        let share = (u128::from(self.shape.entries) * u128::from(keys) / u128::from(len)) as u64;
        let mut vars = share.saturating_sub(1).max(self.shape.construction.least(self.shape.k));
        // Planes that are told of already: a block that begins anew does not go back.
        let told = AtomicUsize::new(0);
        let planes = self.shape.planes as usize;
        let mut seed = 0;
        let solved = loop {
            if let Some(solved) = self.attempt(vars, seed, &told)? {
                break solved;
            }
            if seed + 1 == SEEDS {
                // Hostile digests, if any, end here: who is denied is listed.
                let values = vec![false; vars as usize];
                break (0..planes)
                    .map(|_| Plane { values: values.clone(), retried: false })
                    .collect();
            }
            seed += 1;
            let grows = self.records.len() > SMALL || seed % SEEDS_A_SIZE == 0;
            let more = if grows { (vars / 100).max(2) } else { 0 };
            vars += more;
            self.tally.add(|done| {
                done.reseeds += 1;
                done.more += more;
            });
        };
        let words = self.pack(vars, &solved);
        let block = Block { first: 0, vars, salt: salt(seed) };
        let digests = self.records.iter().map(|[digest]| *digest);
        let denied = digests.filter(|digest| !holds(self.shape, &words, block, *digest)).collect();
        self.tell(planes - told.into_inner());
        Ok(Solved { vars, seed, words, denied })
    }

    /// So many planes more are solved.
    fn tell(&self, planes: usize) {
        self.tally.add(|done| {
            done.planes += planes as u64;
            done.work += self.records.len() as u64 * planes as u64;
        });
    }

    /// All planes with one seed, or none.
    fn attempt(
        &self,
        vars: u64,
        seed: u64,
        told: &AtomicUsize,
    ) -> Result<Option<Vec<Plane>>, Error> {
        let done = AtomicUsize::new(0);
        let tell = || {
            let now = done.fetch_add(1, Ordering::Relaxed) + 1;
            if told.fetch_max(now, Ordering::Relaxed) < now {
                self.tell(1);
            }
        };
        match self.shape.construction {
            Construction::Sliced | Construction::Multi => self.each_plane(|plane| {
                for retried in [false, true] {
                    let formula = self.formula(vars, seed, plane, retried)?;
                    let settings = self.settings(&formula, seed, plane, retried);
                    if let Some(values) = self.search(&formula, &settings)? {
                        tell();
                        return Ok(Some(Plane { values, retried }));
                    }
                }
                Ok(None)
            }),
            Construction::Nae => {
                let formula = self.formula(vars, seed, 0, false)?;
                self.each_plane(|plane| {
                    let settings = self.settings(&formula, seed, plane, false);
                    let values = self.search(&formula, &settings)?;
                    tell();
                    Ok(values.map(|values| Plane { values, retried: false }))
                })
            }
            Construction::Single => self.unlike(vars, seed, &tell),
        }
    }

    /// Solutions of one formula, each led away from those before it: it begins where most of them
    /// are not, and leans that way.
    fn unlike(&self, vars: u64, seed: u64, tell: &dyn Fn()) -> Result<Option<Vec<Plane>>, Error> {
        let formula = self.formula(vars, seed, 0, false)?;
        let mut found: Vec<Plane> = Vec::new();
        // Of each variable in how many more of them it is true than false.
        let mut surplus = vec![0i32; vars as usize];
        for plane in 0..self.shape.planes as usize {
            let mut settings = self.settings(&formula, seed, plane, false);
            let coin = |at: u64| mix(settings.seed ^ mix(at)) >> 63 == 1;
            let start: Vec<bool> = surplus
                .iter()
                .zip(0..)
                .map(|(surplus, at)| if *surplus == 0 { coin(at) } else { *surplus < 0 })
                .collect();
            let towards: Vec<i8> =
                surplus.iter().map(|surplus| -(*surplus).clamp(-32, 32) as i8).collect();
            settings.start = Some(&start);
            settings.lean = Some(Lean { towards: &towards, flips: LEANING * vars });
            let Some(values) = self.search(&formula, &settings)? else { return Ok(None) };
            for (surplus, value) in surplus.iter_mut().zip(&values) {
                *surplus += if *value { 1 } else { -1 };
            }
            found.push(Plane { values, retried: false });
            tell();
        }
        Ok(Some(found))
    }

    fn formula(&self, vars: u64, seed: u64, plane: usize, retried: bool) -> Result<Formula, Error> {
        let too_many = |_| Error::Limit {
            what: "variables of a formula",
            asked: vars,
            most: tamis_ksat::MAX_VARS.into(),
        };
        let mut formula = u32::try_from(vars)
            .map_err(|_| ())
            .and_then(|vars| Formula::new(vars).map_err(|_| ()))
            .map_err(too_many)?;
        for [digest] in self.records {
            let clause = clause(self.shape, vars, seed, *digest, plane, retried);
            let clause = &clause[..self.shape.k as usize];
            let added = match self.shape.construction {
                Construction::Nae => formula.add_nae(clause),
                _ => formula.add(clause),
            };
            added.map_err(|_| too_many(()))?;
        }
        Ok(formula)
    }

    fn settings(
        &self,
        formula: &Formula,
        seed: u64,
        plane: usize,
        retried: bool,
    ) -> Settings<'static> {
        let vars = u64::from(formula.vars());
        let number = (plane as u64 * 2 + u64::from(retried)) << 8 | seed;
        Settings {
            seed: mix(number ^ mix(self.number)),
            flips: vars * (200 + 20 * vars).min(20_000),
            // Surveys have nothing to tell of few variables.
            sweeps: if vars < 200 { 0 } else { (20 * vars).min(20_000) },
            ..Settings::default()
        }
    }

    fn search(
        &self,
        formula: &Formula,
        settings: &Settings<'_>,
    ) -> Result<Option<Vec<bool>>, Error> {
        let options = self.tally.options;
        let watch = Watch {
            deadline: options.get_deadline(),
            cancel: options.get_cancel(),
            progress: None,
        };
        match tamis_ksat::solve(formula, settings, &watch) {
            Outcome::Solved(solution) => Ok(Some(solution.assignment)),
            Outcome::GaveUp(GaveUp { why: Why::Budget, .. }) => Ok(None),
            Outcome::GaveUp(GaveUp { why, .. }) => Err(self.tally.stopped(why)),
        }
    }

    /// Every plane by `solve`, on this block's threads; none if one of them has no solution.
    fn each_plane(
        &self,
        solve: impl Fn(usize) -> Result<Option<Plane>, Error> + Sync,
    ) -> Result<Option<Vec<Plane>>, Error> {
        let planes = self.shape.planes as usize;
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let found: Mutex<Vec<Option<Plane>>> = Mutex::new((0..planes).map(|_| None).collect());
        let failure = Mutex::new(None);
        let run = || {
            while !failed.load(Ordering::Relaxed) {
                let plane = next.fetch_add(1, Ordering::Relaxed);
                if plane >= planes {
                    break;
                }
                match solve(plane) {
                    Ok(Some(solved)) => {
                        found.lock().expect("no thread panicked")[plane] = Some(solved);
                    }
                    Ok(None) => failed.store(true, Ordering::Relaxed),
                    Err(error) => {
                        failed.store(true, Ordering::Relaxed);
                        failure.lock().expect("no thread panicked").get_or_insert(error);
                    }
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..self.threads.min(planes) {
                scope.spawn(run);
            }
            run();
        });
        match failure.into_inner().expect("no thread panicked") {
            Some(error) => Err(error),
            None => Ok(found.into_inner().expect("no thread panicked").into_iter().collect()),
        }
    }

    /// The entries: of each variable its values, and then which planes took other signs.
    fn pack(&self, vars: u64, solved: &[Plane]) -> Vec<u64> {
        let planes = solved.len();
        let bits = (vars as usize + 1) * planes;
        let mut words = vec![0u64; bits.div_ceil(64) + 1];
        for (plane, Plane { values, retried }) in solved.iter().enumerate() {
            for (at, value) in values.iter().chain([retried]).enumerate() {
                let bit = at * planes + plane;
                words[bit / 64] |= u64::from(*value) << (bit % 64);
            }
        }
        words
    }
}
