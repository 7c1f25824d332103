//! Checks the import order of the modules of a crate.
//!
//! The file depends only on the standard library, so that the tests of other crates can include it with
//! `#[path]`.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns a description of every import that goes against `order`, in the source folder of a crate.
///
/// `order` lists the top-level modules; each may import only from itself and from those before it. The file
/// `a.rs` and all files in the folder `a` belong to module `a`; `lib.rs` and `main.rs` may import everything.
/// Imports are paths that start with `crate::`, in a `use` or elsewhere, and paths that start with `super::`
/// in files directly in the source folder. Also reported are modules that only one of `order` and the folder
/// has, and paths to the re-exports of the crate root, which hide the module.
pub(crate) fn violations(src: &Path, order: &[&str]) -> Vec<String> {
    let mut files = Vec::new();
    collect_files(src, &mut files);
    files.sort();
    let mut found = Vec::new();
    let mut modules = Vec::new();
    for file in files {
        let path = file.strip_prefix(src).unwrap().with_extension("");
        let mut parts = path.iter().map(|part| part.to_str().unwrap().to_owned());
        let module = parts.next().unwrap();
        if ["lib", "main"].contains(&&*module) {
            continue;
        }
        let is_top_level = parts.next().is_none();
        let shown = file.strip_prefix(src).unwrap().display().to_string();
        let position = order.iter().position(|known| *known == module);
        match position {
            Some(position) => {
                let allowed = &order[..=position];
                let text = without_comments(&fs::read_to_string(&file).unwrap());
                for name in paths_after(&text, "crate::") {
                    if !order.contains(&&*name) {
                        found.push(format!("{shown}: crate::{name} names no module"));
                    } else if !allowed.contains(&&*name) {
                        found.push(format!("{shown}: {module} must not import {name}"));
                    }
                }
                let parents = if is_top_level { paths_after(&text, "super::") } else { vec![] };
                for name in parents {
                    if order.contains(&&*name) && !allowed.contains(&&*name) {
                        found.push(format!("{shown}: {module} must not import {name}"));
                    }
                }
            }
            None if !modules.contains(&module) => {
                found.push(format!("module {module} is not in the order"));
            }
            None => {}
        }
        modules.push(module);
    }
    for name in order.iter().filter(|name| !modules.iter().any(|module| module == *name)) {
        found.push(format!("module {name} does not exist"));
    }
    found
}

fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Removes line comments. A `//` that follows a colon is taken for part of a URL.
fn without_comments(text: &str) -> String {
    let code = |line: &str| {
        let mut starts = line.match_indices("//").map(|(at, _)| at);
        let comment = starts.find(|at| !line[..*at].ends_with(':'));
        line[..comment.unwrap_or(line.len())].to_owned() + "\n"
    };
    text.lines().map(code).collect()
}

/// Returns the first name of each path after `root`, and of each path in a group in braces after `root`.
/// Macros are left out: they have no module.
fn paths_after(text: &str, root: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (at, _) in text.match_indices(root) {
        if text[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_') {
            continue;
        }
        let rest = text[at + root.len()..].trim_start();
        match rest.strip_prefix('{') {
            Some(group) => names.extend(group_items(group).into_iter().filter_map(first_name)),
            None => names.extend(first_name(rest)),
        }
    }
    names
}

/// Splits the text after an opening brace at the commas outside of inner braces, up to the closing brace.
fn group_items(text: &str) -> Vec<&str> {
    let (mut items, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b',' | b'}' if depth == 0 => {
                items.push(&text[start..at]);
                start = at + 1;
                if byte == b'}' {
                    break;
                }
            }
            _ => {}
        }
    }
    items
}

fn first_name(path: &str) -> Option<String> {
    let path = path.trim_start();
    let end = path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    (end > 0 && !path[end..].starts_with('!')).then(|| path[..end].to_owned())
}
