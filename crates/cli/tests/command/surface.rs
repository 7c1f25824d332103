//! Help texts, manual pages, completions, names of options, and `tamis bench`.

use std::fs;

use crate::sandbox::{SEED, Sandbox, failure, lines};
use serde_json::Value;

#[test]
fn help_pages_and_completions_are_there() {
    let sandbox = Sandbox::new(&[]);
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(sandbox.ok(&format!("completions {shell}")).contains("similar"));
    }
    assert!(sandbox.ok("man").contains(".TH tamis 1"));
    assert!(sandbox.ok("--version").starts_with("tamis "));
    let help = sandbox.ok("--help");
    fs::create_dir(sandbox.path("pages")).unwrap();
    sandbox.ok("man --dir pages");
    for command in [
        "build",
        "query",
        "add",
        "remove",
        "count",
        "get",
        "set",
        "uniq",
        "comm",
        "merge",
        "resize",
        "list",
        "diff",
        "patch",
        "similar",
        "info",
        "verify",
        "push",
        "pull",
        "shard",
        "filters",
        "plan",
        "dict",
        "ksat",
        "sat",
        "bench",
        "demo",
        "completions",
        "man",
    ] {
        assert!(help.contains(&format!("\n  {command} ")), "{command}");
        assert!(sandbox.ok(&format!("{command} --help")).contains("Usage:"));
        assert!(sandbox.path(&format!("pages/tamis-{command}.1")).exists());
    }
    assert_eq!(failure(&sandbox.run("man --dir none"), "man"), "none: No such file or directory");
}

#[test]
fn hyphens_are_accepted_for_underscores() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 100)), ("values", b"apple\t3\npear\t4\n")]);
    let same = |hyphens: &str, underscores: &str| {
        for (flags, name) in [(hyphens, "f"), (underscores, "g")] {
            sandbox.ok(&format!("build --seed {SEED} -q -o {name} {flags}"));
        }
        assert!(fs::read(sandbox.path("f")).unwrap() == fs::read(sandbox.path("g")).unwrap());
    };
    same("keys --filter split-block-bloom", "keys --filter split_block_bloom");
    same("keys --needs set-ops --fpr 1%", "keys --needs set_ops --fpr 1%");
    same("values --values --set value-bits=9", "values --values --set value_bits=9");
    let printed = sandbox.ok("bench --keys 1000 --rounds 1 --filter bloom-g,split-block-bloom");
    assert!(printed.contains("bloom_g") && printed.contains("split_block_bloom"), "{printed}");
}

#[test]
fn bench_prints_one_json_object_per_kind() {
    let sandbox = Sandbox::new(&[]);
    let printed = sandbox.ok("bench --keys 1000 --rounds 1 --filter bloom,xor --json");
    for (line, name) in printed.lines().zip(["bloom", "xor"]) {
        let object: Value = serde_json::from_str(line).unwrap();
        assert_eq!((&object["filter"], &object["false_negatives"]), (&name.into(), &0.into()));
        assert!(!cfg!(target_os = "linux") || object["peak_bytes_per_key"].is_number(), "{line}");
    }
    assert_eq!(printed.lines().count(), 2);
    let message = sandbox.error("bench --keys 1000 --filter blom");
    assert!(message.contains("blom"), "{message}");
}
