//! Tests every registered filter with a counting allocator.

use tamis::{AnyFilter, KeyHash, Keyed};
use tamis_conformance::allocation::{self, Counting};
use tamis_interop::{Foreign, Format};
use tamis_ksat::{Clauses, Fault, Formula, Settings, Watch, solve};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn the_allocator_counts() {
    allocation::the_allocator_counts();
}

/// Reading and solving a formula takes no more memory than it states, nor much less.
#[test]
fn formulas_take_the_memory_that_they_state() {
    let random = |k, vars, clauses| Formula::random(Clauses::Or, k, vars, clauses, 7).unwrap();
    let mut units = random(3, 20_000, 40_000);
    (1..5000).for_each(|name| units.add(&[name]).unwrap());
    let formulas = [
        ("easy", random(3, 20_000, 60_000)),
        ("by surveys", random(3, 5000, 20_900)),
        ("of long clauses", random(40, 2000, 20_000)),
        ("with unit clauses", units),
        ("with unused variables", random(2, 300_000, 20_000)),
    ];
    for (name, formula) in formulas {
        let mut file = Vec::new();
        formula.write(&mut file).unwrap();
        drop(formula);
        let mut stated = 0;
        let peak = allocation::peak(|| {
            let formula = Formula::read(&file[..]).unwrap();
            stated = formula.memory_bytes();
            let settings = Settings { flips: 20_000, ..Settings::default() };
            drop(solve(&formula, &settings, &Watch::default()));
        });
        assert!((stated / 10..=stated).contains(&peak), "{name}: {peak} bytes, {stated} stated");
        let short = Formula::read_within(&file[..], stated - 1).unwrap_err();
        assert!(matches!(short.what, Fault::MemoryLimit { .. }), "{short}");
        assert!(Formula::read_within(&file[..], stated).is_ok());
    }
}

/// Files of other programs with a table of 1 MiB: a table is used where it lies if the layout allows.
#[test]
fn foreign_files_are_mapped_where_the_layout_allows() {
    const TABLE: u64 = 1 << 20;
    let le = |numbers: &[u64]| -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    };
    let fuse = |width: u64| {
        // Segments of 8192 cells, of which the last 2 have no first cells.
        let (cells, first) = (TABLE / width, TABLE / width - 2 * 8192);
        let mut header = le(&[5, 1000 | (8192 << 32), (first / 8192) | (first << 32)]);
        header.extend((cells as u32).to_le_bytes());
        header
    };
    let bits = TABLE * 8;
    let headers: [(Format, Vec<u8>, bool); 8] = [
        (Format::Fuse8, fuse(1), true),
        (Format::Fuse16, fuse(2), true),
        (Format::Dcso, le(&[1, 1000, 0.01f64.to_bits(), 7, bits, 1000]), true),
        (
            Format::DataSketches,
            le(&[4 | 1 << 8 | 21 << 16 | 7 << 32, 9001, TABLE / 8, u64::MAX]),
            true,
        ),
        (Format::Rbloom, le(&[7]), true),
        (Format::Guava, vec![1, 7, 0, 2, 0, 0], false),
        (Format::SparkV1, vec![0, 0, 0, 1, 0, 0, 0, 7, 0, 2, 0, 0], false),
        (
            Format::Parquet,
            vec![
                0x15, 0x80, 0x80, 0x80, 0x01, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0, 0x1c, 0x1c, 0, 0,
                0,
            ],
            false,
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    for (format, mut bytes, stays) in headers {
        bytes.resize(bytes.len() + TABLE as usize, 0);
        let path = folder.path().join(format.name());
        std::fs::write(&path, bytes).unwrap();
        let peak = allocation::peak(|| {
            let filter = Keyed::<AnyFilter>::open_foreign(format, &path).unwrap();
            filter.contains_hash(KeyHash { hi: 1, lo: 2 });
        });
        assert!(if stays { peak < 4096 } else { peak >= TABLE }, "{format}: {peak} bytes");
    }
}

macro_rules! memory {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => { $(
        mod $file {
            #[test]
            fn memory_is_what_the_shape_states() {
                super::allocation::memory_is_what_the_shape_states::<tamis::filters::$type>();
            }

            #[test]
            fn builds_keep_their_memory_limit() {
                super::allocation::builds_keep_their_memory_limit::<tamis::filters::$type>();
            }

            #[test]
            fn hostile_files_take_no_memory() {
                super::allocation::hostile_files_take_no_memory::<tamis::filters::$type>();
            }
        }
    )* };
}

tamis::registry!(memory);
