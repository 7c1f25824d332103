//! Filters of the crates `bloomfilter` and `parquet`.
//!
//! `make DIR` writes the files of testdata/foreign, and `check DIR` reads the files that `tamis` has
//! written and looks up their members. Keys are the strings key-0 to key-399 and the integers
//! `i * i - 1000` for `i` from 0 to 399.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use bloomfilter::Bloom;
use parquet::bloom_filter::Sbbf;

const KEYS: std::ops::Range<i32> = 0..400;
const OTHERS: std::ops::Range<i32> = 1_000_000..1_010_000;

fn text(i: i32) -> String {
    format!("key-{i}")
}

fn number(i: i32) -> i32 {
    i * i - 1000
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [command, folder] = &arguments[..] else { return Err("make DIR or check DIR".into()) };
    let folder = PathBuf::from(folder);
    match &command[..] {
        "make" => make(&folder),
        "check" => check(&folder),
        _ => Err("make DIR or check DIR".into()),
    }
}

fn make(folder: &Path) -> Result<(), Box<dyn Error>> {
    // The seed that `tamis build` takes.
    let seed = std::array::from_fn(|at| u8::from(at == 16));
    let mut bytes = Bloom::<[u8]>::new_for_fp_rate_with_seed(1000, 0.01, &seed)?;
    KEYS.for_each(|i| bytes.set(text(i).as_bytes()));
    fs::write(folder.join("bloomfilter-bytes.bin"), bytes.to_bytes())?;

    // A filter of 3 types of keys, under a seed whose bytes all differ.
    let seed = std::array::from_fn(|at| 7 * at as u8 + 1);
    let mut texts = Bloom::<str>::new_for_fp_rate_with_seed(1200, 0.01, &seed)?;
    KEYS.for_each(|i| texts.set(&text(i)));
    let mut wide = Bloom::<i64>::from_bytes(texts.into_bytes())?;
    KEYS.for_each(|i| wide.set(&number(i).into()));
    let mut narrow = Bloom::<i32>::from_bytes(wide.into_bytes())?;
    KEYS.for_each(|i| narrow.set(&number(i)));
    Ok(fs::write(folder.join("bloomfilter-str.bin"), narrow.into_bytes())?)
}

fn check(folder: &Path) -> Result<(), Box<dyn Error>> {
    let bloom = Bloom::<[u8]>::from_bytes(fs::read(folder.join("bloomfilter-texts.bin"))?)?;
    expect("bloomfilter", |i| bloom.check(text(i).as_bytes()));
    let sbbf = Sbbf::from_bytes(&fs::read(folder.join("parquet-texts.bin"))?)?;
    expect("parquet", |i| sbbf.check(text(i).as_bytes()));
    let sbbf = Sbbf::from_bytes(&fs::read(folder.join("parquet-numbers.bin"))?)?;
    expect("parquet, integers", |i| sbbf.check(&(i64::from(i) * i64::from(i) - 1000)));
    Ok(())
}

fn expect(name: &str, contains: impl Fn(i32) -> bool) {
    let count = |keys: std::ops::Range<i32>| keys.filter(|i| contains(*i)).count();
    let (found, others) = (count(KEYS), count(OTHERS));
    println!("{name}: {found} of {} members, {others} of {} others", KEYS.len(), OTHERS.len());
    assert!(found == KEYS.len() && others <= 400, "{name}");
}
