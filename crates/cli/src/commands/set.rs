//! `tamis set`: changes the values of keys.

use anyhow::{Result, bail};
use serde_json::json;
use tamis::{Capability, Error, KeyHash, Value, ValueType};

use crate::args::Set;
use crate::entries::{each_entry, integer, not_an_integer, quote};
use crate::errors::failure;
use crate::hashing::Pool;
use crate::input::{Batch, Keys};
use crate::{files, output, progress};

pub(crate) fn run(args: &Set) -> Result<()> {
    let args = &args.change;
    args.form.require_lines()?;
    args.check()?;
    let mut keyed = files::open_within(&args.filter, args.form.key_forms(), args.max_memory)?;
    let hasher = *keyed.hasher();
    let filter = keyed.filter_mut();
    super::require(filter.kind(), Capability::Map, &args.filter)?;

    let keys = Keys::open(&args.keys_from, args.form.separator(), false)?;
    let bar = progress::bar("setting", &keys, args.quiet);
    let pool = Pool::<Vec<(u64, KeyHash, Value)>>::default();
    let has_integers = matches!(filter.as_map()?.value_type(), ValueType::Integers { .. });
    let read = |text: &[u8]| match has_integers {
        true => integer(text).map(Value::Integer).ok_or_else(|| not_an_integer(text)),
        false => Ok(text.into()),
    };
    let hash = |batch: &Batch<'_>| {
        let mut run = pool.take();
        run.clear();
        let done = each_entry(batch, &hasher, |line, key, text| {
            run.push((line, key, read(text)?));
            Ok(())
        });
        bar.inc(batch.read_bytes());
        done.map(|()| (batch.name().to_owned(), run))
    };
    let mut set = 0u64;
    keys.each_batch(args.form.threads(), hash, |done| {
        let (name, run) = done?;
        for (line, key, value) in &run {
            match filter.set_value(*key, value) {
                Ok(Some(_)) => set += 1,
                Ok(None) => bail!(
                    "{name}:{line}: the key is not in {}; nothing was saved",
                    files::name(&args.filter)
                ),
                Err(error @ Error::Value { .. }) => {
                    return Err(failure(format_args!("{name}:{line}"), &error));
                }
                Err(error @ Error::ValueType { .. }) => bail!(
                    "{name}:{line}: the value {} cannot be set: {error}",
                    quote(&value.clone().into_bytes())
                ),
                Err(error) => return Err(failure(files::name(&args.filter), &error)),
            }
        }
        pool.give(run);
        Ok(())
    })?;
    bar.finish_and_clear();
    files::save(&keyed, args.target())?;
    if args.json {
        output::print_json([json!({ "set": set })])?;
    } else if !args.quiet {
        output::message(format_args!("{}: set {set} values", files::target_name(args.target())));
    }
    Ok(())
}
