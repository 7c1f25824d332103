//! `tamis build`: builds a filter, checks every key, and saves it.

mod deny;
mod foreign;
mod solution;
mod values;

use std::sync::OnceLock;
use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use indicatif::ProgressBar;
use serde_json::json;
use tamis::plan::FIRST_KEYS;
use tamis::{
    AnyFilter, BuildOptions, Capability, Filter, HashId, KeyHash, KeyHasher, Keyed, Kind, Progress,
    Sizing,
};
use tamis_interop::KeyType;

use crate::args::Build;
use crate::duplicates::{Distinct, DistinctRuns, Inserted};
use crate::errors::failure;
use crate::hashing::{Pool, Runs, Tally, each_run, hash_keys, hash_typed};
use crate::input::{Batch, Keys, Separator};
use crate::number::{show_rate, show_size, show_size_up, show_speed};
use crate::{files, memory, output, progress};

pub(crate) fn run(args: &Build) -> Result<()> {
    check_flags(args)?;
    files::check_json(&args.output, args.json)?;
    files::check_target(&args.output)?;
    if let Some(format) = args.format {
        return foreign::build(args, format);
    }
    if args.values {
        return values::build(args);
    }
    if !args.solution.is_empty() {
        return solution::build(args);
    }
    if !args.deny.is_empty() {
        return deny::build(args);
    }
    let start = Instant::now();
    let can = |capability| args.filter.0.is_some_and(|kind| kind.can(capability));
    // A static kind counts its keys, and one that grows needs no count. For any other kind, and to choose
    // one, the keys are counted in a pass of their own.
    let counts = args.keys.is_none() && !can(Capability::Static) && !can(Capability::Grow);
    let once = !counts && (can(Capability::Static) || args.no_verify);
    let keys = Keys::open(&args.keys_from, args.form.separator(), !once)?;
    let counting = hasher(args, args.filter.0)?;
    let pass = Pass { args, keys: &keys, hasher: &counting };
    let counted = if counts { Some(pass.count()?) } else { None };
    let kind = choose(args, args.keys.or(counted).unwrap_or(FIRST_KEYS))?;
    let hasher = hasher(args, Some(kind))?;
    kind.check_hash(hasher.id())?;
    let pass = Pass { hasher: &hasher, ..pass };
    let Built { filter, tally, duplicates } =
        pass.build(kind, &sizing(args, kind, counted), once)?;
    if counted.is_some_and(|counted| counted != tally.keys - duplicates.unwrap_or(0)) {
        return Err(changed());
    }
    if !args.no_verify && !kind.can(Capability::Static) {
        pass.verify(&filter, tally)?;
    }
    save(args, hasher, filter, Read { keys: tally.keys, duplicates, denied: None }, start)
}

/// A filter of all keys.
struct Built {
    filter: AnyFilter,
    tally: Tally,
    /// The repeated keys that were dropped, if they were.
    duplicates: Option<u64>,
}

/// What was read for a filter.
struct Read {
    keys: u64,
    duplicates: Option<u64>,
    denied: Option<u64>,
}

impl Read {
    /// Describes the keys of a static filter, which has dropped the repeated ones.
    fn of_static(filter: &AnyFilter, keys: u64, denied: Option<u64>) -> Self {
        Self { keys, duplicates: Some(keys - filter.len()), denied }
    }
}

/// Saves the filter with the form of its keys, and reports it.
fn save(
    args: &Build,
    hasher: KeyHasher,
    filter: AnyFilter,
    read: Read,
    start: Instant,
) -> Result<()> {
    let forms = args.key_type.map_or(args.form.key_forms(), KeyType::form);
    let filter = Keyed::new(hasher, filter).with_key_forms(forms);
    files::save(&filter, &args.output)?;
    report(args, filter.filter(), &read, start.elapsed().as_secs_f64())
}

/// Returns the settings that have flags of their own.
fn flags(args: &Build) -> impl Iterator<Item = (&'static str, &String)> {
    let flags =
        [("k", &args.k), ("efficiency", &args.efficiency), ("construction", &args.construction)];
    flags.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)))
}

/// Checks that the kind of `--filter` has the settings whose flags are given.
fn check_flags(args: &Build) -> Result<()> {
    let has = |kind: &Kind, name: &str| kind.settings().iter().any(|setting| setting.name == name);
    for (name, _) in flags(args) {
        if !args.filter.0.is_some_and(|kind| has(&kind, name)) {
            let able = Kind::ALL.iter().filter(|kind| has(kind, name)).map(|kind| kind.name());
            let able = able.collect::<Vec<_>>().join(", ");
            bail!("--{name} requires a --filter with that setting: {able}");
        }
    }
    if let (Some(_), Some(kind)) = (args.range_length, args.filter.0) {
        super::plan::require_ranges(kind)?;
    }
    Ok(())
}

/// Returns whether the filter is to answer ranges.
fn has_ranges(args: &Build) -> bool {
    let of_kind = args.filter.0.is_some_and(|kind| kind.can(Capability::Range));
    of_kind || args.range_length.is_some() || args.needs.contains(&Capability::Range)
}

/// Returns the hasher for the keys of a kind, if it is known.
fn hasher(args: &Build, kind: Option<Kind>) -> Result<KeyHasher> {
    let fallback = match kind {
        _ if has_ranges(args) => HashId::Ordered,
        Some(kind) => kind.default_hash(),
        None => HashId::Fast,
    };
    let hash = args.hash.unwrap_or(fallback);
    Ok(match args.seed {
        Some(seed) => KeyHasher::new(hash, seed),
        None => KeyHasher::random(hash)?,
    })
}

fn changed() -> anyhow::Error {
    anyhow!("the keys changed while they were being read; nothing was saved")
}

/// Returns the size that the flags state, without a capacity.
fn size(args: &Build) -> Sizing {
    let sizing = match (args.bits_per_key, args.bytes) {
        (Some(bits), _) => Sizing::bits_per_key(bits),
        (_, Some(bytes)) => Sizing::bytes(bytes),
        _ => Sizing::fpr(args.fpr.unwrap_or(0.01)),
    };
    let sizing = args.set.iter().fold(sizing, |sizing, (name, value)| sizing.set(name, &**value));
    let sizing = flags(args).fold(sizing, |sizing, (name, value)| sizing.set(name, &**value));
    match args.range_length {
        Some(length) => sizing.set("range_length", length),
        None => sizing,
    }
}

/// Returns the size with the capacity that the kind needs: that of `--keys`, else the counted keys.
fn sizing(args: &Build, kind: Kind, counted: Option<u64>) -> Sizing {
    let first = kind.can(Capability::Grow).then_some(FIRST_KEYS);
    let counted = counted.filter(|_| !kind.can(Capability::Static));
    match args.keys.or(first).or(counted) {
        Some(keys) => size(args).capacity(keys),
        None => size(args),
    }
}

/// Returns the kind of `--filter`, or the best one for `keys` keys.
fn choose(args: &Build, keys: u64) -> Result<Kind> {
    let goal = size(args).goal(keys);
    match args.filter.0 {
        Some(kind) if !args.needs.is_empty() => {
            bail!("--needs chooses a kind, but --filter already states {kind}")
        }
        Some(kind) => Ok(kind),
        None if args.range_length.is_some() => {
            let needs = [&args.needs[..], &[Capability::Range]].concat();
            super::plan::pick(goal, &needs, args.distinct)
        }
        // A capacity beyond the keys at hand is useful only to a kind that inserts.
        None if args.needs.is_empty() && args.keys.is_some() => {
            super::plan::pick(goal, &[Capability::Insert], args.distinct)
        }
        None => super::plan::pick(goal, &args.needs, args.distinct),
    }
}

/// Returns the kind of `--filter` if it has the capability, or the first kind that has it.
fn kind_with(args: &Build, capability: Capability) -> Result<Kind> {
    match args.filter.0 {
        Some(kind) if kind.can(capability) => Ok(kind),
        Some(kind) => Err(tamis::Error::Unsupported { kind, capability }.into()),
        None => {
            let able = Kind::ALL.iter().find(|kind| kind.can(capability));
            Ok(*able.expect("every capability has a kind"))
        }
    }
}

/// Returns the memory that reading takes beside filter and keys: blocks of input, and runs of hashes in
/// flight.
fn reading_bytes(threads: usize) -> u64 {
    (16 << 20) + threads as u64 * (10 << 20)
}

/// One pass over all keys.
struct Pass<'a> {
    args: &'a Build,
    keys: &'a Keys,
    hasher: &'a KeyHasher,
}

impl Pass<'_> {
    /// Counts the keys; with --distinct, each once.
    fn count(&self) -> Result<u64> {
        let (args, keys) = (self.args, self.keys);
        let bar = progress::bar("counting", keys, args.quiet);
        if args.distinct {
            let (mut distinct, mut new) = (Distinct::new(args.max_memory), Vec::new());
            each_run(keys, args.form.threads(), self.hasher, &bar, |hashes| {
                new.clear();
                distinct.take_new(hashes, &mut new)
            })?;
            return Ok(distinct.len());
        }
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

    /// Builds a set. If the keys can be read only `once`, the error for a key that occurs too often does
    /// not name it.
    fn build(&self, kind: Kind, sizing: &Sizing, once: bool) -> Result<Built> {
        let mut distinct = Distinct::new(self.args.max_memory);
        let drops = self.args.distinct && !kind.can(Capability::Static);
        let build = |options: &BuildOptions<'_>, bar: &ProgressBar| {
            self.hash_into(bar, |keys| match drops {
                true => kind.build(sizing, &mut DistinctRuns::new(keys, &mut distinct), options),
                false => kind.build(sizing, keys, options),
            })
        };
        let explain = |error| match (error, self.args.keys) {
            (tamis::Error::Full { .. }, _) if once || self.args.key_type.is_some() => anyhow!(
                "a key occurs more often than {kind} can hold; use --distinct to insert each key once"
            ),
            (tamis::Error::Full { .. }, _) => {
                self.explain_full(kind, sizing).unwrap_or_else(|error| error)
            }
            (tamis::Error::Capacity { capacity }, Some(_)) => {
                anyhow!("there are more keys than the {capacity} of --keys")
            }
            (tamis::Error::Capacity { .. }, None) => changed(),
            (error, _) => error.into(),
        };
        let (filter, tally) = self.with_options(kind, build, explain)?;
        let duplicates = match kind.can(Capability::Static) {
            true => Some(tally.keys - filter.len()),
            false => drops.then(|| tally.keys - distinct.len()),
        };
        Ok(Built { filter, tally, duplicates })
    }

    /// Describes the key that occurs more often than the filter can hold.
    fn explain_full(&self, kind: Kind, sizing: &Sizing) -> Result<anyhow::Error> {
        let mut filter = kind.build(sizing, &mut &[][..], &BuildOptions::new())?;
        let (separator, threads) = (self.args.form.separator(), self.args.form.threads());
        let inserted = Inserted { keys: self.keys, hasher: self.hasher, separator, threads };
        Ok(match inserted.first_refused(&mut filter)? {
            Some(refused) => inserted
                .explain(&mut filter, refused)?
                .unwrap_or_else(|| anyhow!("the {kind} filter is full with {} keys", filter.len())),
            None => changed(),
        })
    }

    /// Calls `build` with the options of the flags, and shows progress. `explain` describes errors of
    /// the keys.
    fn with_options<R>(
        &self,
        kind: Kind,
        build: impl FnOnce(&BuildOptions<'_>, &ProgressBar) -> Result<R, tamis::Error>,
        explain: impl FnOnce(tamis::Error) -> anyhow::Error,
    ) -> Result<R> {
        let (args, threads) = (self.args, self.args.form.threads());
        let is_static = kind.can(Capability::Static);
        let reading =
            progress::bar(if is_static { "reading" } else { "building" }, self.keys, args.quiet);
        let solving = OnceLock::new();
        let show = |now: &Progress| {
            reading.finish_and_clear();
            let bar = solving.get_or_init(|| progress::solving(now.keys, args.quiet));
            progress::show(bar, now);
        };
        let mut options = BuildOptions::new().seed(self.hasher.seed());
        if let Some(limit) = args.time_limit {
            options = options.time_limit(limit);
        }
        let limit = args.max_memory.or_else(memory::available);
        if is_static {
            // Other kinds show their progress by what is read. One thread that inserts keeps up with
            // the threads that hash, which have the processors already.
            options = options.threads(threads).on_progress(&show);
        }
        if let Some(limit) = limit {
            let folder = args.scratch.clone().unwrap_or_else(|| files::scratch_of(&args.output));
            options = options.max_memory(limit.saturating_sub(reading_bytes(threads)), folder);
        }
        let built = build(&options, &reading);
        reading.finish_and_clear();
        if let Some(bar) = solving.get() {
            bar.finish_and_clear();
        }
        built.map_err(|error| match (error, limit) {
            (tamis::Error::MemoryLimit { needs, .. }, Some(limit)) => {
                let needs = show_size_up(needs.saturating_add(reading_bytes(threads)));
                let limit = show_size(limit);
                match args.max_memory {
                    Some(_) => anyhow!(
                        "the build needs {needs} of memory, more than the {limit} of --max-memory"
                    ),
                    None => {
                        anyhow!("the build needs {needs} of memory, but only {limit} are available")
                    }
                }
            }
            (tamis::Error::Scratch { folder, error }, _) => {
                failure(format_args!("{}: scratch file", folder.display()), &error)
            }
            (error @ tamis::Error::Stopped { .. }, _) => anyhow!("{error}; nothing was saved"),
            // The error of the source says everything itself.
            (tamis::Error::Source(error), _) => anyhow!("{error}"),
            (error, _) => explain(error),
        })
    }

    /// Hashes the keys of a batch.
    fn hash(&self, batch: &Batch<'_>, hashes: &mut Vec<KeyHash>) -> Result<()> {
        match self.args.key_type {
            Some(key_type) => hash_typed(batch, self.hasher, key_type, false, hashes),
            None => {
                hash_keys(batch, self.hasher, hashes);
                Ok(())
            }
        }
    }

    /// Hashes on worker threads while this thread builds from the hashes.
    fn hash_into(
        &self,
        bar: &ProgressBar,
        build: impl FnOnce(&mut Runs<'_>) -> Result<AnyFilter, tamis::Error>,
    ) -> Result<(AnyFilter, Tally), tamis::Error> {
        let pool = Pool::<Vec<KeyHash>>::default();
        let hash = |batch: &Batch<'_>| {
            let mut hashes = pool.take();
            self.hash(batch, &mut hashes)?;
            bar.inc(batch.read_bytes());
            let tally = Tally::of(&hashes);
            anyhow::Ok((hashes, tally))
        };
        let built = self.keys.pull(self.args.form.threads(), hash, |next| {
            let mut next = || next()?.transpose();
            let mut runs = Runs::new(&mut next, &pool);
            let filter = build(&mut runs)?;
            Ok((filter, runs.tally))
        });
        bar.finish_and_clear();
        built
    }

    /// Queries every key of the pass and returns what was read, and the place of the first key whose answer
    /// is not `expected`.
    fn query_all(&self, filter: &AnyFilter, expected: bool) -> Result<(Tally, Option<String>)> {
        let bar = progress::bar("checking", self.keys, self.args.quiet);
        let pool = Pool::<(Vec<KeyHash>, Vec<bool>)>::default();
        let query = |batch: &Batch<'_>| {
            let (mut hashes, mut answers) = pool.take();
            self.hash(batch, &mut hashes)?;
            answers.resize(hashes.len(), false);
            filter.contains_batch(&hashes, &mut answers);
            bar.inc(batch.read_bytes());
            let tally = Tally::of(&hashes);
            let wrong = answers.iter().position(|answer| *answer != expected);
            let wrong = wrong.map(|index| place(batch, index));
            pool.give((hashes, answers));
            anyhow::Ok((tally, wrong))
        };
        let (mut read, mut first) = (Tally::default(), None);
        self.keys.each_batch(self.args.form.threads(), query, |queried| {
            let (tally, wrong) = queried?;
            read.add(tally);
            first = first.take().or(wrong);
            Ok(())
        })?;
        bar.finish_and_clear();
        Ok((read, first))
    }

    /// Queries every key again: a filter must never deny a member.
    fn verify(&self, filter: &AnyFilter, built: Tally) -> Result<()> {
        match self.query_all(filter, true)? {
            (read, _) if read != built => Err(changed()),
            (_, Some(place)) => bail!(
                "{place}: the filter denies this key; this is a fault of tamis, nothing was saved"
            ),
            (_, None) => Ok(()),
        }
    }
}

/// Returns file and line of the batch's key with this index.
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

/// Reports the keys that were read. Only a static kind and --distinct know how many were duplicates.
fn report(args: &Build, filter: &AnyFilter, read: &Read, seconds: f64) -> Result<()> {
    let (kind, bytes) = (filter.kind(), filter.figures().bytes);
    let &Read { keys, duplicates, denied } = read;
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
        let bits = bits.map_or(String::new(), |bits| format!(" ({bits:.2} bits per key{share})"));
        let twice = match duplicates {
            None | Some(0) => String::new(),
            Some(1) => ", of which 1 was a duplicate,".into(),
            Some(more) => format!(", of which {more} were duplicates,"),
        };
        let peak = peak.map_or(String::new(), |peak| format!(", {} of memory", show_size(peak)));
        output::message(format_args!(
            "{}: {kind}, {keys} keys{twice} in {bytes} bytes{bits}, {} false positives expected; \
             {seconds:.2} s, {} keys/s{peak}",
            files::target_name(&args.output),
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
        let count = args.keys.map_or_else(|| pass.count(), Ok)?;
        let kind = choose(&args, count)?;
        if !sized {
            fs::write(&path, second)?;
        }
        let Built { filter, tally, .. } =
            pass.build(kind, &sizing(&args, kind, Some(count)), false)?;
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
        let sizing = Sizing::fpr(1e-9).capacity(3);
        let of = |mut keys: &[KeyHash]| {
            Kind::Bloom.build(&sizing, &mut keys, &BuildOptions::new()).unwrap()
        };
        pass.verify(&of(&hashes), Tally::of(&hashes)).unwrap();
        let error = pass.verify(&of(&hashes[..1]), Tally::of(&hashes)).unwrap_err().to_string();
        let expected = format!("{}:3: the filter denies this key", path.display());
        assert!(error.starts_with(&expected), "{error}");
    }
}
