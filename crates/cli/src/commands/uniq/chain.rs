//! The window of `tamis uniq`: one filter, or several while a window of time grows.
//!
//! ```text
//!  lines ──► newest filter: takes every line
//!       └──► older filters: are only looked up, expire, and are dropped when they are empty
//! ```
//!
//! A filter that refuses a line is followed by one of twice its capacity. Each filter
//! covers the whole time of the window, so a line of the window is in one of them. Every filter is
//! planned for half of the false positive rate that the filters before it leave, so the sum stays
//! below the promised rate.

use std::time::Duration;

use anyhow::{Result, bail};
use tamis::plan::{check_fpr, solve};
use tamis::{
    Build, Filter, Full, Goal, HashId, KeyForms, KeyHash, KeyHasher, Keyed, Settings, Shape,
    Sliding, SlidingShape, Window as _,
};

use crate::args::Window;
use crate::memory::check_memory;
use crate::number::show_rate;

/// The default window in lines: 40 MiB at the default rate.
const WINDOW: u64 = 10_000_000;
/// The default false positive rate: the share of new lines that are dropped.
const FPR: f64 = 1e-6;
/// The smallest capacity of a filter that follows another one, so that a small start does not lead
/// to a long chain.
const MIN_GROWN: u64 = 1 << 16;
/// The largest number of filters.
const MAX_FILTERS: usize = 48;

/// The options of a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) window: Option<Window>,
    pub(super) keys: Option<u64>,
    pub(super) fpr: Option<f64>,
    pub(super) max_memory: Option<u64>,
}

/// The filters of a window, oldest first.
pub(super) struct Chain {
    filters: Vec<Keyed<Sliding>>,
    /// The false positive rate of all filters together.
    fpr: f64,
    max_memory: Option<u64>,
    now: u64,
    found: Vec<bool>,
}

impl Chain {
    /// Creates an empty window.
    pub(super) fn new(plan: &Plan, forms: KeyForms) -> Result<Self> {
        let fpr = plan.fpr.unwrap_or(FPR);
        let (keys, ticks, share) = match plan.window {
            Some(Window::Time(time)) => {
                let half = if check_fpr(fpr / 2.0).is_ok() { fpr / 2.0 } else { fpr };
                (plan.keys.unwrap_or(WINDOW), Some(ticks(time)), half)
            }
            Some(Window::Lines(lines)) => (lines, None, fpr),
            None => (WINDOW, None, fpr),
        };
        let shape = shape(keys, ticks, share)?;
        check_memory(shape.figures().bytes, plan.max_memory)?;
        let filter = Sliding::build(shape, &[][..])?;
        let filter = Keyed::new(KeyHasher::random(HashId::Fast)?, filter).with_key_forms(forms);
        Ok(Self::from_filters(vec![filter], fpr, plan.max_memory))
    }

    /// Continues a window with the filters of a checkpoint, which must have the window of `plan` and
    /// keep its rate.
    pub(super) fn resume(filters: Vec<Keyed<Sliding>>, plan: &Plan) -> Result<Self> {
        let [older @ .., newest] = &filters[..] else {
            bail!("not a checkpoint: it has no filter")
        };
        let (shape, filter) = (newest.filter().shape(), newest.filter());
        let belongs = |other: &Keyed<Sliding>| {
            other.hasher() == newest.hasher()
                && other.filter().window() == filter.window()
                && is_timed(other.filter())
        };
        if filters.len() > MAX_FILTERS || !older.iter().all(belongs) {
            bail!("not a checkpoint: its filters are not of one window");
        }
        let total = |filters: &[Keyed<Sliding>]| -> f64 {
            filters.iter().map(|filter| filter.filter().shape().figures().fpr).sum()
        };
        let agrees = match plan.window {
            Some(Window::Lines(lines)) => !is_timed(filter) && filter.window() == lines,
            Some(Window::Time(time)) => is_timed(filter) && filter.window() == ticks(time),
            None => true,
        };
        if !agrees
            || plan.fpr.is_some_and(|fpr| fpr < total(&filters))
            || plan.keys.is_some_and(|keys| keys > shape.keys())
        {
            bail!(
                "the checkpoint has another --window, --fpr or --keys: {} lines at {}",
                shape.keys(),
                show_rate(total(&filters))
            )
        }
        // A filter has half of the rate that was left, so the same again is left for its successors.
        let promised = total(older) + 2.0 * shape.figures().fpr;
        let bytes = filters.iter().map(Keyed::bytes).sum();
        check_memory(bytes, plan.max_memory)?;
        Ok(Self::from_filters(filters, plan.fpr.unwrap_or(promised), plan.max_memory))
    }

    fn from_filters(filters: Vec<Keyed<Sliding>>, fpr: f64, max_memory: Option<u64>) -> Self {
        Self { filters, fpr, max_memory, now: 0, found: Vec::new() }
    }

    pub(super) fn filters(&self) -> &[Keyed<Sliding>] {
        &self.filters
    }

    pub(super) fn hasher(&self) -> &KeyHasher {
        self.newest().hasher()
    }

    /// Returns the capacity of all filters in lines.
    pub(super) fn capacity(&self) -> u64 {
        self.filters.iter().map(|filter| filter.filter().shape().keys()).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.filters.iter().map(Keyed::bytes).sum()
    }

    /// Returns whether the window is a time. A window of lines has room for every line, and cannot
    /// grow.
    pub(super) fn is_timed(&self) -> bool {
        is_timed(self.newest().filter())
    }

    fn newest(&self) -> &Keyed<Sliding> {
        self.filters.last().expect("there is always a filter")
    }

    /// Sets the time in milliseconds, and drops older filters that are empty.
    pub(super) fn advance(&mut self, now: u64) {
        self.now = now;
        self.filters.iter_mut().for_each(|filter| filter.advance(now));
        let last = self.filters.len() - 1;
        let mut at = 0;
        self.filters.retain(|filter| {
            at += 1;
            at > last || !filter.filter().is_empty()
        });
    }

    /// Pushes lines in order and sets `seen[i]` to whether line `i` occurred in the window.
    ///
    /// # Errors
    /// On [`Full`] the first [`Full::inserted`] lines are pushed; the next one found no room.
    pub(super) fn push(&mut self, lines: &[KeyHash], seen: &mut [bool]) -> Result<(), Full> {
        let [older @ .., newest] = &mut self.filters[..] else { unreachable!("never empty") };
        let outcome = newest.filter_mut().push_batch(lines, seen);
        let done = outcome.map_or_else(|full| full.inserted as usize, |()| lines.len());
        for filter in older {
            self.found.resize(done, false);
            filter.filter().contains_batch(&lines[..done], &mut self.found);
            seen.iter_mut().zip(&self.found).for_each(|(seen, found)| *seen |= found);
        }
        outcome
    }

    /// Returns whether a line occurred in the window, without pushing it.
    pub(super) fn contains(&self, line: KeyHash) -> bool {
        self.filters.iter().any(|filter| filter.filter().contains(line))
    }

    /// Adds a filter of twice the capacity of the newest, or at least of half of it if more does not
    /// fit in the memory limit.
    pub(super) fn grow(&mut self) -> Result<()> {
        let used: f64 = self
            .filters
            .iter()
            .map(|filter| filter.filter().shape().fpr_at(filter.filter().len()))
            .sum();
        let (capacity, bytes) = (self.newest().filter().shape().keys(), self.bytes());
        let ticks = Some(self.newest().filter().window());
        let mut keys = capacity.saturating_mul(2).max(MIN_GROWN);
        let shape = loop {
            let shape = shape(keys, ticks, (self.fpr - used) / 2.0)?;
            let more = shape.figures().bytes;
            let needs = if self.max_memory.is_some() { bytes + more } else { more };
            match check_memory(needs, self.max_memory) {
                Ok(()) => break shape,
                Err(error) if keys <= capacity / 2 || keys < 2 => return Err(error),
                Err(_) => keys /= 2,
            }
        };
        if self.filters.len() == MAX_FILTERS {
            bail!("there are {MAX_FILTERS} filters already");
        }
        let filter = Sliding::build(shape, &[][..])?;
        let forms = self.newest().key_forms();
        let mut filter = Keyed::new(*self.hasher(), filter).with_key_forms(forms);
        filter.advance(self.now);
        self.filters.push(filter);
        Ok(())
    }
}

fn is_timed(filter: &Sliding) -> bool {
    filter.shape().ticks().is_some()
}

/// Returns a time in ticks of the filter's clock, milliseconds.
fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn shape(keys: u64, ticks: Option<u64>, fpr: f64) -> Result<SlidingShape> {
    let mut settings = Settings::default();
    if let Some(ticks) = ticks {
        settings.set("ticks", ticks);
    }
    Ok(solve(Goal::KeysFpr { keys, fpr }, &settings)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1000;

    fn chain(keys: u64, fpr: f64, max_memory: Option<u64>) -> Chain {
        let window = Some(Window::Time(Duration::from_secs(10)));
        let plan = Plan { window, keys: Some(keys), fpr: Some(fpr), max_memory };
        Chain::new(&plan, KeyForms::BYTES).unwrap()
    }

    fn rate(chain: &Chain) -> f64 {
        let rate = |filter: &Keyed<Sliding>| filter.filter().shape().fpr_at(filter.filter().len());
        chain.filters.iter().map(rate).sum()
    }

    /// Pushes a line for each number and grows where there is no room. Returns how many were seen.
    fn push(chain: &mut Chain, numbers: std::ops::Range<u64>) -> Result<u64> {
        let hasher = *chain.hasher();
        let hashes: Vec<KeyHash> = numbers.map(|number| hasher.int(number)).collect();
        let (mut seen, mut at) = (vec![false; hashes.len()], 0);
        while let Err(full) = chain.push(&hashes[at..], &mut seen[at..]) {
            at += full.inserted as usize;
            chain.grow()?;
        }
        Ok(seen.iter().filter(|seen| **seen).count() as u64)
    }

    #[test]
    fn a_window_grows_at_its_rate_and_old_filters_expire() {
        const FPR: f64 = 0.01;
        let mut chain = chain(1000, FPR, None);
        let (mut now, mut swallowed) = (SECOND, 0);
        for step in 0..300u64 {
            chain.advance(now);
            swallowed += push(&mut chain, step * 1000..(step + 1) * 1000).unwrap();
            assert!(rate(&chain) <= FPR, "{} after step {step}", rate(&chain));
            let lines = (0..=step * 1000).step_by(997);
            assert!(lines.map(|line| chain.hasher().int(line)).all(|line| chain.contains(line)));
            now += 10;
        }
        assert!(chain.filters.len() > 2, "{} filters", chain.filters.len());
        // At most the promised share of 300,000, and 6 standard deviations.
        assert!(swallowed < 3000 + 330, "{swallowed} new lines are swallowed");
        assert!(swallowed > 100, "{swallowed} new lines are swallowed: the rate is not measured");
        assert_eq!(push(&mut chain, 0..100_000).unwrap(), 100_000, "a repeat is not seen");
        // The last filter took every line since it was added, and is enough once the others expired.
        for _ in 0..4 {
            now += 3 * SECOND;
            chain.advance(now);
            push(&mut chain, 0..1000).unwrap();
        }
        assert_eq!(chain.filters.len(), 1);
        assert_eq!(push(&mut chain, 0..1000).unwrap(), 1000);
        let expired = (50_000..51_000).filter(|line| chain.contains(chain.hasher().int(*line)));
        assert!(expired.count() < 60, "expired lines are still seen");
    }

    #[test]
    fn a_window_does_not_grow_beyond_its_memory() {
        let mut free = chain(100_000, 1e-6, None);
        push(&mut free, 0..400_000).unwrap();
        let limit = free.bytes() - 1;
        let mut limited = chain(100_000, 1e-6, Some(limit));
        let mut pushed = 0;
        let error = loop {
            match push(&mut limited, pushed..pushed + 1000) {
                Ok(_) => pushed += 1000,
                Err(error) => break error.to_string(),
            }
            assert!(limited.bytes() <= limit, "{} of {limit}", limited.bytes());
        };
        assert!(error.contains("--max-memory"), "{error}");
        // A smaller filter than the next one is added if it fits.
        assert!(limited.filters.len() > 1 && pushed > 200_000, "{pushed} lines");
        assert!(limited.bytes() > limit / 2, "{} of {limit}", limited.bytes());
    }

    #[test]
    fn a_checkpoint_of_other_filters_is_refused() {
        let plan = Plan { window: None, keys: None, fpr: None, max_memory: None };
        let (mut one, other) = (chain(100, 1e-3, None), chain(100, 1e-3, None));
        push(&mut one, 0..1000).unwrap();
        let filters = one.filters.clone();
        let resumed = Chain::resume(filters.clone(), &plan).unwrap();
        assert!(resumed.fpr <= 1e-3 && resumed.fpr > 0.8e-3, "{}", resumed.fpr);
        for wrong in [
            vec![],
            vec![filters[0].clone(), other.filters[0].clone()],
            vec![filters[0].clone(); MAX_FILTERS + 1],
        ] {
            assert!(Chain::resume(wrong, &plan).is_err());
        }
        let lower = Plan { fpr: Some(1e-4), ..plan };
        let longer = Plan { window: Some(Window::Time(Duration::from_secs(11))), ..plan };
        let larger = Plan { keys: Some(1 << 20), ..plan };
        let tight = Plan { max_memory: Some(1000), ..plan };
        for wrong in [lower, longer, larger, tight] {
            assert!(Chain::resume(filters.clone(), &wrong).is_err(), "{wrong:?}");
        }
    }
}
