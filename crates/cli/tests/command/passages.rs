//! `similar --passages`.

use std::fmt::Write;

use serde_json::Value;

use crate::sandbox::Sandbox;

/// A pseudo-random number below `below`.
fn draw(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

/// Paragraphs of 60 words, most of them frequent ones. Every 100th paragraph of the second half is one of the
/// first half with some words replaced.
fn corpus(paragraphs: usize) -> (String, Vec<(u64, u64)>) {
    let mut state = 7;
    let mut all: Vec<Vec<u64>> = Vec::new();
    let mut planted = Vec::new();
    for number in 0..paragraphs {
        let words = if number >= paragraphs / 2 && number % 100 == 0 {
            let from = number - paragraphs / 2;
            planted.push((2 * from as u64 + 1, 2 * number as u64 + 1));
            let mut words = all[from].clone();
            for _ in 0..4 {
                words[draw(&mut state, 60) as usize] = draw(&mut state, 50_000);
            }
            words
        } else {
            // A word of rank r is drawn in proportion to 1/r, roughly.
            (0..60)
                .map(|_| {
                    let most = 1 << draw(&mut state, 16);
                    draw(&mut state, most)
                })
                .collect()
        };
        all.push(words);
    }
    let mut text = String::new();
    for words in &all {
        for word in words {
            write!(text, "w{word} ").unwrap();
        }
        text.push_str("\n\n");
    }
    (text, planted)
}

#[test]
fn planted_near_duplicates_are_found_among_ten_thousand_passages() {
    let (text, planted) = corpus(10_000);
    let sandbox = Sandbox::new(&[("corpus.txt", text.as_bytes())]);
    let printed = sandbox.ok("similar --passages corpus.txt --min 0.6 --top 1000 --json");
    let pairs: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found =
        |(a, b): &(u64, u64)| pairs.iter().any(|pair| pair["a_line"] == *a && pair["b_line"] == *b);
    let recall = planted.iter().filter(|pair| found(pair)).count() as f64 / planted.len() as f64;
    let stated = pairs[0]["recall"].as_f64().unwrap();
    assert!(stated >= 0.99 && recall >= 0.95, "{recall} found, {stated} stated");
    let first = pairs[0]["jaccard"].as_f64().unwrap();
    assert!(pairs.iter().all(|pair| pair["jaccard"].as_f64().unwrap() <= first));
    // Passages that share only frequent words are not among them.
    assert!(pairs.len() <= planted.len() + 5, "{} pairs", pairs.len());
}

#[test]
fn texts_are_compared_by_lines_words_and_shingles() {
    let a = "The cat sat on the mat.\nNothing is here.\n\nA third passage of this text.\n";
    let b = "the CAT sat on the mat!\n\nOn the mat sat the cat.\n";
    let sandbox = Sandbox::new(&[("a", a.as_bytes()), ("b", b.as_bytes()), ("empty", b"")]);
    let lines = sandbox.ok("similar --passages --passage lines a b");
    assert!(
        lines.contains("a:1") && lines.contains("b:1") && lines.contains("1.000 ±0.000"),
        "{lines}"
    );
    assert_eq!(lines.lines().count(), 3, "{lines}");
    // Shingles tell the order of words.
    let shingles = sandbox.ok("similar --passages --passage lines --shingle 3 a b");
    assert_eq!(shingles.lines().count(), 2, "{shingles}");
    assert_eq!(sandbox.ok("similar --passages --passage 3 --min 1 a"), "");
    assert_eq!(sandbox.ok("similar --passages empty"), "");
    for (line, expected) in [
        ("similar --passages --min 0 a", "0.05 to 1"),
        ("similar --passages --min 2 a", "0.05 to 1"),
        ("similar --passages --shingle 0 a", "--shingle"),
        ("similar --passages --passage pages a", "lines, paragraphs"),
        ("similar --passages --top 0 a", "1 to 10M"),
        ("similar --shingle 3 a b", "--passages"),
        ("similar --passages none", "none: "),
        ("similar a", "at least 2 filters"),
    ] {
        let message = sandbox.error(line);
        assert!(message.contains(expected), "{line}: {message}");
    }
}
