//! Filters that mend their mistakes: whoever was let in by mistake is not let in again, at no
//! member's expense, however long it goes on.
//!
//! The bounds hold whatever a filter remembers: a stranger's chance is at most the stated rate
//! *whatever came of the queries before*, so the number that get in is at most what so many tosses
//! of a coin of that rate give, and [`stats::bounds`] says how many that may be.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::ops::RangeInclusive;

use tamis::{
    Adapt, AnyFilter, BuildOptions, Capability, Error, Filter, HashId, KeyHash, KeyHasher, Keyed,
    Kind, Limits, Persist, Repair, Settings, Shape, Sizing,
};

use crate::keys::{Form, Random};
use crate::members::{bytes, shape};
use crate::{Effort, Subject, stats, variants};

/// The store behind the filter: the members in the order of their hashes, each with how often.
#[derive(Clone, Debug, Default)]
pub struct Store(BTreeMap<(u64, u64), usize>);

impl Store {
    /// A store of these.
    pub fn of(members: &[KeyHash]) -> Self {
        let mut store = Self::default();
        members.iter().for_each(|key| store.insert(*key));
        store
    }

    /// Puts a key in once more.
    pub fn insert(&mut self, key: KeyHash) {
        *self.0.entry((key.hi, key.lo)).or_default() += 1;
    }

    /// Takes a key out once; whether it was in.
    pub fn remove(&mut self, key: KeyHash) -> bool {
        let Some(count) = self.0.get_mut(&(key.hi, key.lo)) else { return false };
        *count -= 1;
        if *count == 0 {
            self.0.remove(&(key.hi, key.lo));
        }
        true
    }

    /// Whether a key is in.
    pub fn contains(&self, key: KeyHash) -> bool {
        self.0.contains_key(&(key.hi, key.lo))
    }

    /// The members of a range of `hi`.
    pub fn members(&self, range: RangeInclusive<u64>) -> Vec<KeyHash> {
        let range = self.0.range((*range.start(), 0)..=(*range.end(), u64::MAX));
        range.flat_map(|(&(hi, lo), count)| repeat_n(KeyHash { hi, lo }, *count)).collect()
    }

    /// All members.
    pub fn all(&self) -> Vec<KeyHash> {
        self.members(0..=u64::MAX)
    }
}

/// A filter, the store behind it, and what has happened.
struct Guarded<F> {
    filter: F,
    store: Store,
    /// Strangers asked for, and let in.
    asked: u64,
    passed: u64,
    /// Members read for repairs and for sweeps.
    scans: u64,
    sweeps: u64,
}

impl<F: Subject + Adapt> Guarded<F> {
    fn new(keys: u64, fpr: f64, settings: &Settings, hasher: &KeyHasher) -> Self {
        let shape = shape::<F>(keys, fpr, settings).expect("within reach");
        let members = Form::Integers.hashes(hasher, 0, keys);
        let filter = F::build(shape, &members[..]).expect("as many as it is for");
        Self { filter, store: Store::of(&members), asked: 0, passed: 0, scans: 0, sweeps: 0 }
    }

    /// Asks for a stranger; if it is let in, the filter is told. Whether it was.
    fn ask(&mut self, stranger: KeyHash) -> bool {
        self.asked += 1;
        if !self.filter.contains(stranger) {
            return false;
        }
        self.passed += 1;
        let members = self.store.members(self.filter.suspects(stranger));
        let repair = self.filter.adapt(stranger, &members);
        assert!(!self.filter.contains(stranger) || repair == Repair::Impossible, "{repair:?}");
        while let Some(range) = self.filter.due() {
            self.sweeps += u64::from(*range.start() == 0);
            self.scans += 1;
            self.filter.renew(&self.store.members(range));
        }
        true
    }

    /// That no more got in than the rate allows.
    fn check(&mut self, what: &str) {
        let (passed, most) = self.count(what);
        assert!(passed < most, "{what}: {passed} strangers, {most} are too many");
    }

    /// How many got in since the last call, and how many are too many.
    fn count(&mut self, what: &str) -> (u64, u64) {
        let rate = self.filter.shape().figures().fpr;
        let most = stats::bounds(self.asked, rate, stats::ALPHA).end;
        let (asked, passed) = (self.asked, self.passed);
        println!(
            "{what}: {passed} of {asked}, {:.3} of the rate",
            passed as f64 / asked as f64 / rate
        );
        (self.asked, self.passed) = (0, 0);
        (passed, most)
    }

    fn deny_no_member(&self) {
        let members = self.store.all();
        let mut out = vec![false; members.len()];
        crate::members::contains_batch(&self.filter, &members, &mut out);
        assert!(!out.contains(&false), "a member is denied");
        assert!(members.iter().step_by(97).all(|key| self.filter.contains(*key)));
    }
}

fn stranger(hasher: &KeyHasher, number: u64) -> KeyHash {
    Form::Integers.hashes(hasher, (1 << 40) + number, 1)[0]
}

/// An attacker who repeats whatever got in: with a static filter all of it gets in again, here
/// hardly any of it does, and fresh strangers get in no more often than before. A kind that does not
/// sustain its rate lets a part of it in.
pub fn what_got_in_once_does_not_again<F: Subject + Adapt>() {
    let effort = Effort::now();
    let mut random = effort.random(61);
    let keys = effort.times(10_000);
    let rates = [1.0 / 64.0, 1.0 / 256.0];
    for (settings, fpr) in variants::<F::Shape>().iter().flat_map(|set| rates.map(|fpr| (set, fpr)))
    {
        let hasher = KeyHasher::new(HashId::Fast, random.seed());
        let mut guarded = Guarded::<F>::new(keys, fpr, settings, &hasher);
        // A setting may give a rate at which nothing gets in.
        let rate = guarded.filter.shape().figures().fpr;
        if *settings != Settings::default() && rate < fpr / 2.0 {
            continue;
        }
        let fresh = (keys as f64 / fpr / 8.0) as u64;
        let hot: Vec<KeyHash> =
            (0..fresh).map(|x| stranger(&hasher, x)).filter(|x| guarded.ask(*x)).collect();
        guarded.check(&format!("{} fresh at {fpr}", F::KIND));
        assert!(hot.len() > 500, "{} strangers", hot.len());
        for x in repeat_n(&hot, 4).flatten() {
            guarded.ask(*x);
        }
        let replayed = format!("{} replayed at {fpr}", F::KIND);
        if F::KIND.sustains_rate() {
            guarded.check(&replayed);
        } else {
            let (passed, _) = guarded.count(&replayed);
            assert!(passed < hot.len() as u64 * 2, "{replayed}: half of them again");
        }
        guarded.deny_no_member();
        // The same attack on filters that do not adapt.
        let members = guarded.store.all();
        for kind in [Kind::Bloom, Kind::Cuckoo, Kind::Quotient] {
            let sizing = Sizing::fpr(fpr).capacity(keys);
            let filter = kind.build(&sizing, &mut &members[..], &BuildOptions::new());
            let filter = filter.expect("room");
            let strangers = (0..fresh.min(400_000)).map(|x| stranger(&hasher, x));
            let hot: Vec<KeyHash> = strangers.filter(|x| filter.contains(*x)).collect();
            let again = hot.iter().filter(|x| filter.contains(**x)).count();
            assert!(hot.len() > 500 && again == hot.len(), "{kind}: {again} of {}", hot.len());
        }
    }
}

/// Half of the queries repeat something that got in before, for more than three sweeps of a kind
/// that sweeps: in every stretch of it no more get in than the rate allows. A kind that does not claim
/// this lets more in, or it could claim it.
pub fn the_rate_is_sustained<F: Subject + Adapt>() {
    const FPR: f64 = 1.0 / 16.0;
    const KEYS: u64 = 4000;
    let effort = Effort::now();
    let mut random = effort.random(62);
    for settings in variants::<F::Shape>() {
        let hasher = KeyHasher::new(HashId::Fast, random.seed());
        let mut guarded = Guarded::<F>::new(KEYS, FPR, &settings, &hasher);
        let mut hot: Vec<KeyHash> = Vec::new();
        let (mut repairs, mut exceeded) = (0, 0);
        for window in 0..effort.times(30) {
            for number in 0..KEYS * 4 {
                let repeat = number % 2 == 1 && !hot.is_empty();
                let x = if repeat {
                    hot[random.below(hot.len())]
                } else {
                    stranger(&hasher, window * KEYS * 4 + number)
                };
                if guarded.ask(x) && !repeat {
                    hot.push(x);
                }
            }
            repairs += guarded.passed;
            let (passed, most) = guarded.count(&format!("{} window {window}", F::KIND));
            exceeded += u64::from(passed >= most);
            guarded.deny_no_member();
            // Where the filter mends for ever, it is bounded for ever.
            let len = guarded.filter.len();
            assert!(len <= KEYS, "{len} entries for {KEYS} keys");
        }
        println!(
            "{}: {} sweeps, {} scans for {repairs} repairs",
            F::KIND,
            guarded.sweeps,
            guarded.scans
        );
        // Longer fingerprints than the rate asks for make the difference too small to count.
        if F::KIND.sustains_rate() || settings == Settings::default() {
            assert_eq!(exceeded == 0, F::KIND.sustains_rate(), "in {exceeded} windows");
        }
        assert!(guarded.scans == 0 || guarded.sweeps > 3, "only {} sweeps", guarded.sweeps);
        guarded.filter.validate().expect("a sound filter");
    }
}

/// Attacks a filter as an adversary does that sees every answer and remembers it for hundreds of
/// sweeps: it does not find non-members with more than the stated rate.
///
/// `sweep` queries each of `strangers` non-members once, adds 1 to the counts of those that are
/// accepted, and returns when a sweep has ended. So each query meets another hash function. After
/// 600 sweeps the non-members are ranked by how often they were accepted. In `measured` further
/// sweeps the acceptances of the best 0.1 %, 1 % and 10 % are counted. Whatever a sweep leaves as
/// it is, for example the part of the table that a key belongs to, shows in the ranking.
pub fn attack_by_scores(
    what: &str,
    stated: f64,
    strangers: u64,
    measured: u64,
    mut sweep: impl FnMut(&mut [u64]),
) {
    const SCORED: u64 = 600;
    const ALPHA: f64 = 1e-6;
    let (mut scores, mut accepted) = (vec![0; strangers as usize], vec![0; strangers as usize]);
    (0..SCORED).for_each(|_| sweep(&mut scores));
    (0..measured).for_each(|_| sweep(&mut accepted));
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by_key(|x| Reverse(scores[*x]));
    let mut weak = Vec::new();
    for parts in [1000, 100, 10] {
        let best = &order[..scores.len() / parts];
        let asked = best.len() as u64 * measured;
        let passed = best.iter().map(|x| accepted[*x]).sum::<u64>();
        let rate = passed as f64 / asked as f64 / stated;
        println!("{what}: best 1/{parts}: {passed} of {asked}, {rate:.3} of the stated rate");
        if passed >= stats::bounds(asked, stated, ALPHA).end {
            weak.push((parts, rate));
        }
    }
    assert!(weak.is_empty(), "{what}: above the stated rate: {weak:?}");
}

/// Scores kept over 600 sweeps do not help an adversary. A kind that does not claim this has no sweeps.
pub fn scores_over_many_sweeps_find_no_weak_spot<F: Subject + Adapt>() {
    const FPR: f64 = 1.0 / 32.0;
    let effort = Effort::now();
    let mut random = effort.random(68);
    let (keys, measured) = (effort.times(2000), if effort == Effort::Quick { 300 } else { 600 });
    // A broom needs 16 queries per key for a sweep. The others renew many keys for each false positive.
    let strangers = keys * if effort == Effort::Quick && F::KIND != Kind::Broom { 1 } else { 8 };
    let mut shapes = Vec::new();
    for settings in variants::<F::Shape>() {
        let hasher = KeyHasher::new(HashId::Secure, random.seed());
        let mut guarded = Guarded::<F>::new(keys, FPR, &settings, &hasher);
        if shapes.contains(guarded.filter.shape()) {
            continue;
        }
        shapes.push(guarded.filter.shape().clone());
        let stated = guarded.filter.shape().figures().fpr;
        assert!(stated <= FPR);
        if !F::KIND.sustains_rate() {
            for x in 0..strangers {
                guarded.ask(stranger(&hasher, x));
                assert!(guarded.filter.due().is_none());
            }
            assert!(guarded.asked > 0 && guarded.scans == 0);
            continue;
        }
        let queried = Form::Integers.hashes(&hasher, 1 << 40, strangers);
        let mut fresh = strangers;
        let what = format!("{} {settings:?}", F::KIND);
        attack_by_scores(&what, stated, strangers, measured, |counts| {
            let before = guarded.sweeps;
            for (x, count) in queried.iter().zip(counts) {
                *count += u64::from(guarded.ask(*x));
            }
            while guarded.sweeps == before {
                guarded.ask(stranger(&hasher, fresh));
                fresh += 1;
            }
        });
        guarded.deny_no_member();
    }
}

/// Any sequence of insertions, removals, queries, repairs, sweeps and files agrees with the store:
/// ten million members are asked for, and none is denied.
pub fn random_operations_with_repairs_agree_with_the_store<F: Subject + Adapt>() {
    let effort = Effort::now();
    let mut random = effort.random(63);
    let mut asked = 0;
    let sizes = [(1, 0.3), (17, 0.3), (100, 0.1), (2000, 0.05), (20_000, 1.0 / 64.0)];
    let variants = variants::<F::Shape>();
    let each = effort.times(2_100_000) / variants.len() as u64;
    for (settings, (keys, fpr)) in variants.iter().flat_map(|set| sizes.map(|size| (set, size))) {
        let sizing = Sizing::fpr(fpr).capacity(keys).settings(settings.clone());
        let empty = F::KIND.build(&sizing, &mut &[][..], &BuildOptions::new());
        let empty = empty.expect("within reach");
        let hasher = KeyHasher::new(HashId::Fast, random.seed());
        let (mut filter, mut store) = (empty, Store::default());
        let mut members_asked = 0;
        while members_asked < each {
            for _ in 0..keys.clamp(50, 5000) {
                step::<F>(&mut filter, &mut store, &hasher, keys, &mut random);
            }
            let members = store.all();
            let mut out = vec![false; members.len()];
            crate::members::contains_batch(&filter, &members, &mut out);
            assert!(!out.contains(&false), "a member is denied in a batch");
            for key in &members {
                assert!(filter.contains(*key), "a member is denied");
            }
            members_asked += 2 * members.len() as u64 + 100;
            filter.validate().expect("a sound filter");
        }
        asked += members_asked;
    }
    assert!(asked >= 10_000_000);
}

fn step<F: Subject>(
    filter: &mut AnyFilter,
    store: &mut Store,
    hasher: &KeyHasher,
    keys: u64,
    random: &mut Random,
) {
    let number = random.below(2 * keys as usize + 2) as u64;
    let key = Form::Integers.hashes(hasher, number, 1)[0];
    match random.below(100) {
        0..30 => match filter.insert(key) {
            Ok(()) => store.insert(key),
            Err(error) => assert!(matches!(error, Error::Full { .. }), "{error}"),
        },
        30..50 => {
            let known = F::KIND.can(Capability::Remove) && store.remove(key);
            assert!(!known || filter.remove(key).expect("it can remove"), "a member was denied");
        }
        50..99 => {
            let x = stranger(hasher, random.word() >> 30);
            let x = if random.below(2) == 0 { key } else { x };
            if filter.contains(x) && !store.contains(x) {
                let members = store.members(filter.suspects(x).expect("it adapts"));
                let repair = filter.adapt(x, &members).expect("it adapts");
                assert_eq!(filter.contains(x), repair == Repair::Impossible);
            }
            if let Some(range) = filter.due().expect("it adapts") {
                filter.renew(&store.members(range)).expect("it adapts");
            }
        }
        _ if random.below(keys as usize / 64 + 1) == 0 => {
            let written = Keyed::new(*hasher, filter.clone());
            let read = Keyed::<AnyFilter>::read_from(&bytes(&written)[..], &Limits::default());
            let read = read.expect("what was just written");
            assert_eq!(read, written);
            *filter = read.into_parts().1;
        }
        _ => {}
    }
}

/// Nothing happens where nothing is wrong.
pub fn a_stranger_that_is_denied_needs_no_repair<F: Subject + Adapt>() {
    let hasher = KeyHasher::new(HashId::Fast, [64, 65]);
    for settings in variants::<F::Shape>() {
        let mut guarded = Guarded::<F>::new(1000, 0.01, &settings, &hasher);
        let before = guarded.filter.clone();
        let denied = (0..10_000).map(|x| stranger(&hasher, x)).filter(|x| !before.contains(*x));
        for x in denied {
            let members = guarded.store.members(guarded.filter.suspects(x));
            assert_eq!(guarded.filter.adapt(x, &members), Repair::NotNeeded);
        }
        assert_eq!(guarded.filter, before);
    }
}

/// A repair needs the members of the range that is named, and others make no difference.
pub fn suspects_are_all_that_matter<F: Subject + Adapt>() {
    let hasher = KeyHasher::new(HashId::Fast, [66, 67]);
    for settings in variants::<F::Shape>() {
        let Guarded { filter, store, .. } = Guarded::<F>::new(2000, 0.03, &settings, &hasher);
        let yeses = (0..20_000).map(|x| stranger(&hasher, x)).filter(|x| filter.contains(*x));
        for x in yeses.take(100) {
            let range = filter.suspects(x);
            assert!(range.contains(&x.hi));
            let (mut few, mut all) = (filter.clone(), filter.clone());
            let repair = few.adapt(x, &store.members(range));
            assert_eq!(all.adapt(x, &store.all()), repair);
            let is_possible = F::KIND.sustains_rate() || repair != Repair::Impossible;
            assert!(few == all && few.contains(x) != is_possible);
        }
    }
}
