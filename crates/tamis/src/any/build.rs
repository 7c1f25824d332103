//! Plans and builds of a kind that is known only at run time.

use super::{AnyFilter, Registered, build};
use crate::capability::Capability;
use crate::error::Error;
use crate::filters::*;
use crate::kind::Kind;
use crate::options::BuildOptions;
use crate::settings::{Setting, Settings};
use crate::shape::{Figures, Goal, Shape, solve};
use crate::sizing::Sizing;
use crate::source::{EntrySource, KeySource, ValueSource};
use crate::traits::Build;

impl Kind {
    pub(super) fn unsupported(self, capability: Capability) -> Error {
        Error::Unsupported { kind: self, capability }
    }

    /// Returns its settings beyond keys and rate.
    pub fn settings(self) -> &'static [Setting] {
        dispatch_kind!(self, F => <F as Build>::Shape::SETTINGS)
    }

    /// Returns whether it stores the whole hash of each key, so that it also takes a rate of 0: a non-member
    /// passes with probability below the number of keys times 2^-128.
    pub fn is_exact(self) -> bool {
        dispatch_kind!(self, F => <F as Build>::Shape::IS_EXACT)
    }

    /// Returns what a filter of this kind would promise for `goal`.
    ///
    /// # Errors
    /// As [`solve`].
    pub fn plan(self, goal: Goal, settings: &Settings) -> Result<Figures, Error> {
        dispatch_kind!(self, F => {
            solve::<<F as Build>::Shape>(goal, settings).map(|shape| shape.figures())
        })
    }

    /// Returns what a filter of a kind that grows, started for `goal`, would promise once it holds `keys`
    /// keys.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kind does not grow; otherwise as [`solve`].
    pub fn plan_grown(self, goal: Goal, settings: &Settings, keys: u64) -> Result<Figures, Error> {
        if !self.can(Capability::Grow) {
            return Err(self.unsupported(Capability::Grow));
        }
        dispatch_kind!(self, F => {
            solve::<<F as Build>::Shape>(goal, settings).map(|shape| shape.figures_at(keys))
        })
    }

    /// Builds a filter of this kind from hashes.
    ///
    /// # Errors
    /// As [`Build::build_with`] and [`solve`].
    pub fn build(
        self,
        sizing: &Sizing,
        keys: &mut dyn KeySource,
        options: &BuildOptions<'_>,
    ) -> Result<AnyFilter, Error> {
        dispatch_kind!(self, F => build::<F>(sizing, keys, options))
    }

    /// Builds a map of this kind from hashes and values, which are as wide as the widest unless the
    /// setting `value_bits` is given.
    ///
    /// # Errors
    /// As [`BuildMap::build_map_with`](crate::BuildMap::build_map_with); [`Error::Unsupported`] for other kinds.
    pub fn build_map(
        self,
        sizing: &Sizing,
        entries: &mut dyn EntrySource,
        options: &BuildOptions<'_>,
    ) -> Result<AnyFilter, Error> {
        dispatch_kind!(self, F => match F::build_map_fn() {
            Some(build) => build(sizing, entries, options).map(Into::into),
            None => Err(self.unsupported(Capability::Map)),
        })
    }

    /// Builds a map of this kind from hashes and values of any type. With a size in bytes or bits per
    /// key, the distinct byte strings count as part of it.
    ///
    /// # Errors
    /// As [`BuildMap::build_values_with`](crate::BuildMap::build_values_with);
    /// [`Error::Unsupported`] for other kinds.
    pub fn build_values(
        self,
        sizing: &Sizing,
        entries: ValueSource<'_>,
        options: &BuildOptions<'_>,
    ) -> Result<AnyFilter, Error> {
        dispatch_kind!(self, F => match F::build_values_fn() {
            Some(build) => build(sizing, entries, options).map(Into::into),
            None => Err(self.unsupported(Capability::Map)),
        })
    }

    /// Builds a filter of this kind from hashes, against a deny list.
    ///
    /// # Errors
    /// As [`Deny::build_denying`](crate::Deny::build_denying); [`Error::Unsupported`] for other kinds.
    pub fn build_denying(
        self,
        sizing: &Sizing,
        keys: &mut dyn KeySource,
        denied: &mut dyn KeySource,
        options: &BuildOptions<'_>,
    ) -> Result<AnyFilter, Error> {
        dispatch_kind!(self, F => match F::build_denying_fn() {
            Some(build) => build(sizing, keys, denied, options).map(Into::into),
            None => Err(self.unsupported(Capability::Deny)),
        })
    }
}
