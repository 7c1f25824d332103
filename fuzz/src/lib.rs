//! What the fuzzers call: one function a target, any bytes in, a panic where something is wrong.
//!
//! They are plain functions, so `tests/replay.rs` runs them on every build with what was found so
//! far and with much that is random; `fuzz_targets/` hands them to libFuzzer (`cargo xtask fuzz`).
//! Kinds come from the registry.

mod foreign;
mod hostile;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use tamis::plan::recommend;
use tamis::{
    BuildOptions, Capability, Error, Goal, HashId, Key, KeyHash, KeyHasher, Kind, Limits, Reader,
    Settings, Sizing,
};
use tamis_conformance::attack::{Parts, recompute};
use tamis_conformance::files::{golden, survive};
use tamis_conformance::keys::Random;
use tamis_conformance::model::{Model, Op};
use tamis_ksat::{Formula, Outcome, Watch, solve};

pub use self::foreign::foreign;
pub use self::hostile::{Opened, hostile, run};

/// Queries to a filter that came of hostile bytes.
const QUERIES: usize = 64;

/// A container of any bytes, and of the same with checksums that fit.
pub fn container(bytes: &[u8]) {
    let mut forged = bytes.to_vec();
    recompute(&mut forged);
    for bytes in [bytes, &forged] {
        if let Ok(mut reader) = Reader::read(bytes, &Limits::default()) {
            assert_eq!(reader.bytes(), bytes.len() as u64);
            let _ = reader.verify();
            let mut shape = reader.shape().expect("it was checked on opening");
            let _ = shape.next(0..=u64::MAX, "any");
            let _ = reader.finish();
        }
        // A tight limit is kept.
        let tight = Limits { bytes: bytes.len() as u64 / 2 };
        assert!(Reader::read(bytes, &tight).is_err());
    }
}

/// Filters of any bytes: as they are, with checksums that fit, and as changes to the golden file
/// of the kind that the first byte names.
pub fn read(bytes: &[u8]) {
    let mut random = Random::new(bytes.len() as u64);
    survive(bytes, &mut random, QUERIES);
    let mut forged = bytes.to_vec();
    recompute(&mut forged);
    survive(&forged, &mut random, QUERIES);
    let mut input = Input(bytes);
    let kind = input.kind();
    let mut parts = golden_parts(kind).clone();
    while !input.0.is_empty() {
        let (what, index, value) = (input.byte(), usize::from(input.byte()), input.number());
        let section = usize::from(what >> 2) % parts.sections.len();
        match what & 3 {
            0 => parts.rest[index % 3] = value,
            1 => set(&mut parts.sections[0].1, index, value),
            2 => set(&mut parts.sections[section].1, index, value),
            _ => parts.sections[section].1.resize(value as usize % 512, u64::MAX),
        }
    }
    survive(&parts.forge(), &mut random, QUERIES);
}

/// A file for the solver of any bytes, and of words that such files are made of. What is read can be
/// written and read again; what is solved is solved.
pub fn dimacs(bytes: &[u8]) {
    // Now and then what is wrong; else a formula of three clauses.
    const WORDS: [&str; 16] = [
        "1", "-1", "2", "-2", "3", "-3", "4", "-4", "5", "-5", "0", "0", "\n", "\nc 0\n", "\n%\n",
        "6",
    ];
    let mut ends = 0;
    let words = bytes.iter().map(|byte| WORDS[usize::from(byte % 16)]).take_while(|word| {
        ends += u32::from(*word == "0");
        ends < 3
    });
    let made = format!("p cnf 5 3\n{} 0", words.collect::<Vec<_>>().join(" "));
    for text in [bytes, made.as_bytes()] {
        let Ok(formula) = Formula::read(text) else { continue };
        let mut written = Vec::new();
        formula.write(&mut written).expect("memory takes it");
        assert_eq!(Formula::read(&written[..]).expect("it was written so"), formula);
        // A header may name more variables than there is time for.
        if formula.vars() < 1000 {
            let settings = tamis_ksat::Settings { flips: 1000, sweeps: 10, ..Default::default() };
            if let Outcome::Solved(solution) = solve(&formula, &settings, &Watch::default()) {
                assert_eq!(formula.unsatisfied(&solution.assignment), 0);
            }
        }
    }
}

/// The golden file of `kind`, read once: a fuzzer is as good as it is fast.
fn golden_parts(kind: Kind) -> &'static Parts {
    static GOLDEN: LazyLock<Vec<(Kind, Parts)>> =
        LazyLock::new(|| Kind::ALL.iter().map(|kind| (*kind, Parts::of(&golden(*kind)))).collect());
    let (_, parts) = GOLDEN.iter().find(|(other, _)| *other == kind).expect("one of each kind");
    parts
}

fn set(words: &mut [u64], index: usize, value: u64) {
    if !words.is_empty() {
        let at = index % words.len();
        words[at] = value;
    }
}

/// Operations on two small filters, against the truth.
pub fn ops(bytes: &[u8]) {
    let mut input = Input(bytes);
    let kind = input.kind();
    if kind.can(Capability::Map) {
        return values(kind, &mut input);
    }
    let keys = u64::from(input.byte());
    let fpr = [0.3, 0.1, 0.01, 1e-3][usize::from(input.byte() & 3)];
    let settings = input.settings(kind);
    let seed = [u64::from(input.byte()), 0];
    let Some(mut model) = Model::new(kind, keys, fpr, &settings, seed) else { return };
    while !input.0.is_empty() {
        let (what, key) = (input.byte(), u16::from(input.byte()));
        model.step(Op::from_numbers(what, key));
    }
    model.compare_all(0);
    model.compare_all(1);
}

/// A small map of any entries, and then any reads and writes, against an exact one.
fn values(kind: Kind, input: &mut Input<'_>) {
    let hasher = KeyHasher::new(HashId::Fast, [input.byte().into(), 0]);
    let (mut truth, mut torn) = (BTreeMap::new(), false);
    let entries: Vec<(KeyHash, u64)> = (0..input.byte())
        .map(|_| {
            let (key, value) = (input.byte(), input.number());
            torn |= *truth.entry(key).or_insert(value) != value;
            (key.hash_with(&hasher), value)
        })
        .collect();
    let sizing = Sizing::fpr(0.01);
    let mut filter = match kind.build_map(&sizing, &mut &entries[..], &BuildOptions::new()) {
        Ok(filter) if !torn => filter,
        Err(Error::Conflict { .. }) if torn => return,
        other => panic!("two values for one key: {torn}, {:?}", other.err()),
    };
    let bits = filter.value_bits().expect("a kind with values");
    while !input.0.is_empty() {
        let (key, value) = (input.byte(), input.number() >> (64 - bits));
        match (filter.set(key.hash_with(&hasher), value).expect("as wide"), truth.get_mut(&key)) {
            (old, Some(known)) => assert_eq!(old, Some(std::mem::replace(known, value))),
            // It passes for a key, and its value may be somebody's now: no more is certain.
            (Some(_), None) => return,
            (None, None) => {}
        }
        for (key, value) in &truth {
            assert_eq!(filter.get(key.hash_with(&hasher)).expect("as above"), Some(*value));
        }
    }
}

/// Wishes of any numbers: a shape that grants them, or a refusal in one line.
pub fn plan(bytes: &[u8]) {
    let mut input = Input(bytes);
    let kind = input.kind();
    let settings = input.settings(kind);
    let which = input.byte();
    let (keys, bytes, fpr) = (input.number(), input.number(), input.rate());
    let goal = match which % 3 {
        0 => Goal::KeysFpr { keys, fpr },
        1 => Goal::KeysBytes { keys, bytes },
        _ => Goal::BytesFpr { bytes, fpr },
    };
    match kind.plan(goal, &settings) {
        Ok(figures) => {
            let kept = figures.fpr <= fpr * (1.0 + 1e-9);
            let met = match goal {
                Goal::KeysFpr { keys, .. } => figures.keys == keys && kept,
                Goal::KeysBytes { keys, bytes } => figures.keys == keys && figures.bytes <= bytes,
                Goal::BytesFpr { bytes, .. } => figures.bytes <= bytes && kept,
                other => panic!("{other:?} is not covered"),
            };
            assert!(met && (0.0..=1.0).contains(&figures.fpr), "{kind} {goal:?}: {figures:?}");
        }
        Err(error) => refused(&error),
    }
    if which >= 240 {
        let needs = &Capability::ALL[..usize::from(which) % 3];
        recommend(goal, needs)
            .map_or_else(|error| refused(&error), |advice| assert!(!advice.is_empty()));
    }
}

fn refused(error: &Error) {
    let known = matches!(
        error,
        Error::Fpr(_) | Error::Limit { .. } | Error::Infeasible { .. } | Error::Setting { .. }
    );
    assert!(known && !error.to_string().contains('\n'), "{error}");
}

/// Bytes to choose by; past the end they are zero.
pub(crate) struct Input<'a>(&'a [u8]);

impl Input<'_> {
    pub(crate) fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *byte
    }

    pub(crate) fn kind(&mut self) -> Kind {
        Kind::ALL[usize::from(self.byte()) % Kind::ALL.len()]
    }

    /// Any number, with every magnitude as likely: a shift and seven bytes.
    pub(crate) fn number(&mut self) -> u64 {
        let shift = self.byte() & 63;
        let word = u64::from_le_bytes(std::array::from_fn(|_| self.byte()));
        word >> shift
    }

    /// A rate, mostly one that could be meant.
    fn rate(&mut self) -> f64 {
        match self.byte() {
            255 => f64::from_bits(self.number()),
            byte => f64::exp2(-f64::from(byte) / 4.0),
        }
    }

    /// Nothing set, or one of the kind's settings at any small value.
    fn settings(&mut self, kind: Kind) -> Settings {
        let (which, value) = (usize::from(self.byte()), self.byte());
        let mut settings = Settings::default();
        if let Some(setting) = kind.settings().get(which % (kind.settings().len() + 1)) {
            let value = if value < 128 { u64::from(value) } else { 1 << (value & 31) };
            settings.set(setting.name, value);
        }
        settings
    }
}
