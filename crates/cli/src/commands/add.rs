//! `tamis add`: more keys into a filter.

use anyhow::{Result, bail};
use tamis::{Capability, Error};

use crate::args::Add;
use crate::errors::failure;
use crate::hashing::each_run;
use crate::input::Keys;
use crate::{files, number, output, progress};

pub(crate) fn run(args: &Add) -> Result<()> {
    let args = &args.change;
    files::check_target(args.target())?;
    let mut keyed = files::open_to_change(&args.filter)?;
    let hasher = *keyed.hasher();
    let filter = keyed.filter_mut();
    super::require(filter.kind(), Capability::Insert, &args.filter)?;

    let keys = Keys::open(&args.keys_from, args.form.separator(), false)?;
    let bar = progress::bar("adding", &keys, args.quiet);
    let (before, mut asked, mut full) = (filter.len(), 0, None);
    each_run(&keys, args.form.threads(), &hasher, &bar, |hashes| {
        asked += hashes.len() as u64;
        // Once it is full the rest is only counted, to say how much room there should have been.
        if full.is_none() {
            match filter.insert_batch(hashes) {
                Err(Error::Full { keys }) => full = Some(keys),
                done => done.map_err(|error| failure(args.filter.display(), &error))?,
            }
        }
        Ok(())
    })?;
    if let Some(most) = full {
        bail!(
            "{}: {asked} keys to add to the {before} in it, but it was made for {most}",
            args.filter.display()
        );
    }
    let (now, most, rate) = (filter.len(), filter.figures().keys, filter.fpr());
    files::save(&keyed, args.target())?;
    if !args.quiet {
        output::message(format_args!(
            "{}: {asked} keys added, {now} in it",
            args.target().display()
        ));
        // Kinds that go on past that do so silently in the library; a person is told.
        if now > most {
            let rate = number::show_rate(rate);
            output::message(format_args!("it was made for {most}: {rate} of strangers get in now"));
        }
    }
    Ok(())
}
