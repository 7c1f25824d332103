//! `tamis completions`: prints shell completions.

use anyhow::Result;
use clap::CommandFactory;

use crate::args::{Cli, Completions};
use crate::output;

pub(crate) fn run(args: &Completions) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tamis", &mut script);
    output::write(&script)
}
