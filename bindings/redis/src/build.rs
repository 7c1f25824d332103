//! `TAMIS.BUILD`: filters of all keys at once, built in a thread while the server goes on.
//!
//! The keys come from another key of the server, or are staged by several commands. Replicas and the
//! append-only file get the bytes of the finished filter.

use std::sync::Arc;

use redis_module::RedisValue;
use tamis::Capability;
use tamis::plan::FIRST_KEYS;

use crate::arguments::{Plan, bytes, number};
use crate::background::{self, Reply, Server};
use crate::failure::Failure;
use crate::limits;
use crate::server::{Argument, Context};
use crate::tamis::replicate_filter;
use crate::value::{Entry, Staged, Value, build};

/// Keys that are read from another key while the server waits.
const BATCH: usize = 1000;

type Done = Result<(), Failure>;

/// `TAMIS.BUILD key FROM source kind fpr [options]`, `BEGIN kind fpr [options]`, `KEYS item…`,
/// `ENTRIES item value…`, `HASHES bytes` or `END`
pub(crate) fn command(context: &Context, arguments: &[Argument]) -> Done {
    let [name, verb, rest @ ..] = arguments else { return Err(Failure::Arity) };
    let keys: &[i32] = if verb.is("FROM") && !rest.is_empty() { &[1, 3] } else { &[1] };
    if context.tell_keys(keys) {
        return Ok(());
    }
    match verb.text().to_ascii_uppercase().as_str() {
        "FROM" => from(context, name, rest),
        "BEGIN" => begin(context, name, rest),
        "KEYS" | "ENTRIES" | "HASHES" => stage(context, name, &verb.text(), rest),
        "END" => end(context, name, rest),
        _ => Err(Failure::SYNTAX),
    }
}

fn begin(context: &Context, name: &Argument, words: &[Argument]) -> Done {
    let plan = Plan::parse(&bytes(words))?;
    let mut key = context.key_mut(name)?;
    if key.value().is_some() {
        return Err(Failure::EXISTS);
    }
    let words = plan.arguments();
    let words = words.iter().map(|word| &word[..]);
    let words: Vec<&[u8]> = [name.bytes(), b"BEGIN"].into_iter().chain(words).collect();
    context.replicate("TAMIS.BUILD", &words);
    key.set(Value::Staged(Staged::new(plan)));
    context.reply_ok();
    Ok(())
}

fn stage(context: &Context, name: &Argument, verb: &str, words: &[Argument]) -> Done {
    let mut key = context.key_mut(name)?;
    let Some(Value::Staged(staged)) = key.value_mut() else {
        return Err(Failure::text("no build was begun"));
    };
    if words.is_empty() {
        return Err(Failure::Arity);
    }
    limits::check(context, staged.memory() + 24 * words.len() as u64, staged.memory())?;
    let items = staged.plan.items();
    if verb.eq_ignore_ascii_case("HASHES") {
        words.iter().try_for_each(|word| staged.push_bytes(word.bytes()))?;
    } else if verb.eq_ignore_ascii_case("KEYS") {
        items.hashes(words)?.into_iter().for_each(|hash| staged.push((hash, 0)));
    } else {
        let (pairs, rest) = words.as_chunks::<2>();
        if !rest.is_empty() {
            return Err(Failure::Arity);
        }
        let entries = pairs.iter().map(|[item, value]| {
            Ok((items.hash(item.bytes())?, number(value.bytes(), "the value")?))
        });
        let entries = entries.collect::<Result<Vec<Entry>, Failure>>()?;
        entries.into_iter().for_each(|entry| staged.push(entry));
    }
    context.replicate_verbatim();
    context.reply_integer(staged.entries().len() as u64);
    Ok(())
}

fn end(context: &Context, name: &Argument, rest: &[Argument]) -> Done {
    if !rest.is_empty() {
        return Err(Failure::Arity);
    }
    let key = context.key(name)?;
    let Some(Value::Staged(staged)) = key.value() else {
        return Err(Failure::text("no build was begun"));
    };
    let entries = Entries::Staged(Arc::clone(staged.entries()));
    let job = Job { name: name.bytes().to_vec(), plan: staged.plan.clone(), entries };
    drop(key);
    job.start(context)
}

fn from(context: &Context, name: &Argument, words: &[Argument]) -> Done {
    let [source, words @ ..] = words else { return Err(Failure::Arity) };
    let plan = Plan::parse(&bytes(words))?;
    if context.key(name)?.value().is_some() {
        return Err(Failure::EXISTS);
    }
    let source = Source::open(&context.general(), source.bytes())?;
    Job { name: name.bytes().to_vec(), plan, entries: Entries::Source(source) }.start(context)
}

/// A filter that is being built.
struct Job {
    name: Vec<u8>,
    plan: Plan,
    entries: Entries,
}

enum Entries {
    Source(Source),
    Staged(Arc<Vec<Entry>>),
}

impl Job {
    fn start(self, context: &Context) -> Done {
        background::start(context, false, |server| self.run(server).map(Reply::Integer))
    }

    /// Reads the keys, builds the filter and stores it. Returns the number of keys.
    fn run(self, server: &Server<'_>) -> Result<u64, Failure> {
        let Self { name, mut plan, entries } = self;
        let (entries, staged) = match entries {
            Entries::Staged(entries) => (Arc::clone(&entries), Some(entries)),
            Entries::Source(mut source) => {
                let (items, mut all) = (plan.items(), Vec::new());
                while !source.done {
                    server.locked(|context| {
                        let held = (all.len() * size_of::<Entry>()) as u64;
                        let more = (BATCH * size_of::<Entry>()) as u64;
                        limits::check(context, held + more, held)?;
                        source.read(&context.general(), |item, value| {
                            all.push((items.hash(item)?, value));
                            Ok(())
                        })
                    })?;
                }
                (Arc::new(all), None)
            }
        };
        let keys = entries.len() as u64;
        if !plan.kind.can(Capability::Static) {
            let capacity = if plan.kind.can(Capability::Grow) { FIRST_KEYS } else { keys.max(1) };
            plan.sizing = plan.sizing.capacity(capacity);
        }
        let figures = plan.kind.plan(plan.sizing.goal(keys.max(1)), plan.sizing.get_settings())?;
        server.locked(|context| limits::check(context, figures.bytes, 0))?;
        let filter = build(&plan, &entries)?;
        let keys = filter.len();
        server.locked(|context| {
            let mut key = context.key_named(&name)?;
            match (key.value(), &staged) {
                (None, None) => {}
                (Some(Value::Staged(now)), Some(then)) if Arc::ptr_eq(now.entries(), then) => {}
                (Some(_), None) => return Err(Failure::EXISTS),
                _ => return Err(Failure::text("the keys changed while the filter was built")),
            }
            replicate_filter(context, &name, &filter);
            key.set(filter.into());
            Ok(())
        })?;
        Ok(keys)
    }
}

/// A set, sorted set, hash or list, read in batches. A key that is there from the first batch to the last is
/// read; of a list, only if the list does not change.
struct Source {
    name: Vec<u8>,
    form: Form,
    cursor: Vec<u8>,
    done: bool,
}

#[derive(Clone, Copy)]
enum Form {
    List,
    Set,
    /// Fields and values.
    Hash,
    /// Members and scores, which are not used.
    SortedSet,
}

impl Source {
    fn open(context: &redis_module::Context, name: &[u8]) -> Result<Self, Failure> {
        let form = match text(&call(context, "TYPE", &[name])?).as_slice() {
            b"list" => Form::List,
            b"set" => Form::Set,
            b"hash" => Form::Hash,
            b"zset" => Form::SortedSet,
            b"none" => return Err(Failure::MISSING),
            _ => return Err(Failure::WrongType),
        };
        Ok(Self { name: name.to_vec(), form, cursor: b"0".to_vec(), done: false })
    }

    /// Calls `each` with the keys and values of the next batch.
    fn read(
        &mut self,
        context: &redis_module::Context,
        mut each: impl FnMut(&[u8], u64) -> Done,
    ) -> Done {
        let count = BATCH.to_string();
        let command = match self.form {
            Form::List => {
                let from: usize = number(&self.cursor, "the index")?;
                let (next, last) = ((from + BATCH).to_string(), (from + BATCH - 1).to_string());
                let batch = call(context, "LRANGE", &[&self.name, &self.cursor, last.as_bytes()])?;
                let items = array(batch)?;
                self.done = items.len() < BATCH;
                self.cursor = next.into_bytes();
                return items.iter().try_for_each(|item| each(&text(item), 0));
            }
            Form::Set => "SSCAN",
            Form::Hash => "HSCAN",
            Form::SortedSet => "ZSCAN",
        };
        let words: [&[u8]; 4] = [&self.name, &self.cursor, b"COUNT", count.as_bytes()];
        let mut reply = array(call(context, command, &words)?)?.into_iter();
        let (Some(cursor), Some(batch)) = (reply.next(), reply.next()) else {
            return Err(Failure::text("the server's reply is not a scan"));
        };
        self.cursor = text(&cursor);
        self.done = self.cursor == b"0";
        let items = array(batch)?;
        match self.form {
            Form::Hash => items.as_chunks::<2>().0.iter().try_for_each(|[item, value]| {
                each(&text(item), number(&text(value), "the value of a field")?)
            }),
            Form::SortedSet => {
                items.as_chunks::<2>().0.iter().try_for_each(|[item, _]| each(&text(item), 0))
            }
            _ => items.iter().try_for_each(|item| each(&text(item), 0)),
        }
    }
}

fn call(
    context: &redis_module::Context,
    command: &str,
    words: &[&[u8]],
) -> Result<RedisValue, Failure> {
    context.call(command, words).map_err(|error| Failure::from(error.to_string()))
}

fn array(value: RedisValue) -> Result<Vec<RedisValue>, Failure> {
    match value {
        RedisValue::Array(items) => Ok(items),
        _ => Err(Failure::WrongType),
    }
}

/// Returns the bytes of a reply that is a string.
fn text(value: &RedisValue) -> Vec<u8> {
    match value {
        RedisValue::SimpleStringStatic(text) => text.as_bytes().to_vec(),
        RedisValue::SimpleString(text) | RedisValue::BulkString(text) => text.as_bytes().to_vec(),
        RedisValue::StringBuffer(bytes) => bytes.clone(),
        RedisValue::BulkRedisString(text) => text.as_slice().to_vec(),
        RedisValue::Integer(number) => number.to_string().into_bytes(),
        _ => Vec::new(),
    }
}
