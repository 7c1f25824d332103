//! Filters of other programs: `import`, `export`, `build --format`, `query --format` and Parquet files.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::sandbox::{Sandbox, text};

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/foreign"));
    fs::read(folder.join(name)).unwrap()
}

fn texts() -> String {
    (0..400).map(|i| format!("key-{i}\n")).collect()
}

fn numbers() -> String {
    (0..400i64).map(|i| format!("{}\n", i * i - 1000)).collect()
}

fn others() -> String {
    (1000..2000).map(|i| format!("key-{i}\n")).collect()
}

/// Returns the number that `query -c` prints, 0 included.
fn count(sandbox: &Sandbox, line: &str) -> u64 {
    text(&sandbox.run(line).stdout).trim().parse().unwrap()
}

#[test]
fn filters_of_programs_come_and_go() {
    let (texts, numbers, others) = (texts(), numbers(), others());
    for (file, format, options) in [
        ("spark-v1.bin", "spark_v1", "texts"),
        ("spark-v1.bin", "spark_v1", "--type int64 numbers"),
        ("spark-v2.bin", "spark-v2", "texts"),
        ("guava-utf16.bin", "guava", "--type utf16 texts"),
        ("guava-int32.bin", "guava", "--type int32 numbers"),
        ("fuse8-text.bin", "fuse8", "texts"),
        ("fuse16-uint64.bin", "fuse16", "--type int64 numbers"),
        ("dcso.bin", "dcso", "texts"),
        ("datasketches.bin", "datasketches", "texts"),
        ("bloomfilter-bytes.bin", "bloomfilter", "texts"),
        ("bloomfilter-str.bin", "bloomfilter", "--type str texts"),
    ] {
        let bytes = golden(file);
        let sandbox = Sandbox::new(&[
            ("f.bin", &bytes),
            ("texts", texts.as_bytes()),
            ("numbers", numbers.as_bytes()),
            ("others", others.as_bytes()),
        ]);
        sandbox.ok("import f.bin -q -o f.tamis");
        sandbox.ok(&format!("import f.bin --from {format} -q -o g.tamis"));
        assert!(
            fs::read(sandbox.path("f.tamis")).unwrap()
                == fs::read(sandbox.path("g.tamis")).unwrap()
        );
        assert_eq!(sandbox.ok("verify f.tamis").trim(), "f.tamis: ok");
        sandbox.ok(&format!("export f.tamis --to {format} -q -o back.bin"));
        assert!(fs::read(sandbox.path("back.bin")).unwrap() == bytes, "{file}");
        assert_eq!(sandbox.ok(&format!("query f.tamis -c {options}")).trim(), "400", "{file}");
        let direct = format!("query f.bin --format {format} -c {options}");
        assert_eq!(sandbox.ok(&direct).trim(), "400", "{file}");
        let passed = count(&sandbox, "query f.tamis -c others");
        assert!(passed < 40, "{file}: {passed} of 1000");
        let info: Value = serde_json::from_str(&sandbox.ok("info f.tamis --json")).unwrap();
        assert!(info["filter"].as_str().unwrap().starts_with("foreign_"));
    }
}

#[test]
fn filters_are_built_for_programs() {
    let texts = texts();
    for format in [
        "parquet",
        "spark_v1",
        "spark_v2",
        "guava",
        "fuse8",
        "fuse16",
        "dcso",
        "datasketches",
        "redisbloom",
    ] {
        let sandbox = Sandbox::new(&[("texts", texts.as_bytes()), ("others", others().as_bytes())]);
        sandbox.ok(&format!("build texts --format {format} -q -o f.bin"));
        assert_eq!(sandbox.ok(&format!("query f.bin --format {format} -c texts")).trim(), "400");
        sandbox.ok("import f.bin -q -o f.tamis");
        let passed = count(&sandbox, "query f.tamis -c others");
        assert!(passed < 40, "{format}: {passed} of 1000");
    }
    // As Guava itself makes it.
    let sandbox = Sandbox::new(&[("texts", texts.as_bytes())]);
    sandbox.ok("build texts --format guava --keys 1000 -q -o f.bin");
    assert!(fs::read(sandbox.path("f.bin")).unwrap() == golden("guava-utf8.bin"));
    sandbox.ok("import f.bin -q -o f.tamis");
    sandbox.ok("merge f.tamis f.tamis -q -o both.tamis");
    sandbox.ok("export both.tamis --to guava -q -o both.bin");
    assert!(fs::read(sandbox.path("both.bin")).unwrap() == golden("guava-utf8.bin"));
}

#[test]
fn parquet_files_are_described_and_queried() {
    let sandbox = Sandbox::new(&[
        ("x.parquet", &golden("pyarrow.parquet")),
        ("none.parquet", &golden("no-filters.parquet")),
        ("texts", texts().as_bytes()),
        ("others", others().as_bytes()),
        ("numbers", numbers().as_bytes()),
        ("two", b"key-3\nkey-300\n"),
    ]);
    let info: Vec<Value> = sandbox
        .ok("info x.parquet --json")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(info.len(), 8);
    assert_eq!((&info[0]["column"], &info[0]["type"]), (&"id".into(), &"INT64".into()));
    assert!(info[0]["fpr"].as_f64().unwrap() < 0.02 && info[7]["row_group"] == 1);
    assert_eq!(sandbox.ok("info x.parquet").lines().count(), 9);

    assert_eq!(sandbox.ok("query x.parquet --column name two"), "key-3\t0\nkey-300\t1\n");
    let found: Value = serde_json::from_str(
        sandbox.ok("query x.parquet --column name --json two").lines().next().unwrap(),
    )
    .unwrap();
    assert_eq!(found["row_groups"], serde_json::json!([0]));
    for column in ["id", "small"] {
        let line = format!("query x.parquet --column {column} -c numbers");
        assert_eq!(sandbox.ok(&line).trim(), "400");
    }
    let new: u64 = sandbox.ok("query x.parquet --column name -v -c others").trim().parse().unwrap();
    assert!(new > 950, "{new} of 1000");

    sandbox.ok("import x.parquet --column name -q -o name.tamis");
    assert_eq!(sandbox.ok("query name.tamis -c texts").trim(), "400");
    sandbox.ok("import x.parquet --column name --row-group 1 -q -o second.tamis");
    sandbox.ok("export second.tamis --to parquet -q -o second.sbbf");
    let count: u64 =
        sandbox.ok("query second.sbbf --format parquet -c texts").trim().parse().unwrap();
    assert!((200..220).contains(&count), "{count}");
    sandbox.ok("export second.tamis --to parquet --fpr 30% -q -o folded.sbbf");
    let [whole, folded] =
        ["second.sbbf", "folded.sbbf"].map(|name| fs::metadata(sandbox.path(name)).unwrap().len());
    assert!(folded < whole);
    let count: u64 =
        sandbox.ok("query folded.sbbf --format parquet -c texts").trim().parse().unwrap();
    assert!((200..320).contains(&count), "{count}");
}

#[test]
fn errors_name_what_is_wrong() {
    let guava = golden("guava-utf8.bin");
    let sandbox = Sandbox::new(&[
        ("guava", &guava),
        ("short", &guava[..1000]),
        ("x.parquet", &golden("pyarrow.parquet")),
        ("none.parquet", &golden("no-filters.parquet")),
        ("cut.parquet", &golden("pyarrow.parquet")[..5000]),
        ("cipher.parquet", &golden("encrypted-column.parquet")),
        ("footer.parquet", &golden("encrypted-footer.parquet")),
        ("texts", texts().as_bytes()),
        ("words", b"1\nseven\n"),
    ]);
    sandbox.ok("import guava -q -o f.tamis");
    sandbox.ok("build texts --filter bloom -q -o own.tamis");
    for (line, expected) in [
        (
            "import short -o f",
            "short: the format is not recognised; if it is one of these, state it with --from: parquet, spark_v1, spark_v2, guava, fuse8, fuse16, rbloom, dcso, datasketches, redisbloom, bloomfilter",
        ),
        ("import short --from guava -o f", "short: not a guava filter: it is truncated"),
        ("import missing -o f", "missing: No such file or directory"),
        ("import guava --column c -o f", "guava: --column requires a Parquet file"),
        (
            "export f.tamis --to spark_v1 -o f",
            "f.tamis: the filter cannot be written as spark_v1: its keys are hashed by guava_murmur3 and not by spark_murmur3, and the hash of a filter cannot be changed without its keys",
        ),
        (
            "export own.tamis --to guava -o f",
            "own.tamis: the filter cannot be written as guava: its keys are hashed by fast and not by guava_murmur3, and the hash of a filter cannot be changed without its keys",
        ),
        (
            "export f.tamis --to guava --fpr 1% -o f",
            "--fpr requires --to parquet: other filters cannot be folded",
        ),
        ("query f.tamis --type int32 words", "words:2: `seven` is not of the type int32"),
        (
            "build words --format guava --type int64 -o f",
            "words:2: `seven` is not of the type int64",
        ),
        (
            "info none.parquet",
            "none.parquet: no Bloom filters: no column has one; its columns are id, small, name, ratio, plain",
        ),
        (
            "query x.parquet texts",
            "x.parquet: choose a column of the Parquet file with --column: columns with filters are id, small, name, ratio",
        ),
        (
            "query x.parquet --column plain texts",
            "x.parquet: the column `plain` has no Bloom filter; columns with filters are id, small, name, ratio",
        ),
        (
            "query x.parquet --column nam texts",
            "x.parquet: there is no column `nam`; its columns are id, small, name, ratio, plain",
        ),
        ("query x.parquet --column id texts", "texts:1: `key-0` is not of the type int64"),
        (
            "import x.parquet -o f",
            "x.parquet: choose a column with --column: columns with filters are id, small, name, ratio",
        ),
        (
            "import x.parquet --column id --row-group 9 -o f",
            "x.parquet: there are only 2 row groups",
        ),
        (
            "query cipher.parquet --column name texts",
            "cipher.parquet: the column `name` is encrypted",
        ),
        ("info footer.parquet", "footer.parquet: the footer is encrypted"),
        (
            "build texts --format spark_v1 --keys 1e9 -o f",
            "no such filter is possible: Spark's version 1 sets no bits beyond 2^31, a known defect; spark_v2 does",
        ),
        ("info cut.parquet", "cut.parquet: not a Parquet file: it does not end with PAR1"),
        (
            "build texts --format fuse8 --fpr 0.1% -o f",
            "no such filter is possible: cells of 8 bits have a rate of 1/256",
        ),
    ] {
        assert_eq!(sandbox.error(line), expected, "{line}");
    }
}
