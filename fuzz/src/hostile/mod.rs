//! Hostile files: sound files of every kind, changed in fields and words, with checksums that fit, and
//! every operation of the kind on what opens.
//!
//! ```text
//!  input ─► sample of a kind ─► changes ─► checksums ─► open by copy, verified
//!                                                    ├► open a shared buffer, unverified
//!                                                    └► open a mapped file, unverified (rarely)
//!  what opens ─► every operation ─► if it was verified: validate ─► save ─► open ─► the same filter
//! ```
//!
//! A panic is a failure. So is a verified file whose filter fails to validate, or is refused, after any
//! operations. [`run`] also checks memory and time.

mod exercise;
mod mutate;
mod run;
mod samples;

use std::sync::Arc;

use tamis::{AnyFilter, BytesOwner, Keyed, Limits};

use self::exercise::exercise;
pub use self::run::run;
use crate::Input;

/// How far a file got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    /// It was refused.
    Refused,
    /// It was opened without a check of its tables, and fails the check.
    Unverified,
    /// It passed every check.
    Verified,
}

/// Does all that with the file that `bytes` describe.
///
/// # Panics
/// If something is wrong.
pub fn hostile(bytes: &[u8]) -> Opened {
    let mut input = Input(bytes);
    let kind = input.kind();
    let samples = samples::samples(kind);
    let index = usize::from(input.byte()) | usize::from(input.byte()) << 8;
    let mut parts = samples[index % samples.len()].clone();
    let how = input.byte();
    mutate::mutate(&mut parts, samples, &mut input);
    let file = parts.forge();
    let seed = input.number();
    let verified = Keyed::<AnyFilter>::from_bytes(&file);
    let sound = verified.is_ok();
    if how % 16 == 1 {
        let streamed = Keyed::<AnyFilter>::read_from(&file[..], &Limits::default());
        assert_eq!(streamed.is_ok(), sound, "copied and streamed, the file is not the same");
    }
    if let Ok(filter) = verified {
        assert!(filter.to_bytes().expect("memory") == file, "written again, the file differs");
        exercise(filter, seed, true);
    }
    // A file that passes every check behaves alike however it was opened.
    if sound && how % 16 != 0 {
        return Opened::Verified;
    }
    // The map outlives the name of its file.
    let unverified = if how == 0 && index.is_multiple_of(16) {
        let mut path = tempfile::NamedTempFile::new().expect("a temporary file");
        std::io::Write::write_all(&mut path, &file).expect("room for a file");
        Keyed::<AnyFilter>::open(path.path())
    } else {
        let owner: Arc<BytesOwner> = Arc::new(file);
        Keyed::<AnyFilter>::from_shared(owner)
    };
    match unverified {
        Ok(filter) => exercise(filter, seed, sound),
        Err(error) => {
            assert!(!sound, "a verified file is refused: {error}");
            return Opened::Refused;
        }
    }
    if sound { Opened::Verified } else { Opened::Unverified }
}
