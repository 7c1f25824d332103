//! The commands `BF.*`, with the arguments, replies and errors of RedisBloom.

use tamis::{AnyFilter, Kind, SettingValue};

use crate::arguments::{Plan, Words, bytes, number};
use crate::background::Reply;
use crate::failure::Failure;
use crate::server::{Argument, Context};
use crate::tamis::{Add, Added, add_items, create, dump_chunk, load_chunk, reply_added};
use crate::value::{CHUNK_BYTES, Filter};

pub(crate) use crate::tamis::{exists, mexists};

type Done = Result<(), Failure>;

/// The size of a filter that `BF.ADD`, `BF.MADD` or `BF.INSERT` makes.
const DEFAULT_CAPACITY: u64 = 100;
const DEFAULT_ERROR: f64 = 0.01;

/// What `BF.RESERVE` and `BF.INSERT` say about a new filter.
struct Wish {
    capacity: u64,
    error: f64,
    expansion: Option<u64>,
    scales: bool,
    creates: bool,
}

impl Default for Wish {
    fn default() -> Self {
        Self {
            capacity: DEFAULT_CAPACITY,
            error: DEFAULT_ERROR,
            expansion: None,
            scales: true,
            creates: true,
        }
    }
}

impl Wish {
    fn set_capacity(&mut self, word: &[u8]) -> Done {
        self.capacity = number(word, "").map_err(|_| Failure::text("bad capacity"))?;
        match self.capacity {
            0 => Err(Failure::text("(capacity should be larger than 0)")),
            _ => Ok(()),
        }
    }

    fn set_error(&mut self, word: &[u8]) -> Done {
        self.error = number(word, "").map_err(|_| Failure::text("bad error rate"))?;
        if self.error > 0.0 && self.error < 1.0 {
            Ok(())
        } else {
            Err(Failure::text("(0 < error rate range < 1)"))
        }
    }

    fn set_expansion(&mut self, word: &[u8]) -> Done {
        let expansion = number(word, "").map_err(|_| Failure::text("bad expansion"))?;
        // As in RedisBloom, an expansion of 0 is a filter that does not scale.
        self.scales &= expansion > 0;
        self.expansion = Some(expansion);
        Ok(())
    }

    fn plan(&self) -> Result<Plan, Failure> {
        if !self.scales {
            if self.expansion.is_some_and(|expansion| expansion > 0) {
                return Err(Failure::text("Nonscaling filters cannot expand"));
            }
            return Plan::new(Kind::Bloom, Some(self.capacity), self.error);
        }
        let mut plan = Plan::new(Kind::ScalableBloom, Some(self.capacity), self.error)?;
        // A stage is 2 or 4 times as large as the one before.
        plan.set("growth", if self.expansion.unwrap_or(2) < 4 { "2" } else { "4" });
        Ok(plan)
    }
}

/// `BF.RESERVE key error_rate capacity [EXPANSION expansion] [NONSCALING]`
pub(crate) fn reserve(context: &Context, arguments: &[Argument]) -> Done {
    let [name, error, capacity, options @ ..] = arguments else { return Err(Failure::Arity) };
    let mut wish = Wish::default();
    wish.set_error(error.bytes())?;
    wish.set_capacity(capacity.bytes())?;
    let options = bytes(options);
    let mut options = Words::new(&options);
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"EXPANSION" => wish.set_expansion(options.value()?)?,
            b"NONSCALING" => wish.scales = false,
            _ => return Err(Failure::SYNTAX),
        }
    }
    create(context, name, &wish.plan()?)?;
    context.reply_ok();
    Ok(())
}

/// Adds items, to a new filter if the key does not exist.
fn add_or_create(
    context: &Context,
    name: &Argument,
    items: &[Argument],
    wish: &Wish,
) -> Result<Added, Failure> {
    if context.key(name)?.value().is_none() {
        if !wish.creates {
            return Err(Failure::MISSING);
        }
        create(context, name, &wish.plan()?)?;
    }
    add_items(context, name, items, Add::New)
}

const FULL: Failure = Failure::text("non scaling filter is full");

/// `BF.ADD key item`
pub(crate) fn add(context: &Context, arguments: &[Argument]) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.len() != 1 {
        return Err(Failure::Arity);
    }
    let added = add_or_create(context, name, items, &Wish::default())?;
    match added.new.first() {
        Some(new) => context.reply_bool(*new),
        None => return Err(FULL),
    }
    Ok(())
}

/// `BF.MADD key item [item …]`
pub(crate) fn madd(context: &Context, arguments: &[Argument]) -> Done {
    let [name, items @ ..] = arguments else { return Err(Failure::Arity) };
    if items.is_empty() {
        return Err(Failure::Arity);
    }
    let added = add_or_create(context, name, items, &Wish::default())?;
    reply_all(context, items.len(), added);
    Ok(())
}

fn reply_all(context: &Context, items: usize, added: Added) {
    if added.refusal.is_none() {
        return reply_added(context, items, added);
    }
    // As RedisBloom does, the reply ends with the first item that did not get in.
    context.reply_array(added.new.len() + 1);
    added.new.iter().for_each(|new| context.reply_bool(*new));
    context.fail(&FULL);
}

/// `BF.INSERT key [CAPACITY capacity] [ERROR error] [EXPANSION expansion] [NOCREATE] [NONSCALING]
/// ITEMS item [item …]`
pub(crate) fn insert(context: &Context, arguments: &[Argument]) -> Done {
    let [name, rest @ ..] = arguments else { return Err(Failure::Arity) };
    let at = rest.iter().position(|word| word.is("ITEMS")).ok_or(Failure::Arity)?;
    let items = &rest[at + 1..];
    if items.is_empty() {
        return Err(Failure::Arity);
    }
    let mut wish = Wish::default();
    let options = bytes(&rest[..at]);
    let mut options = Words::new(&options);
    while let Some(option) = options.next() {
        match option.to_ascii_uppercase().as_slice() {
            b"CAPACITY" => wish.set_capacity(options.value()?)?,
            b"ERROR" => wish.set_error(options.value()?)?,
            b"EXPANSION" => wish.set_expansion(options.value()?)?,
            b"NOCREATE" => wish.creates = false,
            b"NONSCALING" => wish.scales = false,
            _ => return Err(Failure::text("Unknown argument received")),
        }
    }
    let added = add_or_create(context, name, items, &wish)?;
    reply_all(context, items.len(), added);
    Ok(())
}

/// `BF.CARD key`
pub(crate) fn card(context: &Context, arguments: &[Argument]) -> Done {
    let [name] = arguments else { return Err(Failure::Arity) };
    let keys = match context.key(name)?.value() {
        Some(value) => value.filter()?.len(),
        None => 0,
    };
    context.reply_integer(keys);
    Ok(())
}

/// A number of `BF.INFO`, which may be unknown.
type Field = (&'static str, &'static str, Option<u64>);

fn fields(filter: &Filter, memory: u64) -> [Field; 5] {
    let growth = match filter.filter() {
        AnyFilter::Growing(_) => Some(2),
        other => other.parameters().into_iter().find_map(|parameter| match parameter {
            ("growth", SettingValue::Integer(growth)) => Some(growth),
            _ => None,
        }),
    };
    let capacity = match growth {
        Some(_) => filter.capacity().max(filter.len()),
        None => filter.capacity(),
    };
    [
        ("CAPACITY", "Capacity", Some(capacity)),
        ("SIZE", "Size", Some(memory)),
        ("FILTERS", "Number of filters", Some(1)),
        ("ITEMS", "Number of items inserted", Some(filter.len())),
        ("EXPANSION", "Expansion rate", growth),
    ]
}

/// `BF.INFO key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]`
pub(crate) fn info(context: &Context, arguments: &[Argument]) -> Done {
    let (name, wanted) = match arguments {
        [name] => (name, None),
        [name, wanted] => (name, Some(wanted)),
        _ => return Err(Failure::Arity),
    };
    let key = context.key(name)?;
    let value = key.value().ok_or(Failure::MISSING)?;
    let all = fields(value.filter()?, value.memory());
    let number = |number: Option<u64>| match number {
        Some(number) => context.reply_integer(number),
        None => context.reply_null(),
    };
    if let Some(wanted) = wanted {
        let field = all.iter().find(|(word, ..)| wanted.is(word));
        let (_, _, value) = field.ok_or(Failure::text("Invalid information field"))?;
        context.reply_array(1);
        number(*value);
        return Ok(());
    }
    context.reply_map(all.len());
    for (_, label, value) in all {
        context.reply_bytes(label.as_bytes());
        number(value);
    }
    Ok(())
}

/// `BF.DEBUG key`
pub(crate) fn debug(context: &Context, arguments: &[Argument]) -> Done {
    let [name] = arguments else { return Err(Failure::Arity) };
    let key = context.key(name)?;
    let filter = key.value().ok_or(Failure::MISSING)?.filter()?;
    context.reply_array(2);
    context.reply_bytes(format!("size:{}", filter.len()).as_bytes());
    let line = format!(
        "kind:{} bytes:{} capacity:{} size:{} ratio:{}",
        filter.kind(),
        filter.bytes(),
        filter.capacity(),
        filter.len(),
        filter.figures().fpr
    );
    context.reply_bytes(line.as_bytes());
    Ok(())
}

/// `BF.SCANDUMP key iterator`: the iterator is 1 more than the offset of the next byte.
pub(crate) fn scandump(context: &Context, arguments: &[Argument]) -> Done {
    let [name, iterator] = arguments else { return Err(Failure::Arity) };
    let iterator: u64 = number(iterator.bytes(), "")
        .map_err(|_| Failure::text("Second argument must be numeric"))?;
    let offset = iterator.saturating_sub(1);
    let (chunk, _) = dump_chunk(context, name, offset, CHUNK_BYTES)?;
    context.reply_array(2);
    context.reply_integer(match chunk.len() as u64 {
        0 => 0,
        len => offset.saturating_add(len).saturating_add(1),
    });
    context.reply_bytes(&chunk);
    Ok(())
}

/// `BF.LOADCHUNK key iterator data`: the iterator is the one that came with the data.
pub(crate) fn loadchunk(context: &Context, arguments: &[Argument]) -> Done {
    let [name, iterator, data] = arguments else { return Err(Failure::Arity) };
    let iterator: u64 = number(iterator.bytes(), "")
        .map_err(|_| Failure::text("Second argument must be numeric"))?;
    let end = iterator.checked_sub(1);
    let offset = end.and_then(|end| end.checked_sub(data.bytes().len() as u64));
    let offset = offset.ok_or(Failure::text("received bad data"))?;
    load_chunk(context, name, offset, data.bytes(), |_| Reply::Ok)
}
