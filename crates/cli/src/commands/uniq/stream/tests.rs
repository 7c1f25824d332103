//! A target whose calls fail: no line may be lost.

use std::collections::HashSet;
use std::io::Cursor;

use anyhow::bail;
use tamis::{KeyForms, Keyed, Limits, Sliding};

use super::super::chain::Plan;
use super::*;
use crate::args::Window;

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Nothing is done.
    Before,
    /// A part of the lines is printed. A save is done as a whole.
    Half,
    /// All is done, and the process ends.
    After,
}

/// Printed lines and saved files in memory. Call number `fails_at`, from 0, fails.
#[derive(Default)]
struct Memory {
    printed: Vec<u8>,
    synced: usize,
    saved: Option<Vec<Vec<u8>>>,
    calls: Vec<&'static str>,
    fails_at: Option<(usize, Fault)>,
    /// Whether the process has ended: nothing more is done.
    ended: bool,
}

impl Memory {
    fn call(&mut self, name: &'static str) -> Option<Fault> {
        self.calls.push(name);
        let fault = self.fails_at.filter(|(at, _)| *at == self.calls.len() - 1);
        let fault = if self.ended { Some(Fault::Before) } else { fault.map(|(_, fault)| fault) };
        self.ended |= fault == Some(Fault::After);
        fault
    }
}

impl Target for Memory {
    fn write(&mut self, lines: &[u8]) -> Result<()> {
        let fault = self.call("write");
        let len = match fault {
            Some(Fault::Before) => 0,
            Some(Fault::Half) => lines.len() / 2,
            _ => lines.len(),
        };
        self.printed.extend_from_slice(&lines[..len]);
        if fault.is_some() { bail!("write") } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<()> {
        let fault = self.call("sync");
        if fault != Some(Fault::Before) {
            self.synced = self.printed.len();
        }
        if fault.is_some() { bail!("sync") } else { Ok(()) }
    }

    fn save(&mut self, chain: &Chain) -> Result<()> {
        assert_eq!(self.synced, self.printed.len(), "saved before the lines are synced");
        let fault = self.call("save");
        if fault != Some(Fault::Before) {
            let bytes = |filter: &Keyed<Sliding>| filter.to_bytes().unwrap();
            self.saved = Some(chain.filters().iter().map(bytes).collect());
        }
        if fault.is_some() { bail!("save") } else { Ok(()) }
    }
}

fn plan(window: Window, keys: Option<u64>) -> Plan {
    Plan { window: Some(window), keys, fpr: Some(1e-9), max_memory: None }
}

const HOUR: Window = Window::Time(Duration::from_secs(3600));

/// Runs over all of `lines` in batches with the saved window, as a process does that is started
/// again. Returns what it printed, and whether it ended without an error.
fn run(
    plan: &Plan,
    on_overflow: OnOverflow,
    lines: &[String],
    saved: &mut Option<Vec<Vec<u8>>>,
    fails_at: Option<(usize, Fault)>,
) -> (Memory, bool) {
    let chain = match &saved {
        None => Chain::new(plan, KeyForms::BYTES).unwrap(),
        Some(files) => {
            let read = |file: &Vec<u8>| Keyed::read_from(Cursor::new(file), &Limits::default());
            Chain::resume(files.iter().map(|file| read(file).unwrap()).collect(), plan).unwrap()
        }
    };
    let hasher = *chain.hasher();
    let target = Memory { saved: saved.take(), fails_at, ..Memory::default() };
    let mut stream = Stream::new(chain, target, on_overflow, Duration::ZERO);
    let outcome =
        lines.chunks(7).try_for_each(|batch| stream.push(&Lines::of(batch, &hasher), 5000));
    let done = outcome.and(stream.save()).is_ok();
    *saved = stream.target.saved.clone();
    (stream.target, done)
}

fn whole_lines(printed: &[u8]) -> Vec<String> {
    let end = printed.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    String::from_utf8_lossy(&printed[..end]).lines().map(str::to_owned).collect()
}

/// Every second line is a repeat.
fn stream_of(lines: u64) -> Vec<String> {
    (0..lines).map(|line| format!("line {}", if line % 2 == 0 { line } else { line / 4 })).collect()
}

#[test]
fn whichever_call_fails_every_line_is_printed_in_the_end() {
    let lines = stream_of(60);
    let distinct: HashSet<&String> = lines.iter().collect();
    for window in [plan(Window::Lines(1000), None), plan(HOUR, Some(3))] {
        for fault in [Fault::Before, Fault::Half, Fault::After] {
            for at in 0.. {
                let mut saved = None;
                let fails_at = Some((at, fault));
                let (first, done) = run(&window, OnOverflow::Grow, &lines, &mut saved, fails_at);
                if done {
                    assert!(at > 20 && first.calls.len() == at, "{at} calls");
                    let printed = whole_lines(&first.printed);
                    assert_eq!(printed.len(), distinct.len());
                    break;
                }
                let name = first.calls[at];
                // Nothing is saved after the call that failed, unless all lines were printed.
                let saves = first.calls[at + 1..].contains(&"save");
                assert!(!saves || name != "write", "{name} {at}: saved after it failed");
                let (second, done) = run(&window, OnOverflow::Grow, &lines, &mut saved, None);
                assert!(done, "{name} {at}");
                let mut printed = whole_lines(&first.printed);
                printed.extend(whole_lines(&second.printed));
                let printed: HashSet<&String> = printed.iter().collect();
                assert_eq!(printed, distinct, "{name} {at} {fault:?}");
                // What was saved is not printed again.
                let (third, _) = run(&window, OnOverflow::Grow, &lines, &mut saved, None);
                assert_eq!(third.printed, b"");
            }
        }
    }
}

#[test]
fn lines_are_printed_synced_and_saved_in_this_order() {
    let (memory, _) = run(&plan(HOUR, None), OnOverflow::Grow, &stream_of(14), &mut None, None);
    assert_eq!(memory.calls, ["write", "sync", "save", "write", "sync", "save", "sync", "save"]);
}

#[test]
fn a_window_that_stops_has_printed_every_line_before_it() {
    let lines = stream_of(1000);
    let mut saved = None;
    let small = plan(HOUR, Some(100));
    let (stopped, done) = run(&small, OnOverflow::Stop, &lines, &mut saved, None);
    assert!(!done);
    let printed = whole_lines(&stopped.printed);
    assert!(printed.len() >= 100 && printed.len() < 300, "{}", printed.len());
    // The lines that were printed are saved, and only those.
    let (rest, done) = run(&small, OnOverflow::Grow, &lines, &mut saved, None);
    assert!(done);
    let all: Vec<String> = printed.into_iter().chain(whole_lines(&rest.printed)).collect();
    let distinct: HashSet<&String> = lines.iter().collect();
    assert_eq!(all.iter().collect::<HashSet<_>>(), distinct);
    assert_eq!(all.len(), distinct.len(), "a line was printed twice");
}

#[test]
fn a_window_that_passes_prints_every_new_line() {
    let lines = stream_of(2000);
    let small = plan(HOUR, Some(100));
    let (memory, done) = run(&small, OnOverflow::Pass, &lines, &mut None, None);
    assert!(done);
    let printed = whole_lines(&memory.printed);
    let distinct: HashSet<&String> = lines.iter().collect();
    assert_eq!(printed.iter().collect::<HashSet<_>>(), distinct);
    assert!(printed.len() > distinct.len(), "repeats of lines that found no room are printed");
    let small = plan(Window::Lines(10), None);
    let (memory, _) = run(&small, OnOverflow::Stop, &lines, &mut None, None);
    assert!(whole_lines(&memory.printed).len() >= distinct.len());
}
