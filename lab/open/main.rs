//! Measures how long a large file takes to open, and how much of it is in memory afterwards.
//!
//! `cargo run --release -p tamis-lab --bin open` writes a filter of 1 GiB to a temporary folder and
//! opens it in a new process, whose memory holds nothing from the writing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use tamis::{HashId, Insert, KeyHasher, Keyed, SplitBlockBloom, SplitBlockBloomShape};

const BLOCKS: u64 = (1 << 30) / 32;

fn main() -> Result<()> {
    if let Some(path) = std::env::args().nth(1) {
        return open(Path::new(&path));
    }
    let path: PathBuf =
        std::env::temp_dir().join(format!("tamis-open-{}.tamis", std::process::id()));
    let mut filter = SplitBlockBloom::new(SplitBlockBloomShape::new(BLOCKS, 1 << 30)?)?;
    filter.insert_batch(&lab::hashes(1, 0, 1_000_000))?;
    Keyed::new(KeyHasher::new(HashId::Fast, [1, 0x7a3e]), filter).save(&path)?;
    let status = Command::new(std::env::current_exe()?).arg(&path).status();
    std::fs::remove_file(&path)?;
    ensure!(status?.success(), "failed to open the file");
    Ok(())
}

fn open(path: &Path) -> Result<()> {
    let bytes = path.metadata()?.len();
    let start = Instant::now();
    let filter = Keyed::<SplitBlockBloom>::open(path)?;
    let member = filter.contains(&0u64);
    let time = start.elapsed();
    ensure!(member, "a member was denied");
    println!(
        "{bytes} bytes: opened and queried in {:.3} ms, {} in memory",
        time.as_secs_f64() * 1e3,
        resident()?
    );
    Ok(())
}

fn resident() -> Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().to_owned())
}
