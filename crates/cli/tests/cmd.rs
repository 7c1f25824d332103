//! What the command prints, in `cmd/*.trycmd`.

#[test]
fn cmd() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd");
}
