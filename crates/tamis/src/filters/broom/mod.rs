//! The broom filter: it is told of each stranger it let in, and does not let it in again.
//!
//! ```text
//!  hash.hi ──► bin: a cache line     │ head │ index │ ends │ remainders … ──►    ◄── extensions │
//!  hash.lo ──► bucket, remainder,      │
//!              then more bits          └ a full one: │ overflow line of its group │ ──► stash
//!
//!  a key's fingerprint      bin · bucket · remainder           a prefix of all its bits
//!  once x was taken for y   bin · bucket · remainder · 01      long enough to tell y from x
//! ```
//!
//! A stranger passes if some fingerprint is a prefix of its bits. Whoever keeps the keys then finds
//! that it is none, and says so: [`Adapt::adapt`]. The filter names the range of hashes its bin
//! covers, is given the members in it, and lengthens the fingerprints that matched. A bin has room
//! for a handful of that; then it gets a new hash function, its *salt*, and begins anew from the
//! members it was given anyway. For every false positive two keys more are due to be swept: bin
//! after bin comes under the next hash function, and what it had learnt of old strangers is
//! dropped. So space is bounded for ever, and a stranger's chance is at most the stated rate,
//! whatever was asked before and whatever came of it.
//!
//! | figure | |
//! | --- | --- |
//! | bits a key | 10.3 at 2^-6, 12.9 at 2^-8, 18.4 at 2^-12, all counted, extensions included |
//! | with `lines=2` | 9.5, 12.0, 17.2: bins of two adjacent lines, of which fewer overflow; all takes longer |
//! | cache lines | 1.02 on average at 2^-8: a second where a bin overflows and the bucket is its last; with `lines=2` 1.4 for a stranger, 1.6 for a member |
//! | below 2^-12 | a member takes a line more: wide remainders are in two places |
//! | building | 1 line a key |
//! | failure | none by bad luck: what fits nowhere else goes to a stash, which grows if it must |
//! | rates | 3.5 % at the most, which takes no more memory than a poorer one would; 2^-40 at the least |
//!
//! `bin.rs` draws a bin, `outside.rs` what does not fit into one, `yard.rs` has the operations on
//! both, `resize.rs` moves all to a larger table, bin after bin, by the same sweep.
//!
//! Below about [`Broom::working_set`] strangers asked again and again it comes to say no to each of
//! them. Above, it forgets some before they return, and lets in as many as any filter of its rate,
//! not more. Removing a key and inserting it again forgets what was learnt of its neighbours. What is
//! hidden is the hash: use [`HashId::Secure`](crate::HashId::Secure) where strangers are chosen by
//! somebody who wishes you ill. How long an answer takes is not hidden.
//!
//! Removing takes the longest fingerprint that matches. Removing what was never inserted may take
//! a member's with it, as in every table of fingerprints.
//!
//! Bender, Farach-Colton, Goswami, Johnson, McCauley, Singh, *Bloom Filters, Adaptivity, and the
//! Dictionary Problem*, 2018. Differences: its groups are larger than any filter, so sizes here come
//! from the distribution of keys over bins. A bin overflows from its last bucket, and takes keys back
//! when it has room. Fingerprints may be prefixes of each other, since the longest is removed first:
//! inserting never asks for a key. A bin stays the same for ever while its function changes: keys in
//! the order of their hashes serve repair and sweep, and each bin knows which function it is under.
//! That costs a little: a stranger that has failed in many functions is likelier to be in a crowded
//! bin, and passes with up to 1.02 of the mean rate. For wide remainders the paper has a second
//! table of colliding keys; here all that match in their first 8 bits are compared.

mod bin;
mod outside;
mod resize;
#[cfg(test)]
mod tests;
mod yard;

use std::ops::RangeInclusive;

use tamis_bits::LINE_WORDS;
use tamis_bits::select::{Bits, Task, run};
use tamis_format::{Reader, Writer};

use self::bin::{Layout, MAX_REMAINDER, WHOLE};
use self::resize::Move;
use self::yard::Yard;
use super::common::{binomial_mean, build_by_inserting};
use crate::error::{Error, Full};
use crate::hash::KeyHash;
use crate::limits::MAX_KEYS;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Shape};
use crate::source::KeySource;
use crate::traits::{Adapt, Build, Filter, Insert, Persist, Remove, Repair};

const MAX_STASH: u64 = 1 << 40;
/// Fields of a shape in a file.
const FIELDS: usize = 9;
/// Keys swept for each false positive. Two make a bin come under six salts between two sweeps, at
/// most 25 seen; one would make it twelve, and the last of 64 be reached.
const SWEPT: u64 = 2;
/// Keys of a batch whose memory is asked for while the batch before it is worked on.
const BATCH: usize = 16;

/// Bins of a cache line each or of two, how they are divided, and what there is beside them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BroomShape {
    bins: u64,
    layout: Layout,
    /// Overflow lines of a group of bins.
    overflow: u64,
    /// Entries of the stash, unless it grows.
    stash: u64,
    keys: u64,
}

impl BroomShape {
    /// So many bins of such a layout; overflow lines for each group of bins, and entries of a stash
    /// that grows if need be; made for this many keys.
    fn new(bins: u64, layout: Layout, overflow: u64, stash: u64, keys: u64) -> Result<Self, Error> {
        let within = |what, asked, least, most| {
            if (least..=most).contains(&asked) {
                Ok(())
            } else {
                Err(Error::Limit { what, asked, most })
            }
        };
        let Layout { lines, b, s, r } = layout;
        within("cache lines a bin", lines.into(), 1, 2)?;
        within("bins", bins, 1, outside::most_bins(lines))?;
        within("buckets a bin", b.into(), 1, Layout::most_buckets(lines).into())?;
        within("bits of a remainder", r.into(), 1, MAX_REMAINDER.into())?;
        within("slots a bin", s.into(), 1, Layout::most_slots(lines, b, r).into())?;
        within("overflow lines a group", overflow, 1, outside::MAX_LINES)?;
        within("entries of a stash", stash, 4, MAX_STASH)?;
        crate::shape::check_keys(keys)?;
        Ok(Self { bins, layout, overflow, stash, keys })
    }

    /// Bins.
    pub fn bins(&self) -> u64 {
        self.bins
    }

    /// Cache lines of a bin.
    pub fn lines(&self) -> u32 {
        self.layout.lines
    }

    /// Bits of a remainder.
    pub fn remainder(&self) -> u32 {
        self.layout.r
    }

    /// Prints that a bin has room for.
    pub fn slots(&self) -> u32 {
        self.layout.s
    }

    fn bin_words(&self) -> u64 {
        self.bins * self.layout.words() as u64
    }

    fn far_words(&self) -> u64 {
        (self.bins * u64::from(self.layout.s * self.layout.far())).div_ceil(64)
    }

    fn overflow_words(&self) -> u64 {
        outside::groups(self.bins, self.layout.lines).0 * self.overflow * LINE_WORDS as u64
    }

    fn bytes(&self) -> u64 {
        let words = [self.bin_words(), self.far_words(), self.overflow_words(), self.stash * 2];
        words.map(tamis_bits::lines).iter().sum::<u64>() * 64
    }

    /// The fingerprints that there are, unextended: keys of one cannot be told apart.
    fn classes(&self) -> f64 {
        self.bins as f64 * classes_a_bin(self.layout.b, self.layout.r)
    }

    /// This many bins for this many keys, where so many keys of a bin do not fit into it, with
    /// what they need beside them.
    fn sized(layout: Layout, bins: u64, over: f64, keys: u64) -> Result<Self, Error> {
        let (_, group) = outside::groups(bins, layout.lines);
        let expected = over * group as f64;
        // Keys that overflow come in handfuls, one for each full bin: four times the variance.
        let (line, spilt) = outside::plan(layout.r);
        let lines = (expected + (4.0 * expected).sqrt()) / line;
        let lines = (lines.ceil() as u64).clamp(1, outside::MAX_LINES);
        let stash = outside::stash(over * bins as f64 * spilt).min(MAX_STASH as f64) as u64;
        Self::new(bins, layout, lines, stash.next_multiple_of(4), keys)
    }
}

/// Cache lines of a bin.
const LINES: Setting = Setting::new("lines", "cache lines of a bin, 1 or 2; usually 1");

/// Fewer buckets would have crowded runs: of more than two keys, which the plan of what is outside
/// allows for.
const fn least_buckets(lines: u32) -> u32 {
    24 * lines
}

/// The fewest buckets that make so many classes a bin.
fn buckets(lines: u32, classes: f64, r: u32) -> u32 {
    let most = f64::from(64 * lines);
    (classes / f64::from(r).exp2()).ceil().clamp(least_buckets(lines).into(), most) as u32
}

/// How to divide a bin: slots, bits of a remainder, the mean number of its keys, and of those that do
/// not fit.
///
/// There are the same ways for every number of keys, and the better the rate the fewer of them. So
/// more keys, or a better rate, never take less memory, and planning backwards is possible. One step
/// is granted: up to 2^-12 remainders are whole, which takes 1.3 % more memory than just past that,
/// but of a member's lookup one dependent read of memory instead of two.
struct Way {
    lines: u32,
    s: u32,
    r: u32,
    load: f64,
    over: f64,
}

impl Way {
    /// Those that reach a rate.
    fn each(lines: u32, fpr: f64, mut see: impl FnMut(Self)) {
        const LOADS: u32 = 64;
        const MANY: u64 = 1 << 40;
        let about = (-fpr.log2()).ceil() as u32;
        let most_slots = |b, r| Layout::most_slots(lines, b, r);
        let widest = if about <= WHOLE { WHOLE } else { MAX_REMAINDER };
        for r in about.saturating_sub(1).max(1)..=(about + 2).min(widest) {
            let fewest = most_slots(Layout::most_buckets(lines), r);
            for s in fewest..=most_slots(least_buckets(lines), r) {
                for step in 0..=LOADS {
                    let load = f64::from(s) * (0.76 + 0.26 * f64::from(step) / f64::from(LOADS));
                    if Self::layout(lines, load / -(-fpr).ln_1p(), s, r).is_none() {
                        break;
                    }
                    let left = |n: u64| n.saturating_sub(s.into()) as f64;
                    let over = binomial_mean(MANY, (load * MANY as f64) as u64, left);
                    see(Self { lines, s, r, load, over });
                }
            }
        }
    }

    /// So many slots, and buckets that make so many classes a bin, if that fits.
    fn layout(lines: u32, classes: f64, s: u32, r: u32) -> Option<Layout> {
        let b = buckets(lines, classes, r);
        let fits = b <= Layout::most_buckets(lines) && Layout::most_slots(lines, b, r) >= s;
        fits.then_some(Layout { lines, b, s, r })
    }
}

/// No shape is poorer: a bin of 64 slots, which is the most, has bits enough for this rate.
const POOREST: f64 = 0.035;

fn classes_a_bin(buckets: u32, remainder: u32) -> f64 {
    f64::from(buckets) * f64::from(remainder).exp2()
}

impl Shape for BroomShape {
    const SETTINGS: &'static [Setting] = &[LINES];

    fn fit_with(keys: u64, fpr: f64, settings: &Settings) -> Result<Self, Error> {
        let lines = settings.number(&LINES, |lines| lines == 1 || lines == 2)?.unwrap_or(1) as u32;
        let fpr = fpr.min(POOREST);
        // fpr = 1 - (1 - 1/classes)^keys, solved for the classes.
        let share = -((-fpr).ln_1p() / keys.max(1) as f64).exp_m1();
        let mut best = None::<(u64, Self)>;
        Way::each(lines, fpr, |way| {
            let mut bins = (keys as f64 / way.load).ceil().max(1.0);
            let layout = loop {
                match Way::layout(way.lines, 1.0 / (share * bins), way.s, way.r) {
                    Some(layout) => break layout,
                    None => bins += 1.0, // what rounding left out
                }
            };
            if let Ok(shape) = Self::sized(layout, bins as u64, way.over, keys) {
                let bytes = shape.bytes();
                if best.as_ref().is_none_or(|(least, _)| bytes < *least) {
                    best = Some((bytes, shape));
                }
            }
        });
        let why = "a broom filter has remainders of at most 40 bits";
        best.map(|(_, shape)| shape).ok_or(Error::Infeasible { why })
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn figures(&self) -> Figures {
        let query_cost = if self.layout.lines == 1 { 3.0 } else { 4.0 };
        Figures { keys: self.keys, fpr: self.fpr_at(self.keys), bytes: self.bytes(), query_cost }
    }

    /// The chance that a stranger shares the fingerprint of one of the keys, wherever it lies.
    /// Extensions only lower it.
    fn fpr_at(&self, keys: u64) -> f64 {
        let others = (-1.0 / self.classes()).ln_1p();
        -(keys as f64 * others).exp_m1()
    }
}

/// A broom filter.
///
/// ```
/// use tamis::{Broom, Goal, KeyHash, HashId, KeyHasher, Key, Keyed};
///
/// let hasher = KeyHasher::random(HashId::Secure);
/// let store: Vec<KeyHash> = (0..1000u64).map(|key| key.hash_with(&hasher)).collect();
/// let goal = Goal::KeysFpr { keys: 1000, fpr: 0.03 };
/// let mut filter = Keyed::<Broom>::build_for(goal, hasher, 0..1000u64)?;
/// // A stranger gets in. The store finds that it has no such key, and tells.
/// let stranger = (1000u64..).find(|key| filter.contains(key)).unwrap();
/// let range = filter.suspects(&stranger);
/// let members: Vec<KeyHash> = store.iter().copied().filter(|key| range.contains(&key.hi)).collect();
/// filter.adapt(&stranger, &members);
/// assert!(!filter.contains(&stranger));
/// assert!((0..1000u64).all(|key| filter.contains(&key)));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Broom {
    yard: Yard,
    /// Where all is being moved to.
    moving: Option<Box<Move>>,
    len: u64,
}

impl Broom {
    /// An empty filter.
    pub fn new(shape: BroomShape) -> Result<Self, Error> {
        Ok(Self { yard: Yard::new(shape, 0)?, moving: None, len: 0 })
    }

    /// Entries of the stash that are in use, and all that there are.
    pub fn stashed(&self) -> (u64, u64) {
        self.yard.outside.stashed()
    }

    /// Sweeps that have come to their end.
    pub fn sweeps(&self) -> u64 {
        self.yard.sweep().epoch
    }

    /// About so many strangers, asked for again and again, are all denied in the end: a bin with
    /// room for C repairs is right about C times the strangers that it takes for members.
    pub fn working_set(&self) -> f64 {
        let bins = self.yard.shape.bins as f64;
        let repairs = self.yard.layout.repairs(self.len as f64 / bins);
        repairs * bins / self.yard.shape.fpr_at(self.len).max(f64::MIN_POSITIVE)
    }

    #[inline(always)]
    fn is_plain(&self) -> bool {
        self.moving.is_none() && self.yard.layout.lines == 1
    }

    /// The table that a key belongs to.
    #[inline(always)]
    fn yard<const PLAIN: bool>(&self, key: KeyHash) -> &Yard {
        match &self.moving {
            Some(moving) if !PLAIN && moving.has_moved(&self.yard, key) => &moving.to,
            _ => &self.yard,
        }
    }

    #[inline(always)]
    fn yard_mut<const PLAIN: bool>(&mut self, key: KeyHash) -> &mut Yard {
        match &mut self.moving {
            Some(moving) if !PLAIN && moving.has_moved(&self.yard, key) => &mut moving.to,
            _ => &mut self.yard,
        }
    }
}

/// One query, many queries, one insertion, many: see [`Task`].
///
/// Bins of one line, in a filter that is not being moved, are `PLAIN` and have code of their own.
/// Where one function served both, a query of a plain filter took a tenth more instructions.
struct Ask<'a, const PLAIN: bool>(&'a Broom, KeyHash);
struct AskEach<'a, const PLAIN: bool>(&'a Broom, &'a [KeyHash], &'a mut [bool]);
struct Put<'a, const PLAIN: bool>(&'a mut Broom, &'a [KeyHash]);

impl<const PLAIN: bool> Task for Ask<'_, PLAIN> {
    type Output = bool;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> bool {
        let Self(filter, key) = self;
        filter.yard::<PLAIN>(key).contains::<PLAIN, true>(bits, key)
    }
}

impl<const PLAIN: bool> Task for AskEach<'_, PLAIN> {
    type Output = ();

    #[inline(always)]
    fn work(self, bits: impl Bits) {
        let Self(filter, keys, out) = self;
        let fetch = |keys: &[KeyHash]| {
            for key in keys.iter().take(BATCH) {
                filter.yard::<PLAIN>(*key).fetch::<PLAIN>(*key);
            }
        };
        fetch(keys);
        for (i, (batch, out)) in keys.chunks(BATCH).zip(out.chunks_mut(BATCH)).enumerate() {
            fetch(keys.get((i + 1) * BATCH..).unwrap_or(&[]));
            for (key, out) in batch.iter().zip(out) {
                *out = filter.yard::<PLAIN>(*key).contains::<PLAIN, false>(bits, *key);
            }
        }
    }
}

impl<const PLAIN: bool> Task for Put<'_, PLAIN> {
    type Output = Result<(), Full>;

    #[inline(always)]
    fn work(self, bits: impl Bits) -> Result<(), Full> {
        let Self(filter, keys) = self;
        let (most, before) = (filter.shape().keys, filter.len);
        for (i, batch) in keys.chunks(BATCH).enumerate() {
            if keys.len() > 1 {
                let next = keys.get((i + 1) * BATCH..).unwrap_or(&[]);
                let next = if i == 0 { keys } else { next };
                for key in next.iter().take(BATCH) {
                    filter.yard::<PLAIN>(*key).fetch::<PLAIN>(*key);
                }
            }
            for key in batch {
                let full = Full { inserted: filter.len - before };
                if filter.len >= most {
                    return Err(full);
                }
                filter.yard_mut::<PLAIN>(*key).insert::<PLAIN>(bits, *key).map_err(|_| full)?;
                filter.len += 1;
            }
        }
        Ok(())
    }
}

impl Filter for Broom {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        if self.is_plain() { run(Ask::<true>(self, key)) } else { run(Ask::<false>(self, key)) }
    }

    /// Keys inserted less keys removed; a repair counts anew those of its bin.
    fn len(&self) -> u64 {
        self.len
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        assert!(out.len() >= keys.len(), "an answer for each key");
        let out = &mut out[..keys.len()];
        if self.is_plain() {
            run(AskEach::<true>(self, keys, out));
        } else {
            run(AskEach::<false>(self, keys, out));
        }
    }
}

impl Build for Broom {
    type Shape = BroomShape;

    /// While all is being moved, that of the new table.
    fn shape(&self) -> &BroomShape {
        self.moving.as_ref().map_or(&self.yard.shape, |moving| &moving.to.shape)
    }

    fn build_with(
        options: &BuildOptions<'_>,
        fit: impl FnOnce(u64) -> Result<BroomShape, Error>,
        keys: impl KeySource,
    ) -> Result<Self, Error> {
        build_by_inserting(options, Self::new(fit(0)?)?, keys)
    }
}

impl Insert for Broom {
    #[inline]
    fn insert(&mut self, key: KeyHash) -> Result<(), Full> {
        self.insert_batch(&[key])
    }

    #[inline]
    fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Full> {
        if self.is_plain() { run(Put::<true>(self, keys)) } else { run(Put::<false>(self, keys)) }
    }
}

impl Remove for Broom {
    fn remove(&mut self, key: KeyHash) -> bool {
        let removed = self.len > 0 && self.yard_mut::<false>(key).remove(key);
        self.len -= u64::from(removed);
        removed
    }
}

impl Adapt for Broom {
    /// All that its bin covers.
    fn suspects(&self, key: KeyHash) -> RangeInclusive<u64> {
        let yard = self.yard::<false>(key);
        yard.range(yard.bin(key))
    }

    fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Repair {
        if !self.contains(stranger) {
            return Repair::NotNeeded;
        }
        let members = &self.in_table_of(stranger, members)[..];
        let yard = self.yard_mut::<false>(stranger);
        let mut sweep = yard.sweep();
        sweep.credit = sweep.credit.saturating_add(SWEPT);
        yard.set_sweep(sweep);
        let Some((gained, rehashed)) = yard.repair(stranger, members) else {
            return Repair::Impossible;
        };
        self.len = self.len.saturating_add_signed(gained);
        if rehashed { Repair::Rehashed } else { Repair::Extended }
    }

    /// The next bin's, once there were so many false positives that it is due; while all is being
    /// moved, that of the next bin to move.
    fn due(&self) -> Option<RangeInclusive<u64>> {
        match &self.moving {
            Some(moving) => Some(self.yard.range(moving.next)),
            None => self.yard.due().map(|bin| self.yard.range(bin)),
        }
    }

    fn renew(&mut self, members: &[KeyHash]) {
        let gained = match &self.moving {
            Some(_) => self.move_next(members),
            None => self.yard.sweep_next(members),
        };
        self.len = self.len.saturating_add_signed(gained);
    }
}

impl Yard {
    fn range(&self, bin: u64) -> RangeInclusive<u64> {
        let first = self.first_hi(bin).unwrap_or(u64::MAX);
        let last = self.first_hi(bin + 1).map_or(u64::MAX, |next| next.wrapping_sub(1));
        first..=last
    }

    /// The bin to be swept next, if it is due.
    fn due(&self) -> Option<u64> {
        let sweep = self.sweep();
        let keys = u64::from(self.view(sweep.cursor).used()).max(1);
        (sweep.credit >= keys).then_some(sweep.cursor)
    }

    /// Puts the next bin under the next function. After the last bin the next function is the old
    /// one, and there is another.
    fn sweep_next(&mut self, members: &[KeyHash]) -> i64 {
        let mut sweep = self.sweep();
        let used = u64::from(self.view(sweep.cursor).used()).max(1);
        sweep.credit = sweep.credit.saturating_sub(used);
        let gained = self.rehash(sweep.cursor, members);
        // Bins that ran out of salts are there already.
        while sweep.cursor < self.shape.bins && self.is_swept(sweep.cursor) {
            sweep.cursor += 1;
        }
        if sweep.cursor == self.shape.bins {
            (sweep.epoch, sweep.cursor) = (sweep.epoch.wrapping_add(1), 0);
        }
        self.set_sweep(sweep);
        gained
    }
}

impl Persist for Broom {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        let mut fields = self.yard.fields().to_vec();
        fields.push(self.moving.as_ref().map_or(0, |moving| moving.next + 1));
        if let Some(moving) = &self.moving {
            fields.extend(moving.to.fields());
        }
        to.shape(&fields);
        self.yard.write(to);
        if let Some(moving) = &self.moving {
            moving.to.write(to);
        }
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let len = from.header().keys;
        let mut fields = from.shape()?;
        let (shape, stash) = BroomShape::read(&mut fields)?;
        let moving = match fields.next(0..=shape.bins, "bins that have moved")? {
            0 => None,
            next => Some((next - 1, BroomShape::read(&mut fields)?)),
        };
        fields.finish()?;
        let most = moving.as_ref().map_or(shape.keys, |(_, (shape, _))| shape.keys);
        if len > most {
            return Err(from.corrupt("the header has more keys than it is made for").into());
        }
        let yard = Yard::read(from, shape, stash)?;
        let moving = match moving {
            Some((next, (shape, stash))) => {
                Some(Box::new(Move { to: Yard::read(from, shape, stash)?, next }))
            }
            None => None,
        };
        Ok(Self { yard, moving, len })
    }

    fn validate(&self) -> Result<(), Error> {
        let corrupt = |what| Error::from(tamis_format::Error::corrupt(what));
        let mut len = self.yard.check().map_err(corrupt)?;
        if let Some(moving) = &self.moving {
            len += moving.to.check().map_err(corrupt)?;
        }
        if len != self.len {
            return Err(corrupt("the bins do not hold as many keys as the header says"));
        }
        Ok(())
    }
}

impl Yard {
    /// The shape and the entries of the stash, as they are saved.
    fn fields(&self) -> [u64; FIELDS] {
        let BroomShape { bins, layout: Layout { lines, b, s, r }, overflow, stash, keys } =
            self.shape;
        let (_, now) = self.outside.stashed();
        [bins, lines.into(), b.into(), s.into(), r.into(), overflow, stash, keys, now]
    }
}

impl BroomShape {
    fn read(fields: &mut tamis_format::Fields) -> Result<(Self, u64), Error> {
        let bins = fields.next(1..=outside::most_bins(1), "number of bins")?;
        let lines = fields.next(1..=2, "cache lines a bin")? as u32;
        let most = Layout::most_buckets(lines).into();
        let b = fields.next(1..=most, "buckets a bin")? as u32;
        let s = fields.next(1..=u64::from(64 * lines), "slots a bin")? as u32;
        let r = fields.next(1..=MAX_REMAINDER.into(), "bits of a remainder")? as u32;
        let overflow = fields.next(1..=outside::MAX_LINES, "overflow lines a group")?;
        let stash = fields.next(4..=MAX_STASH, "entries of a stash")?;
        let keys = fields.next(0..=MAX_KEYS, "keys it is made for")?;
        let now = fields.next(stash..=MAX_STASH, "entries of the stash")?;
        Ok((Self::new(bins, Layout { lines, b, s, r }, overflow, stash, keys)?, now))
    }
}
