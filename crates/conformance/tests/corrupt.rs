//! Files that are kept: those that once did harm, or stand for those that would, are refused.

use std::fs;

use tamis::{AnyFilter, Keyed, Limits};
use tamis_conformance::files::{denying_file_is_kept, testdata};

#[test]
fn a_golden_file_with_denied_keys_is_kept() {
    denying_file_is_kept();
}

#[test]
fn every_kept_corrupt_file_is_refused_in_one_line() {
    let mut seen = 0;
    for entry in fs::read_dir(testdata("corrupt")).expect("a folder of files") {
        let path = entry.expect("an entry").path();
        // Other inputs that the fuzzers found are replayed there.
        if path.extension().is_none_or(|extension| extension != "tamis") {
            continue;
        }
        let bytes = fs::read(&path).expect("a readable file");
        let read = Keyed::<AnyFilter>::read_from(&bytes[..], &Limits::default()).err();
        let opened = Keyed::<AnyFilter>::open_verified(&path).err();
        for error in [read, opened] {
            let told = error.unwrap_or_else(|| panic!("{} is taken", path.display())).to_string();
            assert!(!told.is_empty() && !told.contains('\n'), "{told}");
        }
        seen += 1;
    }
    assert!(seen > 0);
}
