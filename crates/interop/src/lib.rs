//! Filters of other programs, in their own bytes.
//!
//! A filter of another program opens as a filter of `tamis`: it answers with the program's own hash
//! function, can be merged and saved as a `.tamis` file, and is written back to the same bytes. What
//! cannot be done is to change the hash of a filter without its keys, so a filter converts to the format
//! it came from, and to no other.
//!
//! ```
//! use tamis::{AnyFilter, Keyed};
//! use tamis_interop::{Foreign, Format};
//!
//! let bytes = std::fs::read("../../testdata/foreign/guava-utf8.bin")?;
//! let filter = Keyed::<AnyFilter>::import(Format::Guava, &bytes)?;
//! assert!(filter.contains("key-7"));
//! assert_eq!(filter.export(Format::Guava)?, bytes);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! The feature `std` (default) maps files, and builds filters as the programs do. Without it the crate reads
//! and writes filters, also on WebAssembly.
//!
//! Each format has a file, and a line in the registry below. The filters themselves, their hash functions
//! and their kinds are in `tamis`: a `.tamis` file of a foreign filter needs nothing of this crate.

#![cfg_attr(not(feature = "std"), allow(dead_code, unused_imports, reason = "nothing is built"))]

mod bloomfilter;
mod bytes;
mod datasketches;
mod dcso;
mod error;
mod fastfilter;
mod guava;
mod key_type;
mod parquet;
pub mod parquet_file;
mod rbloom;
mod redisbloom;
mod sizes;
mod spark;
#[cfg(test)]
mod tests;
mod thrift;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
#[cfg(feature = "std")]
use std::{fs::File, io::Read, path::Path};

use tamis::{AnyFilter, BuildOptions, BytesOwner, HashId, KeyHasher, KeySource, Keyed};
use tamis_bits::SharedBytes;

use bytes::Input;
pub use error::Error;
pub use key_type::KeyType;

/// What a format's file provides.
struct Codec {
    /// The program, and what it calls the bytes.
    title: &'static str,
    /// The hash function of its keys.
    hash: HashId,
    /// The seed that the program takes by default.
    seed: u64,
    /// Whether bytes have the structure of this format. `None` if every byte string may have it.
    recognises: Option<fn(&[u8]) -> bool>,
    read: fn(&Input<'_>) -> Result<Keyed<AnyFilter>, Error>,
    write: fn(&Keyed<AnyFilter>) -> Result<Vec<u8>, Error>,
    /// Builds a filter of the size that the program would choose for so many keys at this rate.
    #[cfg(feature = "std")]
    build: BuildFn,
}

#[cfg(feature = "std")]
type BuildFn =
    fn(u64, f64, &mut dyn KeySource, &BuildOptions<'_>) -> Result<AnyFilter, tamis::Error>;

macro_rules! formats {
    ($( $name:literal $variant:ident $codec:path; )*) => {
        /// A format of another program.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format { $(
            #[doc = concat!("`", $name, "`: see `docs/formats`.")]
            $variant,
        )* }

        impl Format {
            /// All formats.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// Returns its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            fn codec(self) -> &'static Codec {
                match self { $( Self::$variant => &$codec, )* }
            }
        }
    };
}

formats! {
    "parquet" Parquet parquet::CODEC;
    "spark_v1" SparkV1 spark::V1;
    "spark_v2" SparkV2 spark::V2;
    "guava" Guava guava::CODEC;
    "fuse8" Fuse8 fastfilter::FUSE8;
    "fuse16" Fuse16 fastfilter::FUSE16;
    "rbloom" Rbloom rbloom::CODEC;
    "dcso" Dcso dcso::CODEC;
    "datasketches" DataSketches datasketches::CODEC;
    "redisbloom" RedisBloom redisbloom::CODEC;
    "bloomfilter" Bloomfilter bloomfilter::CODEC;
}

impl Format {
    /// Returns the program, and what it calls such bytes.
    pub fn title(self) -> &'static str {
        self.codec().title
    }

    /// Returns the hasher that the program takes by default.
    pub fn hasher(self) -> KeyHasher {
        // The halves of a long seed differ: they key two functions that must not be equal.
        KeyHasher::new(self.codec().hash, [self.codec().seed, 0]).with_second_seed([1, 0])
    }

    /// Returns the formats whose structure the bytes have. It is one at most for bytes of a format that
    /// states its length, and none for bytes of `rbloom`, which have no structure.
    pub fn recognise(bytes: &[u8]) -> Vec<Self> {
        let has = |format: &Self| format.codec().recognises.is_some_and(|has| has(bytes));
        Self::ALL.iter().copied().filter(has).collect()
    }

    /// Builds a filter as the program would, for `keys` keys at this rate, from hashes that
    /// [`Format::hasher`] made.
    ///
    /// # Errors
    /// [`Error::Filter`] if the format has no filter of that size, or there are more keys.
    #[cfg(feature = "std")]
    pub fn build(
        self,
        keys: u64,
        fpr: f64,
        hashes: &mut dyn KeySource,
        options: &BuildOptions<'_>,
    ) -> Result<Keyed<AnyFilter>, Error> {
        tamis::plan::check_fpr(fpr)?;
        tamis::plan::check_keys(keys)?;
        Ok(Keyed::new(self.hasher(), (self.codec().build)(keys, fpr, hashes, options)?))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().find(|format| format.name() == name);
        found.copied().ok_or_else(|| Error::UnknownFormat(name.into()))
    }
}

/// Foreign bytes of a filter. [`Keyed<AnyFilter>`] implements it.
pub trait Foreign: Sized {
    /// Reads the bytes of another program's filter. It copies the bits once, and never allocates more
    /// than a few times the length of `bytes`.
    ///
    /// # Errors
    /// [`Error::Malformed`] states what is wrong with the bytes.
    fn import(format: Format, bytes: &[u8]) -> Result<Self, Error>;

    /// Reads the filter of another program from a shared buffer, and leaves its table where it is if the
    /// layout allows: cells of `fuse8` and `fuse16`, and bits of `dcso`, `datasketches` and `rbloom` if
    /// they are whole words. Others are copied, because their words are big-endian or begin between two
    /// multiples of 8.
    ///
    /// # Errors
    /// As [`Foreign::import`].
    fn import_shared(format: Format, owner: Arc<BytesOwner>) -> Result<Self, Error>;

    /// Maps the file of another program's filter, and reads it as [`Foreign::import_shared`] does.
    ///
    /// ```
    /// use tamis::{AnyFilter, Keyed};
    /// use tamis_interop::{Foreign, Format};
    ///
    /// let path = "../../testdata/foreign/fuse8-text.bin";
    /// let filter = Keyed::<AnyFilter>::open_foreign(Format::Fuse8, path)?;
    /// assert!(filter.contains("key-7") && filter.heap_bytes() == 0);
    /// # Ok::<_, tamis_interop::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be mapped; otherwise as [`Foreign::import`].
    #[cfg(feature = "std")]
    fn open_foreign(format: Format, path: impl AsRef<Path>) -> Result<Self, Error>;

    /// Returns the bytes of the filter in the format of another program.
    ///
    /// # Errors
    /// [`Error::Unsuitable`] if the filter did not come from that format or its kin: its hash function
    /// cannot be changed without its keys.
    fn export(&self, format: Format) -> Result<Vec<u8>, Error>;
}

impl Foreign for Keyed<AnyFilter> {
    fn import(format: Format, bytes: &[u8]) -> Result<Self, Error> {
        (format.codec().read)(&Input::copied(bytes))
    }

    fn import_shared(format: Format, owner: Arc<BytesOwner>) -> Result<Self, Error> {
        (format.codec().read)(&Input::shared(&SharedBytes::new(owner)))
    }

    #[cfg(feature = "std")]
    fn open_foreign(format: Format, path: impl AsRef<Path>) -> Result<Self, Error> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            // An empty file cannot be mapped, and neither can a pipe.
            let mut bytes = Vec::new();
            (&file).read_to_end(&mut bytes)?;
            return Self::import(format, &bytes);
        }
        (format.codec().read)(&Input::shared(&SharedBytes::map(&file)?))
    }

    fn export(&self, format: Format) -> Result<Vec<u8>, Error> {
        if self.hasher().id() != format.codec().hash {
            return Err(error::other_hash(format, self));
        }
        (format.codec().write)(self)
    }
}
