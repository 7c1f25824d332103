//! The kinds of filter: numbers, names and capabilities, from the registry.

use alloc::string::ToString;
use core::fmt;
use core::str::FromStr;

use crate::capability::{Capability, UnknownName};

/// What a kind does with a key that is inserted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Copies {
    /// A copy takes no capacity.
    Free,
    /// A copy takes as much capacity as a new key. Any number of copies fits within the capacity.
    Kept,
    /// A copy takes a slot, and only a few slots can hold a key: 8 to 12 copies in `cuckoo` and `adaptive_cuckoo`, 6 in
    /// `morton`, 1000 in `quotient` and `adaptive_quotient`, a block in `removable_tinyset`. One more
    /// is [`Full`](crate::Full), whatever the capacity.
    Bounded,
}

/// What the registry says about a kind.
struct Entry {
    name: &'static str,
    paper: &'static str,
    capabilities: &'static [Capability],
}

macro_rules! define_kind {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        /// A kind of filter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum Kind { $(
            #[doc = concat!("[`", stringify!($type), "`](crate::", stringify!($type), ")")]
            $type = $id,
        )* }

        impl Kind {
            /// All kinds, in the registry's order.
            pub const ALL: &'static [Self] = &[ $( Self::$type, )* ];

            fn entry(self) -> &'static Entry {
                match self { $(
                    Self::$type => &Entry {
                        name: stringify!($file),
                        paper: $paper,
                        capabilities: &[ $( Capability::$can, )* ],
                    },
                )* }
            }
        }
    };
}

crate::registry!(define_kind);

impl Kind {
    /// Returns its number in files.
    pub fn id(self) -> u16 {
        self as u16
    }

    /// Returns the kind with this number in files.
    ///
    /// # Errors
    /// [`UnknownName`] if there is none.
    pub fn from_id(id: u16) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().find(|kind| kind.id() == id);
        found.copied().ok_or_else(|| UnknownName::new("filter", id.to_string()))
    }

    /// Returns its name: that of its file, its module and its value on the command line.
    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns the authors and years of the papers that describe it.
    pub fn paper(self) -> &'static str {
        self.entry().paper
    }

    /// Returns what it can do beyond answering queries.
    pub fn capabilities(self) -> &'static [Capability] {
        self.entry().capabilities
    }

    /// Returns whether it has this capability.
    pub fn can(self, capability: Capability) -> bool {
        self.capabilities().contains(&capability)
    }

    /// Returns what it does with a key that is inserted again.
    pub fn copies(self) -> Copies {
        match self {
            Self::Cuckoo
            | Self::Morton
            | Self::Quotient
            | Self::AdaptiveQuotient
            | Self::AdaptiveCuckoo
            | Self::RemovableTinySet => Copies::Bounded,
            Self::CountingBloom
            | Self::CountingQuotient
            | Self::Broom
            | Self::AdaptiveBloom
            | Self::Growing
            | Self::ScalableBloom
            | Self::RemovableSpectralBloom => Copies::Kept,
            _ => Copies::Free,
        }
    }

    /// Returns whether it holds only a few copies of one key, and is full of one that is inserted more
    /// often.
    pub fn bounds_copies(self) -> bool {
        self.copies() == Copies::Bounded
    }

    /// Returns whether it exists to hold filters of other programs. The planner does not recommend it.
    pub fn is_foreign(self) -> bool {
        matches!(self, Self::ForeignBloom | Self::ForeignFuse)
    }

    /// Returns whether the stated rate holds for every query of any sequence, each false positive being
    /// repaired: what the broom paper calls adaptive. The planner prefers such kinds where repairs are
    /// needed. It is true of every kind that [adapts](Capability::Adapt) except `adaptive_cuckoo`.
    pub fn sustains_rate(self) -> bool {
        self.can(Capability::Adapt) && self != Self::AdaptiveCuckoo
    }

    /// Returns whether building searches for a solution, which takes minutes from 10^5 keys on.
    pub fn is_slow_to_build(self) -> bool {
        matches!(self, Self::Sat)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.iter().find(|kind| kind.name() == name);
        found.copied().ok_or_else(|| UnknownName::new("filter", name))
    }
}
