//! Measures contenders on the same keys, in many short rounds.
//!
//! On a shared machine the time of one program varies by a factor of 2 within minutes, so an
//! absolute time says little. Every round therefore measures each contender once, a few
//! milliseconds apart, and the next round starts with another contender:
//!
//! ```text
//!  round 0:   A hit miss …   B hit miss …   C hit miss …
//!  round 1:   B hit miss …   C hit miss …   A hit miss …
//! ```
//!
//! A time is the median over the rounds. The ratio of two contenders is the median of the ratios
//! within each round, so a disturbance that lasts longer than a round affects both times equally.
//!
//! Keys are 64-bit integers, and every time includes hashing them. Queries use another order than
//! the one in which the members were inserted.

use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// The number of queries in a round: some 100 µs for a filter that fits the cache.
const CHUNK: usize = 1 << 15;

/// A kind of filter to measure.
pub trait Contender {
    /// Returns the name in tables.
    fn name(&self) -> &str;

    /// Builds a filter of all `keys`. Work that depends only on the number of keys belongs in the
    /// contender's constructor, which is not timed.
    ///
    /// # Errors
    ///
    /// Returns an error if the filter cannot be built.
    fn build(&self, keys: &[u64]) -> Result<Box<dyn Built>>;

    /// Returns the size in bytes of the tables that it builds, or 0 if that is not known before.
    fn table_bytes(&self) -> u64 {
        0
    }

    /// Returns whether this is a filter. A baseline, such as a loop of random reads, is not.
    fn is_filter(&self) -> bool {
        true
    }
}

/// A filter that a [`Contender`] built.
pub trait Built {
    /// Returns the size of its tables in bytes.
    fn bytes(&self) -> u64;

    /// Looks up one key after the other and returns the number of positive answers. The
    /// implementation holds the loop, so that lookups are inlined as in a user's program.
    fn count(&self, keys: &[u64]) -> usize;

    /// Looks up all keys in one batch and returns the number of positive answers, or `None` if the
    /// filter has no batch lookup.
    fn count_batch(&self, keys: &[u64]) -> Option<usize> {
        let _ = keys;
        None
    }
}

/// Distinct pseudo-random integers: members and non-members.
#[derive(Debug)]
pub struct Keys {
    /// The keys that filters are built from.
    pub members: Vec<u64>,
    non_members: Vec<u64>,
    /// Members in random order, enough for all rounds.
    hits: Vec<u64>,
}

/// Maps different numbers to different keys.
fn scramble(x: u64) -> u64 {
    let x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let x = (x ^ (x >> 29)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 32)
}

/// Returns the number of non-members and the number of queries of members.
fn query_counts(fpr: f64, rounds: usize) -> (u64, usize) {
    let at_least = if fpr < 0.01 { 10_000_000 } else { 2_000_000 };
    let queries = (2 * rounds + 1) * CHUNK;
    (at_least.max(queries as u64), queries)
}

/// Returns the bytes of memory that [`measure`] needs for `count` keys. All filters are held at once, and
/// one of them is built again.
pub(crate) fn measure_bytes(
    contenders: &[Box<dyn Contender>],
    count: u64,
    fpr: f64,
    rounds: usize,
) -> u64 {
    /// What a build takes per key beside two tables. Static kinds take the most.
    const BUILD_BYTES_PER_KEY: u64 = 64;
    let (non_members, queries) = query_counts(fpr, rounds);
    let keys = count.saturating_add(non_members).saturating_add(queries as u64).saturating_mul(8);
    let tables = || contenders.iter().map(|contender| contender.table_bytes());
    let building = tables().max().unwrap_or(0).saturating_mul(2);
    tables()
        .fold(keys, u64::saturating_add)
        .saturating_add(building)
        .saturating_add(count.saturating_mul(BUILD_BYTES_PER_KEY))
}

impl Keys {
    /// Returns `count` members, selected by `seed`, and no queries.
    pub fn members_only(count: u64, seed: u64) -> Self {
        let from = scramble(!seed);
        let members = (0..count).map(|i| scramble(from.wrapping_add(i))).collect();
        Self { members, non_members: Vec::new(), hits: Vec::new() }
    }

    /// Returns `count` members and the queries of `rounds` rounds. The non-members number at least
    /// 2 * 10^6, or 10^7 where `fpr` is below 1 %, so that the measured rate is precise.
    pub fn new(count: u64, fpr: f64, rounds: usize, seed: u64) -> Self {
        let mut keys = Self::members_only(count, seed);
        let from = scramble(!seed).wrapping_add(count);
        let (non_members, queries) = query_counts(fpr, rounds);
        keys.non_members = (0..non_members).map(|i| scramble(from.wrapping_add(i))).collect();
        let any = |i: usize| scramble(seed ^ (i as u64) << 20) % count.max(1);
        keys.hits = (0..queries).map(|i| keys.members[any(i) as usize]).collect();
        keys
    }
}

/// A quantity that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Building the filter, per key.
    Build,
    /// Looking up members, one at a time.
    Hit,
    /// Looking up non-members, one at a time.
    Miss,
    /// Looking up members in batches.
    HitBatch,
    /// Looking up non-members in batches.
    MissBatch,
}

impl Metric {
    /// All metrics.
    pub const ALL: [Self; 5] =
        [Self::Build, Self::Hit, Self::Miss, Self::HitBatch, Self::MissBatch];

    /// Returns the queries of a round. Each round has its own, because repeated queries would hit
    /// lines that are still cached.
    fn queries(self, keys: &Keys, round: usize) -> &[u64] {
        let (from, chunk) = match self {
            Self::Build => return &keys.members,
            Self::Hit => (&keys.hits, 2 * round),
            Self::HitBatch => (&keys.hits, 2 * round + 1),
            Self::Miss => (&keys.non_members, 2 * round),
            Self::MissBatch => (&keys.non_members, 2 * round + 1),
        };
        &from[chunk * CHUNK..][..CHUNK]
    }

    /// Returns the one-at-a-time metric of a batch metric; other metrics return themselves.
    pub fn unbatched(self) -> Self {
        match self {
            Self::HitBatch => Self::Hit,
            Self::MissBatch => Self::Miss,
            other => other,
        }
    }
}

/// The measurements of one contender.
#[derive(Debug)]
pub struct Outcome {
    /// The contender's name.
    pub name: String,
    /// The size of its tables in bytes.
    pub bytes: u64,
    /// The measured false positive rate, or `None` if it is not a filter.
    pub fpr: Option<f64>,
    /// The number of members that it denied, or `None` if it is not a filter.
    pub false_negatives: Option<u64>,
    /// The part of its memory in huge pages, or `None` where the system does not report it.
    pub huge_bytes: Option<u64>,
    /// Nanoseconds per key in each round, for each of [`Metric::ALL`]; empty if unsupported.
    times: [Vec<f64>; Metric::ALL.len()],
}

/// The ratio of two times.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// The median over the rounds.
    pub median: f64,
    /// The number of rounds in which the first was faster.
    pub wins: usize,
    /// The number of rounds.
    pub rounds: usize,
}

impl Outcome {
    /// Returns the median over the rounds in nanoseconds per key.
    pub fn time(&self, metric: Metric) -> Option<f64> {
        median(&self.times[metric as usize])
    }

    /// Returns the ratio of this contender's time for `mine` to `other`'s time for `theirs`.
    pub fn ratio(&self, mine: Metric, other: &Self, theirs: Metric) -> Option<Ratio> {
        paired(&self.times[mine as usize], &other.times[theirs as usize])
    }
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        odd if odd % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

fn paired(a: &[f64], b: &[f64]) -> Option<Ratio> {
    let ratios: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b).collect();
    let wins = ratios.iter().filter(|ratio| **ratio < 1.0).count();
    Some(Ratio { median: median(&ratios)?, wins, rounds: ratios.len() })
}

/// Measures all contenders on the same keys, and calls `tick` after each step.
///
/// Builds are timed in fewer rounds than lookups: 5 * 10^7 keys in total per contender, and at
/// least 1 round.
///
/// # Errors
///
/// Returns an error if a contender cannot be built.
pub fn measure(
    contenders: &[Box<dyn Contender>],
    keys: &Keys,
    rounds: usize,
    tick: &dyn Fn(),
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let mut built = Vec::new();
    // The first build is not timed, since it also requests memory from the system.
    for contender in contenders {
        let before = huge_bytes();
        let filter = build(contender.as_ref(), keys)?;
        let huge_bytes = before.zip(huge_bytes()).map(|(old, new)| new.saturating_sub(old));
        outcomes.push(Outcome {
            name: contender.name().to_owned(),
            bytes: filter.bytes(),
            fpr: None,
            false_negatives: None,
            huge_bytes,
            times: Default::default(),
        });
        built.push(filter);
        tick();
    }
    let turns = |round: usize| (0..contenders.len()).map(move |i| (i + round) % contenders.len());

    for round in 0..build_rounds(keys.members.len(), rounds) {
        for i in turns(round) {
            let start = Instant::now();
            let filter = build(contenders[i].as_ref(), keys)?;
            let time = start.elapsed().as_nanos() as f64 / keys.members.len() as f64;
            outcomes[i].times[Metric::Build as usize].push(time);
            // Queries use the filter of the first build.
            drop(filter);
            tick();
        }
    }

    for ((contender, outcome), filter) in contenders.iter().zip(&mut outcomes).zip(&built) {
        if contender.is_filter() {
            let count = |keys: &[u64]| {
                keys.chunks(CHUNK)
                    .map(|keys| filter.count_batch(keys).unwrap_or_else(|| filter.count(keys)))
                    .sum::<usize>()
            };
            outcome.false_negatives = Some((keys.members.len() - count(&keys.members)) as u64);
            outcome.fpr = Some(count(&keys.non_members) as f64 / keys.non_members.len() as f64);
        } else {
            outcome.times[Metric::Build as usize].clear();
        }
        tick();
    }

    for round in 0..rounds {
        for i in turns(round) {
            // These lookups bring a small filter back into the cache. A large one does not fit
            // and stays cold, as in a program that also does other work.
            let warm_up = &Metric::Miss.queries(keys, rounds)[..CHUNK / 4];
            std::hint::black_box(built[i].count(warm_up));
            for metric in &Metric::ALL[1..] {
                let queries = metric.queries(keys, round);
                let start = Instant::now();
                let answer = if metric.unbatched() == *metric {
                    Some(built[i].count(queries))
                } else {
                    built[i].count_batch(queries)
                };
                let time = start.elapsed().as_nanos() as f64 / queries.len() as f64;
                if std::hint::black_box(answer).is_some() {
                    outcomes[i].times[*metric as usize].push(time);
                }
            }
        }
        tick();
    }
    Ok(outcomes)
}

/// Returns how often [`measure`] calls its `tick`.
pub fn measure_steps(contenders: usize, keys: usize, rounds: usize) -> usize {
    contenders * (2 + build_rounds(keys, rounds)) + rounds
}

fn build_rounds(keys: usize, rounds: usize) -> usize {
    (50_000_000 / keys.max(1)).clamp(1, rounds)
}

fn build(contender: &dyn Contender, keys: &Keys) -> Result<Box<dyn Built>> {
    contender.build(&keys.members).with_context(|| contender.name().to_owned())
}

/// Runs `first` and `second` alternately and returns the ratio of their times. A warm-up run of
/// each precedes the `rounds` that count.
///
/// # Errors
///
/// Returns the error of `first` or `second`, or an error if `rounds` is 0.
pub fn race(
    rounds: usize,
    mut first: impl FnMut() -> Result<()>,
    mut second: impl FnMut() -> Result<()>,
) -> Result<Ratio> {
    let time = |run: &mut dyn FnMut() -> Result<()>| {
        let start = Instant::now();
        run()?;
        anyhow::Ok(start.elapsed().as_nanos() as f64)
    };
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for round in 0..=rounds {
        let (one, two) = if round % 2 == 0 {
            (time(&mut first)?, time(&mut second)?)
        } else {
            let two = time(&mut second)?;
            (time(&mut first)?, two)
        };
        if round > 0 {
            a.push(one);
            b.push(two);
        }
    }
    paired(&a, &b).context("no rounds")
}

/// Returns the peak memory of one build in bytes, without the keys: resident pages, which includes
/// memory maps. The result is meaningful only in a process that has built nothing before. Returns
/// `None` on systems other than Linux.
///
/// # Errors
///
/// Returns an error if the filter cannot be built, or if it denies a member.
pub fn peak_bytes(contender: &dyn Contender, keys: &Keys) -> Result<Option<u64>> {
    // Writing 5 resets the peak to the current resident size.
    if std::fs::write("/proc/self/clear_refs", "5").is_err() {
        return Ok(None);
    }
    let before = kilobytes("/proc/self/status", "VmHWM:");
    let filter = build(contender, keys)?;
    let after = kilobytes("/proc/self/status", "VmHWM:");
    ensure!(
        filter.count(&keys.members) == keys.members.len(),
        "{} denies a member",
        contender.name()
    );
    Ok(before.zip(after).map(|(before, after)| after.saturating_sub(before)))
}

fn huge_bytes() -> Option<u64> {
    kilobytes("/proc/self/smaps_rollup", "AnonHugePages:")
}

fn kilobytes(file: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        // The median of the ratios, not the ratio of the medians.
        let ratio = paired(&[1.0, 10.0, 4.0], &[2.0, 10.0, 2.0]).unwrap();
        assert_eq!((ratio.median, ratio.wins, ratio.rounds), (1.0, 1, 3));
        assert!(paired(&[], &[1.0]).is_none());
    }

    #[test]
    fn members_and_non_members_are_distinct() {
        let keys = Keys::new(20_000, 0.01, 1, 7);
        let mut all = [keys.members.clone(), keys.non_members.clone()].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), keys.members.len() + keys.non_members.len());
        assert!(keys.hits.iter().step_by(1009).all(|hit| keys.members.contains(hit)));
    }

    #[test]
    fn a_false_negative_is_counted() {
        struct Forgetful;
        struct Set(std::collections::HashSet<u64>);
        impl Contender for Forgetful {
            fn name(&self) -> &str {
                "forgetful"
            }
            fn build(&self, keys: &[u64]) -> Result<Box<dyn Built>> {
                Ok(Box::new(Set(keys[1..].iter().copied().collect())))
            }
        }
        impl Built for Set {
            fn bytes(&self) -> u64 {
                1
            }
            fn count(&self, keys: &[u64]) -> usize {
                keys.iter().filter(|key| self.0.contains(key)).count()
            }
        }
        let contenders: Vec<Box<dyn Contender>> = vec![Box::new(Forgetful)];
        let keys = Keys::new(1000, 0.01, 2, 1);
        let outcome = measure(&contenders, &keys, 2, &|| ()).unwrap().remove(0);
        assert_eq!((outcome.fpr, outcome.false_negatives), (Some(0.0), Some(1)));
        assert!(
            outcome.time(Metric::Hit).unwrap() > 0.0 && outcome.time(Metric::HitBatch).is_none()
        );
    }
}
