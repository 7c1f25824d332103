//! Moving to a table of another size, bin after bin, while the filter is in use.
//!
//! ```text
//!  hi      0 ─────────────────── the next bin to move ───────────── 2^64
//!  old     │  moved: not asked    │  bin  │  bin  │  bin  │  bin     │
//!  new     │ bin │ bin │ bin │ bin │ …                                │
//! ```
//!
//! Bins of both tables are in the order of the hashes, so what has moved is a range of them, and a
//! hash tells which table to ask.

use std::borrow::Cow;

use super::yard::Yard;
use super::{Broom, BroomShape};
use crate::error::Error;
use crate::hash::KeyHash;

/// The way to another table.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Move {
    pub(super) to: Yard,
    /// The first bin that has not moved.
    pub(super) next: u64,
}

impl Move {
    #[inline(always)]
    pub(super) fn has_moved(&self, from: &Yard, key: KeyHash) -> bool {
        from.bin(key) < self.next
    }
}

impl Broom {
    /// Begins to move to another shape. From now on a bin is due at any time: every call of
    /// [`renew`](crate::Adapt::renew) moves one, and the last one frees the old table. Until then
    /// both are in memory. The filter is used as always; it is for the new shape's number of keys
    /// at once, but should be moved before it has many more than the old one's.
    pub fn resize(&mut self, shape: BroomShape) -> Result<(), Error> {
        if self.len > shape.keys {
            return Err(Error::Capacity { capacity: shape.keys });
        }
        if self.moving.is_some() {
            return Err(Error::Infeasible { why: "the filter is being moved already" });
        }
        // Functions that the old table has not had.
        let epoch = self.yard.sweep().epoch.wrapping_add(2);
        self.moving = Some(Box::new(Move { to: Yard::new(shape, epoch)?, next: 0 }));
        Ok(())
    }

    /// Whether it is being moved to another shape.
    pub fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// The members that are in the same table as a key. A new bin may have a range of which only a
    /// part has moved: what has not is in no bin of the new table yet.
    pub(super) fn in_table_of<'a>(
        &self,
        key: KeyHash,
        members: &'a [KeyHash],
    ) -> Cow<'a, [KeyHash]> {
        match &self.moving {
            Some(moving) if moving.has_moved(&self.yard, key) => {
                let moved = members.iter().filter(|key| moving.has_moved(&self.yard, **key));
                moved.copied().collect()
            }
            _ => members.into(),
        }
    }

    /// Moves the next bin, of whose range these are the members. How many prints there are more.
    pub(super) fn move_next(&mut self, members: &[KeyHash]) -> i64 {
        let Some(moving) = &mut self.moving else { return 0 };
        let bin = moving.next;
        let ours: Vec<KeyHash> =
            members.iter().copied().filter(|key| self.yard.bin(*key) == bin).collect();
        let had = self.yard.gather(bin).len() as i64;
        moving.to.insert_all(&ours);
        self.yard.clear(bin);
        moving.next += 1;
        if moving.next == self.yard.shape.bins
            && let Some(moving) = self.moving.take()
        {
            self.yard = moving.to;
        }
        ours.len() as i64 - had
    }
}
