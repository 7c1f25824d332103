//! `resize`, `list`, and merges of filters of unlike sizes.

use std::fs;

use serde_json::Value;

use crate::sandbox::{SEED, Sandbox, lines};

fn build(sandbox: &Sandbox, options: &str) {
    sandbox.ok(&format!("build --seed {SEED} -q {options}"));
}

#[test]
fn a_filter_changes_its_size_without_its_keys() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 900)), ("more", &lines(900, 6000))]);
    build(&sandbox, "keys --filter quotient --fpr 0.01% -o f");
    let message = sandbox.error("add f more");
    assert!(message.contains("900"), "{message}");
    let printed = sandbox.ok("resize f --keys 6900 --json -o large");
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&printed["keys"], &printed["capacity"]), (&900.into(), &6900.into()));
    sandbox.ok("add large more -q");
    assert_eq!(sandbox.ok("query large keys more").as_bytes(), lines(0, 6900));
    sandbox.ok("remove large more -q");
    sandbox.ok("resize large --keys 900 -q");
    assert!(fs::read(sandbox.path("large")).unwrap() == fs::read(sandbox.path("f")).unwrap());

    let message = sandbox.error("resize f --keys 899");
    assert_eq!(message, "f: the filter holds 900 keys, more than a capacity of 899");
    let message = sandbox.error("resize f --keys 10G");
    assert!(message.contains("too short") || message.contains("memory"), "{message}");
    let message = sandbox.error("resize f --keys 1000 --fpr 1e-9");
    assert!(message.ends_with("the fingerprints are too short for that rate"), "{message}");
    // Shorter fingerprints are those of a filter that is built with them.
    build(&sandbox, "keys --filter quotient --fpr 5% -o small");
    sandbox.ok("resize f --keys 900 --fpr 5% -q");
    assert!(fs::read(sandbox.path("f")).unwrap() == fs::read(sandbox.path("small")).unwrap());
}

#[test]
fn fingerprints_are_listed_with_counts() {
    let sandbox = Sandbox::new(&[("keys", b"pear\napple\npear\n"), ("none", b"")]);
    for (kind, copies) in [("quotient", 2), ("counting_quotient", 2), ("hash_compaction", 1)] {
        build(&sandbox, &format!("keys --filter {kind} --fpr 0.01% -o f"));
        let printed = sandbox.ok("list f");
        let rows: Vec<(&str, u64)> = printed
            .lines()
            .map(|line| line.split_once('\t').unwrap())
            .map(|(fingerprint, count)| (fingerprint, count.parse().unwrap()))
            .collect();
        assert!(rows.len() == 2 && rows[0].0 < rows[1].0, "{kind}: {printed}");
        assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>(), 1 + copies);
        let json = sandbox.ok("list f --json");
        for (line, (fingerprint, count)) in json.lines().zip(rows) {
            let object: Value = serde_json::from_str(line).unwrap();
            assert_eq!(
                (&object["fingerprint"], &object["count"]),
                (&fingerprint.into(), &count.into())
            );
        }
        build(&sandbox, &format!("none --filter {kind} --keys 10 -o f"));
        assert_eq!(sandbox.ok("list f"), "");
    }
    build(&sandbox, "keys --filter bloom -o f");
    let message = sandbox.error("list f");
    let kinds = "hash_compaction, quotient, counting_quotient";
    assert_eq!(message, format!("f: bloom does not support list; these kinds do: {kinds}"));
}

#[test]
fn filters_of_unlike_sizes_merge() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 900)), ("more", &lines(900, 6000))]);
    build(&sandbox, "keys --filter quotient --fpr 0.01% -o f");
    build(&sandbox, "more --filter quotient --keys 7k --fpr 0.01% -o g");
    for (name, order) in [("a", "f g"), ("b", "g f")] {
        sandbox.ok(&format!("merge {order} -q -o {name}"));
        assert_eq!(sandbox.ok(&format!("query {name} keys more")).as_bytes(), lines(0, 6900));
    }
    assert!(fs::read(sandbox.path("a")).unwrap() == fs::read(sandbox.path("b")).unwrap());
    build(&sandbox, "more --filter quotient --fpr 0.01% -o full");
    let message = sandbox.error("merge full f -o c");
    assert!(message.ends_with("enlarge the first with `tamis resize`"), "{message}");
    sandbox.ok("resize full --keys 6900 -q");
    sandbox.ok("merge full f -q -o c");
    // Two counting quotient filters of sizes that are not powers of 2 apart.
    build(&sandbox, "keys --filter counting_quotient -o f");
    build(&sandbox, "more --filter counting_quotient --keys 7k -o g");
    assert_eq!(sandbox.error("merge f g -o c"), "g: the shape differs from f");
    sandbox.ok("resize f --keys 3600 -q -o g");
    sandbox.ok("remove g keys -q");
    sandbox.ok("merge f g -q -o c");
    assert_eq!(sandbox.ok("query c keys").as_bytes(), lines(0, 900));
}
