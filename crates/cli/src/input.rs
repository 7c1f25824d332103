//! Reads files of keys.
//!
//! A file is read in blocks, so it may be larger than memory. Each block is cut after its last whole
//! line, and the rest is copied to the start of the next block. The lines of a block are a [`Batch`].
//!
//! With several threads no thread only reads. The workers take turns at the reader, which is behind
//! a lock: a worker reads a block into its own buffer, queues a receiver for its result, unlocks the
//! reader and then maps the block. Receivers are queued in the order of the input, so results come
//! out in that order without sorting. The bounded queue limits the results that wait, and the number
//! of workers limits the blocks in memory.

use std::fs::{self, File};
use std::io::{self, Cursor, ErrorKind, Read, Seek};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

use anyhow::{Result, bail};
use memchr::{memchr_iter, memrchr};

use crate::errors::failure;

/// The length limit of a line, which bounds the memory of a block.
pub(crate) const MAX_KEY: usize = 16 << 20;

/// The block size: large enough that locking costs nothing, small enough that a block is still in the
/// processor's cache when it is split.
const BLOCK: usize = 1 << 20;

/// The separator of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separator {
    /// A line feed. One carriage return before it is not part of the key.
    Newline,
    /// A zero byte.
    Nul,
    /// None: keys are 64-bit integers, 8 bytes each, little-endian.
    U64,
}

impl Separator {
    /// Returns the byte that ends a key, or `None` for integers.
    pub(crate) fn byte(self) -> Option<u8> {
        match self {
            Self::Newline => Some(b'\n'),
            Self::Nul => Some(0),
            Self::U64 => None,
        }
    }

    /// Returns the end of the last whole line of `data`, or 0 if there is none. No line ends before
    /// `from`.
    fn cut(self, data: &[u8], from: usize) -> usize {
        match self.byte() {
            Some(byte) => memrchr(byte, &data[from..]).map_or(0, |at| from + at + 1),
            None => data.len() - data.len() % 8,
        }
    }

    fn count(self, data: &[u8]) -> u64 {
        let count = match self.byte() {
            Some(byte) => memchr_iter(byte, data).count(),
            None => data.len() / 8,
        };
        count as u64
    }
}

/// The key files of one command, in order.
#[derive(Debug)]
pub(crate) struct Keys {
    sources: Vec<Source>,
    separator: Separator,
    block: usize,
}

impl Keys {
    /// Opens the files. `-` and an empty list are standard input.
    ///
    /// With `again` the keys can be read more than once: a pipe is first copied to an unnamed
    /// temporary file.
    pub(crate) fn open(paths: &[PathBuf], separator: Separator, again: bool) -> Result<Self> {
        let stdin = [PathBuf::from("-")];
        let paths = if paths.is_empty() { &stdin } else { paths };
        let sources = paths.iter().map(|path| Source::open(path, again)).collect::<Result<_>>()?;
        Ok(Self { sources, separator, block: BLOCK })
    }

    /// Returns the size of all sources on disk, or `None` if one of them is a pipe.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.sources.iter().map(|source| source.bytes).sum()
    }

    /// Calls `map` with every batch on `threads` threads, and `sink` with each result on the calling
    /// thread, in the order of the input.
    ///
    /// An error of the reader or of `sink` ends the work after the batches in progress.
    pub(crate) fn each_batch<T: Send>(
        &self,
        threads: usize,
        map: impl Fn(&Batch<'_>) -> T + Sync,
        mut sink: impl FnMut(T) -> Result<()>,
    ) -> Result<()> {
        self.pull(threads, map, |next| {
            while let Some(result) = next()? {
                sink(result)?;
            }
            Ok(())
        })
    }

    /// Works as [`Keys::each_batch`], but `consume` pulls the results: it receives a function that
    /// returns the next result, or `None` at the end.
    pub(crate) fn pull<T: Send, R>(
        &self,
        threads: usize,
        map: impl Fn(&Batch<'_>) -> T + Sync,
        consume: impl FnOnce(&mut dyn FnMut() -> Result<Option<T>>) -> R,
    ) -> R {
        let mut reader = Reader::new(self);
        if threads <= 1 {
            let mut buffer = Vec::new();
            return consume(&mut || Ok(reader.next(&mut buffer)?.map(|batch| map(&batch))));
        }

        let reader = Mutex::new(Some(reader));
        let (queue, promises) = sync_channel(2 * threads);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    let queue = queue.clone();
                    scope.spawn(|| work(&reader, queue, &map))
                })
                .collect();
            drop(queue);
            let outcome = consume(&mut || match promises.recv() {
                // The sender is dropped only by a panic, which the join below resumes.
                Ok(promise) => Ok(promise?.recv().ok()),
                Err(_) => Ok(None),
            });
            // Workers stop when the queue is closed.
            drop(promises);
            for worker in workers {
                if let Err(panic) = worker.join() {
                    resume_unwind(panic);
                }
            }
            outcome
        })
    }
}

/// The receiver of a result, or the error that ended the reading.
type Promise<T> = Result<Receiver<T>>;

/// Runs one worker until the reader is at its end or the queue is closed.
fn work<T>(
    reader: &Mutex<Option<Reader<'_>>>,
    queue: SyncSender<Promise<T>>,
    map: impl Fn(&Batch<'_>) -> T,
) {
    let mut buffer = Vec::new();
    // The lock is poisoned only if another worker panicked; its join resumes the panic.
    while let Ok(mut turn) = reader.lock()
        && let Some(reader) = turn.as_mut()
    {
        match reader.next(&mut buffer) {
            Ok(Some(batch)) => {
                let (answer, promise) = sync_channel(1);
                // Queued before the reader is unlocked, which keeps the order.
                if queue.send(Ok(promise)).is_ok() {
                    drop(turn);
                    // Fails only if the queue is closed, which the next `queue.send` reports.
                    let _ = answer.send(map(&batch));
                    continue;
                }
            }
            Ok(None) => {}
            Err(error) => drop(queue.send(Err(error))),
        }
        // No other worker may use a reader that failed, or wait for more of a pipe.
        *turn = None;
    }
}

#[derive(Debug)]
struct Source {
    name: String,
    origin: Origin,
    /// `None` for a pipe, a terminal or a device.
    bytes: Option<u64>,
}

#[derive(Debug)]
enum Origin {
    Stdin,
    Path(PathBuf),
    Copy(File),
}

impl Source {
    fn open(path: &Path, again: bool) -> Result<Self> {
        let mut source = if path == Path::new("-") {
            Self { name: "standard input".into(), origin: Origin::Stdin, bytes: None }
        } else {
            let name = path.display().to_string();
            let metadata = fs::metadata(path).map_err(|error| failure(&name, &error))?;
            if metadata.is_dir() {
                bail!("{name}: is a directory");
            }
            let bytes = metadata.is_file().then_some(metadata.len());
            Self { name, origin: Origin::Path(path.into()), bytes }
        };
        if source.bytes.is_some() {
            // An unreadable file is reported now, not after the files before it. A pipe is not
            // tried, because its writer would see a reader open and close it.
            source.raw().map_err(|error| failure(&source.name, &error))?;
        } else if again {
            let copy = source.raw().and_then(spool);
            let what = format!("{}: copying to a temporary file", source.name);
            let (file, bytes) = copy.map_err(|error| failure(&what, &error))?;
            (source.origin, source.bytes) = (Origin::Copy(file), Some(bytes));
        }
        Ok(source)
    }

    fn raw(&self) -> io::Result<Box<dyn Read + Send + '_>> {
        Ok(match &self.origin {
            Origin::Stdin => Box::new(io::stdin()),
            Origin::Path(path) => Box::new(File::open(path)?),
            Origin::Copy(file) => {
                let mut file = file;
                file.rewind()?;
                Box::new(file)
            }
        })
    }

    /// Returns a reader of the decompressed bytes, without the byte order mark of a text. Bytes read
    /// from disk are added to `taken`.
    fn decoded(
        &self,
        separator: Separator,
        taken: Arc<AtomicU64>,
    ) -> io::Result<Box<dyn Read + Send + '_>> {
        let mut raw = Counted { raw: self.raw()?, taken };
        let undecided = |head: &[u8]| starts(GZIP, head) || head.len() < 4 && is_zstd_prefix(head);
        let head = peek(&mut raw, undecided)?;
        let (gzip, zstd) = (head == GZIP, head.len() == 4 && is_zstd_prefix(&head));
        let whole = Cursor::new(head).chain(raw);
        let mut bytes: Box<dyn Read + Send> = if gzip {
            Box::new(flate2::read::MultiGzDecoder::new(whole))
        } else if zstd {
            Box::new(zstd::Decoder::new(whole)?)
        } else {
            Box::new(whole)
        };
        if separator == Separator::U64 {
            return Ok(bytes);
        }
        let head = peek(&mut bytes, |head| starts(BYTE_ORDER_MARK, head))?;
        let rest = if head == BYTE_ORDER_MARK { Vec::new() } else { head };
        Ok(Box::new(Cursor::new(rest).chain(bytes)))
    }
}

/// The first bytes of a gzip file: its magic number and the only method of compression.
const GZIP: &[u8] = &[0x1f, 0x8b, 8];
/// The byte order mark that some editors write at the start of UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// Returns whether `head` is the start of `mark`, without being the whole.
fn starts(mark: &[u8], head: &[u8]) -> bool {
    head.len() < mark.len() && mark.starts_with(head)
}

/// Returns whether a zstd file, which starts with a frame or a skippable frame, may start with `head`.
fn is_zstd_prefix(head: &[u8]) -> bool {
    let skippable = [*head.first().unwrap_or(&0x50) & 0xf0, 0x2a, 0x4d, 0x18];
    [0x28, 0xb5, 0x2f, 0xfd].starts_with(head)
        || skippable[0] == 0x50 && skippable[1..].starts_with(head.get(1..).unwrap_or(&[]))
}

/// Reads the first bytes one by one while they are `undecided`. A pipe whose first byte is text is read
/// no further: its writer may wait for an answer.
fn peek(from: &mut impl Read, undecided: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while undecided(&head) {
        let mut byte = [0];
        match from.read(&mut byte) {
            Ok(0) => break,
            Ok(_) => head.push(byte[0]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(head)
}

/// Calls `read` with the name and the decompressed bytes of a file, or of standard input if `path` is
/// `-`.
pub(crate) fn read_one<T>(
    path: &Path,
    read: impl FnOnce(&str, &mut dyn Read) -> Result<T>,
) -> Result<T> {
    let source = Source::open(path, false)?;
    let bytes = source.decoded(Separator::Newline, Arc::default());
    read(&source.name, &mut bytes.map_err(|error| failure(&source.name, &error))?)
}

fn spool(mut input: impl Read) -> io::Result<(File, u64)> {
    let mut file = tempfile::tempfile()?;
    let bytes = io::copy(&mut input, &mut file)?;
    Ok((file, bytes))
}

struct Counted<R> {
    raw: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.raw.read(buffer)?;
        self.taken.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Reads all sources, one after the other.
struct Reader<'k> {
    keys: &'k Keys,
    rest: slice::Iter<'k, Source>,
    stream: Option<Stream<'k>>,
    taken: Arc<AtomicU64>,
}

impl<'k> Reader<'k> {
    fn new(keys: &'k Keys) -> Self {
        Self { keys, rest: keys.sources.iter(), stream: None, taken: Arc::default() }
    }

    /// Reads the next batch into `buffer`. Returns `None` at the end of the last source.
    fn next<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<Option<Batch<'b>>>
    where
        'k: 'b,
    {
        let separator = self.keys.separator;
        loop {
            if let Some(stream) = &mut self.stream {
                let end = stream.fill(buffer, separator, self.keys.block)?;
                if end > 0 {
                    let data = &buffer[..end];
                    let first_line = stream.line;
                    stream.line += separator.count(data);
                    let read = self.taken.swap(0, Ordering::Relaxed);
                    let name = &stream.source.name;
                    return Ok(Some(Batch { name, first_line, separator, data, read }));
                }
            }
            let Some(source) = self.rest.next() else { return Ok(None) };
            let bytes = source.decoded(separator, self.taken.clone());
            let bytes = bytes.map_err(|error| failure(&source.name, &error))?;
            self.stream = Some(Stream { source, bytes, line: 1, carry: Vec::new(), ended: false });
        }
    }
}

/// One source being read.
struct Stream<'k> {
    source: &'k Source,
    bytes: Box<dyn Read + Send + 'k>,
    /// The number of the next line, from 1.
    line: u64,
    /// The part of that line that was read with the last block.
    carry: Vec<u8>,
    /// Whether the end was reached. Reading a terminal again would wait for a second end.
    ended: bool,
}

impl Stream<'_> {
    /// Reads a block and returns the end of its last whole line, or 0 at the end of the source.
    fn fill(&mut self, buffer: &mut Vec<u8>, separator: Separator, block: usize) -> Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let name = &self.source.name;
        let mut filled = self.carry.len();
        let mut searched = filled;
        buffer.resize(block.max(filled + 1), 0);
        buffer[..filled].copy_from_slice(&self.carry);
        self.carry.clear();
        loop {
            match self.bytes.read(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failure(name, &error)),
            }
            // The lines of a pipe are returned as they come: its writer may wait for the answer
            // before it writes the next line.
            let full = filled == buffer.len();
            if full || self.source.bytes.is_none() {
                let end = separator.cut(&buffer[..filled], searched);
                if end > 0 {
                    self.carry.extend_from_slice(&buffer[end..filled]);
                    return Ok(end);
                }
                searched = filled;
            }
            if full {
                // The buffer holds one unfinished line.
                if filled > MAX_KEY {
                    bail!("{name}:{}: the line is longer than {} MiB", self.line, MAX_KEY >> 20);
                }
                buffer.resize((2 * filled).min(MAX_KEY + 1), 0);
            }
        }
        self.ended = true;
        if separator == Separator::U64 && !filled.is_multiple_of(8) {
            let bytes = 8 * (self.line - 1) + filled as u64;
            bail!("{name}: the size of {bytes} bytes is not a multiple of 8");
        }
        Ok(filled)
    }
}

/// Formats a key for a message: a raw integer in decimal, text quoted and escaped, its first 40
/// characters.
pub(crate) fn show_key(separator: Separator, key: &[u8]) -> String {
    match (separator, key.as_array()) {
        (Separator::U64, Some(word)) => u64::from_le_bytes(*word).to_string(),
        _ => {
            let text = String::from_utf8_lossy(key);
            let start: String = text.chars().take(40).collect();
            let more = if start.len() < text.len() { "..." } else { "" };
            format!("{start:?}{more}")
        }
    }
}

/// Whole lines of one source, at least one.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    name: &'a str,
    first_line: u64,
    separator: Separator,
    data: &'a [u8],
    read: u64,
}

/// A line without its separator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    /// The whole line, with a carriage return if it has one.
    pub(crate) raw: &'a [u8],
    /// The key, empty if the line has none.
    pub(crate) key: &'a [u8],
}

impl Batch<'_> {
    /// Returns every line. Panics for [`Separator::U64`].
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        let byte = self.separator.byte().expect("raw integers have no lines");
        let unended = self.data.last().is_some_and(|&last| last != byte);
        let ends = memchr_iter(byte, self.data).chain(unended.then_some(self.data.len()));
        let returns = self.separator == Separator::Newline;
        let mut start = 0;
        ends.map(move |end| {
            let raw = &self.data[start..end];
            start = end + 1;
            let key = if returns { raw.strip_suffix(b"\r").unwrap_or(raw) } else { raw };
            Line { raw, key }
        })
    }

    /// Returns the bytes of the batch.
    pub(crate) fn data(&self) -> &[u8] {
        self.data
    }

    /// Returns the separator.
    pub(crate) fn separator(&self) -> Separator {
        self.separator
    }

    /// Returns the key of every line that has one.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.lines().map(|line| line.key).filter(|key| !key.is_empty())
    }

    /// Returns the keys of [`Separator::U64`].
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        self.data.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word))
    }

    /// Calls `each` with every line and the byte that ends it. Integers are written in decimal.
    pub(crate) fn each_line(&self, mut each: impl FnMut(&[u8], u8)) {
        match self.separator.byte() {
            Some(end) => self.lines().for_each(|line| each(line.raw, end)),
            None => self.words().for_each(|word| each(word.to_string().as_bytes(), b'\n')),
        }
    }

    /// Returns the name of the source for messages.
    pub(crate) fn name(&self) -> &str {
        self.name
    }

    /// Returns the number of the first line or integer in its source, from 1.
    pub(crate) fn first_line(&self) -> u64 {
        self.first_line
    }

    /// Returns the bytes read from disk for this batch, to advance a progress bar.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use tempfile::TempDir;

    use super::*;
    use Separator::{Newline, Nul, U64};

    /// Files in a temporary folder, which is deleted with the value.
    struct Files(TempDir, Vec<PathBuf>);

    fn files(files: &[(&str, &[u8])]) -> Files {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let paths = files.iter().map(|(name, _)| path(name)).collect();
        files.iter().for_each(|(name, content)| fs::write(path(name), content).unwrap());
        Files(directory, paths)
    }

    impl Files {
        fn keys(&self, separator: Separator, block: usize) -> Keys {
            Keys { block, ..Keys::open(&self.1, separator, false).unwrap() }
        }

        /// Returns the error of opening or reading, without the folder of the file that it names.
        fn error(&self, separator: Separator) -> String {
            let read = |keys: Keys| keys.each_batch(2, |_| (), Ok);
            let error = Keys::open(&self.1, separator, false).and_then(read).unwrap_err();
            let directory = self.0.path().join("").display().to_string();
            format!("{error:#}").strip_prefix(&directory).expect("names the file").to_owned()
        }
    }

    fn collect<T: Send>(
        keys: &Keys,
        threads: usize,
        map: impl Fn(&Batch<'_>) -> T + Sync,
    ) -> Vec<T> {
        let mut all = Vec::new();
        let sink = |result| {
            all.push(result);
            Ok(())
        };
        keys.each_batch(threads, map, sink).unwrap();
        all
    }

    type Lines = Vec<(Vec<u8>, Vec<u8>)>;

    fn lines(keys: &Keys, threads: usize) -> Lines {
        let batches = collect(keys, threads, |batch| {
            let lines = batch.lines().map(|line| (line.raw.to_vec(), line.key.to_vec()));
            (batch.first_line(), lines.collect::<Lines>())
        });
        let mut all = Lines::new();
        for (first, lines) in batches {
            assert!(!lines.is_empty());
            assert_eq!(first, all.len() as u64 + 1);
            all.extend(lines);
        }
        all
    }

    fn keys(keys: &Keys) -> Vec<String> {
        let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
        collect(keys, 2, |batch| batch.keys().map(text).collect::<Vec<_>>()).concat()
    }

    fn gzip(data: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn every_block_size_gives_the_lines_of_a_naive_split() {
        let mut text = Vec::new();
        for i in 0..200_usize {
            let line = i * i % 13;
            text.extend((0..line).map(|at| 128 + (i + at) as u8 % 100));
            text.extend_from_slice([&b"\n"[..], b"\r\n", b"\0", b"\r\r\n"][i % 7 % 4]);
        }
        for data in [&text[..], b"", b"a", b"\n", b"\n\n", b"\r", b"a\r\nb\r", b"a\0\0b\0"] {
            let file = files(&[("keys", data)]);
            for separator in [Newline, Nul] {
                let byte = separator.byte().unwrap();
                let mut expected: Lines = data
                    .split(|&b| b == byte)
                    .map(|raw| {
                        let returns = separator == Newline && raw.ends_with(b"\r");
                        (raw.to_vec(), raw[..raw.len() - usize::from(returns)].to_vec())
                    })
                    .collect();
                expected.pop_if(|(raw, _)| raw.is_empty());
                for block in (1..40).chain([BLOCK]) {
                    for threads in [1, 2, 3, 5] {
                        assert_eq!(lines(&file.keys(separator, block), threads), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn integers_are_eight_bytes_each() {
        let words: Vec<u64> =
            (0..100).map(|i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let file = files(&[("keys.u64", &data)]);
        for block in [1, 8, 9, 23, 64, BLOCK] {
            let batches =
                collect(&file.keys(U64, block), 3, |batch| batch.words().collect::<Vec<_>>());
            assert_eq!(batches.concat(), words);
        }
        let odd = files(&[("keys.u64", &data[..13])]);
        assert_eq!(odd.error(U64), "keys.u64: the size of 13 bytes is not a multiple of 8");
    }

    #[test]
    fn a_key_never_spans_two_files_and_empty_lines_are_no_keys() {
        let three = files(&[("a", b"one\n\r\n\ntwo"), ("b", b""), ("c", b"\nthree\n")]);
        for block in [1, 4, BLOCK] {
            assert_eq!(keys(&three.keys(Newline, block)), ["one", "two", "three"]);
        }
        let seen = collect(&three.keys(Newline, BLOCK), 2, |batch| {
            (batch.name().to_owned(), batch.first_line())
        });
        let name = |at: usize| three.1[at].display().to_string();
        assert_eq!(seen, [(name(0), 1), (name(2), 1)]);
    }

    #[test]
    fn compressed_files_may_have_several_parts() {
        let zip = [gzip(b"one\ntw"), gzip(b"o\nthree")].concat();
        let zst = |data: &[u8]| zstd::encode_all(data, 1).unwrap();
        let zst = [zst(b"four\nfi"), zst(b"ve\n")].concat();
        let both = files(&[("a.GZ", &zip), ("b.zst", &zst)]);
        let opened = both.keys(Newline, 5);
        assert_eq!(keys(&opened), ["one", "two", "three", "four", "five"]);
        let read = collect(&opened, 2, |batch| Some(batch.read_bytes())).into_iter().sum();
        assert_eq!(opened.bytes(), read);
        assert_eq!(read, Some((zip.len() + zst.len()) as u64));
    }

    #[test]
    fn errors_name_the_file_in_one_line() {
        let half = &gzip(b"one\ntwo\n")[..20];
        assert_eq!(files(&[("half.gz", half)]).error(Newline), "half.gz: unexpected end of file");
        let bad = files(&[("bad.gz", b"\x1f\x8b\x08\xff\0\0\0\0\0\0")]).error(Newline);
        assert!(bad.starts_with("bad.gz: "), "{bad}");
        let half = &zstd::encode_all(&b"one\ntwo\n"[..], 1).unwrap()[..12];
        assert_eq!(files(&[("half.zst", half)]).error(Newline), "half.zst: incomplete frame");

        let mut missing = files(&[]);
        missing.1 = vec![missing.0.path().join("keys.txt")];
        assert_eq!(missing.error(Newline), "keys.txt: No such file or directory");
        fs::create_dir(&missing.1[0]).unwrap();
        assert_eq!(missing.error(Newline), "keys.txt: is a directory");
    }

    #[test]
    fn a_line_may_be_long_but_not_endless() {
        let mut data = b"one\ntwo\n".to_vec();
        data.resize(data.len() + MAX_KEY, b'x');
        let longest = files(&[("keys", &data)]);
        assert_eq!(keys(&longest.keys(Newline, BLOCK))[2].len(), MAX_KEY);
        data.extend_from_slice(b"x\nfour");
        let error = files(&[("keys", &data)]).error(Newline);
        assert_eq!(error, "keys:3: the line is longer than 16 MiB");
    }

    #[test]
    fn an_error_of_the_sink_ends_the_work() {
        let file = files(&[("keys", &b"key\n".repeat(100_000))]);
        for threads in [1, 2, 5] {
            let (mapped, mut sunk) = (AtomicU64::new(0), 0);
            let map = |_: &Batch<'_>| mapped.fetch_add(1, Ordering::Relaxed);
            let sink = |_| {
                sunk += 1;
                if sunk == 3 { Err(anyhow::anyhow!("enough")) } else { Ok(()) }
            };
            let error = file.keys(Newline, 8).each_batch(threads, map, sink).unwrap_err();
            assert_eq!((error.to_string().as_str(), sunk), ("enough", 3));
            assert!(mapped.into_inner() <= 3 + 4 * threads as u64);
        }
    }

    #[test]
    #[should_panic(expected = "the third")]
    fn a_panic_of_a_worker_is_the_caller_s() {
        let file = files(&[("keys", &b"key\n".repeat(100_000))]);
        let map = |batch: &Batch<'_>| assert!(batch.first_line() != 3, "the third");
        file.keys(Newline, 4).each_batch(2, map, Ok).unwrap();
    }

    #[test]
    fn a_copy_is_read_again_and_again() {
        let (file, bytes) = spool(&b"one\ntwo"[..]).unwrap();
        let source = Source { name: "-".into(), origin: Origin::Copy(file), bytes: Some(bytes) };
        let copied = Keys { sources: vec![source], separator: Newline, block: BLOCK };
        assert_eq!(copied.bytes(), Some(7));
        assert_eq!(keys(&copied), ["one", "two"]);
        assert_eq!(keys(&copied), ["one", "two"]);
    }

    #[test]
    fn the_lines_of_a_pipe_do_not_wait_for_more() {
        let source = Source { name: "-".into(), origin: Origin::Stdin, bytes: None };
        let (pipe, mut writer) = io::pipe().unwrap();
        let bytes = Box::new(pipe);
        let mut stream = Stream { source: &source, bytes, line: 1, carry: vec![], ended: false };
        let mut buffer = Vec::new();
        for (written, got) in [("one\ntw", "one\n"), ("o\nthree\nfo", "two\nthree\n")] {
            writer.write_all(written.as_bytes()).unwrap();
            let end = stream.fill(&mut buffer, Newline, BLOCK).unwrap();
            assert_eq!(&buffer[..end], got.as_bytes());
        }
        drop(writer);
        assert_eq!(stream.fill(&mut buffer, Newline, BLOCK).unwrap(), 2);
        assert_eq!(stream.fill(&mut buffer, Newline, BLOCK).unwrap(), 0);
    }
}
