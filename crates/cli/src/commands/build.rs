//! `tamis build`: count, build, check, save.

use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use serde_json::json;
use tamis::{AnyFilter, Capability, Goal, Hash, Hasher, Keyed, Kind, Settings};

use crate::args::Build;
use crate::hashing::{Pool, Runs, Tally, hash_keys};
use crate::input::{Batch, Keys, Separator};
use crate::number::{show_rate, show_speed};
use crate::{output, progress, store};

pub(crate) fn run(args: &Build) -> Result<()> {
    let start = Instant::now();
    store::check_target(&args.output)?;
    let once = args.keys.is_some() && args.no_verify;
    let keys = Keys::open(&args.keys_from, args.form.separator(), !once)?;
    let count = match args.keys {
        Some(count) => count,
        None => count_keys(args, &keys)?,
    };
    let (kind, goal, settings) = choose(args, count)?;
    let figures = kind.plan(goal, &settings)?;
    store::check_memory(figures.bytes, args.max_memory)?;

    let hasher = match args.seed {
        Some(seed) => Hasher::new(args.hash, seed),
        None => Hasher::random(args.hash),
    };
    let pass = Pass { args, keys: &keys, hasher: &hasher };
    let (filter, tally) = pass.build(kind, goal, &settings)?;
    if args.keys.is_none() && tally.keys != count {
        return Err(changed());
    }
    if !args.no_verify {
        pass.verify(&filter, tally)?;
    }
    let filter = Keyed::new(hasher, filter);
    store::save(&filter, &args.output)?;
    report(args, filter.filter(), tally.keys, start.elapsed().as_secs_f64())
}

fn changed() -> anyhow::Error {
    anyhow!("the keys changed while they were being read; nothing was saved")
}

fn count_keys(args: &Build, keys: &Keys) -> Result<u64> {
    let bar = progress::bar("counting", keys, args.quiet);
    let count = |batch: &Batch<'_>| {
        bar.inc(batch.read_bytes());
        match batch.separator() {
            Separator::U64 => batch.words().count() as u64,
            _ => batch.keys().count() as u64,
        }
    };
    let mut total = 0;
    keys.each_batch(args.form.threads(), count, |count| {
        total += count;
        Ok(())
    })?;
    bar.finish_and_clear();
    Ok(total)
}

fn choose(args: &Build, keys: u64) -> Result<(Kind, Goal, Settings)> {
    let goal = match (args.bits_per_key, args.bytes) {
        // A cache line is the least that any table takes, for no keys as well.
        (Some(bits), _) => {
            Goal::KeysBytes { keys, bytes: ((keys as f64 * bits / 8.0).ceil() as u64).max(64) }
        }
        (_, Some(bytes)) => Goal::KeysBytes { keys, bytes },
        _ => Goal::KeysFpr { keys, fpr: args.fpr.unwrap_or(0.01) },
    };
    let kind = match args.filter.0 {
        Some(kind) if !args.needs.is_empty() => {
            bail!("--needs chooses a kind, but --filter already says {kind}")
        }
        Some(kind) => kind,
        None if args.needs.is_empty() => super::plan::pick(goal, &[Capability::Insert])?,
        None => super::plan::pick(goal, &super::plan::capabilities(&args.needs))?,
    };
    let mut settings = Settings::default();
    for (name, value) in &args.set {
        settings.set(name, value);
    }
    Ok((kind, goal, settings))
}

/// One reading of all keys.
struct Pass<'a> {
    args: &'a Build,
    keys: &'a Keys,
    hasher: &'a Hasher,
}

impl Pass<'_> {
    /// Workers hash while this thread builds from what they have hashed.
    fn build(&self, kind: Kind, goal: Goal, settings: &Settings) -> Result<(AnyFilter, Tally)> {
        let bar = progress::bar("building", self.keys, self.args.quiet);
        let threads = self.args.form.threads();
        let pool = Pool::<Vec<Hash>>::default();
        let hash = |batch: &Batch<'_>| {
            let mut hashes = pool.take();
            hash_keys(batch, self.hasher, &mut hashes);
            bar.inc(batch.read_bytes());
            let tally = Tally::of(&hashes);
            (hashes, tally)
        };
        // One thread that inserts keeps up with several that hash, and those have the processors
        // already: sharing each run out among more measures slower. A kind that cannot insert
        // does its work when all keys are read, and then has the machine to itself.
        let builders = if kind.can(Capability::Insert) { 1 } else { threads };
        let built = self.keys.pull(threads, hash, |next| {
            let mut runs = Runs::new(next, &pool);
            let filter = kind.build(builders, goal, settings, &mut runs)?;
            Ok((filter, runs.tally))
        });
        bar.finish_and_clear();
        built.map_err(|error| match (error, self.args.keys) {
            (tamis::Error::Full { keys }, Some(_)) => {
                anyhow!("there are more keys than the {keys} of --keys")
            }
            (tamis::Error::Full { .. }, None) => changed(),
            (error, _) => error.into(),
        })
    }

    /// Asks for every key again. That a filter denies a member is the one thing it must not do.
    fn verify(&self, filter: &AnyFilter, built: Tally) -> Result<()> {
        let bar = progress::bar("checking", self.keys, self.args.quiet);
        let pool = Pool::<(Vec<Hash>, Vec<bool>)>::default();
        let ask = |batch: &Batch<'_>| {
            let (mut hashes, mut answers) = pool.take();
            hash_keys(batch, self.hasher, &mut hashes);
            answers.resize(hashes.len(), false);
            filter.contains_each(&hashes, &mut answers);
            bar.inc(batch.read_bytes());
            let tally = Tally::of(&hashes);
            let denied = answers.iter().position(|yes| !yes).map(|at| place(batch, at));
            pool.give((hashes, answers));
            (tally, denied)
        };
        let (mut asked, mut first) = (Tally::default(), None);
        self.keys.each_batch(self.args.form.threads(), ask, |(tally, denied)| {
            asked.add(tally);
            first = first.take().or(denied);
            Ok(())
        })?;
        bar.finish_and_clear();
        match first {
            _ if asked != built => Err(changed()),
            Some(place) => {
                bail!(
                    "{place}: the filter denies this key; this is a fault of tamis, nothing was saved"
                )
            }
            None => Ok(()),
        }
    }
}

/// Where the batch's key of this number is.
fn place(batch: &Batch<'_>, index: usize) -> String {
    let line = match batch.separator() {
        Separator::U64 => index,
        _ => {
            let with_key = batch.lines().enumerate().filter(|(_, line)| !line.key.is_empty());
            with_key.map(|(at, _)| at).nth(index).unwrap_or(0)
        }
    };
    format!("{}:{}", batch.name(), batch.first_line() + line as u64)
}

/// Tells of the keys that were read: a table of digests counts those that agree as one.
fn report(args: &Build, filter: &AnyFilter, keys: u64, seconds: f64) -> Result<()> {
    let (kind, bytes) = (filter.kind(), filter.figures().bytes);
    let bits = super::bits_per_key(bytes, keys);
    let speed = keys as f64 / seconds;
    if args.json {
        return output::print_json([json!({
            "filter": kind.name(),
            "keys": keys,
            "bytes": bytes,
            "bits_per_key": bits,
            "fpr": filter.fpr(),
            "seconds": seconds,
            "keys_per_second": speed,
        })]);
    }
    if !args.quiet {
        let bits = bits.map_or(String::new(), |bits| format!(" ({bits:.2} bits a key)"));
        output::say(format_args!(
            "{}: {kind}, {keys} keys in {bytes} bytes{bits}, {} false positives expected; \
             {seconds:.2} s, {} keys/s",
            args.output.display(),
            show_rate(filter.fpr()),
            show_speed(speed),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::Parser;
    use tamis::HashId;

    use super::*;
    use crate::args::{Cli, Command};

    /// What happens when the keys are these in the first pass and those in the second.
    fn twice(first: &str, second: &str, sized: bool) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("keys");
        let line = ["tamis", "build", "-o", "f", "--filter", "bloom"];
        let room = ["--keys", "100"];
        let line = line.iter().chain(if sized { &room[..] } else { &[] });
        let Command::Build(args) = Cli::parse_from(line).command else { unreachable!() };
        fs::write(&path, first)?;
        let keys = Keys::open(std::slice::from_ref(&path), Separator::Newline, true)?;
        let hasher = Hasher::new(HashId::Fast, [1, 2]);
        let pass = Pass { args: &args, keys: &keys, hasher: &hasher };
        let count = args.keys.map_or_else(|| count_keys(&args, &keys), Ok)?;
        let (kind, goal, settings) = choose(&args, count)?;
        if !sized {
            fs::write(&path, second)?;
        }
        let (filter, tally) = pass.build(kind, goal, &settings)?;
        fs::write(&path, second)?;
        pass.verify(&filter, tally)
    }

    #[test]
    fn keys_that_change_between_passes_are_noticed() {
        for sized in [false, true] {
            twice("a\nb\nc\n", "a\nb\nc\n", sized).unwrap();
        }
        for second in ["a\nb\n", "a\nb\nd\n", "a\nb\nc\nd\n"] {
            let error = twice("a\nb\nc\n", second, true).unwrap_err();
            assert_eq!(error.to_string(), changed().to_string(), "{second:?}");
        }
        let grown = twice("a\n", "a\nb\n", false).unwrap_err();
        assert_eq!(grown.to_string(), changed().to_string());
    }

    #[test]
    fn a_filter_that_denies_a_key_is_not_saved() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys");
        fs::write(&path, "apple\n\npear\nplum\n").unwrap();
        let line = ["tamis", "build", "-o", "f"];
        let Command::Build(args) = Cli::parse_from(line).command else { unreachable!() };
        let keys = Keys::open(std::slice::from_ref(&path), Separator::Newline, true).unwrap();
        let hasher = Hasher::new(HashId::Fast, [1, 2]);
        let pass = Pass { args: &args, keys: &keys, hasher: &hasher };
        let hashes = ["apple", "pear", "plum"].map(|key| hasher.bytes(key.as_bytes()));
        let goal = Goal::KeysFpr { keys: 3, fpr: 1e-9 };
        let of = |keys: &[Hash]| Kind::Bloom.build(1, goal, &Settings::default(), keys).unwrap();
        pass.verify(&of(&hashes), Tally::of(&hashes)).unwrap();
        let error = pass.verify(&of(&hashes[..1]), Tally::of(&hashes)).unwrap_err().to_string();
        let expected = format!("{}:3: the filter denies this key", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }
}
