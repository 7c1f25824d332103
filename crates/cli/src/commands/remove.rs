//! `tamis remove`: removes keys from a filter.

use anyhow::Result;
use serde_json::json;
use tamis::{Capability, Filter};

use crate::args::Remove;
use crate::errors::failure;
use crate::hashing::each_run;
use crate::input::Keys;
use crate::{files, output, progress};

pub(crate) fn run(args: &Remove) -> Result<bool> {
    let args = &args.change;
    args.check()?;
    let mut keyed = files::open_within(&args.filter, args.form.key_forms(), args.max_memory)?;
    let hasher = *keyed.hasher();
    let filter = keyed.filter_mut();
    super::require(filter.kind(), Capability::Remove, &args.filter)?;

    let keys = Keys::open(&args.keys_from, args.form.separator(), false)?;
    let bar = progress::bar("removing", &keys, args.quiet);
    let (mut removed, mut absent) = (0u64, 0u64);
    each_run(&keys, args.form.threads(), &hasher, &bar, |hashes| {
        for key in hashes {
            match filter.remove(*key) {
                Ok(true) => removed += 1,
                Ok(false) => absent += 1,
                Err(error) => return Err(failure(files::name(&args.filter), &error)),
            }
        }
        Ok(())
    })?;
    let now = filter.len();
    files::save(&keyed, args.target())?;
    if args.json {
        let object = json!({ "removed": removed, "absent": absent, "keys": now });
        output::print_json([object])?;
    } else if !args.quiet {
        output::message(format_args!(
            "{}: removed {removed} keys, {absent} were absent, {now} in total",
            files::target_name(args.target())
        ));
    }
    Ok(removed > 0)
}
