//! A store in tables of a PostgreSQL server, by the crate `postgres`.
//!
//! ```text
//!  clustered   NAME         hi bigint · key bytea · value bytea     index on hi
//!
//!  secondary   NAME         key bytea · value bytea                 index on the first 1000 bytes of the key
//!              NAME_index   hi bigint · key bytea                   index on hi
//!
//!  both        NAME_notes   name text · note bytea                  metadata records
//!              NAME_writes  a sequence: the number of transactions that changed something
//! ```
//!
//! No index covers a whole key, because a key may be longer than an index supports. In the secondary layout an
//! index covers its first 1000 bytes. Other programs find a value by its key with
//! `substring(key for 1000) = substring(… for 1000) and key = …`.
//!
//! One session holds an advisory lock while the dictionary is open; a second dictionary is refused. Every
//! write transaction also checks a fencing token among the metadata records. Each `acquire` writes a new token,
//! so a writer whose session broke without its knowledge is refused from then on. The dictionary confirms its
//! claim every second, by the token, and answers nothing without a confirmation of the last 5 s: so long a new
//! dictionary and the old one can overlap after the lock was lost.
//!
//! Each write transaction also advances a sequence, which no crash sets back. If its value is smaller than one that
//! the dictionary has seen, the server was restored from a backup, and the dictionary gets
//! [`Error::LostWrites`].

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postgres::error::SqlState;
use postgres::fallible_iterator::FallibleIterator;
use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Statement, Transaction};

use super::location::split_name;
use super::{Change, Entry, Layout, Store};
use crate::error::Error;
use crate::random::random_u64;

/// A store in two or three tables of a PostgreSQL server.
///
/// # Examples
///
/// ```no_run
/// use tamis::Broom;
/// use tamis_dictionary::{Dictionary, Layout, Options, store::PostgresStore};
///
/// let location = "postgres://user@localhost/database#stock";
/// let store = PostgresStore::create(location, Layout::Secondary)?;
/// let stock = Dictionary::<Broom, _>::create(store, Options::default())?;
/// stock.put(b"apple", b"3")?;
/// # Ok::<_, tamis_dictionary::Error>(())
/// ```
pub struct PostgresStore {
    config: Config,
    name: String,
    layout: Layout,
    /// Sessions that are not in use.
    idle: Mutex<Vec<Session>>,
    /// The session that holds the advisory lock.
    lock_session: Mutex<Option<Client>>,
    /// The fencing token.
    token: Mutex<Vec<u8>>,
    /// The greatest number of a write transaction that was committed.
    acknowledged: AtomicI64,
    /// Whether the tables are to be created by `acquire`.
    new: AtomicBool,
}

/// How long the dictionary relies on a confirmation.
const LEASE: Duration = Duration::from_secs(5);

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("name", &self.name)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

/// A connection and its prepared statements.
struct Session {
    client: Client,
    get: Statement,
    get_or_keys: Statement,
    keys: Statement,
    fence: Statement,
    put: Statement,
    delete: Statement,
}

impl Session {
    fn new(config: &Config, name: &str, layout: Layout) -> Result<Self, postgres::Error> {
        let mut client = config.connect(NoTls)?;
        let sql = Sql::new(name, layout);
        let fence = format!(
            "select nextval('{name}_writes') from {name}_notes
             where name = 'fence' and note = $1 for share"
        );
        Ok(Self {
            get: client.prepare(&sql.get)?,
            get_or_keys: client.prepare(&sql.get_or_keys)?,
            keys: client.prepare(&sql.keys)?,
            fence: client.prepare(&fence)?,
            put: client.prepare(&sql.put)?,
            delete: client.prepare(&sql.delete)?,
            client,
        })
    }
}

/// The SQL text of the statements of a layout.
struct Sql {
    get: String,
    get_or_keys: String,
    keys: String,
    /// Puts entries of distinct keys. Returns the keys that were present.
    put: String,
    /// Deletes entries. Returns the keys that were present.
    delete: String,
}

impl Sql {
    fn new(name: &str, layout: Layout) -> Self {
        let index = match layout {
            Layout::Clustered => name.to_owned(),
            Layout::Secondary => format!("{name}_index"),
        };
        // Whether table row `t` has the key of `r`, in a form that uses an index.
        let same_key = match layout {
            Layout::Clustered => "t.hi = r.hi and t.key = r.key".to_owned(),
            Layout::Secondary => {
                format!("{} = {} and t.key = r.key", key_prefix("t.key"), key_prefix("r.key"))
            }
        };
        let one = "(select $1::bigint hi, $2::bytea as key) r";
        let get = format!("select value from {name} t, {one} where {same_key}");
        let keys = format!("select hi, key from {index} where hi between $1 and $2 order by hi");
        let get_or_keys = format!(
            "with hit as materialized ({get})
             select value, null::bytea, null::bigint from hit union all
             select null, key, hi from {index}
             where hi between $3 and $4 and not exists (select from hit)"
        );
        let (columns, also) = match layout {
            Layout::Clustered => ("hi, key, value", String::new()),
            Layout::Secondary => {
                ("key, value", format!(", named as (insert into {index} select hi, key from new)"))
            }
        };
        let put = format!(
            "with r as (select * from unnest($1::bigint[], $2::bytea[], $3::bytea[]) r (hi, key, value)),
             had as (update {name} t set value = r.value from r where {same_key} returning t.key),
             new as (select * from r where key not in (select key from had)),
             put as (insert into {name} select {columns} from new){also}
             select key from had"
        );
        let also = match layout {
            Layout::Clustered => String::new(),
            Layout::Secondary => format!(
                ", named as (delete from {index} t using r where t.hi = r.hi and t.key = r.key)"
            ),
        };
        let delete = format!(
            "with r as (select * from unnest($1::bigint[], $2::bytea[]) r (hi, key)),
             had as (delete from {name} t using r where {same_key} returning t.key){also}
             select key from had"
        );
        Self { get, get_or_keys, keys, put, delete }
    }
}

impl PostgresStore {
    /// Prepares a store at `postgres://USER@HOST/DATABASE#NAME`, whose tables [`acquire`](Store::acquire)
    /// creates.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Location`] if the name is invalid, and errors of the server.
    pub fn create(location: &str, layout: Layout) -> Result<Self, Error> {
        Ok(Self { new: AtomicBool::new(true), ..Self::new(location, layout)? })
    }

    /// Creates the tables, in place of those of an interrupted creation, with a fencing token.
    fn create_tables(&self, client: &mut Client, token: &[u8]) -> Result<(), Error> {
        let name = &self.name;
        let mut transaction = client.transaction().map_err(failed)?;
        let notes = "select to_regclass($1 || '_notes') is not null";
        if transaction.query_one(notes, &[name]).map_err(failed)?.get(0) {
            let unfinished = format!("select note from {name}_notes where name = 'unfinished'");
            let Some(row) = transaction.query_opt(&unfinished, &[]).map_err(failed)? else {
                return Err(Error::AlreadyExists);
            };
            let layout = Layout::from_name(row.get(0)).unwrap_or(self.layout);
            transaction.batch_execute(&drop_tables(name, layout)).map_err(failed)?;
        }
        let tables = match self.layout {
            Layout::Clustered => format!(
                "create table {name} (hi bigint not null, key bytea not null, value bytea not null);
                 create index on {name} (hi);"
            ),
            Layout::Secondary => format!(
                "create table {name} (key bytea not null, value bytea not null);
                 create index on {name} (({}));
                 create table {name}_index (hi bigint not null, key bytea not null);
                 create index on {name}_index (hi);",
                key_prefix("key")
            ),
        };
        let created = transaction.batch_execute(&format!(
            "{tables}
             create table {name}_notes (name text primary key, note bytea not null);
             create sequence {name}_writes;"
        ));
        match created {
            Err(error) if error.code() == Some(&SqlState::DUPLICATE_TABLE) => {
                return Err(Error::AlreadyExists);
            }
            created => created.map_err(failed)?,
        }
        let first = format!("insert into {name}_notes values ('unfinished', $1), ('fence', $2)");
        let layout = self.layout.name().as_bytes();
        transaction.execute(&first, &[&layout, &token]).map_err(failed)?;
        transaction.commit().map_err(failed)
    }

    /// Opens existing tables.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotFound`] if there are no tables of this name, [`Error::Unfinished`] if their creation
    /// was interrupted, [`Error::Location`] if the name is invalid, and errors of the server.
    pub fn open(location: &str) -> Result<Self, Error> {
        let store = Self::new(location, Layout::Clustered)?;
        let mut client = store.config.connect(NoTls).map_err(failed)?;
        let found = client.query_one(
            "select to_regclass($1 || '_notes') is not null,
                    exists (select from pg_attribute where attrelid = to_regclass($1) and attname = 'hi')",
            &[&store.name],
        );
        let found = found.map_err(failed)?;
        let layout = match (found.get(0), found.get(1)) {
            (false, _) => return Err(Error::NotFound),
            (true, true) => Layout::Clustered,
            (true, false) => Layout::Secondary,
        };
        let unfinished = format!("select from {}_notes where name = 'unfinished'", store.name);
        if client.query_opt(&unfinished, &[]).map_err(failed)?.is_some() {
            let creating = !lock_name(&mut client, &store.name)?;
            unlock(&mut client);
            return Err(if creating { Error::InUse } else { Error::Unfinished });
        }
        Ok(Self { layout, ..store })
    }

    fn new(location: &str, layout: Layout) -> Result<Self, Error> {
        let (address, name) = split_name(location)?;
        let mut config: Config = address.parse().map_err(failed)?;
        config.connect_timeout(Duration::from_secs(10)).tcp_user_timeout(Duration::from_secs(30));
        let (idle, lock_session, token, acknowledged, new) = Default::default();
        let name = name.to_owned();
        Ok(Self { config, name, layout, idle, lock_session, token, acknowledged, new })
    }

    fn connect(&self) -> Result<Session, Error> {
        Session::new(&self.config, &self.name, self.layout).map_err(failed)
    }

    /// Runs `work` with a session that no other thread uses.
    fn with_session<T>(
        &self,
        work: impl FnOnce(&mut Session) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let idle = lock(&self.idle).pop();
        let mut session = match idle {
            Some(session) if !session.client.is_closed() => session,
            _ => self.connect()?,
        };
        let done = work(&mut session);
        if !session.client.is_closed() {
            lock(&self.idle).push(session);
        }
        done
    }

    /// Runs `work` in a transaction, after a check of the fencing token.
    fn fenced_transaction<T>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>, &Statements) -> Result<T, postgres::Error>,
    ) -> Result<T, Error> {
        let token = lock(&self.token).clone();
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        self.with_session(|session| {
            let statements =
                Statements { put: session.put.clone(), delete: session.delete.clone() };
            let fence = session.fence.clone();
            let mut transaction = session.client.transaction().map_err(failed)?;
            let number: i64 = match transaction.query_opt(&fence, &[&token]).map_err(failed)? {
                Some(row) => row.get(0),
                None => return Err(Error::Fenced),
            };
            if number <= acknowledged {
                return Err(Error::LostWrites);
            }
            let done = work(&mut transaction, &statements).map_err(failed)?;
            transaction.commit().map_err(failed)?;
            self.acknowledged.fetch_max(number, Ordering::SeqCst);
            Ok(done)
        })
    }
}

struct Statements {
    put: Statement,
    delete: Statement,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(error: postgres::Error) -> Error {
    Error::store("postgres", error)
}

/// Tries to take the advisory lock of a dictionary in a session.
fn lock_name(client: &mut Client, name: &str) -> Result<bool, Error> {
    let lock = "select pg_try_advisory_lock(hashtext('tamis dictionary'), hashtext($1))";
    Ok(client.query_one(lock, &[&name]).map_err(failed)?.get(0))
}

/// Releases the advisory lock. The server releases it with the session too, but possibly late.
fn unlock(client: &mut Client) {
    let _ = client.batch_execute("select pg_advisory_unlock_all()");
}

/// Returns the SQL text that drops the tables of a dictionary.
fn drop_tables(name: &str, layout: Layout) -> String {
    let index = match layout {
        Layout::Clustered => String::new(),
        Layout::Secondary => format!(", {name}_index"),
    };
    format!("drop table {name}, {name}_notes{index}; drop sequence {name}_writes;")
}

/// Converts to the signed integers of the server, in the same order.
fn signed(hi: u64) -> i64 {
    (hi ^ 1 << 63).cast_signed()
}

/// Reverses [`signed`].
fn unsigned(hi: i64) -> u64 {
    hi.cast_unsigned() ^ 1 << 63
}

/// Returns the SQL expression of the indexed prefix of a key. A page of an index must hold three of them.
fn key_prefix(key: &str) -> String {
    format!("substring({key} for 1000)")
}

fn fresh_token() -> Result<Vec<u8>, Error> {
    let token = random_u64()?;
    Ok(token.to_le_bytes().to_vec())
}

impl Store for PostgresStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn acquire(&self) -> Result<(), Error> {
        let mut client = self.config.connect(NoTls).map_err(failed)?;
        if !lock_name(&mut client, &self.name)? {
            return Err(Error::InUse);
        }
        let token = fresh_token()?;
        if self.new.load(Ordering::SeqCst) {
            self.create_tables(&mut client, &token).inspect_err(|_| unlock(&mut client))?;
            self.new.store(false, Ordering::SeqCst);
        } else {
            let name = &self.name;
            let fence = format!(
                "insert into {name}_notes values ('fence', $1)
                 on conflict (name) do update set note = excluded.note"
            );
            client.execute(&fence, &[&token]).map_err(failed)?;
        }
        *lock(&self.token) = token;
        *lock(&self.lock_session) = Some(client);
        Ok(())
    }

    fn release(&self) {
        let name = &self.name;
        let token = lock(&self.token);
        let Some(mut client) = lock(&self.lock_session).take() else { return };
        let own = format!(
            "select from {name}_notes u, {name}_notes f
             where u.name = 'unfinished' and f.name = 'fence' and f.note = $1"
        );
        // If this fails, the next creation drops the tables.
        if client.query_opt(&own, &[&*token]).is_ok_and(|row| row.is_some()) {
            let text = format!("begin; {} commit", drop_tables(name, self.layout));
            let _ = client.batch_execute(&text);
        }
        unlock(&mut client);
    }

    fn publish(&self) -> Result<(), Error> {
        let end = format!("delete from {}_notes where name = 'unfinished'", self.name);
        self.fenced_transaction(|transaction, _| transaction.execute(&end, &[]).map(drop))
    }

    fn lease(&self) -> Option<Duration> {
        Some(LEASE)
    }

    /// The token decides. The lock is taken again if its session has ended, and otherwise by a later call: the
    /// server may not have noticed yet that the session has ended.
    fn confirm(&self) -> Result<(), Error> {
        let token = lock(&self.token);
        let mut lock_session = lock(&self.lock_session);
        let (mut client, locked) = match lock_session.take() {
            Some(client) if !client.is_closed() => (client, true),
            _ => (self.config.connect(NoTls).map_err(failed)?, false),
        };
        let name = &self.name;
        let query = format!(
            "select (select note = $1 from {name}_notes where name = 'fence'),
                    (select last_value >= $2 from {name}_writes)"
        );
        let acknowledged = self.acknowledged.load(Ordering::SeqCst);
        let row = match client.query_one(&query, &[&*token, &acknowledged]) {
            Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => {
                return Err(Error::LostWrites);
            }
            row => row.map_err(failed)?,
        };
        match (row.get(0), row.get(1)) {
            (Some(true), true) => {}
            (Some(false), _) => return Err(Error::Fenced),
            (None, _) | (_, false) => return Err(Error::LostWrites),
        }
        if locked || lock_name(&mut client, name)? {
            *lock_session = Some(client);
        }
        Ok(())
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.with_session(|session| {
            let row = session.client.query_opt(&session.get, &[&signed(hi), &key]);
            Ok(row.map_err(failed)?.map(|row| row.get(0)))
        })
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let (from, to) = (signed(*range.start()), signed(*range.end()));
        self.with_session(|session| {
            let rows = session.client.query(&session.get_or_keys, &[&signed(hi), &key, &from, &to]);
            let mut value = None;
            for row in rows.map_err(failed)? {
                match row.get::<_, Option<&[u8]>>(1) {
                    Some(key) => visit(unsigned(row.get(2)), key),
                    None => value = row.get(0),
                }
            }
            Ok(value)
        })
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        let bounds = [signed(*range.start()), signed(*range.end())];
        self.with_session(|session| {
            let rows = session.client.query_raw(&session.keys, bounds.iter());
            let mut rows = rows.map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                visit(unsigned(row.get(0)), row.get(1));
            }
            Ok(())
        })
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let name = &self.name;
        let after = after.map(|(hi, key)| (signed(hi), key));
        let (first, from) = match self.layout {
            Layout::Clustered => ("hi".to_owned(), "($2, $3)".to_owned()),
            Layout::Secondary => (key_prefix("key"), format!("({}, $2)", key_prefix("$2::bytea"))),
        };
        let from = after.map_or(String::new(), |_| format!("where ({first}, key) > {from}"));
        let hi = if self.layout == Layout::Clustered { "hi" } else { "null::bigint" };
        let page =
            format!("select {hi}, key, value from {name} {from} order by {first}, key limit $1");
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&limit];
        if let Some((hi, key)) = &after {
            match self.layout {
                Layout::Clustered => values.extend([hi as &(dyn ToSql + Sync), key]),
                Layout::Secondary => values.push(key),
            }
        }
        self.with_session(|session| {
            let rows = session.client.query(&page, &values).map_err(failed)?;
            let entry = |row: &postgres::Row| {
                Entry::new(row.get::<_, Option<i64>>(0).map(unsigned), row.get(1), row.get(2))
            };
            Ok(rows.iter().map(entry).collect())
        })
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        self.fenced_transaction(|transaction, statements| {
            let mut existed = vec![false; changes.len()];
            let mut batch = Batch::default();
            for (number, change) in changes.iter().enumerate() {
                // The server may apply a batch in any order, so it contains each key once.
                if batch.numbers.contains_key(change.key) {
                    batch.apply(transaction, statements, &mut existed)?;
                    batch = Batch::default();
                }
                batch.add(number, change);
            }
            batch.apply(transaction, statements, &mut existed)?;
            Ok(existed)
        })
    }

    fn barrier(&self) -> Result<(), Error> {
        // Each write transaction share-locks the row of the token. The update waits for transactions that
        // hold the old token; later ones fail the check.
        let mut token = lock(&self.token);
        let fresh = fresh_token()?;
        let name = &self.name;
        let change =
            format!("update {name}_notes set note = $1 where name = 'fence' and note = $2");
        let changed = self.with_session(|session| {
            session.client.execute(&change, &[&fresh, &*token]).map_err(failed)
        })?;
        if changed == 0 {
            return Err(Error::Fenced);
        }
        *token = fresh;
        Ok(())
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let query = format!("select note from {}_notes where name = $1", self.name);
        self.with_session(|session| {
            let row = session.client.query_opt(&query, &[&name]).map_err(failed)?;
            Ok(row.map(|row| row.get(0)))
        })
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        let put = format!(
            "insert into {}_notes values ($1, $2)
             on conflict (name) do update set note = excluded.note",
            self.name
        );
        self.fenced_transaction(|transaction, _| {
            records
                .iter()
                .try_for_each(|(name, record)| transaction.execute(&put, &[name, record]).map(drop))
        })
    }
}

/// Changes of distinct keys.
#[derive(Default)]
struct Batch<'a> {
    numbers: std::collections::HashMap<&'a [u8], usize>,
    put: (Vec<i64>, Vec<&'a [u8]>, Vec<&'a [u8]>),
    delete: (Vec<i64>, Vec<&'a [u8]>),
}

impl<'a> Batch<'a> {
    fn add(&mut self, number: usize, change: &Change<'a>) {
        self.numbers.insert(change.key, number);
        match change.value {
            Some(value) => {
                self.put.0.push(signed(change.hi));
                self.put.1.push(change.key);
                self.put.2.push(value);
            }
            None => {
                self.delete.0.push(signed(change.hi));
                self.delete.1.push(change.key);
            }
        }
    }

    fn apply(
        &self,
        transaction: &mut Transaction<'_>,
        statements: &Statements,
        existed: &mut [bool],
    ) -> Result<(), postgres::Error> {
        let mut found = Vec::new();
        if !self.delete.0.is_empty() {
            let (hi, key) = &self.delete;
            found.extend(transaction.query(&statements.delete, &[hi, key])?);
        }
        if !self.put.0.is_empty() {
            let (hi, key, value) = &self.put;
            found.extend(transaction.query(&statements.put, &[hi, key, value])?);
        }
        for row in found {
            existed[self.numbers[row.get::<_, &[u8]>(0)]] = true;
        }
        Ok(())
    }
}
