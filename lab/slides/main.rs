//! "Approximate Membership Queries" (Madeira, 2022): what the slides state, measured.
//!
//! `cargo run --release -p tamis-lab --bin slides`

use anyhow::Result;
use lab::{Line, STRANGERS, Sheet, hashes, share_of_yes};
use tamis::{
    Bloom, BloomShape, Build, CountingBloom, CountingBloomShape, Filter, Insert, Overlap, Remove,
    Shape,
};

const KEYS: u64 = 1_000_000;

fn main() -> Result<()> {
    rate_by_k()?;
    overflow()?;
    deletion()?;
    similarity()
}

/// False positives against the number of bits a key sets, at 8 bits of memory a key.
fn rate_by_k() -> Result<()> {
    let columns = ["k", "slides", "textbook", "exact", "measured"];
    let mut sheet = Sheet::new("slides", "rate-by-k", &columns);
    let members = hashes(1, 0, KEYS);
    let strangers = hashes(1, STRANGERS, 4 * KEYS);
    let (mut textbook_line, mut measured_line) = (Vec::new(), Vec::new());
    for k in 1..=16 {
        let shape = BloomShape::new(8 * KEYS, k, KEYS)?;
        let textbook = (1.0 - (-f64::from(k) / 8.0).exp()).powi(k.cast_signed());
        let exact = shape.figures().fpr;
        let measured = share_of_yes(&Bloom::build(shape, &members[..])?, &strangers);
        let slides = match k {
            1 => "0.1175",
            2 => "0.0493",
            _ => "",
        };
        sheet.row(&[
            &k,
            &slides,
            &format!("{textbook:.4}"),
            &format!("{exact:.4}"),
            &format!("{measured:.4}"),
        ]);
        textbook_line.push((f64::from(k), textbook));
        measured_line.push((f64::from(k), measured));
    }
    sheet.finish(
        "False positives against bits set a key, 8 bits of memory a key",
        "bits set a key (k)",
        "false positive rate",
        true,
        vec![
            Line::calculated("textbook", textbook_line),
            Line::measured("measured", measured_line),
        ],
    )?;
    println!("\n  the best k is 8 ln 2 = {:.2}", 8.0 * std::f64::consts::LN_2);
    Ok(())
}

/// How many counters of w bits are full when a filter of 1 % is.
fn overflow() -> Result<()> {
    let columns =
        ["bits", "largest count", "calculated share full", "measured share full", "counters"];
    let mut sheet = Sheet::new("slides", "counter-overflow", &columns);
    let (mut calculated_line, mut measured_line) = (Vec::new(), Vec::new());
    for width in 2..=6u32 {
        let shape = CountingBloomShape::new(9_585_059, 7, width, KEYS)?;
        let counters = shape.counters();
        let most = (1u32 << width) - 1;
        let calculated = shape.stuck(KEYS);
        let filter = CountingBloom::build(shape, &hashes(2, 0, KEYS)[..])?;
        let measured = filter.stuck() as f64 / counters as f64;
        let cells = [format!("{calculated:.3e}"), format!("{measured:.3e}")];
        sheet.row(&[&width, &most, &cells[0], &cells[1], &counters]);
        calculated_line.push((f64::from(width), calculated));
        if measured > 0.0 {
            measured_line.push((f64::from(width), measured));
        }
    }
    sheet.finish(
        "Counters that are full, in a counting Bloom filter of 1 %",
        "bits a counter",
        "share of counters",
        true,
        vec![
            Line::calculated("Poisson tail", calculated_line),
            Line::measured("measured", measured_line),
        ],
    )
}

/// Members denied after half of the members were deleted, by counter width.
fn deletion() -> Result<()> {
    let mut sheet = Sheet::new(
        "slides",
        "deletion",
        &["bits", "deleted", "members left", "denied", "still said yes to"],
    );
    let keys = hashes(3, 0, KEYS);
    let (gone, left) = keys.split_at(keys.len() / 2);
    for width in [2, 3, 4, 8] {
        let mut filter =
            CountingBloom::build(CountingBloomShape::new(9_585_059, 7, width, KEYS)?, &keys[..])?;
        for key in gone {
            filter.remove(*key);
        }
        let denied = left.iter().filter(|key| !filter.contains(**key)).count();
        let stays = share_of_yes(&filter, gone);
        sheet.row(&[&width, &gone.len(), &left.len(), &denied, &format!("{stays:.5}")]);
    }
    sheet.finish("Deleting members never denies another", "", "", false, Vec::new())
}

/// The normalised dot product of two filters against what their sets really share.
fn similarity() -> Result<()> {
    const WORDS: u64 = 2_000;
    let mut sheet = Sheet::new(
        "slides",
        "similarity",
        &["words in common", "cosine of the sets", "dot product of the filters"],
    );
    let (mut sets, mut filters) = (Vec::new(), Vec::new());
    let filter = |from: u64| -> Result<Bloom> {
        let mut filter = Bloom::new(BloomShape::fit(WORDS, 0.001)?)?;
        filter.insert_each(&hashes(4, from, WORDS))?;
        Ok(filter)
    };
    let first = filter(0)?;
    for tenth in 0..=10 {
        let common = WORDS * tenth / 10;
        let similarity = first.similarity(&filter(WORDS - common)?)?;
        let cosine = common as f64 / WORDS as f64;
        sheet.row(&[&common, &format!("{cosine:.1}"), &format!("{similarity:.3}")]);
        sets.push((cosine, cosine));
        filters.push((cosine, similarity));
    }
    sheet.finish(
        "Similarity of two texts of 2000 words, from their Bloom filters",
        "share of words in common",
        "normalised dot product",
        false,
        vec![Line::calculated("of the sets", sets), Line::measured("of the filters", filters)],
    )
}
