//! A store in hashes of a Redis server, by the crate `redis`.
//!
//! ```text
//!  clustered   {NAME}:17       a hash: hi · key → value, for all keys whose hi begins with the 16 bits of 17
//!
//!  secondary   {NAME}:entries  a hash: key → value
//!              {NAME}:index    a sorted set: hi · key
//!
//!  both        {NAME}:notes    a hash of metadata records, one of them the layout
//!              {NAME}:fence    the fencing token of the writer
//!              {NAME}:lease    the token of the open dictionary, expires after 20 s
//! ```
//!
//! In the secondary layout other programs find a value by its key; each key is stored twice. A hash has no
//! order, so iteration follows the index.
//!
//! Every change is a script, which the server runs atomically and which checks the fencing token first. A
//! thread renews the lease every 5 s. While the lease exists a second dictionary is refused, which after a
//! crash lasts up to 20 s. Durability depends on the server's configuration: without an append-only file that
//! is synced on every write, a crash of the server may lose acknowledged writes.
//!
//! With 10^7 keys a bucket holds 150 keys, and a repair reads one or two buckets. In the secondary layout it
//! reads only the range that it needs.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use redis::{
    Client, Cmd, Connection, ConnectionLike, FromRedisValue, Pipeline, RedisError, Script,
    ScriptInvocation,
};

use super::location::split_name;
use super::{Change, Entry, Layout, Store, with_hash_prefix, without_hash_prefix};
use crate::error::Error;

const BUCKET_BITS: u32 = 16;
const LAST_BUCKET: u64 = (1 << BUCKET_BITS) - 1;
/// The lifetime of a lease in milliseconds.
const LEASE_MS: u64 = 20_000;
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// The number of buckets read in one request.
const BUCKETS_PER_REQUEST: usize = 256;
/// The number of members of the index read in one request.
const INDEX_PAGE_LEN: usize = 10_000;

/// The answer of a script whose fencing token is out of date.
const FENCED: i64 = -1;
/// Returns `1` and the value, or `0` and the keys of a range of buckets.
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
/// Applies changes. The arguments of each are the hash, `put` or `delete`, the field, the value, and the member
/// of the index or an empty string. Returns for each whether the field existed.
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
/// Returns keys of the index alternating with their values, and on the last page the number of entries minus
/// the number of members of the index.
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
/// Takes the lease and sets the fencing token, unless a lease exists.
const ACQUIRE: &str = "
    if redis.call('EXISTS', KEYS[1] .. 'lease') == 1 then return 0 end
    redis.call('SET', KEYS[1] .. 'lease', ARGV[1], 'PX', ARGV[2])
    redis.call('SET', KEYS[1] .. 'fence', ARGV[1])
    return 1";
/// Renews the lease and replaces the fencing token. A change that was sent with the old token and arrives later
/// is refused.
const RENEW: &str = "
    if redis.call('GET', KEYS[1] .. 'fence') ~= ARGV[1] then return -1 end
    redis.call('SET', KEYS[1] .. 'fence', ARGV[3])
    redis.call('SET', KEYS[1] .. 'lease', ARGV[3], 'PX', ARGV[2])
    return 1";
/// Deletes the lease of a token.
const RELEASE: &str = "
    if redis.call('GET', KEYS[1] .. 'lease') == ARGV[1] then redis.call('DEL', KEYS[1] .. 'lease') end
    return 1";

/// The name of the metadata record of the layout.
const LAYOUT: &str = "layout";

/// A store in the memory of a Redis server.
///
/// # Examples
///
/// ```no_run
/// use tamis::Broom;
/// use tamis_dictionary::{Dictionary, Layout, Options, store::RedisStore};
///
/// let store = RedisStore::create("redis://localhost/#stock", Layout::Clustered)?;
/// let stock = Dictionary::<Broom, _>::create(store, Options::default())?;
/// stock.put(b"apple", b"3")?;
/// # Ok::<_, tamis_dictionary::Error>(())
/// ```
pub struct RedisStore {
    layout: Layout,
    inner: Arc<Inner>,
    /// The thread that renews the lease, and the channel that stops it.
    renewer: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
    get_or_keys: Script,
    apply: Script,
    page: Script,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore")
            .field("prefix", &self.inner.prefix)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

struct Inner {
    client: Client,
    prefix: String,
    /// Connections that are not in use.
    idle: Mutex<Vec<Connection>>,
    /// The fencing token.
    token: Mutex<String>,
}

impl RedisStore {
    /// Prepares a store at `redis://HOST:PORT/NUMBER#NAME`. The first write of metadata creates it.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Location`] if the name is invalid, and errors of the client.
    pub fn create(location: &str, layout: Layout) -> Result<Self, Error> {
        Ok(Self::new(Inner::new(location)?, layout))
    }

    /// Opens an existing store.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotFound`] if there is no store of this name, [`Error::Location`] if the name is
    /// invalid, and errors of the server.
    pub fn open(location: &str) -> Result<Self, Error> {
        let inner = Inner::new(location)?;
        let layout = match inner.meta(LAYOUT)? {
            None => return Err(Error::NotFound),
            Some(name) => Layout::from_name(&name)
                .ok_or(Error::Corrupt { what: "the layout record names no layout" })?,
        };
        Ok(Self::new(inner, layout))
    }

    fn new(inner: Inner, layout: Layout) -> Self {
        Self {
            layout,
            inner: Arc::new(inner),
            renewer: Mutex::default(),
            get_or_keys: Script::new(GET_OR_KEYS),
            apply: Script::new(APPLY),
            page: Script::new(PAGE),
        }
    }

    /// Returns the hash and the field of an entry.
    fn entry_key(&self, hi: u64, key: &[u8]) -> (String, Vec<u8>) {
        match self.layout {
            Layout::Clustered => (bucket(hi).to_string(), with_hash_prefix(hi, key)),
            Layout::Secondary => ("entries".to_owned(), key.to_vec()),
        }
    }

    /// Visits the keys of the index in a range.
    fn index_keys(
        &self,
        range: &RangeInclusive<u64>,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        let mut from = [b"[", &range.start().to_be_bytes()[..]].concat();
        let to = match range.end().checked_add(1) {
            Some(end) => [b"(", &end.to_be_bytes()[..]].concat(),
            None => b"+".to_vec(),
        };
        loop {
            let mut command = Cmd::new();
            command.arg("ZRANGEBYLEX").arg(self.inner.key("index")).arg(&from).arg(&to);
            command.arg("LIMIT").arg(0).arg(INDEX_PAGE_LEN);
            let found: Vec<Vec<u8>> =
                self.inner.with_connection(|connection| command.query(connection))?;
            found.iter().for_each(|member| visit(without_hash_prefix(member)));
            match found.last() {
                Some(last) if found.len() == INDEX_PAGE_LEN => from = [b"(", &last[..]].concat(),
                _ => return Ok(()),
            }
        }
    }

    /// Reads a page of entries from the buckets.
    fn clustered_page(&self, after: Option<Vec<u8>>, limit: usize) -> Result<Vec<Entry>, Error> {
        let first = after.as_deref().map_or(0, |after| bucket(hash_prefix(after)));
        let mut page = Vec::new();
        self.for_each_bucket::<(Vec<u8>, Vec<u8>)>("HGETALL", first..=LAST_BUCKET, |fields| {
            for (field, value) in fields {
                if after.as_ref().is_none_or(|after| field > *after) && page.len() < limit {
                    page.push((without_hash_prefix(&field).to_vec(), value));
                }
            }
            page.len() < limit
        })?;
        Ok(page)
    }

    /// Reads a page of the index, with the values of the entries.
    fn secondary_page(&self, after: Option<Vec<u8>>, limit: usize) -> Result<Vec<Entry>, Error> {
        let from = after.map_or(b"-".to_vec(), |after| [b"(", &after[..]].concat());
        let mut script = self.page.prepare_invoke();
        script.key(&self.inner.prefix).arg(from).arg(limit);
        let (found, unindexed): (Vec<Option<Vec<u8>>>, i64) =
            self.inner.with_connection(|connection| script.invoke(connection))?;
        let each = found.as_chunks().0.iter().map(|[key, value]| match (key, value) {
            (Some(key), Some(value)) => Ok((key.clone(), value.clone())),
            _ => Err(Error::Corrupt { what: "the index names a key without an entry" }),
        });
        let page = each.collect::<Result<_, _>>()?;
        match unindexed {
            0 => Ok(page),
            _ => Err(Error::Corrupt { what: "an entry is not in the index" }),
        }
    }

    /// Calls `visit` with the sorted fields of each bucket until it returns false. The fields come with their
    /// values if `command` returns these.
    fn for_each_bucket<T: FromRedisValue + Ord>(
        &self,
        command: &str,
        buckets: RangeInclusive<u64>,
        mut visit: impl FnMut(Vec<T>) -> bool,
    ) -> Result<(), Error> {
        let all: Vec<u64> = buckets.collect();
        for chunk in all.chunks(BUCKETS_PER_REQUEST) {
            let mut pipeline = Pipeline::with_capacity(chunk.len());
            for bucket in chunk {
                pipeline.cmd(command).arg(self.inner.key(bucket));
            }
            let found = self
                .inner
                .with_connection(|connection| pipeline.query::<Vec<Vec<T>>>(connection))?;
            for mut fields in found {
                fields.sort_unstable();
                if !visit(fields) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

impl Inner {
    fn new(location: &str) -> Result<Self, Error> {
        let (address, name) = split_name(location)?;
        let client = Client::open(address).map_err(failed)?;
        let (idle, token) = Default::default();
        Ok(Self { client, prefix: format!("{{{name}}}:"), idle, token })
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let mut get = Cmd::new();
        get.arg("HGET").arg(self.key("notes")).arg(name);
        self.with_connection(|connection| get.query(connection))
    }

    fn key(&self, name: impl fmt::Display) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Runs `work` with a connection that no other thread uses.
    fn with_connection<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, RedisError>,
    ) -> Result<T, Error> {
        let idle = lock(&self.idle).pop();
        let mut connection = match idle {
            Some(connection) if connection.is_open() => connection,
            _ => {
                let timeout = Duration::from_secs(10);
                let connection =
                    self.client.get_connection_with_timeout(timeout).map_err(failed)?;
                // Long enough for the script of the largest batch.
                let timeout = Some(Duration::from_secs(60));
                connection.set_read_timeout(timeout).map_err(failed)?;
                connection.set_write_timeout(timeout).map_err(failed)?;
                connection
            }
        };
        let result = work(&mut connection);
        // After a timeout the response may still arrive and would be read as that of the next command, so the
        // connection is dropped.
        if result.as_ref().err().is_none_or(|error| error.code().is_some()) && connection.is_open()
        {
            lock(&self.idle).push(connection);
        }
        result.map_err(failed)
    }

    /// Runs [`APPLY`].
    fn run_apply(&self, script: &ScriptInvocation<'_>) -> Result<Vec<bool>, Error> {
        let existed: Vec<i64> = self.with_connection(|connection| script.invoke(connection))?;
        match existed[..] {
            [FENCED] => Err(Error::Fenced),
            _ => Ok(existed.into_iter().map(|existed| existed == 1).collect()),
        }
    }

    /// Runs a script on the lease and the fencing token, which may replace the token by `next`.
    fn run_lease_script(&self, script: &str, token: &str, next: &str) -> Result<i64, Error> {
        let done = self.with_connection(|connection| {
            let script = Script::new(script);
            script.key(&self.prefix).arg(token).arg(LEASE_MS).arg(next).invoke(connection)
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

/// Returns `hi` in the result of [`with_hash_prefix`].
fn hash_prefix(field: &[u8]) -> u64 {
    field.first_chunk().map_or(0, |hi| u64::from_be_bytes(*hi))
}

fn fresh_token() -> Result<String, Error> {
    let token = getrandom::u64().map_err(|error| tamis::Error::Random(error.into()))?;
    Ok(format!("{token:016x}"))
}

impl Store for RedisStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn acquire(&self) -> Result<(), Error> {
        let token = fresh_token()?;
        if self.inner.run_lease_script(ACQUIRE, &token, "")? == 0 {
            return Err(Error::InUse);
        }
        *lock(&self.inner.token) = token;
        let (stop, stopped) = channel();
        let inner = Arc::clone(&self.inner);
        let renewer = thread::spawn(move || {
            while stopped.recv_timeout(RENEW_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let token = lock(&inner.token);
                // If it fails, the next attempts come before the lease expires.
                let _ = inner.run_lease_script(RENEW, &token, &token);
            }
        });
        *lock(&self.renewer) = Some((stop, renewer));
        Ok(())
    }

    fn release(&self) {
        if let Some((stop, renewer)) = lock(&self.renewer).take() {
            drop(stop);
            let _ = renewer.join();
        }
        let token = lock(&self.inner.token);
        let _ = self.inner.run_lease_script(RELEASE, &token, "");
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let (hash, field) = self.entry_key(hi, key);
        let mut get = Cmd::new();
        get.arg("HGET").arg(self.inner.key(hash)).arg(field);
        self.inner.with_connection(|connection| get.query(connection))
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut script = self.get_or_keys.prepare_invoke();
        script.key(&self.inner.prefix).arg(bucket(hi)).arg(with_hash_prefix(hi, key));
        script.arg(bucket(*range.start())).arg(bucket(*range.end()));
        let mut found: Vec<Vec<u8>> =
            self.inner.with_connection(|connection| script.invoke(connection))?;
        if found.first().is_some_and(|kind| kind == b"1") {
            return Ok(found.pop());
        }
        let fields = found.iter().skip(1);
        fields
            .filter(|field| range.contains(&hash_prefix(field)))
            .for_each(|field| visit(without_hash_prefix(field)));
        Ok(None)
    }

    fn keys(&self, range: RangeInclusive<u64>, visit: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        if self.layout == Layout::Secondary {
            return self.index_keys(&range, visit);
        }
        let buckets = bucket(*range.start())..=bucket(*range.end());
        self.for_each_bucket::<Vec<u8>>("HKEYS", buckets, |fields| {
            let ours = fields.iter().filter(|field| range.contains(&hash_prefix(field)));
            ours.for_each(|field| visit(without_hash_prefix(field)));
            true
        })
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        let after = after.map(|(hi, key)| with_hash_prefix(hi, key));
        match self.layout {
            Layout::Clustered => self.clustered_page(after, limit),
            Layout::Secondary => self.secondary_page(after, limit),
        }
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        let mut script = self.apply.prepare_invoke();
        script.key(&self.inner.prefix).arg(lock(&self.inner.token).as_str());
        for Change { hi, key, value, .. } in changes {
            let command = if value.is_some() { "put" } else { "delete" };
            let (hash, field) = self.entry_key(*hi, key);
            script.arg(hash).arg(command).arg(field).arg(value.unwrap_or_default());
            script.arg(match self.layout {
                Layout::Clustered => Vec::new(),
                Layout::Secondary => with_hash_prefix(*hi, key),
            });
        }
        self.inner.run_apply(&script)
    }

    fn barrier(&self) -> Result<(), Error> {
        let mut token = lock(&self.inner.token);
        let fresh = fresh_token()?;
        self.inner.run_lease_script(RENEW, &token, &fresh)?;
        *token = fresh;
        Ok(())
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        self.inner.meta(name)
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        let mut script = self.apply.prepare_invoke();
        script.key(&self.inner.prefix).arg(lock(&self.inner.token).as_str());
        for (name, record) in records.iter().chain([&(LAYOUT, self.layout.name().as_bytes())]) {
            script.arg("notes").arg("put").arg(*name).arg(*record).arg("");
        }
        self.inner.run_apply(&script).map(drop)
    }
}
