//! The documentation site: pages of the repository and a page for each kind, rendered by mdBook.
//!
//! A page has the same path in the book as in the repository, so that its links work in both. The pages of
//! kinds come from the documentation of their modules and from committed tables; nothing is written twice.

mod kinds;
mod markdown;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use tamis::Kind;

use crate::{run, web};

/// The version of mdBook that `cargo install` takes.
const MDBOOK: &str = "0.5.4";

/// The first page, which no part contains.
const FIRST: &str = "README.md";
/// The parts of the book before and after the kinds: their titles and pages. A page that ends with `/*`
/// stands for all other pages of its folder; two spaces before a page put it below the page above.
const BEFORE: [(&str, &[&str]); 2] = [
    ("Guide", &["docs/getting-started.md", "docs/choosing.md", "docs/dictionary.md", DICTIONARY]),
    ("Recipes", &["docs/recipes/*"]),
];
const AFTER: [(&str, &[&str]); 3] = [
    (
        "Languages and programs",
        &[
            "docs/python.md",
            "bindings/wasm/package/README.md",
            "docs/redis.md",
            "  bindings/redis/README.md",
            "docs/formats/README.md",
            "  docs/formats/*",
        ],
    ),
    (
        "Reference",
        &[
            "docs/performance.md",
            "docs/json.md",
            "FORMAT.md",
            "SECURITY.md",
            "ARCHITECTURE.md",
            "CHANGELOG.md",
        ],
    ),
    ("Lab", &["lab/README.md", "  lab/*"]),
];
/// The page that comes from the documentation of the crate `tamis-dictionary`.
const DICTIONARY: &str = "  docs/dictionary-internals.md";
const DICTIONARY_SOURCE: &str = "crates/dictionary/src/lib.rs";

const SETTINGS: &str = "\
[book]
title = \"tamis\"
language = \"en\"

[build]
build-dir = \"html\"
create-missing = false

[output.html]
default-theme = \"light\"
preferred-dark-theme = \"navy\"
smart-punctuation = false
no-section-label = true
additional-css = [\"book.css\"]

[output.html.print]
enable = false

[output.html.playground]
runnable = false
";

/// Drawings fit in the column, and the arrows to other pages stand below it, not on it.
const STYLE: &str = "\
:root { --content-max-width: 1000px; }
.content pre > code { font-size: 1.3rem; line-height: 1.35; }
.content main table { margin-inline: 0; }
.content main th { text-align: start; }
.content img { max-width: 100%; }
.nav-wide-wrapper { display: none; }
.nav-wrapper { display: block; }
";

/// A page of the book.
struct Page {
    /// Its path from the root of the repository.
    path: String,
    /// The source file whose documentation it shows, if it is not a file of the repository.
    source: Option<String>,
    /// Whether it is below the page before it.
    nested: bool,
    text: String,
}

/// The pages by their paths, and the paths of generated pages by those of their sources.
#[derive(Default)]
struct Index<'a> {
    pages: BTreeMap<&'a str, &'a str>,
    generated: BTreeMap<&'a str, &'a str>,
}

impl<'a> Index<'a> {
    fn new(parts: &'a [Part]) -> Self {
        let mut index = Self::default();
        for page in parts.iter().flat_map(|(_, pages)| pages) {
            index.pages.insert(&page.path, &page.text);
            if let Some(source) = &page.source {
                index.generated.insert(source, &page.path);
            }
        }
        index
    }
}

/// A titled part of the book.
type Part = (&'static str, Vec<Page>);

/// Makes the book, and prints where it is.
pub(crate) fn write() -> Result<()> {
    let folder = generate()?;
    println!("the book: {}", render(&folder, &mdbook()?)?.display());
    Ok(())
}

/// Checks the blocks and the links of all pages, and renders the book if mdBook can be installed.
pub(crate) fn check() -> Result<()> {
    check_blocks()?;
    check_repository()?;
    let folder = generate()?;
    match mdbook() {
        Ok(program) => {
            render(&folder, &program)?;
        }
        Err(error) => println!("NOT TESTED: rendering the book: {error:#}"),
    }
    Ok(())
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from)
}

/// Returns the path of mdBook, after installing it if it is missing.
fn mdbook() -> Result<PathBuf> {
    let tools = std::path::absolute(target().join("tools"))?;
    let program = tools.join("bin/mdbook");
    let version = |program: &Path| Command::new(program).arg("--version").output();
    let current = version(&program)
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(MDBOOK));
    if !current {
        // Unoptimised it compiles in a third of the time, and renders the book in seconds.
        run(Command::new("cargo")
            .args(["install", "mdbook", "--version", MDBOOK, "--locked", "--debug", "--quiet"])
            .args(["--no-default-features", "--features", "search", "--root"])
            .arg(&tools)
            .arg("--target-dir")
            .arg(tools.join("build"))
            .env("CARGO_PROFILE_DEV_DEBUG", "0"))?;
        fs::remove_dir_all(tools.join("build"))?;
    }
    Ok(program)
}

/// Renders the pages in `folder`. Returns the first page.
fn render(folder: &Path, program: &Path) -> Result<PathBuf> {
    run(Command::new(program).arg("build").arg(folder).env("RUST_LOG", "warn"))?;
    Ok(folder.join("html/index.html"))
}

/// Writes the sources of the book. Returns their folder.
fn generate() -> Result<PathBuf> {
    let parts = parts()?;
    let folder = target().join("book");
    let sources = folder.join("src");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&sources)?;
    fs::write(folder.join("book.toml"), SETTINGS)?;
    fs::write(folder.join("book.css"), STYLE)?;
    fs::write(sources.join("SUMMARY.md"), summary(&parts)?)?;
    let index = Index::new(&parts);
    for (path, text) in &index.pages {
        let mut faults = Vec::new();
        let text = markdown::map_links(text, |target| {
            resolve(path, target, &index, &sources).unwrap_or_else(|error| {
                faults.push(format!("{path}: {target}: {error:#}"));
                target.to_owned()
            })
        });
        ensure!(faults.is_empty(), "links that lead nowhere in the book:\n{}", faults.join("\n"));
        place(&sources, path, text.as_bytes())?;
    }
    Ok(folder)
}

fn place(sources: &Path, path: &str, bytes: &[u8]) -> Result<()> {
    let file = sources.join(path);
    fs::create_dir_all(file.parent().context("a page without a folder")?)?;
    Ok(fs::write(file, bytes)?)
}

/// Checks the target of a link of the page at `from`, and returns the target in the book. Copies a file that
/// is not a page.
fn resolve(from: &str, target: &str, index: &Index<'_>, sources: &Path) -> Result<String> {
    if target.contains("://") {
        return Ok(target.to_owned());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() { from.to_owned() } else { join(from, file)? };
    if let Some(page) = index.generated.get(path.as_str()) {
        return Ok(format!("{}{page}", "../".repeat(from.matches('/').count())));
    }
    let (path, found) = if Path::new(".").join(&path).is_dir() {
        let file = file.trim_end_matches('/');
        (
            format!("{path}/README.md").trim_start_matches('/').to_owned(),
            format!("{file}/README.md"),
        )
    } else {
        (path, target.to_owned())
    };
    match index.pages.get(path.as_str()) {
        Some(text) => {
            let known =
                anchor.is_empty() || markdown::anchors(text).iter().any(|own| own == anchor);
            ensure!(known, "{path} has no heading of that name");
        }
        None => {
            ensure!(!path.ends_with(".md"), "{path} is not a page of the book");
            let bytes = fs::read(&path).with_context(|| format!("failed to read {path}"))?;
            place(sources, &path, &bytes)?;
        }
    }
    Ok(found)
}

/// Returns the path of a relative target of the page at `from`.
fn join(from: &str, target: &str) -> Result<String> {
    let mut path = PathBuf::from(from);
    path.pop();
    for component in Path::new(target).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => ensure!(path.pop(), "outside the repository"),
            Component::RootDir | Component::Prefix(_) => bail!("not a relative path"),
        }
    }
    Ok(path.to_str().context("not UTF-8")?.to_owned())
}

/// Returns all parts with their pages; the first part is the first page.
fn parts() -> Result<Vec<Part>> {
    let mut parts = vec![("", vec![listed(FIRST)?])];
    for (title, paths) in BEFORE {
        parts.push((title, expand(paths)?));
    }
    let figures = kinds::Figures::read(&web::FIGURES)?;
    let pages = Kind::ALL.iter().map(|kind| {
        let path = format!("{}/{kind}.md", kinds::FOLDER);
        let (source, text) = kinds::page(*kind, &figures)?;
        Ok(Page { path, source: Some(source), nested: false, text })
    });
    parts.push(("Kinds", pages.collect::<Result<_>>()?));
    for (title, paths) in AFTER {
        parts.push((title, expand(paths)?));
    }
    let found: Vec<&str> =
        parts.iter().flat_map(|(_, pages)| pages).map(|page| page.path.as_str()).collect();
    for path in markdown_files("docs")? {
        ensure!(found.contains(&path.as_str()), "{path} is in no part of the book");
    }
    Ok(parts)
}

fn expand(paths: &[&str]) -> Result<Vec<Page>> {
    let mut pages = Vec::new();
    for path in paths {
        let nested = path.starts_with(' ');
        match path.strip_suffix("/*") {
            Some(folder) => {
                for file in markdown_files(folder.trim_start())? {
                    if !paths.iter().any(|path| path.trim_start() == file) {
                        pages.push(Page { nested, ..listed(&file)? });
                    }
                }
            }
            None => pages.push(Page { nested, ..listed(path.trim_start())? }),
        }
    }
    Ok(pages)
}

/// Returns the Markdown files below a folder, in order.
fn markdown_files(folder: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.to_owned())? {
        let path = entry?.path();
        let name = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
        if path.is_dir() && !name.ends_with("target") {
            found.extend(markdown_files(name)?);
        } else if name.ends_with(".md") {
            found.push(name.to_owned());
        }
    }
    found.sort();
    Ok(found)
}

fn listed(path: &str) -> Result<Page> {
    let read = |path: &str| fs::read_to_string(path).with_context(|| path.to_owned());
    let mut source = None;
    let text = match path {
        _ if path == DICTIONARY.trim_start() => {
            let docs = kinds::module_docs(&read(DICTIONARY_SOURCE)?);
            source = Some(DICTIONARY_SOURCE.to_owned());
            format!("# How the dictionary works\n\n{}\n", plain(&docs))
        }
        "docs/choosing.md" => with_kinds(&read(path)?),
        _ => read(path)?,
    };
    Ok(Page { path: path.to_owned(), source, nested: false, text })
}

/// Returns documentation of a crate whose headings are below a page's title, and whose examples say that they
/// are Rust.
fn plain(docs: &str) -> String {
    let prose = markdown::map_prose(&kinds::linked(docs), |prose| {
        prose
            .split_inclusive('\n')
            .map(|line| line.replacen("# ", "## ", usize::from(line.starts_with("# "))))
            .collect()
    });
    prose.replace("```\nuse ", "```rust\nuse ")
}

/// Returns a page with the names of kinds as links to their pages.
fn with_kinds(text: &str) -> String {
    let folder = kinds::FOLDER.trim_start_matches("docs/");
    markdown::map_prose(text, |prose| {
        Kind::ALL.iter().fold(prose.to_owned(), |prose, kind| {
            prose.replace(&format!("`{kind}`"), &format!("[`{kind}`]({folder}/{kind}.md)"))
        })
    })
}

fn summary(parts: &[Part]) -> Result<String> {
    let mut out = String::from("# Summary\n");
    for (title, pages) in parts {
        out.push('\n');
        if !title.is_empty() {
            let _ = writeln!(out, "# {title}\n");
        }
        for Page { path, nested, text, .. } in pages {
            let name = markdown::title(text).with_context(|| format!("{path} has no title"))?;
            let bullet = match (title.is_empty(), nested) {
                (true, _) => "",
                (false, false) => "- ",
                (false, true) => "  - ",
            };
            let _ = writeln!(out, "{bullet}[{name}]({path})");
        }
    }
    Ok(out)
}

/// Checks that the links of the pages lead to files of the repository.
fn check_repository() -> Result<()> {
    let mut faults = Vec::new();
    for Page { path, source, .. } in parts()?.iter().flat_map(|(_, pages)| pages) {
        if source.is_some() {
            continue;
        }
        for target in markdown::links(&fs::read_to_string(path)?) {
            let file = target.split('#').next().unwrap_or_default();
            let there = file.is_empty()
                || target.contains("://")
                || join(path, file).is_ok_and(|path| Path::new(&path).exists());
            if !there {
                faults.push(format!("{path}: {target}"));
            }
        }
    }
    ensure!(faults.is_empty(), "links that lead nowhere:\n{}", faults.join("\n"));
    Ok(())
}

/// Checks that each block of a page is in a language that a test runs.
fn check_blocks() -> Result<()> {
    let parts = parts()?;
    let doctests =
        ["tamis", "dictionary"].map(|name| fs::read_to_string(format!("crates/{name}/src/lib.rs")));
    let doctests: String = doctests.into_iter().collect::<std::io::Result<_>>()?;
    let mut faults = Vec::new();
    for Page { path, source, text, .. } in parts.iter().flat_map(|(_, pages)| pages) {
        let generated = source.is_some();
        for markdown::Block { line, info } in markdown::blocks(text) {
            if let Err(error) = check_block(path, info, generated, &doctests) {
                faults.push(format!("{path}:{line}: {error:#}"));
            }
        }
        // The lab's pages show how to run its programs, which take hours.
        let indented = markdown::indented_blocks(text).into_iter();
        for line in indented.filter(|_| !path.starts_with("lab/")) {
            faults.push(format!("{path}:{line}: a block without a language"));
        }
    }
    ensure!(faults.is_empty(), "blocks that no test runs:\n{}", faults.join("\n"));
    Ok(())
}

/// Checks that some test runs a block.
///
/// | language | test |
/// | --- | --- |
/// | `rust` | documentation tests of the crate that includes the page |
/// | `console`, and `text,file:NAME`, its input | `crates/cli/tests/cmd.rs` runs the commands and compares the output |
/// | `sh` | `crates/cli/src/args/examples.rs` parses every call of `tamis` |
/// | `python` | `bindings/python/tests/test_types_and_docs.py` |
/// | `python,spark` | `bindings/python/tests_spark/test_spark.py` |
/// | `redis` | `bindings/redis/tests/test_docs.py` |
/// | `js` | `bindings/wasm/tests/pages.test.mjs` |
/// | `text` | is not code |
fn check_block(path: &str, info: &str, generated: bool, doctests: &str) -> Result<()> {
    let language = info.split(',').next().unwrap_or_default();
    match language {
        "text" | "console" | "sh" | "python" | "js" => Ok(()),
        "redis" => {
            ensure!(path == "docs/redis.md", "the tests of Redis read docs/redis.md alone");
            Ok(())
        }
        "rust" => {
            // Generated pages quote documentation tests; ARCHITECTURE.md quotes a file that a test compiles.
            let included = doctests.contains(&format!("include_str!(\"../../../{path}\")"));
            ensure!(
                generated || included || path == "ARCHITECTURE.md",
                "no lib.rs includes this page for its documentation tests"
            );
            Ok(())
        }
        "" => bail!("a block without a language"),
        _ => bail!("no test runs blocks of `{language}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_root() {
        std::env::set_current_dir(crate::root()).unwrap();
    }

    #[test]
    fn every_page_has_a_part_and_every_block_a_test() {
        at_root();
        check_blocks().unwrap();
        check_repository().unwrap();
        let parts = parts().unwrap();
        let summary = summary(&parts).unwrap();
        for kind in Kind::ALL {
            assert!(summary.contains(&format!("- [`{kind}`](docs/kinds/{kind}.md)")), "{kind}");
        }
    }

    #[test]
    fn untested_blocks_are_found() {
        assert!(check_block("docs/a.md", "", false, "").is_err());
        assert!(check_block("docs/a.md", "cobol", false, "").is_err());
        assert!(check_block("docs/a.md", "redis", false, "").is_err());
        assert!(check_block("docs/a.md", "rust,no_run", false, "").is_err());
        let includes = "#[doc = include_str!(\"../../../docs/a.md\")]";
        assert!(check_block("docs/a.md", "rust,no_run", false, includes).is_ok());
        assert!(check_block("docs/a.md", "text,file:keys.txt", false, "").is_ok());
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        at_root();
        let index = Index {
            pages: BTreeMap::from([("docs/a.md", "# A\n## B c\n"), ("README.md", "# R\n")]),
            generated: BTreeMap::from([("src/x.rs", "docs/x.md")]),
        };
        let sources = std::env::temp_dir().join(format!("tamis-book-{}", std::process::id()));
        let resolve = |target: &str| super::resolve("docs/a.md", target, &index, &sources);
        for target in ["../README.md", "#b-c", "a.md#b-c", "bits-per-key.svg"] {
            assert_eq!(resolve(target).unwrap(), target);
        }
        assert_eq!(resolve("..").unwrap(), "../README.md");
        assert_eq!(resolve("../src/x.rs").unwrap(), "../docs/x.md");
        for target in ["b.md", "#c", "../../x.md", "/etc/passwd", "none.svg", "../FORMAT.md"] {
            assert!(resolve(target).is_err(), "{target}");
        }
        fs::remove_dir_all(sources).unwrap();
    }
}
