//! `sat export` and `build --solution`: a SAT filter by any solver, here `tamis ksat`.

use std::fs;

use crate::sandbox::{Sandbox, lines, text};

const OPTIONS: &str = "--seed 0x1 --fpr 50%";

#[test]
fn a_solution_of_any_solver_makes_the_filter() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 300)), ("more", &lines(300, 2000))]);
    for set in ["", "--set construction=multi --set k=5", "--set s=12 --set n=50"] {
        sandbox.ok(&format!("sat export keys {OPTIONS} {set} -q -o f.cnf"));
        sandbox.ok("ksat -q f.cnf -o f.sol");
        let build = format!("build keys --filter sat {OPTIONS} {set} -q");
        sandbox.ok(&format!("{build} --solution f.sol -o f"));
        assert_eq!(sandbox.ok("verify f").trim(), "f: ok");
        assert_eq!(sandbox.ok("query f keys").as_bytes(), lines(0, 300));
        let passed: u64 = text(&sandbox.run("query f more -c").stdout).trim().parse().unwrap();
        assert!((850..1150).contains(&passed), "{set}: {passed} of 2000 at 50 %");
        // Plane by plane.
        let planes = if set.contains("multi") {
            22
        } else if set.is_empty() {
            11
        } else {
            12
        };
        let mut solutions = String::new();
        for plane in 0..planes {
            sandbox.ok(&format!("sat export keys {OPTIONS} {set} --plane {plane} -q -o p.cnf"));
            solutions += &sandbox.ok("ksat -q p.cnf");
        }
        assert!(
            sandbox
                .error(&format!("sat export keys {OPTIONS} {set} --plane {planes} -o x"))
                .contains("no plane")
        );
        fs::write(sandbox.path("all.sol"), &solutions).unwrap();
        sandbox.ok(&format!("{build} --solution all.sol -o f"));
        assert_eq!(sandbox.ok("query f keys").as_bytes(), lines(0, 300));
    }
}

#[test]
fn several_solutions_of_one_formula_make_a_single_filter() {
    let sandbox = Sandbox::new(&[("keys", &lines(0, 300))]);
    let options = "--seed 0x1 --fpr 60% --set construction=single";
    sandbox.ok(&format!("sat export keys {options} -q -o f.cnf"));
    let build = format!("build keys --filter sat {options} -q -o f");
    let mut files = String::new();
    for seed in 0..8 {
        sandbox.ok(&format!("ksat -q f.cnf --seed {seed} -o {seed}.sol"));
        files += &format!(" --solution {seed}.sol");
    }
    sandbox.ok(&format!("{build}{files}"));
    assert_eq!(sandbox.ok("query f keys").as_bytes(), lines(0, 300));
    fs::remove_file(sandbox.path("f")).unwrap();
    let message = sandbox.error(&format!("{build} --solution 0.sol"));
    assert_eq!(message, "the filter needs 8 solutions, or one of all planes; there are 1");
    let message = sandbox.error(&format!("{build}{files} --solution 0.sol"));
    assert_eq!(message, "0.sol: the files before it have all 8 solutions");
    let same = " --solution 0.sol".repeat(8);
    let message = sandbox.error(&format!("{build} --set distance=0.1{same}"));
    assert!(message.contains("the solutions differ less than `distance`"), "{message}");
}

#[test]
fn other_solutions_are_refused() {
    let sandbox = Sandbox::new(&[
        ("keys", &lines(0, 300)),
        ("other", &lines(1000, 300)),
        ("none", b"s UNSATISFIABLE\n"),
        ("empty", b"c no lines\n"),
        ("text", b"v 1 two 3 0\n"),
        ("far", b"v 1 99999999 0\n"),
        ("half", b"s SATISFIABLE\nv 1 2 3\n"),
    ]);
    let build = format!("build keys --filter sat {OPTIONS} -o f");
    sandbox.ok(&format!("sat export other {OPTIONS} -q -o other.cnf"));
    sandbox.ok("ksat -q other.cnf -o other.sol");
    let message = sandbox.error(&format!("{build} --solution other.sol"));
    assert!(message.starts_with("other.sol: solution 1 does not satisfy clause "), "{message}");
    // The clause that is named is one of the formula that the solution violates.
    sandbox.ok(&format!("sat export keys {OPTIONS} --plane 0 -q -o f.cnf"));
    let number: usize = message.split(' ').nth(7).unwrap().parse().unwrap();
    let formula = fs::read_to_string(sandbox.path("f.cnf")).unwrap();
    let clause = formula.lines().nth(number + 1).unwrap();
    let solution = fs::read_to_string(sandbox.path("other.sol")).unwrap();
    let holds = |literal: &str| literal != "0" && solution.split_whitespace().any(|x| x == literal);
    assert!(!clause.split(' ').any(holds), "{clause}");
    for (file, expected) in [
        ("none", "none: line 1: the solver found no solution"),
        ("empty", "empty: there is no solution in it"),
        ("text", "text: line 1: \"two\" is not a literal"),
        ("half", "half: line 3: the file ends inside a clause or a solution"),
    ] {
        assert_eq!(sandbox.error(&format!("{build} --solution {file}")), expected);
    }
    let message = sandbox.error(&format!("{build} --solution far"));
    assert!(message.contains("99999999 is no literal"), "{message}");
    assert!(message.ends_with("it is a solution of other keys, another seed or other options"));
    let message = sandbox.error(&format!("{build} --solution other.sol --filter bloom"));
    assert!(message.contains("--filter"), "{message}");
    let message = sandbox.error("build keys --filter sat --fpr 50% --solution other.sol -o f");
    assert!(message.contains("--seed"), "{message}");
    assert!(sandbox.error("sat export keys --fpr 50% -o x").contains("--seed"));
    assert!(sandbox.error(&format!("sat export keys {OPTIONS} --set k=9 -o x")).contains("3 to 7"));
}
