//! Checks of the source code and the manifests.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).to_path_buf()
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        if path.is_dir() && !path.ends_with("target") && !hidden {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Counts the lines with the keyword in code. Comments and longer words do not count.
fn unsafe_lines(path: &Path) -> usize {
    let text = fs::read_to_string(path).expect("a source file");
    let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
    let keyword = concat!("un", "safe");
    // A hyphen joins words of a text.
    let joins = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let words = |line: &str| line.split(|c| !joins(c)).any(|word| word == keyword);
    code.filter(|line| words(line)).count()
}

#[test]
fn unsafe_code_is_in_bits_and_glue_alone() {
    let mut paths = Vec::new();
    sources(&root(), &mut paths);
    let bits = root().join("crates/bits");
    // A global allocator needs it. This one counts memory in tests and is never shipped.
    let counting = root().join("crates/conformance/src/allocation.rs");
    // What calls Python and the server, and what they call.
    let glue = [
        "python/src/any.rs",
        "python/src/arrow.rs",
        "python/src/column.rs",
        "python/src/keys.rs",
        "python/src/lock.rs",
        "redis/src/allocator.rs",
        "redis/src/commands.rs",
        "redis/src/lib.rs",
        "redis/src/server.rs",
        "redis/src/value/callbacks.rs",
    ];
    let glue = glue.map(|file| root().join("bindings").join(file));
    let (allowed, others): (Vec<_>, Vec<_>) = paths
        .into_iter()
        .partition(|path| path.starts_with(&bits) || *path == counting || glue.contains(path));
    for path in others {
        assert_eq!(unsafe_lines(&path), 0, "{}", path.display());
    }
    let count: usize = allowed.iter().map(|path| unsafe_lines(path)).sum();
    println!("{count} lines");
    assert!(count > 0, "the search finds nothing");
}

#[test]
fn readers_of_hostile_bytes_are_held_to_checked_arithmetic() {
    let manifest = |of: &str| fs::read_to_string(root().join(of)).expect("a manifest");
    let format = manifest("crates/format/Cargo.toml");
    for lint in ["arithmetic_side_effects", "cast_possible_truncation", "indexing_slicing"] {
        assert!(format.contains(&format!("{lint} = \"deny\"")), "{lint}");
    }
    for of in ["crates/format/Cargo.toml", "crates/tamis/Cargo.toml"] {
        assert!(manifest(of).contains("unsafe_code = \"forbid\""), "{of}");
    }
    let release = "[profile.release.package.tamis-format]\noverflow-checks = true";
    assert!(manifest("Cargo.toml").contains(release));
}

#[test]
fn modules_of_the_command_have_an_order() {
    let order = [
        "errors",
        "number",
        "signals",
        "memory",
        "files",
        "output",
        "input",
        "progress",
        "hashing",
        "entries",
        "duplicates",
        "serve",
        "args",
        "commands",
    ];
    tamis_conformance::order::module_order(&root().join("crates/cli/src"), &order);
}

#[test]
fn modules_of_the_bench_harness_have_an_order() {
    let order = ["harness", "comparison", "kinds"];
    tamis_conformance::order::module_order(&root().join("crates/bench/src"), &order);
}

#[test]
fn modules_of_the_library_have_an_order() {
    let order = [
        "registry",
        "math",
        "sync",
        "capability",
        "kind",
        "limits",
        "values",
        "error",
        "settings",
        "shape",
        "hash",
        "options",
        "source",
        "traits",
        "inspect",
        "container",
        "gather",
        "parts",
        "filters",
        "sizing",
        "any",
        "plan",
        "keyed",
        "shared",
    ];
    tamis_conformance::order::module_order(&root().join("crates/tamis/src"), &order);
}
