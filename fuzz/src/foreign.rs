//! Filters of other programs, of any bytes.

use std::io::Cursor;
use std::sync::Arc;

use tamis::{AnyFilter, KeyHash, Keyed};
use tamis_interop::parquet_file::ParquetFile;
use tamis_interop::{Foreign, Format};

/// Reads bytes in every format, and as a Parquet file. What is read answers, is written back, is read
/// again, and survives a `.tamis` file.
pub fn foreign(bytes: &[u8]) {
    for format in Format::ALL.iter().copied() {
        match Keyed::<AnyFilter>::import(format, bytes) {
            Ok(filter) => {
                survives(format, bytes, &filter);
                let shared = Keyed::import_shared(format, Arc::new(bytes.to_vec()));
                assert!(shared.is_ok_and(|shared| shared == filter), "{format}");
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
    let Ok(mut file) = ParquetFile::read(Cursor::new(bytes)) else { return };
    let chunks: Vec<_> = file.row_groups.iter().flat_map(|group| group.chunks.clone()).collect();
    // A footer may name one filter often.
    for chunk in chunks.iter().take(64) {
        if let Ok(Some(filter)) = file.filter_of(chunk) {
            assert!(filter.bytes() <= bytes.len() as u64 + 64);
            filter.contains_hash(KeyHash { hi: 1, lo: 2 });
        }
    }
    for name in file.columns().iter().take(4).map(ToString::to_string).collect::<Vec<_>>() {
        if let Ok(column) = file.column(&name) {
            let _ = file.union(column);
        }
    }
}

fn survives(format: Format, bytes: &[u8], filter: &Keyed<AnyFilter>) {
    // An empty filter of DataSketches states its size and has no bits.
    let most = if format == Format::DataSketches { 1 << 20 } else { 0 };
    assert!(
        filter.bytes() <= 2 * bytes.len() as u64 + 64 + most,
        "{format}: {} bytes",
        filter.bytes()
    );
    for hash in [(0, 0), (u64::MAX, u64::MAX), (1, 1 << 63)] {
        filter.contains_hash(KeyHash { hi: hash.0, lo: hash.1 });
    }
    let again = match filter.export(format) {
        // Parquet's readers take fewer sizes than may be read.
        Err(_) if format == Format::Parquet => return,
        written => written.unwrap_or_else(|error| panic!("{error}")),
    };
    let read = Keyed::<AnyFilter>::import(format, &again).expect("it was written so");
    assert!(read == *filter, "{format}: written and read it differs");
    let held = filter.to_bytes().expect("memory");
    assert!(Keyed::<AnyFilter>::from_bytes(&held).expect("it was written so") == *filter);
}
