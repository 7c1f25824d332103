//! The implementation that `tinyset` and `removable_tinyset` share: everything except removal and
//! the rate.

/// Implements the filter `$filter` with the shape `$shape`, whose blocks support removal if
/// `$stop`.
macro_rules! tiny_kind {
    ($filter:ident, $shape:ident, $stop:literal) => {
        impl $shape {
            /// Returns a shape of `blocks` blocks of 128 to 2048 bits, with a chain for every 8
            /// bits, for `keys` keys. Blocks of 256, 512 and 1024 bits are the fastest.
            ///
            /// # Errors
            /// [`Error::Limit`]($crate::Error::Limit) if a parameter is out of range.
            pub fn new(blocks: u64, bits: u64, keys: u64) -> Result<Self, $crate::Error> {
                Grid::new(blocks, bits, keys).map(Self)
            }

            /// Returns this shape with `chains` chains per block, from 1/64 to 1/3 of its bits.
            /// Blocks of another number than 1/8 are slower.
            ///
            /// # Errors
            /// [`Error::Limit`]($crate::Error::Limit) if the number is out of range.
            pub fn with_chains(self, chains: u64) -> Result<Self, $crate::Error> {
                let Grid { blocks, bits, keys, .. } = self.0;
                Grid::with_chains(blocks, bits as u64, chains, keys).map(Self)
            }

            /// Returns the number of blocks.
            pub fn blocks(&self) -> u64 {
                self.0.blocks
            }

            /// Returns the number of bits per block.
            pub fn block_bits(&self) -> u64 {
                self.0.bits as u64
            }

            /// Returns the number of chains per block.
            pub fn chains(&self) -> u64 {
                self.0.chains as u64
            }
        }

        impl $filter {
            /// Creates an empty filter.
            ///
            /// # Errors
            /// [`Error::Memory`]($crate::Error::Memory) if the blocks cannot be allocated.
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

            /// Returns the number of stored keys.
            fn len(&self) -> u64 {
                self.len
            }

            fn fits_cache(&self) -> bool {
                $crate::filters::common::near(self.words.len())
            }

            fn contains_prefetching(&self, keys: &[$crate::KeyHash], out: &mut [bool]) {
                self.shape.0.contains_batch::<$stop>(&self.words, keys, out);
            }
        }

        impl $crate::Build for $filter {
            type Shape = $shape;

            fn shape(&self) -> &$shape {
                &self.shape
            }

            /// Builds the filter by inserting the keys in order, since the storage of a key depends
            /// on those before it.
            fn build_with(
                options: &$crate::BuildOptions<'_>,
                fit: impl FnOnce(u64) -> Result<$shape, $crate::Error>,
                keys: impl $crate::KeySource,
            ) -> Result<Self, $crate::Error> {
                $crate::filters::common::build_by_inserting(options, Self::new(fit(0)?)?, keys)
            }
        }

        impl $crate::Insert for $filter {
            /// Inserts a key.
            ///
            /// # Errors
            /// [`Full`]($crate::Full) only if the blocks support removal and the key's block has no
            /// bit left.
            #[inline]
            fn insert(&mut self, key: $crate::KeyHash) -> Result<(), $crate::Full> {
                match self.shape.0.insert::<$stop>(self.words.to_mut(), key) {
                    Insertion::NoRoom => return Err($crate::Full::NONE),
                    Insertion::Added => self.len += 1,
                    Insertion::Present => {}
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
