//! The tests of the Python package.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{install, run};

/// The folder of the package.
const PACKAGE: &str = "bindings/python";
/// What the tests need, besides the package.
const PACKAGES: [&str; 11] = [
    "duckdb",
    "hypothesis",
    "maturin>=1.16,<2",
    "mypy",
    "numpy",
    "pandas<3",
    "polars",
    "pyarrow",
    "pytest",
    "tqdm",
    "types-tqdm",
];

/// Returns the folder of what cargo builds for the package, which is a workspace of its own.
fn target_folder() -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    Ok(std::path::absolute(target)?.join("python"))
}

/// A virtual environment with the package in it.
pub(crate) struct Environment {
    folder: PathBuf,
}

impl Environment {
    /// Makes a virtual environment with these packages, or takes the one that is there.
    fn new(folder: &Path, packages: &[&str]) -> Result<Self> {
        let folder = std::path::absolute(folder)?;
        if !folder.join("bin/pip").exists() {
            let make = || run(Command::new("python3").args(["-m", "venv"]).arg(&folder));
            if make().is_err() {
                // Debian has the module in a package of its own.
                ensure!(install("python3", "python3"), "Python is not installed");
                run(Command::new("apt-get").args(["install", "--yes", "python3-venv"]))?;
                make()?;
            }
        }
        let environment = Self { folder };
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(environment.python().args(pip).args(["--only-binary", ":all:"]).args(packages))?;
        Ok(environment)
    }

    /// Returns a command that runs Python.
    pub(crate) fn python(&self) -> Command {
        Command::new(self.folder.join("bin/python"))
    }

    /// Builds the package with little optimisation, and installs it.
    fn install_package(&self) -> Result<()> {
        let target = target_folder()?;
        let wheels = target.join("wheels");
        // A wheel of an older build would be installed as well.
        let _ = std::fs::remove_dir_all(&wheels);
        run(self
            .python()
            .args(["-m", "maturin", "build", "--locked", "--quiet", "--out"])
            .arg(&wheels)
            .args(["--manifest-path", &format!("{PACKAGE}/Cargo.toml"), "--interpreter"])
            .arg(self.folder.join("bin/python"))
            .env("CARGO_TARGET_DIR", target))?;
        let wheel = std::fs::read_dir(&wheels)?.next().context("maturin has built no wheel")??;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(self.python().args(pip).args(["--force-reinstall", "--no-deps"]).arg(wheel.path()))
    }
}

/// Makes a virtual environment in `target`, with the package and these packages.
pub(crate) fn environment(name: &str, packages: &[&str]) -> Result<Environment> {
    let environment = Environment::new(&Path::new("target").join(name), packages)?;
    environment.install_package()?;
    Ok(environment)
}

/// Runs the tests of `tamis.spark` on a cluster of 2 workers on this machine.
pub(crate) fn test_spark() -> Result<()> {
    if !install("java", "default-jre-headless") {
        println!("NOT TESTED: tamis.spark: Java could not be installed");
        return Ok(());
    }
    let environment = environment("python-environment", &PACKAGES)?;
    // It has no wheel. A test uses Spark Connect.
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(environment.python().args(pip).arg("pyspark[connect]==4.3.0"))?;
    run(environment.python().args(["-m", "pytest", "tests_spark"]).current_dir(PACKAGE))
}

/// Checks formats, lints and types, and runs the tests of the package.
pub(crate) fn test() -> Result<()> {
    let manifest = format!("{PACKAGE}/Cargo.toml");
    run(Command::new("cargo").args(["fmt", "--check", "--manifest-path", &manifest]))?;
    let environment = environment("python-environment", &PACKAGES)?;
    let clippy = ["clippy", "--locked", "--quiet", "--manifest-path", &manifest];
    let mut command = Command::new("cargo");
    command.args(clippy).args(["--", "-D", "warnings"]);
    run(command.env("CARGO_TARGET_DIR", target_folder()?))?;
    let in_package = || {
        let mut python = environment.python();
        python.current_dir(PACKAGE);
        python
    };
    run(in_package().args(["-m", "mypy"]))?;
    run(in_package().args(["-m", "pytest"]))
}
