//! The commands `CF.*`, with the arguments, replies and errors of RedisBloom.
//!
//! A filter that scales is of the kind `growing`, which removes and counts keys like a cuckoo filter, and needs no
//! capacity. One that does not (`EXPANSION 0`) is of the kind `counting_quotient`, which takes half the memory.

use tamis::Kind;

use crate::arguments::{Items, Plan, Words, bytes, number};
use crate::failure::Failure;
use crate::server::{Argument, Context};
use crate::tamis::{Add, Added, add_items, create, remove_items};

pub(crate) use crate::bloom::{loadchunk, scandump};
pub(crate) use crate::tamis::{exists, mexists};

type Done = Result<(), Failure>;

const DEFAULT_CAPACITY: u64 = 1024;
const DEFAULT_BUCKET: u64 = 2;

/// Returns the rate of a cuckoo filter with buckets of this size and fingerprints of 8 bits, as RedisBloom
/// has.
fn rate(bucket: u64) -> f64 {
    2.0 * bucket as f64 / 255.0
}

/// Plans a filter that scales. With a stated capacity its memory is smallest at that number of keys, and there
/// it has about the rate of RedisBloom's filter. The rate stays below 2 times that at any size, and below 4
/// times without a capacity, which RedisBloom's filter reaches with its second or fourth table.
fn scaling_plan(capacity: Option<u64>, bucket: u64) -> Result<Plan, Failure> {
    let factor = if capacity.is_some() { 2.0 } else { 4.0 };
    let rate = (factor * rate(bucket)).min(0.5);
    let mut plan = Plan::new(Kind::Growing, Some(capacity.unwrap_or(DEFAULT_CAPACITY)), rate)?;
    if let Some(capacity) = capacity {
        plan.set("most", &capacity.to_string());
    }
    Ok(plan)
}

fn parse_capacity(word: &[u8]) -> Result<u64, Failure> {
    match number(word, "") {
        Ok(capacity) if capacity > 0 => Ok(capacity),
        _ => Err(Failure::text("Bad capacity")),
    }
}

/// `CF.RESERVE key capacity [BUCKETSIZE size] [MAXITERATIONS iterations] [EXPANSION expansion]`
pub(crate) fn reserve(context: &Context, arguments: &[Argument]) -> Done {
    let [name, capacity, options @ ..] = arguments else { return Err(Failure::Arity) };
    let capacity = parse_capacity(capacity.bytes())?;
    let (mut bucket, mut scales) = (DEFAULT_BUCKET, true);
    let options = bytes(options);
    let mut options = Words::new(&options);
    while let Some(option) = options.next() {
        let value: u64 = options.number("the value of an option")?;
        let (least, most) = match option.to_ascii_uppercase().as_slice() {
            b"BUCKETSIZE" => {
                bucket = value;
                (1, 255 / 4)
            }
            b"MAXITERATIONS" => (1, 65_535),
            b"EXPANSION" => {
                scales = value > 0;
                (0, 32_768)
            }
            _ => return Err(Failure::SYNTAX),
        };
        if !(least..=most).contains(&value) {
            let option = String::from_utf8_lossy(option).to_ascii_uppercase();
            return Err(format!("{option}: value must be in the range [{least}, {most}]").into());
        }
    }
    let plan = if scales {
        scaling_plan(Some(capacity), bucket)?
    } else {
        Plan::new(Kind::CountingQuotient, Some(capacity), rate(bucket))?
    };
    create(context, name, &plan)?;
    context.reply_ok();
    Ok(())
}

fn add_or_create(
    context: &Context,
    name: &Argument,
    items: &[Argument],
    how: Add,
    plan: impl FnOnce() -> Result<Plan, Failure>,
) -> Result<Added, Failure> {
    if context.key(name)?.value().is_none() {
        create(context, name, &plan()?)?;
    }
    add_items(context, name, items, how)
}

fn add_one(context: &Context, arguments: &[Argument], how: Add) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.len() != 1 {
        return Err(Failure::Arity);
    }
    let plan = || scaling_plan(None, DEFAULT_BUCKET);
    let added = add_or_create(context, name, items, how, plan)?;
    match added.new.first() {
        Some(new) => context.reply_bool(how == Add::Copies || *new),
        None => return Err(Failure::text("Filter is full")),
    }
    Ok(())
}

/// `CF.ADD key item`
pub(crate) fn add(context: &Context, arguments: &[Argument]) -> Done {
    add_one(context, arguments, Add::Copies)
}

/// `CF.ADDNX key item`
pub(crate) fn addnx(context: &Context, arguments: &[Argument]) -> Done {
    add_one(context, arguments, Add::New)
}

fn insert_all(context: &Context, arguments: &[Argument], how: Add) -> Done {
    let [name, rest @ ..] = arguments else { return Err(Failure::Arity) };
    let at = rest.iter().position(|word| word.is("ITEMS")).ok_or(Failure::Arity)?;
    let items = &rest[at + 1..];
    if items.is_empty() {
        return Err(Failure::Arity);
    }
    let (mut capacity, mut creates) = (None, true);
    let options = bytes(&rest[..at]);
    let mut options = Words::new(&options);
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"CAPACITY" => capacity = Some(parse_capacity(options.value()?)?),
            b"NOCREATE" => creates = false,
            _ => return Err(Failure::text("Unknown argument received")),
        }
    }
    let added = add_or_create(context, name, items, how, || match creates {
        true => scaling_plan(capacity, DEFAULT_BUCKET),
        false => Err(Failure::MISSING),
    })?;
    context.reply_array(items.len());
    added.new.iter().for_each(|new| context.reply_bool(how == Add::Copies || *new));
    // Items that did not get in.
    (added.new.len()..items.len()).for_each(|_| context.reply_signed(-1));
    Ok(())
}

/// `CF.INSERT key [CAPACITY capacity] [NOCREATE] ITEMS item [item …]`
pub(crate) fn insert(context: &Context, arguments: &[Argument]) -> Done {
    insert_all(context, arguments, Add::Copies)
}

/// `CF.INSERTNX key [CAPACITY capacity] [NOCREATE] ITEMS item [item …]`
pub(crate) fn insertnx(context: &Context, arguments: &[Argument]) -> Done {
    insert_all(context, arguments, Add::New)
}

/// `CF.DEL key item`
pub(crate) fn del(context: &Context, arguments: &[Argument]) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.len() != 1 {
        return Err(Failure::Arity);
    }
    if context.key(name)?.value().is_none() {
        return Err(Failure::text("Not found"));
    }
    let removed = remove_items(context, name, items)?;
    context.reply_bool(removed[0]);
    Ok(())
}

/// `CF.COUNT key item`
pub(crate) fn count(context: &Context, arguments: &[Argument]) -> Done {
    let [name, item] = arguments else { return Err(Failure::Arity) };
    let count = match context.key(name)?.value() {
        Some(value) => {
            let filter = value.filter()?;
            filter.filter().count(Items::of(filter)?.hash(item.bytes())?)?
        }
        None => 0,
    };
    context.reply_integer(count);
    Ok(())
}

/// `CF.INFO key`
pub(crate) fn info(context: &Context, arguments: &[Argument]) -> Done {
    let [name] = arguments else { return Err(Failure::Arity) };
    let key = context.key(name)?;
    let value = key.value().ok_or(Failure::MISSING)?;
    let filter = value.filter()?;
    let fields = [
        ("Size", value.memory()),
        ("Number of buckets", filter.capacity().max(filter.len())),
        ("Number of filters", 1),
        ("Number of items inserted", filter.len()),
        ("Number of items deleted", 0),
        ("Bucket size", 1),
        ("Expansion rate", 1),
        ("Max iterations", 1),
    ];
    context.reply_map(fields.len());
    for (label, number) in fields {
        context.reply_bytes(label.as_bytes());
        context.reply_integer(number);
    }
    Ok(())
}
