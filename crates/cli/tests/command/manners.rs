//! Compressed input, byte order marks, filters through pipes, and JSON.

use std::fs;

use crate::sandbox::{SEED, Sandbox, failure, gzip, lines, text};
use serde_json::Value;

#[test]
fn compression_is_recognised_by_content() {
    let keys = lines(0, 5000);
    let zstd = zstd::encode_all(&keys[..], 1).unwrap();
    // A skippable frame, as some compressors write first.
    let framed = [&b"\x53\x2a\x4d\x18\x03\x00\x00\x00abc"[..], &zstd].concat();
    let sandbox =
        Sandbox::new(&[("keys", &keys), ("plain.gz", &keys), ("zipped.txt", &gzip(&keys))]);
    let build = format!("build --filter bloom --seed {SEED} -q -o");
    sandbox.ok(&format!("{build} expected keys"));
    let expected = fs::read(sandbox.path("expected")).unwrap();
    for name in ["plain.gz", "zipped.txt"] {
        sandbox.ok(&format!("{build} got {name}"));
        assert!(fs::read(sandbox.path("got")).unwrap() == expected, "{name}");
    }
    for (what, input) in [("gzip", gzip(&keys)), ("zstd", zstd), ("skippable frame", framed)] {
        for line in [format!("{build} got"), format!("{build} got - --no-verify --keys 5000")] {
            let output = sandbox.run_with(&line, &input);
            assert_eq!(output.status.code(), Some(0), "{what}: {}", text(&output.stderr));
            assert!(fs::read(sandbox.path("got")).unwrap() == expected, "{what}");
        }
        let output = sandbox.run_with("query -c got", &input);
        assert_eq!(text(&output.stdout), "5000\n", "{what}");
        // A stream that ends too early is an error.
        let line = format!("{build} x");
        failure(&sandbox.run_with(&line, &input[..input.len() / 2]), &line);
        assert!(!sandbox.path("x").exists());
    }
    // Text that begins like a compressed file, but is none.
    for text in ["\u{1f}a\n", "P*M\nPP\n", "(", "\u{1f}\n"] {
        fs::write(sandbox.path("text"), text).unwrap();
        sandbox.ok(&format!("{build} f text"));
        let output = sandbox.run_with("query f", text.as_bytes());
        assert_eq!(output.stdout, text.trim_end().bytes().chain([b'\n']).collect::<Vec<_>>());
    }
}

#[test]
fn a_byte_order_mark_is_not_part_of_a_key() {
    let marked = b"\xef\xbb\xbfapple\npear\n";
    let sandbox = Sandbox::new(&[
        ("keys", b"apple\npear\n"),
        ("marked", marked),
        ("marked.gz", &gzip(marked)),
        ("only", b"\xef\xbb\xbf"),
        ("part", b"\xef\xbb\n"),
        ("inner", b"apple\n\xef\xbb\xbfpear\n"),
    ]);
    let build = format!("build --filter bloom --seed {SEED} --keys 100 --fpr 1e-9 -q -o");
    sandbox.ok(&format!("{build} expected keys"));
    let expected = fs::read(sandbox.path("expected")).unwrap();
    for name in ["marked", "marked.gz"] {
        sandbox.ok(&format!("{build} got {name}"));
        assert!(fs::read(sandbox.path("got")).unwrap() == expected, "{name}");
        assert_eq!(sandbox.ok(&format!("query -c expected {name}")), "2\n");
    }
    assert_eq!(sandbox.run("query -c expected only").stdout, b"0\n");
    assert_eq!(sandbox.run("query -v expected part").stdout, b"\xef\xbb\n");
    assert_eq!(sandbox.ok("query -c expected inner"), "1\n");
}

#[test]
fn filters_come_from_pipes_and_go_to_pipes() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 100)), ("more", &lines(100, 50))]);
    let build = format!("build --filter counting_bloom --seed {SEED} --keys 1k");
    sandbox.ok(&format!("{build} -q -o f keys"));
    sandbox.ok(&format!("{build} -q -o g more"));
    let (f, g) = (fs::read(sandbox.path("f")).unwrap(), fs::read(sandbox.path("g")).unwrap());
    let written = sandbox.run(&format!("{build} keys -o -"));
    assert!(written.stdout == f, "{}", text(&written.stderr));
    assert!(text(&written.stderr).starts_with("standard output: counting_bloom, 100 keys in "));
    assert!(!sandbox.path("-").exists());
    let piped = |line: &str, input: &[u8]| {
        let output = sandbox.run_with(line, input);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", text(&output.stderr));
        output.stdout
    };
    for (line, file) in [
        ("query - keys", "query f keys"),
        ("count - keys", "count f keys"),
        ("comm - keys", "comm f keys"),
        ("info -", "info f"),
        ("info - --json", "info f --json"),
    ] {
        assert_eq!(text(&piped(line, &f)), sandbox.ok(file), "{line}");
    }
    assert_eq!(piped("verify -", &f), b"standard input: ok\n");
    sandbox.ok("add f more -q -o both");
    let both = fs::read(sandbox.path("both")).unwrap();
    assert!(piped("add - more -q", &f) == both);
    assert!(piped("merge f - -q -o -", &g) == both);
    assert!(piped("remove - more -q", &both) == f);
    for (line, told) in [
        ("query -", "the filter and the keys cannot both come from standard input"),
        ("add - - -q", "the filter and the keys cannot both come from standard input"),
        ("merge - - -o x", "only one filter can come from standard input"),
        ("similar - -", "only one filter can come from standard input"),
        ("verify - -", "only one filter can come from standard input"),
        ("add f more -o - --json", "the filter and --json cannot both go to standard output"),
        ("merge f g -o - --json", "the filter and --json cannot both go to standard output"),
        ("build keys -o - --json", "the filter and --json cannot both go to standard output"),
        ("info -", "standard input: not a .tamis file"),
    ] {
        assert_eq!(sandbox.error(line), told, "{line}");
    }
    let told = failure(&sandbox.run_with("info -", &f[..f.len() - 1]), "info");
    assert!(told.starts_with("standard input: "), "{told}");
}

/// The names and types of the fields of every object, as docs/json.md lists them.
#[test]
fn json_has_the_documented_fields() {
    let documented = fs::read_to_string("../../docs/json.md").unwrap();
    let sandbox = Sandbox::new(&[
        ("keys", &lines(0, 20)),
        ("more", &lines(20, 5)),
        ("values", b"apple\t3\npear\t4\n"),
        ("colours", b"apple\tred\npear\tgreen\n"),
        ("names", b"apple\n"),
        ("changes", b"apple\t4\n"),
        ("broken", b"no filter"),
        ("x.parquet", &fs::read("../../testdata/foreign/pyarrow.parquet").unwrap()),
        ("none.cnf", b"p cnf 1 2\n1 0\n-1 0\n"),
        ("two.cnf", b"p cnf 2 4\n1 2 0\n1 -2 0\n-1 2 0\n-1 -2 0\n"),
        ("one.cnf", b"p cnf 1 1\n1 0\n"),
    ]);
    sandbox.ok(&format!("build keys --filter counting_bloom --seed {SEED} --keys 50 -q -o f"));
    sandbox.ok(&format!("build keys --filter tinyset --seed {SEED} --keys 50 -q -o tiny"));
    sandbox.ok(&format!("build keys --filter bloom --seed {SEED} --keys 50 -q -o bloom"));
    sandbox.ok("build keys --filter quotient --fpr 0.1% -q -o quotient");
    sandbox.ok("build --values values -q -o map");
    sandbox.ok("build --values colours -q -o texts");
    sandbox.ok("build keys --range-length 10 -q -o ranges");
    let mut seen = std::collections::BTreeSet::new();
    for line in [
        "build keys -o x --json",
        "build keys -o x --json --deny more",
        "query --json f keys",
        "query --json -v f more",
        "query --json -c f keys",
        "query --json ranges --range 0..z",
        "query --json -v x.parquet --column name names",
        "count --json f keys",
        "get --json map names",
        "add --json f more -o g",
        "add --json --distinct f more -o g",
        "remove --json g more",
        "set --json map changes",
        "comm --json f keys",
        "merge --json f f -o g",
        "resize --json quotient --keys 200 -o g",
        "list --json quotient",
        "diff --json f g -o d",
        "patch --json f d -o h",
        "similar --json bloom bloom",
        "similar --json --passages --passage lines keys keys",
        "info --json f",
        "info --json tiny",
        "info --json bloom",
        "info --json map",
        "info --json texts",
        "get --json texts names",
        "info --json ranges",
        "info --json x.parquet",
        "verify --json f broken",
        "filters --json",
        "plan --keys 1M --json",
        "ksat --json one.cnf",
        "sat export --json keys --seed 0x1 --fpr 50% -o x.cnf",
        "ksat --json none.cnf",
        "ksat --json --flips 10 two.cnf",
    ] {
        let command = line.split(' ').next().unwrap();
        let output = sandbox.run(line);
        let printed = text(&output.stdout);
        assert!(!printed.is_empty(), "{line}: {}", text(&output.stderr));
        let heading = format!("\n## {command}\n");
        let section = documented.split(&heading).nth(1);
        let section = section.unwrap_or_else(|| panic!("docs/json.md has no section {command}"));
        let section = section.split("\n## ").next().unwrap();
        for object in printed.lines() {
            let object: Value = serde_json::from_str(object).unwrap_or_else(|_| panic!("{line}"));
            for (name, value) in object.as_object().unwrap() {
                let types = match value {
                    Value::Null => "null",
                    Value::Bool(_) => "boolean",
                    Value::Number(_) => "number",
                    Value::String(_) => "string",
                    Value::Array(_) => "array",
                    Value::Object(_) => "object",
                };
                let row = section.lines().find(|row| row.starts_with(&format!("| `{name}` |")));
                let row = row.unwrap_or_else(|| panic!("docs/json.md: {command} lacks {name}"));
                assert!(row.contains(types), "{command}: {name} is a {types}: {row}");
                seen.insert(format!("{command} {name}"));
            }
        }
    }
    // Nothing is documented that is not printed.
    for section in documented.split("\n## ").skip(1) {
        let command = section.lines().next().unwrap();
        for row in section.lines().filter_map(|row| row.strip_prefix("| `")) {
            let name = row.split('`').next().unwrap();
            let undocumented_here = ["bench", "dict"].contains(&command);
            let known = seen.contains(&format!("{command} {name}"));
            assert!(known || undocumented_here, "{command} does not print {name}");
        }
    }
}

#[test]
fn keys_that_share_fingerprints_are_told_beside_entries() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 150_000))]);
    for kind in ["tinyset", "hash_compaction"] {
        sandbox.ok(&format!("build keys --filter {kind} --fpr 2% --seed {SEED} -q -o f"));
        let info: Value = serde_json::from_str(&sandbox.ok("info --json f")).unwrap();
        let (keys, entries) = (info["keys"].as_f64().unwrap(), info["entries"].as_f64().unwrap());
        assert!(entries < 150_000.0 && (keys / 150_000.0 - 1.0).abs() < 0.004, "{kind}: {info}");
        assert!(sandbox.ok("info f").contains("entries"));
    }
}

#[test]
fn info_and_plan_tell_parameters_and_reasons() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 1000))]);
    sandbox.ok(&format!("build keys --filter bloom --set k=5 --keys 2k --seed {SEED} -q -o f"));
    let info: Value = serde_json::from_str(&sandbox.ok("info --json f")).unwrap();
    assert_eq!((&info["parameters"]["k"], &info["capacity"]), (&5.into(), &2000.into()));
    assert_eq!(info["bytes"].as_u64(), info["parameters"]["m"].as_u64().map(|m| m / 8));
    let promised = info["promised_fpr"].as_f64().unwrap();
    assert!(promised <= 0.01 && info["fpr"].as_f64().unwrap() < promised, "{info}");
    let told = sandbox.error("plan --keys 1e9 --bytes 1");
    assert_eq!(told, "no kind of filter qualifies: the memory is too small for these keys");
    let told = sandbox.error("plan --keys 1M --needs merge,window");
    assert_eq!(told, "no kind of filter has all these capabilities: merge, window");
    let plan = sandbox.ok("plan --keys 1M");
    let line = |name: &str| plan.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(line("xor ").contains("static (no insert)"), "{plan}");
    assert!(line("bloom ").contains("insert merge set_ops"), "{plan}");
    let told = sandbox.error("plan --keys 1e30");
    assert!(told.contains("'1e30'") && !told.contains("18446744073709551615"), "{told}");
    let told = sandbox.error("plan --keys 1M --needs unknown");
    assert_eq!(told.matches("static").count(), 1, "{told}");
}

/// A command that changes a filter tells how many keys it changed.
#[test]
fn changes_are_counted() {
    let sandbox = Sandbox::new(&[
        ("keys", b"apple\npear\n"),
        ("some", b"pear\nplum\nquince\n"),
        ("values", b"apple\t3\npear\t4\n"),
    ]);
    sandbox.ok("build keys --filter counting_quotient --fpr 1e-9 -q -o f");
    sandbox.ok("build --values values -q -o map");
    let told = |line: &str| text(&sandbox.run(line).stderr).trim_end().to_owned();
    assert_eq!(told("remove f some -o g"), "g: removed 1 keys, 2 were absent, 1 in total");
    assert_eq!(told("set map values -o new"), "new: set 2 values");
    assert_eq!(sandbox.ok("set --json map values -o new").trim_end(), r#"{"set":2}"#);
    let removed = sandbox.ok("remove --json f some -o g");
    assert_eq!(removed.trim_end(), r#"{"removed":1,"absent":2,"keys":1}"#);
}

/// A filter that is small enough for a buffer is on its way before the command reports success.
#[cfg(target_os = "linux")]
#[test]
fn a_filter_for_a_full_device_is_an_error() {
    let sandbox = Sandbox::new(&[("keys", b"apple\n")]);
    let full = std::fs::File::create("/dev/full").unwrap();
    let line = "build keys --filter bloom -q -o -";
    let output = sandbox.command(line).stdout(full).output().unwrap();
    let told = failure(&output, line);
    assert_eq!(told, "standard output: No space left on device");
}
