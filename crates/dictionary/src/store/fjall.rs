//! A store in a folder: a log-structured merge tree, for many writes, by the crate `fjall`.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom};
use std::ops::{Bound, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::{fmt, fs, io};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, LsmError, PersistMode, Readable, Snapshot};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use super::creation::{UnfinishedFile, sync_folder_of, unfinished};
use super::{Change, Entry, Layout, Store, split_hash_prefix, with_hash_prefix};
use crate::error::Error;

/// The size of the block cache in bytes.
const CACHE_BYTES: u64 = 64 << 20;
/// The longest key of the tree, less 8 bytes for `hi`.
const MAX_KEY_LEN: usize = u16::MAX as usize - 8;
/// The name of a file in a folder whose creation is unfinished.
const UNFINISHED: &str = "creating";
/// The name of a file that exists while the store is closed: the checksum of the files that `fjall` changes
/// while it is open, less the trees. 16 bytes, and 16 bytes of their own checksum.
///
/// `fjall` takes a batch of its journal that it cannot decode for one that was interrupted, and drops it and all
/// later batches. This file tells damage of a closed journal from an interrupted write.
const CLOSED: &str = "closed";

const JOURNAL: &str = "the journal is damaged";
const ENTRIES: &str = "a table file of the entries is damaged";
const INDEX: &str = "a table file of the index is damaged";
const META: &str = "a table file of the metadata is damaged";

/// A store in a folder, which is locked while it is open.
///
/// Every write is on disk when it returns. Keys have at most 65,527 bytes.
///
/// # Examples
///
/// ```
/// use tamis::Broom;
/// use tamis_dictionary::{Dictionary, Layout, Options, store::FjallStore};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("stock");
/// let store = FjallStore::create(&path, Layout::Clustered)?;
/// let stock = Dictionary::<Broom, _>::create(store, Options::default().with_keys(1000))?;
/// stock.put(b"apple", b"3")?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct FjallStore {
    layout: Layout,
    database: Database,
    entries: Keyspace,
    /// Present in the secondary layout.
    index: Option<Keyspace>,
    meta: Keyspace,
    /// After the database, which must be closed before its files are read.
    _closed: ClosedFile,
    /// A new folder until it is published. The last field, because the database must be closed before the
    /// folder is removed.
    new: Mutex<Option<NewFolder>>,
}

/// Writes the file [`CLOSED`] on drop.
struct ClosedFile(PathBuf);

impl Drop for ClosedFile {
    fn drop(&mut self) {
        let folder = &self.0;
        let write = || {
            let Some(_lock) = lock(folder)? else { return Ok(()) };
            let sum = checksum_of_files(folder, true)?.to_le_bytes();
            fs::write(folder.join(CLOSED), [sum, xxh3_128(&sum).to_le_bytes()].concat())
        };
        // Without the file, or with a part of it, the next session does not check the journal.
        let _: io::Result<()> = write();
    }
}

/// Takes the lock that `fjall` holds while the store is open. Returns `None` if the store is open.
fn lock(folder: &Path) -> io::Result<Option<File>> {
    let file = File::open(folder.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Returns the checksum of the version file and of the journals. With `sync`, writes them to the disk before.
fn checksum_of_files(folder: &Path, sync: bool) -> io::Result<u128> {
    let is_covered = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "jnl") || path.ends_with("version")
    };
    let paths =
        folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    let mut covered: Vec<PathBuf> = paths.into_iter().filter(is_covered).collect();
    covered.sort();
    let (mut sums, mut buffer) = (Vec::new(), vec![0; 1 << 20]);
    for path in covered {
        let mut file = File::open(&path)?;
        if sync {
            file.sync_all()?;
        }
        let mut hash = Xxh3Default::new();
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => hash.update(&buffer[..read]),
            }
        }
        sums.extend_from_slice(path.file_name().unwrap_or_default().as_encoded_bytes());
        sums.extend_from_slice(&hash.digest128().to_le_bytes());
    }
    Ok(xxh3_128(&sums))
}

/// Checks the files of a store that is not open. The errors of a store that is open, or of a folder without a
/// lock file, are those of `fjall`.
fn check_files(folder: &Path) -> Result<(), Error> {
    let Ok(Some(_lock)) = lock(folder) else { return Ok(()) };
    check_closed(folder)?;
    check_trees(folder)
}

/// Checks the files that [`CLOSED`] covers, and removes it durably before they change.
fn check_closed(folder: &Path) -> Result<(), Error> {
    let path = folder.join(CLOSED);
    let file = match fs::read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io_failed(error)),
    };
    if let Some((sum, own)) = file.split_first_chunk::<16>()
        && own == xxh3_128(sum).to_le_bytes()
        && checksum_of_files(folder, false).map_err(io_failed)? != u128::from_le_bytes(*sum)
    {
        return Err(Error::Corrupt { what: JOURNAL });
    }
    fs::remove_file(&path).and_then(|()| sync_folder_of(&path)).map_err(io_failed)
}

/// Opens a database.
fn open_database(path: &Path) -> Result<Database, Error> {
    // `fjall` panics at some damaged journals.
    let open = || Database::builder(path).cache_size(CACHE_BYTES).open().map_err(failed);
    let damaged = |_| Err(Error::Corrupt { what: JOURNAL });
    std::panic::catch_unwind(open).unwrap_or_else(damaged)
}

/// A new folder. Its contents are removed on drop unless it was published.
struct NewFolder {
    marker: Option<UnfinishedFile>,
    path: PathBuf,
    /// Whether the folder did not exist before.
    created: bool,
}

impl Drop for NewFolder {
    fn drop(&mut self) {
        let Some(marker) = self.marker.take() else { return };
        // If this fails, the marker stays or the folder is empty; either way the next creation succeeds.
        let cleared = clear(&self.path);
        if cleared.is_ok() {
            drop(marker);
            if self.created {
                let _ = fs::remove_dir(&self.path);
            }
        } else {
            std::mem::forget(marker);
        }
    }
}

/// Removes the contents of a folder except the marker of an unfinished creation.
fn clear(path: &Path) -> io::Result<()> {
    for entry in path.read_dir()? {
        let entry = entry?;
        if entry.file_name() == UNFINISHED {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

impl fmt::Debug for FjallStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallStore").field("layout", &self.layout).finish_non_exhaustive()
    }
}

impl FjallStore {
    /// Creates a folder.
    ///
    /// It contains a file `creating` until [`publish`](Store::publish), which
    /// [`Dictionary::create`](crate::Dictionary::create) calls. Before that it is removed on drop.
    ///
    /// # Errors
    ///
    /// Returns [`Error::AlreadyExists`] if the folder is not empty, [`Error::InUse`] if another process is
    /// creating it, and errors of `fjall`.
    pub fn create(path: impl AsRef<Path>, layout: Layout) -> Result<Self, Error> {
        let path = path.as_ref();
        let marker = path.join(UNFINISHED);
        let created = !path.exists();
        if !created {
            let mut contents = path.read_dir().map_err(io_failed)?;
            if contents.next().is_some() && !marker.exists() {
                return Err(Error::AlreadyExists);
            }
        }
        fs::create_dir_all(path).map_err(io_failed)?;
        let marker = UnfinishedFile::lock(marker).map_err(io_failed)?.ok_or(Error::InUse)?;
        let new = NewFolder { marker: Some(marker), path: path.to_owned(), created };
        // An interrupted creation may have left contents.
        clear(path).map_err(io_failed)?;
        let database = open_database(path)?;
        Self::new(database, layout, path, Some(new))
    }

    /// Opens an existing folder.
    ///
    /// # Errors
    ///
    /// Returns [`Error::NotFound`] if there is no such folder or it holds no store, [`Error::Unfinished`] if its
    /// creation was interrupted, [`Error::InUse`] if it is open, [`Error::Corrupt`] if a file is damaged, and
    /// errors of `fjall`.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Err(Error::NotFound);
        }
        let marker = path.join(UNFINISHED);
        if marker.exists() {
            return Err(unfinished(&marker));
        }
        check_files(path)?;
        let database = open_database(path)?;
        let layout =
            match (database.keyspace_exists("clustered"), database.keyspace_exists("entries")) {
                (true, _) => Layout::Clustered,
                (_, true) => Layout::Secondary,
                _ => return Err(Error::NotFound),
            };
        Self::new(database, layout, path, None)
    }

    fn new(
        database: Database,
        layout: Layout,
        path: &Path,
        new: Option<NewFolder>,
    ) -> Result<Self, Error> {
        // The dictionary's filter rejects most absent keys, so nearly every read finds its key. The tree
        // then needs no filters of its own at its lowest level, which would take most of their memory.
        let options = || KeyspaceCreateOptions::default().expect_point_read_hits(true);
        let open = |name| database.keyspace(name, options).map_err(failed);
        let (entries, index) = match layout {
            Layout::Clustered => (open("clustered")?, None),
            Layout::Secondary => (open("entries")?, Some(open("index")?)),
        };
        // The name of the keyspace is part of the file format.
        let meta = open("notes")?;
        let (_closed, new) = (ClosedFile(path.to_owned()), Mutex::new(new));
        Ok(Self { layout, entries, index, meta, database, _closed, new })
    }

    fn entry_key(&self, hi: u64, key: &[u8]) -> Vec<u8> {
        match self.layout {
            Layout::Clustered => with_hash_prefix(hi, key),
            // The prefix is needed because the tree supports no empty keys.
            Layout::Secondary => [&[0], key].concat(),
        }
    }
}

/// Checks the manifest of each tree and the lists of sections of its tables. `fjall` does not read the checksum
/// of a manifest, and reads that of a list too late: some damaged ones make it panic or allocate any amount.
fn check_trees(folder: &Path) -> Result<(), Error> {
    let Ok(trees) = folder.join("keyspaces").read_dir() else { return Ok(()) };
    for tree in trees {
        let tree = tree.map_err(io_failed)?.path();
        // The file `current` is the number of the manifest, its checksum, and the kind of checksum, which is 0.
        let current = fs::read(tree.join("current")).unwrap_or_default();
        let Ok(current) = <[u8; 25]>::try_from(current) else { continue };
        let number = u64::from_le_bytes(*current.first_chunk().expect("25 bytes"));
        let manifest = fs::read(tree.join(format!("v{number}"))).map_err(io_failed)?;
        if current[8..] != [&xxh3_128(&manifest).to_le_bytes()[..], &[0]].concat() {
            return Err(Error::Corrupt { what: "a manifest is damaged" });
        }
        for table in tree.join("tables").read_dir().into_iter().flatten() {
            let table = table.map_err(io_failed)?.path();
            let number = table.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
            // The manifest names every table that is used. A crash may leave others, of any contents.
            let is_used = number
                .is_some_and(|number| manifest.windows(8).any(|word| word == number.to_le_bytes()));
            if is_used && !has_sound_sections(&table).map_err(io_failed)? {
                return Err(Error::Corrupt {
                    what: "the list of sections of a table file is damaged",
                });
            }
        }
    }
    Ok(())
}

/// Returns whether the list of a table's sections matches its checksum.
fn has_sound_sections(table: &Path) -> io::Result<bool> {
    /// Magic number, version and kind of checksum; then checksum, position and length of the list.
    const TRAILER: u64 = 6 + 16 + 8 + 8;
    let mut file = File::open(table)?;
    let len = file.metadata()?.len();
    let mut trailer = [0; TRAILER as usize];
    file.seek(SeekFrom::Start(len.saturating_sub(TRAILER)))?;
    file.read_exact(&mut trailer)?;
    let word = |at: usize| u64::from_le_bytes(*trailer[at..].first_chunk().expect("38 bytes"));
    let (position, length) = (word(22), word(30));
    if position.checked_add(length).and_then(|end| end.checked_add(TRAILER)) != Some(len) {
        return Ok(false);
    }
    let mut list = Vec::new();
    file.seek(SeekFrom::Start(position))?;
    file.take(length).read_to_end(&mut list)?;
    Ok(xxh3_128(&list).to_le_bytes() == trailer[6..22])
}

fn io_failed(error: io::Error) -> Error {
    Error::store("fjall", error)
}

/// Returns the error of opening or writing.
fn failed(error: fjall::Error) -> Error {
    use fjall::Error as E;
    match error {
        E::Locked => Error::InUse,
        E::JournalRecovery(_) | E::InvalidTag(_) | E::InvalidTrailer | E::Decompress(_) => {
            Error::Corrupt { what: JOURNAL }
        }
        E::Unrecoverable => Error::Corrupt { what: "a file is missing or damaged" },
        error => read_failed("a table file or manifest is damaged")(error),
    }
}

/// Returns the error of reading from a tree, with the description of damage.
fn read_failed(what: &'static str) -> impl Fn(fjall::Error) -> Error {
    move |error| match error {
        fjall::Error::Io(error) | fjall::Error::Storage(LsmError::Io(error)) => io_failed(error),
        fjall::Error::Storage(_) => Error::Corrupt { what },
        error => Error::store("fjall", error),
    }
}

fn keys(
    (keyspace, what): (&Keyspace, &'static str),
    snapshot: &Snapshot,
    range: &RangeInclusive<u64>,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> Result<(), Error> {
    let from = Bound::Included(range.start().to_be_bytes());
    let to = range.end().checked_add(1);
    let to = to.map_or(Bound::Unbounded, |end| Bound::Excluded(end.to_be_bytes()));
    for entry in snapshot.range(keyspace, (from, to)) {
        let prefixed = entry.key().map_err(read_failed(what))?;
        let (hi, key) = split_hash_prefix(&prefixed);
        visit(hi, key);
    }
    Ok(())
}

impl Store for FjallStore {
    fn layout(&self) -> Layout {
        self.layout
    }

    fn max_key_len(&self) -> usize {
        MAX_KEY_LEN
    }

    /// Does nothing: the folder is locked while it is open.
    fn acquire(&self) -> Result<(), Error> {
        Ok(())
    }

    fn release(&self) {}

    fn publish(&self) -> Result<(), Error> {
        let Some(mut new) = self.new.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Ok(());
        };
        let Some(marker) = new.marker.take() else { return Ok(()) };
        let path = marker.path().to_owned();
        drop(marker);
        if path.exists() {
            return Err(io_failed(io::Error::other("the file `creating` could not be removed")));
        }
        sync_folder_of(&path).and_then(|()| sync_folder_of(&new.path)).map_err(io_failed)
    }

    fn get(&self, hi: u64, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let value = self.entries.get(self.entry_key(hi, key)).map_err(read_failed(ENTRIES))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn get_or_keys(
        &self,
        hi: u64,
        key: &[u8],
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<Option<Vec<u8>>, Error> {
        let snapshot = self.database.snapshot();
        let value = snapshot.get(&self.entries, with_hash_prefix(hi, key));
        let value = value.map_err(read_failed(ENTRIES))?;
        if value.is_none() {
            keys((&self.entries, ENTRIES), &snapshot, &range, visit)?;
        }
        Ok(value.map(|value| value.to_vec()))
    }

    fn keys(
        &self,
        range: RangeInclusive<u64>,
        visit: &mut dyn FnMut(u64, &[u8]),
    ) -> Result<(), Error> {
        let tree = self.index.as_ref().map_or((&self.entries, ENTRIES), |index| (index, INDEX));
        keys(tree, &self.database.snapshot(), &range, visit)
    }

    fn page(&self, after: Option<(u64, &[u8])>, limit: usize) -> Result<Vec<Entry>, Error> {
        let after = after.map(|(hi, key)| self.entry_key(hi, key));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range((from, Bound::Unbounded)).take(limit);
        let each = entries.map(|entry| {
            let (key, value) = entry.into_inner().map_err(read_failed(ENTRIES))?;
            let (hi, key) = match self.layout {
                Layout::Clustered => Some(split_hash_prefix(&key)).unzip(),
                Layout::Secondary => (None, key.get(1..)),
            };
            Ok(Entry::new(hi, key.unwrap_or_default().to_vec(), value.to_vec()))
        });
        each.collect()
    }

    fn apply(&self, changes: &[Change<'_>]) -> Result<Vec<bool>, Error> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        let mut existed = Vec::with_capacity(changes.len());
        // Whether the keys of this batch are present after its changes so far; the tree does not know yet.
        let mut in_batch = std::collections::HashMap::new();
        for change in changes {
            let Change { hi, key, value, is_new } = *change;
            let entry_key = self.entry_key(hi, key);
            let previous = match in_batch.insert(key, value.is_some()) {
                Some(previous) => previous,
                None if is_new => false,
                None => self.entries.contains_key(&entry_key).map_err(read_failed(ENTRIES))?,
            };
            existed.push(previous);
            match value {
                Some(value) => batch.insert(&self.entries, entry_key, value),
                None => batch.remove(&self.entries, entry_key),
            }
            if let Some(index) = &self.index {
                match value {
                    Some(_) => batch.insert(index, with_hash_prefix(hi, key), []),
                    None => batch.remove(index, with_hash_prefix(hi, key)),
                }
            }
        }
        batch.commit().map_err(failed)?;
        Ok(existed)
    }

    fn meta(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.meta.get(name).map_err(read_failed(META))?.map(|record| record.to_vec()))
    }

    fn set_meta(&self, records: &[(&str, &[u8])]) -> Result<(), Error> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for (name, record) in records {
            batch.insert(&self.meta, *name, *record);
        }
        batch.commit().map_err(failed)
    }

    /// Looks up every key. This also reads the parts of the tables that only lookups use.
    fn check(&self) -> Result<(), Error> {
        let trees = [
            (Some(&self.entries), ENTRIES),
            (self.index.as_ref(), INDEX),
            (Some(&self.meta), META),
        ];
        for (tree, what) in trees {
            for entry in tree.into_iter().flat_map(Keyspace::iter) {
                let key = entry.key().map_err(read_failed(what))?;
                let found = tree.map_or(Ok(true), |tree| tree.contains_key(&key));
                if !found.map_err(read_failed(what))? {
                    return Err(Error::Corrupt { what });
                }
            }
        }
        Ok(())
    }
}
