//! `tamis sat export`: writes the formula of a SAT filter. `tamis build --solution` reads the solutions.

use std::io::{BufReader, Write};
use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use serde_json::json;
use tamis::{KeyHash, KeyHasher, Kind, SatFormula, SatShape, Sizing};
use tamis_ksat::{Fault, read_solutions};

use crate::args::{Sat, SatCommand, SatExport};
use crate::errors::failure;
use crate::hashing::each_run;
use crate::input::{Keys, read_one};
use crate::{files, output, progress};

/// Why a solution does not fit its formula.
pub(super) const OTHER_FORMULA: &str =
    "it is a solution of other keys, another seed or other options";

/// More keys than any block has.
const MAX_KEYS: usize = 1 << 20;

pub(crate) fn run(args: &Sat) -> Result<()> {
    match &args.command {
        SatCommand::Export(args) => export(args),
    }
}

fn export(args: &SatExport) -> Result<()> {
    files::check_json(&args.output, args.json)?;
    files::check_target(&args.output)?;
    let sizing = Sizing::fpr(args.fpr);
    let sizing = args.set.iter().fold(sizing, |sizing, (name, value)| sizing.set(name, &**value));
    let keys = Keys::open(&args.keys_from, args.form.separator(), false)?;
    Kind::Sat.check_hash(args.hash)?;
    let hasher = KeyHasher::new(args.hash, args.seed);
    let hashes = hash_all(&keys, args.form.threads(), &hasher, args.quiet)?;
    let formula = SatFormula::new(&hashes, |keys| sizing.shape::<SatShape>(keys))?;
    let (all, variables) = (formula.formulas(), formula.variables());
    let planes = match args.plane {
        Some(plane) if plane >= all => bail!("there is no plane {plane}, but {all}, from 0 on"),
        Some(plane) => plane..plane + 1,
        None => 0..all,
    };
    let count = planes.end - planes.start;
    let (total, clauses) = (variables * count, formula.len() * count);
    if i32::try_from(total).is_err() {
        bail!("the formula has {total} variables, more than 2^31 - 1; write each --plane alone");
    }
    let mut text = format!(
        "c a SAT filter of {} keys: k = {}, {variables} variables per plane, planes {} to {} of {all}; \
         solutions needed: {}\np cnf {total} {clauses}\n",
        hashes.len(),
        formula.shape().k(),
        planes.start,
        planes.end - 1,
        formula.solutions(),
    )
    .into_bytes();
    for plane in planes.clone() {
        let first = (variables * (plane - planes.start)) as i32;
        for clause in formula.clauses(plane) {
            for literal in clause {
                write!(text, "{} ", literal + first * literal.signum())?;
            }
            text.extend(b"0\n");
        }
    }
    files::save_bytes(&text, &args.output)?;
    if args.json {
        return output::print_json([json!({
            "variables": total,
            "clauses": clauses,
            "planes": all,
            "solutions": formula.solutions(),
        })]);
    }
    if !args.quiet {
        let path = files::target_name(&args.output);
        output::message(format_args!("{path}: {total} variables, {clauses} clauses"));
    }
    Ok(())
}

/// Returns the hashes of all keys, which must be few.
pub(super) fn hash_all(
    keys: &Keys,
    threads: usize,
    hasher: &KeyHasher,
    quiet: bool,
) -> Result<Vec<KeyHash>> {
    let mut hashes = Vec::new();
    let bar = progress::bar("reading", keys, quiet);
    each_run(keys, threads, hasher, &bar, |run| {
        if hashes.len() + run.len() > MAX_KEYS {
            bail!("more than {MAX_KEYS} keys: the formula of so many is not one block");
        }
        hashes.extend_from_slice(run);
        Ok(())
    })?;
    Ok(hashes)
}

/// Reads the solutions of a formula: one of all planes, or one per plane.
pub(super) fn solutions(formula: &SatFormula, paths: &[PathBuf]) -> Result<Vec<Vec<bool>>> {
    let needed = usize::try_from(formula.solutions())?;
    let (each, all) = (formula.variables(), formula.variables() * formula.formulas());
    let mut found: Vec<Vec<bool>> = Vec::new();
    for path in paths {
        let most = needed.saturating_sub(found.len());
        if most == 0 {
            bail!("{}: the files before it have all {needed} solutions", files::name(path));
        }
        let read = read_one(path, |name, bytes| {
            let bytes = BufReader::new(bytes);
            let vars = u32::try_from(all).map_err(|_| anyhow!("{name}: too many variables"))?;
            read_solutions(bytes, vars, most).map_err(|error| match error.what {
                Fault::Variable { .. } => anyhow!("{name}: {error}; {OTHER_FORMULA}"),
                _ => failure(name, &error),
            })
        })?;
        if read.is_empty() {
            bail!("{}: there is no solution in it", files::name(path));
        }
        found.extend(read);
    }
    let each = usize::try_from(each)?;
    if let ([whole], true) = (&found[..], formula.formulas() > 1) {
        return Ok(whole.chunks(each).map(<[bool]>::to_vec).collect());
    }
    if found.len() != needed {
        bail!(
            "the filter needs {needed} solutions, or one of all planes; there are {}",
            found.len()
        );
    }
    // A solution of one plane has no further variables.
    if found.iter().any(|values| values[each..].contains(&true)) {
        bail!("a solution has more than the {each} variables of a plane");
    }
    found.iter_mut().for_each(|values| values.truncate(each));
    Ok(found)
}
