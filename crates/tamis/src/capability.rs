//! What a kind can do beyond answering queries.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// Something that a kind of filter can do beyond answering queries. Each is a trait of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Capability {
    /// Takes keys one by one.
    Insert,
    /// Removes keys.
    Remove,
    /// Counts how often a key was inserted.
    Count,
    /// Takes in another filter's keys.
    Merge,
    /// Intersects and compares sets, and estimates their cardinality.
    SetOps,
    /// Lists its fingerprints.
    List,
    /// Moves to a table of another size.
    Resize,
    /// Accepts keys beyond its capacity, at a rising false positive rate.
    Overfill,
    /// Grows beyond its first capacity at the false positive rate that it was made for.
    Grow,
    /// Forgets keys by age.
    Window,
    /// Repairs a false positive that is reported to it.
    Adapt,
    /// Is built from all keys at once, and counts them itself.
    Static,
    /// Gives each key a value.
    Map,
    /// Takes a deny list, whose keys are never false positives.
    Deny,
    /// Answers whether a range holds any key.
    Range,
}

impl Capability {
    /// All capabilities.
    pub const ALL: [Self; 15] = [
        Self::Insert,
        Self::Remove,
        Self::Count,
        Self::Merge,
        Self::SetOps,
        Self::List,
        Self::Resize,
        Self::Overfill,
        Self::Grow,
        Self::Window,
        Self::Adapt,
        Self::Static,
        Self::Map,
        Self::Deny,
        Self::Range,
    ];

    /// Returns its name, as on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Remove => "remove",
            Self::Count => "count",
            Self::Merge => "merge",
            Self::SetOps => "set_ops",
            Self::List => "list",
            Self::Resize => "resize",
            Self::Overfill => "overfill",
            Self::Grow => "grow",
            Self::Window => "window",
            Self::Adapt => "adapt",
            Self::Static => "static",
            Self::Map => "map",
            Self::Deny => "deny",
            Self::Range => "range",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Capability {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        Self::ALL
            .into_iter()
            .find(|capability| capability.name() == name)
            .ok_or_else(|| UnknownName::new("capability", name))
    }
}

/// A name or number that stands for nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownName {
    /// What it should name: `filter`, `hash` or `capability`.
    pub what: &'static str,
    /// The name or number.
    pub name: String,
}

impl UnknownName {
    /// States that there is no such `what`.
    pub fn new(what: &'static str, name: impl Into<String>) -> Self {
        Self { what, name: name.into() }
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no {} named {}", self.what, self.name)
    }
}

impl core::error::Error for UnknownName {}
