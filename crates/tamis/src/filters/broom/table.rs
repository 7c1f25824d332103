//! A table of bins, its overflow, and the hash functions of its bins.

use alloc::vec::Vec;

use tamis_bits::range::{mix, scale};
use tamis_bits::select::{Bits, Portable};
use tamis_bits::{LINE_WORDS, Words, prefetch};
use tamis_format::{Name, Reader, Writer};

use super::BroomShape;
use super::bin::{Address, CHUNK, Fingerprint, LAST_SALT, Layout, TAIL, View, ViewMut, function};
use super::overflow::Overflow;
use crate::error::{Error, Full};
use crate::filters::common::usize_words;
use crate::hash::KeyHash;

const BINS: Name = Name::new("bins");
const FAR: Name = Name::new("far");
const OVERFLOW: Name = Name::new("overflow");
const STASH: Name = Name::new("stash");
const SWEEP: Name = Name::new("sweep");

/// The progress of the sweep.
///
/// A bin whose epoch bit equals the lowest bit of `epoch` uses the old function, another bin the
/// next one: `h_a` and `h_b` of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sweep {
    /// Completed sweeps.
    pub(super) epoch: u64,
    /// Bins before this one use the next function.
    pub(super) cursor: u64,
    /// Keys that are due to be swept for the false positives so far.
    pub(super) credit: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    pub(super) shape: BroomShape,
    pub(super) layout: Layout,
    bins: Words,
    far: Words,
    pub(super) overflow: Overflow,
    /// Epoch, cursor and credit, as they are saved.
    sweep: [u64; 3],
    /// The seed of the hash function for each epoch bit.
    functions: [u64; 2],
}

/// The hash function of all bins of a new table: epoch and salt.
pub(super) const FIRST: (u64, u64) = (0, 0);

/// A member of a bin: its address under a hash function, and the length of its fingerprint.
pub(super) struct Entry {
    address: Address,
    len: u32,
}

impl Entry {
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new(self.address, self.len)
    }
}

/// Returns the seed of an epoch's hash function.
fn function_of(epoch: u64) -> u64 {
    mix(epoch.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

impl Table {
    /// Creates an empty table whose bins use the function of `epoch`.
    pub(super) fn new(shape: BroomShape, epoch: u64) -> Result<Self, Error> {
        let bins = Words::zeroed(usize_words(shape.bin_words())?)?;
        let far = Words::zeroed(usize_words(shape.far_words())?)?;
        let overflow = Overflow::new(shape.bins, shape.layout, shape.overflow, shape.stash)?;
        let mut table = Self::with(shape, bins, far, overflow, [epoch, 0, 0]);
        if epoch & 1 == 1 {
            (0..table.shape.bins).for_each(|bin| table.view_mut(bin).set_function(1, 0));
        }
        Ok(table)
    }

    fn with(
        shape: BroomShape,
        bins: Words,
        far: Words,
        overflow: Overflow,
        sweep: [u64; 3],
    ) -> Self {
        let mut table =
            Self { layout: shape.layout, shape, bins, far, overflow, sweep, functions: [0; 2] };
        table.set_sweep(table.sweep());
        table
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

    /// Returns the smallest `hi` of a bin; `None` past the last bin.
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

    /// Returns a view of a bin with `layout`, the layout of all bins.
    #[inline(always)]
    fn view_in(&self, layout: Layout, bin: u64) -> View<'_> {
        let line: &[u64] = match layout.lines {
            1 => &self.bins.as_chunks::<8>().0[bin as usize],
            _ => &self.bins.as_chunks::<16>().0[bin as usize],
        };
        View { layout, line, far: &self.far, at: self.far_at(bin) }
    }

    #[inline(always)]
    pub(super) fn view_mut_in(&mut self, layout: Layout, bin: u64) -> ViewMut<'_> {
        let at = self.far_at(bin);
        let bins = self.bins.to_mut();
        let line: &mut [u64] = match layout.lines {
            1 => &mut bins.as_chunks_mut::<8>().0[bin as usize],
            _ => &mut bins.as_chunks_mut::<16>().0[bin as usize],
        };
        ViewMut { layout, line, far: self.far.to_mut(), at }
    }

    /// Returns the layout, with `lines` as a constant if `PLAIN`.
    #[inline(always)]
    pub(super) fn layout<const PLAIN: bool>(&self) -> Layout {
        if PLAIN { Layout { lines: 1, ..self.layout } } else { self.layout }
    }

    /// Returns the address of a key in its bin under a hash function. The high half of the product
    /// is the bucket and the low half the tail, so no bit is used twice.
    #[inline(always)]
    pub(super) fn address_under(&self, lo: u64, (epoch, salt): (u64, u64)) -> Address {
        let start = self.functions[epoch as usize & 1];
        let mixed = mix(lo ^ start.wrapping_add(salt.wrapping_mul(0xd1b5_4a32_d192_ed03)));
        let product = u128::from(mixed) * u128::from(self.layout.b);
        Address { bucket: (product >> 64) as u32, tail: product as u64 }
    }

    /// Returns the address of a key under the current hash function of its bin.
    #[inline(always)]
    pub(super) fn address(&self, bin: u64, key: KeyHash) -> Address {
        self.address_under(key.lo, function(self.view(bin).line))
    }

    /// Returns whether the table contains the key.
    ///
    /// With `EARLY`, the address under the function that the sweep has left to the bin, with salt 0, is
    /// computed before the bin has been read. Few bins have another one, after a repair. For single
    /// lookups, that makes a hit in a table of 10^7 keys take a quarter less time.
    #[inline(always)]
    pub(super) fn contains<const PLAIN: bool, const EARLY: bool>(
        &self,
        bits: impl Bits,
        key: KeyHash,
    ) -> bool {
        let bin = self.bin(key);
        let early = EARLY.then(|| {
            let [epoch, cursor, _] = self.sweep;
            let usual = ((epoch ^ u64::from(bin < cursor)) & 1, 0);
            (usual, self.address_under(key.lo, usual))
        });
        let view = self.view_in(self.layout::<PLAIN>(), bin);
        let function = function(view.line);
        let address = match early {
            Some((usual, address)) if function == usual => address,
            _ => self.address_under(key.lo, function),
        };
        view.contains(bits, address)
            || view.may_overflow(address.bucket) && self.overflow.contains(bin, address)
    }

    /// Inserts a key. A full bin moves its last fingerprint, or the new one, to the overflow.
    /// Buckets of overflowed keys are not below any bucket in the bin, so most lookups need not
    /// read the overflow.
    #[inline(always)]
    pub(super) fn insert<const PLAIN: bool>(
        &mut self,
        bits: impl Bits,
        key: KeyHash,
    ) -> Result<(), Full> {
        let (bin, layout) = (self.bin(key), self.layout::<PLAIN>());
        let view = self.view_in(layout, bin);
        let address = self.address_under(key.lo, function(view.line));
        if !view.is_sound() {
            return Err(Full::NONE); // only in a damaged file
        }
        let may_be_in = !view.overflows() || view.last_bucket() >= address.bucket;
        let mut view = self.view_mut_in(layout, bin);
        if may_be_in && view.has_room() {
            view.insert(bits, address);
            return Ok(());
        }
        self.insert_overflow(bin, address)
    }

    #[cold]
    fn insert_overflow(&mut self, bin: u64, address: Address) -> Result<(), Full> {
        let overflows = self.view(bin).overflows();
        match self.view(bin).last() {
            Some(last) if address.bucket < last.bucket => {
                self.overflow.insert(bin, &last)?;
                let slot = self.view(bin).used() - 1;
                let mut view = self.view_mut(bin);
                view.remove(Portable, last.bucket, slot);
                view.insert(Portable, address);
            }
            _ => self.overflow.insert(bin, &Fingerprint::new(address, self.overflow_len(1)))?,
        }
        if !overflows {
            self.view_mut(bin).set_overflow(true);
        }
        Ok(())
    }

    /// Removes the longest fingerprint that matches the key. If it belongs to another key, the
    /// key's own fingerprint is shorter, so it is a prefix of the removed one and matches the other
    /// key from now on.
    pub(super) fn remove(&mut self, key: KeyHash) -> bool {
        let bin = self.bin(key);
        let address = self.address(bin, key);
        let view = self.view(bin);
        let inside = view.longest_match(Portable, address);
        let overflow =
            view.may_overflow(address.bucket).then(|| self.overflow.longest_match(bin, address));
        match (inside, overflow.flatten()) {
            (None, None) => return false,
            (Some((_, len)), Some((at, other))) if other >= len => self.overflow.remove(at),
            (None, Some((at, _))) => self.overflow.remove(at),
            (Some((slot, _)), _) => self.view_mut(bin).remove(Portable, address.bucket, slot),
        }
        if self.view(bin).overflows() {
            self.refill_bin(bin);
        }
        true
    }

    /// Moves fingerprints from the overflow into the bin, lowest buckets first, while the bin has
    /// room. There they need not be longer than others. A fingerprint with the extension of a repair
    /// stays in the overflow until the bin is rebuilt.
    #[cold]
    fn refill_bin(&mut self, bin: u64) {
        loop {
            let (mut any, mut plain) = (false, None);
            for bucket in self.view(bin).last_bucket()..self.layout.b {
                self.overflow.for_each(bin, bucket, |at, fp| {
                    any = true;
                    if fp.len == self.layout.r || fp.len == self.overflow_len(1) {
                        plain = Some((at, fp));
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
                Some((at, fp)) if self.view_mut(bin).has_room() => {
                    self.overflow.remove(at);
                    let address = Address { bucket: fp.bucket, tail: fp.tail };
                    self.view_mut(bin).insert(Portable, address);
                }
                _ => return,
            }
        }
    }

    /// Returns all fingerprints of a bin, overflow included.
    pub(super) fn gather(&self, bin: u64) -> Vec<Fingerprint> {
        let mut fingerprints = Vec::with_capacity(self.layout.s as usize + 16);
        let view = self.view(bin);
        view.fingerprints(&mut fingerprints);
        if view.overflows() {
            for bucket in view.last_bucket()..self.layout.b {
                self.overflow.for_each_copy(bin, bucket, |fp| fingerprints.push(fp));
            }
        }
        fingerprints
    }

    /// Replaces all fingerprints of a bin and sets its hash function.
    ///
    /// The fingerprints that do not fit into the bin are lengthened, by as many bits as an overflow
    /// line has room for. Together they match no more non-members than one fingerprint in the bin:
    /// see [`max_weight`](super::max_weight).
    pub(super) fn rebuild_bin(
        &mut self,
        bin: u64,
        mut entries: Vec<Entry>,
        (epoch, salt): (u64, u64),
    ) {
        if self.view(bin).overflows() {
            for bucket in self.view(bin).last_bucket()..self.layout.b {
                while let Some(at) = self.overflow.any_in(bin, bucket) {
                    self.overflow.remove(at);
                }
            }
        }
        entries.sort_by_key(|entry| entry.address.bucket);
        let mut fingerprints: Vec<Fingerprint> = entries.iter().map(Entry::fingerprint).collect();
        let (inside, overflow) = entries.split_at(self.layout.fitting(&fingerprints));
        fingerprints.truncate(inside.len());
        let mut view = self.view_mut(bin);
        view.fill(&fingerprints);
        view.set_function(epoch, salt);
        view.set_overflow(!overflow.is_empty());
        let min_len = self.overflow_len(overflow.len());
        for &Entry { address, len } in overflow {
            let fp = Fingerprint::new(address, len.max(min_len));
            self.overflow.insert(bin, &fp).expect("failed to allocate stash entries");
        }
    }

    /// Returns the length of each of `count` fingerprints of a bin in the overflow: all together
    /// match as many non-members as one fingerprint without an extension, or fewer.
    fn overflow_len(&self, count: usize) -> u32 {
        let bits = usize::BITS - count.saturating_sub(1).leading_zeros();
        (self.layout.r + bits.max(CHUNK)).min(TAIL)
    }

    /// Returns the members that fall into a bin, without extensions.
    fn entries(&self, bin: u64, members: &[KeyHash], function: (u64, u64)) -> Vec<Entry> {
        let ours = members.iter().filter(|key| self.bin(**key) == bin);
        ours.map(|key| Entry { address: self.address_under(key.lo, function), len: self.layout.r })
            .collect()
    }

    /// Rehashes a bin with the next epoch's function and returns the change of the number of
    /// fingerprints.
    pub(super) fn rehash(&mut self, bin: u64, members: &[KeyHash]) -> i64 {
        let next = (self.sweep().epoch.wrapping_add(1) & 1, 0);
        let entries = self.entries(bin, members, next);
        let gained = entries.len() as i64 - self.gather(bin).len() as i64;
        self.rebuild_bin(bin, entries, next);
        gained
    }

    /// Inserts keys. The stash grows if necessary.
    pub(super) fn insert_all(&mut self, keys: &[KeyHash]) {
        for key in keys {
            // A damaged bin takes no key.
            if self.view(self.bin(*key)).is_sound() {
                self.insert::<false>(Portable, *key).expect("failed to allocate stash entries");
            }
        }
    }

    /// Removes all fingerprints of a bin.
    pub(super) fn clear(&mut self, bin: u64) {
        let function = function(self.view(bin).line);
        self.rebuild_bin(bin, Vec::new(), function);
    }

    /// Returns whether the bin uses the next epoch's function already.
    pub(super) fn is_swept(&self, bin: u64) -> bool {
        function(self.view(bin).line).0 != self.sweep().epoch & 1
    }

    /// Extends the members' fingerprints until none matches `stranger`; if there is no room,
    /// switches the bin to another hash function. Returns the change of the number of fingerprints
    /// and whether the function changed; `None` if no function separates `stranger` from the
    /// members.
    pub(super) fn repair(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Option<(i64, bool)> {
        let bin = self.bin(stranger);
        if members.iter().any(|key| key.lo == stranger.lo && self.bin(*key) == bin) {
            return None; // no function separates them
        }
        let mut function = function(self.view(bin).line);
        // Extensions must not move fingerprints out of the bin; under a new function any number may
        // overflow.
        let mut min_inside = self.view(bin).used() as usize;
        let fingerprints = self.gather(bin);
        let had = fingerprints.len() as i64;
        // Fingerprints in the overflow have the second length without a repair.
        let (inside, overflow) = fingerprints.split_at(min_inside);
        let inside = inside.iter().filter(|fp| fp.len > self.layout.r);
        let overflow =
            overflow.iter().filter(|fp| fp.len > self.layout.r && fp.len != self.overflow_len(1));
        let mut extended: Vec<Fingerprint> = inside.chain(overflow).copied().collect();
        let first = function;
        loop {
            if let Some(entries) = self.separate(bin, stranger, members, &extended, function)
                && self.fitting(&entries) >= min_inside.min(entries.len())
            {
                let gained = entries.len() as i64 - had;
                self.rebuild_bin(bin, entries, function);
                return Some((gained, function != first));
            }
            function = self.next_function(function)?;
            extended.clear();
            min_inside = 0;
        }
    }

    /// Returns the function after this one: the next salt, and after the last salt the next epoch.
    fn next_function(&self, (epoch, salt): (u64, u64)) -> Option<(u64, u64)> {
        if salt < LAST_SALT {
            Some((epoch, salt + 1))
        } else {
            (epoch == self.sweep().epoch & 1).then_some((epoch ^ 1, 0))
        }
    }

    /// Returns how many of the entries fit into a bin.
    fn fitting(&self, entries: &[Entry]) -> usize {
        let mut fingerprints: Vec<Fingerprint> = entries.iter().map(Entry::fingerprint).collect();
        fingerprints.sort_by_key(|fp| fp.bucket);
        self.layout.fitting(&fingerprints)
    }

    /// Returns the members of a bin. Each has the length of the longest of the `extended`
    /// fingerprints that matches it, so non-members that were rejected before are still rejected,
    /// and is long enough to reject `stranger`.
    fn separate(
        &self,
        bin: u64,
        stranger: KeyHash,
        members: &[KeyHash],
        extended: &[Fingerprint],
        function: (u64, u64),
    ) -> Option<Vec<Entry>> {
        let x = self.address_under(stranger.lo, function);
        let alike = Fingerprint::new(x, self.layout.r);
        let mut entries = self.entries(bin, members, function);
        for Entry { address, len } in &mut entries {
            let had = extended.iter().filter(|fp| fp.matches(*address)).map(|fp| fp.len);
            *len = had.max().unwrap_or(*len);
            if alike.matches(*address) {
                *len = (*len).max(x.common(*address) + 1);
            }
            if *len > TAIL {
                return None;
            }
        }
        Some(entries)
    }

    pub(super) fn write<'a>(&'a self, to: &mut Writer<'a>) {
        to.words(BINS, &self.bins);
        to.words(FAR, &self.far);
        to.words(OVERFLOW, self.overflow.words());
        to.words(STASH, self.overflow.stash());
        to.slice(SWEEP, &self.sweep);
    }

    /// Reads the sections of a table whose stash has `stash` entries.
    pub(super) fn read(from: &mut Reader, shape: BroomShape, stash: u64) -> Result<Self, Error> {
        let bins = from.words(BINS, shape.bin_words())?;
        let far = from.words(FAR, shape.far_words())?;
        let overflow = from.words(OVERFLOW, shape.overflow_words())?;
        let stash = from.words(STASH, stash * 2)?;
        let overflow =
            Overflow::from_words(shape.bins, shape.layout, shape.overflow, overflow, stash);
        if !overflow.stash_is_sound(shape.bins) {
            return Err(from.corrupt("a stash entry is invalid").into());
        }
        let sweep = from.words(SWEEP, 3)?;
        let sweep = [sweep[0], sweep[1], sweep[2]];
        if sweep[1] >= shape.bins {
            return Err(from.corrupt("the sweep cursor is past the last bin").into());
        }
        Ok(Self::with(shape, bins, far, overflow, sweep))
    }

    /// Returns the number of fingerprints, or a description of what is invalid.
    pub(super) fn check(&self) -> Result<u64, &'static str> {
        let mut count = 0;
        for bin in 0..self.shape.bins {
            let view = self.view(bin);
            if let Some(fault) = view.fault() {
                return Err(fault);
            }
            if bin < self.sweep().cursor && !self.is_swept(bin) {
                return Err("a bin before the sweep cursor has the old epoch");
            }
            count += u64::from(view.used());
        }
        let bits = self.layout.far() * self.layout.s;
        if !tamis_bits::set::ends_at(&self.far, self.shape.bins * u64::from(bits)) {
            return Err("bits are set past the end");
        }
        let may_overflow = |bin, bucket| self.view(bin).may_overflow(bucket);
        Ok(count + self.overflow.check(self.shape.bins, self.layout.b, may_overflow)?)
    }
}
