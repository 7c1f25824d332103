//! Files that the programs themselves have made, bytes that no program makes, and what errors say.
#![allow(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "tests may panic")]
#![allow(clippy::cast_possible_truncation, reason = "tests may panic")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use tamis::{AnyFilter, Build, BuildOptions, KeyHash, Keyed, Kind};

use crate::parquet_file::{ParquetFile, Physical};
use crate::{Error, Foreign, Format, KeyType};

fn path(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/foreign")).join(name)
}

fn golden(name: &str) -> Vec<u8> {
    fs::read(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// The keys of `xtask/foreign`: number `i` as text.
fn text(i: u64) -> String {
    format!("key-{i}")
}

fn number(i: u64) -> String {
    (i.cast_signed() * i.cast_signed() - 1000).to_string()
}

fn unsigned(i: u64) -> String {
    (i.cast_signed() * i.cast_signed() - 1000).cast_unsigned().to_string()
}

fn caller_hash(i: u64) -> String {
    let factor = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835u128;
    u128::from(i).wrapping_mul(factor).wrapping_add(12345).cast_signed().to_string()
}

type Make = fn(u64) -> String;

type Golden = (&'static str, Format, &'static [(KeyType, Make)]);

/// Every golden file, its format, and the types of its keys.
const GOLDEN: [Golden; 18] = [
    (
        "spark-v1.bin",
        Format::SparkV1,
        &[(KeyType::Utf8, text), (KeyType::Int64, number), (KeyType::Int32, number)],
    ),
    ("spark-v2.bin", Format::SparkV2, &[(KeyType::Utf8, text), (KeyType::Int64, number)]),
    ("guava-int64.bin", Format::Guava, &[(KeyType::Int64, number)]),
    ("guava-int32.bin", Format::Guava, &[(KeyType::Int32, number)]),
    ("guava-utf8.bin", Format::Guava, &[(KeyType::Utf8, text)]),
    ("guava-utf16.bin", Format::Guava, &[(KeyType::Utf16, text)]),
    ("fuse8-text.bin", Format::Fuse8, &[(KeyType::Utf8, text)]),
    ("fuse8-uint64.bin", Format::Fuse8, &[(KeyType::Int64, number), (KeyType::Uint64, unsigned)]),
    ("fuse16-text.bin", Format::Fuse16, &[(KeyType::Utf8, text)]),
    ("fuse16-uint64.bin", Format::Fuse16, &[(KeyType::Uint64, unsigned)]),
    ("rbloom.bin", Format::Rbloom, &[(KeyType::Hash128, caller_hash)]),
    ("dcso.bin", Format::Dcso, &[(KeyType::Utf8, text)]),
    ("datasketches.bin", Format::DataSketches, &[(KeyType::Utf8, text), (KeyType::Int64, number)]),
    ("datasketches-empty.bin", Format::DataSketches, &[]),
    ("redisbloom.bin", Format::RedisBloom, &[(KeyType::Utf8, text)]),
    ("redisbloom-chain.bin", Format::RedisBloom, &[(KeyType::Utf8, text)]),
    ("bloomfilter-bytes.bin", Format::Bloomfilter, &[(KeyType::Utf8, text)]),
    (
        "bloomfilter-str.bin",
        Format::Bloomfilter,
        &[(KeyType::Str, text), (KeyType::Int64, number), (KeyType::Int32, number)],
    ),
];

fn hashes(
    format: Format,
    key_type: KeyType,
    make: Make,
    keys: std::ops::Range<u64>,
) -> Vec<KeyHash> {
    let hash = |i| key_type.hash(&format.hasher(), make(i).as_bytes()).expect("a key of the type");
    keys.map(hash).collect()
}

#[test]
fn files_of_the_programs_are_read_answered_and_written_back() {
    for (name, format, types) in GOLDEN {
        let bytes = golden(name);
        let filter = Keyed::<AnyFilter>::import(format, &bytes).expect(name);
        assert_eq!(filter.export(format).expect(name), bytes, "{name}");
        let recognised = Format::recognise(&bytes);
        let expected = if format == Format::Rbloom { vec![] } else { vec![format] };
        assert_eq!(recognised, expected, "{name}");
        for (key_type, make) in types {
            let hash = |i| key_type.hash(filter.hasher(), make(i).as_bytes()).expect(name);
            let found = (0..400).filter(|i| filter.contains_hash(hash(*i))).count();
            assert_eq!(found, 400, "{name}: {key_type}");
            let others = (1000..31_000).filter(|i| filter.contains_hash(hash(*i))).count();
            assert!(others < 900, "{name}: {key_type}: {others} of 30000 others");
        }
        // A `.tamis` file holds all that the format has.
        let held = filter.to_bytes().expect("memory");
        let again = Keyed::<AnyFilter>::from_bytes(&held).expect(name);
        assert_eq!(again.export(format).expect(name), bytes, "{name}");
    }
}

#[test]
fn tables_stay_in_a_mapped_file_where_the_layout_allows() {
    for (name, format, _) in GOLDEN {
        let copied = Keyed::<AnyFilter>::import(format, &golden(name)).expect(name);
        let mapped = Keyed::<AnyFilter>::open_foreign(format, path(name)).expect(name);
        assert!(mapped == copied && mapped.export(format).expect(name) == golden(name), "{name}");
        let stays = match format {
            Format::Fuse8 | Format::Fuse16 | Format::Dcso => true,
            Format::DataSketches => name != "datasketches-empty.bin",
            // Bits of 1199 bytes are not whole words.
            _ => false,
        };
        // What is left is the note of `dcso` and `datasketches`.
        let own = mapped.heap_bytes();
        assert!(if stays { own <= 64 } else { own == copied.heap_bytes() }, "{name}: {own} bytes");
    }
    let whole = [&7u64.to_le_bytes()[..], &[5; 4096]].concat();
    let shared = Keyed::<AnyFilter>::import_shared(Format::Rbloom, Arc::new(whole.clone()));
    assert_eq!(shared.expect("sound").export(Format::Rbloom).expect("rbloom"), whole);
    let empty = Keyed::<AnyFilter>::import_shared(Format::Guava, Arc::new([]));
    assert_eq!(
        empty.expect_err("empty").to_string(),
        "not a guava filter: the header is truncated"
    );
}

#[test]
fn filters_are_built_as_the_programs_build_them() {
    for (name, format, key_type, make) in [
        ("spark-v1.bin", Format::SparkV1, KeyType::Utf8, text as Make),
        ("guava-utf8.bin", Format::Guava, KeyType::Utf8, text),
        ("guava-int32.bin", Format::Guava, KeyType::Int32, number),
        ("rbloom.bin", Format::Rbloom, KeyType::Hash128, caller_hash),
        ("dcso.bin", Format::Dcso, KeyType::Utf8, text),
        ("redisbloom.bin", Format::RedisBloom, KeyType::Utf8, text),
        ("bloomfilter-bytes.bin", Format::Bloomfilter, KeyType::Utf8, text),
    ] {
        let mut keys = hashes(format, key_type, make, 0..400);
        if format == Format::SparkV1 {
            keys.extend(hashes(format, KeyType::Int64, number, 0..400));
        }
        let built = format.build(1000, 0.01, &mut &keys[..], &BuildOptions::new()).expect(name);
        assert!(built.export(format).expect(name) == golden(name), "{name}");
    }
}

#[test]
fn every_format_builds_and_merges() {
    for format in Format::ALL.iter().copied() {
        let fpr = if format == Format::Fuse8 { 0.004 } else { 0.001 };
        let hex: Make =
            |i| format!("{:032x}", u128::from(i + 1).wrapping_pow(7).wrapping_mul(0x9e37_79b9));
        let keys = hashes(format, KeyType::Hex, hex, 0..3000);
        let built = format.build(3000, fpr, &mut &keys[..], &BuildOptions::new()).expect("a size");
        let bytes = built.export(format).expect("its own format");
        let read = Keyed::<AnyFilter>::import(format, &bytes).expect("its own bytes");
        assert!(keys.iter().all(|key| read.contains_hash(*key)), "{format}");
        let others = hashes(format, KeyType::Hex, hex, 10_000..40_000);
        let yeses = others.iter().filter(|key| read.contains_hash(**key)).count();
        assert!(yeses < 300, "{format}: {yeses} of 30000");
        assert_eq!(read.export(format).expect("its own format"), bytes, "{format}");
        assert_eq!(format.name().parse::<Format>().expect("its name"), format);
        if read.kind() == Kind::ForeignFuse {
            continue;
        }
        let (one, two) = keys.split_at(1500);
        let [mut one, two] = [one, two].map(|keys| {
            format.build(3000, fpr, &mut &keys[..], &BuildOptions::new()).expect("a size")
        });
        one.merge(&two).expect("one size");
        assert_eq!(one.export(format).expect("its own format"), bytes, "{format}");
    }
}

/// Bytes of one format are errors to all others, or a filter that its own export gives back.
#[test]
fn damaged_bytes_are_errors_or_filters() {
    for (name, format, _) in GOLDEN {
        let bytes = golden(name);
        for len in 0..bytes.len() {
            let read = Keyed::<AnyFilter>::import(format, &bytes[..len]);
            // A byte string of any length is one of rbloom, and the last 4 bytes of 16-bit cells mean
            // nothing.
            let is_whole = format == Format::Fuse16 && len + 4 == bytes.len();
            assert!(read.is_err() != is_whole || format == Format::Rbloom, "{name}: {len} bytes");
        }
        for at in 0..bytes.len().min(96) {
            for value in [0, 1, 4, 0x7f, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                for other in Format::ALL {
                    let Ok(read) = Keyed::<AnyFilter>::import(*other, &bytes) else { continue };
                    read.contains_hash(KeyHash { hi: u64::MAX, lo: u64::MAX });
                    read.export(*other).unwrap_or_else(|error| panic!("{name} at {at}: {error}"));
                }
            }
        }
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let error = |format, bytes: &[u8]| {
        Keyed::<AnyFilter>::import(format, bytes).expect_err("damaged").to_string()
    };
    let spark = golden("spark-v1.bin");
    assert_eq!(error(Format::SparkV2, &spark), "not a spark_v2 filter: it has version 1");
    assert_eq!(error(Format::SparkV1, &spark[..100]), "not a spark_v1 filter: it is truncated");
    let swapped: Vec<u8> = spark.chunks(4).flat_map(|word| word.iter().rev().copied()).collect();
    assert!(error(Format::SparkV1, &swapped).contains("big-endian"));
    // A length that no memory holds is a truncation.
    let mut large = golden("dcso.bin");
    large[39] = 0xff;
    assert_eq!(error(Format::Dcso, &large), "not a dcso filter: it is truncated");
    let mut fuse = golden("fuse8-text.bin");
    fuse[12] = 3;
    assert!(error(Format::Fuse8, &fuse).contains("power of 2"));
    // A filter keeps its hash.
    let guava =
        Keyed::<AnyFilter>::import(Format::Guava, &golden("guava-utf8.bin")).expect("sound");
    let error = guava.export(Format::SparkV1).expect_err("another hash");
    assert!(matches!(error, Error::Unsuitable { format: Format::SparkV1, .. }), "{error}");
    assert!(error.to_string().contains("guava_murmur3"), "{error}");
    let spark = Keyed::<AnyFilter>::import(Format::SparkV1, &spark).expect("sound");
    assert!(spark.export(Format::SparkV2).expect_err("bits").to_string().contains("other version"));
    let error = KeyType::Int32.hash(guava.hasher(), b"3000000000").expect_err("33 bits");
    assert_eq!(error.to_string(), "`3000000000` is not of the type int32");
    // Spark's version 1 cannot address more than 2^31 bits.
    let keys: &[KeyHash] = &[];
    let build = |format: Format| format.build(1 << 30, 0.01, &mut &*keys, &BuildOptions::new());
    let error = build(Format::SparkV1).expect_err("2^33 bits").to_string();
    assert!(error.ends_with("beyond 2^31, a known defect; spark_v2 does"), "{error}");
    assert!(Format::Fuse8.build(10, 0.001, &mut &*keys, &BuildOptions::new()).is_err());
}

/// Headers whose numbers have the other byte order.
#[test]
fn bytes_of_the_other_endianness_are_refused() {
    for (name, format, _) in GOLDEN {
        let bytes = golden(name);
        // Where the numbers of the header begin, and how many bytes each has.
        let (start, lens): (usize, &[usize]) = match format {
            Format::SparkV1 => (0, &[4, 4, 4]),
            Format::SparkV2 => (0, &[4, 4, 4, 4]),
            Format::Guava => (2, &[4]),
            Format::Fuse8 | Format::Fuse16 => (0, &[8, 4, 4, 4, 4, 4]),
            Format::Rbloom => (0, &[8]),
            Format::Dcso => (0, &[8, 8, 8, 8, 8, 8]),
            Format::DataSketches => (4, &[2, 2, 8, 4, 4]),
            Format::RedisBloom => (0, &[8, 4, 4, 4, 8, 8, 8, 8, 8, 4, 8]),
            Format::Bloomfilter => (1, &[8, 4]),
            _ => panic!("{format} has no golden file"),
        };
        let mut swapped = bytes.clone();
        let mut rest = &mut swapped[start..];
        for len in lens {
            let (number, after) = rest.split_at_mut(*len);
            number.reverse();
            rest = after;
        }
        let error = Keyed::<AnyFilter>::import(format, &swapped).expect_err(name);
        assert!(matches!(error, Error::Malformed { .. }), "{name}: {error}");
    }
}

#[test]
fn chains_of_redisbloom_hold_all_their_layers() {
    let bytes = golden("redisbloom-chain.bin");
    let mut chain = Keyed::<AnyFilter>::import(Format::RedisBloom, &bytes).expect("a chain");
    let AnyFilter::ForeignBloom(filter) = chain.filter() else { panic!("another kind") };
    // 100 keys, 200 keys and the rest.
    let layers: Vec<_> = filter.shape().older().iter().map(|layer| layer.keys).collect();
    assert_eq!((layers, chain.len()), (vec![100, 200], 400));
    assert_eq!(chain.capacity(), 700);
    assert!(chain.insert("key-7").is_ok() && chain.insert("a key of no layer").is_err());
    assert_eq!(chain.export(Format::RedisBloom).expect("its own format"), bytes);
    let again = Keyed::<AnyFilter>::import(Format::RedisBloom, &bytes).expect("a chain");
    let error = chain.merge(&again).expect_err("a chain").to_string();
    assert_eq!(error, "no such filter is possible: chains of layers cannot be merged or compared");
}

#[test]
fn damaged_chains_of_redisbloom_are_refused_by_name() {
    let bytes = golden("redisbloom-chain.bin");
    // Where a field of the first or second layer begins.
    let [first, second] = [20, 20 + 53];
    let large = u64::MAX.to_le_bytes();
    for (at, value, expected) in [
        (8, &0u32.to_le_bytes()[..], "its chain has no layer"),
        (8, &1u32.to_le_bytes(), "its numbers of keys contradict each other"),
        (8, &4u32.to_le_bytes(), "the number of hash functions is not 1 to 255"),
        (8, &257u32.to_le_bytes(), "its chain has more than 256 layers"),
        (8, &u32::MAX.to_le_bytes(), "its chain has more than 256 layers"),
        (12, &[1], "32-bit hashes are not supported"),
        (0, &[1], "its numbers of keys contradict each other"),
        (first, &large, "its numbers of bits and bytes contradict each other"),
        (first + 8, &[0; 8], "its numbers of bits and bytes contradict each other"),
        (second + 16, &large, "the sum of its layers overflows"),
        (second + 16, &[1], "its numbers of keys contradict each other"),
        (second + 40, &[0; 4], "the number of hash functions is not 1 to 255"),
        (second + 40, &[0, 1], "the number of hash functions is not 1 to 255"),
        (second + 52, &[9], "its number of bits is not the power of 2 that it states"),
        (second + 52, &[200], "its number of bits is not the power of 2 that it states"),
    ] {
        let mut chain = bytes.clone();
        chain[at..at + value.len()].copy_from_slice(value);
        let error = Keyed::<AnyFilter>::import(Format::RedisBloom, &chain).expect_err(expected);
        assert!(error.to_string().contains(expected), "{at}: {error}");
    }
    // A size that agrees with itself and not with the data.
    let sized = |layer: usize, bytes_of_bits: u64| {
        let mut chain = bytes.clone();
        chain[layer..layer + 8].copy_from_slice(&bytes_of_bits.to_le_bytes());
        let bits = bytes_of_bits.wrapping_mul(8).to_le_bytes();
        chain[layer + 8..layer + 16].copy_from_slice(&bits);
        Keyed::<AnyFilter>::import(Format::RedisBloom, &chain).expect_err("a size").to_string()
    };
    assert!(sized(first, 8).ends_with("bytes follow the filter"));
    assert!(sized(second, 1 << 50).ends_with("it is truncated"));
    let many = [&[0; 8][..], &256u32.to_le_bytes(), &[5, 0, 0, 0, 2, 0, 0, 0]].concat();
    let error = Keyed::<AnyFilter>::import(Format::RedisBloom, &many).expect_err("no layers");
    assert!(error.to_string().ends_with("the header is truncated"), "{error}");
}

#[test]
fn parquet_files_are_read() {
    let hasher = Format::Parquet.hasher();
    for (name, column, physical, make) in [
        ("pyarrow.parquet", "id", Physical::Int64, number as Make),
        ("pyarrow.parquet", "small", Physical::Int32, number),
        ("pyarrow.parquet", "name", Physical::ByteArray, text),
        ("pyarrow.parquet", "ratio", Physical::Double, |i| (i as f64 / 8.0).to_string()),
        ("duckdb.parquet", "id", Physical::Int64, number),
        ("duckdb.parquet", "name", Physical::ByteArray, text),
    ] {
        let mut file = ParquetFile::open(path(name)).expect(name);
        assert_eq!(file.columns(), ["id", "small", "name", "ratio", "plain"]);
        let of = file.column(column).expect(name);
        let chunk = file.row_groups[0].chunks.iter().find(|chunk| chunk.column == column);
        assert_eq!(chunk.expect(name).physical, Some(physical));
        let key_type = of.key_type().expect(name);
        let key = |i| key_type.hash(&hasher, make(i).as_bytes()).expect(name);
        let mut found = Vec::new();
        for group in 0..file.row_groups.len() {
            let filter = file.filter(group, of).expect(name).expect("a filter");
            found.push((0..400).filter(|i| filter.contains_hash(key(*i))).count());
            // The bare form of the same filter.
            let bytes = filter.export(Format::Parquet).expect(name);
            assert_eq!(Format::recognise(&bytes), [Format::Parquet]);
            assert!(Keyed::<AnyFilter>::import(Format::Parquet, &bytes).expect(name) == filter);
        }
        let union = file.union(of).expect(name);
        assert!((0..400).all(|i| union.contains_hash(key(i))), "{name} {column}");
        let others = (1000..11_000).filter(|i| union.contains_hash(key(*i))).count();
        // Two filters of 200 keys in the space of one.
        assert!(others < 2000, "{name} {column}: {others} of 10000");
        // pyarrow wrote 200 keys to each of two row groups, DuckDB all to one.
        let expected = if name == "pyarrow.parquet" { 200..230 } else { 400..401 };
        assert!(found.iter().all(|count| expected.contains(count)), "{name} {column}: {found:?}");
    }
}

#[test]
fn parquet_errors_name_the_columns() {
    let error = |name: &str, column: &str| {
        let file = ParquetFile::open(path(name)).expect(name);
        file.column(column).expect_err("no filter").to_string()
    };
    assert_eq!(
        error("pyarrow.parquet", "age"),
        "there is no column `age`; its columns are id, small, name, ratio, plain"
    );
    assert_eq!(
        error("pyarrow.parquet", "plain"),
        "the column `plain` has no Bloom filter; columns with filters are id, small, name, ratio"
    );
    assert!(error("no-filters.parquet", "id").contains("no column has one; its columns are id"));
    for bytes in
        [&b"PAR1"[..], b"PAR1\0\0\0\0PAR1", b"PAR1\xff\xff\xff\xffPAR1", b"hello world, hello"]
    {
        assert!(ParquetFile::read(std::io::Cursor::new(bytes)).is_err());
    }
    assert_eq!(error("encrypted-column.parquet", "name"), "the column `name` is encrypted");
    let encrypted = ParquetFile::open(path("encrypted-footer.parquet"));
    assert_eq!(encrypted.expect_err("encrypted").to_string(), "the footer is encrypted");
}

/// A footer with any byte changed is read or refused, without a panic, and so are its filters.
#[test]
fn damaged_footers_do_no_harm() {
    let bytes = golden("pyarrow.parquet");
    let start = bytes.len()
        - 8
        - u32::from_le_bytes(*bytes[..bytes.len() - 4].last_chunk().expect("4")) as usize;
    for at in start..bytes.len() {
        for value in [0, 0x19, 0x7f, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            let Ok(mut file) = ParquetFile::read(std::io::Cursor::new(bytes)) else { continue };
            let chunks: Vec<_> =
                file.row_groups.iter().flat_map(|group| group.chunks.clone()).collect();
            chunks.iter().for_each(|chunk| drop(file.filter_of(chunk)));
        }
    }
}
