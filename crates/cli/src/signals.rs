//! Signal handlers.

/// Delays the first interrupt, so that it cannot leave a partly written file. A second interrupt ends
/// the program.
#[cfg(unix)]
pub(crate) fn finish_before_interrupts() {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag;

    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let interrupted = std::sync::Arc::default();
        for signal in [SIGINT, SIGTERM] {
            // If the handler cannot be installed, an interrupt ends the program at once.
            let _ = flag::register_conditional_shutdown(
                signal,
                128 + signal,
                std::sync::Arc::clone(&interrupted),
            );
            let _ = flag::register(signal, std::sync::Arc::clone(&interrupted));
        }
    });
}

#[cfg(not(unix))]
pub(crate) fn finish_before_interrupts() {}

/// Ignores SIGXFSZ, so that a file beyond the size limit is a write error instead of the end of the
/// program.
#[cfg(unix)]
pub(crate) fn ignore_file_size_signal() {
    let received = std::sync::Arc::default();
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, received);
}

#[cfg(not(unix))]
pub(crate) fn ignore_file_size_signal() {}
