//! Hashes of a Redis server, by the crate `redis`.
//!
//! ```text
//!  clustered   {NAME}:17       a hash: hi · key → value, of all keys whose hi begins with the 16 bits of 17
//!
//!  secondary   {NAME}:entries  a hash: key → value
//!              {NAME}:index    a sorted set: hi · key
//!
//!  both        {NAME}:notes    a hash of notes, among them the layout
//!              {NAME}:fence    who may write
//!              {NAME}:lease    who is there, for the next 20 seconds
//! ```
//!
//! In the secondary layout any other program finds a value by its key alone, and a key takes its length
//! twice. A hash has no order of its own, so entries come in that of the index.
//!
//! Every change is a script, which runs alone and checks the fence first. A thread renews the lease; a
//! second dictionary is refused while there is one, which after a crash lasts up to 20 seconds. The server
//! keeps no more than its settings say: without an append-only file that is synced always, it may forget
//! what it has acknowledged when it crashes.
//!
//! A bucket of 10^7 keys holds 150 of them, and a repair reads one or two buckets; of the sorted set it
//! reads what it needs.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redis::{
    Client, Cmd, Connection, ConnectionLike, FromRedisValue, Pipeline, RedisError, Script,
    ScriptInvocation,
};

use super::place::split_name;
use super::{Change, Entry, Layout, Store, joined, key_of};
use crate::error::Error;

const BUCKET_BITS: u32 = 16;
const LAST_BUCKET: u64 = (1 << BUCKET_BITS) - 1;
/// Milliseconds.
const LEASE: u64 = 20_000;
const RENEWAL: Duration = Duration::from_secs(5);
/// Buckets asked for at a time.
const PIPELINE: usize = 256;
/// Members of the index asked for at a time.
const PIECE: usize = 10_000;

/// What a script says if another has taken over.
const FENCED: i64 = -1;
/// The value after a `1`, or the keys of some buckets after a `0`.
const GET_OR_KEYS: &str = "
    local value = redis.call('HGET', KEYS[1] .. ARGV[1], ARGV[2])
    if value then return {'1', value} end
    local found = {'0'}
    for bucket = tonumber(ARGV[3]), tonumber(ARGV[4]) do
        for _, key in ipairs(redis.call('HKEYS', KEYS[1] .. string.format('%d', bucket))) do
            found[#found + 1] = key
        end
    end
    return found";
/// Of each change the hash, what to do, the field, the value, and what the index calls it, if there is one.
const APPLY: &str = "
    if redis.call('GET', KEYS[1] .. 'fence') ~= ARGV[1] then return {-1} end
    local had, index = {}, KEYS[1] .. 'index'
    for i = 2, #ARGV, 5 do
        local hash, before = KEYS[1] .. ARGV[i], 0
        if ARGV[i + 1] == 'put' then
            before = 1 - redis.call('HSET', hash, ARGV[i + 2], ARGV[i + 3])
            if ARGV[i + 4] ~= '' and before == 0 then redis.call('ZADD', index, 0, ARGV[i + 4]) end
        else
            before = redis.call('HDEL', hash, ARGV[i + 2])
            if ARGV[i + 4] ~= '' and before == 1 then redis.call('ZREM', index, ARGV[i + 4]) end
        end
        had[#had + 1] = before
    end
    return had";
/// Keys of the index and their values, in turn; at the end also how many entries the index does not name.
const PAGE: &str = "
    local index, entries = KEYS[1] .. 'index', KEYS[1] .. 'entries'
    local found = redis.call('ZRANGEBYLEX', index, ARGV[1], '+', 'LIMIT', 0, ARGV[2])
    local page = {}
    for _, member in ipairs(found) do
        local key = string.sub(member, 9)
        page[#page + 1] = key
        page[#page + 1] = redis.call('HGET', entries, key)
    end
    local ended = #found < tonumber(ARGV[2])
    return {page, ended and redis.call('HLEN', entries) - redis.call('ZCARD', index) or 0}";
const CLAIM: &str = "
    if redis.call('EXISTS', KEYS[1] .. 'lease') == 1 then return 0 end
    redis.call('SET', KEYS[1] .. 'lease', ARGV[1], 'PX', ARGV[2])
    redis.call('SET', KEYS[1] .. 'fence', ARGV[1])
    return 1";
/// Also changes the token: what was sent under the old one and comes late is refused.
const RENEW: &str = "
    if redis.call('GET', KEYS[1] .. 'fence') ~= ARGV[1] then return -1 end
    redis.call('SET', KEYS[1] .. 'fence', ARGV[3])
    redis.call('SET', KEYS[1] .. 'lease', ARGV[3], 'PX', ARGV[2])
    return 1";
const RELEASE: &str = "
    if redis.call('GET', KEYS[1] .. 'lease') == ARGV[1] then redis.call('DEL', KEYS[1] .. 'lease') end
    return 1";

/// The note of the layout.
const LAYOUT: &str = "layout";

/// A store in a server's memory.
pub struct RedisStore {
    layout: Layout,
    inside: Arc<Inside>,
    /// Who renews the lease, and how to stop it.
    keeper: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
    get_or_keys: Script,
    apply: Script,
    page: Script,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("prefix", &self.inside.prefix)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

struct Inside {
    client: Client,
    prefix: String,
    /// Connections that nobody uses.
    idle: Mutex<Vec<Connection>>,
    token: Mutex<String>,
}

impl RedisStore {
    /// What will be at `redis://HOST:PORT/NUMBER#NAME`: it is there with the first note.
    pub fn create(place: &str, layout: Layout) -> Result<Self, Error> {
        Ok(Self::with(Inside::new(place)?, layout))
    }

    /// What is there.
    pub fn open(place: &str) -> Result<Self, Error> {
        let inside = Inside::new(place)?;
        let layout = match inside.note(LAYOUT)? {
            None => return Err(Error::Missing),
            Some(name) => Layout::named(&name)
                .ok_or(Error::Corrupt { what: "the note of its layout names none" })?,
        };
        Ok(Self::with(inside, layout))
    }

    fn with(inside: Inside, layout: Layout) -> Self {
        Self {
            layout,
            inside: Arc::new(inside),
            keeper: Mutex::default(),
            get_or_keys: Script::new(GET_OR_KEYS),
            apply: Script::new(APPLY),
            page: Script::new(PAGE),
        }
    }

    /// The hash and the field of an entry.
    fn place(&self, hi: u64, key: &[u8]) -> (String, Vec<u8>) {
        match self.layout {
            Layout::Clustered => (bucket(hi).to_string(), joined(hi, key)),
            Layout::Secondary => ("entries".to_owned(), key.to_vec()),
        }
    }

    /// The keys of the index, some at a time.
    fn indexed(
        &self,
        range: &RangeInclusive<u64>,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        let mut from = [b"[", &range.start().to_be_bytes()[..]].concat();
        let to = match range.end().checked_add(1) {
            Some(end) => [b"(", &end.to_be_bytes()[..]].concat(),
            None => b"+".to_vec(),
        };
        loop {
            let mut ask = Cmd::new();
            ask.arg("ZRANGEBYLEX").arg(self.inside.key("index")).arg(&from).arg(&to);
            ask.arg("LIMIT").arg(0).arg(PIECE);
            let found: Vec<Vec<u8>> = self.inside.with(|connection| ask.query(connection))?;
            found.iter().for_each(|member| see(key_of(member)));
            match found.last() {
                Some(last) if found.len() == PIECE => from = [b"(", &last[..]].concat(),
                _ => return Ok(()),
            }
        }
    }

    /// A page of the buckets.
    fn clustered_page(&self, after: Option<Vec<u8>>, most: usize) -> Result<Vec<Entry>, Error> {
        let first = after.as_deref().map_or(0, |after| bucket(hi_of(after)));
        let mut page = Vec::new();
        self.each_bucket::<(Vec<u8>, Vec<u8>)>("HGETALL", first..=LAST_BUCKET, |fields| {
            for (field, value) in fields {
                if after.as_ref().is_none_or(|after| field > *after) && page.len() < most {
                    page.push((key_of(&field).to_vec(), value));
                }
            }
            page.len() < most
        })?;
        Ok(page)
    }

    /// A page of the index, with the values that the entries have.
    fn secondary_page(&self, after: Option<Vec<u8>>, most: usize) -> Result<Vec<Entry>, Error> {
        let from = after.map_or(b"-".to_vec(), |after| [b"(", &after[..]].concat());
        let mut script = self.page.prepare_invoke();
        script.key(&self.inside.prefix).arg(from).arg(most);
        let (found, unnamed): (Vec<Option<Vec<u8>>>, i64) =
            self.inside.with(|connection| script.invoke(connection))?;
        let each = found.as_chunks().0.iter().map(|[key, value]| match (key, value) {
            (Some(key), Some(value)) => Ok((key.clone(), value.clone())),
            _ => Err(Error::Corrupt { what: "the index names what is no entry" }),
        });
        let page = each.collect::<Result<_, _>>()?;
        match unnamed {
            0 => Ok(page),
            _ => Err(Error::Corrupt { what: "an entry is not in the index" }),
        }
    }

    /// The fields of buckets, with their values if `command` gives them, a bucket at a time and sorted;
    /// until `see` has had enough.
    fn each_bucket<T: FromRedisValue + Ord>(
        &self,
        command: &str,
        buckets: RangeInclusive<u64>,
        mut see: impl FnMut(Vec<T>) -> bool,
    ) -> Result<(), Error> {
        let all: Vec<u64> = buckets.collect();
        for some in all.chunks(PIPELINE) {
            let mut pipeline = Pipeline::with_capacity(some.len());
            for bucket in some {
                pipeline.cmd(command).arg(self.inside.key(bucket));
            }
            let found = self.inside.with(|connection| pipeline.query::<Vec<Vec<T>>>(connection))?;
            for mut fields in found {
                fields.sort_unstable();
                if !see(fields) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Inside {
    fn new(place: &str) -> Result<Self, Error> {
        let (address, name) = split_name(place)?;
        let client = Client::open(address).map_err(failed)?;
        let (idle, token) = Default::default();
        Ok(Self { client, prefix: format!("{{{name}}}:"), idle, token })
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let mut get = Cmd::new();
        get.arg("HGET").arg(self.key("notes")).arg(name);
        self.with(|connection| get.query(connection))
    }

    fn key(&self, name: impl fmt::Display) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Does something with a connection of one's own.
    fn with<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, RedisError>,
    ) -> Result<T, Error> {
        let idle = lock(&self.idle).pop();
        let mut connection = match idle {
            Some(connection) if connection.is_open() => connection,
            _ => {
                let wait = Duration::from_secs(10);
                let connection = self.client.get_connection_with_timeout(wait).map_err(failed)?;
                // Long enough for a script of the largest batch.
                let patience = Some(Duration::from_secs(60));
                connection.set_read_timeout(patience).map_err(failed)?;
                connection.set_write_timeout(patience).map_err(failed)?;
                connection
            }
        };
        let done = work(&mut connection);
        // After a timeout the answer may still come, and would be taken for the next one.
        if done.as_ref().err().is_none_or(|error| error.code().is_some()) && connection.is_open() {
            lock(&self.idle).push(connection);
        }
        done.map_err(failed)
    }

    /// Runs [`APPLY`].
    fn change(&self, script: &ScriptInvocation<'_>) -> Result<Vec<bool>, Error> {
        let had: Vec<i64> = self.with(|connection| script.invoke(connection))?;
        match had[..] {
            [FENCED] => Err(Error::Fenced),
            _ => Ok(had.into_iter().map(|had| had == 1).collect()),
        }
    }

    /// Runs a script on the token and the lease, with one more token.
    fn guard(&self, script: &str, token: &str, next: &str) -> Result<i64, Error> {
        let done = self.with(|connection| {
            let script = Script::new(script);
            script.key(&self.prefix).arg(token).arg(LEASE).arg(next).invoke(connection)
        })?;
        if done == FENCED { Err(Error::Fenced) } else { Ok(done) }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(error: RedisError) -> Error {
    Error::store("redis", error)
}

fn bucket(hi: u64) -> u64 {
    hi >> (64 - BUCKET_BITS)
}

/// Half of the hash, of what [`joined`] made.
fn hi_of(field: &[u8]) -> u64 {
    field.first_chunk().map_or(0, |hi| u64::from_be_bytes(*hi))
}

fn fresh_token() -> String {
    format!("{:016x}", RandomState::new().hash_one(0u64))
}

impl Store for RedisStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn claim(&self) -> Result<(), Error> {
        let token = fresh_token();
        if self.inside.guard(CLAIM, &token, "")? == 0 {
            return Err(Error::InUse);
        }
        *lock(&self.inside.token) = token;
        let (stop, stopped) = channel();
        let inside = Arc::clone(&self.inside);
        let keeper = thread::spawn(move || {
            while stopped.recv_timeout(RENEWAL) == Err(RecvTimeoutError::Timeout) {
                let token = lock(&inside.token);
                // If it fails there is another time, before the lease ends.
                let _ = inside.guard(RENEW, &token, &token);
            }
        });
        *lock(&self.keeper) = Some((stop, keeper));
        Ok(())
    }

    fn release(&self) {
        if let Some((stop, keeper)) = lock(&self.keeper).take() {
            drop(stop);
            let _ = keeper.join();
        }
        let token = lock(&self.inside.token);
        let _ = self.inside.guard(RELEASE, &token, "");
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let (hash, field) = self.place(hi, key);
        let mut get = Cmd::new();
        get.arg("HGET").arg(self.inside.key(hash)).arg(field);
        self.inside.with(|connection| get.query(connection))
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut script = self.get_or_keys.prepare_invoke();
        script.key(&self.inside.prefix).arg(bucket(hi)).arg(joined(hi, key));
        script.arg(bucket(*range.start())).arg(bucket(*range.end()));
        let mut found: Vec<Vec<u8>> = self.inside.with(|connection| script.invoke(connection))?;
        if found.first().is_some_and(|kind| kind == b"1") {
            return Ok(found.pop());
        }
        let fields = found.iter().skip(1);
        fields.filter(|field| range.contains(&hi_of(field))).for_each(|field| see(key_of(field)));
        Ok(None)
    }

    fn keys(&self, range: RangeInclusive<u64>, see: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        if self.layout == Layout::Secondary {
            return self.indexed(&range, see);
        }
        let buckets = bucket(*range.start())..=bucket(*range.end());
        self.each_bucket::<Vec<u8>>("HKEYS", buckets, |fields| {
            let ours = fields.iter().filter(|field| range.contains(&hi_of(field)));
            ours.for_each(|field| see(key_of(field)));
            true
        })
    }

    fn page(&self, after: Option<(u64, &[u8])>, most: usize) -> Result<Vec<Entry>, Error> {
        let after = after.map(|(hi, key)| joined(hi, key));
        match self.layout {
            Layout::Clustered => self.clustered_page(after, most),
            Layout::Secondary => self.secondary_page(after, most),
        }
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        let mut script = self.apply.prepare_invoke();
        script.key(&self.inside.prefix).arg(lock(&self.inside.token).as_str());
        for Change { hi, key, value, .. } in changes {
            let what = if value.is_some() { "put" } else { "delete" };
            let (hash, field) = self.place(*hi, key);
            script.arg(hash).arg(what).arg(field).arg(value.unwrap_or_default());
            script.arg(match self.layout {
                Layout::Clustered => Vec::new(),
                Layout::Secondary => joined(*hi, key),
            });
        }
        self.inside.change(&script)
    }

    fn settle(&self) -> Result<(), Error> {
        let mut token = lock(&self.inside.token);
        let fresh = fresh_token();
        self.inside.guard(RENEW, &token, &fresh)?;
        *token = fresh;
        Ok(())
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.inside.note(name)
    }

    fn set_notes(&self, notes: &[(&str, &[u8])]) -> Result<(), Error> {
        let mut script = self.apply.prepare_invoke();
        script.key(&self.inside.prefix).arg(lock(&self.inside.token).as_str());
        for (name, note) in notes.iter().chain([&(LAYOUT, self.layout.name().as_bytes())]) {
            script.arg("notes").arg("put").arg(*name).arg(*note).arg("");
        }
        self.inside.change(&script).map(drop)
    }
}
