//! Random numbers of the operating system, for salts and tokens. There is no other source.

/// Returns 64 random bits.
///
/// # Errors
///
/// Returns [`tamis::Error::Random`] if the operating system has none.
pub(crate) fn random_u64() -> Result<u64, tamis::Error> {
    #[cfg(test)]
    if SOURCE_FAILS.get() {
        return Err(tamis::Error::Random(getrandom::Error::UNEXPECTED.into()));
    }
    getrandom::u64().map_err(|error| tamis::Error::Random(error.into()))
}

#[cfg(test)]
std::thread_local! {
    /// Whether the random source of this thread fails, in tests.
    pub(crate) static SOURCE_FAILS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}
