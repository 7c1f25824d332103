//! Checks that the modules of a crate form layers, without import cycles.

use std::fs;
use std::path::Path;

/// Checks that each top-level module of a crate names only modules before it in `order`, or itself.
///
/// The module of `src/NAME.rs` and of every file below `src/NAME/` is `NAME`. `lib.rs` and `main.rs` are
/// the crate root and may name every module. The check scans the code for paths that start with
/// `crate::`, including groups such as `crate::{a, b::C}`; it skips comments.
///
/// # Panics
///
/// Panics with a list of all violations: a module that names a later one, a module that `order` lacks,
/// or a name in `order` that is not a module.
pub fn module_order(src: &Path, order: &[&str]) {
    let mut violations = Vec::new();
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(src)
        .expect("a source folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_stem().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if ["lib", "main", "bin"].contains(&name.as_str()) {
            continue;
        }
        let Some(own) = order.iter().position(|module| *module == name) else {
            violations.push(format!("{}: not in the order", path.display()));
            continue;
        };
        found.push(name);
        check(&path, &order[own + 1..], &mut violations);
    }
    let missing = order.iter().filter(|module| !found.iter().any(|name| name == *module));
    violations.extend(missing.map(|module| format!("{module}: in the order, but not a module")));
    assert!(violations.is_empty(), "module order:\n{}", violations.join("\n"));
}

/// Adds a violation for each path to one of the `later` modules in a file, or in the files of a folder.
fn check(path: &Path, later: &[&str], violations: &mut Vec<String>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            check(&entry.expect("an entry").path(), later, violations);
        }
    } else if path.extension().is_some_and(|extension| extension == "rs") {
        let code = without_comments(&fs::read_to_string(path).expect("a source file"));
        let names = crate_paths(&code);
        let wrong = names.iter().filter(|name| later.contains(&name.as_str()));
        violations.extend(wrong.map(|name| format!("{}: uses crate::{name}", path.display())));
    }
}

fn without_comments(text: &str) -> String {
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Returns the first name of every path after `crate::`, in groups too.
fn crate_paths(code: &str) -> Vec<String> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let first_name = |path: &str| path.trim_start().chars().take_while(|c| is_name(*c)).collect();
    let mut names: Vec<String> = Vec::new();
    for (at, prefix) in code.match_indices("crate::") {
        // `my_crate::` is another crate.
        if code[..at].ends_with(is_name) {
            continue;
        }
        let path = code[at + prefix.len()..].trim_start();
        match path.strip_prefix('{') {
            None => names.push(first_name(path)),
            Some(group) => names.extend(group_members(group).into_iter().map(first_name)),
        }
    }
    names
}

/// Returns the members of a group of imports; `group` starts after its opening brace.
fn group_members(group: &str) -> Vec<&str> {
    let (mut members, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, byte) in group.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth > 0 => depth -= 1,
            b',' if depth == 0 => {
                members.push(&group[start..at]);
                start = at + 1;
            }
            b'}' => {
                members.push(&group[start..at]);
                break;
            }
            _ => {}
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    /// Runs the check on generated files, and returns its message if it panics.
    fn violations(files: &[(&str, &str)], order: &[&str]) -> Option<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let checked = catch_unwind(|| module_order(folder.path(), order));
        checked.err().map(|message| *message.downcast::<String>().unwrap())
    }

    const LAYERS: [(&str, &str); 4] = [
        ("lib.rs", "mod base; mod middle; mod top; use crate::top::Top;"),
        ("base.rs", "// crate::top is above\nuse other_crate::top; pub(crate) struct Base;"),
        ("middle/mod.rs", "mod part; use crate::base::Base;"),
        ("middle/part.rs", "use crate::{base::{Base}, middle};"),
    ];

    fn with_top(text: &'static str) -> Vec<(&'static str, &'static str)> {
        LAYERS.into_iter().chain([("top.rs", text)]).collect()
    }

    #[test]
    fn layers_pass() {
        let files = with_top("use crate::{\n    base::Base,\n    middle,\n};");
        assert_eq!(violations(&files, &["base", "middle", "top"]), None);
    }

    #[test]
    fn a_path_to_a_later_module_is_found_in_every_form() {
        for text in [
            "use crate::top::Top;",
            "use crate::{base, top};",
            "use crate::{base::{Base, Other}, top::{Top}};",
            "fn f() -> crate::top::Top { todo!() }",
            "use crate::{\n    base,\n    top,\n};",
        ] {
            let mut files = with_top("use crate::middle;");
            files.push(("middle/deep/file.rs", text));
            let message = violations(&files, &["base", "middle", "top"]).expect(text);
            assert!(message.ends_with("file.rs: uses crate::top"), "{message}");
        }
    }

    #[test]
    fn the_order_and_the_modules_are_the_same() {
        let files = with_top("");
        let message = violations(&files, &["base", "middle"]).unwrap();
        assert!(message.ends_with("top.rs: not in the order"), "{message}");
        let message = violations(&files, &["base", "middle", "top", "none"]).unwrap();
        assert!(message.ends_with("none: in the order, but not a module"), "{message}");
    }
}
