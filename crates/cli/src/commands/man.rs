//! `tamis man`: prints or writes manual pages.

use anyhow::Result;
use clap::CommandFactory;
use clap_mangen::Man as Page;

use crate::args::{Cli, Man};
use crate::errors::failure;
use crate::output;

pub(crate) fn run(args: &Man) -> Result<()> {
    let command = Cli::command();
    let Some(folder) = &args.dir else {
        let mut page = Vec::new();
        Page::new(command).render(&mut page)?;
        return output::write(&page);
    };
    clap_mangen::generate_to(command, folder).map_err(|error| failure(folder.display(), &error))
}
