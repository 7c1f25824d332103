//! Locks and bounds of code that runs on several threads if the feature `std` is on.

#[cfg(feature = "std")]
pub(crate) use with_std::{MaybeSync, Mutex};
#[cfg(not(feature = "std"))]
pub(crate) use without_std::{MaybeSync, Mutex};

#[cfg(feature = "std")]
mod with_std {
    pub(crate) use std::sync::Mutex;

    /// Is [`Sync`] where there are threads.
    pub(crate) trait MaybeSync: Sync {}

    impl<T: Sync> MaybeSync for T {}
}

#[cfg(not(feature = "std"))]
mod without_std {
    use core::cell::{RefCell, RefMut};
    use core::convert::Infallible;

    /// Is [`Sync`] where there are threads.
    pub(crate) trait MaybeSync {}

    impl<T> MaybeSync for T {}

    /// A mutex of one thread, which never waits and is never poisoned.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(RefCell<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(RefCell::new(value))
        }

        pub(crate) fn lock(&self) -> Result<RefMut<'_, T>, Infallible> {
            Ok(self.0.borrow_mut())
        }

        pub(crate) fn into_inner(self) -> Result<T, Infallible> {
            Ok(self.0.into_inner())
        }
    }
}
