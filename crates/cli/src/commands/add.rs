//! `tamis add`: inserts keys into a filter.

use anyhow::{Result, bail};
use tamis::{Capability, Error, Filter};

use crate::args::Add;
use crate::errors::failure;
use crate::hashing::each_run;
use crate::input::Keys;
use crate::{files, number, output, progress};

pub(crate) fn run(args: &Add) -> Result<()> {
    let args = &args.change;
    files::check_target(args.target())?;
    let mut keyed = files::open_to_change_for(&args.filter, args.form.key_forms())?;
    let hasher = *keyed.hasher();
    let filter = keyed.filter_mut();
    super::require(filter.kind(), Capability::Insert, &args.filter)?;

    let keys = Keys::open(&args.keys_from, args.form.separator(), false)?;
    let bar = progress::bar("adding", &keys, args.quiet);
    let (before, mut added, mut capacity) = (filter.len(), 0, None);
    each_run(&keys, args.form.threads(), &hasher, &bar, |hashes| {
        added += hashes.len() as u64;
        // When the filter is full the other keys are only counted, for the message.
        if capacity.is_none() {
            match filter.insert_batch(hashes) {
                Err(Error::Full { .. }) => capacity = Some(filter.capacity()),
                done => done.map_err(|error| failure(args.filter.display(), &error))?,
            }
        }
        Ok(())
    })?;
    if let Some(capacity) = capacity {
        bail!(
            "{}: cannot add {added} keys to {before}: the capacity is {capacity}",
            args.filter.display()
        );
    }
    let (now, capacity, rate) = (filter.len(), filter.figures().keys, filter.fpr());
    files::save(&keyed, args.target())?;
    if !args.quiet {
        output::message(format_args!(
            "{}: added {added} keys, {now} in total",
            args.target().display()
        ));
        // Kinds with `overfill` accept keys beyond their capacity without an error.
        if now > capacity {
            let rate = number::show_rate(rate);
            output::message(format_args!(
                "warning: the capacity is {capacity}; the false positive rate is now {rate}"
            ));
        }
    }
    Ok(())
}
