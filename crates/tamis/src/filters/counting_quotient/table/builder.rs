//! Builds a table from ascending entries.

use super::shift::write;
use super::{BLOCK, Table, counter};
use crate::error::Full;

/// Writes runs one after the other, in order.
pub(in super::super) struct TableBuilder {
    table: Table,
    free: u64,
    /// The quotient whose run is being written.
    open: Option<u64>,
    /// The block of the last quotient, and its occupied quotients, which are written at its end.
    occupied: (u64, u64),
    /// The block of the last end, and its ends.
    ends: (u64, u64),
}

impl TableBuilder {
    /// Starts with an empty table.
    pub(in super::super) fn new(table: Table) -> Self {
        Self { table, free: 0, open: None, occupied: (0, 0), ends: (0, 0) }
    }

    /// Appends an entry, which must be larger than all before it.
    #[inline]
    pub(in super::super) fn push(
        &mut self,
        quotient: u64,
        remainder: u64,
        count: u64,
    ) -> Result<(), Full> {
        if self.open != Some(quotient) {
            self.close();
            let start = self.free.max(quotient);
            if start >= self.table.slots() {
                return Err(Full::NONE);
            }
            if quotient / BLOCK != self.occupied.0 {
                self.next_block(quotient / BLOCK);
            }
            self.free = start;
            self.occupied.1 |= 1 << (quotient % BLOCK);
            self.open = Some(quotient);
        }
        if count > 1 {
            return self.push_counted(remainder, count);
        }
        if self.free >= self.table.slots() {
            return Err(Full::NONE);
        }
        self.table.set_slot(self.free, remainder);
        self.free += 1;
        Ok(())
    }

    fn push_counted(&mut self, remainder: u64, count: u64) -> Result<(), Full> {
        let needs = counter::slots(self.table.layout.width, remainder, count);
        if self.free + needs > self.table.slots() {
            return Err(Full::NONE);
        }
        self.table.set_entry(self.free, remainder, count);
        self.free += needs;
        Ok(())
    }

    /// Ends the current run.
    #[inline(always)]
    fn close(&mut self) {
        if self.open.is_none() {
            return;
        }
        let (block, at) = ((self.free - 1) / BLOCK, (self.free - 1) % BLOCK);
        if block != self.ends.0 {
            self.table.set_ends(self.ends.0, self.ends.1);
            self.ends = (block, 0);
        }
        self.ends.1 |= 1 << at;
    }

    /// Moves on to a block. All runs of earlier blocks are complete, so offsets are known.
    fn next_block(&mut self, block: u64) {
        let (last, occupied) = self.occupied;
        let bit = self.table.occupied_bit(last * BLOCK);
        write(self.table.words.to_mut(), bit, u64::MAX, occupied);
        for block in last + 1..=block {
            self.table.set_offset(block, self.free.saturating_sub(block * BLOCK));
        }
        self.occupied = (block, 0);
    }

    /// Completes the table.
    pub(in super::super) fn finish(mut self) -> Table {
        self.close();
        self.next_block(self.table.blocks - 1);
        self.table.set_ends(self.ends.0, self.ends.1);
        self.table
    }
}
