//! Planning: any two of keys, false positive rate and bytes decide the third.
//!
//! A filter's [`Shape`] says how large it must be for so many keys at such a rate. One bisection
//! answers the other two questions for every kind, and [`recommend`] compares the kinds.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;
use crate::filters::Kind;

/// Keys that any filter takes at the most.
pub const MAX_KEYS: u64 = 1 << 48;
/// Bytes that any filter takes at the most.
pub const MAX_BYTES: u64 = 1 << 50;
/// The smallest false positive rate that can be asked for.
pub const MIN_FPR: f64 = 1e-15;

/// The geometry of a filter: sizes and parameters, no keys.
pub trait Shape: Clone + fmt::Debug + PartialEq {
    /// What can be set beyond keys and rate.
    const SETTINGS: &'static [Setting] = &[];

    /// The smallest shape that holds `keys` keys at `fpr`, with these settings. What [`solve`]
    /// checks holds: it is the way to call this.
    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error>;

    /// The smallest shape that holds `keys` keys at `fpr`.
    fn fit(keys: u64, fpr: f64) -> Result<Self, Error> {
        solve(Goal::KeysFpr { keys, fpr }, &Settings::default())
    }

    /// What this shape promises.
    fn figures(&self) -> Figures;

    /// Keys that it is for: of its figures the one that is asked for while keys come in.
    fn keys(&self) -> u64 {
        self.figures().keys
    }

    /// The rate to expect while it holds so many keys.
    fn fpr_at(&self, keys: u64) -> f64;
}

/// What a shape promises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Keys that it is for.
    pub keys: u64,
    /// The share of strangers it says yes to when it holds that many.
    pub fpr: f64,
    /// Memory of its tables, in whole cache lines.
    pub bytes: u64,
    /// Work of a query, in random reads of a cache line: lines touched, an eighth for each thing
    /// tested in a line that is there already, and what finding one's way there costs on top, as
    /// `tamis bench --keys 10M` shows it beside `split_block_bloom`.
    pub query_cost: f64,
}

impl Figures {
    /// Bits of memory for each key it is for.
    pub fn bits_per_key(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.keys.max(1) as f64
    }
}

/// What is asked for: two of three.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// As small as possible.
    KeysFpr {
        /// For so many keys.
        keys: u64,
        /// At this rate.
        fpr: f64,
    },
    /// As precise as possible.
    KeysBytes {
        /// For so many keys.
        keys: u64,
        /// In so much memory.
        bytes: u64,
    },
    /// For as many keys as possible.
    BytesFpr {
        /// In so much memory.
        bytes: u64,
        /// At this rate.
        fpr: f64,
    },
}

/// One thing that can be set about a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// The values that it takes, and the usual one.
    pub takes: &'static str,
}

/// Settings by name, as a user gives them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(Vec<(String, String)>);

impl Settings {
    /// Sets `name`; the last value wins.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.push((name.into(), value.into()));
    }

    /// Sets `name` unless it is set.
    pub fn set_default(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(0, (name.into(), value.into()));
    }

    /// The number set for `setting`, if it is set; `fits` says which numbers it takes.
    pub fn number(
        &self,
        setting: &Setting,
        fits: impl Fn(u64) -> bool,
    ) -> Result<Option<u64>, Error> {
        self.read(setting, |value| value.parse().ok().filter(|number| fits(*number)))
    }

    /// The same for numbers with a point.
    pub fn real(
        &self,
        setting: &Setting,
        fits: impl Fn(f64) -> bool,
    ) -> Result<Option<f64>, Error> {
        self.read(setting, |value| value.parse().ok().filter(|number| fits(*number)))
    }

    /// Which of these names `setting` is set to, if it is set.
    pub fn choice(&self, setting: &Setting, names: &[&str]) -> Result<Option<usize>, Error> {
        self.read(setting, |value| names.iter().position(|name| *name == value))
    }

    fn read<T>(
        &self,
        setting: &Setting,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some((name, value)) = self.0.iter().rev().find(|(name, _)| name == setting.name) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(Error::Setting {
                name: name.clone(),
                value: value.clone(),
                takes: setting.takes,
            }),
        }
    }

    fn check(&self, known: &[Setting]) -> Result<(), Error> {
        match self.0.iter().find(|(name, _)| known.iter().all(|setting| setting.name != name)) {
            None => Ok(()),
            Some((name, value)) => Err(Error::Setting {
                name: name.clone(),
                value: value.clone(),
                takes: "nothing: this kind has no such setting",
            }),
        }
    }
}

/// The shape that meets `goal`.
pub fn solve<S: Shape>(goal: Goal, settings: &Settings) -> Result<S, Error> {
    settings.check(S::SETTINGS)?;
    let fit = |keys, fpr| {
        check_keys(keys)?;
        check_fpr(fpr)?;
        let shape = S::fit_with(keys, fpr, settings)?;
        match shape.figures().bytes {
            asked if asked > MAX_BYTES => {
                Err(Error::Limit { what: "bytes", asked, most: MAX_BYTES })
            }
            _ => Ok(shape),
        }
    };
    let within = |bytes| move |shape: &S| shape.figures().bytes <= bytes;
    match goal {
        Goal::KeysFpr { keys, fpr } => fit(keys, fpr),
        Goal::KeysBytes { keys, bytes } => {
            check_keys(keys)?;
            let small = Error::Infeasible { why: "that is too little memory for so many keys" };
            // From a rate so poor that anything meets it, towards the smallest, in log2.
            let (mut fits, mut fails) = (-0.001f64, MIN_FPR.log2());
            let mut best = fit(keys, fits.exp2()).ok().filter(within(bytes)).ok_or(small)?;
            // To a millionth of a bit: each step may cost a kind an exact calculation.
            while fits - fails > 1e-6 {
                let middle = f64::midpoint(fits, fails);
                match fit(keys, middle.exp2()).ok().filter(within(bytes)) {
                    Some(shape) => (fits, best) = (middle, shape),
                    None => fails = middle,
                }
            }
            Ok(best)
        }
        Goal::BytesFpr { bytes, fpr } => {
            check_fpr(fpr)?;
            let small = Error::Infeasible { why: "that is too little memory for a single key" };
            let mut best = fit(1, fpr).ok().filter(within(bytes)).ok_or(small)?;
            let (mut fits, mut fails) = (1u64, MAX_KEYS + 1);
            while fails - fits > 1 + fits / (1 << 20) {
                // Grow before halving: most answers are far below the largest.
                let middle =
                    if fails > MAX_KEYS { (fits * 8).min(MAX_KEYS) } else { fits.midpoint(fails) };
                match fit(middle, fpr).ok().filter(within(bytes)) {
                    Some(_) if middle == MAX_KEYS => return fit(middle, fpr),
                    Some(shape) => (fits, best) = (middle, shape),
                    None => fails = middle,
                }
            }
            Ok(best)
        }
    }
}

/// That a rate is one.
pub fn check_fpr(fpr: f64) -> Result<(), Error> {
    if (MIN_FPR..1.0).contains(&fpr) { Ok(()) } else { Err(Error::Fpr(fpr)) }
}

/// That there are not too many keys.
pub fn check_keys(keys: u64) -> Result<(), Error> {
    if keys <= MAX_KEYS {
        Ok(())
    } else {
        Err(Error::Limit { what: "keys", asked: keys, most: MAX_KEYS })
    }
}

/// What a kind of filter can do beyond answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// Take keys one by one.
    Insert,
    /// Forget keys.
    Remove,
    /// Tell how often a key is in.
    Count,
    /// Take in another filter's keys.
    Merge,
    /// Intersect, compare and estimate.
    SetOps,
    /// Go on past the number of keys it was made for, at a rising rate.
    Overfill,
    /// Outgrow the number of keys it was made for, at the rate that it was made for.
    Grow,
    /// Forget keys by age.
    Window,
    /// Repair a false positive that is reported.
    Adapt,
    /// Be built without saying how many keys there are, from all of them at once.
    Static,
    /// Give each key a value.
    Map,
}

impl Capability {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::Insert,
        Self::Remove,
        Self::Count,
        Self::Merge,
        Self::SetOps,
        Self::Overfill,
        Self::Grow,
        Self::Window,
        Self::Adapt,
        Self::Static,
        Self::Map,
    ];

    /// Its name on the command line and in the registry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Remove => "remove",
            Self::Count => "count",
            Self::Merge => "merge",
            Self::SetOps => "set_ops",
            Self::Overfill => "overfill",
            Self::Grow => "grow",
            Self::Window => "window",
            Self::Adapt => "adapt",
            Self::Static => "static",
            Self::Map => "map",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Capability {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|capability| capability.name() == name)
            .ok_or_else(|| Error::Unknown { what: "capability", name: name.to_owned() })
    }
}

/// A kind that would do, what it would cost, and why it stands where it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Advice {
    /// The kind.
    pub kind: Kind,
    /// What it promises for the goal.
    pub figures: Figures,
    /// Why it is, or is not, the pick.
    pub reason: String,
}

/// Every kind that has what is needed and can meet the goal, the pick first.
///
/// With memory given the goal names what is best: the fewest false positives, or the most keys.
/// Otherwise kinds are ranked by memory times work: a filter twice the size is worth it only if
/// its queries touch much less memory. One random line counts like an eighth of the size, about
/// what it costs in a cache that other data wants too.
pub fn recommend(goal: Goal, needs: &[Capability]) -> Result<Vec<Advice>, Error> {
    let (mut advice, mut refusal) = (Vec::new(), None);
    for kind in Kind::ALL.iter().filter(|kind| needs.iter().all(|need| kind.can(*need))) {
        match kind.plan(goal, &Settings::default()) {
            Ok(figures) => advice.push(Advice { kind: *kind, figures, reason: String::new() }),
            Err(error) => refusal = Some(error),
        }
    }
    if advice.is_empty() {
        return Err(
            refusal.unwrap_or(Error::Infeasible { why: "no kind here has all that is needed" })
        );
    }
    let score = |figures: &Figures| match goal {
        Goal::KeysFpr { .. } => figures.bits_per_key() * (1.0 + figures.query_cost / 8.0),
        Goal::KeysBytes { .. } => figures.fpr,
        Goal::BytesFpr { .. } => -(figures.keys as f64),
    };
    let order = |a: &Figures, b: &Figures| {
        score(a).total_cmp(&score(b)).then(a.query_cost.total_cmp(&b.query_cost))
    };
    advice.sort_by(|a, b| order(&a.figures, &b.figures));
    let reasons: Vec<String> = (0..advice.len()).map(|rank| reason(goal, &advice, rank)).collect();
    for (entry, reason) in advice.iter_mut().zip(reasons) {
        entry.reason = reason;
    }
    Ok(advice)
}

/// Where a filter of unknown size begins.
pub const FIRST_KEYS: u64 = 1000;
/// The size at which kinds of unknown size are compared.
pub const GROWN_KEYS: u64 = 1_000_000;

/// Every kind that has what is needed and grows from [`FIRST_KEYS`] keys to any number at this rate,
/// the pick first, with its figures at [`GROWN_KEYS`]. Ranked as by [`recommend`].
pub fn recommend_unknown(fpr: f64, needs: &[Capability]) -> Result<Vec<Advice>, Error> {
    let goal = Goal::KeysFpr { keys: FIRST_KEYS, fpr };
    let needs: Vec<Capability> = needs.iter().copied().chain([Capability::Grow]).collect();
    let mut advice = recommend(goal, &needs)?;
    for entry in &mut advice {
        entry.figures = entry.kind.plan_grown(goal, &Settings::default(), GROWN_KEYS)?;
    }
    let score = |figures: &Figures| figures.bits_per_key() * (1.0 + figures.query_cost / 8.0);
    advice.sort_by(|a, b| score(&a.figures).total_cmp(&score(&b.figures)));
    let reasons: Vec<String> = (0..advice.len()).map(|rank| reason(goal, &advice, rank)).collect();
    for (entry, reason) in advice.iter_mut().zip(reasons) {
        entry.reason = format!("{reason}, grown to {GROWN_KEYS} keys");
    }
    Ok(advice)
}

/// What the survey by Szabo-Wexler recommends for a set of unknown size, with the figures of a filter
/// that was made for [`GROWN_KEYS`] at once; and why [`recommend_unknown`] does not.
pub fn survey_unknown(fpr: f64) -> Result<Advice, Error> {
    let goal = Goal::KeysFpr { keys: GROWN_KEYS, fpr };
    let figures = Kind::BloomG.plan(goal, &Settings::default())?;
    let reason =
        "the survey's choice, begun anew in more memory each time that it is full: what was in \
                  it is denied then, unless all keys can be read again"
            .to_owned();
    Ok(Advice { kind: Kind::BloomG, figures, reason })
}

/// What speaks for the entry at `rank`, and its figures.
fn reason(goal: Goal, advice: &[Advice], rank: usize) -> String {
    let Advice { kind, figures, .. } = &advice[rank];
    let first_in = |measure: fn(&Figures) -> f64| best(advice, measure) == *kind;
    let most_apt = match goal {
        Goal::KeysBytes { .. } => {
            first_in(|figures| figures.fpr).then_some("the fewest false positives in that memory")
        }
        _ => first_in(Figures::bits_per_key).then_some("the smallest"),
    };
    let quickest = first_in(|figures| figures.query_cost).then_some("the least work a query");
    let mut merits: Vec<&str> = most_apt.into_iter().chain(quickest).collect();
    if advice.len() == 1 {
        merits = vec!["the only kind that will do"];
    } else if rank == 0 && merits.is_empty() {
        merits = vec!["the best balance of memory and work"];
    }
    let figures = format!(
        "{:.2} bits a key, work of {:.1} memory reads a query",
        figures.bits_per_key(),
        figures.query_cost
    );
    if merits.is_empty() { figures } else { format!("{}; {figures}", merits.join(", ")) }
}

fn best(advice: &[Advice], measure: impl Fn(&Figures) -> f64) -> Kind {
    let least = advice.iter().min_by(|a, b| measure(&a.figures).total_cmp(&measure(&b.figures)));
    least.expect("the caller saw that there is one").kind
}
