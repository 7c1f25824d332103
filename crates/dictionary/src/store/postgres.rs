//! Tables of a PostgreSQL server, by the crate `postgres`.
//!
//! ```text
//!  clustered   NAME         hi bigint · key bytea · value bytea     by hi
//!
//!  secondary   NAME         key bytea · value bytea                 by the first bytes of the key
//!              NAME_index   hi bigint · key bytea                   by hi
//!
//!  both        NAME_notes   name text · note bytea
//! ```
//!
//! No index is on a whole key, which may be longer than an index takes; on its first 1000 bytes there is one
//! in the secondary layout, where other programs find a value by its key alone, if they say
//! `substring(key for 1000) = substring(… for 1000) and key = …`.
//!
//! One session holds an advisory lock as long as the dictionary is open: a second one is refused. Every
//! transaction also checks a token among the notes. Whoever opens the dictionary writes a new one, so that
//! a writer whose session broke, and who does not know it yet, is refused from then on.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use postgres::fallible_iterator::FallibleIterator;
use postgres::types::ToSql;
use postgres::{Client, Config, NoTls, Statement, Transaction};

use super::place::split_name;
use super::{Change, Entry, Layout, Store};
use crate::error::Error;

/// A store in two tables, or three.
pub struct PostgresStore {
    config: Config,
    name: String,
    layout: Layout,
    /// Sessions that nobody uses.
    idle: Mutex<Vec<Session>>,
    /// The one that holds the lock.
    claim: Mutex<Option<Session>>,
    token: Mutex<Vec<u8>>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore")
            .field("name", &self.name)
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

/// A connection and what the server has prepared for it.
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
        let fence =
            format!("select from {name}_notes where name = 'fence' and note = $1 for share");
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

/// What a layout asks the server.
struct Sql {
    get: String,
    get_or_keys: String,
    keys: String,
    /// Puts entries of different keys; returns the keys that were there.
    put: String,
    /// Takes entries out; returns the keys that were there.
    delete: String,
}

impl Sql {
    fn new(name: &str, layout: Layout) -> Self {
        let index = match layout {
            Layout::Clustered => name.to_owned(),
            Layout::Secondary => format!("{name}_index"),
        };
        // Whether an entry is the one of a row `r`, found by an index.
        let same = match layout {
            Layout::Clustered => "t.hi = r.hi and t.key = r.key".to_owned(),
            Layout::Secondary => format!("{} = {} and t.key = r.key", head("t.key"), head("r.key")),
        };
        let one = "(select $1::bigint hi, $2::bytea as key) r";
        let get = format!("select value from {name} t, {one} where {same}");
        let keys = format!("select key from {index} where hi between $1 and $2 order by hi");
        let get_or_keys = format!(
            "with hit as materialized ({get})
             select value, null::bytea from hit union all
             select null, key from {index}
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
             had as (update {name} t set value = r.value from r where {same} returning t.key),
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
             had as (delete from {name} t using r where {same} returning t.key){also}
             select key from had"
        );
        Self { get, get_or_keys, keys, put, delete }
    }
}

impl PostgresStore {
    /// New tables at `postgres://USER@HOST/DATABASE#NAME`.
    pub fn create(place: &str, layout: Layout) -> Result<Self, Error> {
        let store = Self::at(place, layout)?;
        let name = &store.name;
        let mut client = store.config.connect(NoTls).map_err(failed)?;
        let tables = match layout {
            Layout::Clustered => format!(
                "create table {name} (hi bigint not null, key bytea not null, value bytea not null);
                 create index on {name} (hi);"
            ),
            Layout::Secondary => format!(
                "create table {name} (key bytea not null, value bytea not null);
                 create index on {name} (({}));
                 create table {name}_index (hi bigint not null, key bytea not null);
                 create index on {name}_index (hi);",
                head("key")
            ),
        };
        let made = client.batch_execute(&format!(
            "begin;
             {tables}
             create table {name}_notes (name text primary key, note bytea not null);
             commit"
        ));
        match made {
            Err(error) if error.code() == Some(&postgres::error::SqlState::DUPLICATE_TABLE) => {
                Err(Error::Exists)
            }
            made => made.map_err(failed).map(|()| store),
        }
    }

    /// Tables that are there.
    pub fn open(place: &str) -> Result<Self, Error> {
        let store = Self::at(place, Layout::Clustered)?;
        let mut client = store.config.connect(NoTls).map_err(failed)?;
        let found = client.query_one(
            "select to_regclass($1 || '_notes') is not null,
                    exists (select from pg_attribute where attrelid = to_regclass($1) and attname = 'hi')",
            &[&store.name],
        );
        let found = found.map_err(failed)?;
        match (found.get(0), found.get(1)) {
            (false, _) => Err(Error::Missing),
            (true, true) => Ok(store),
            (true, false) => Ok(Self { layout: Layout::Secondary, ..store }),
        }
    }

    fn at(place: &str, layout: Layout) -> Result<Self, Error> {
        let (address, name) = split_name(place)?;
        let mut config: Config = address.parse().map_err(failed)?;
        config.connect_timeout(Duration::from_secs(10)).tcp_user_timeout(Duration::from_secs(30));
        let (idle, claim, token) = Default::default();
        Ok(Self { config, name: name.to_owned(), layout, idle, claim, token })
    }

    fn session(&self) -> Result<Session, Error> {
        Session::new(&self.config, &self.name, self.layout).map_err(failed)
    }

    /// Does something with a session of one's own.
    fn with<T>(&self, work: impl FnOnce(&mut Session) -> Result<T, Error>) -> Result<T, Error> {
        let idle = lock(&self.idle).pop();
        let mut session = match idle {
            Some(session) if !session.client.is_closed() => session,
            _ => self.session()?,
        };
        let done = work(&mut session);
        if !session.client.is_closed() {
            lock(&self.idle).push(session);
        }
        done
    }

    /// Does something in a transaction, unless another has taken over.
    fn fenced<T>(
        &self,
        work: impl FnOnce(&mut Transaction<'_>, &Statements) -> Result<T, postgres::Error>,
    ) -> Result<T, Error> {
        let token = lock(&self.token).clone();
        self.with(|session| {
            let statements =
                Statements { put: session.put.clone(), delete: session.delete.clone() };
            let fence = session.fence.clone();
            let mut transaction = session.client.transaction().map_err(failed)?;
            if transaction.query_opt(&fence, &[&token]).map_err(failed)?.is_none() {
                return Err(Error::Fenced);
            }
            let done = work(&mut transaction, &statements).map_err(failed)?;
            transaction.commit().map_err(failed)?;
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

/// The server's integers are signed; this keeps their order.
fn signed(hi: u64) -> i64 {
    (hi ^ 1 << 63).cast_signed()
}

/// As much of a key as an index takes: a page of it must hold three.
fn head(key: &str) -> String {
    format!("substring({key} for 1000)")
}

fn fresh_token() -> Vec<u8> {
    RandomState::new().hash_one(0u64).to_le_bytes().to_vec()
}

impl Store for PostgresStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn claim(&self) -> Result<(), Error> {
        let mut session = self.session()?;
        let locked = session.client.query_one(
            "select pg_try_advisory_lock(hashtext('tamis dictionary'), hashtext($1))",
            &[&self.name],
        );
        if !locked.map_err(failed)?.get::<_, bool>(0) {
            return Err(Error::InUse);
        }
        let token = fresh_token();
        let name = &self.name;
        let fence = format!(
            "insert into {name}_notes values ('fence', $1)
             on conflict (name) do update set note = excluded.note"
        );
        session.client.execute(&fence, &[&token]).map_err(failed)?;
        *lock(&self.token) = token;
        *lock(&self.claim) = Some(session);
        Ok(())
    }

    fn release(&self) {
        // The lock goes with the session, but when the server sees that it has ended.
        if let Some(mut session) = lock(&self.claim).take() {
            let _ = session.client.batch_execute("select pg_advisory_unlock_all()");
        }
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.with(|session| {
            let row = session.client.query_opt(&session.get, &[&signed(hi), &key]);
            Ok(row.map_err(failed)?.map(|row| row.get(0)))
        })
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        see: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let (from, to) = (signed(*range.start()), signed(*range.end()));
        self.with(|session| {
            let rows = session.client.query(&session.get_or_keys, &[&signed(hi), &key, &from, &to]);
            let mut value = None;
            for row in rows.map_err(failed)? {
                match row.get::<_, Option<&[u8]>>(1) {
                    Some(key) => see(key),
                    None => value = row.get(0),
                }
            }
            Ok(value)
        })
    }

    fn keys(&self, range: RangeInclusive<u64>, see: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let bounds = [signed(*range.start()), signed(*range.end())];
        self.with(|session| {
            let rows = session.client.query_raw(&session.keys, bounds.iter());
            let mut rows = rows.map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                see(row.get(0));
            }
            Ok(())
        })
    }

    fn page(&self, after: Option<(u64, &[u8])>, most: usize) -> Result<Vec<Entry>, Error> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let name = &self.name;
        let after = after.map(|(hi, key)| (signed(hi), key));
        let (first, from) = match self.layout {
            Layout::Clustered => ("hi".to_owned(), "($2, $3)".to_owned()),
            Layout::Secondary => (head("key"), format!("({}, $2)", head("$2::bytea"))),
        };
        let from = after.map_or(String::new(), |_| format!("where ({first}, key) > {from}"));
        let page = format!("select key, value from {name} {from} order by {first}, key limit $1");
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&most];
        if let Some((hi, key)) = &after {
            match self.layout {
                Layout::Clustered => values.extend([hi as &(dyn ToSql + Sync), key]),
                Layout::Secondary => values.push(key),
            }
        }
        self.with(|session| {
            let rows = session.client.query(&page, &values).map_err(failed)?;
            Ok(rows.iter().map(|row| (row.get(0), row.get(1))).collect())
        })
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        self.fenced(|transaction, statements| {
            let mut had = vec![false; changes.len()];
            let mut run = Run::default();
            for (number, change) in changes.iter().enumerate() {
                // Within a run the server may choose the order, so each key is there once.
                if run.numbers.contains_key(change.key) {
                    run.apply(transaction, statements, &mut had)?;
                    run = Run::default();
                }
                run.add(number, change);
            }
            run.apply(transaction, statements, &mut had)?;
            Ok(had)
        })
    }

    fn settle(&self) -> Result<(), Error> {
        // Whoever holds the old token's row, unheard, has finished when this is done.
        let mut token = lock(&self.token);
        let fresh = fresh_token();
        let name = &self.name;
        let change =
            format!("update {name}_notes set note = $1 where name = 'fence' and note = $2");
        let changed = self
            .with(|session| session.client.execute(&change, &[&fresh, &*token]).map_err(failed))?;
        if changed == 0 {
            return Err(Error::Fenced);
        }
        *token = fresh;
        Ok(())
    }

    fn note(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let query = format!("select note from {}_notes where name = $1", self.name);
        self.with(|session| {
            let row = session.client.query_opt(&query, &[&name]).map_err(failed)?;
            Ok(row.map(|row| row.get(0)))
        })
    }

    fn set_notes(&self, notes: &[(&str, &[u8])]) -> Result<(), Error> {
        let put = format!(
            "insert into {}_notes values ($1, $2)
             on conflict (name) do update set note = excluded.note",
            self.name
        );
        self.fenced(|transaction, _| {
            notes
                .iter()
                .try_for_each(|(name, note)| transaction.execute(&put, &[name, note]).map(drop))
        })
    }
}

/// Changes of different keys.
#[derive(Default)]
struct Run<'a> {
    numbers: std::collections::HashMap<&'a [u8], usize>,
    put: (Vec<i64>, Vec<&'a [u8]>, Vec<&'a [u8]>),
    delete: (Vec<i64>, Vec<&'a [u8]>),
}

impl<'a> Run<'a> {
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
        had: &mut [bool],
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
            had[self.numbers[row.get::<_, &[u8]>(0)]] = true;
        }
        Ok(())
    }
}
