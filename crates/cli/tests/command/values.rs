//! Maps: values of any type are kept, printed and changed.

use std::fs;

use crate::sandbox::{SEED, Sandbox, failure, gzip, lines, text};
use serde_json::Value;

/// Lines of a key, a tab and a value.
fn entries(from: u64, count: u64, value: impl Fn(u64) -> u64) -> Vec<u8> {
    let keys = text(&lines(from, count));
    let lines = (from..).zip(keys.lines()).map(|(at, key)| format!("{key}\t{}\n", value(at)));
    lines.collect::<String>().into_bytes()
}

#[test]
fn values_are_kept_told_and_changed() {
    let (old, new) = (entries(0, 20_000, |at| at * 7), entries(500, 700, |at| at + 1));
    let sandbox = Sandbox::new(&[
        ("old.tsv", &old),
        ("new.tsv", &new),
        ("keys", &lines(0, 20_000)),
        ("strangers", &lines(1 << 20, 10_000)),
        ("crlf.tsv", text(&old).replace('\n', "\r\n").as_bytes()),
        ("nul.tsv", text(&old).replace('\n', "\0").as_bytes()),
        ("old.tsv.gz", &gzip(&old)),
    ]);
    let build = format!("build --values --fpr 1e-6 --seed {SEED} -q -o");
    sandbox.ok(&format!("{build} f old.tsv"));
    let built = fs::read(sandbox.path("f")).unwrap();
    for from in ["old.tsv --threads 1", "crlf.tsv", "nul.tsv -0", "old.tsv.gz", "old.tsv old.tsv"] {
        sandbox.ok(&format!("{build} g {from}"));
        assert!(fs::read(sandbox.path("g")).unwrap() == built, "from {from}");
    }
    assert_eq!(sandbox.run_with(&format!("{build} g"), &old).status.code(), Some(0));
    assert!(fs::read(sandbox.path("g")).unwrap() == built, "from a pipe");

    assert_eq!(sandbox.ok("get f keys").as_bytes(), old);
    assert_eq!(sandbox.run("get f strangers").status.code(), Some(1));
    assert_eq!(sandbox.ok("get -v f strangers keys").as_bytes(), lines(1 << 20, 10_000));
    let printed = sandbox.run_with("get --json f", b"no such key\n0000000000000000\r\n\n");
    assert_eq!(text(&printed.stdout), "{\"key\":\"0000000000000000\",\"value\":0}\n");
    let printed = sandbox.run_with("get -v --json f", b"no such key\n0000000000000000\n");
    assert_eq!(text(&printed.stdout), "{\"key\":\"no such key\"}\n");
    let info: Value = serde_json::from_str(&sandbox.ok("info f --json")).unwrap();
    assert_eq!((&info["filter"], &info["value_bits"]), (&"bloomier".into(), &18.into()));
    assert!(sandbox.ok("info f").contains("value bits       18\n"));

    sandbox.ok("set f new.tsv -q -o g");
    let mut expected: Vec<&[u8]> = old.split_inclusive(|byte| *byte == b'\n').collect();
    expected[500..1200]
        .copy_from_slice(&new.split_inclusive(|byte| *byte == b'\n').collect::<Vec<_>>());
    let expected = expected.concat();
    assert_eq!(sandbox.ok("get g keys").as_bytes(), expected);
    fs::write(sandbox.path("both.tsv"), &expected).unwrap();
    sandbox.ok(&format!("{build} h both.tsv --set value_bits=18"));
    assert!(fs::read(sandbox.path("h")).unwrap() == fs::read(sandbox.path("g")).unwrap());
    let output = sandbox.run_with("set f", b"0000000000000000\t0x3ffff\n");
    assert_eq!(text(&output.stderr), "f: set 1 values\n");
    assert_eq!(
        text(&sandbox.run_with("get f", b"0000000000000000\n").stdout),
        "0000000000000000\t262143\n"
    );
}

#[test]
fn values_that_make_no_sense_are_told_with_their_lines() {
    let sandbox = Sandbox::new(&[
        ("good.tsv", b"apple\t3\npear\t0x10\n\nplum\t3\napple\t3\n"),
        ("plain", b"apple\n"),
        ("text.tsv", b"apple\t3\npear\tsweet\n\npear\tsour\n"),
        ("empty-key.tsv", b"apple\tmany\n\tmany\n"),
        ("negative.tsv", b"apple\t-3\npear\t4\n"),
        ("words.tsv", b"apple\tred\npear\tgreen\nplum\tblue\n"),
        ("two.tsv", b"apple\t3\npear\t4\n\nplum\t5\npear\t6\npear\t7\n"),
        ("more.tsv", b"fig\t1\npear\t5\n"),
        ("stranger.tsv", b"apple\t4\nstone\t5\n"),
        ("wide.tsv", b"apple\t4\nplum\t32\n"),
        ("keys", &lines(0, 100)),
    ]);
    let build = format!("build --values --fpr 1e-6 --seed {SEED} -o x");
    for (from, message) in [
        ("plain", "plain:1: expected a key, a tab and a value"),
        (
            "text.tsv",
            "text.tsv:4: the key has the value \"sour\" here, and \"sweet\" at text.tsv:2",
        ),
        ("empty-key.tsv", "empty-key.tsv:2: the key before the tab is empty"),
        (
            "negative.tsv --set value_bits=2",
            "no such filter is possible: the integers span more than `value_bits` bits",
        ),
        (
            "words.tsv --set value_bits=1",
            "no such filter is possible: there are more distinct values than numbers of \
             `value_bits` bits",
        ),
        ("two.tsv", "two.tsv:5: the key has the value 6 here, and 4 at two.tsv:2"),
        ("good.tsv more.tsv", "more.tsv:2: the key has the value 5 here, and 16 at good.tsv:2"),
        (
            "good.tsv --set value_bits=4",
            "good.tsv:2: the value 16 does not fit in the 4 bits of a value",
        ),
        ("good.tsv --set value_bits=65", "invalid setting value_bits=65: it accepts [..]"),
        ("good.tsv --filter bloom", "bloom does not support map; these kinds do: bloomier"),
    ] {
        let told = sandbox.error(&format!("{build} {from}"));
        match message.strip_suffix("[..]") {
            Some(start) => assert!(told.starts_with(start), "{told}"),
            None => assert_eq!(told, message),
        }
    }
    assert_eq!(
        sandbox.error("build --values words.tsv --bytes 64 -o x"),
        "no such filter is possible: the distinct values alone take more bytes"
    );
    let output = sandbox.run_with(&build, b"apple\t3\napple\t4\n");
    let told = failure(&output, "from a pipe");
    assert_eq!(told, "standard input:2: the key has the value 4 here, and 3 at standard input:1");
    assert!(!sandbox.path("x").exists());

    let output = sandbox.run(&format!("build --values --seed {SEED} good.tsv -o f"));
    let said = text(&output.stderr);
    assert!(said.contains("4 keys, of which 1 was a duplicate,"), "{said}");
    assert_eq!(
        sandbox.error("set f stranger.tsv"),
        "stranger.tsv:2: the key is not in f; nothing was saved"
    );
    assert_eq!(
        sandbox.error("set f wide.tsv"),
        "wide.tsv:2: the value 32 does not fit in the 5 bits of a value"
    );
    assert_eq!(sandbox.error("set f plain"), "plain:1: expected a key, a tab and a value");
    sandbox.ok("build keys --filter bloom -q -o g");
    for line in ["get g keys", "set g good.tsv"] {
        assert_eq!(sandbox.error(line), "g: bloom does not support map; these kinds do: bloomier");
    }
}

#[test]
fn values_are_integers_or_text() {
    let long = "x".repeat(3 << 20);
    let mixed = format!("a\t007\nb\t7\nc\t\nd\t-0\ne\tlong \u{e9}\nf\t{long}\ng\t7\n");
    let signed = "a\t-5\nb\t10\nc\t0\nd\t-5\n";
    // Together these span 2^64 or more.
    let wide = "a\t-9223372036854775808\nb\t18446744073709551615\n";
    let sandbox = Sandbox::new(&[
        ("mixed.tsv", mixed.as_bytes()),
        ("signed.tsv", signed.as_bytes()),
        ("wide.tsv", wide.as_bytes()),
        ("keys", b"a\nb\nc\nd\ne\nf\ng\n"),
        ("two", b"a\nb\n"),
        ("four", b"a\nb\nc\nd\n"),
    ]);
    let build = format!("build --values --fpr 1e-6 --seed {SEED} -q -o");
    for (from, keys, all) in
        [("mixed.tsv", "keys", &*mixed), ("signed.tsv", "four", signed), ("wide.tsv", "two", wide)]
    {
        sandbox.ok(&format!("{build} f {from}"));
        assert!(sandbox.ok(&format!("get f {keys}")) == all, "{from}");
        let built = fs::read(sandbox.path("f")).unwrap();
        assert_eq!(sandbox.run_with(&format!("{build} g"), all.as_bytes()).status.code(), Some(0));
        assert!(fs::read(sandbox.path("g")).unwrap() == built, "{from} from a pipe");
        sandbox.ok(&format!("{build} g {from} --threads 1"));
        assert!(fs::read(sandbox.path("g")).unwrap() == built, "{from} on one thread");
        sandbox.ok("verify f");
    }
    let info = |file: &str| -> Value {
        serde_json::from_str(&sandbox.ok(&format!("info {file} --json"))).unwrap()
    };
    sandbox.ok(&format!("{build} f mixed.tsv"));
    let told = info("f");
    assert_eq!((&told["value_type"], &told["distinct_values"]), (&"bytes".into(), &6.into()));
    assert_eq!(told["value_bits"], 3);
    let size = fs::metadata(sandbox.path("f")).unwrap().len() as f64;
    let stated = told["bytes"].as_f64().unwrap();
    assert!((stated / size - 1.0).abs() < 0.02, "{stated} stated, {size} bytes");
    assert!(sandbox.ok("info f").contains("values           6 distinct byte strings\n"));
    let printed = sandbox.run_with("get --json f", b"c\ne\nb\nzebra\n");
    let lines = ["{\"key\":\"c\",\"value\":\"\"}", "{\"key\":\"e\",\"value\":\"long \u{e9}\"}"];
    let expected = format!("{}\n{}\n{{\"key\":\"b\",\"value\":\"7\"}}\n", lines[0], lines[1]);
    assert_eq!(text(&printed.stdout), expected);
    // Values of the map can be set, others cannot.
    assert_eq!(text(&sandbox.run_with("set f", b"a\t7\nb\t\n").stderr), "f: set 2 values\n");
    assert_eq!(text(&sandbox.run_with("get f", b"a\nb\ng\n").stdout), "a\t7\nb\t\ng\t7\n");
    let before = fs::read(sandbox.path("f")).unwrap();
    let told = failure(&sandbox.run_with("set f", b"a\t\nb\t8\n"), "a new value");
    assert_eq!(
        told,
        "standard input:2: the value \"8\" cannot be set: the values of this map are 6 distinct byte \
         strings"
    );
    assert!(fs::read(sandbox.path("f")).unwrap() == before);

    sandbox.ok(&format!("{build} f signed.tsv"));
    assert_eq!(
        (info("f")["value_bits"].clone(), info("f")["value_type"].clone()),
        (4.into(), "integers".into())
    );
    assert!(sandbox.ok("info f").contains("values           integers from -5 to 10\n"));
    let set = sandbox.run_with("set f", b"a\t10\nb\t-0x1\n");
    assert_eq!(
        failure(&set, "not an integer"),
        "standard input:2: the value \"-0x1\" is not an integer such as 17, -17 or 0x11"
    );
    assert_eq!(
        failure(&sandbox.run_with("set f", b"a\t11\n"), "out of range"),
        "standard input:1: the value \"11\" cannot be set: the values of this map are integers from -5 \
         to 10"
    );
    assert_eq!(text(&sandbox.run_with("set f", b"a\t0xa\nb\t-4\n").stderr), "f: set 2 values\n");
    assert_eq!(sandbox.ok("get f four"), "a\t10\nb\t-4\nc\t0\nd\t-5\n");
    assert_eq!(
        text(&sandbox.run_with("get --json f", b"b\n").stdout),
        "{\"key\":\"b\",\"value\":-4}\n"
    );
    sandbox.ok(&format!("{build} g signed.tsv --set value_bits=9"));
    assert!(sandbox.ok("info g").contains("values           integers from -5 to 506\n"));
}
