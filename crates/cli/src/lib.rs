//! The command `tamis` as a library; `main.rs` only calls [`run`].
//!
//! The command has no algorithm of its own. Each module below uses only those above it:
//!
//! | module | contents |
//! | --- | --- |
//! | `errors` | error messages |
//! | `number` | parses and formats numbers with units |
//! | `signals` | interrupts |
//! | `memory` | available and used memory |
//! | `files` | opens and saves filters |
//! | `output` | prints results, tables, JSON and messages |
//! | `input` | reads keys from files and pipes, on several threads |
//! | `progress` | progress bars |
//! | `hashing` | turns keys into hashes |
//! | `entries` | reads lines of a key and a value |
//! | `duplicates` | drops repeated keys, or says which one does not fit |
//! | `serve` | a server of embedded files on this machine, for `tamis explore` |
//! | `args` | the options and their help texts |
//! | `commands` | one file per command |

mod args;
mod commands;
mod duplicates;
mod entries;
mod errors;
mod files;
mod hashing;
mod input;
mod memory;
mod number;
mod output;
mod progress;
#[cfg(any(test, feature = "explore"))]
mod serve;
mod signals;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};

/// The exit status if no key matched.
const NO_MATCH: u8 = 1;
/// The exit status after an error.
const ERROR: u8 = 2;

/// Runs the command line of this process and returns the exit status.
pub fn run() -> ExitCode {
    signals::ignore_file_size_signal();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match dispatch(&cli.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => NO_MATCH.into(),
        Err(error) => {
            output::print_error(format_args!("{error:#}"));
            ERROR.into()
        }
    }
}

/// Runs a command. Returns `false` if no key matched.
fn dispatch(command: &Command) -> anyhow::Result<bool> {
    use commands::*;
    match command {
        Command::Build(args) => build::run(args).map(|()| true),
        Command::Query(args) => query::run(args),
        Command::Add(args) => add::run(args).map(|()| true),
        Command::Remove(args) => remove::run(args),
        Command::Count(args) => count::run(args),
        Command::Get(args) => get::run(args),
        Command::Set(args) => set::run(args).map(|()| true),
        Command::Uniq(args) => uniq::run(args).map(|()| true),
        Command::Comm(args) => comm::run(args),
        Command::Merge(args) => merge::run(args).map(|()| true),
        Command::Resize(args) => resize::run(args).map(|()| true),
        Command::List(args) => list::run(args).map(|()| true),
        Command::Import(args) => import::run(args).map(|()| true),
        Command::Export(args) => export::run(args).map(|()| true),
        Command::Diff(args) => diff::run(args).map(|()| true),
        Command::Patch(args) => patch::run(args).map(|()| true),
        Command::Similar(args) => similar::run(args).map(|()| true),
        Command::Info(args) => info::run(args).map(|()| true),
        Command::Verify(args) => verify::run(args).map(|()| true),
        Command::Server(args) => server::run(args).map(|()| true),
        Command::Filters(args) => filters::run(args).map(|()| true),
        Command::Plan(args) => plan::run(args).map(|()| true),
        Command::Dict(args) => dict::run(args),
        Command::Ksat(args) => ksat::run(args),
        Command::Sat(args) => sat::run(args).map(|()| true),
        Command::Bench(args) => bench::run(args).map(|()| true),
        #[cfg(feature = "explore")]
        Command::Explore(args) => explore::run(args).map(|()| true),
        Command::Demo => demo::run().map(|()| true),
        Command::Completions(args) => completions::run(args).map(|()| true),
        Command::Man(args) => man::run(args).map(|()| true),
    }
}

/// Prints help and version texts unchanged, and a usage error in one line like every other error.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let status = u8::try_from(error.exit_code()).unwrap_or(ERROR);
        return if error.print().is_ok() { status.into() } else { ExitCode::SUCCESS };
    }
    let text = error.render().to_string();
    let lines = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    let message = lines.collect::<Vec<_>>().join(" ");
    output::print_error(message.strip_prefix("error: ").unwrap_or(&message));
    ERROR.into()
}
