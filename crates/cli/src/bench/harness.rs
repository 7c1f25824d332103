//! The measuring itself: the same keys for everyone, short rounds, and turns.
//!
//! On a shared machine the same program may take twice as long a minute later, so a time by itself
//! says little. Here every contender is measured within each round, a few milliseconds apart:
//!
//! ```text
//!  round 0:   A hit miss …   B hit miss …   C hit miss …
//!  round 1:   B hit miss …   C hit miss …   A hit miss …      whoever begins, changes
//! ```
//!
//! A time is the median over the rounds, and the ratio of two is the median of the ratios within
//! each round: what disturbs the machine for longer than a round disturbs both alike.
//!
//! The keys are integers, and the price of hashing them is part of every time: keys go in, answers
//! come out. Members and strangers are asked for in another order than the members were put in.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tamis::{Build, Filter, Goal, Hashes, Key, KeyHasher, Keyed, Settings, Shape, plan};

/// Queries in a round: some hundred microseconds for a filter in the cache.
const CHUNK: usize = 1 << 15;

/// Something that makes filters, to be measured.
pub trait Contender {
    /// What it is called.
    fn name(&self) -> &str;

    /// Makes a filter of all `keys`. Whatever depends only on their number is done before.
    fn build(&self, keys: &[u64]) -> Result<Box<dyn Contained>>;

    /// Whether it is a filter, or else a yardstick that no filter gets below.
    fn is_filter(&self) -> bool {
        true
    }
}

/// A filter that was made, to be asked.
pub trait Contained {
    /// Memory of its tables.
    fn bytes(&self) -> u64;

    /// Asks for one key after the other, and counts how often the answer is yes. The loop is in
    /// here so that it is compiled together with what it calls, as it would be for a user.
    fn count(&self, keys: &[u64]) -> usize;

    /// Asks for all keys at once, where there is a way to; else `None`.
    fn count_batch(&self, keys: &[u64]) -> Option<usize> {
        let _ = keys;
        None
    }
}

/// A kind of ours.
struct Ours<F: Filter> {
    name: &'static str,
    shape: F::Shape,
    hasher: KeyHasher,
}

impl<F: Build + 'static> Contender for Ours<F> {
    fn name(&self) -> &str {
        self.name
    }

    fn build(&self, keys: &[u64]) -> Result<Box<dyn Contained>> {
        let hashes = Hashes::new(keys.iter().map(|key| key.hash_with(&self.hasher)));
        Ok(Box::new(Keyed::new(self.hasher, F::build(self.shape.clone(), hashes)?)))
    }
}

impl<F: Filter> Contained for Keyed<F> {
    fn bytes(&self) -> u64 {
        self.filter().shape().figures().bytes
    }

    fn count(&self, keys: &[u64]) -> usize {
        keys.iter().filter(|key| self.contains(*key)).count()
    }

    fn count_batch(&self, keys: &[u64]) -> Option<usize> {
        Some(self.contains_batch(keys).into_iter().filter(|yes| *yes).count())
    }
}

macro_rules! define_ours {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        /// One of ours, as `goal` asks for it.
        pub fn ours(kind: tamis::Kind, goal: Goal, hasher: KeyHasher) -> Result<Box<dyn Contender>> {
            Ok(match kind { $(
                tamis::Kind::$type => Box::new(Ours::<tamis::filters::$type> {
                    name: kind.name(),
                    shape: plan::solve(goal, &Settings::default())?,
                    hasher,
                }),
            )* })
        }
    };
}
tamis::registry!(define_ours);

/// Distinct integers that look like any others.
#[derive(Debug)]
pub struct Keys {
    /// What the filters are made of.
    pub members: Vec<u64>,
    strangers: Vec<u64>,
    /// Members in no order, enough for all rounds.
    hits: Vec<u64>,
}

/// A bijection, so that different numbers give different keys.
fn scramble(x: u64) -> u64 {
    let x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let x = (x ^ (x >> 29)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    x ^ (x >> 32)
}

impl Keys {
    /// So many members, drawn with `seed`.
    pub fn members_only(count: u64, seed: u64) -> Self {
        let from = scramble(!seed);
        let members = (0..count).map(|i| scramble(from.wrapping_add(i))).collect();
        Self { members, strangers: Vec::new(), hits: Vec::new() }
    }

    /// So many members, and all that it takes to ask for `rounds` rounds and to see a rate of
    /// `fpr`: two million strangers at least, ten where fewer than 20 000 would slip through.
    pub fn new(count: u64, fpr: f64, rounds: usize, seed: u64) -> Self {
        let mut keys = Self::members_only(count, seed);
        let from = scramble(!seed).wrapping_add(count);
        let strangers = if fpr < 0.01 { 10_000_000 } else { 2_000_000 };
        let queries = (2 * rounds + 1) * CHUNK;
        let strangers = strangers.max(queries as u64);
        keys.strangers = (0..strangers).map(|i| scramble(from.wrapping_add(i))).collect();
        let any = |i: usize| scramble(seed ^ (i as u64) << 20) % count.max(1);
        keys.hits = (0..queries).map(|i| keys.members[any(i) as usize]).collect();
        keys
    }
}

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Making the filter, a key.
    Build,
    /// Asking for members, one at a time.
    Hit,
    /// Asking for strangers, one at a time.
    Miss,
    /// Asking for members, all at once.
    HitBatch,
    /// Asking for strangers, all at once.
    MissBatch,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Build, Self::Hit, Self::Miss, Self::HitBatch, Self::MissBatch];

    /// The queries of a round: nobody is asked for a key twice, for its line would be at hand.
    fn queries(self, keys: &Keys, round: usize) -> &[u64] {
        let (from, chunk) = match self {
            Self::Build => return &keys.members,
            Self::Hit => (&keys.hits, 2 * round),
            Self::HitBatch => (&keys.hits, 2 * round + 1),
            Self::Miss => (&keys.strangers, 2 * round),
            Self::MissBatch => (&keys.strangers, 2 * round + 1),
        };
        &from[chunk * CHUNK..][..CHUNK]
    }

    /// The one-at-a-time twin of a batch; of others, itself.
    pub fn alone(self) -> Self {
        match self {
            Self::HitBatch => Self::Hit,
            Self::MissBatch => Self::Miss,
            other => other,
        }
    }
}

/// What was seen of one contender.
#[derive(Debug)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// Memory of its tables.
    pub bytes: u64,
    /// The share of strangers that it took for members; `None` if it is no filter.
    pub fpr: Option<f64>,
    /// Members that it denied; `None` if it is no filter.
    pub false_negatives: Option<u64>,
    /// How much of its memory came in huge pages, where that can be told.
    pub huge_bytes: Option<u64>,
    /// Nanoseconds a key, round by round, for each of [`Metric::ALL`]; empty if it cannot do that.
    times: [Vec<f64>; Metric::ALL.len()],
}

/// One compared with another.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// The median over the rounds.
    pub median: f64,
    /// Rounds in which the first was the faster.
    pub wins: usize,
    /// Rounds.
    pub rounds: usize,
}

impl Outcome {
    /// Nanoseconds a key: the median over the rounds.
    pub fn time(&self, metric: Metric) -> Option<f64> {
        median(&self.times[metric as usize])
    }

    /// How long this takes for `mine`, over how long `other` takes for `theirs`.
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

/// Measures all contenders on the same keys in so many rounds, and calls `tick` after each step.
///
/// Making a filter of many keys takes long, so there are fewer rounds of that: as many as make
/// fifty million keys, and one at the least.
pub fn measure(
    contenders: &[Box<dyn Contender>],
    keys: &Keys,
    rounds: usize,
    tick: &dyn Fn(),
) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let mut built = Vec::new();
    // The first of each is not timed: it is who asks the system for memory.
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
            // The timed one goes, the first stays where it is in memory.
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
            outcome.fpr = Some(count(&keys.strangers) as f64 / keys.strangers.len() as f64);
        } else {
            outcome.times[Metric::Build as usize].clear();
        }
        tick();
    }

    for round in 0..rounds {
        for i in turns(round) {
            // A few other queries bring a small filter back into the cache; a large one does not
            // fit there, and is met as cold as a program would meet it that does other things too.
            let warm_up = &Metric::Miss.queries(keys, rounds)[..CHUNK / 4];
            std::hint::black_box(built[i].count(warm_up));
            for metric in &Metric::ALL[1..] {
                let queries = metric.queries(keys, round);
                let start = Instant::now();
                let answer = if metric.alone() == *metric {
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

/// How often [`measure`] calls its `tick`.
pub fn ticks(contenders: usize, keys: usize, rounds: usize) -> usize {
    contenders * (2 + build_rounds(keys, rounds)) + rounds
}

fn build_rounds(keys: usize, rounds: usize) -> usize {
    (50_000_000 / keys.max(1)).clamp(1, rounds)
}

fn build(contender: &dyn Contender, keys: &Keys) -> Result<Box<dyn Contained>> {
    contender.build(&keys.members).with_context(|| contender.name().to_owned())
}

/// The ratio of the times of `first` and `second`, which take turns for so many rounds after one
/// each that does not count.
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

/// The most memory that making the filter takes beyond the keys, as the system counts it: pages
/// in memory, so that maps count as well as the heap. For a process that has done nothing else.
///
/// Only Linux tells; elsewhere `None`.
pub fn peak_bytes(contender: &dyn Contender, keys: &Keys) -> Result<Option<u64>> {
    // 5 sets the high-water mark back to what is in memory now.
    if std::fs::write("/proc/self/clear_refs", "5").is_err() {
        return Ok(None);
    }
    let before = kilobytes("/proc/self/status", "VmHWM:");
    let filter = build(contender, keys)?;
    let after = kilobytes("/proc/self/status", "VmHWM:");
    ensure!(filter.count(&keys.members) == keys.members.len(), "a member was denied");
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
    fn members_and_strangers_are_distinct() {
        let keys = Keys::new(20_000, 0.01, 1, 7);
        let mut all = [keys.members.clone(), keys.strangers.clone()].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), keys.members.len() + keys.strangers.len());
        assert!(keys.hits.iter().all(|hit| keys.members.contains(hit)).then_some(()).is_some());
    }

    /// A liar is found out: a contender that forgets a key, and one that takes all in.
    #[test]
    fn sees_what_is_wrong() {
        struct Forgetful;
        struct Set(std::collections::HashSet<u64>);
        impl Contender for Forgetful {
            fn name(&self) -> &str {
                "forgetful"
            }
            fn build(&self, keys: &[u64]) -> Result<Box<dyn Contained>> {
                Ok(Box::new(Set(keys[1..].iter().copied().collect())))
            }
        }
        impl Contained for Set {
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
