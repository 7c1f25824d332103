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
//!              {NAME}:writes   the number of changes so far
//!              {NAME}:lease    the token of the open dictionary, expires after 10 s
//! ```
//!
//! In the secondary layout other programs find a value by its key; each key is stored twice. A hash has no
//! order, so iteration follows the index.
//!
//! Every change is a script, which the server runs atomically and which checks the fencing token first. The
//! dictionary confirms its claim every second, which renews the lease, and answers nothing without a
//! confirmation of the last 5 s. While the lease exists a second dictionary is refused, which after a crash
//! lasts up to 10 s. So after an expired lease the new dictionary starts when the old one has stopped; if the
//! server has lost the lease, the old one stops after at most 5 s.
//!
//! Durability depends on the server's configuration: without an append-only file that is synced on every write,
//! a crash of the server may lose acknowledged writes. The number of changes tells: it is then smaller than the
//! number that the dictionary has seen, which gets [`Error::LostWrites`].
//!
//! With 10^7 keys a bucket holds 150 keys, and a repair reads one or two buckets. In the secondary layout it
//! reads only the range that it needs.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{
    Client, Cmd, Connection, ConnectionLike, FromRedisValue, Pipeline, RedisError, Script,
    ScriptInvocation,
};

use super::location::split_name;
use super::{Change, Entry, Layout, Store, split_hash_prefix, with_hash_prefix};
use crate::error::Error;
use crate::random::random_u64;

const BUCKET_BITS: u32 = 16;
const LAST_BUCKET: u64 = (1 << BUCKET_BITS) - 1;
/// How long the dictionary relies on a confirmation.
const LEASE: Duration = Duration::from_secs(5);
/// The lifetime of the lease on the server in milliseconds, longer than [`LEASE`], so that the old dictionary
/// stops before a new one can start.
const SERVER_LEASE_MS: u64 = 10_000;
/// The number of buckets read in one request.
const BUCKETS_PER_REQUEST: usize = 256;
/// The number of members of the index read in one request.
const INDEX_PAGE_LEN: usize = 10_000;

/// The answer of a script whose fencing token is out of date.
const FENCED: i64 = -1;
/// The answer of a script if the server has lost writes.
const LOST_WRITES: i64 = -2;
/// The answer of a script that finds a dictionary where a new one is to be created.
const EXISTS: i64 = -3;
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
/// Applies changes. The arguments are the token, the number of changes that the dictionary has seen, and for
/// each change the hash, `put` or `delete`, the field, the value, and the member of the index or an empty string.
/// Returns the number of changes, and for each change whether the field existed.
const APPLY: &str = "
    local fence = redis.call('GET', KEYS[1] .. 'fence')
    if not fence then return {-2} end
    if fence ~= ARGV[1] then return {-1} end
    if tonumber(redis.call('GET', KEYS[1] .. 'writes') or 0) < tonumber(ARGV[2]) then return {-2} end
    local had, index = {0}, KEYS[1] .. 'index'
    for i = 3, #ARGV, 5 do
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
    had[1] = redis.call('INCR', KEYS[1] .. 'writes')
    return had";
/// Returns members of the index alternating with their values, and on the last page the number of entries minus
/// the number of members of the index.
const PAGE: &str = "
    local index, entries = KEYS[1] .. 'index', KEYS[1] .. 'entries'
    local found = redis.call('ZRANGEBYLEX', index, ARGV[1], '+', 'LIMIT', 0, ARGV[2])
    local page = {}
    for _, member in ipairs(found) do
        page[#page + 1] = member
        page[#page + 1] = redis.call('HGET', entries, string.sub(member, 9))
    end
    local ended = #found < tonumber(ARGV[2])
    return {page, ended and redis.call('HLEN', entries) - redis.call('ZCARD', index) or 0}";
/// Takes the lease and sets the fencing token, unless a lease exists. With a layout as third argument, begins a
/// new dictionary, in place of one whose creation was interrupted.
const ACQUIRE: &str = "
    local notes, created = KEYS[1] .. 'notes', ARGV[3] ~= ''
    if redis.call('EXISTS', KEYS[1] .. 'lease') == 1 then return 0 end
    if created then
        local unfinished = redis.call('HEXISTS', notes, 'unfinished') == 1
        if redis.call('EXISTS', notes) == 1 and not unfinished then return -3 end
        redis.call('DEL', notes, KEYS[1] .. 'writes')
        redis.call('HSET', notes, 'unfinished', '', 'layout', ARGV[3])
    end
    redis.call('SET', KEYS[1] .. 'lease', ARGV[1], 'PX', ARGV[2])
    redis.call('SET', KEYS[1] .. 'fence', ARGV[1])
    return 1";
/// Renews the lease and replaces the fencing token. A change that was sent with the old token and arrives later
/// is refused.
const RENEW: &str = "
    local fence = redis.call('GET', KEYS[1] .. 'fence')
    if not fence then return -2 end
    if fence ~= ARGV[1] then return -1 end
    if tonumber(redis.call('GET', KEYS[1] .. 'writes') or 0) < tonumber(ARGV[4]) then return -2 end
    redis.call('SET', KEYS[1] .. 'fence', ARGV[3])
    redis.call('SET', KEYS[1] .. 'lease', ARGV[3], 'PX', ARGV[2])
    return 1";
/// Deletes the lease of a token, and all of an unfinished dictionary.
const RELEASE: &str = "
    local notes, fence = KEYS[1] .. 'notes', KEYS[1] .. 'fence'
    if redis.call('GET', KEYS[1] .. 'lease') == ARGV[1] then redis.call('DEL', KEYS[1] .. 'lease') end
    if redis.call('GET', fence) == ARGV[1] and redis.call('HEXISTS', notes, 'unfinished') == 1 then
        redis.call('DEL', notes, fence, KEYS[1] .. 'writes')
    end
    return 1";
/// Ends the creation of a dictionary.
const PUBLISH: &str = "
    if redis.call('GET', KEYS[1] .. 'fence') ~= ARGV[1] then return -1 end
    return redis.call('HDEL', KEYS[1] .. 'notes', 'unfinished')";

/// The name of the metadata record of the layout.
const LAYOUT: &str = "layout";
/// The name of a metadata record that exists until the creation ends.
const UNFINISHED: &str = "unfinished";

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
    inner: Inner,
    /// Whether the dictionary is new and not acquired yet.
    new: AtomicBool,
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
    /// How long to wait for an answer.
    timeout: Duration,
    /// The fencing token.
    token: Mutex<String>,
    /// The number of changes at the last one that the server acknowledged.
    acknowledged: AtomicU64,
}

impl RedisStore {
    /// Prepares a store at `redis://HOST:PORT/NUMBER#NAME`, which [`acquire`](Store::acquire) creates.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Location`] if the name is invalid, and errors of the client.
    pub fn create(location: &str, layout: Layout) -> Result<Self, Error> {
        Ok(Self { new: AtomicBool::new(true), ..Self::new(Inner::new(location)?, layout) })
    }

    /// Opens an existing store.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotFound`] if there is no store of this name, [`Error::Unfinished`] if its creation was
    /// interrupted, [`Error::Location`] if the name is invalid, and errors of the server.
    pub fn open(location: &str) -> Result<Self, Error> {
        let inner = Inner::new(location)?;
        let layout = match inner.meta(LAYOUT)? {
            None => return Err(Error::NotFound),
            Some(_) if inner.meta(UNFINISHED)?.is_some() => return Err(inner.unfinished()?),
            Some(name) => Layout::from_name(&name)
                .ok_or(Error::Corrupt { what: "the layout record names no layout" })?,
        };
        Ok(Self::new(inner, layout))
    }

    fn new(inner: Inner, layout: Layout) -> Self {
        Self {
            layout,
            inner,
            new: AtomicBool::new(false),
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
        visit: &mut dyn FnMut(u64, &[u8]),
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
            for member in &found {
                let (hi, key) = split_hash_prefix(member);
                visit(hi, key);
            }
            match found.last() {
                Some(last) if found.len() == INDEX_PAGE_LEN => from = [b"(", &last[..]].concat(),
                _ => return Ok(()),
            }
        }
    }

    /// Reads a page of entries from the buckets.
    fn clustered_page(&self, after: Option<Vec<u8>>, limit: usize) -> Result<Vec<Entry>, Error> {
        let first = after.as_deref().map_or(0, |after| bucket(split_hash_prefix(after).0));
        let mut page = Vec::new();
        self.for_each_bucket::<(Vec<u8>, Vec<u8>)>("HGETALL", first..=LAST_BUCKET, |fields| {
            for (field, value) in fields {
                if after.as_ref().is_none_or(|after| field > *after) && page.len() < limit {
                    let (hi, key) = split_hash_prefix(&field);
                    page.push(Entry::new(Some(hi), key.to_vec(), value));
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
        let each = found.as_chunks().0.iter().map(|[member, value]| {
            let (hi, key) = split_hash_prefix(member.as_deref().unwrap_or_default());
            // If the entry is missing, the empty value has no valid checksum.
            Entry::new(Some(hi), key.to_vec(), value.clone().unwrap_or_default())
        });
        match unindexed {
            1.. => Err(Error::Corrupt { what: "an entry is not in the index" }),
            _ => Ok(each.collect()),
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
        // Long enough for the script of the largest batch.
        let timeout = Duration::from_secs(60);
        let (idle, token, acknowledged) = Default::default();
        let prefix = format!("{{{name}}}:");
        Ok(Self { client, prefix, idle, timeout, token, acknowledged })
    }

    /// Returns the error of opening a dictionary whose creation is in progress or was interrupted.
    fn unfinished(&self) -> Result<Error, Error> {
        let mut exists = Cmd::new();
        exists.arg("EXISTS").arg(self.key("lease"));
        let creating = self.with_connection(|connection| exists.query::<bool>(connection))?;
        Ok(if creating { Error::InUse } else { Error::Unfinished })
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
                let timeout = Some(self.timeout);
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

    /// Starts the arguments of [`APPLY`].
    fn begin_apply<'a>(&self, script: &'a Script) -> ScriptInvocation<'a> {
        let mut script = script.prepare_invoke();
        script.key(&self.prefix).arg(lock(&self.token).as_str());
        script.arg(self.acknowledged.load(Ordering::SeqCst));
        script
    }

    /// Runs [`APPLY`].
    fn run_apply(&self, script: &ScriptInvocation<'_>) -> Result<Vec<bool>, Error> {
        let answer: Vec<i64> = self.with_connection(|connection| script.invoke(connection))?;
        let (number, existed) = answer.split_first().unwrap_or((&LOST_WRITES, &[]));
        let number = check(*number)?;
        self.acknowledged.fetch_max(number.unsigned_abs(), Ordering::SeqCst);
        Ok(existed.iter().map(|existed| *existed == 1).collect())
    }

    /// Runs a script on the lease and the fencing token. `next` is the third argument of the script.
    fn run_lease_script(&self, script: &str, token: &str, next: &str) -> Result<i64, Error> {
        let answer = self.with_connection(|connection| {
            let script = Script::new(script);
            let mut script = script.key(&self.prefix);
            script.arg(token).arg(SERVER_LEASE_MS).arg(next);
            script.arg(self.acknowledged.load(Ordering::SeqCst)).invoke(connection)
        })?;
        check(answer)
    }
}

/// Returns the answer of a script, or the error that it stands for.
fn check(answer: i64) -> Result<i64, Error> {
    match answer {
        FENCED => Err(Error::Fenced),
        LOST_WRITES => Err(Error::LostWrites),
        EXISTS => Err(Error::AlreadyExists),
        _ => Ok(answer),
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

fn fresh_token() -> Result<String, Error> {
    let token = random_u64()?;
    Ok(format!("{token:016x}"))
}

impl Store for RedisStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn acquire(&self) -> Result<(), Error> {
        let new = self.new.load(Ordering::SeqCst);
        let layout = if new { self.layout.name() } else { "" };
        let token = fresh_token()?;
        if self.inner.run_lease_script(ACQUIRE, &token, layout)? == 0 {
            return Err(Error::InUse);
        }
        self.new.store(false, Ordering::SeqCst);
        *lock(&self.inner.token) = token;
        Ok(())
    }

    fn release(&self) {
        let token = lock(&self.inner.token);
        let _ = self.inner.run_lease_script(RELEASE, &token, "");
    }

    fn publish(&self) -> Result<(), Error> {
        let token = lock(&self.inner.token);
        self.inner.run_lease_script(PUBLISH, &token, "").map(drop)
    }

    fn lease(&self) -> Option<Duration> {
        Some(LEASE)
    }

    fn confirm(&self) -> Result<(), Error> {
        let token = lock(&self.inner.token);
        self.inner.run_lease_script(RENEW, &token, &token).map(drop)
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
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let mut script = self.get_or_keys.prepare_invoke();
        script.key(&self.inner.prefix).arg(bucket(hi)).arg(with_hash_prefix(hi, key));
        script.arg(bucket(*range.start())).arg(bucket(*range.end()));
        let mut found: Vec<Vec<u8>> =
            self.inner.with_connection(|connection| script.invoke(connection))?;
        if found.first().is_some_and(|kind| kind == b"1") {
            return Ok(found.pop());
        }
        let fields = found.iter().skip(1).map(|field| split_hash_prefix(field));
        fields.filter(|(hi, _)| range.contains(hi)).for_each(|(hi, key)| visit(hi, key));
        Ok(None)
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        if self.layout == Layout::Secondary {
            return self.index_keys(&range, visit);
        }
        let buckets = bucket(*range.start())..=bucket(*range.end());
        self.for_each_bucket::<Vec<u8>>("HKEYS", buckets, |fields| {
            let fields = fields.iter().map(|field| split_hash_prefix(field));
            fields.filter(|(hi, _)| range.contains(hi)).for_each(|(hi, key)| visit(hi, key));
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
        let mut script = self.inner.begin_apply(&self.apply);
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
        let mut script = self.inner.begin_apply(&self.apply);
        for (name, record) in records.iter().chain([&(LAYOUT, self.layout.name().as_bytes())]) {
            script.arg("notes").arg("put").arg(*name).arg(*record).arg("");
        }
        self.inner.run_apply(&script).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    /// Answers every request but HGET with `OK`. Answers HGET with the number of the connection, on the first
    /// connection after the client has given up.
    fn serve(mut stream: TcpStream, number: usize, delay: Duration) {
        let mut request = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut request) {
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            let answer = if text.contains("HGET") {
                std::thread::sleep(if number == 0 { delay } else { Duration::ZERO });
                format!("$1\r\n{number}\r\n")
            } else {
                "+OK\r\n".repeat(text.matches('*').count())
            };
            let _ = stream.write_all(answer.as_bytes());
        }
    }

    #[test]
    fn a_connection_is_not_used_after_a_timeout() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let timeout = Duration::from_millis(300);
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                std::thread::spawn(move || serve(stream.unwrap(), number, 2 * timeout));
            }
        });
        let inner = Inner::new(&format!("redis://127.0.0.1:{port}/")).unwrap();
        let inner = Inner { timeout, ..inner };
        assert!(matches!(inner.meta("a"), Err(Error::Store { .. })));
        // By now the late answer to the first request has arrived on its connection.
        std::thread::sleep(3 * timeout);
        assert_eq!(inner.meta("b").unwrap().as_deref(), Some(&b"1"[..]));
        // A connection without an error is used again.
        assert_eq!(inner.meta("c").unwrap().as_deref(), Some(&b"1"[..]));
    }
}
