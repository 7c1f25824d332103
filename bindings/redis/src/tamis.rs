//! The commands `TAMIS.*`.

mod files;
mod merge;

use tamis::plan::recommend;
use tamis::{
    AnyFilter, Build, Capability, Error, ErrorKind, Goal, KeyHash, Kind, Repair, Settings,
};

pub(crate) use self::files::{dump, dump_chunk, load, load_chunk, replicate_filter};
pub(crate) use self::merge::merge;
use crate::arguments::{DEFAULT_FPR, Items, Plan, Words, bytes, number, parse_kind};
use crate::failure::Failure;
use crate::limits;
use crate::server::{Argument, Context, Key};
use crate::value::{Filter, Held, Value};

/// The most copies that one `TAMIS.INCRBY` inserts, so that it does not block the server for long.
const MAX_INCREMENT: u64 = 100_000;

type Done = Result<(), Failure>;

/// `TAMIS.RESERVE key kind capacity fpr [HASH name] [SEED hex] [INTEGERS] [WINDOW milliseconds]
/// [SET name value]…`
pub(crate) fn reserve(context: &Context, arguments: &[Argument]) -> Done {
    let [name, words @ ..] = arguments else { return Err(Failure::Arity) };
    let words = bytes(words);
    let mut words = Words::new(&words);
    let kind = parse_kind(words.value()?)?;
    let (capacity, fpr) = (words.number("the capacity")?, words.number("the rate")?);
    if capacity == 0 {
        return Err(Failure::text("the capacity must be at least 1"));
    }
    let plan = Plan::new(kind, Some(capacity), fpr)?.with_options(words)?;
    create(context, name, &plan)?;
    context.reply_ok();
    Ok(())
}

/// Makes an empty filter at a key that does not exist, here and on replicas: the seed travels.
pub(crate) fn create(context: &Context, name: &Argument, plan: &Plan) -> Done {
    let mut key = context.key_mut(name)?;
    if key.value().is_some() {
        return Err(Failure::EXISTS);
    }
    limits::check(context, plan.planned_bytes()?, 0)?;
    key.set(plan.empty()?.into());
    let words = plan.arguments();
    let words: Vec<&[u8]> =
        [name.bytes()].into_iter().chain(words.iter().map(|word| &word[..])).collect();
    context.replicate("TAMIS.RESERVE", &words);
    Ok(())
}

/// Makes the filter of a command that adds to a key which does not exist: one of unknown size.
fn create_default(context: &Context, name: &Argument) -> Done {
    // Kinds that grow start at `FIRST_KEYS`, which replicas are told.
    let plan = Plan::new(Kind::Growing, Some(tamis::plan::FIRST_KEYS), DEFAULT_FPR)?;
    create(context, name, &plan)
}

/// How a command adds keys.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Add {
    /// One copy each, where the kind removes or counts keys; other kinds hold a key once.
    Copies,
    /// Those that the filter does not seem to hold.
    New,
}

/// What became of keys that were added: for those that are in, whether they were certainly new, and why
/// the next key did not get in.
pub(crate) struct Added {
    pub(crate) new: Vec<bool>,
    pub(crate) refusal: Option<Error>,
}

/// Adds items to a filter, here and on replicas.
pub(crate) fn add_items(
    context: &Context,
    name: &Argument,
    items: &[Argument],
    how: Add,
) -> Result<Added, Failure> {
    let mut key = context.key_mut(name)?;
    let held = key.value_mut().ok_or(Failure::MISSING)?.held_mut()?;
    let hashes = Items::of(held.filter())?.hashes(items)?;
    check_growth(context, held, hashes.len() as u64)?;
    let kind = held.filter().kind();
    let copies =
        how == Add::Copies && (kind.can(Capability::Remove) || kind.can(Capability::Count));
    let added = insert(held.filter_mut()?, &hashes, copies)?;
    if added.refusal.is_some() {
        // The keys that are in, by name: a replica might have room for more.
        let done = &items[..added.new.len()];
        let words: Vec<&[u8]> =
            [name.bytes()].into_iter().chain(done.iter().map(Argument::bytes)).collect();
        let command = if copies { "TAMIS.MADD" } else { "TAMIS.ADDNX" };
        if !done.is_empty() {
            context.replicate(command, &words);
        }
    } else if copies || added.new.contains(&true) {
        context.replicate_verbatim();
    }
    Ok(added)
}

fn insert(filter: &mut Filter, hashes: &[KeyHash], copies: bool) -> Result<Added, Failure> {
    let mut new = vec![false; hashes.len()];
    let result = if copies {
        insert_copies(filter, hashes, &mut new)
    } else {
        filter.filter_mut().insert_new_batch(hashes, &mut new)
    };
    match result {
        Ok(()) => Ok(Added { new, refusal: None }),
        Err(Error::Full { inserted }) => {
            new.truncate(inserted as usize);
            Ok(Added { new, refusal: Some(Error::Full { inserted: 0 }) })
        }
        Err(error) => Err(error.into()),
    }
}

fn insert_copies(filter: &mut Filter, hashes: &[KeyHash], new: &mut [bool]) -> Result<(), Error> {
    for (index, (hash, new)) in hashes.iter().zip(new).enumerate() {
        *new = !filter.contains_hash(*hash);
        filter.insert_hash(*hash).map_err(|error| match error.kind() {
            ErrorKind::Full => Error::Full { inserted: index as u64 },
            _ => error,
        })?;
    }
    Ok(())
}

/// Checks that a filter that grows stays within the memory caps with `more` keys. Checks are an eighth of
/// the filter's keys apart.
fn check_growth(context: &Context, held: &mut Held, more: u64) -> Done {
    let keys = held.filter().len().saturating_add(more);
    if keys <= held.checked_keys || !held.filter().kind().can(Capability::Grow) {
        return Ok(());
    }
    let ahead = keys.saturating_add(keys / 8).saturating_add(1 << 10);
    // What the allocator adds to tables now, it adds to those of the larger filter.
    let (tables, memory) = (held.filter().heap_bytes(), held.table_memory());
    let rounding = memory as f64 / tables.max(1) as f64;
    let bytes = (held.filter().filter().figures_at(ahead).bytes as f64 * rounding) as u64;
    limits::check(context, bytes, memory)?;
    held.checked_keys = ahead;
    Ok(())
}

fn add_one(context: &Context, arguments: &[Argument], how: Add) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.len() != 1 {
        return Err(Failure::Arity);
    }
    create_if_missing(context, name)?;
    let added = add_items(context, name, items, how)?;
    match added.refusal {
        Some(error) => return Err(error.into()),
        None => context.reply_bool(added.new[0]),
    }
    Ok(())
}

fn add_many(context: &Context, arguments: &[Argument], how: Add) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.is_empty() {
        return Err(Failure::Arity);
    }
    create_if_missing(context, name)?;
    let added = add_items(context, name, items, how)?;
    reply_added(context, items.len(), added);
    Ok(())
}

/// Replies for each item whether it was new, or why it did not get in.
pub(crate) fn reply_added(context: &Context, items: usize, added: Added) {
    context.reply_array(items);
    added.new.iter().for_each(|new| context.reply_bool(*new));
    if let Some(refusal) = added.refusal {
        let failure = Failure::from(refusal);
        (added.new.len()..items).for_each(|_| context.fail(&failure));
    }
}

fn create_if_missing(context: &Context, name: &Argument) -> Done {
    match context.key(name)?.value() {
        Some(_) => Ok(()),
        None => create_default(context, name),
    }
}

/// `TAMIS.ADD key item`
pub(crate) fn add(context: &Context, arguments: &[Argument]) -> Done {
    add_one(context, arguments, Add::Copies)
}

/// `TAMIS.MADD key item [item …]`
pub(crate) fn madd(context: &Context, arguments: &[Argument]) -> Done {
    add_many(context, arguments, Add::Copies)
}

/// `TAMIS.ADDNX key item [item …]`
pub(crate) fn addnx(context: &Context, arguments: &[Argument]) -> Done {
    add_many(context, arguments, Add::New)
}

/// `TAMIS.EXISTS key item`
pub(crate) fn exists(context: &Context, arguments: &[Argument]) -> Done {
    let [name, item] = arguments else { return Err(Failure::Arity) };
    let key = context.key(name)?;
    let found = match key.value() {
        Some(value) => {
            let filter = value.filter()?;
            filter.contains_hash(Items::of(filter)?.hash(item.bytes())?)
        }
        None => false,
    };
    context.reply_bool(found);
    Ok(())
}

/// `TAMIS.MEXISTS key item [item …]`
pub(crate) fn mexists(context: &Context, arguments: &[Argument]) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.is_empty() {
        return Err(Failure::Arity);
    }
    let mut found = vec![false; items.len()];
    if let Some(value) = context.key(name)?.value() {
        let filter = value.filter()?;
        filter.contains_hashes(&Items::of(filter)?.hashes(items)?, &mut found);
    }
    context.reply_array(found.len());
    found.iter().for_each(|found| context.reply_bool(*found));
    Ok(())
}

/// Returns the filter of a key that must exist.
fn filter<'a>(key: &'a Key<'_>) -> Result<&'a Filter, Failure> {
    Ok(key.value().ok_or(Failure::MISSING)?.filter()?)
}

/// Returns the filter of a key that must exist, to change it.
fn filter_mut<'a>(key: &'a mut Key<'_>) -> Result<&'a mut Filter, Failure> {
    Ok(key.value_mut().ok_or(Failure::MISSING)?.held_mut()?.filter_mut()?)
}

/// `TAMIS.REM key item [item …]`
pub(crate) fn rem(context: &Context, arguments: &[Argument]) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.is_empty() {
        return Err(Failure::Arity);
    }
    let removed = remove_items(context, name, items)?;
    context.reply_array(removed.len());
    removed.iter().for_each(|removed| context.reply_bool(*removed));
    Ok(())
}

/// Removes items from a filter, here and on replicas.
pub(crate) fn remove_items(
    context: &Context,
    name: &Argument,
    items: &[Argument],
) -> Result<Vec<bool>, Failure> {
    let mut key = context.key_mut(name)?;
    let filter = filter_mut(&mut key)?;
    let hashes = Items::of(filter)?.hashes(items)?;
    let mut removed = vec![false; items.len()];
    filter.filter_mut().remove_batch(&hashes, &mut removed)?;
    if removed.contains(&true) {
        context.replicate_verbatim();
    }
    Ok(removed)
}

/// `TAMIS.COUNT key item [item …]`
pub(crate) fn count(context: &Context, arguments: &[Argument]) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.is_empty() {
        return Err(Failure::Arity);
    }
    let mut counts = vec![0; items.len()];
    if let Some(value) = context.key(name)?.value() {
        let filter = value.filter()?;
        filter.filter().count_batch(&Items::of(filter)?.hashes(items)?, &mut counts)?;
    }
    context.reply_array(counts.len());
    counts.iter().for_each(|count| context.reply_integer(*count));
    Ok(())
}

/// `TAMIS.INCRBY key item increment`
pub(crate) fn incrby(context: &Context, arguments: &[Argument]) -> Done {
    let [name, item, increment] = arguments else { return Err(Failure::Arity) };
    let increment: u64 = number(increment.bytes(), "the increment")?;
    if increment > MAX_INCREMENT {
        return Err(format!("the increment is at most {MAX_INCREMENT}").into());
    }
    let mut key = context.key_mut(name)?;
    let held = key.value_mut().ok_or(Failure::MISSING)?.held_mut()?;
    let hash = Items::of(held.filter())?.hash(item.bytes())?;
    check_growth(context, held, increment)?;
    let filter = held.filter_mut()?;
    filter.filter().count(hash)?;
    let mut inserted = 0;
    let result = (0..increment).try_for_each(|_| {
        filter.insert_hash(hash)?;
        inserted += 1;
        Ok::<_, Error>(())
    });
    if inserted > 0 {
        let done = inserted.to_string();
        context.replicate("TAMIS.INCRBY", &[name.bytes(), item.bytes(), done.as_bytes()]);
    }
    if let Err(error) = result {
        return Err(format!("{error}: {inserted} of {increment} copies were inserted").into());
    }
    context.reply_integer(filter.filter().count(hash)?);
    Ok(())
}

/// `TAMIS.PUSH key item [item …]`
pub(crate) fn push(context: &Context, arguments: &[Argument]) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.is_empty() {
        return Err(Failure::Arity);
    }
    push_items(context, name, items, None)
}

/// `TAMIS.PUSHAT key milliseconds [item …]`
pub(crate) fn pushat(context: &Context, arguments: &[Argument]) -> Done {
    let [name, time, items @ ..] = arguments else { return Err(Failure::Arity) };
    push_items(context, name, items, Some(number(time.bytes(), "the time")?))
}

/// Pushes items at a time, by default that of the server.
fn push_items(context: &Context, name: &Argument, items: &[Argument], time: Option<u64>) -> Done {
    let mut key = context.key_mut(name)?;
    let filter = filter_mut(&mut key)?;
    let hashes = Items::of(filter)?.hashes(items)?;
    let is_timed =
        matches!(filter.filter(), AnyFilter::Sliding(sliding) if sliding.shape().ticks().is_some());
    let time = time.unwrap_or_else(|| if is_timed { context.milliseconds() } else { 0 });
    filter.filter_mut().advance(time)?;
    let mut seen = vec![false; items.len()];
    let refusal = match filter.filter_mut().push_batch(&hashes, &mut seen) {
        Ok(()) => None,
        Err(Error::Full { inserted }) => {
            seen.truncate(inserted as usize);
            Some(Error::Full { inserted: 0 })
        }
        Err(error) => return Err(error.into()),
    };
    // A replica refuses the same item, and has the same time.
    let time = time.to_string();
    let words = [name.bytes(), time.as_bytes()].into_iter();
    let words: Vec<&[u8]> = words.chain(items.iter().map(Argument::bytes)).collect();
    context.replicate("TAMIS.PUSHAT", &words);
    reply_added(context, items.len(), Added { new: seen, refusal });
    Ok(())
}

/// `TAMIS.GET key item [item …]`
pub(crate) fn get(context: &Context, arguments: &[Argument]) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.is_empty() {
        return Err(Failure::Arity);
    }
    let key = context.key(name)?;
    let filter = filter(&key)?;
    let mut values = vec![None; items.len()];
    filter.filter().get_batch(&Items::of(filter)?.hashes(items)?, &mut values)?;
    context.reply_array(values.len());
    for value in values {
        // A value has up to 64 bits, an integer of the protocol 63.
        match value.map(i64::try_from) {
            None => context.reply_null(),
            Some(Ok(value)) => context.reply_signed(value),
            Some(Err(_)) => context.reply_bytes(value.unwrap_or(0).to_string().as_bytes()),
        }
    }
    Ok(())
}

/// `TAMIS.SET key item value`
pub(crate) fn set(context: &Context, arguments: &[Argument]) -> Done {
    let [name, item, value] = arguments else { return Err(Failure::Arity) };
    let value = number(value.bytes(), "the value")?;
    let mut key = context.key_mut(name)?;
    let filter = filter_mut(&mut key)?;
    let hash = Items::of(filter)?.hash(item.bytes())?;
    let old = filter.filter_mut().set(hash, value)?;
    if old.is_some() {
        context.replicate_verbatim();
    }
    context.reply_bool(old.is_some());
    Ok(())
}

/// `TAMIS.ADAPT key item [member …]`
pub(crate) fn adapt(context: &Context, arguments: &[Argument]) -> Done {
    let [name, item, members @ ..] = arguments else { return Err(Failure::Arity) };
    let mut key = context.key_mut(name)?;
    let filter = filter_mut(&mut key)?;
    let items = Items::of(filter)?;
    let (stranger, members) = (items.hash(item.bytes())?, items.hashes(members)?);
    let suspects = filter.filter().suspects(stranger)?;
    if members.is_empty() {
        context.reply_array(2);
        for end in [suspects.start(), suspects.end()] {
            context.reply_bytes(end.to_string().as_bytes());
        }
        return Ok(());
    }
    let repair = filter.filter_mut().adapt(stranger, &members)?;
    context.replicate_verbatim();
    context.reply_bool(repair != Repair::Impossible);
    Ok(())
}

/// `TAMIS.INFO key`
pub(crate) fn info(context: &Context, arguments: &[Argument]) -> Done {
    let [name] = arguments else { return Err(Failure::Arity) };
    let key = context.key(name)?;
    let value = key.value().ok_or(Failure::MISSING)?;
    let text = |name: &str, value: &str| {
        context.reply_bytes(name.as_bytes());
        context.reply_bytes(value.as_bytes());
    };
    let integer = |name: &str, value: u64| {
        context.reply_bytes(name.as_bytes());
        context.reply_integer(value);
    };
    let filter = match value {
        Value::Filter(held) => held.filter(),
        Value::Loading(loading) => {
            context.reply_map(3);
            text("state", "loading");
            integer("received", loading.received);
            integer("memory", value.memory());
            return Ok(());
        }
        Value::Staged(staged) => {
            context.reply_map(4);
            text("state", "staged");
            text("kind", staged.plan.kind.name());
            integer("keys", staged.entries().len() as u64);
            integer("memory", value.memory());
            return Ok(());
        }
    };
    let (kind, parameters) = (filter.kind(), filter.filter().parameters());
    context.reply_map(12);
    text("state", "ready");
    text("kind", kind.name());
    integer("keys", filter.len());
    integer("capacity", filter.capacity());
    context.reply_bytes(b"fpr");
    context.reply_real(filter.figures().fpr);
    context.reply_bytes(b"fpr now");
    context.reply_real(filter.fpr());
    integer("memory", value.memory());
    integer("serialized", filter.serialized_len());
    text("hash", filter.hasher().id().name());
    text("items", &filter.key_forms().to_string());
    context.reply_bytes(b"capabilities");
    context.reply_array(kind.capabilities().len());
    kind.capabilities().iter().for_each(|can| context.reply_bytes(can.name().as_bytes()));
    context.reply_bytes(b"settings");
    context.reply_map(parameters.len());
    parameters.iter().for_each(|(name, value)| text(name, &value.to_string()));
    Ok(())
}

/// `TAMIS.PLAN capacity fpr [KIND kind] [NEED capability]…`
pub(crate) fn plan(context: &Context, arguments: &[Argument]) -> Done {
    let words = bytes(arguments);
    let mut words = Words::new(&words);
    let keys = words.next().ok_or(Failure::Arity)?;
    let fpr = words.next().ok_or(Failure::Arity)?;
    let goal = Goal::KeysFpr { keys: number(keys, "the capacity")?, fpr: number(fpr, "the rate")? };
    let (mut kind, mut needs) = (None, Vec::new());
    while let Some(word) = words.next() {
        match word.to_ascii_uppercase().as_slice() {
            b"KIND" => kind = Some(parse_kind(words.value()?)?),
            b"NEED" => {
                let name = String::from_utf8_lossy(words.value()?).to_ascii_lowercase();
                needs.push(name.parse::<Capability>().map_err(Error::from)?);
            }
            _ => return Err(Failure::SYNTAX),
        }
    }
    let plans: Vec<(Kind, tamis::Figures)> = match kind {
        Some(kind) => vec![(kind, kind.plan(goal, &Settings::default())?)],
        None => {
            let advice = recommend(goal, &needs)?;
            advice.into_iter().map(|advice| (advice.kind, advice.figures)).collect()
        }
    };
    context.reply_array(plans.len());
    for (kind, figures) in plans {
        context.reply_map(5);
        context.reply_bytes(b"kind");
        context.reply_bytes(kind.name().as_bytes());
        context.reply_bytes(b"bytes");
        context.reply_integer(figures.bytes);
        context.reply_bytes(b"bits per key");
        context.reply_real(figures.bits_per_key());
        context.reply_bytes(b"fpr");
        context.reply_real(figures.fpr);
        context.reply_bytes(b"cache lines");
        context.reply_real(figures.query_cost);
    }
    Ok(())
}
