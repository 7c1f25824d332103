//! Tables of a PostgreSQL server, by the crate `postgres`.
//!
//! ```text
//!  NAME         hi bigint · key bytea · value bytea       an index on hi, and none on the key: it has no
//!  NAME_notes   name text · note bytea                    length that an index could not take
//! ```
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

/// A store in two tables.
pub struct PostgresStore {
    config: Config,
    name: String,
    /// Sessions that nobody uses.
    idle: Mutex<Vec<Session>>,
    /// The one that holds the lock.
    claim: Mutex<Option<Session>>,
    token: Mutex<Vec<u8>>,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("name", &self.name).finish_non_exhaustive()
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
    fn new(config: &Config, name: &str) -> Result<Self, postgres::Error> {
        let mut client = config.connect(NoTls)?;
        let get = format!("select value from {name} where hi = $1 and key = $2");
        let keys = format!("select key from {name} where hi between $1 and $2 order by hi");
        let either = format!(
            "with hit as materialized ({get})
             select value, null::bytea from hit union all
             select null, key from {name}
             where hi between $3 and $4 and not exists (select from hit)"
        );
        let fence =
            format!("select from {name}_notes where name = 'fence' and note = $1 for share");
        let put = format!(
            "with put as (select * from unnest($1::bigint[], $2::bytea[], $3::bytea[]) p (hi, key, value)),
             had as (update {name} t set value = put.value from put
                     where t.hi = put.hi and t.key = put.key returning t.key),
             new as (insert into {name} select * from put where key not in (select key from had))
             select key from had"
        );
        let delete = format!(
            "delete from {name} t using unnest($1::bigint[], $2::bytea[]) d (hi, key)
             where t.hi = d.hi and t.key = d.key returning t.key"
        );
        Ok(Self {
            get: client.prepare(&get)?,
            get_or_keys: client.prepare(&either)?,
            keys: client.prepare(&keys)?,
            fence: client.prepare(&fence)?,
            put: client.prepare(&put)?,
            delete: client.prepare(&delete)?,
            client,
        })
    }
}

impl PostgresStore {
    /// New tables at `postgres://USER@HOST/DATABASE#NAME`.
    pub fn create(place: &str) -> Result<Self, Error> {
        let store = Self::at(place)?;
        let name = &store.name;
        let mut client = store.config.connect(NoTls).map_err(failed)?;
        let made = client.batch_execute(&format!(
            "begin;
             create table {name} (hi bigint not null, key bytea not null, value bytea not null);
             create index on {name} (hi);
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
        let store = Self::at(place)?;
        let mut client = store.config.connect(NoTls).map_err(failed)?;
        let notes = format!("{}_notes", store.name);
        let found = client.query_one("select to_regclass($1) is not null", &[&notes]);
        match found.map_err(failed)?.get(0) {
            true => Ok(store),
            false => Err(Error::Missing),
        }
    }

    fn at(place: &str) -> Result<Self, Error> {
        let (address, name) = split_name(place)?;
        let mut config: Config = address.parse().map_err(failed)?;
        config.connect_timeout(Duration::from_secs(10)).tcp_user_timeout(Duration::from_secs(30));
        let (idle, claim, token) = Default::default();
        Ok(Self { config, name: name.to_owned(), idle, claim, token })
    }

    /// Does something with a session of one's own.
    fn with<T>(&self, work: impl FnOnce(&mut Session) -> Result<T, Error>) -> Result<T, Error> {
        let idle = lock(&self.idle).pop();
        let mut session = match idle {
            Some(session) if !session.client.is_closed() => session,
            _ => Session::new(&self.config, &self.name).map_err(failed)?,
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

fn fresh_token() -> Vec<u8> {
    RandomState::new().hash_one(0u64).to_le_bytes().to_vec()
}

impl Store for PostgresStore {
    fn layout(&self) -> Layout {
        Layout::Clustered
    }

    fn claim(&self) -> Result<(), Error> {
        let mut session = Session::new(&self.config, &self.name).map_err(failed)?;
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
        let from = match after {
            Some(_) => "where (hi, key) > ($2, $3)",
            None => "",
        };
        let page = format!("select key, value from {name} {from} order by hi, key limit $1");
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&most];
        if let Some((hi, key)) = &after {
            values.extend([hi as &(dyn ToSql + Sync), key]);
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
