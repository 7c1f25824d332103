//! `tamis add`: inserts keys into a filter.

use anyhow::{Result, bail};
use serde_json::json;
use tamis::{Capability, Error, Filter};

use crate::args::Add;
use crate::duplicates::{Distinct, Inserted};
use crate::errors::failure;
use crate::hashing::each_run;
use crate::input::Keys;
use crate::{files, number, output, progress};

pub(crate) fn run(args: &Add) -> Result<()> {
    let (args, distinct) = (&args.change, args.distinct);
    args.check()?;
    let mut keyed = files::open_within(&args.filter, args.form.key_forms(), args.max_memory)?;
    let hasher = *keyed.hasher();
    let filter = keyed.filter_mut();
    super::require(filter.kind(), Capability::Insert, &args.filter)?;

    let (separator, threads) = (args.form.separator(), args.form.threads());
    // If the filter is full of copies of a key, the keys are read again to name it.
    let bounded = filter.kind().bounds_copies();
    let keys = Keys::open(&args.keys_from, separator, bounded)?;
    let bar = progress::bar("adding", &keys, args.quiet);
    let mut seen = distinct.then(|| Distinct::new(args.max_memory));
    let (before, mut read, mut added, mut refused) = (filter.len(), 0, 0, None);
    let mut new = Vec::new();
    each_run(&keys, threads, &hasher, &bar, |hashes| {
        read += hashes.len() as u64;
        let hashes = match &mut seen {
            Some(seen) => {
                new.clear();
                seen.take_new(hashes, &mut new)?;
                &new
            }
            None => hashes,
        };
        added += hashes.len() as u64;
        // When the filter is full the other keys are only counted, for the message.
        if refused.is_none() {
            match filter.insert_batch(hashes) {
                Err(Error::Full { inserted }) => refused = Some(hashes[inserted as usize]),
                done => done.map_err(|error| failure(files::name(&args.filter), &error))?,
            }
        }
        Ok(())
    })?;
    if let Some(refused) = refused {
        let (name, capacity, now) = (files::name(&args.filter), filter.capacity(), filter.len());
        if bounded && (now < capacity || filter.kind().can(Capability::Overfill)) {
            let inserted = Inserted { keys: &keys, hasher: &hasher, separator, threads };
            if let Some(error) = inserted.explain(filter, refused)? {
                return Err(error);
            }
            bail!("{name}: the filter is full with {now} keys");
        }
        bail!("{name}: cannot add {added} keys to {before}: the capacity is {capacity}");
    }
    let (now, capacity, rate) = (filter.len(), filter.figures().keys, filter.fpr());
    files::save(&keyed, args.target())?;
    if args.json {
        output::print_json([json!({
            "added": added,
            "duplicates": distinct.then_some(read - added),
            "keys": now,
            "capacity": capacity,
            "fpr": rate,
        })])?;
    } else if !args.quiet {
        output::message(format_args!(
            "{}: added {added} keys{}, {now} in total",
            files::target_name(args.target()),
            super::dropped(read - added)
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
