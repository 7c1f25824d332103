//! The claim on a store that another dictionary can take over.
//!
//! A lookup that the filter rejects does not reach the store, so it would not notice that another dictionary has
//! acquired the store and put the key. Therefore nothing is answered without a confirmation of the claim within the
//! lease. A thread confirms it several times per lease; after a pause, the lookup itself does.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant, SystemTime};

use crate::error::Error;
use crate::store::Store;

/// The confirmations per lease of a claim that is not lost.
const CONFIRMATIONS: u32 = 5;

/// The claim on a store.
#[derive(Debug)]
pub(crate) struct Claim {
    /// `None` if the claim cannot be lost.
    lease: Option<Duration>,
    /// When the last successful confirmation was begun.
    confirmed: RwLock<Moment>,
    /// Held by the thread that confirms.
    confirming: Mutex<()>,
    lost: OnceLock<Loss>,
}

/// A moment on two clocks: one that is never set back, and one that runs while the machine is suspended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment(Instant, SystemTime);

impl Moment {
    pub(crate) fn now() -> Self {
        Self(Instant::now(), SystemTime::now())
    }

    /// Returns whether less than `duration` has passed since, by both clocks.
    fn is_within(self, duration: Duration) -> bool {
        self.0.elapsed() < duration && self.1.elapsed().is_ok_and(|elapsed| elapsed < duration)
    }
}

/// Why a claim is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Fenced,
    LostWrites,
}

impl Loss {
    fn error(self) -> Error {
        match self {
            Self::Fenced => Error::Fenced,
            Self::LostWrites => Error::LostWrites,
        }
    }
}

impl Claim {
    /// Returns the claim on a store that was acquired by a call at `begun`.
    pub(crate) fn new(store: &impl Store, begun: Moment) -> Self {
        let (confirming, lost) = Default::default();
        Self { lease: store.lease(), confirmed: RwLock::new(begun), confirming, lost }
    }

    pub(crate) fn can_be_lost(&self) -> bool {
        self.lease.is_some()
    }

    /// Returns an error unless the claim was confirmed within the lease. Confirms it if necessary.
    pub(crate) fn check(&self, store: &impl Store) -> Result<(), Error> {
        let Some(lease) = self.lease else { return Ok(()) };
        if let Some(loss) = self.lost.get() {
            return Err(loss.error());
        }
        if self.is_within(lease) {
            return Ok(());
        }
        let _confirming = super::lock(&self.confirming);
        // Another thread may have confirmed it meanwhile.
        if self.is_within(lease) { Ok(()) } else { self.confirm(store) }
    }

    fn is_within(&self, lease: Duration) -> bool {
        let confirmed = *self.confirmed.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        confirmed.is_within(lease)
    }

    fn confirm(&self, store: &impl Store) -> Result<(), Error> {
        let begun = Moment::now();
        store.confirm().inspect_err(|error| self.observe(error))?;
        let confirmed =
            &mut *self.confirmed.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        if begun.0 > confirmed.0 {
            *confirmed = begun;
        }
        Ok(())
    }

    /// Takes note of an error that means that the claim is lost.
    pub(crate) fn observe(&self, error: &Error) {
        let loss = match error {
            Error::Fenced => Loss::Fenced,
            Error::LostWrites => Loss::LostWrites,
            _ => return,
        };
        let _ = self.lost.set(loss);
    }

    /// Confirms the claim several times per lease until the channel is closed.
    pub(crate) fn keep(&self, store: &impl Store, stop: &Receiver<()>) {
        let Some(lease) = self.lease else { return };
        while stop.recv_timeout(lease / CONFIRMATIONS) == Err(RecvTimeoutError::Timeout) {
            // If it fails, lookups confirm it themselves when the lease has ended.
            let _ = self.confirm(store);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confirmation_ends_by_either_clock() {
        let (lease, long) = (Duration::from_secs(50), Duration::from_secs(100));
        let Moment(instant, time) = Moment::now();
        assert!(Moment(instant, time).is_within(lease));
        // The machine was suspended, so that one clock stood still.
        assert!(!Moment(instant, time - long).is_within(lease));
        // The other clock was set back.
        assert!(!Moment(instant, time + long).is_within(lease));
        if let Some(before) = instant.checked_sub(long) {
            assert!(!Moment(before, time).is_within(lease));
        }
    }
}
