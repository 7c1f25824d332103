//! A filter whose kind is known only at run time.
//!
//! The registry's macros emit the enum [`AnyFilter`], the macros [`dispatch!`] and [`dispatch_kind!`], and
//! an implementation of [`Registered`] for each type, with one accessor for each of its capabilities. A
//! line that claims a capability whose trait is missing does not compile. Everything else in this file
//! is ordinary Rust.

mod inspect;
mod resize;

use core::alloc::Layout;
use core::ops::RangeInclusive;
use core::ptr::NonNull;

use tamis_format::{Reader, Writer};

use crate::capability::Capability;
use crate::error::Error;
use crate::filters::*;
use crate::hash::KeyHash;
use crate::kind::Kind;
use crate::options::BuildOptions;
use crate::settings::Parameters;
use crate::shape::{Figures, Shape};
use crate::sizing::Sizing;
use crate::source::{EntrySource, KeySource, ValueSource};
use crate::traits::sealed::Sealed;
use crate::traits::*;

/// A filter type with a line in the registry.
///
/// Its methods are what [`AnyFilter`] needs of a concrete type: accessors of capabilities, which return
/// `None` unless the registry's line names the capability. The trait is sealed.
pub trait Registered: Build + Persist + Clone + PartialEq + Into<AnyFilter> {
    /// Its kind.
    const KIND: Kind;

    /// Returns the filter in `any`, if it is of this type.
    fn from_any(any: &AnyFilter) -> Option<&Self>;

    /// Returns the filter as one that inserts.
    fn as_insert_mut(&mut self) -> Option<&mut dyn Insert> {
        None
    }

    /// Returns the filter as one that removes.
    fn as_remove_mut(&mut self) -> Option<&mut dyn Remove> {
        None
    }

    /// Returns the filter as one that counts.
    fn as_count(&self) -> Option<&dyn Count> {
        None
    }

    /// Returns the filter as a map.
    fn as_map(&self) -> Option<&dyn Map> {
        None
    }

    /// Returns the filter as a map whose values can change.
    fn as_map_mut(&mut self) -> Option<&mut dyn Map> {
        None
    }

    /// Returns the filter as a window.
    fn as_window(&self) -> Option<&dyn Window> {
        None
    }

    /// Returns the filter as a window that takes keys.
    fn as_window_mut(&mut self) -> Option<&mut dyn Window> {
        None
    }

    /// Returns the filter as one that adapts.
    fn as_adapt(&self) -> Option<&dyn Adapt> {
        None
    }

    /// Returns the filter as one that adapts, to change it.
    fn as_adapt_mut(&mut self) -> Option<&mut dyn Adapt> {
        None
    }

    /// Returns the filter as one that lists its fingerprints.
    fn as_list(&self) -> Option<&dyn List> {
        None
    }

    /// Returns the filter as one that changes its size.
    fn as_resize_mut(&mut self) -> Option<&mut dyn Resize> {
        None
    }

    /// Returns the filter as one that answers ranges.
    fn as_range(&self) -> Option<&dyn Range> {
        None
    }

    /// Returns [`Merge::merge`].
    fn merge_fn() -> Option<CombineFn<Self>> {
        None
    }

    /// Returns [`Merge::force_merge`].
    fn force_merge_fn() -> Option<CombineFn<Self>> {
        None
    }

    /// Returns [`SetOps::intersect`].
    fn intersect_fn() -> Option<CombineFn<Self>> {
        None
    }

    /// Returns [`SetOps::similarity`].
    fn similarity_fn() -> Option<CompareFn<Self>> {
        None
    }

    /// Returns [`SetOps::cardinality`].
    fn cardinality_fn() -> Option<fn(&Self) -> f64> {
        None
    }

    /// Returns a function that builds a map.
    fn build_map_fn() -> Option<BuildMapFn<Self>> {
        None
    }

    /// Returns a function that builds a map of any values.
    fn build_values_fn() -> Option<BuildValuesFn<Self>> {
        None
    }

    /// Returns a function that builds against a deny list.
    fn build_denying_fn() -> Option<BuildDenyingFn<Self>> {
        None
    }

    /// Checks at compile time that the type implements a trait without methods of its own.
    #[doc(hidden)]
    fn check_markers() {}
}

/// A function that combines a filter with another: see [`Registered::merge_fn`].
pub type CombineFn<F> = fn(&mut F, &F) -> Result<(), Error>;
/// A function that compares two filters: see [`Registered::similarity_fn`].
pub type CompareFn<F> = fn(&F, &F) -> Result<f64, Error>;
/// A function that builds a map: see [`Registered::build_map_fn`].
pub type BuildMapFn<F> = fn(&Sizing, &mut dyn EntrySource, &BuildOptions<'_>) -> Result<F, Error>;
/// A function that builds a map of any values: see [`Registered::build_values_fn`].
pub type BuildValuesFn<F> = fn(&Sizing, ValueSource<'_>, &BuildOptions<'_>) -> Result<F, Error>;
/// A function that builds against a deny list: see [`Registered::build_denying_fn`].
pub type BuildDenyingFn<F> =
    fn(&Sizing, &mut dyn KeySource, &mut dyn KeySource, &BuildOptions<'_>) -> Result<F, Error>;

/// The methods of [`Registered`] that a capability overrides.
macro_rules! accessors {
    (Insert) => {
        fn as_insert_mut(&mut self) -> Option<&mut dyn Insert> {
            Some(self)
        }
    };
    (Remove) => {
        fn as_remove_mut(&mut self) -> Option<&mut dyn Remove> {
            Some(self)
        }
    };
    (Count) => {
        fn as_count(&self) -> Option<&dyn Count> {
            Some(self)
        }
    };
    (Merge) => {
        fn merge_fn() -> Option<CombineFn<Self>> {
            Some(Merge::merge)
        }

        fn force_merge_fn() -> Option<CombineFn<Self>> {
            Some(Merge::force_merge)
        }
    };
    (SetOps) => {
        fn intersect_fn() -> Option<CombineFn<Self>> {
            Some(SetOps::intersect)
        }

        fn similarity_fn() -> Option<CompareFn<Self>> {
            Some(SetOps::similarity)
        }

        fn cardinality_fn() -> Option<fn(&Self) -> f64> {
            Some(SetOps::cardinality)
        }
    };
    (Map) => {
        fn as_map(&self) -> Option<&dyn Map> {
            Some(self)
        }

        fn as_map_mut(&mut self) -> Option<&mut dyn Map> {
            Some(self)
        }

        fn build_map_fn() -> Option<BuildMapFn<Self>> {
            Some(build_map)
        }

        fn build_values_fn() -> Option<BuildValuesFn<Self>> {
            Some(build_values)
        }
    };
    (List) => {
        fn as_list(&self) -> Option<&dyn List> {
            Some(self)
        }
    };
    (Resize) => {
        fn as_resize_mut(&mut self) -> Option<&mut dyn Resize> {
            Some(self)
        }
    };
    (Deny) => {
        fn build_denying_fn() -> Option<BuildDenyingFn<Self>> {
            Some(build_denying)
        }
    };
    (Window) => {
        fn as_window(&self) -> Option<&dyn Window> {
            Some(self)
        }

        fn as_window_mut(&mut self) -> Option<&mut dyn Window> {
            Some(self)
        }
    };
    (Adapt) => {
        fn as_adapt(&self) -> Option<&dyn Adapt> {
            Some(self)
        }

        fn as_adapt_mut(&mut self) -> Option<&mut dyn Adapt> {
            Some(self)
        }
    };
    (Range) => {
        fn as_range(&self) -> Option<&dyn Range> {
            Some(self)
        }
    };
    // Capabilities without methods of their own: no kind has two of them.
    ($marker:ident) => {
        fn check_markers() {
            fn is<F: $marker>() {}
            is::<Self>();
        }
    };
}

macro_rules! define_any {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        /// A filter of any kind. It has every operation of every kind; one that its kind lacks is
        /// [`Error::Unsupported`].
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum AnyFilter { $(
            #[doc = concat!("A [`", stringify!($type), "`].")]
            $type($type),
        )* }

        $(
            impl Sealed for $type {
                fn sealed_kind(&self) -> Kind {
                    Kind::$type
                }

                fn accepts(kind: Kind) -> bool {
                    kind == Kind::$type
                }
            }

            impl From<$type> for AnyFilter {
                fn from(filter: $type) -> Self {
                    Self::$type(filter)
                }
            }

            impl Registered for $type {
                const KIND: Kind = Kind::$type;

                fn from_any(any: &AnyFilter) -> Option<&Self> {
                    match any {
                        AnyFilter::$type(filter) => Some(filter),
                        _ => None,
                    }
                }

                $( accessors!($can); )*
            }
        )*
    };
}

crate::registry!(define_any);

macro_rules! match_any {
    ([ ($any:expr) $filter:ident ($body:expr) ]
        $( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        match $any { $( AnyFilter::$type($filter) => $body, )* }
    };
}

macro_rules! match_kind {
    ([ ($kind:expr) $filter:ident ($body:expr) ]
        $( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        match $kind { $( Kind::$type => { type $filter = $type; $body } )* }
    };
}

/// Evaluates an expression with the concrete filter of an [`AnyFilter`]:
/// `dispatch!(self, filter => filter.len())`.
macro_rules! dispatch {
    ($any:expr, $filter:ident => $body:expr) => {
        crate::registry!(match_any [ ($any) $filter ($body) ])
    };
}

/// Evaluates an expression with the filter type of a [`Kind`]: `dispatch_kind!(self, F => F::build(…))`.
macro_rules! dispatch_kind {
    ($kind:expr, $filter:ident => $body:expr) => {
        crate::registry!(match_kind [ ($kind) $filter ($body) ])
    };
}

// After the macros that they use.
mod build;
mod map;
mod range;

fn build<F: Registered>(
    sizing: &Sizing,
    keys: &mut dyn KeySource,
    options: &BuildOptions<'_>,
) -> Result<AnyFilter, Error> {
    F::build_with(options, |distinct| shape_within::<F>(sizing, distinct, options), keys)
        .map(Into::into)
}

/// Returns the shape for `counted` keys. The table of a kind that inserts must be within the memory limit;
/// builds of static kinds check the limit themselves.
pub(crate) fn shape_within<F: Registered>(
    sizing: &Sizing,
    counted: u64,
    options: &BuildOptions<'_>,
) -> Result<F::Shape, Error> {
    let shape: F::Shape = sizing.shape(counted)?;
    if !F::KIND.can(Capability::Static) {
        options.check_memory(shape.figures().bytes)?;
    }
    Ok(shape)
}

fn build_map<F: BuildMap>(
    sizing: &Sizing,
    entries: &mut dyn EntrySource,
    options: &BuildOptions<'_>,
) -> Result<F, Error> {
    F::build_map_with(options, |distinct, bits| sizing.map_shape(distinct, bits), entries)
}

fn build_values<F: BuildMap>(
    sizing: &Sizing,
    entries: ValueSource<'_>,
    options: &BuildOptions<'_>,
) -> Result<F, Error> {
    let fit = |distinct, bits, bytes| sizing.values_shape(distinct, bits, bytes);
    F::build_values_with(options, fit, entries)
}

fn build_denying<F: Deny>(
    sizing: &Sizing,
    keys: &mut dyn KeySource,
    denied: &mut dyn KeySource,
    options: &BuildOptions<'_>,
) -> Result<F, Error> {
    F::build_denying(options, |distinct| sizing.shape(distinct), keys, denied)
}

impl Sealed for AnyFilter {
    fn sealed_kind(&self) -> Kind {
        self.kind()
    }

    fn accepts(_: Kind) -> bool {
        true
    }
}

impl Filter for AnyFilter {
    #[inline]
    fn contains(&self, key: KeyHash) -> bool {
        dispatch!(self, filter => filter.contains(key))
    }

    fn len(&self) -> u64 {
        dispatch!(self, filter => filter.len())
    }

    fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
        dispatch!(self, filter => filter.contains_batch(keys, out));
    }

    fn contains_prefetching(&self, keys: &[KeyHash], out: &mut [bool]) {
        dispatch!(self, filter => filter.contains_prefetching(keys, out));
    }
}

impl Persist for AnyFilter {
    fn write<'a>(&'a self, to: &mut Writer<'a>) {
        dispatch!(self, filter => filter.write(to));
    }

    fn read(from: &mut Reader) -> Result<Self, Error> {
        let kind = Kind::from_id(from.header().kind)?;
        dispatch_kind!(kind, F => F::read(from).map(Into::into))
    }

    fn validate(&self) -> Result<(), Error> {
        dispatch!(self, filter => filter.validate())
    }

    fn bytes(&self) -> u64 {
        dispatch!(self, filter => filter.bytes())
    }

    fn heap_bytes(&self) -> u64 {
        dispatch!(self, filter => filter.heap_bytes())
    }

    fn each_allocation(&self, each: &mut dyn FnMut(NonNull<u8>, Layout)) {
        dispatch!(self, filter => filter.each_allocation(each));
    }
}

/// Returns the accessor's filter, or [`Error::Unsupported`].
macro_rules! supported {
    ($self:ident.$accessor:ident() else $capability:ident) => {{
        let kind = $self.kind();
        // Not `ok_or`: it would make an error, and drop it again, at each call.
        dispatch!($self, filter => filter.$accessor())
            .ok_or_else(|| Error::Unsupported { kind, capability: Capability::$capability })
    }};
}

impl AnyFilter {
    /// Returns its kind.
    pub fn kind(&self) -> Kind {
        dispatch!(self, filter => filter.sealed_kind())
    }

    /// Returns the number of keys that it is made for.
    pub fn capacity(&self) -> u64 {
        dispatch!(self, filter => filter.shape().keys())
    }

    /// Returns the parameters of its shape: see [`Shape::parameters`].
    pub fn parameters(&self) -> Parameters {
        dispatch!(self, filter => filter.shape().parameters())
    }

    /// Returns what its shape promises; of a kind that has grown, at the size that it has.
    pub fn figures(&self) -> Figures {
        if !self.kind().can(Capability::Grow) {
            return dispatch!(self, filter => filter.shape().figures());
        }
        let (len, capacity) = (self.len(), self.capacity());
        let figures = dispatch!(self, filter => filter.shape().figures_at(len.max(capacity)));
        if len < capacity { figures } else { Figures { bytes: self.bytes(), ..figures } }
    }

    /// Returns what a filter of its shape promises once it holds `keys` keys: see
    /// [`Shape::figures_at`].
    pub fn figures_at(&self, keys: u64) -> Figures {
        dispatch!(self, filter => filter.shape().figures_at(keys))
    }

    /// Returns the expected false positive rate with the keys that are in it now.
    pub fn fpr(&self) -> f64 {
        dispatch!(self, filter => filter.shape().fpr_at(filter.len()))
    }

    /// Returns an empty filter of the same shape; of a kind that has grown, of its first shape.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn empty_like(&self) -> Result<Self, Error> {
        fn empty<F: Registered>(filter: &F) -> Result<AnyFilter, Error> {
            F::build(filter.shape().clone(), &[][..]).map(Into::into)
        }
        dispatch!(self, filter => empty(filter))
    }

    /// Removes all keys and keeps the shape: see [`AnyFilter::empty_like`].
    ///
    /// # Errors
    /// If memory cannot be allocated; the filter is then unchanged.
    pub fn clear(&mut self) -> Result<(), Error> {
        *self = self.empty_like()?;
        Ok(())
    }

    fn as_insert_mut(&mut self) -> Result<&mut dyn Insert, Error> {
        supported!(self.as_insert_mut() else Insert)
    }

    fn as_remove_mut(&mut self) -> Result<&mut dyn Remove, Error> {
        supported!(self.as_remove_mut() else Remove)
    }

    fn as_count(&self) -> Result<&dyn Count, Error> {
        supported!(self.as_count() else Count)
    }

    /// Returns the filter as a map, with the type of its values and the numbers that stand for them.
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn as_map(&self) -> Result<&dyn Map, Error> {
        supported!(self.as_map() else Map)
    }

    fn as_map_mut(&mut self) -> Result<&mut dyn Map, Error> {
        supported!(self.as_map_mut() else Map)
    }

    fn as_window(&self) -> Result<&dyn Window, Error> {
        supported!(self.as_window() else Window)
    }

    fn as_window_mut(&mut self) -> Result<&mut dyn Window, Error> {
        supported!(self.as_window_mut() else Window)
    }

    fn as_list(&self) -> Result<&dyn List, Error> {
        supported!(self.as_list() else List)
    }

    fn as_resize_mut(&mut self) -> Result<&mut dyn Resize, Error> {
        supported!(self.as_resize_mut() else Resize)
    }

    fn as_adapt(&self) -> Result<&dyn Adapt, Error> {
        supported!(self.as_adapt() else Adapt)
    }

    fn as_adapt_mut(&mut self) -> Result<&mut dyn Adapt, Error> {
        supported!(self.as_adapt_mut() else Adapt)
    }
}

/// Operations of some kinds. Each is [`Error::Unsupported`] for a kind that lacks it.
impl AnyFilter {
    /// Inserts a key: see [`Insert::insert`].
    ///
    /// # Errors
    /// [`Error::Full`]: the filter is then unchanged.
    pub fn insert(&mut self, key: KeyHash) -> Result<(), Error> {
        Ok(self.as_insert_mut()?.insert(key)?)
    }

    /// Inserts keys: see [`Insert::insert_batch`].
    ///
    /// # Errors
    /// [`Error::Full`] states how many were inserted.
    pub fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Error> {
        Ok(self.as_insert_mut()?.insert_batch(keys)?)
    }

    /// Inserts the keys that it does not seem to hold: see [`Insert::insert_new_batch`].
    ///
    /// # Errors
    /// [`Error::Full`] states how many keys are done.
    pub fn insert_new_batch(&mut self, keys: &[KeyHash], new: &mut [bool]) -> Result<(), Error> {
        Ok(self.as_insert_mut()?.insert_new_batch(keys, new)?)
    }

    /// Removes a key: see [`Remove::remove`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn remove(&mut self, key: KeyHash) -> Result<bool, Error> {
        Ok(self.as_remove_mut()?.remove(key))
    }

    /// Removes keys: see [`Remove::remove_batch`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn remove_batch(&mut self, keys: &[KeyHash], removed: &mut [bool]) -> Result<(), Error> {
        self.as_remove_mut()?.remove_batch(keys, removed);
        Ok(())
    }

    /// Counts a key: see [`Count::count`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn count(&self, key: KeyHash) -> Result<u64, Error> {
        Ok(self.as_count()?.count(key))
    }

    /// Counts keys: see [`Count::count_batch`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn count_batch(&self, keys: &[KeyHash], out: &mut [u64]) -> Result<(), Error> {
        self.as_count()?.count_batch(keys, out);
        Ok(())
    }

    /// Returns the largest count that it can state.
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn count_limit(&self) -> Result<u64, Error> {
        Ok(self.as_count()?.count_limit())
    }

    /// Returns the range of members that a repair needs: see [`Adapt::suspects`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn suspects(&self, key: KeyHash) -> Result<RangeInclusive<u64>, Error> {
        Ok(self.as_adapt()?.suspects(key))
    }

    /// Makes the filter deny a non-member: see [`Adapt::adapt`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Result<Repair, Error> {
        Ok(self.as_adapt_mut()?.adapt(stranger, members))
    }

    /// Returns the range that should be renewed: see [`Adapt::due`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn due(&self) -> Result<Option<RangeInclusive<u64>>, Error> {
        Ok(self.as_adapt()?.due())
    }

    /// Renews members: see [`Adapt::renew`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn renew(&mut self, members: &[KeyHash]) -> Result<(), Error> {
        self.as_adapt_mut()?.renew(members);
        Ok(())
    }

    /// Pushes a key into a window: see [`Window::push`].
    ///
    /// # Errors
    /// [`Error::Full`]: the key is not remembered.
    pub fn push(&mut self, key: KeyHash) -> Result<bool, Error> {
        Ok(self.as_window_mut()?.push(key)?)
    }

    /// Pushes keys into a window: see [`Window::push_batch`].
    ///
    /// # Errors
    /// [`Error::Full`] states how many keys were pushed before the key that was refused.
    pub fn push_batch(&mut self, keys: &[KeyHash], seen: &mut [bool]) -> Result<(), Error> {
        Ok(self.as_window_mut()?.push_batch(keys, seen)?)
    }

    /// Sets the time of a window: see [`Window::advance`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn advance(&mut self, now: u64) -> Result<(), Error> {
        self.as_window_mut()?.advance(now);
        Ok(())
    }

    /// Returns the length of a window and its slack: see [`Window::window`], [`Window::slack`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn window(&self) -> Result<(u64, u64), Error> {
        let window = self.as_window()?;
        Ok((window.window(), window.slack()))
    }

    /// Takes in the keys of `other`: see [`Merge::merge`].
    ///
    /// # Errors
    /// [`Error::Mismatch`] or [`Error::Capacity`]; the filter is then unchanged.
    pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
        dispatch!(self, filter => with_same(filter, other, Registered::merge_fn(), Capability::Merge))
    }

    /// Takes in the keys of `other`, also beyond the capacity: see [`Merge::force_merge`].
    ///
    /// # Errors
    /// [`Error::Mismatch`] or [`Error::Capacity`]; the filter is then unchanged.
    pub fn force_merge(&mut self, other: &Self) -> Result<(), Error> {
        dispatch!(self, filter => {
            with_same(filter, other, Registered::force_merge_fn(), Capability::Merge)
        })
    }

    /// Keeps what may be in both: see [`SetOps::intersect`].
    ///
    /// # Errors
    /// [`Error::Mismatch`]; the filter is then unchanged.
    pub fn intersect(&mut self, other: &Self) -> Result<(), Error> {
        dispatch!(self, filter => {
            with_same(filter, other, Registered::intersect_fn(), Capability::SetOps)
        })
    }

    /// Returns how alike both are: see [`SetOps::similarity`].
    ///
    /// # Errors
    /// [`Error::Mismatch`] for different shapes.
    pub fn similarity(&self, other: &Self) -> Result<f64, Error> {
        fn similarity<F: Registered>(filter: &F, other: &AnyFilter) -> Result<f64, Error> {
            let similarity =
                F::similarity_fn().ok_or_else(|| F::KIND.unsupported(Capability::SetOps))?;
            similarity(filter, F::from_any(other).ok_or(Error::Mismatch { what: "kind" })?)
        }
        dispatch!(self, filter => similarity(filter, other))
    }

    /// Estimates the number of distinct keys: see [`SetOps::cardinality`].
    ///
    /// # Errors
    /// Only [`Error::Unsupported`].
    pub fn cardinality(&self) -> Result<f64, Error> {
        fn cardinality<F: Registered>(filter: &F) -> Option<f64> {
            F::cardinality_fn().map(|cardinality| cardinality(filter))
        }
        dispatch!(self, filter => cardinality(filter))
            .ok_or_else(|| self.kind().unsupported(Capability::SetOps))
    }
}

/// Combines a filter with one of the same type.
fn with_same<F: Registered>(
    filter: &mut F,
    other: &AnyFilter,
    combine: Option<CombineFn<F>>,
    capability: Capability,
) -> Result<(), Error> {
    let combine = combine.ok_or_else(|| F::KIND.unsupported(capability))?;
    combine(filter, F::from_any(other).ok_or(Error::Mismatch { what: "kind" })?)
}
