//! The size of a filter that is to be built: what a user states, before the keys are counted.

use alloc::string::String;

use crate::error::Error;
#[cfg(not(feature = "std"))]
use crate::math::Float;
use crate::settings::{SettingValue, Settings};
use crate::shape::{Goal, Shape, solve};

/// The size of a filter that is to be built: a capacity, a rate or an amount of memory, and settings.
///
/// ```
/// use tamis::{BuildOptions, Filter, HashId, Hashes, Key, KeyHasher, Kind, Sizing};
///
/// let hasher = KeyHasher::random(HashId::Fast)?;
/// let mut keys = Hashes::new(["apple", "pear"].iter().map(|key| key.hash_with(&hasher)));
/// // Static kinds count their keys: no capacity is needed.
/// let filter = Kind::Ribbon.build(&Sizing::fpr(0.001), &mut keys, &BuildOptions::new())?;
/// assert!(filter.contains("pear".hash_with(&hasher)));
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Sizing {
    capacity: Option<u64>,
    target: Target,
    settings: Settings,
}

/// What decides the size, together with the number of keys.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Fpr(f64),
    Bytes(u64),
    BitsPerKey(f64),
}

impl Default for Sizing {
    /// A rate of 1 %.
    fn default() -> Self {
        Self::fpr(0.01)
    }
}

impl Sizing {
    fn of(target: Target) -> Self {
        Self { capacity: None, target, settings: Settings::default() }
    }

    /// The smallest filter with this false positive rate.
    pub fn fpr(fpr: f64) -> Self {
        Self::of(Target::Fpr(fpr))
    }

    /// The lowest rate within this many bytes.
    pub fn bytes(bytes: u64) -> Self {
        Self::of(Target::Bytes(bytes))
    }

    /// The lowest rate within this many bits per key.
    pub fn bits_per_key(bits: f64) -> Self {
        Self::of(Target::BitsPerKey(bits))
    }

    /// Makes the filter for this many keys, instead of those that are counted.
    #[must_use]
    pub fn capacity(self, keys: u64) -> Self {
        Self { capacity: Some(keys), ..self }
    }

    /// Sets `name`: see [`Kind::settings`](crate::Kind::settings).
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<SettingValue>) -> Self {
        self.settings.set(name, value);
        self
    }

    /// Adds settings.
    #[must_use]
    pub fn settings(self, settings: Settings) -> Self {
        Self { settings, ..self }
    }

    /// Replaces rate, bytes or bits per key by those of `target`.
    #[must_use]
    pub(crate) fn target(self, target: Self) -> Self {
        Self { target: target.target, ..self }
    }

    /// Returns the settings.
    pub fn get_settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the capacity, if it is given.
    pub fn given_capacity(&self) -> Option<u64> {
        self.capacity
    }

    /// Returns the goal for `keys` keys.
    pub fn goal(&self, keys: u64) -> Goal {
        match self.target {
            Target::Fpr(fpr) => Goal::KeysFpr { keys, fpr },
            Target::Bytes(bytes) => Goal::KeysBytes { keys, bytes },
            // A cache line is the least that any table takes, even for no keys.
            Target::BitsPerKey(bits) => {
                Goal::KeysBytes { keys, bytes: ((keys as f64 * bits / 8.0).ceil() as u64).max(64) }
            }
        }
    }

    /// Returns the shape for the given capacity, or for `counted` keys.
    ///
    /// # Errors
    /// [`Error::Capacity`] if more keys were counted than the capacity; otherwise as [`solve`].
    pub fn shape<S: Shape>(&self, counted: u64) -> Result<S, Error> {
        solve(self.goal(self.keys(counted)?), &self.settings)
    }

    /// The same for values of `bits` bits, unless the setting `value_bits` is given.
    pub(crate) fn map_shape<S: Shape>(&self, counted: u64, bits: u32) -> Result<S, Error> {
        self.values_shape(counted, bits, 0)
    }

    /// The same for a map with `bytes` bytes of distinct values beside its cells. They are part of a
    /// size that is given in bytes or bits per key.
    pub(crate) fn values_shape<S: Shape>(
        &self,
        counted: u64,
        bits: u32,
        bytes: u64,
    ) -> Result<S, Error> {
        let mut settings = self.settings.clone();
        settings.set_default("value_bits", bits);
        let goal = match self.goal(self.keys(counted)?) {
            Goal::KeysBytes { keys, bytes: all } => {
                let why = "the distinct values alone take more bytes";
                let bytes = all.checked_sub(bytes).ok_or(Error::Infeasible { why })?;
                Goal::KeysBytes { keys, bytes }
            }
            goal => goal,
        };
        solve(goal, &settings)
    }

    fn keys(&self, counted: u64) -> Result<u64, Error> {
        match self.capacity {
            Some(capacity) if counted > capacity => Err(Error::Capacity { capacity }),
            capacity => Ok(capacity.unwrap_or(counted)),
        }
    }
}
