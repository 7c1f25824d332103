//! `tamis add`: more keys into a filter.

use anyhow::{Result, bail};
use tamis::{Capability, Error, Hash};

use crate::args::Add;
use crate::hashing::{Pool, hash_keys};
use crate::input::{Batch, Keys, failure};
use crate::{output, progress, store};

pub(crate) fn run(args: &Add) -> Result<()> {
    let args = &args.change;
    store::check_target(args.target())?;
    let mut keyed = store::open_to_change(&args.filter)?;
    let hasher = *keyed.hasher();
    let filter = keyed.filter_mut();
    super::require(filter.kind(), Capability::Insert, &args.filter)?;

    let keys = Keys::open(&args.keys_from, args.form.separator(), false)?;
    let bar = progress::bar("adding", &keys, args.quiet);
    let pool = Pool::<Vec<Hash>>::default();
    let hash = |batch: &Batch<'_>| {
        let mut hashes = pool.take();
        hash_keys(batch, &hasher, &mut hashes);
        bar.inc(batch.read_bytes());
        hashes
    };
    let (before, mut asked, mut full) = (filter.len(), 0, None);
    keys.each_batch(args.form.threads(), hash, |hashes| {
        asked += hashes.len() as u64;
        // Once it is full the rest is only counted, to say how much room there should have been.
        if full.is_none() {
            match filter.insert_each(&hashes) {
                Err(Error::Full { keys }) => full = Some(keys),
                done => done.map_err(|error| failure(args.filter.display(), &error))?,
            }
        }
        pool.give(hashes);
        Ok(())
    })?;
    bar.finish_and_clear();
    if let Some(most) = full {
        bail!(
            "{}: {asked} keys to add to the {before} in it, but it was made for {most}",
            args.filter.display()
        );
    }
    let now = filter.len();
    store::save(&keyed, args.target())?;
    if !args.quiet {
        output::say(format_args!("{}: {asked} keys added, {now} in it", args.target().display()));
    }
    Ok(())
}
