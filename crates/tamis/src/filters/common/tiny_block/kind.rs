//! What `tinyset` and `removable_tinyset` do alike, which is all but forgetting and knowing their
//! rates: a grid of blocks, filled and asked.

/// Makes `$filter` with the geometry `$shape` a filter, whose blocks can forget if `$stop`.
macro_rules! tiny_kind {
    ($filter:ident, $shape:ident, $stop:literal) => {
        impl $shape {
            /// A shape by hand: this many blocks of 256, 512 or 1024 bits, made for this many keys.
            pub fn new(blocks: u64, bits: u64, keys: u64) -> Result<Self, $crate::Error> {
                Grid::new(blocks, bits, keys).map(Self)
            }

            /// Blocks.
            pub fn blocks(&self) -> u64 {
                self.0.blocks
            }

            /// Bits of a block.
            pub fn block_bits(&self) -> u64 {
                self.0.bits()
            }
        }

        impl $filter {
            /// An empty filter.
            pub fn new(shape: $shape) -> Result<Self, $crate::Error> {
                let words = shape.0.zeroed()?;
                Ok(Self { shape, len: 0, words })
            }
        }

        impl $crate::Filter for $filter {
            #[inline]
            fn contains(&self, key: $crate::KeyHash) -> bool {
                self.shape.0.contains::<$stop>(&self.words, key)
            }

            /// Keys that are stored.
            fn len(&self) -> u64 {
                self.len
            }

            fn contains_batch(&self, keys: &[$crate::KeyHash], out: &mut [bool]) {
                self.shape.0.contains_batch::<$stop>(&self.words, keys, out);
            }
        }

        impl $crate::Build for $filter {
            type Shape = $shape;

            fn shape(&self) -> &$shape {
                &self.shape
            }

            /// Inserts one key after the other: how a key is stored depends on those before it.
            fn build_with(
                options: &$crate::BuildOptions<'_>,
                fit: impl FnOnce(u64) -> Result<$shape, $crate::Error>,
                keys: impl $crate::KeySource,
            ) -> Result<Self, $crate::Error> {
                $crate::filters::common::build_by_inserting(options, Self::new(fit(0)?)?, keys)
            }
        }

        impl $crate::Insert for $filter {
            /// [`Full`]($crate::Full) only if blocks can forget and the key's has not a bit left.
            #[inline]
            fn insert(&mut self, key: $crate::KeyHash) -> Result<(), $crate::Full> {
                match self.shape.0.insert::<$stop>(self.words.to_mut(), key) {
                    Put::NoRoom => return Err($crate::Full::NONE),
                    Put::Added => self.len += 1,
                    Put::Known => {}
                }
                Ok(())
            }

            fn insert_batch(&mut self, keys: &[$crate::KeyHash]) -> Result<(), $crate::Full> {
                let fetch = |filter: &Self, key| filter.shape.0.fetch(&filter.words, key);
                $crate::filters::common::insert_batch(self, keys, fetch)
            }
        }

        impl $crate::Overfill for $filter {}

        impl $crate::Persist for $filter {
            fn write<'a>(&'a self, to: &mut tamis_format::Writer<'a>) {
                self.shape.0.write(to);
                to.words(BLOCKS, &self.words);
            }

            fn read(from: &mut tamis_format::Reader) -> Result<Self, $crate::Error> {
                let len = from.header().keys;
                let grid = Grid::read::<$stop>(from)?;
                let words = from.words(BLOCKS, grid.words())?;
                Ok(Self { shape: $shape(grid), len, words })
            }

            fn validate(&self) -> Result<(), $crate::Error> {
                self.shape.0.validate::<$stop>(&self.words, self.len)
            }
        }
    };
}
pub(in crate::filters) use tiny_kind;
