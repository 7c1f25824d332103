//! The command `tamis`, as a library: `main.rs` only calls [`run`].
//!
//! It holds no algorithm. `args.rs` is the surface, `commands/` has a file for each command,
//! `input.rs` reads keys, `entries.rs` keys with values, `hashing.rs` turns them into hashes, `store.rs` opens and saves
//! filters, `number.rs` and `output.rs` speak with people.

mod args;
pub mod bench;
mod commands;
pub mod demo;
mod entries;
mod hashing;
mod input;
mod number;
mod output;
mod progress;
mod store;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command};

/// Something was asked for, and nothing was found.
const NOTHING: u8 = 1;
const ERROR: u8 = 2;

/// Runs the command that the program was called with.
pub fn run() -> ExitCode {
    store::survive_size_limits();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    match dispatch(&cli.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => NOTHING.into(),
        Err(error) => {
            output::complain(format_args!("{error:#}"));
            ERROR.into()
        }
    }
}

/// Whether something was found, as the exit status will tell.
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
        Command::Similar(args) => similar::run(args).map(|()| true),
        Command::Info(args) => info::run(args).map(|()| true),
        Command::Verify(args) => verify::run(args).map(|()| true),
        Command::Filters(args) => filters::run(args).map(|()| true),
        Command::Plan(args) => plan::run(args).map(|()| true),
        Command::Dict(args) => dict::run(&args.command),
        Command::Ksat(args) => ksat::run(args),
        Command::Bench(args) => bench::run(args).map(|()| true),
        Command::Demo(args) => demo::run(args).map(|()| true),
        Command::Completions(args) => completions::run(args).map(|()| true),
        Command::Man(args) => man::run(args).map(|()| true),
    }
}

/// Help and version as they are; of a mistake what it is, in one line like every other error.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let status = u8::try_from(error.exit_code()).unwrap_or(ERROR);
        return if error.print().is_ok() { status.into() } else { ExitCode::SUCCESS };
    }
    let text = error.render().to_string();
    let lines = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim);
    let what = lines.collect::<Vec<_>>().join(" ");
    output::complain(what.strip_prefix("error: ").unwrap_or(&what));
    ERROR.into()
}
