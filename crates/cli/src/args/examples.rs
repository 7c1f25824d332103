//! The calls of `tamis` in blocks of `sh` in the documentation are calls that the command accepts.

use std::fs;
use std::path::Path;

use clap::Parser as _;

use super::Cli;

#[test]
fn examples_in_pages_parse() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut parsed = check(&root.join("README.md"));
    parsed += check_folder(&root.join("docs"));
    assert!(parsed > 5, "{parsed} calls");
}

fn check_folder(folder: &Path) -> usize {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .map(|path| match path.extension() {
            _ if path.is_dir() => check_folder(&path),
            Some(extension) if extension == "md" => check(&path),
            _ => 0,
        })
        .sum()
}

/// Parses the calls of a page. Returns their number.
fn check(path: &Path) -> usize {
    let text = fs::read_to_string(path).unwrap();
    let blocks = text.split("\n```sh\n").skip(1).filter_map(|block| block.split("\n```").next());
    let commands = blocks.flat_map(str::lines).flat_map(|line| line.split(" | "));
    let calls = commands.filter(|command| command.trim_start().starts_with("tamis "));
    let mut parsed = 0;
    for call in calls {
        let words = words(call);
        if let Err(error) = Cli::try_parse_from(&words) {
            panic!("{}: {call}\n{error}", path.display());
        }
        parsed += 1;
    }
    parsed
}

/// Splits a command at spaces, up to a comment or a redirection; quotes join words.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quote = None;
    for c in command.chars() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            (' ', None) => words.push(String::new()),
            (c, _) => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    let ends = |word: &String| word == "#" || word.starts_with('>');
    let end = words.iter().position(ends).unwrap_or(words.len());
    words.truncate(end);
    words
}

#[test]
fn words_end_at_a_comment() {
    assert_eq!(words("tamis query 'a b' -  # c > d"), ["tamis", "query", "a b", "-"]);
    assert_eq!(words("tamis plan > out"), ["tamis", "plan"]);
}
