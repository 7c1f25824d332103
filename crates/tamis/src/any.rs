//! A filter whose kind is known only when the program runs: what the command line holds.
//!
//! [`define_kinds!`] turns the registry's lines into [`Kind`], [`AnyFilter`] and a check that
//! every capability that is claimed is there: a line that says `remove` over a type without
//! [`Remove`](crate::Remove) does not compile.

/// Called once, in `filters/mod.rs`, with the registry's lines.
macro_rules! define_kinds {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        $( pub use $file::$type; )*

        /// The kinds of filter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Kind { $(
            #[doc = concat!("[`", stringify!($type), "`]")]
            $type = $id,
        )* }

        impl Kind {
            /// All of them, in the registry's order.
            pub const ALL: &'static [Self] = &[ $( Self::$type, )* ];

            /// Its number in files.
            pub fn id(self) -> u16 {
                self as u16
            }

            /// The one with this number.
            pub fn from_id(id: u16) -> Result<Self, Error> {
                match id {
                    $( $id => Ok(Self::$type), )*
                    _ => Err(Error::Unknown { what: "filter", name: id.to_string() }),
                }
            }

            /// Its name: that of its file, its module and its command-line value.
            pub fn name(self) -> &'static str {
                match self { $( Self::$type => stringify!($file), )* }
            }

            /// Who first described it.
            pub fn paper(self) -> &'static str {
                match self { $( Self::$type => $paper, )* }
            }

            /// What it can do beyond answering.
            pub fn capabilities(self) -> &'static [Capability] {
                match self { $( Self::$type => &[ $( define_kinds!(@capability $can), )* ], )* }
            }

            /// What can be set about it beyond keys and rate.
            pub fn settings(self) -> &'static [Setting] {
                match self { $( Self::$type => <$type as Filter>::Shape::SETTINGS, )* }
            }

            /// What a filter of this kind would promise for `goal`.
            pub fn plan(self, goal: Goal, settings: &Settings) -> Result<Figures, Error> {
                match self { $(
                    Self::$type => {
                        solve::<<$type as Filter>::Shape>(goal, settings).map(|shape| shape.figures())
                    }
                )* }
            }

            /// What it would promise once it holds so many keys, where the kind grows: see
            /// [`Grow::figures_at`].
            #[allow(unused_variables)]
            pub fn plan_grown(
                self,
                goal: Goal,
                settings: &Settings,
                keys: u64,
            ) -> Result<Figures, Error> {
                match self { $(
                    Self::$type => define_kinds!(@if grow in [$($can)*] {
                        Ok($type::figures_at(&solve(goal, settings)?, keys))
                    } $type Grow),
                )* }
            }

            /// Builds one for `goal`.
            pub fn build(
                self,
                threads: usize,
                goal: Goal,
                settings: &Settings,
                keys: impl KeySource,
            ) -> Result<AnyFilter, Error> {
                match self { $(
                    Self::$type => $type::build_on(threads, solve(goal, settings)?, keys).map(AnyFilter::$type),
                )* }
            }

            /// Builds one, where the kind is static, for the goal that `goal` makes of the number
            /// of distinct keys: see [`Static::build_fitting`].
            #[allow(unused_variables)]
            pub fn build_fitting(
                self,
                means: &BuildOptions<'_>,
                goal: impl FnOnce(u64) -> Result<Goal, Error>,
                settings: &Settings,
                keys: impl KeySource,
            ) -> Result<AnyFilter, Error> {
                match self { $(
                    Self::$type => define_kinds!(@if static in [$($can)*] {
                        let fit = |keys| solve(goal(keys)?, settings);
                        $type::build_fitting(means, fit, keys).map(AnyFilter::$type)
                    } $type Static),
                )* }
            }

            /// Builds one, where the kind can give keys values, for the goal that `goal` makes of
            /// the number of distinct keys: see [`Map::build_map`]. Values are as wide as the
            /// widest, unless the setting `value_bits` says how wide.
            #[allow(unused_variables)]
            pub fn build_map(
                self,
                means: &BuildOptions<'_>,
                goal: impl FnOnce(u64) -> Result<Goal, Error>,
                settings: &Settings,
                entries: impl EntrySource,
            ) -> Result<AnyFilter, Error> {
                match self { $(
                    Self::$type => define_kinds!(@if map in [$($can)*] {
                        let fit = |keys, bits: u32| {
                            let mut settings = settings.clone();
                            settings.set_default("value_bits", bits.to_string());
                            solve(goal(keys)?, &settings)
                        };
                        $type::build_map(means, fit, entries).map(AnyFilter::$type)
                    } $type Map),
                )* }
            }

            /// Reads one from an opened container, whose header names the kind.
            pub fn read(self, from: &mut Reader) -> Result<AnyFilter, Error> {
                let filter = match self { $( Self::$type => $type::read(from).map(AnyFilter::$type)?, )* };
                from.finish()?;
                Ok(filter)
            }
        }

        $( impl Registered for $type { const KIND: Kind = Kind::$type; } )*

        /// A filter of any kind.
        #[derive(Clone, Debug, PartialEq)]
        pub enum AnyFilter { $(
            #[doc = concat!("A [`", stringify!($type), "`].")]
            $type($type),
        )* }

        impl AnyFilter {
            /// Which kind it is.
            pub fn kind(&self) -> Kind {
                match self { $( Self::$type(_) => Kind::$type, )* }
            }

            /// Whether the key may be a member. *No* is certain.
            #[inline]
            pub fn contains(&self, key: KeyHash) -> bool {
                match self { $( Self::$type(filter) => filter.contains(key), )* }
            }

            /// Answers many keys at once: see [`Filter::contains_batch`].
            pub fn contains_batch(&self, keys: &[KeyHash], out: &mut [bool]) {
                match self { $( Self::$type(filter) => filter.contains_batch(keys, out), )* }
            }

            /// Keys in it: see [`Filter::len`].
            pub fn len(&self) -> u64 {
                match self { $( Self::$type(filter) => filter.len(), )* }
            }

            /// Whether it has no keys.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// What its shape promises; of a kind that grows, at the size that it has, once that is
            /// past its first.
            pub fn figures(&self) -> Figures {
                self.grown_figures().unwrap_or_else(|_| match self { $(
                    Self::$type(filter) => filter.shape().figures(),
                )* })
            }

            #[allow(unused_variables)]
            fn grown_figures(&self) -> Result<Figures, Error> {
                match self { $(
                    Self::$type(filter) => define_kinds!(@if grow in [$($can)*] {
                        let keys = filter.shape().keys();
                        let figures = $type::figures_at(filter.shape(), filter.len().max(keys));
                        Ok(if filter.len() < keys { figures } else {
                            Figures { bytes: filter.bytes(), ..figures }
                        })
                    } $type Grow),
                )* }
            }

            /// The rate to expect with the keys that are in it now.
            pub fn fpr(&self) -> f64 {
                match self { $( Self::$type(filter) => filter.shape().fpr_at(filter.len()), )* }
            }

            /// Its sections: see [`Persist::write`].
            pub fn write<'a>(&'a self, to: &mut Writer<'a>) {
                match self { $( Self::$type(filter) => filter.write(to), )* }
            }

            /// Looks at every word: see [`Persist::validate`].
            pub fn validate(&self) -> Result<(), Error> {
                match self { $( Self::$type(filter) => filter.validate(), )* }
            }

            /// Adds a key, where the kind can.
            pub fn insert(&mut self, key: KeyHash) -> Result<(), Error> {
                self.insert_batch(&[key])
            }

            /// Adds keys, where the kind can: see [`Insert::insert_batch`].
            #[allow(unused_variables)]
            pub fn insert_batch(&mut self, keys: &[KeyHash]) -> Result<(), Error> {
                match self { $(
                    Self::$type(filter) => define_kinds!(@if insert in [$($can)*] {
                        let inserted = filter.insert_batch(keys);
                        inserted.map_err(|Full| Error::Full { keys: filter.shape().keys() })
                    } $type Insert),
                )* }
            }

            /// Removes a key, where the kind can: see [`Remove::remove`].
            #[allow(unused_variables)]
            pub fn remove(&mut self, key: KeyHash) -> Result<bool, Error> {
                match self { $(
                    Self::$type(filter) => {
                        define_kinds!(@if remove in [$($can)*] { Ok(filter.remove(key)) } $type Remove)
                    }
                )* }
            }

            /// How often a key is in, where the kind can tell: see [`Count::count`].
            #[allow(unused_variables)]
            pub fn count(&self, key: KeyHash) -> Result<u64, Error> {
                match self { $(
                    Self::$type(filter) => {
                        define_kinds!(@if count in [$($can)*] { Ok(filter.count(key)) } $type Count)
                    }
                )* }
            }

            /// The largest count that can be told, where the kind counts.
            #[allow(unused_variables)]
            pub fn count_limit(&self) -> Result<u64, Error> {
                match self { $(
                    Self::$type(filter) => {
                        define_kinds!(@if count in [$($can)*] { Ok(filter.count_limit()) } $type Count)
                    }
                )* }
            }

            /// A key's value, where the kind has values: see [`Map::get`].
            #[allow(unused_variables)]
            pub fn get(&self, key: KeyHash) -> Result<Option<u64>, Error> {
                match self { $(
                    Self::$type(filter) => {
                        define_kinds!(@if map in [$($can)*] { Ok(filter.get(key)) } $type Map)
                    }
                )* }
            }

            /// The values of many keys, where the kind has values: see [`Map::get_batch`].
            #[allow(unused_variables)]
            pub fn get_batch(&self, keys: &[KeyHash], out: &mut [Option<u64>]) -> Result<(), Error> {
                match self { $(
                    Self::$type(filter) => {
                        define_kinds!(@if map in [$($can)*] {
                            filter.get_batch(keys, out);
                            Ok(())
                        } $type Map)
                    }
                )* }
            }

            /// Gives a key another value, where the kind has values: see [`Map::set`].
            #[allow(unused_variables)]
            pub fn set(&mut self, key: KeyHash, value: u64) -> Result<Option<u64>, Error> {
                match self { $(
                    Self::$type(filter) => {
                        define_kinds!(@if map in [$($can)*] { filter.set(key, value) } $type Map)
                    }
                )* }
            }

            /// Bits of a value, where the kind has values.
            #[allow(unused_variables)]
            pub fn value_bits(&self) -> Result<u32, Error> {
                match self { $(
                    Self::$type(filter) => {
                        define_kinds!(@if map in [$($can)*] { Ok(filter.value_bits()) } $type Map)
                    }
                )* }
            }

            /// Where members lie that a repair must know, where the kind adapts: see
            /// [`Adapt::suspects`].
            #[allow(unused_variables)]
            pub fn suspects(&self, key: KeyHash) -> Result<RangeInclusive<u64>, Error> {
                match self { $(
                    Self::$type(filter) => {
                        define_kinds!(@if adapt in [$($can)*] { Ok(filter.suspects(key)) } $type Adapt)
                    }
                )* }
            }

            /// Makes it deny a stranger, where the kind adapts: see [`Adapt::adapt`].
            #[allow(unused_variables)]
            pub fn adapt(&mut self, stranger: KeyHash, members: &[KeyHash]) -> Result<Repair, Error> {
                match self { $(
                    Self::$type(filter) => define_kinds!(@if adapt in [$($can)*] {
                        Ok(filter.adapt(stranger, members))
                    } $type Adapt),
                )* }
            }

            /// What is to be renewed, where the kind adapts: see [`Adapt::due`].
            pub fn due(&self) -> Result<Option<RangeInclusive<u64>>, Error> {
                #[allow(unused_variables)]
                match self { $(
                    Self::$type(filter) => {
                        define_kinds!(@if adapt in [$($can)*] { Ok(filter.due()) } $type Adapt)
                    }
                )* }
            }

            /// Renews these members, where the kind adapts: see [`Adapt::renew`].
            #[allow(unused_variables)]
            pub fn renew(&mut self, members: &[KeyHash]) -> Result<(), Error> {
                match self { $(
                    Self::$type(filter) => define_kinds!(@if adapt in [$($can)*] {
                        filter.renew(members);
                        Ok(())
                    } $type Adapt),
                )* }
            }

            /// Takes keys and lets go of old ones, where the kind has a window: see
            /// [`Window::push_batch`].
            #[allow(unused_variables)]
            pub fn push_batch(&mut self, keys: &[KeyHash], seen: &mut [bool]) -> Result<(), Error> {
                match self { $(
                    Self::$type(filter) => define_kinds!(@if window in [$($can)*] {
                        filter.push_batch(keys, seen);
                        Ok(())
                    } $type Window),
                )* }
            }

            /// Tells the time, where the kind has a window: see [`Window::advance`].
            #[allow(unused_variables)]
            pub fn advance(&mut self, now: u64) -> Result<(), Error> {
                match self { $(
                    Self::$type(filter) => define_kinds!(@if window in [$($can)*] {
                        filter.advance(now);
                        Ok(())
                    } $type Window),
                )* }
            }

            /// Takes in the keys of `other`, where the kind can: see [`Merge::merge`].
            #[allow(unused_variables)]
            pub fn merge(&mut self, other: &Self) -> Result<(), Error> {
                match (self, other) {
                    $( (Self::$type(filter), Self::$type(other)) => {
                        define_kinds!(@if merge in [$($can)*] { filter.merge(other) } $type Merge)
                    } )*
                    #[allow(unreachable_patterns)]
                    _ => Err(Error::Mismatch { what: "kind" }),
                }
            }

            /// Keeps what may be in both, where the kind can: see [`SetOps::intersect`].
            #[allow(unused_variables)]
            pub fn intersect(&mut self, other: &Self) -> Result<(), Error> {
                match (self, other) {
                    $( (Self::$type(filter), Self::$type(other)) => {
                        define_kinds!(@if set_ops in [$($can)*] { filter.intersect(other) } $type SetOps)
                    } )*
                    #[allow(unreachable_patterns)]
                    _ => Err(Error::Mismatch { what: "kind" }),
                }
            }

            /// Distinct keys, estimated, where the kind can tell: see [`SetOps::cardinality`].
            #[allow(unused_variables)]
            pub fn cardinality(&self) -> Result<f64, Error> {
                match self { $(
                    Self::$type(filter) => {
                        define_kinds!(@if set_ops in [$($can)*] { Ok(filter.cardinality()) } $type SetOps)
                    }
                )* }
            }

            /// How alike both are, where the kind can tell: see [`SetOps::similarity`].
            #[allow(unused_variables)]
            pub fn similarity(&self, other: &Self) -> Result<f64, Error> {
                match (self, other) {
                    $( (Self::$type(filter), Self::$type(other)) => {
                        define_kinds!(@if set_ops in [$($can)*] { filter.similarity(other) } $type SetOps)
                    } )*
                    #[allow(unreachable_patterns)]
                    _ => Err(Error::Mismatch { what: "kind" }),
                }
            }
        }

        const _: () = { $( define_kinds!(@claim build $type); $( define_kinds!(@claim $can $type); )* )* };
    };

    (@capability insert) => { Capability::Insert };
    (@capability remove) => { Capability::Remove };
    (@capability count) => { Capability::Count };
    (@capability merge) => { Capability::Merge };
    (@capability set_ops) => { Capability::SetOps };
    (@capability overfill) => { Capability::Overfill };
    (@capability grow) => { Capability::Grow };
    (@capability window) => { Capability::Window };
    (@capability adapt) => { Capability::Adapt };
    (@capability static) => { Capability::Static };
    (@capability map) => { Capability::Map };

    (@claim build $type:ident) => { { const fn is<T: Build + Persist>() {} is::<$type>(); } };
    (@claim insert $type:ident) => { { const fn is<T: Insert>() {} is::<$type>(); } };
    (@claim remove $type:ident) => { { const fn is<T: Remove>() {} is::<$type>(); } };
    (@claim count $type:ident) => { { const fn is<T: Count>() {} is::<$type>(); } };
    (@claim merge $type:ident) => { { const fn is<T: Merge>() {} is::<$type>(); } };
    (@claim set_ops $type:ident) => { { const fn is<T: SetOps>() {} is::<$type>(); } };
    (@claim map $type:ident) => { { const fn is<T: Map>() {} is::<$type>(); } };
    (@claim grow $type:ident) => { { const fn is<T: Grow>() {} is::<$type>(); } };
    (@claim window $type:ident) => { { const fn is<T: Window>() {} is::<$type>(); } };
    (@claim adapt $type:ident) => { { const fn is<T: Adapt>() {} is::<$type>(); } };
    (@claim static $type:ident) => { { const fn is<T: Static>() {} is::<$type>(); } };
    (@claim overfill $type:ident) => { { const fn is<T: Overfill>() {} is::<$type>(); } };

    // The body where the capability is among those claimed, a refusal where it is not.
    (@if insert in [insert $($rest:ident)*] $body:block $type:ident $name:ident) => { $body };
    (@if remove in [remove $($rest:ident)*] $body:block $type:ident $name:ident) => { $body };
    (@if count in [count $($rest:ident)*] $body:block $type:ident $name:ident) => { $body };
    (@if merge in [merge $($rest:ident)*] $body:block $type:ident $name:ident) => { $body };
    (@if set_ops in [set_ops $($rest:ident)*] $body:block $type:ident $name:ident) => { $body };
    (@if map in [map $($rest:ident)*] $body:block $type:ident $name:ident) => { $body };
    (@if grow in [grow $($rest:ident)*] $body:block $type:ident $name:ident) => { $body };
    (@if window in [window $($rest:ident)*] $body:block $type:ident $name:ident) => { $body };
    (@if adapt in [adapt $($rest:ident)*] $body:block $type:ident $name:ident) => { $body };
    (@if static in [static $($rest:ident)*] $body:block $type:ident $name:ident) => { $body };
    (@if $can:ident in [$other:ident $($rest:ident)*] $body:block $type:ident $name:ident) => {
        define_kinds!(@if $can in [$($rest)*] $body $type $name)
    };
    (@if $can:ident in [] $body:block $type:ident $name:ident) => {
        Err(Error::Unsupported { kind: Kind::$type, what: Capability::$name })
    };
}

pub(crate) use define_kinds;
