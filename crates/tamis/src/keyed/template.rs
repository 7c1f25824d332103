//! A filter's shape, hash function and seed as bytes, for workers that build filters to be merged.

use alloc::vec::Vec;

use tamis_format::{ChunkReader, Limits};

use super::Keyed;
use crate::any::AnyFilter;
use crate::error::Error;

/// Bytes of a word.
const WORD: usize = 8;
/// Zero bytes that are decoded at a time.
const ZEROS: [u8; 4096] = [0; 4096];

impl Keyed<AnyFilter> {
    /// Returns kind, shape, hash function and seed as bytes, from which [`Keyed::from_template`]
    /// makes an empty filter that can be merged with this one. Workers on other machines then need
    /// not plan the shape again, which takes floating-point arithmetic.
    ///
    /// The bytes are those of an empty filter's file with runs of zeros replaced by their length: a
    /// few hundred bytes for most kinds, at any capacity.
    ///
    /// ```
    /// use tamis::{AnyFilter, Keyed, Kind, Limits};
    ///
    /// let mut all = Keyed::<AnyFilter>::builder(Kind::Bloom).capacity(1_000_000).fpr(0.01).empty()?;
    /// let template = all.to_template()?;
    /// assert!(template.len() < 500);
    /// let mut part = Keyed::<AnyFilter>::from_template(&template, &Limits::default())?;
    /// part.insert("apple")?;
    /// all.merge(&part)?;
    /// assert!(all.contains("apple"));
    /// # Ok::<_, tamis::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Memory`] if an allocation fails.
    pub fn to_template(&self) -> Result<Vec<u8>, Error> {
        let file = self.empty_like()?.to_bytes()?;
        let (mut words, _) = file.as_chunks::<WORD>();
        let mut template = Vec::new();
        while !words.is_empty() {
            let zeros = words.iter().take_while(|word| **word == [0; WORD]).count();
            words = &words[zeros..];
            // A run of fewer than 4 zeros is not worth its length.
            let is_run = |at: usize| words[at..].iter().take(4).all(|word| *word == [0; WORD]);
            let literals = (0..words.len()).find(|at| is_run(*at)).unwrap_or(words.len());
            template.extend_from_slice(&(zeros as u64).to_le_bytes());
            template.extend_from_slice(&(literals as u64).to_le_bytes());
            template.extend_from_slice(words[..literals].as_flattened());
            words = &words[literals..];
        }
        Ok(template)
    }

    /// Makes an empty filter from the bytes of [`Keyed::to_template`]. `limits` bounds its size,
    /// because a short template can describe a large filter.
    ///
    /// # Errors
    /// [`Error::File`] names what is wrong with the bytes; [`Error::Memory`] if an allocation fails.
    pub fn from_template(template: &[u8], limits: &Limits) -> Result<Self, Error> {
        let damaged = || Error::from(tamis_format::Error::corrupt("the template is damaged"));
        let mut reader = ChunkReader::new(limits);
        let mut rest = template;
        while !rest.is_empty() {
            let (counts, more) = rest.split_at_checked(2 * WORD).ok_or_else(damaged)?;
            let count = |at: usize| {
                counts[at * WORD..].first_chunk().map_or(0, |le| u64::from_le_bytes(*le))
            };
            let mut zeros = count(0).checked_mul(WORD as u64).ok_or_else(damaged)?;
            while zeros > 0 {
                // The reader refuses bytes past the end that its header states.
                let run = zeros.min(ZEROS.len() as u64);
                reader.push(&ZEROS[..run as usize])?;
                zeros -= run;
            }
            let literals = usize::try_from(count(1)).ok().and_then(|words| words.checked_mul(WORD));
            let literals = literals.and_then(|bytes| more.split_at_checked(bytes));
            let (literals, more) = literals.ok_or_else(damaged)?;
            reader.push(literals)?;
            rest = more;
        }
        Self::verified(reader.finish()?)
    }
}
