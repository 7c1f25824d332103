//! `tamis build --solution`: the SAT filter of solutions that another solver found.

use std::time::Instant;

use anyhow::{Result, anyhow, bail};
use tamis::{Error, Kind, SatFormula, SatShape};

use super::{Read, hasher, save, size};
use crate::args::Build;
use crate::commands::sat::{OTHER_FORMULA, hash_all, solutions};
use crate::files;
use crate::input::Keys;

pub(super) fn build(args: &Build) -> Result<()> {
    let start = Instant::now();
    if args.filter.0 != Some(Kind::Sat) {
        bail!("--solution requires --filter sat");
    }
    let keys = Keys::open(&args.keys_from, args.form.separator(), false)?;
    let hasher = hasher(args, Some(Kind::Sat))?;
    Kind::Sat.check_hash(hasher.id())?;
    let hashes = hash_all(&keys, args.form.threads(), &hasher, args.quiet)?;
    let sizing = size(args);
    let formula = SatFormula::new(&hashes, |keys| sizing.shape::<SatShape>(keys))?;
    let solutions = solutions(&formula, &args.solution)?;
    let filter = formula.build(&solutions).map_err(|error| {
        let names: Vec<String> = args.solution.iter().map(|path| files::name(path)).collect();
        match error {
            Error::Unsatisfied { solution, clause } => anyhow!(
                "{}: solution {solution} does not satisfy clause {clause} of its formula; {OTHER_FORMULA}",
                names.join(", ")
            ),
            error => anyhow!("{}: {error}", names.join(", ")),
        }
    })?;
    let filter = filter.into();
    let read = Read::of_static(&filter, hashes.len() as u64, None);
    save(args, hasher, filter, read, start)
}
