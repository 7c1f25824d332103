//! Settings of a kind beyond keys and rate, as typed values.

use alloc::string::String;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;

use crate::error::Error;

/// Describes one setting of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// The values that it accepts, and the default.
    pub takes: &'static str,
}

impl Setting {
    pub(crate) const fn new(name: &'static str, takes: &'static str) -> Self {
        Self { name, takes }
    }
}

/// The value of a setting.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SettingValue {
    /// A whole number.
    Integer(u64),
    /// A number with a fraction.
    Real(f64),
    /// One of several names.
    Name(String),
}

impl SettingValue {
    /// Reads a value as a user types it: a whole number, else a number, else a name.
    ///
    /// ```
    /// use tamis::SettingValue;
    /// assert_eq!(SettingValue::parse("12"), SettingValue::Integer(12));
    /// assert_eq!(SettingValue::parse("0.98"), SettingValue::Real(0.98));
    /// assert_eq!(SettingValue::parse("sliced"), SettingValue::Name("sliced".into()));
    /// ```
    pub fn parse(text: &str) -> Self {
        match (text.parse(), text.parse()) {
            (Ok(integer), _) => Self::Integer(integer),
            (_, Ok(real)) => Self::Real(real),
            _ => Self::Name(text.into()),
        }
    }
}

impl fmt::Display for SettingValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Real(value) => write!(f, "{value}"),
            Self::Name(value) => write!(f, "{value}"),
        }
    }
}

macro_rules! from_integers {
    ($($integer:ty),*) => { $(
        impl From<$integer> for SettingValue {
            fn from(value: $integer) -> Self {
                Self::Integer(value.into())
            }
        }
    )* };
}
from_integers!(u8, u16, u32, u64);

impl From<i32> for SettingValue {
    /// Takes an integer literal. A negative number becomes a real one, which no integer setting accepts.
    fn from(value: i32) -> Self {
        u64::try_from(value).map_or(Self::Real(value.into()), Self::Integer)
    }
}

impl From<f64> for SettingValue {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<&str> for SettingValue {
    /// Reads the value as a user types it: see [`SettingValue::parse`].
    fn from(value: &str) -> Self {
        Self::parse(value)
    }
}

/// The parameters of a shape, by name: those that settings can change have the setting's name.
pub type Parameters = Vec<(&'static str, SettingValue)>;

/// Values of settings, by name.
///
/// ```
/// use tamis::{Goal, Kind, Settings};
///
/// let settings = Settings::new().with("f", 12u32);
/// let figures = Kind::Cuckoo.plan(Goal::KeysFpr { keys: 1000, fpr: 0.01 }, &settings)?;
/// assert!(figures.fpr < 0.005);
/// # Ok::<_, tamis::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings(Vec<(String, SettingValue)>);

impl Settings {
    /// Returns no settings: the defaults of the kind.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns these settings with `name` set.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, value: impl Into<SettingValue>) -> Self {
        self.set(name, value);
        self
    }

    /// Sets `name`; the last value wins.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<SettingValue>) {
        self.0.push((name.into(), value.into()));
    }

    /// Sets `name` unless it is set.
    pub(crate) fn set_default(&mut self, name: &str, value: impl Into<SettingValue>) {
        self.0.insert(0, (name.into(), value.into()));
    }

    /// Returns the names and values, in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SettingValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// The integer of `setting`, if it is set; `fits` says which integers it accepts.
    pub(crate) fn number(
        &self,
        setting: &Setting,
        fits: impl Fn(u64) -> bool,
    ) -> Result<Option<u64>, Error> {
        self.read(setting, |value| match value {
            SettingValue::Integer(number) if fits(*number) => Some(*number),
            _ => None,
        })
    }

    /// The number of `setting`, with or without a fraction, if it is set.
    pub(crate) fn real(&self, setting: &Setting) -> Result<Option<f64>, Error> {
        self.read(setting, |value| match value {
            SettingValue::Integer(number) => Some(*number as f64),
            SettingValue::Real(number) => Some(*number),
            SettingValue::Name(_) => None,
        })
    }

    /// The position in `names` of the name of `setting`, if it is set.
    pub(crate) fn choice(&self, setting: &Setting, names: &[&str]) -> Result<Option<usize>, Error> {
        self.read(setting, |value| match value {
            SettingValue::Name(given) => names.iter().position(|name| name == given),
            _ => None,
        })
    }

    fn read<T>(
        &self,
        setting: &Setting,
        read: impl Fn(&SettingValue) -> Option<T>,
    ) -> Result<Option<T>, Error> {
        let Some((name, value)) = self.0.iter().rev().find(|(name, _)| name == setting.name) else {
            return Ok(None);
        };
        match read(value) {
            Some(read) => Ok(Some(read)),
            None => Err(Error::Setting {
                name: name.clone(),
                value: value.to_string(),
                takes: setting.takes,
            }),
        }
    }

    /// Checks that every name is one of `known`.
    pub(crate) fn check(&self, known: &[Setting]) -> Result<(), Error> {
        match self.0.iter().find(|(name, _)| known.iter().all(|setting| setting.name != name)) {
            None => Ok(()),
            Some((name, value)) => Err(Error::Setting {
                name: name.clone(),
                value: value.to_string(),
                takes: "nothing: this kind has no such setting",
            }),
        }
    }
}
