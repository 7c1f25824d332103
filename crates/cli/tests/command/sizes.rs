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
    for (kind, copies) in
        [("quotient", 2), ("counting_quotient", 2), ("hash_compaction", 1), ("exact", 1)]
    {
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
    let kinds = "hash_compaction, quotient, counting_quotient, exact";
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

#[test]
fn a_rate_of_zero_makes_an_exact_set() {
    let keys = [lines(0, 3000), lines(0, 100)].concat();
    let sandbox = Sandbox::new(&[("keys", &keys), ("more", &lines(2000, 50_000))]);
    let plan: Value = serde_json::from_str(&sandbox.ok("plan --keys 3000 --fpr 0 --json")).unwrap();
    assert!(plan["filter"] == "exact" && plan["fpr"].as_f64().unwrap() == 3000.0 / 2f64.powi(128));
    assert!(plan["reason"].as_str().unwrap().contains("below keys x 2^-128"), "{plan}");
    build(&sandbox, "keys --keys 3000 --fpr 0 -o f");
    let info: Value = serde_json::from_str(&sandbox.ok("info f --json")).unwrap();
    assert_eq!((&info["filter"], &info["hash"]), (&"exact".into(), &"secure".into()));
    assert_eq!((&info["keys"], &info["promised_fpr"]), (&3000.into(), &plan["fpr"]));
    assert_eq!(info["bytes"], plan["bytes"]);
    assert!(sandbox.ok("info f").contains("8.82e-36 promised, at capacity: keys x 2^-128"));
    assert_eq!(sandbox.ok("query f more").as_bytes(), lines(2000, 1000));
    // A key that was inserted twice is removed once.
    fs::write(sandbox.path("first"), lines(0, 50)).unwrap();
    sandbox.ok("remove f first -q");
    assert_eq!(sandbox.ok("query f keys").as_bytes(), [lines(50, 2950), lines(50, 50)].concat());
    sandbox.ok("resize f --keys 60000 -q");
    sandbox.ok("add f more -q");
    sandbox.ok("verify f");
    assert_eq!(sandbox.ok("query f more --count").trim(), "50000");
    // Much memory for few keys has the same answer as a rate of 0.
    build(&sandbox, "keys --bytes 1MiB -o g");
    let info: Value = serde_json::from_str(&sandbox.ok("info g --json")).unwrap();
    assert_eq!((&info["filter"], &info["hash"]), (&"exact".into(), &"secure".into()));
    for flags in ["--filter ribbon", "--needs count"] {
        let message = sandbox.error(&format!("build keys {flags} --fpr 0 -o g"));
        assert!(message.contains("only `exact` takes 0"), "{flags}: {message}");
    }
}
