//! Signal handlers.
//!
//! SIGINT and SIGTERM end the program at once, except while a file is written: then the file is
//! finished first, and the exit status is 128 plus the number of the signal. A second signal ends the
//! program at once.

#[cfg(unix)]
mod unix {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Arc, LazyLock};

    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;

    /// The number of the first signal that was received, or 0.
    static RECEIVED: LazyLock<Arc<AtomicUsize>> = LazyLock::new(|| {
        let (interrupted, received) = (Arc::new(AtomicBool::new(false)), Arc::default());
        for signal in [SIGINT, SIGTERM] {
            // If the handler cannot be installed, an interrupt ends the program at once.
            let _ =
                flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupted));
            let _ = flag::register(signal, Arc::clone(&interrupted));
            let _ =
                flag::register_usize(signal, Arc::clone(&received), signal.unsigned_abs() as usize);
        }
        received
    });

    pub(crate) fn finish_before_interrupts() {
        LazyLock::force(&RECEIVED);
    }

    pub(crate) fn exit_if_interrupted() {
        let signal = RECEIVED.load(Ordering::SeqCst);
        if signal > 0 {
            std::process::exit(128 + signal as i32);
        }
    }

    pub(crate) fn ignore_file_size_signal() {
        let received = Arc::default();
        let _ = flag::register(signal_hook::consts::SIGXFSZ, received);
    }
}

/// Delays the first interrupt from now on, so that it cannot leave a partly written file. A second
/// interrupt ends the program.
pub(crate) fn finish_before_interrupts() {
    #[cfg(unix)]
    unix::finish_before_interrupts();
}

/// Exits with the status of the interrupt that was delayed, if there was one.
pub(crate) fn exit_if_interrupted() {
    #[cfg(unix)]
    unix::exit_if_interrupted();
}

/// Ignores SIGXFSZ, so that a file beyond the size limit is a write error instead of the end of the
/// program.
pub(crate) fn ignore_file_size_signal() {
    #[cfg(unix)]
    unix::ignore_file_size_signal();
}
