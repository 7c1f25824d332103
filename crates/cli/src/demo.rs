//! `tamis demo`: every filter at work.

/// What to show.
#[derive(clap::Args, Debug)]
pub struct Args {}

/// Shows it.
pub fn run(_: &Args) -> anyhow::Result<()> {
    Ok(())
}
