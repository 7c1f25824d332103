//! `diff`, `patch`, and `export --to bloom`: a filter goes to its peers once, and then what changes.

use std::fs;

use serde_json::Value;

use crate::sandbox::{SEED, Sandbox, lines};

fn number(json: &str, field: &str) -> f64 {
    serde_json::from_str::<Value>(json).unwrap()[field].as_f64().unwrap()
}

#[test]
fn spectral_filters_send_their_bits() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 5000)), ("more", &lines(5000, 5000))]);
    for (kind, least) in [("spectral_bloom", 1.5), ("removable_spectral_bloom", 1.75)] {
        let build = format!("build keys --filter {kind} --keys 10k --fpr 1% --seed {SEED}");
        sandbox.ok(&format!("{build} -q -o {kind}"));
        sandbox.ok(&format!("add {kind} keys -q"));
        sandbox.ok(&format!("export {kind} --to bloom -q -o plain"));
        assert_eq!(sandbox.ok("verify plain").trim(), "plain: ok");
        let [counting, plain] = [kind, "plain"]
            .map(|name| number(&sandbox.ok(&format!("info {name} --json")), "bytes"));
        assert!(counting / plain > least, "{kind}: {counting} and {plain} bytes");
        for probes in ["keys", "more"] {
            let query = |name| sandbox.run(&format!("query {name} {probes} -c")).stdout;
            assert_eq!(query(kind), query("plain"));
        }
        fs::remove_file(sandbox.path("plain")).unwrap();
    }
}

#[test]
fn a_cache_sends_its_bits_and_then_its_changes() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 20_000)), ("more", &lines(20_000, 200))]);
    let build = "build keys --filter counting_bloom --keys 21k --fpr 1%";
    sandbox.ok(&format!("{build} --seed {SEED} -q -o cache.tamis"));
    sandbox.ok("export cache.tamis --to bloom -q -o sent.tamis");
    assert_eq!(sandbox.ok("verify sent.tamis").trim(), "sent.tamis: ok");
    let [counting, plain] = ["cache.tamis", "sent.tamis"]
        .map(|name| number(&sandbox.ok(&format!("info {name} --json")), "bytes"));
    assert!((4.9..5.1).contains(&(counting / plain)), "{counting} and {plain} bytes");
    for probes in ["keys", "more"] {
        let query = |name| sandbox.run(&format!("query {name} {probes} -c")).stdout;
        assert_eq!(query("cache.tamis"), query("sent.tamis"));
    }

    sandbox.ok("add cache.tamis more -q");
    sandbox.ok("export cache.tamis --to bloom -q -o new.tamis");
    let printed = sandbox.ok("diff sent.tamis new.tamis --json -o changes");
    let size = fs::metadata(sandbox.path("changes")).unwrap().len();
    assert_eq!(number(&printed, "bytes"), size as f64);
    let share = number(&printed, "share");
    assert!(share < 0.06, "1 % of new keys: {share} of the filter");
    sandbox.ok("patch sent.tamis changes -q -o received.tamis");
    let read = |name| fs::read(sandbox.path(name)).unwrap();
    assert!(read("received.tamis") == read("new.tamis"));
    // Without -o the old filter is replaced.
    let printed = sandbox.ok("patch sent.tamis changes --json");
    assert!(read("sent.tamis") == read("new.tamis"));
    assert_eq!(number(&printed, "keys"), 20_200.0);
    // The old filter is gone, so the same changes fit no more.
    let message = sandbox.error("patch sent.tamis changes");
    assert_eq!(message, "changes: the changes are not those of sent.tamis");
}

#[test]
fn any_two_filters_have_changes() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 3000)), ("more", &lines(3000, 3000))]);
    let kinds = ["bloom", "cuckoo", "quotient", "growing", "ribbon"];
    for (index, kind) in kinds.iter().enumerate() {
        sandbox.ok(&format!("build keys --filter {kind} -q -o f{index}"));
        sandbox.ok(&format!("build keys more --filter {kind} -q -o g{index}"));
    }
    for (a, b) in [("f0", "g0"), ("f1", "g1"), ("g2", "f2"), ("f3", "g3"), ("f4", "g0")] {
        sandbox.ok(&format!("diff {a} {b} -q -o changes"));
        sandbox.ok(&format!("patch {a} changes -q -o back"));
        let read = |name| fs::read(sandbox.path(name)).unwrap();
        assert!(read("back") == read(b), "{a} to {b}");
        assert!(read("changes").len() < read(b).len() + 200, "{a} to {b}");
    }
}

#[test]
fn damaged_and_hostile_changes_are_errors() {
    let sandbox = Sandbox::new(&[
        ("keys", &lines(0, 3000)),
        ("more", &lines(3000, 30)),
        ("text", b"no filter, and no changes\n"),
        ("empty", b""),
    ]);
    sandbox.ok("build keys --filter bloom --keys 4000 -q -o a");
    sandbox.ok("add a more -q -o b");
    sandbox.ok("diff a b -q -o changes");
    let whole = fs::read(sandbox.path("changes")).unwrap();
    for len in [1, 20, whole.len() / 2, whole.len() - 1] {
        fs::write(sandbox.path("part"), &whole[..len]).unwrap();
        sandbox.error("patch a part -o c");
    }
    // Changes that are not compressed, and a file that would decompress to 1 GB of zeros.
    let plain = zstd::decode_all(&whole[..]).unwrap();
    fs::write(sandbox.path("plain"), &plain).unwrap();
    sandbox.ok("patch a plain -q -o c");
    assert!(fs::read(sandbox.path("c")).unwrap() == fs::read(sandbox.path("b")).unwrap());
    fs::write(sandbox.path("part"), &plain[..plain.len() - 3]).unwrap();
    assert!(sandbox.error("patch a part").contains("records are missing"));
    let bomb = zstd::encode_all(std::io::Read::take(std::io::repeat(0), 1 << 30), 1).unwrap();
    fs::write(sandbox.path("bomb"), bomb).unwrap();
    let message = sandbox.error("patch a bomb --max-memory 10M");
    assert_eq!(message, "bomb: not a delta of .tamis files");
    assert_eq!(sandbox.error("patch a text"), "text: not a delta of .tamis files");
    assert_eq!(sandbox.error("patch a empty"), "empty: not a delta of .tamis files");
    assert_eq!(sandbox.error("patch text changes"), "text: not a .tamis file");
    assert_eq!(sandbox.error("diff a text -o d"), "text: not a .tamis file");
    let message = sandbox.error("patch a changes --max-memory 100");
    assert!(message.contains("changes: "), "{message}");
    let message = sandbox.error("export a --to bloom -o d");
    assert_eq!(
        message,
        "a: bloom has no Bloom filter inside; counting_bloom, spectral_bloom and removable_spectral_bloom have"
    );
    assert!(sandbox.error("diff - - -o d").contains("standard input"));
}
