//! `--range-length`, `--range` and `--ranges`.

use crate::sandbox::{Sandbox, lines, text};

fn sandbox() -> Sandbox {
    Sandbox::new(&[
        ("times", b"1000\n-50\n\n5000\n1000\n18446744073709551615\n"),
        ("signed", b"1000\n-50\n5000\n"),
        ("words", b"apple\npear\n"),
        ("ranges", b"950..1050\n2000..2100\n\n1000..=1000\n"),
        ("wrong", b"1..5\n7..3\n"),
        ("keys", &lines(0, 50)),
    ])
}

#[test]
fn ranges_are_queried() {
    let sandbox = sandbox();
    sandbox.ok("build --type int64 --range-length 100 --fpr 1e-6 -q -o f signed");
    let all = "query f --range 950..1050 --range -60..=0 --range 1000..1000 --range 4999..5000";
    assert_eq!(sandbox.ok(all), "950..1050\n-60..=0\n");
    assert_eq!(sandbox.ok(&all.replace("query", "query -v")), "1000..1000\n4999..5000\n");
    assert_eq!(sandbox.ok(&all.replace("query", "query -c")), "2\n");
    assert_eq!(sandbox.ok("query --ranges f ranges"), "950..1050\n1000..=1000\n");
    let given = sandbox.run_with("query --ranges f", b"1..2\n5000..=5001\n");
    assert_eq!(text(&given.stdout), "5000..=5001\n");
    assert_eq!(sandbox.run("query -q f --range 1..2").status.code(), Some(1));
    assert_eq!(sandbox.run("query f signed --type int64 -c").stdout, b"3\n");
    let info = sandbox.ok("info f");
    assert!(info.contains("range length     100") && info.contains("hash             ordered"));

    sandbox.ok("build --filter grafite --set range_length=256 --fpr 1e-6 -q -o words.f words");
    // Texts that share 7 bytes are near each other; `q..r` is longer than any filter can tell.
    let near = "query words.f --range pear..=pear --range pearabca..pearabcz --range q..r -v";
    assert_eq!(sandbox.ok(near), "pearabca..pearabcz\n");
    let plan = sandbox.ok("plan --keys 1M --range-length 100");
    assert!(plan.contains("grafite") && !plan.contains("ribbon"), "{plan}");
    assert!(!sandbox.ok("plan --keys 1M").contains("grafite"));
}

#[test]
fn wrong_ranges_are_errors() {
    let sandbox = sandbox();
    sandbox.ok("build --type int64 --range-length 100 -q -o f signed");
    sandbox.ok("build --filter ribbon -q -o ribbon keys");
    for (line, message) in [
        ("query f --range 7..=6", "--range 7..=6: the range begins after its end"),
        ("query f --range 7", "--range 7: expected a range such as 10..20 or 10..=20"),
        ("query f --range 7..", "--range 7..: a range has two ends"),
        ("query f --range a..b", "--range a..b: `a` is not a 64-bit integer"),
        (
            "query f --range -1..9223372036854775808",
            "--range -1..9223372036854775808: 9223372036854775808 and a negative number in one range",
        ),
        ("query --ranges f wrong", "wrong:2: the range begins after its end"),
        (
            "query ribbon --range 1..2",
            "ribbon: ribbon does not support range; these kinds do: grafite",
        ),
        (
            "build keys --filter ribbon --range-length 5 -o x",
            "ribbon does not support range; these kinds do: grafite",
        ),
        (
            "build keys --range-length 5 --hash secure -o x",
            "grafite needs the hash `ordered`, not `secure`",
        ),
        (
            "build keys --filter grafite --hash fast -o x",
            "grafite needs the hash `ordered`, not `fast`",
        ),
    ] {
        assert_eq!(sandbox.error(line), message, "{line}");
    }
    let unlike = sandbox.error("build times --type int64 --range-length 5 -o x");
    assert!(unlike.starts_with("times:6: "), "{unlike}");
}
