//! Memory, as counted by the allocator.
//!
//! A test binary that makes [`Counting`] its global allocator can measure what a thread holds.
//! Counts are per thread, so that tests can run in parallel.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tamis::{
    AnyFilter, BuildOptions, Capability, Error, HashId, KeyHasher, Keyed, Kind, Limits, Settings,
    Shape, Sizing,
};

use crate::files::{golden, hostile};
use crate::keys::Form;
use crate::members::{bytes, shape};
use crate::{Effort, Subject, variants};

thread_local! {
    static HELD: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
}

/// The system's allocator with counts.
#[derive(Debug)]
pub struct Counting;

fn note(bytes: i64) {
    HELD.set(HELD.get() + bytes);
    PEAK.set(PEAK.get().max(HELD.get()));
}

// SAFETY: every call is passed unchanged to the system's allocator. The counts do not touch its
// memory, and their cells need neither an allocation nor a destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: the caller keeps this function's contract, which is the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        note(-(layout.size() as i64));
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as i64 - layout.size() as i64);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

/// Returns the result of `make` and the bytes that it holds.
fn held<T>(make: impl FnOnce() -> T) -> (T, u64) {
    let before = HELD.get();
    let made = make();
    (made, u64::try_from(HELD.get() - before).expect("nothing else is freed"))
}

/// The most bytes that this thread held while `work` ran, above what it held before. It is 0 unless
/// [`Counting`] is the global allocator.
pub fn peak(work: impl FnOnce()) -> u64 {
    let before = HELD.get();
    PEAK.set(before);
    work();
    (PEAK.get() - before) as u64
}

/// Compares memory with the shape's figures, exactly: empty and full, built and read, for tables
/// below the size from which they are mapped.
pub fn memory_is_what_the_shape_states<F: Subject>() {
    if F::KIND.can(Capability::Grow) {
        return memory_is_what_a_filter_says::<F>();
    }
    let hasher = KeyHasher::new(HashId::Fast, [41, 42]);
    for (number, settings) in variants::<F::Shape>().into_iter().enumerate() {
        // With the first settings, the defaults, a kind that is slow to build is built for all sizes.
        let is_slow = F::KIND.is_slow_to_build() && number > 0 && Effort::now() == Effort::Quick;
        let most = if is_slow { 1000 } else { 100_000 };
        for keys in [0, 1, 2, 63, 64, 65, 1000, 100_000].into_iter().filter(|keys| *keys <= most) {
            for fpr in [0.3, 0.01, 1e-4] {
                let Some(shape) = shape::<F>(keys, fpr, &settings) else { continue };
                let stated = shape.figures().bytes;
                if stated >= 4 << 20 {
                    continue;
                }
                let members = Form::Integers.hashes(&hasher, 0, keys);
                for members in [&[][..], &members] {
                    let shape = shape.clone();
                    let (filter, built) = held(|| F::build(shape, members).expect("room"));
                    assert_eq!(built, stated, "built: {:?} with {keys} keys", filter.shape());
                    let file = bytes(&Keyed::new(hasher, filter));
                    let (filter, read) = held(|| {
                        Keyed::<F>::read_from(&file[..], &Limits::default()).expect("sound")
                    });
                    assert_eq!(read, stated, "read: {:?}", filter.filter().shape());
                }
            }
        }
    }
}

/// Compares memory with the figures of a filter that grows, built and read. The lists of its parts
/// are not in the figures; they take less than `LISTS` bytes.
fn memory_is_what_a_filter_says<F: Subject>() {
    const LISTS: u64 = 4096;
    let hasher = KeyHasher::new(HashId::Fast, [41, 42]);
    for settings in variants::<F::Shape>() {
        for (first, keys) in [(1, 1), (1, 3000), (300, 1000), (1000, 100_000), (90_000, 100_000)] {
            let members = Form::Integers.hashes(&hasher, 0, keys);
            let sizing = Sizing::fpr(0.01).capacity(first).settings(settings.clone());
            let build = || F::KIND.build(&sizing, &mut &members[..], &BuildOptions::new());
            let (filter, built) = held(|| build().expect("it grows"));
            let said = filter.figures().bytes;
            assert!((said..said + LISTS).contains(&built), "{built} bytes built, {said} stated");
            let file = bytes(&Keyed::new(hasher, filter));
            let (filter, read) = held(|| {
                Keyed::<AnyFilter>::read_from(&file[..], &Limits::default()).expect("sound")
            });
            let said = filter.filter().figures().bytes;
            assert!((said..said + LISTS).contains(&read), "{read} bytes read, {said} stated");
        }
    }
}

/// Checks that a hostile file costs at most twice its length plus a constant: a section that is
/// promised but missing may cost up to the size from which tables are mapped lazily.
pub fn hostile_files_take_no_memory<F: Subject>() {
    const LAZY: u64 = 4 << 20;
    let mut most = 0;
    for bytes in hostile(&golden(F::KIND), 43) {
        let peak = peak(|| drop(Keyed::<AnyFilter>::read_from(&bytes[..], &Limits::default())));
        most = most.max(peak);
        let allowed = 2 * bytes.len() as u64 + LAZY;
        assert!(peak <= allowed, "{peak} bytes for a file of {}", bytes.len());
    }
    assert!(most > 0, "the allocator does not count");
}

/// Checks that a build takes no more memory than its limit, from the table alone to plenty, and that its bytes do
/// not depend on it. A limit that is too low is an error, and one of the next limits that it names suffices.
pub fn builds_keep_their_memory_limit<F: Subject>() {
    // xorsat reserves the square of a block, of which it uses less than a half. Other memory is not touched.
    let slack = if F::KIND == Kind::XorSat { 3 << 20 } else { 16 << 10 };
    let keys = if F::KIND.is_slow_to_build() { 300 } else { 100_000 };
    let hasher = KeyHasher::new(HashId::Fast, [45, 46]);
    let Some(shape) = shape::<F>(keys, 0.01, &Settings::default()) else { return };
    let members = Form::Integers.hashes(&hasher, 0, keys);
    let sizing = Sizing::fpr(0.01).capacity(keys);
    let build = |options: &BuildOptions<'_>| F::KIND.build(&sizing, &mut &members[..], options);
    let free = build(&BuildOptions::new()).expect("no limit");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let stated = shape.figures().bytes;
    for limit in [stated / 2, stated, stated + 9 * keys, stated + 30 * keys, stated + (40 << 20)] {
        let mut limit = limit;
        for attempt in 0.. {
            let options = BuildOptions::new().max_memory(limit, folder.path());
            let mut built = None;
            let peak = peak(|| built = Some(build(&options)));
            match built.expect("it was called") {
                Ok(filter) => {
                    assert!(limit >= stated, "{limit} bytes suffice for a table of {stated}");
                    assert!(peak <= limit + slack, "{peak} bytes, limited to {limit}");
                    assert!(filter == free, "other bytes within {limit} bytes");
                    break;
                }
                Err(Error::MemoryLimit { limit: told, needs }) => {
                    assert!(needs > told, "{needs} bytes needed within {told}");
                    assert!(attempt < 3, "{needs} bytes do not suffice");
                    limit = needs.max(limit + 1);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Checks that the allocator counts allocated and freed bytes.
pub fn the_allocator_counts() {
    let (vector, bytes) = held(|| vec![0u8; 12_345]);
    assert_eq!(bytes, 12_345);
    assert_eq!(peak(|| drop(vector)), 0);
}
