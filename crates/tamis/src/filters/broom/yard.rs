//! A table of bins, what is outside of them, and the hash functions that they are under.

use tamis_bits::range::{mix, scale};
use tamis_bits::select::{Bits, Portable};
use tamis_bits::{LINE_WORDS, Words, prefetch};
use tamis_format::{Name, Reader, Writer};

use super::BroomShape;
use super::bin::{LAST_SALT, Layout, Print, Spot, View, ViewMut, function};
use super::outside::Outside;
use crate::error::{Error, Full};
use crate::filters::common::usize_words;
use crate::hash::KeyHash;

const BINS: Name = Name::new("bins");
const FAR: Name = Name::new("far");
const OVERFLOW: Name = Name::new("overflow");
const STASH: Name = Name::new("stash");
const SWEEP: Name = Name::new("sweep");

/// How far the sweep has come.
///
/// A bin whose epoch bit is that of `epoch` is still under the old function, another under the
/// next one: `h_a` and `h_b` of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sweep {
    /// Sweeps that have ended.
    pub(super) epoch: u64,
    /// Bins before it are under the next function.
    pub(super) cursor: u64,
    /// Keys that may be swept, for the false positives so far.
    pub(super) credit: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Yard {
    pub(super) shape: BroomShape,
    pub(super) layout: Layout,
    bins: Words,
    far: Words,
    pub(super) outside: Outside,
    /// As it is saved: epoch, cursor, credit.
    sweep: [u64; 3],
    /// What the function of each epoch bit starts from.
    functions: [u64; 2],
}

/// What the hash function of an epoch starts from.
fn function_of(epoch: u64) -> u64 {
    mix(epoch.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

impl Yard {
    /// No keys, under the function of this epoch.
    pub(super) fn new(shape: BroomShape, epoch: u64) -> Result<Self, Error> {
        let bins = Words::zeroed(usize_words(shape.bin_words())?)?;
        let far = Words::zeroed(usize_words(shape.far_words())?)?;
        let outside = Outside::new(shape.bins, shape.layout, shape.overflow, shape.stash)?;
        let mut yard = Self::with(shape, bins, far, outside, [epoch, 0, 0]);
        if epoch & 1 == 1 {
            (0..yard.shape.bins).for_each(|bin| yard.view_mut(bin).set_function(1, 0));
        }
        Ok(yard)
    }

    fn with(shape: BroomShape, bins: Words, far: Words, outside: Outside, sweep: [u64; 3]) -> Self {
        let mut yard =
            Self { layout: shape.layout, shape, bins, far, outside, sweep, functions: [0; 2] };
        yard.set_sweep(yard.sweep());
        yard
    }

    pub(super) fn sweep(&self) -> Sweep {
        let [epoch, cursor, credit] = self.sweep;
        Sweep { epoch, cursor, credit }
    }

    pub(super) fn set_sweep(&mut self, Sweep { epoch, cursor, credit }: Sweep) {
        self.sweep = [epoch, cursor, credit];
        let mut functions = [function_of(epoch), function_of(epoch.wrapping_add(1))];
        if epoch & 1 == 1 {
            functions.swap(0, 1);
        }
        self.functions = functions;
    }

    #[inline(always)]
    pub(super) fn bin(&self, key: KeyHash) -> u64 {
        scale(key.hi, self.shape.bins)
    }

    /// The smallest `hi` of a bin; `None` past the last.
    pub(super) fn first_hi(&self, bin: u64) -> Option<u64> {
        let first = (u128::from(bin) << 64).div_ceil(u128::from(self.shape.bins));
        u64::try_from(first).ok()
    }

    #[inline(always)]
    pub(super) fn fetch<const PLAIN: bool>(&self, key: KeyHash) {
        let layout = self.layout::<PLAIN>();
        let at = self.bin(key) as usize * layout.words();
        prefetch(&self.bins, at);
        if layout.lines == 2 {
            prefetch(&self.bins, at + LINE_WORDS);
        }
    }

    #[inline(always)]
    fn far_at(&self, bin: u64) -> u64 {
        bin * u64::from(self.layout.s * self.layout.far())
    }

    #[inline(always)]
    pub(super) fn view(&self, bin: u64) -> View<'_> {
        self.view_in(self.layout, bin)
    }

    #[inline(always)]
    pub(super) fn view_mut(&mut self, bin: u64) -> ViewMut<'_> {
        self.view_mut_in(self.layout, bin)
    }

    /// With this layout, which is that of all bins.
    #[inline(always)]
    fn view_in(&self, layout: Layout, bin: u64) -> View<'_> {
        let line: &[u64] = match layout.lines {
            1 => &self.bins.as_chunks::<8>().0[bin as usize],
            _ => &self.bins.as_chunks::<16>().0[bin as usize],
        };
        View { layout, line, far: &self.far, at: self.far_at(bin) }
    }

    #[inline(always)]
    fn view_mut_in(&mut self, layout: Layout, bin: u64) -> ViewMut<'_> {
        let at = self.far_at(bin);
        let bins = self.bins.to_mut();
        let line: &mut [u64] = match layout.lines {
            1 => &mut bins.as_chunks_mut::<8>().0[bin as usize],
            _ => &mut bins.as_chunks_mut::<16>().0[bin as usize],
        };
        ViewMut { layout, line, far: self.far.to_mut(), at }
    }

    /// The layout, where bins are known to be of one line.
    #[inline(always)]
    fn layout<const PLAIN: bool>(&self) -> Layout {
        if PLAIN { Layout { lines: 1, ..self.layout } } else { self.layout }
    }

    /// Where a key falls in its bin under a function: the product's high half is the bucket, its
    /// low half the tail, so that no bit is used twice.
    #[inline(always)]
    fn spot_under(&self, lo: u64, (epoch, salt): (u64, u64)) -> Spot {
        let start = self.functions[epoch as usize & 1];
        let mixed = mix(lo ^ start.wrapping_add(salt.wrapping_mul(0xd1b5_4a32_d192_ed03)));
        let product = u128::from(mixed) * u128::from(self.layout.b);
        Spot { bucket: (product >> 64) as u32, tail: product as u64 }
    }

    /// Where a key falls in its bin as that is now.
    #[inline(always)]
    pub(super) fn spot(&self, bin: u64, key: KeyHash) -> Spot {
        self.spot_under(key.lo, function(self.view(bin).line))
    }

    /// With `EARLY`, where the key falls under both functions without a salt, which most bins are
    /// under, is worked out before the bin is there: while nothing else is done, that makes a hit
    /// in a table of 10^7 keys a quarter quicker.
    #[inline(always)]
    pub(super) fn contains<const PLAIN: bool, const EARLY: bool>(
        &self,
        bits: impl Bits,
        key: KeyHash,
    ) -> bool {
        let bin = self.bin(key);
        let early = EARLY.then(|| [0, 1].map(|epoch| self.spot_under(key.lo, (epoch, 0))));
        let view = self.view_in(self.layout::<PLAIN>(), bin);
        let (epoch, salt) = function(view.line);
        let spot = match early {
            Some(early) if salt == 0 => early[epoch as usize],
            _ => self.spot_under(key.lo, (epoch, salt)),
        };
        view.holds(bits, spot) || view.may_be_outside(spot.bucket) && self.outside.holds(bin, spot)
    }

    /// Adds a key. A full bin gives up its last print, or the new one, to the outside: keys there
    /// have no lower bucket than any in the bin, and most queries need not look.
    #[inline(always)]
    pub(super) fn insert<const PLAIN: bool>(
        &mut self,
        bits: impl Bits,
        key: KeyHash,
    ) -> Result<(), Full> {
        let (bin, layout) = (self.bin(key), self.layout::<PLAIN>());
        let view = self.view_in(layout, bin);
        let spot = self.spot_under(key.lo, function(view.line));
        if !view.is_sound() {
            return Err(Full::NONE); // in a damaged file only
        }
        let may_be_in = !view.overflows() || view.last_bucket() >= spot.bucket;
        let mut view = self.view_mut_in(layout, bin);
        if may_be_in && view.has_room() {
            view.insert(bits, spot);
            return Ok(());
        }
        self.insert_outside(bin, spot)
    }

    #[cold]
    fn insert_outside(&mut self, bin: u64, spot: Spot) -> Result<(), Full> {
        let new = Print::new(spot, self.layout.r);
        let overflows = self.view(bin).overflows();
        match self.view(bin).last() {
            Some(last) if spot.bucket < last.bucket => {
                self.outside.put(bin, &last)?;
                let slot = self.view(bin).used() - 1;
                let mut view = self.view_mut(bin);
                view.remove(Portable, last.bucket, slot);
                view.insert(Portable, spot);
            }
            _ => self.outside.put(bin, &new)?,
        }
        if !overflows {
            self.view_mut(bin).set_overflow(true);
        }
        Ok(())
    }

    /// Takes out the print with the most bits that stands for the key. If it was another's, the
    /// key's own is shorter, so it is a prefix of that one and stands for the other from now on.
    pub(super) fn remove(&mut self, key: KeyHash) -> bool {
        let bin = self.bin(key);
        let spot = self.spot(bin, key);
        let view = self.view(bin);
        let inside = view.longest(Portable, spot);
        let outside = view.may_be_outside(spot.bucket).then(|| self.outside.longest(bin, spot));
        match (inside, outside.flatten()) {
            (None, None) => return false,
            (Some((_, len)), Some((at, other))) if other >= len => self.outside.remove(at),
            (None, Some((at, _))) => self.outside.remove(at),
            (Some((slot, _)), _) => self.view_mut(bin).remove(Portable, spot.bucket, slot),
        }
        if self.view(bin).overflows() {
            self.bring_back(bin);
        }
        true
    }

    /// Brings prints back from the outside, the lowest buckets first, while the bin has room. One
    /// that is extended stays where it is until the bin is made anew.
    #[cold]
    fn bring_back(&mut self, bin: u64) {
        loop {
            let (mut any, mut plain) = (false, None);
            for bucket in self.view(bin).last_bucket()..self.layout.b {
                self.outside.each(bin, bucket, |at, print| {
                    any = true;
                    if print.len == self.layout.r {
                        plain = Some((at, print));
                    }
                });
                if any {
                    break;
                }
            }
            if !any {
                self.view_mut(bin).set_overflow(false);
                return;
            }
            match plain {
                Some((at, print)) if self.view_mut(bin).has_room() => {
                    self.outside.remove(at);
                    let spot = Spot { bucket: print.bucket, tail: print.tail };
                    self.view_mut(bin).insert(Portable, spot);
                }
                _ => return,
            }
        }
    }

    /// All prints of a bin, inside and outside.
    pub(super) fn gather(&self, bin: u64) -> Vec<Print> {
        let mut prints = Vec::with_capacity(self.layout.s as usize + 16);
        let view = self.view(bin);
        view.prints(&mut prints);
        if view.overflows() {
            for bucket in view.last_bucket()..self.layout.b {
                self.outside.each_with_copies(bin, bucket, |print| prints.push(print));
            }
        }
        prints
    }

    /// Replaces all prints of a bin by these, under this function.
    pub(super) fn place(&mut self, bin: u64, mut prints: Vec<Print>, (epoch, salt): (u64, u64)) {
        if self.view(bin).overflows() {
            for bucket in self.view(bin).last_bucket()..self.layout.b {
                while let Some(at) = self.outside.any(bin, bucket) {
                    self.outside.remove(at);
                }
            }
        }
        prints.sort_by_key(|print| print.bucket);
        let (inside, outside) = prints.split_at(self.layout.fitting(&prints));
        let mut view = self.view_mut(bin);
        view.fill(inside);
        view.set_function(epoch, salt);
        view.set_overflow(!outside.is_empty());
        for print in outside {
            self.outside.put(bin, print).expect("memory for some more entries of the stash");
        }
    }

    /// The members that fall into a bin under this function, as short as prints are.
    fn fresh(&self, bin: u64, members: &[KeyHash], function: (u64, u64)) -> Vec<Print> {
        let ours = members.iter().filter(|key| self.bin(**key) == bin);
        ours.map(|key| Print::new(self.spot_under(key.lo, function), self.layout.r)).collect()
    }

    /// Puts a bin under the next epoch's function. How many prints it has gained.
    pub(super) fn rehash(&mut self, bin: u64, members: &[KeyHash]) -> i64 {
        let next = (self.sweep().epoch.wrapping_add(1) & 1, 0);
        let prints = self.fresh(bin, members, next);
        let gained = prints.len() as i64 - self.gather(bin).len() as i64;
        self.place(bin, prints, next);
        gained
    }

    /// Adds keys for which the stash can be made larger if need be.
    pub(super) fn insert_all(&mut self, keys: &[KeyHash]) {
        for key in keys {
            self.insert::<false>(Portable, *key)
                .expect("memory for some more entries of the stash");
        }
    }

    /// Takes all prints of a bin out.
    pub(super) fn clear(&mut self, bin: u64) {
        let function = function(self.view(bin).line);
        self.place(bin, Vec::new(), function);
    }

    /// Whether the bin is under the next epoch's function already.
    pub(super) fn is_swept(&self, bin: u64) -> bool {
        function(self.view(bin).line).0 != self.sweep().epoch & 1
    }

    /// Lengthens the members' prints until none stands for `stranger`; where there is no room for
    /// that, puts the bin under another function. How many prints it has gained, and whether the
    /// function changed; `None` if nothing helps.
    pub(super) fn repair(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Option<(i64, bool)> {
        let bin = self.bin(stranger);
        if members.iter().any(|key| key.lo == stranger.lo && self.bin(*key) == bin) {
            return None; // no function tells them apart
        }
        let mut function = function(self.view(bin).line);
        let mut prints = self.gather(bin);
        let had = prints.len() as i64;
        // What the bin holds now; a new function may turn out as many as fit.
        let mut least = self.view(bin).used() as usize;
        let first = function;
        loop {
            let mut told_apart = self.tell_apart(bin, stranger, members, &prints, function);
            if let Some(told_apart) = &mut told_apart {
                told_apart.sort_by_key(|print| print.bucket);
            }
            match told_apart {
                Some(prints) if self.layout.fitting(&prints) >= least.min(prints.len()) => {
                    let gained = prints.len() as i64 - had;
                    self.place(bin, prints, function);
                    return Some((gained, function != first));
                }
                _ => {}
            }
            function = self.another(function)?;
            prints = self.fresh(bin, members, function);
            least = 0;
        }
    }

    /// The function after this one: the next salt, and after the last one the next epoch.
    fn another(&self, (epoch, salt): (u64, u64)) -> Option<(u64, u64)> {
        if salt < LAST_SALT {
            Some((epoch, salt + 1))
        } else {
            (epoch == self.sweep().epoch & 1).then_some((epoch ^ 1, 0))
        }
    }

    /// The bin's prints, with one for each member that shares the stranger's bucket and remainder,
    /// long enough to deny the stranger and no shorter than the longest that stood for it: so
    /// whoever was denied before is denied still.
    fn tell_apart(
        &self,
        bin: u64,
        stranger: KeyHash,
        members: &[KeyHash],
        prints: &[Print],
        function: (u64, u64),
    ) -> Option<Vec<Print>> {
        let r = self.layout.r;
        let x = self.spot_under(stranger.lo, function);
        let alike = Print::new(x, r);
        let is_alike =
            |print: &Print| alike.matches(Spot { bucket: print.bucket, tail: print.tail });
        let mut told: Vec<Print> =
            prints.iter().filter(|print| !is_alike(print)).copied().collect();
        for key in members.iter().filter(|key| self.bin(**key) == bin) {
            let y = self.spot_under(key.lo, function);
            if alike.matches(y) {
                let had = prints.iter().filter(|print| print.matches(y)).map(|print| print.len);
                let len = had.max().unwrap_or(r).max(x.common(y) + 1);
                if len > super::bin::TAIL {
                    return None;
                }
                told.push(Print::new(y, len));
            }
        }
        Some(told)
    }

    pub(super) fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.words(BINS, &self.bins);
        to.words(FAR, &self.far);
        to.words(OVERFLOW, self.outside.overflow());
        to.words(STASH, self.outside.stash());
        to.slice(SWEEP, &self.sweep);
    }

    /// Reads the sections of a shape, with so many entries of the stash.
    pub(super) fn read(from: &mut Reader, shape: BroomShape, stash: u64) -> Result<Self, Error> {
        let bins = from.words(BINS, shape.bin_words())?;
        let far = from.words(FAR, shape.far_words())?;
        let overflow = from.words(OVERFLOW, shape.overflow_words())?;
        let stash = from.words(STASH, stash * 2)?;
        let outside = Outside::with(shape.bins, shape.layout, shape.overflow, overflow, stash);
        if !outside.stash_is_sound(shape.bins) {
            return Err(from.corrupt("the stash holds what is no key").into());
        }
        let sweep = from.words(SWEEP, 3)?;
        let sweep = [sweep[0], sweep[1], sweep[2]];
        if sweep[1] >= shape.bins {
            return Err(from.corrupt("the sweep is past the last bin").into());
        }
        Ok(Self::with(shape, bins, far, outside, sweep))
    }

    /// Prints in it, or what no filter could hold.
    pub(super) fn check(&self) -> Result<u64, &'static str> {
        let mut count = 0;
        for bin in 0..self.shape.bins {
            let view = self.view(bin);
            if let Some(fault) = view.fault() {
                return Err(fault);
            }
            if bin < self.sweep().cursor && !self.is_swept(bin) {
                return Err("a bin before the sweep is not swept");
            }
            count += u64::from(view.used());
        }
        let bits = self.layout.far() * self.layout.s;
        if !tamis_bits::set::ends_at(&self.far, self.shape.bins * u64::from(bits)) {
            return Err("bits are set past the end");
        }
        let is_outside = |bin, bucket| self.view(bin).may_be_outside(bucket);
        Ok(count + self.outside.check(self.shape.bins, self.layout.b, is_outside)?)
    }
}
