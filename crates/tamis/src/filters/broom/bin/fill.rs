//! Writes all fingerprints of a bin at once.

use tamis_bits::packed::mask;

use super::super::fields::set_bits;
use super::{CHUNK, EXTENSIONS, Fingerprint, Layout, Marks, ViewMut};

impl ViewMut<'_> {
    /// Writes fingerprints without extensions into an empty bin: each is its bucket, counted from
    /// `first`, and its remainder. They must fit and be in the order of their buckets.
    #[inline(always)]
    pub(in super::super) fn write(&mut self, first: u64, fingerprints: &[u64]) {
        let Layout { r, .. } = self.layout;
        let (near, far, two) = (self.layout.near(), self.layout.far(), self.layout.lines == 2);
        let half = |at: usize| if two { at / 64 % 2 } else { 0 };
        let (mut index, mut starts, mut last) = ([0; 2], [0; 2], u64::MAX);
        // The next word of remainders, and the number of its bits that are complete.
        let first_slot = self.layout.first_slot();
        let (mut at, mut bits, mut filled) = (first_slot as usize / 64, 0, first_slot % 64);
        for (slot, fp) in fingerprints.iter().enumerate() {
            let bucket = (fp >> r) - first;
            index[half(bucket as usize)] |= 1 << (bucket % 64);
            starts[half(slot)] |= u64::from(bucket != last) << (slot % 64);
            last = bucket;
            let remainder = fp >> far & mask(near);
            bits |= remainder << filled;
            self.line[at] = bits;
            filled += near;
            if filled >= 64 {
                filled -= 64;
                bits = remainder >> (near - filled);
                at += 1;
            }
            if far > 0 {
                set_bits(self.far, self.at + slot as u64 * u64::from(far), far, *fp);
            }
        }
        if bits > 0 {
            self.line[at] = bits;
        }
        let marks = |[low, high]: [u64; 2]| Marks { two, low, high };
        self.set_index(marks(index));
        let used = fingerprints.len() as u32;
        let ends = marks(starts).all() >> 1 | 1 << used.saturating_sub(1);
        self.set_ends(if used > 0 { Marks::of(two, ends) } else { marks([0; 2]) });
    }

    /// Replaces the contents of the bin by these fingerprints, which must fit and be in the order
    /// of their buckets. The hash function and the overflow bit stay.
    pub(in super::super) fn fill(&mut self, fingerprints: &[Fingerprint]) {
        let Layout { s, r, .. } = self.layout;
        let (near, far) = (self.layout.near(), self.layout.far());
        let head = self.line[0] & mask(EXTENSIONS);
        self.line.fill(0);
        self.line[0] = head;
        for slot in 0..s {
            set_bits(self.far, self.at + u64::from(slot * far), far, 0);
        }
        let (mut ends, mut entries) = (0u128, 0);
        let first = u64::from(self.layout.first_slot());
        for (slot, fp) in (0..).zip(fingerprints) {
            self.set_bucket(fp.bucket, true);
            if fingerprints.get(slot as usize + 1).is_none_or(|next| next.bucket != fp.bucket) {
                ends |= 1 << slot;
            }
            set_bits(self.line, first + u64::from(slot * near), near, fp.tail >> (64 - near));
            set_bits(
                self.far,
                self.at + u64::from(slot * far),
                far,
                fp.tail >> (64 - r) & mask(far),
            );
            for at in (r..fp.len).step_by(CHUNK as usize) {
                let more = (fp.len - at).min(CHUNK);
                let bits = fp.tail << at >> (64 - more);
                self.set_entry(entries, slot, 1 << more | bits as u32);
                entries += 1;
            }
        }
        self.set_ends(Marks::of(self.layout.lines == 2, ends));
        self.set_extensions(entries);
    }
}
