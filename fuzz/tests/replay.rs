//! The fuzz targets on what was found so far, on golden files, and on chance.

use std::fs;

use tamis_conformance::Effort;
use tamis_conformance::allocation::Counting;
use tamis_conformance::attack::accident;
use tamis_conformance::files::testdata;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Every file that is kept, then `inputs` inputs, or more in a soak: mutations of the kept ones and pure noise.
fn replay(target: fn(&[u8]), salt: u64, inputs: u64) {
    replay_folders(&["golden", "corrupt"], target, salt, inputs);
}

fn replay_folders(folders: &[&str], target: fn(&[u8]), salt: u64, inputs: u64) {
    let folders: Vec<_> = folders.iter().map(|folder| testdata(folder)).collect();
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder of files"));
    let mut kept: Vec<Vec<u8>> = files
        .map(|file| fs::read(file.expect("a file").path()).expect("a readable file"))
        .collect();
    kept.sort();
    assert!(!kept.is_empty());
    kept.iter().for_each(|bytes| target(bytes));
    let effort = Effort::now();
    let mut random = effort.random(salt);
    for _ in 0..effort.times(inputs) {
        let input = if random.below(2) == 0 {
            (0..random.below(300)).map(|_| random.word() as u8).collect()
        } else {
            let mut bytes = kept[random.below(kept.len())].clone();
            for _ in 0..=random.below(3) {
                bytes = accident(&bytes, &mut random);
            }
            bytes
        };
        target(&input);
    }
}

#[test]
fn containers_of_any_bytes() {
    replay(tamis_fuzz::container, 61, 20_000);
}

#[test]
fn filters_of_any_bytes() {
    replay(tamis_fuzz::read, 62, 20_000);
}

/// `TAMIS_EXECUTIONS` sets the number of executions, and `TAMIS_SEED` what they are.
#[test]
fn hostile_files() {
    let number = |name| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let effort = Effort::now();
    let executions = number("TAMIS_EXECUTIONS").unwrap_or(effort.times(200_000));
    let seed = number("TAMIS_SEED").unwrap_or_else(|| effort.random(66).word());
    tamis_fuzz::run(seed, executions);
}

#[test]
fn operations_in_any_order() {
    replay(tamis_fuzz::ops, 63, 20_000);
}

#[test]
fn wishes_of_any_size() {
    replay(tamis_fuzz::plan, 64, 1_000);
}

#[test]
fn formulas_of_any_bytes() {
    replay(tamis_fuzz::dimacs, 65, 20_000);
}

#[test]
fn filters_of_other_programs_of_any_bytes() {
    replay_folders(&["foreign"], tamis_fuzz::foreign, 67, 20_000);
}
