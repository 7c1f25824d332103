//! What the command prints, in `cmd/*.trycmd` and in the README.

use std::fs;
use std::path::Path;

#[test]
fn cmd() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

/// The README's commands print what the README says, given the files of `cmd/surface.in`.
#[test]
fn readme() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let files = folder.join("README.in");
    // What an earlier run made would be in the way.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&files).unwrap();
    fs::copy("../../README.md", folder.join("README.md")).unwrap();
    for file in fs::read_dir("tests/cmd/surface.in").unwrap() {
        let path = file.unwrap().path();
        fs::copy(&path, files.join(path.file_name().unwrap())).unwrap();
    }
    trycmd::TestCases::new().case(folder.join("README.md"));
}
