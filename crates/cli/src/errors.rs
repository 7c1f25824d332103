//! Error messages.

use std::error::Error;
use std::fmt::Display;

use anyhow::anyhow;

/// Returns an error that reads "`name`: `error`", without the "(os error N)" that the standard
/// library appends.
pub(crate) fn failure(name: impl Display, error: &dyn Error) -> anyhow::Error {
    let text = error.to_string();
    let text = text.split_once(" (os error ").map_or(text.as_str(), |(text, _)| text);
    anyhow!("{name}: {text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_system_error_is_dropped() {
        let error = std::io::Error::from_raw_os_error(2);
        assert!(error.to_string().contains("(os error 2)"));
        assert!(!failure("keys.txt", &error).to_string().contains("os error"));
        assert_eq!(
            failure("keys.txt", &std::fmt::Error).to_string().split(':').next(),
            Some("keys.txt")
        );
    }
}
