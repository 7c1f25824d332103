//! What the command prints, in `cmd/*.trycmd`, in the README and in the pages of `docs/`.

use std::fs;
use std::path::{Path, PathBuf};

#[test]
fn cmd() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}

/// The commands in blocks of `console` print what their page says.
///
/// Their files are the blocks of `text,file:NAME` of the page; those of the README are in `cmd/surface.in`.
#[test]
fn pages() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages");
    // What an earlier run made would be in the way.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let mut pages = vec![PathBuf::from("../../README.md")];
    find_pages(Path::new("../../docs"), &mut pages);
    let cases = trycmd::TestCases::new();
    let mut found = 0;
    for path in pages {
        let text = fs::read_to_string(&path).unwrap();
        if !text.contains("\n```console\n") {
            continue;
        }
        found += 1;
        let name = path.file_stem().unwrap().to_str().unwrap();
        let files = folder.join(format!("{name}.in"));
        fs::create_dir(&files).unwrap();
        if name == "README" {
            for file in fs::read_dir("tests/cmd/surface.in").unwrap() {
                let path = file.unwrap().path();
                fs::copy(&path, files.join(path.file_name().unwrap())).unwrap();
            }
        }
        for block in text.split("\n```text,file:").skip(1) {
            let (file, rest) = block.split_once('\n').unwrap();
            let (content, _) = rest.split_once("```").unwrap();
            fs::write(files.join(file), content).unwrap();
        }
        let page = folder.join(format!("{name}.md"));
        fs::write(&page, text).unwrap();
        cases.case(page);
    }
    assert!(found > 5, "{found} pages");
}

/// Adds the pages below a folder.
fn find_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_pages(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
}
