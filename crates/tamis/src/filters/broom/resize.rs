//! Resizing: bins move to a table of another size one by one while the filter is in use.
//!
//! ```text
//!  hi      0 ─────────────────── the next bin to move ───────────── 2^64
//!  old     │  moved, now empty    │  bin  │  bin  │  bin  │  bin     │
//!  new     │ bin │ bin │ bin │ bin │ …                                │
//! ```
//!
//! The bins of both tables are in the order of the hashes, so the moved keys are a range of hashes,
//! and the hash of a key decides which table holds it.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec::Vec;

use super::table::Table;
use super::{Broom, BroomShape};
use crate::error::Error;
use crate::hash::KeyHash;

/// A resize in progress.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Migration {
    pub(super) to: Table,
    /// The first bin that has not moved.
    pub(super) next: u64,
}

impl Migration {
    #[inline(always)]
    pub(super) fn has_moved(&self, from: &Table, key: KeyHash) -> bool {
        from.bin(key) < self.next
    }
}

impl Broom {
    /// Begins to move to another shape. From now on a bin is always due: every call of
    /// [`renew`](crate::Adapt::renew) moves one bin, and the last call frees the old table. Until
    /// then both tables are in memory. The filter can be used meanwhile; its capacity is that of
    /// the new shape at once, but the move should finish before it holds many more keys than the
    /// old capacity.
    ///
    /// # Errors
    /// [`Error::Capacity`] if the filter holds more keys than the new capacity,
    /// [`Error::Infeasible`] if a resize is in progress, [`Error::Memory`] if the new table cannot
    /// be allocated.
    pub fn resize(&mut self, shape: BroomShape) -> Result<(), Error> {
        if self.len > shape.keys {
            return Err(Error::Capacity { capacity: shape.keys });
        }
        if self.moving.is_some() {
            return Err(Error::Infeasible { why: "a resize is already in progress" });
        }
        // Hash functions that the old table has not used.
        let epoch = self.table.sweep().epoch.wrapping_add(2);
        self.moving = Some(Box::new(Migration { to: Table::new(shape, epoch)?, next: 0 }));
        Ok(())
    }

    /// Returns whether a resize is in progress.
    pub fn is_moving(&self) -> bool {
        self.moving.is_some()
    }

    /// Returns the members that are in the same table as `key`. Of the range of a bin in the new
    /// table only a part may have moved; the other members are still in the old table.
    pub(super) fn in_table_of<'a>(
        &self,
        key: KeyHash,
        members: &'a [KeyHash],
    ) -> Cow<'a, [KeyHash]> {
        match &self.moving {
            Some(moving) if moving.has_moved(&self.table, key) => {
                let moved = members.iter().filter(|key| moving.has_moved(&self.table, **key));
                moved.copied().collect()
            }
            _ => members.into(),
        }
    }

    /// Moves the next bin, given the members of its range, and returns the change of the number of
    /// fingerprints.
    pub(super) fn move_next(&mut self, members: &[KeyHash]) -> i64 {
        let Some(moving) = &mut self.moving else { return 0 };
        let bin = moving.next;
        let ours: Vec<KeyHash> =
            members.iter().copied().filter(|key| self.table.bin(*key) == bin).collect();
        let had = self.table.gather(bin).len() as i64;
        moving.to.insert_all(&ours);
        self.table.clear(bin);
        moving.next += 1;
        if moving.next == self.table.shape.bins
            && let Some(moving) = self.moving.take()
        {
            self.table = moving.to;
        }
        ours.len() as i64 - had
    }
}
