//! The npm package and the page: builds them, and tests them under Node and in Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{cargo, install, run};

const TARGET: &str = "wasm32-unknown-unknown";
const MANIFEST: &str = "bindings/wasm/Cargo.toml";
/// The limit of the WebAssembly's size, compressed: what a visitor waits for.
const MAX_GZIPPED: u64 = 600 << 10;

/// The figures that the page shows.
pub(crate) const FIGURES: [&str; 8] = [
    "docs/bits-per-key.svg",
    "lab/adaptive/sustained.svg",
    "lab/dictionary/redb-replay-accesses.svg",
    "lab/slides/rate-by-k.svg",
    "lab/slides/xor-size.svg",
    "lab/static/peers-1e7.svg",
    "lab/survey/growth-bits.svg",
    "lab/tinyset/figure-10.svg",
];

/// Returns the folder of everything that is built here.
fn folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from).join("web")
}

/// Builds the npm package and the page. Returns their folders.
pub(crate) fn build() -> Result<(PathBuf, PathBuf)> {
    run(Command::new("rustup").args(["target", "add", TARGET]))?;
    let target = folder();
    let target_text = target.to_str().context("the target folder has a name that is not UTF-8")?;
    // Messages of panics name source files: without the folders of this machine.
    let root = std::env::current_dir()?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let flags: Vec<String> = [Some(root), home]
        .into_iter()
        .flatten()
        .map(|folder| format!("--remap-path-prefix={}=", folder.display()))
        .collect();
    run(Command::new("cargo")
        .args(["build", "--release", "--locked", "--manifest-path", MANIFEST])
        .args(["--target", TARGET, "--target-dir", target_text])
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\x1f")))?;
    let package = target.join("package");
    recreate(&package)?;
    let input = target.join(TARGET).join("release/tamis_wasm.wasm");
    run(Command::new("cargo")
        .args(["run", "--locked", "--manifest-path", MANIFEST, "--package", "tamis-wasm-bindgen"])
        .args(["--target-dir", target_text, "--"])
        .args([&input, &package]))?;
    copy(Path::new("bindings/wasm/package"), &package)?;
    for license in ["LICENSE-MIT", "LICENSE-APACHE"] {
        fs::copy(license, package.join(license))?;
    }
    let site = target.join("site");
    recreate(&site)?;
    copy(Path::new("web"), &site)?;
    copy(&package, &site.join("tamis"))?;
    let figures = site.join("figures");
    fs::create_dir_all(&figures)?;
    for figure in FIGURES.map(Path::new) {
        fs::copy(figure, figures.join(figure.file_name().context("a figure without a name")?))?;
    }
    check_size(&package.join("core_bg.wasm"))?;
    Ok((package, site))
}

/// Builds the page and prints where it is.
pub(crate) fn write() -> Result<()> {
    let (package, site) = build()?;
    println!("the npm package: {}\nthe page: {}", package.display(), site.display());
    Ok(())
}

/// Tests the npm package under Node and the page in Chromium.
pub(crate) fn test() -> Result<()> {
    cargo(["fmt", "--manifest-path", MANIFEST, "--all", "--check"])?;
    for (program, name) in [("node", "nodejs"), ("npm", "npm"), ("chromium", "chromium")] {
        if !install(program, name) {
            println!(
                "NOT TESTED: the npm package and the page need {name}, which could not be installed"
            );
            return Ok(());
        }
    }
    let (package, site) = build()?;
    let modules = folder().join("node");
    recreate(&modules)?;
    copy(Path::new("bindings/wasm/tests"), &modules)?;
    let package = fs::canonicalize(package)?;
    run(npm(&modules).arg(&package))?;
    let testdata = fs::canonicalize("testdata")?;
    run(Command::new("node")
        .args(["--test", "filter.test.mjs", "pages.test.mjs"])
        .current_dir(&modules)
        .env("TAMIS_ROOT", fs::canonicalize(".")?)
        .env("TAMIS_TESTDATA", &testdata))?;
    run(Command::new("node")
        .args(["node_modules/typescript/bin/tsc", "--project", "."])
        .current_dir(&modules))?;
    let site = fs::canonicalize(site)?;
    run(Command::new("node")
        .args(["--test", "page.test.mjs"])
        .current_dir(&modules)
        .env("TAMIS_COMMAND", explore(&site)?)
        .env("TAMIS_SITE", &site)
        .env("TAMIS_TESTDATA", &testdata))
}

/// Builds the command with the page in it, unoptimised and without what needs long to compile. Returns
/// its path.
fn explore(site: &Path) -> Result<PathBuf> {
    let flags = ["--package", "tamis-cli", "--no-default-features", "--features", "explore"];
    run(Command::new("cargo").args(["build", "--locked"]).args(flags).env("TAMIS_SITE", site))?;
    let target = folder().parent().map_or_else(PathBuf::new, Path::to_path_buf);
    Ok(fs::canonicalize(target.join("debug/tamis"))?)
}

/// Measures the npm package beside others under Node.
pub(crate) fn bench() -> Result<()> {
    ensure!(
        install("node", "nodejs") && install("npm", "npm"),
        "nodejs and npm could not be installed"
    );
    let (package, _) = build()?;
    let modules = folder().join("bench");
    recreate(&modules)?;
    copy(Path::new("bindings/wasm/bench"), &modules)?;
    run(npm(&modules).arg(fs::canonicalize(package)?))?;
    run(Command::new("node").arg("bench.mjs").current_dir(&modules))
}

fn npm(folder: &Path) -> Command {
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--no-package-lock", "--no-save"]);
    npm.current_dir(folder);
    npm
}

fn recreate(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}

/// Copies the files of a folder, with all folders in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().context("a file without a name")?);
        if path.is_dir() {
            copy(&path, &target)?;
        } else {
            fs::copy(&path, &target).with_context(|| path.display().to_string())?;
        }
    }
    Ok(())
}

/// Checks the compressed size of the WebAssembly.
fn check_size(path: &Path) -> Result<()> {
    let gzipped = Command::new("gzip").args(["--best", "--stdout"]).arg(path).output()?;
    ensure!(gzipped.status.success(), "gzip failed");
    let size = gzipped.stdout.len() as u64;
    println!("the WebAssembly takes {} KiB compressed, at most {}", size >> 10, MAX_GZIPPED >> 10);
    ensure!(size <= MAX_GZIPPED, "the WebAssembly is too large");
    Ok(())
}
