//! The command `tamis`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tamis_cli::run()
}
