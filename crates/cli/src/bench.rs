//! `tamis bench`: what each filter costs on this machine.

/// What to measure.
#[derive(clap::Args, Debug)]
pub struct Args {}

/// Measures and prints.
pub fn run(_: &Args) -> anyhow::Result<()> {
    Ok(())
}
