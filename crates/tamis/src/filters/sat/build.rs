//! Solves the blocks.
//!
//! A block is solved plane by plane. A plane that is not solved within its budget is tried with its
//! other signs. If that fails as well, the whole block starts again with another seed and, unless it
//! is small, with 1 % more entries. Budgets are counted in flips and sweeps, never in seconds, so the
//! same keys give the same bytes on any machine.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::DerefMut;
use core::sync::atomic::{AtomicUsize, Ordering};

use tamis_bits::range::mix;
use tamis_bits::set;
use tamis_ksat::{Formula, GaveUp, Lean, Outcome, Settings, Watch, Why};

use super::clause::{Block, clause, holds, salt};
use super::{Construction, SatShape};
use crate::error::Error;
use crate::gather::{Gathered, Record, run_jobs};
use crate::options::{BuildOptions, Progress, Search};
use crate::sync::{MaybeSync, Mutex};

/// The most seeds that a block tries.
pub(super) const SEEDS: u64 = 256;
/// Up to this many keys a block tries [`SEEDS_PER_SIZE`] seeds before it grows. That takes
/// milliseconds, and some small formulas have no solution by chance.
const SMALL: usize = 1 << 9;
const SEEDS_PER_SIZE: u64 = 16;
/// Flips per variable during which a walk of `single` leans away from earlier solutions, by an eighth of
/// a doubling of the odds for each surplus solution. For 2^14 keys and k = 5 that makes a rate of
/// 0.237; leaning twice as steeply 0.30, a tenth as long 0.27, not at all 0.31.
const LEANING: u64 = 3000;
/// Rounds in which the solutions of `single` are moved apart. For 2^14 keys and k = 4 that lowers the
/// rate from 0.274 to 0.229, and takes a quarter of the time.
const ROUNDS: u32 = 32;
/// Records that are looked up between two checks.
const CHECKED: usize = 1 << 12;

/// Bytes that the solver takes per literal.
const BYTES_PER_LITERAL: u64 = 30;

/// A solved block.
#[derive(Debug)]
pub struct Solved {
    vars: u64,
    seed: u64,
    /// The packed entries, and one more word.
    words: Vec<u64>,
    rejected: Vec<u64>,
}

impl Solved {
    /// Returns a block of `vars` variables whose planes have these solutions.
    pub(super) fn of_solutions(vars: u64, solved: &[Plane]) -> Result<Self, Error> {
        let words = pack(vars, solved, || Ok(()))?;
        Ok(Self { vars, seed: 0, words, rejected: Vec::new() })
    }

    /// Returns the number of entries: 0 if the block has no keys.
    pub(super) fn entries(&self) -> u64 {
        if self.vars == 0 { 0 } else { self.vars + 1 }
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the words of a block with `vars` variables.
    fn words(shape: &SatShape, vars: u64) -> u64 {
        if vars == 0 { 0 } else { ((vars + 1) * shape.planes).div_ceil(64) + 1 }
    }

    /// Returns the block as words.
    pub(super) fn encode(self, shape: &SatShape) -> Vec<u64> {
        let Self { vars, seed, words, rejected } = self;
        debug_assert_eq!(words.len() as u64, Self::words(shape, vars));
        [vec![vars, seed], words, rejected].concat()
    }

    /// Returns the block of these words, if its entries can be stored.
    pub(super) fn decode(shape: &SatShape, words: &[u64]) -> Option<Self> {
        let ([vars, seed], rest) = words.split_first_chunk()?;
        let vars = *vars;
        let has_vars = shape.construction.least(shape.k)..=tamis_ksat::MAX_VARS.into();
        if vars != 0 && !has_vars.contains(&vars) || *seed >= SEEDS {
            return None;
        }
        let words = usize::try_from(Self::words(shape, vars)).ok()?;
        let (words, rejected) = rest.split_at_checked(words)?;
        let solved = Self { vars, seed: *seed, words: words.to_vec(), rejected: rejected.to_vec() };
        set::ends_at(words, solved.entries() * shape.planes).then_some(solved)
    }

    /// Returns the digests that no seed placed.
    pub(super) fn into_rejected(self) -> Vec<u64> {
        self.rejected
    }

    /// Stores the entries from entry `start` on.
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

/// A solution of a plane, and whether it uses the other signs.
pub(super) struct Plane {
    pub(super) values: Vec<bool>,
    pub(super) retried: bool,
}

/// Solves the blocks in the range of `records`, which are some of `total` records.
pub(super) fn solve(
    options: &BuildOptions<'_>,
    shape: &SatShape,
    total: u64,
    records: Gathered<1>,
) -> Result<Vec<Solved>, Error> {
    let (len, blocks) = (records.len(), records.shards(shape.block_bits).len() as u64);
    // Threads solve several blocks at a time, or the planes of one block if there are too few blocks.
    let outer = options.thread_count().min(records.groups(shape.block_bits));
    let search = SearchProgress { options, shape, blocks, len, done: Mutex::default() };
    let threads = options.thread_count() / outer;
    // One formula per plane that is being solved, and the entries until all blocks are solved.
    let formulas = BYTES_PER_LITERAL * u64::from(shape.k) * threads as u64;
    let entries = (shape.planes * shape.entries).div_ceil(8) / total.max(1) + 1;
    records.with_solver_bytes(formulas + entries).solve_shards(
        &options.without_progress(),
        shape.block_bits,
        // A part takes as much less than the whole table.
        [8 * shape.words() / ((1 << shape.block_bits) / blocks), 0],
        |number, records| {
            let number = number as u64;
            let solver = BlockSolver { shape, records, number, threads, search: &search };
            solver.solve(total)
        },
    )
}

/// The progress of all blocks together.
struct SearchProgress<'a> {
    options: &'a BuildOptions<'a>,
    shape: &'a SatShape,
    /// The number of blocks to solve, and of their keys.
    blocks: u64,
    len: u64,
    done: Mutex<Done>,
}

#[derive(Clone, Copy, Default)]
struct Done {
    /// Keys times solved planes.
    work: u64,
    planes: u64,
    reseeds: u64,
    /// Entries in addition to those of the shape.
    more: u64,
}

impl SearchProgress<'_> {
    /// Locks the counters. The progress callback may have panicked while they were locked. They are
    /// valid then, and the panic reaches the caller once all threads have stopped.
    fn lock(&self) -> impl DerefMut<Target = Done> {
        #[cfg(feature = "std")]
        let done = self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        #[cfg(not(feature = "std"))]
        let Ok(done) = self.done.lock();
        done
    }

    /// Changes the counters and reports them while they are locked, so that reports are in order.
    fn add(&self, change: impl FnOnce(&mut Done)) {
        let mut done = self.lock();
        change(&mut done);
        let shape = SatShape { entries: self.shape.entries + done.more, ..self.shape.clone() };
        let search = Search {
            solved: done.planes,
            formulas: shape.planes * self.blocks,
            reseeds: done.reseeds,
            efficiency: shape.efficiency(),
        };
        let placed = done.work / shape.planes;
        self.options.report(Progress { placed, keys: self.len, search: Some(search) });
    }

    /// Returns [`Error::Stopped`] if the build was cancelled or its time is up.
    fn check(&self) -> Result<(), Error> {
        let placed = self.lock().work / self.shape.planes;
        self.options.check(placed, self.len)
    }

    fn stopped(&self, why: Why) -> Error {
        let done = *self.lock();
        let why = match why {
            Why::Cancelled => "the build was cancelled",
            _ => "the time limit was reached",
        };
        Error::Stopped { why, placed: done.work / self.shape.planes, keys: self.len }
    }
}

/// Solves one block.
struct BlockSolver<'a> {
    shape: &'a SatShape,
    records: &'a [Record<1>],
    number: u64,
    threads: usize,
    search: &'a SearchProgress<'a>,
}

impl BlockSolver<'_> {
    fn solve(&self, total: u64) -> Result<Solved, Error> {
        let keys = self.records.len() as u64;
        if keys == 0 {
            self.search.add(|done| done.planes += self.shape.planes);
            return Ok(Solved { vars: 0, seed: 0, words: Vec::new(), rejected: Vec::new() });
        }
        let share = (u128::from(self.shape.entries) * u128::from(keys) / u128::from(total)) as u64;
        let mut vars = share.saturating_sub(1).max(self.shape.construction.least(self.shape.k));
        // Planes that were reported: a block that starts again does not report them twice.
        let reported = AtomicUsize::new(0);
        let planes = self.shape.planes as usize;
        let mut seed = 0;
        let solved = loop {
            if let Some(solved) = self.attempt(vars, seed, &reported)? {
                break solved;
            }
            if seed + 1 == SEEDS {
                // Only hostile digests get here. The digests that the block rejects are listed.
                let values = vec![false; vars as usize];
                break (0..planes)
                    .map(|_| Plane { values: values.clone(), retried: false })
                    .collect();
            }
            seed += 1;
            let grows = self.records.len() > SMALL || seed % SEEDS_PER_SIZE == 0;
            let more = if grows { (vars / 100).max(2) } else { 0 };
            vars += more;
            self.search.add(|done| {
                done.reseeds += 1;
                done.more += more;
            });
        };
        let words = pack(vars, &solved, || self.search.check())?;
        let block = Block { first: 0, vars, salt: salt(seed) };
        let mut rejected = Vec::new();
        for records in self.records.chunks(CHECKED) {
            self.search.check()?;
            let digests = records.iter().map(|[digest]| *digest);
            rejected.extend(digests.filter(|digest| !holds(self.shape, &words, block, *digest)));
        }
        self.report_planes(planes - reported.into_inner());
        Ok(Solved { vars, seed, words, rejected })
    }

    /// Reports `planes` more solved planes.
    fn report_planes(&self, planes: usize) {
        self.search.add(|done| {
            done.planes += planes as u64;
            done.work += self.records.len() as u64 * planes as u64;
        });
    }

    /// Solves all planes with one seed. Returns `None` if one of them has no solution.
    fn attempt(
        &self,
        vars: u64,
        seed: u64,
        reported: &AtomicUsize,
    ) -> Result<Option<Vec<Plane>>, Error> {
        let done = AtomicUsize::new(0);
        let report = || {
            let now = done.fetch_add(1, Ordering::Relaxed) + 1;
            if reported.fetch_max(now, Ordering::Relaxed) < now {
                self.report_planes(1);
            }
        };
        match self.shape.construction {
            Construction::Sliced | Construction::Multi => self.each_plane(|plane| {
                for retried in [false, true] {
                    let formula = self.formula(vars, seed, plane, retried)?;
                    let settings = self.settings(&formula, seed, plane, retried);
                    if let Some(values) = self.search(&formula, &settings)? {
                        report();
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
                    report();
                    Ok(values.map(|values| Plane { values, retried: false }))
                })
            }
            Construction::Single => self.solve_diverse(vars, seed, &report),
        }
    }

    /// Finds diverse solutions of one formula. Each search starts where most earlier solutions are not,
    /// and leans that way. Then the solutions are moved apart. Returns `None` if they are not as distant as
    /// the shape requires.
    fn solve_diverse(
        &self,
        vars: u64,
        seed: u64,
        report: &dyn Fn(),
    ) -> Result<Option<Vec<Plane>>, Error> {
        let formula = self.formula(vars, seed, 0, false)?;
        let mut found: Vec<Vec<bool>> = Vec::new();
        // For each variable, how many more solutions have it true than false.
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
            found.push(values);
            report();
        }
        let spread_seed = self.settings(&formula, seed, found.len(), false).seed;
        tamis_ksat::spread(&formula, &mut found, spread_seed, ROUNDS, &self.watch())
            .map_err(|why| self.search.stopped(why))?;
        if !self.shape.is_distant(&found) {
            return Ok(None);
        }
        Ok(Some(found.into_iter().map(|values| Plane { values, retried: false }).collect()))
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
            // Survey propagation does not help with few variables.
            sweeps: if vars < 200 { 0 } else { (20 * vars).min(20_000) },
            ..Settings::default()
        }
    }

    fn watch(&self) -> Watch<'_> {
        let options = self.search.options;
        Watch {
            #[cfg(feature = "std")]
            deadline: options.get_deadline(),
            cancel: options.get_cancel(),
            ..Watch::default()
        }
    }

    fn search(
        &self,
        formula: &Formula,
        settings: &Settings<'_>,
    ) -> Result<Option<Vec<bool>>, Error> {
        match tamis_ksat::solve(formula, settings, &self.watch()) {
            Outcome::Solved(solution) => Ok(Some(solution.assignment)),
            Outcome::GaveUp(GaveUp { why: Why::Budget, .. }) | Outcome::Unsatisfiable => Ok(None),
            Outcome::GaveUp(GaveUp { why, .. }) => Err(self.search.stopped(why)),
        }
    }

    /// Solves every plane on the threads of this block. Returns `None` if one has no solution.
    fn each_plane(
        &self,
        solve: impl Fn(usize) -> Result<Option<Plane>, Error> + MaybeSync,
    ) -> Result<Option<Vec<Plane>>, Error> {
        let planes = self.shape.planes as usize;
        let mut found: Vec<Option<Plane>> = (0..planes).map(|_| None).collect();
        // `Err(None)` states that a plane has no solution, and stops the others.
        let solved = run_jobs(self.threads, found.iter_mut().enumerate(), |(), (plane, slot)| {
            *slot = Some(solve(plane).map_err(Some)?.ok_or(None)?);
            Ok(())
        });
        match solved {
            Err(Some(error)) => Err(error),
            Err(None) => Ok(None),
            Ok(()) => Ok(found.into_iter().collect()),
        }
    }
}

/// Packs the entries: the values of each variable, and then which planes use their other signs.
fn pack(
    vars: u64,
    solved: &[Plane],
    check: impl Fn() -> Result<(), Error>,
) -> Result<Vec<u64>, Error> {
    let planes = solved.len();
    let bits = (vars as usize + 1) * planes;
    let mut words = vec![0u64; bits.div_ceil(64) + 1];
    for (plane, Plane { values, retried }) in solved.iter().enumerate() {
        check()?;
        for (at, value) in values.iter().chain([retried]).enumerate() {
            let bit = at * planes + plane;
            words[bit / 64] |= u64::from(*value) << (bit % 64);
        }
    }
    Ok(words)
}
