//! The order of events: lines are pushed into the window, printed, and only then saved.

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use serde_json::json;

use super::chain::Chain;
use super::lines::Lines;
use crate::args::OnOverflow;
use crate::output;

/// What the stream writes to.
pub(super) trait Target {
    /// Prints lines. When it returns, the system has them.
    fn write(&mut self, lines: &[u8]) -> Result<()>;

    /// Makes the printed lines durable, if they are in a file.
    fn sync(&mut self) -> Result<()>;

    /// Replaces the checkpoint, if there is one.
    fn save(&mut self, chain: &Chain) -> Result<()>;
}

/// The number of lines of each outcome.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    lines: u64,
    dropped: u64,
    /// Lines that found no room in the window and were printed without being remembered.
    unfiltered: u64,
}

/// A stream of lines on its way from the input to a target.
pub(super) struct Stream<T> {
    pub(super) chain: Chain,
    pub(super) target: T,
    on_overflow: OnOverflow,
    /// The time between checkpoints.
    period: Duration,
    saved: Instant,
    /// Whether every line that the window has was printed. Only then may the window be saved.
    printed: bool,
    counts: Counts,
    seen: Vec<bool>,
    fresh: Vec<u8>,
}

impl<T: Target> Stream<T> {
    pub(super) fn new(chain: Chain, target: T, on_overflow: OnOverflow, period: Duration) -> Self {
        Self {
            chain,
            target,
            on_overflow,
            period,
            saved: Instant::now(),
            printed: true,
            counts: Counts::default(),
            seen: Vec::new(),
            fresh: Vec::new(),
        }
    }

    /// Prints the lines that are new at the time `now`, and saves the window if that is due.
    ///
    /// # Errors
    /// If a line finds no room and the window may not grow, the lines before it are printed. If
    /// printing fails, the window is never saved again: it has lines that were not printed.
    pub(super) fn push(&mut self, lines: &Lines, now: u64) -> Result<()> {
        self.printed = false;
        self.chain.advance(now);
        let (done, outcome) = self.filter(lines);
        let seen = &self.seen[..done];
        self.counts.lines += done as u64;
        self.counts.dropped += seen.iter().filter(|seen| **seen).count() as u64;
        self.fresh.clear();
        lines.collect(seen, &mut self.fresh);
        if !self.fresh.is_empty() {
            self.target.write(&self.fresh)?;
        }
        self.printed = true;
        outcome?;
        if self.saved.elapsed() >= self.period {
            self.save()?;
        }
        Ok(())
    }

    /// Sets `seen` for the lines of a batch. Returns for how many.
    fn filter(&mut self, lines: &Lines) -> (usize, Result<()>) {
        let hashes = &lines.hashes;
        self.seen.clear();
        self.seen.resize(hashes.len(), false);
        let mut at = 0;
        while let Err(full) = self.chain.push(&hashes[at..], &mut self.seen[at..]) {
            at += full.inserted as usize;
            match self.on_overflow {
                OnOverflow::Grow if self.chain.is_timed() => {
                    if let Err(error) = self.chain.grow() {
                        return (at, Err(self.overflow(at, format_args!("{error:#}"))));
                    }
                }
                OnOverflow::Stop => {
                    return (at, Err(self.overflow(at, "the window may not grow")));
                }
                OnOverflow::Grow | OnOverflow::Pass => {
                    self.seen[at] = self.chain.contains(hashes[at]);
                    if !self.seen[at] {
                        self.pass(at);
                    }
                    at += 1;
                }
            }
        }
        (hashes.len(), Ok(()))
    }

    fn pass(&mut self, at: usize) {
        if self.counts.unfiltered == 0 {
            let (line, keys) = (self.counts.lines + at as u64 + 1, self.chain.capacity());
            output::message(format_args!(
                "warning: line {line}: more than {keys} distinct lines in the window: those that \
                 find no room are printed unfiltered"
            ));
        }
        self.counts.unfiltered += 1;
    }

    fn overflow(&self, at: usize, why: impl std::fmt::Display) -> anyhow::Error {
        let (line, keys) = (self.counts.lines + at as u64 + 1, self.chain.capacity());
        anyhow!("stopped before line {line}: more than {keys} distinct lines in the window: {why}")
    }

    /// Saves the window after the printed lines are durable. Does nothing if a line was not printed.
    pub(super) fn save(&mut self) -> Result<()> {
        if self.printed {
            self.target.sync()?;
            self.target.save(&self.chain)?;
            self.saved = Instant::now();
        }
        Ok(())
    }

    /// Prints what became of the lines on standard error.
    pub(super) fn report(&self, count_dropped: bool, json: bool) {
        let Counts { lines, dropped, unfiltered } = self.counts;
        if json {
            let (filters, bytes) = (self.chain.filters().len(), self.chain.bytes());
            output::message(json!({
                "lines": lines,
                "printed": lines - dropped,
                "dropped": dropped,
                "unfiltered": unfiltered,
                "filters": filters,
                "bytes": bytes,
            }));
            return;
        }
        if unfiltered > 0 {
            output::message(format_args!("{unfiltered} of {lines} lines were printed unfiltered"));
        }
        if count_dropped {
            output::message(format_args!("dropped {dropped} of {lines} lines"));
        }
    }
}

#[cfg(test)]
mod tests;
