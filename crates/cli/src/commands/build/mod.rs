//! `tamis build`: count, build, check, save; or for a static kind: gather, solve, save.

mod deny;
mod values;

use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use indicatif::ProgressBar;
use serde_json::json;
use tamis::plan::FIRST_KEYS;
use tamis::{
    AnyFilter, BuildOptions, Capability, Goal, KeyHash, KeyHasher, Keyed, Kind, Progress, Settings,
};

use crate::args::Build;
use crate::errors::failure;
use crate::hashing::{Pool, Runs, Tally, hash_keys};
use crate::input::{Batch, Keys, Separator};
use crate::number::{show_rate, show_size, show_speed};
use crate::{files, memory, output, progress};

pub(crate) fn run(args: &Build) -> Result<()> {
    check_flags(args)?;
    if args.values {
        return values::build(args);
    }
    if !args.deny.is_empty() {
        return deny::build(args);
    }
    let start = Instant::now();
    files::check_target(&args.output)?;
    let named = args.filter.0.filter(|kind| kind.can(Capability::Static));
    let grows = args.filter.0.is_some_and(|kind| kind.can(Capability::Grow));
    let once = named.is_some() || (args.keys.is_some() || grows) && args.no_verify;
    let keys = Keys::open(&args.keys_from, args.form.separator(), !once)?;
    let hasher = hasher(args);
    let pass = Pass { args, keys: &keys, hasher: &hasher };
    let (filter, tally) = match (named, args.keys) {
        (Some(_), _) => pass.solve(choose(args, 0)?)?,
        (None, Some(count)) => pass.build_checked(choose(args, count)?)?,
        (None, None) if grows => pass.build_checked(choose(args, FIRST_KEYS)?)?,
        (None, None) => {
            let count = count_keys(args, &keys)?;
            let built = pass.build_checked(choose(args, count)?)?;
            if built.1.keys != count {
                return Err(changed());
            }
            built
        }
    };
    let filter = Keyed::new(hasher, filter);
    files::save(&filter, &args.output)?;
    report(args, filter.filter(), tally.keys, None, start.elapsed().as_secs_f64())
}

/// Settings that have a flag of their own.
fn flags(args: &Build) -> impl Iterator<Item = (&'static str, &String)> {
    let flags =
        [("k", &args.k), ("efficiency", &args.efficiency), ("construction", &args.construction)];
    flags.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)))
}

/// That the kind which is named has what there are flags for.
fn check_flags(args: &Build) -> Result<()> {
    let has = |kind: &Kind, name: &str| kind.settings().iter().any(|setting| setting.name == name);
    for (name, _) in flags(args) {
        if !args.filter.0.is_some_and(|kind| has(&kind, name)) {
            let able = Kind::ALL.iter().filter(|kind| has(kind, name)).map(|kind| kind.name());
            let able = able.collect::<Vec<_>>().join(", ");
            bail!("--{name} takes a --filter that has such a setting: {able}");
        }
    }
    match (args.time_limit, args.filter.0) {
        (None, _) | (_, Some(Kind::Sat)) => Ok(()),
        _ => bail!("--time-limit takes --filter {}: no other kind searches", Kind::Sat),
    }
}

/// What hashes the keys.
pub(super) fn hasher(args: &Build) -> KeyHasher {
    match args.seed {
        Some(seed) => KeyHasher::new(args.hash, seed),
        None => KeyHasher::random(args.hash),
    }
}

pub(super) fn changed() -> anyhow::Error {
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

/// What is asked for, of so many keys.
pub(super) fn goal(args: &Build, keys: u64) -> Goal {
    match (args.bits_per_key, args.bytes) {
        // A cache line is the least that any table takes, for no keys as well.
        (Some(bits), _) => {
            Goal::KeysBytes { keys, bytes: ((keys as f64 * bits / 8.0).ceil() as u64).max(64) }
        }
        (_, Some(bytes)) => Goal::KeysBytes { keys, bytes },
        _ => Goal::KeysFpr { keys, fpr: args.fpr.unwrap_or(0.01) },
    }
}

/// A kind that is named, or the best for so many keys.
fn choose(args: &Build, keys: u64) -> Result<(Kind, Goal, Settings)> {
    let goal = goal(args, keys);
    let kind = match args.filter.0 {
        Some(kind) if !args.needs.is_empty() => {
            bail!("--needs chooses a kind, but --filter already says {kind}")
        }
        Some(kind) => kind,
        // Room for more keys is of use only to a kind that takes them.
        None if args.needs.is_empty() && args.keys.is_some() => {
            super::plan::pick(goal, &[Capability::Insert])?
        }
        None => super::plan::pick(goal, &super::plan::capabilities(&args.needs))?,
    };
    Ok((kind, goal, settings(args)))
}

/// What is set beyond that.
pub(super) fn settings(args: &Build) -> Settings {
    let mut settings = Settings::default();
    for (name, value) in &args.set {
        settings.set(name, value);
    }
    for (name, value) in flags(args) {
        settings.set(name, value);
    }
    settings
}

/// What reading takes beside the filter and the keys that are gathered: blocks, and runs of hashes
/// on their way.
fn reading_bytes(threads: usize) -> u64 {
    (16 << 20) + threads as u64 * (10 << 20)
}

/// One reading of all keys.
pub(super) struct Pass<'a> {
    pub(super) args: &'a Build,
    pub(super) keys: &'a Keys,
    pub(super) hasher: &'a KeyHasher,
}

impl Pass<'_> {
    /// Builds, and asks for every key again.
    fn build_checked(&self, chosen: (Kind, Goal, Settings)) -> Result<(AnyFilter, Tally)> {
        let (kind, goal, settings) = &chosen;
        if kind.can(Capability::Static) {
            return self.solve(chosen);
        }
        let figures = kind.plan(*goal, settings)?;
        memory::check_memory(figures.bytes, self.args.max_memory)?;
        let (filter, tally) = self.build(*kind, *goal, settings)?;
        if !self.args.no_verify {
            self.verify(&filter, tally)?;
        }
        Ok((filter, tally))
    }

    /// Builds a static kind, which gathers and counts the keys itself, and which asks for every
    /// one that it gathered before it is done: they are read once.
    fn solve(&self, (kind, _, settings): (Kind, Goal, Settings)) -> Result<(AnyFilter, Tally)> {
        let goal = |count| match self.args.keys {
            Some(most) if count > most => Err(tamis::Error::Capacity { capacity: most }),
            most => Ok(goal(self.args, most.unwrap_or(count))),
        };
        let build = |means: &BuildOptions<'_>, bar: &ProgressBar| {
            self.hash_into(bar, |keys| kind.build_fitting(means, goal, &settings, keys))
        };
        self.with_means(build, |error| self.explain(error))
    }

    /// Has a static kind built with the memory and the threads that it may use, and shows how far
    /// it is; `explain` tells of what went wrong other than with those.
    pub(super) fn with_means<R>(
        &self,
        build: impl FnOnce(&BuildOptions<'_>, &ProgressBar) -> Result<R, tamis::Error>,
        explain: impl FnOnce(tamis::Error) -> anyhow::Error,
    ) -> Result<R> {
        let (args, threads) = (self.args, self.args.form.threads());
        let reading = progress::bar("reading", self.keys, args.quiet);
        let solving = OnceLock::new();
        let watcher = |now: &Progress| {
            reading.finish_and_clear();
            let bar = solving.get_or_init(|| progress::solving(now.keys, args.quiet));
            progress::show(bar, now);
        };
        let mut means = BuildOptions::new().threads(threads).on_progress(&watcher);
        if let Some(limit) = args.time_limit {
            means = means.time_limit(limit);
        }
        let limit = args.max_memory.or_else(memory::available);
        if let Some(limit) = limit {
            let folder = args.scratch.as_deref().unwrap_or(files::folder_of(&args.output));
            means = means.max_memory(limit.saturating_sub(reading_bytes(threads)), folder);
        }
        let built = build(&means, &reading);
        reading.finish_and_clear();
        if let Some(bar) = solving.get() {
            bar.finish_and_clear();
        }
        built.map_err(|error| match (error, limit) {
            (tamis::Error::MemoryLimit { needs, .. }, Some(limit)) => {
                let needs = (needs + reading_bytes(threads)).div_ceil(1 << 20);
                let limit = show_size(limit);
                match args.max_memory {
                    Some(_) => anyhow!(
                        "the build takes {needs} MiB of memory, more than the {limit} of --max-memory"
                    ),
                    None => anyhow!(
                        "the build takes {needs} MiB of memory, but only {limit} are available"
                    ),
                }
            }
            (tamis::Error::Scratch { folder, error }, _) => {
                failure(format_args!("{}: laying keys aside", folder.display()), &error)
            }
            (error @ tamis::Error::Stopped { .. }, _) => anyhow!("{error}; nothing was saved"),
            // It says all that its source would say again.
            (tamis::Error::Source(error), _) => anyhow!("{error}"),
            (error, _) => explain(error),
        })
    }

    /// Builds any other kind.
    fn build(&self, kind: Kind, goal: Goal, settings: &Settings) -> Result<(AnyFilter, Tally)> {
        let bar = progress::bar("building", self.keys, self.args.quiet);
        // One thread that inserts keeps up with several that hash, and those have the processors
        // already: sharing each run out among more measures slower.
        let built = self.hash_into(&bar, |keys| kind.build(1, goal, settings, keys));
        built.map_err(|error| self.explain(error))
    }

    /// Workers hash while this thread builds from what they have hashed.
    pub(super) fn hash_into(
        &self,
        bar: &ProgressBar,
        build: impl FnOnce(&mut Runs<'_>) -> Result<AnyFilter, tamis::Error>,
    ) -> Result<(AnyFilter, Tally), tamis::Error> {
        let pool = Pool::<Vec<KeyHash>>::default();
        let hash = |batch: &Batch<'_>| {
            let mut hashes = pool.take();
            hash_keys(batch, self.hasher, &mut hashes);
            bar.inc(batch.read_bytes());
            let tally = Tally::of(&hashes);
            (hashes, tally)
        };
        let built = self.keys.pull(self.args.form.threads(), hash, |next| {
            let mut runs = Runs::new(next, &pool);
            let filter = build(&mut runs)?;
            Ok((filter, runs.tally))
        });
        bar.finish_and_clear();
        built
    }

    fn explain(&self, error: tamis::Error) -> anyhow::Error {
        match (error, self.args.keys) {
            (tamis::Error::Capacity { capacity: keys }, Some(_)) => {
                anyhow!("there are more keys than the {keys} of --keys")
            }
            (tamis::Error::Full { .. }, None) => changed(),
            (error, _) => error.into(),
        }
    }

    /// Asks for every key again. That a filter denies a member is the one thing it must not do.
    pub(super) fn verify(&self, filter: &AnyFilter, built: Tally) -> Result<()> {
        let bar = progress::bar("checking", self.keys, self.args.quiet);
        let pool = Pool::<(Vec<KeyHash>, Vec<bool>)>::default();
        let ask = |batch: &Batch<'_>| {
            let (mut hashes, mut answers) = pool.take();
            hash_keys(batch, self.hasher, &mut hashes);
            answers.resize(hashes.len(), false);
            filter.contains_batch(&hashes, &mut answers);
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
pub(super) fn place(batch: &Batch<'_>, index: usize) -> String {
    let line = match batch.separator() {
        Separator::U64 => index,
        _ => {
            let with_key = batch.lines().enumerate().filter(|(_, line)| !line.key.is_empty());
            with_key.map(|(at, _)| at).nth(index).unwrap_or(0)
        }
    };
    format!("{}:{}", batch.name(), batch.first_line() + line as u64)
}

/// Tells of the keys that were read: a table of digests counts those that agree as one. Of a
/// static kind it is known that they are one key.
pub(super) fn report(
    args: &Build,
    filter: &AnyFilter,
    keys: u64,
    denied: Option<u64>,
    seconds: f64,
) -> Result<()> {
    let (kind, bytes) = (filter.kind(), filter.figures().bytes);
    let duplicates = kind.can(Capability::Static).then(|| keys - filter.len());
    let bits = super::bits_per_key(bytes, keys - duplicates.unwrap_or(0));
    let efficiency = super::efficiency(bits, filter.fpr());
    let speed = keys as f64 / seconds;
    let peak = memory::peak();
    if args.json {
        let mut object = json!({
            "filter": kind.name(),
            "keys": keys,
            "duplicates": duplicates,
            "bytes": bytes,
            "bits_per_key": bits,
            "fpr": filter.fpr(),
            "efficiency": efficiency,
            "seconds": seconds,
            "keys_per_second": speed,
            "peak_bytes": peak,
        });
        if let Some(denied) = denied {
            object["denied"] = denied.into();
        }
        return output::print_json([object]);
    }
    if !args.quiet {
        let share = efficiency.filter(|_| kind.can(Capability::Static));
        let share = share.map_or(String::new(), |share| format!(", efficiency {share:.3}"));
        let bits = bits.map_or(String::new(), |bits| format!(" ({bits:.2} bits a key{share})"));
        let twice = match duplicates {
            None | Some(0) => String::new(),
            Some(1) => ", of which 1 was a duplicate,".into(),
            Some(more) => format!(", of which {more} were duplicates,"),
        };
        let peak = peak.map_or(String::new(), |peak| format!(", {} of memory", show_size(peak)));
        output::message(format_args!(
            "{}: {kind}, {keys} keys{twice} in {bytes} bytes{bits}, {} false positives expected; \
             {seconds:.2} s, {} keys/s{peak}",
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
        let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
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
        let line = ["tamis", "build", "-o", "f", "--filter", "bloom"];
        let Command::Build(args) = Cli::parse_from(line).command else { unreachable!() };
        let keys = Keys::open(std::slice::from_ref(&path), Separator::Newline, true).unwrap();
        let hasher = KeyHasher::new(HashId::Fast, [1, 2]);
        let pass = Pass { args: &args, keys: &keys, hasher: &hasher };
        let hashes = ["apple", "pear", "plum"].map(|key| hasher.bytes(key.as_bytes()));
        let goal = Goal::KeysFpr { keys: 3, fpr: 1e-9 };
        let of = |keys: &[KeyHash]| Kind::Bloom.build(1, goal, &Settings::default(), keys).unwrap();
        pass.verify(&of(&hashes), Tally::of(&hashes)).unwrap();
        let error = pass.verify(&of(&hashes[..1]), Tally::of(&hashes)).unwrap_err().to_string();
        let expected = format!("{}:3: the filter denies this key", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }
}
