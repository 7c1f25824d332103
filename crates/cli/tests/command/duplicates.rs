//! Repeated keys: every kind that inserts, built and added to.

use crate::sandbox::{SEED, Sandbox, failure, lines, text};
use serde_json::Value;
use tamis::{Capability, Copies, Kind};

const OTHERS: u64 = 1000;

fn inserting() -> impl Iterator<Item = Kind> {
    Kind::ALL.iter().copied().filter(|kind| kind.can(Capability::Insert))
}

/// 1000 keys, and one key this often.
fn crowd(copies: usize) -> Vec<u8> {
    [lines(0, OTHERS / 2), b"again\n".repeat(copies), lines(OTHERS / 2, OTHERS / 2)].concat()
}

#[test]
fn any_number_of_copies_is_built_or_explained() {
    let copies = [1usize, 13, 600, 100_000];
    let sandbox = Sandbox::new(&[]);
    copies.iter().for_each(|copies| {
        std::fs::write(sandbox.path(&copies.to_string()), crowd(*copies)).unwrap();
    });
    for kind in inserting() {
        for copies in copies {
            let all = OTHERS + copies as u64;
            let build = format!("build {copies} --filter {kind} --seed {SEED} -o f");
            let output = sandbox.run(&build);
            if output.status.code() != Some(0) {
                assert_eq!(kind.copies(), Copies::Bounded, "{kind}: {}", text(&output.stderr));
                let message = failure(&output, &build);
                let told = format!(
                    "{copies}:501: the key \"again\" occurs {copies} times, and the {kind}"
                );
                assert!(message.starts_with(&told), "{message}");
                let held = message.split(" more than ").nth(1).unwrap();
                let held: usize = held.split(' ').next().unwrap().parse().unwrap();
                assert!((6..copies).contains(&held), "{message}");
            } else {
                assert_eq!(sandbox.ok(&format!("query -c f {copies}")), format!("{all}\n"));
            }
            if copies == 600 {
                continue;
            }
            // With --distinct each kind is built, and sized for the distinct keys.
            let built = sandbox.ok(&format!("{build} --distinct --json"));
            let built: Value = serde_json::from_str(&built).unwrap();
            let told = (&built["keys"], &built["duplicates"]);
            assert_eq!(told, (&all.into(), &(copies - 1).into()), "{kind}");
            assert_eq!(sandbox.ok(&format!("query -c f {copies}")), format!("{all}\n"));
            let info: Value = serde_json::from_str(&sandbox.ok("info --json f")).unwrap();
            if !kind.can(Capability::Grow) {
                assert_eq!(info["capacity"], 1001, "{kind}");
            }
            if kind.can(Capability::Remove) {
                let output = sandbox.run_with("remove f", b"again\n");
                assert!(text(&output.stderr).contains("removed 1 keys"), "{kind}");
                let output = sandbox.run_with("query -c f", b"again\n");
                assert_eq!(output.stdout, b"0\n", "{kind}: one copy was inserted");
            }
        }
    }
}

#[test]
fn any_number_of_copies_is_added_or_explained() {
    let copies = [1usize, 13, 600, 100_000];
    let sandbox = Sandbox::new(&[("keys", &lines(0, OTHERS))]);
    for kind in inserting() {
        // Room for all copies where they take it.
        sandbox.ok(&format!("build keys --filter {kind} --keys 102k --seed {SEED} -q -o f"));
        for copies in copies {
            let input = b"again\n".repeat(copies);
            let output = sandbox.run_with("add f -o g", &input);
            if output.status.code() == Some(0) {
                assert!(text(&output.stderr).starts_with(&format!("g: added {copies} keys, ")));
                assert_eq!(sandbox.run_with("query -c g", b"again\n").stdout, b"1\n", "{kind}");
                assert_eq!(sandbox.ok("query -c g keys"), "1000\n", "{kind}");
            } else {
                assert_eq!(kind.copies(), Copies::Bounded, "{kind}: {}", text(&output.stderr));
                let message = failure(&output, "add");
                let told = format!("standard input:1: the key \"again\" occurs {copies} times, ");
                assert!(message.starts_with(&told), "{message}");
            }
            let output = sandbox.run_with("add f -o g --distinct --json", &input);
            let added: Value = serde_json::from_slice(&output.stdout).unwrap();
            let told = (&added["added"], &added["duplicates"]);
            assert_eq!(told, (&1.into(), &(copies - 1).into()), "{kind}");
        }
    }
}

/// Kinds whose copies are free take any number beyond the capacity; of the others a copy is a key.
#[test]
fn copies_take_capacity_as_the_kind_says() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, OTHERS))]);
    for kind in inserting() {
        sandbox.ok(&format!("build keys --filter {kind} --keys 1003 --seed {SEED} -q -o f"));
        let added = sandbox.run_with("add f -o g", &b"again\n".repeat(5)).status.code();
        let goes_on = kind.can(Capability::Grow) || kind.can(Capability::Overfill);
        let fits = kind.copies() == Copies::Free || goes_on;
        assert_eq!(added, Some(if fits { 0 } else { 2 }), "{kind}");
    }
    let listed = sandbox.ok("filters --json");
    for (kind, line) in Kind::ALL.iter().zip(listed.lines()) {
        let object: Value = serde_json::from_str(line).unwrap();
        let expected = match kind.copies() {
            Copies::Kept => "kept",
            Copies::Bounded => "few",
            _ => "free",
        };
        assert_eq!(object["copies"], expected, "{kind}");
    }
}

#[test]
fn a_kind_that_removes_is_chosen_for_keys_that_repeat() {
    let keys = [b"a\n".repeat(13), lines(0, 100_000)].concat();
    let sandbox = Sandbox::new(&[("keys", &keys)]);
    for needs in ["remove", "insert", "count", "insert,remove"] {
        sandbox.ok(&format!("build keys --needs {needs} -q -o f"));
        assert_eq!(sandbox.ok("query -c f keys"), "100013\n");
        let chosen: Value = serde_json::from_str(&sandbox.ok("info --json f")).unwrap();
        let plan = sandbox.ok(&format!("plan --keys 100013 --needs {needs} --json"));
        let first: Value = serde_json::from_str(plan.lines().next().unwrap()).unwrap();
        assert_eq!(chosen["filter"], first["filter"]);
    }
    // If each key comes once, a smaller or faster kind may be chosen.
    let plan = |flag: &str| {
        let plan = sandbox.ok(&format!("plan --keys 1M --needs remove {flag} --json"));
        let first: Value = serde_json::from_str(plan.lines().next().unwrap()).unwrap();
        first["filter"].as_str().unwrap().parse::<Kind>().unwrap()
    };
    assert_ne!(plan("").copies(), Copies::Bounded);
    assert_ne!(plan(""), plan("--distinct"));
}

#[test]
fn a_key_in_a_message_is_escaped_and_cut() {
    let key = format!("tab\there {}", "x".repeat(100));
    let keys = format!("{key}\n").repeat(50);
    let sandbox =
        Sandbox::new(&[("keys", keys.as_bytes()), ("ids", &7u64.to_le_bytes().repeat(50))]);
    let told = sandbox.error("build keys --filter morton -o f");
    let shown = format!("keys:1: the key \"tab\\there {}\"... occurs 50 times", "x".repeat(31));
    assert!(told.starts_with(&shown), "{told}");
    let told = sandbox.error("build ids --u64 --filter cuckoo -o f");
    assert!(told.starts_with("ids:1: the key 7 occurs 50 times"), "{told}");
    // Keys that can be read only once are not named.
    let line = "build --filter cuckoo --keys 100 --no-verify -o f";
    let told = failure(&sandbox.run_with(line, keys.as_bytes()), line);
    assert!(told.starts_with("a key occurs more often than cuckoo can hold; "), "{told}");
    // Too many keys is another error.
    let told = sandbox.error("build keys --filter counting_bloom --keys 40 -o f");
    assert_eq!(told, "there are more keys than the 40 of --keys");
}
