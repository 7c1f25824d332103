//! `cargo xtask foreign`: installs the programs whose formats `crates/interop` reads, lets them make the
//! files of testdata/foreign again, and lets them read files that `tamis` writes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{install, run};

/// The folder of programs and jars, kept between runs.
const TOOLS: &str = "target/foreign";
const GOLDEN: &str = "testdata/foreign";
/// The Python packages, at the versions that docs/formats names. xxhash 4 breaks pyfusefilter 1.3.0.
const PACKAGES: [&str; 6] = [
    "pyarrow==26.0.1",
    "duckdb==2.0.0",
    "rbloom==1.5.4",
    "pyfusefilter==1.3.0",
    "xxhash<4",
    "poppy-py==0.2.1",
];
/// The source distribution with the jars of Spark, Guava and DataSketches: 435 MiB.
const SPARK: &str = "pyspark==4.3.0";
const JARS: [&str; 6] = [
    "spark-sketch",
    "spark-common-utils",
    "guava",
    "failureaccess",
    "datasketches-java",
    "datasketches-memory",
];
/// Formats that the programs read, and the file and the type of the keys for each.
const WRITTEN: [(&str, &str, &str); 12] = [
    ("spark_v1", "texts", "utf8"),
    ("spark_v2", "texts", "utf8"),
    ("guava", "texts", "utf8"),
    ("datasketches", "texts", "utf8"),
    ("fuse8", "texts", "utf8"),
    ("fuse16", "texts", "utf8"),
    ("dcso", "texts", "utf8"),
    ("rbloom", "hashes", "hash128"),
    ("redisbloom", "texts", "utf8"),
    ("bloomfilter", "texts", "utf8"),
    ("parquet", "texts", "utf8"),
    ("parquet", "numbers", "int64"),
];

/// Installs, makes, compares and checks. With `--write` the made files replace those of testdata/foreign.
pub(crate) fn foreign(flags: &[String]) -> Result<()> {
    let tools = fs::canonicalize(".")?.join(TOOLS);
    fs::create_dir_all(&tools)?;
    let python = python(&tools)?;
    let classes = classes(&tools, &python)?;
    let java = |command: &str, folder: &Path| {
        run(Command::new("java").arg("-cp").arg(&classes).args(["Foreign", command]).arg(folder))
    };
    let python = |command: &str, folder: &Path| {
        run(Command::new(&python).args(["xtask/foreign/foreign.py", command]).arg(folder))
    };

    let rust = |command: &str, folder: &Path| {
        run(Command::new("cargo")
            .args(["run", "--quiet", "--manifest-path", "xtask/foreign/rust/Cargo.toml"])
            .args(["--target-dir", &format!("{TOOLS}/rust"), "--", command])
            .arg(folder))
    };

    let made = tools.join("made");
    empty(&made)?;
    java("make", &made)?;
    python("make", &made)?;
    rust("make", &made)?;
    if flags.iter().any(|flag| flag == "--write") {
        for entry in fs::read_dir(&made)? {
            let path = entry?.path();
            fs::copy(&path, Path::new(GOLDEN).join(path.file_name().context("a file")?))?;
        }
    }
    compare(&made)?;

    let written = tools.join("written");
    empty(&written)?;
    write(&written)?;
    java("check", &written)?;
    python("check", &written)?;
    rust("check", &written)?;
    println!("tamis: foreign: ok");
    Ok(())
}

fn empty(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}

/// Returns a Python that has the packages.
fn python(tools: &Path) -> Result<PathBuf> {
    let venv = tools.join("venv");
    let python = venv.join("bin/python");
    if !python.exists() {
        ensure!(install("python3", "python3-venv"), "python3 is required");
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    }
    run(Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "setuptools", "wheel"])
        .args(PACKAGES))?;
    Ok(python)
}

/// Returns the class path: the jars, which Spark's distribution has, and the Java program.
fn classes(tools: &Path, python: &Path) -> Result<String> {
    ensure!(install("javac", "default-jdk-headless"), "a JDK is required");
    let (jars, classes) = (tools.join("jars"), tools.join("classes"));
    if !jars.exists() {
        let download = tools.join("download");
        empty(&download)?;
        run(Command::new(python)
            .args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"])
            .args(["--no-cache-dir", "--no-binary", ":all:", SPARK, "--dest"])
            .arg(&download))?;
        let archive = fs::read_dir(&download)?.next().context("no archive was downloaded")??.path();
        let partial = tools.join("jars.partial");
        empty(&partial)?;
        let patterns = JARS.map(|jar| format!("*/jars/{jar}*.jar"));
        run(Command::new("tar")
            .args(["--extract", "--strip-components=3", "--wildcards", "--file"])
            .arg(&archive)
            .arg("--directory")
            .arg(&partial)
            .args(patterns))?;
        fs::remove_dir_all(&download)?;
        fs::rename(&partial, &jars)?;
    }
    let mut path = Vec::new();
    for entry in fs::read_dir(&jars)? {
        path.push(entry?.path().display().to_string());
    }
    let jars = path.join(":");
    fs::create_dir_all(&classes)?;
    run(Command::new("javac")
        .args(["-cp", &jars, "-d"])
        .arg(&classes)
        .arg("xtask/foreign/Foreign.java"))?;
    Ok(format!("{jars}:{}", classes.display()))
}

/// Checks that the programs make the files that are kept. Parquet files name the version that wrote them
/// and need not be equal.
fn compare(made: &Path) -> Result<()> {
    for entry in fs::read_dir(made)? {
        let path = entry?.path();
        let name = path.file_name().context("a file")?;
        if path.extension().is_some_and(|extension| extension == "bin") {
            let kept = fs::read(Path::new(GOLDEN).join(name))?;
            let name = name.display();
            ensure!(kept == fs::read(&path)?, "{GOLDEN}/{name} is not what the program makes");
        }
    }
    Ok(())
}

/// Builds a filter of every format with the command.
fn write(folder: &Path) -> Result<()> {
    let texts: String = (0..400).map(|i| format!("key-{i}\n")).collect();
    let factor = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835u128;
    let hash = |i: u128| i.wrapping_mul(factor).wrapping_add(12345);
    let hashes: String = (0..400).map(|i| format!("{}\n", hash(i))).collect();
    let numbers: String = (0..400).map(|i| format!("{}\n", i * i - 1000)).collect();
    fs::write(folder.join("texts"), texts)?;
    fs::write(folder.join("numbers"), numbers)?;
    fs::write(folder.join("hashes"), hashes)?;
    run(Command::new("cargo").args(["build", "--package", "tamis-cli", "--quiet"]))?;
    for (format, keys, key_type) in WRITTEN {
        run(Command::new("cargo")
            .args(["run", "--package", "tamis-cli", "--quiet", "--", "build", "--quiet"])
            .arg(folder.join(keys))
            .args(["--format", format, "--type", key_type, "-o"])
            .arg(folder.join(format!("{format}-{keys}.bin"))))?;
    }
    Ok(())
}
