//! Comparison with CaDiCaL, a complete solver that can prove unsatisfiability.

use cadical::Solver;
use tamis_ksat::{Clauses, Formula, Outcome, Settings, Watch, Why, solve};

/// Returns whether the formula has a solution.
fn satisfiable(formula: &Formula) -> bool {
    let mut oracle: Solver = Solver::new();
    formula.iter().for_each(|clause| oracle.add_clause(clause));
    oracle.solve().expect("CaDiCaL runs without a limit")
}

/// Checks that the solver finds a solution exactly if there is one. Returns whether there is one.
fn check(formula: &Formula, seed: u64) -> bool {
    let expected = satisfiable(formula);
    let settings = Settings { seed, flips: 100_000, sweeps: 300, ..Settings::default() };
    match solve(formula, &settings, &Watch::default()) {
        Outcome::Solved(solution) => {
            assert!(expected, "solved a formula that CaDiCaL proves unsatisfiable");
            assert_eq!(formula.unsatisfied(&solution.assignment), 0);
        }
        Outcome::GaveUp(end) => {
            assert!(!expected, "gave up on a satisfiable formula: {end:?}");
            assert!(end.why == Why::Budget && end.fewest > 0);
        }
        Outcome::Unsatisfiable => assert!(!expected, "called a satisfiable formula unsatisfiable"),
    }
    expected
}

#[test]
fn random_formulas_around_the_threshold() {
    for (kind, k, vars, densities) in [
        (Clauses::Or, 3, 50, [3.6, 4.4, 5.4]),
        (Clauses::Or, 4, 40, [8.5, 10.0, 12.0]),
        (Clauses::Or, 5, 30, [18.0, 21.5, 26.0]),
        (Clauses::Or, 6, 24, [36.0, 44.0, 54.0]),
        (Clauses::Or, 7, 20, [70.0, 88.0, 110.0]),
        (Clauses::Nae, 3, 40, [1.6, 2.2, 2.8]),
        (Clauses::Nae, 4, 35, [4.0, 5.0, 6.2]),
        (Clauses::Nae, 5, 26, [8.5, 10.5, 13.0]),
    ] {
        let mut solutions = 0;
        for (at, density) in densities.into_iter().enumerate() {
            for seed in 0..8 {
                let clauses = (density * f64::from(vars)) as usize;
                let formula =
                    Formula::random(kind, k, vars, clauses, 50 * at as u64 + seed).unwrap();
                solutions += u32::from(check(&formula, seed));
            }
        }
        assert!((4..=20).contains(&solutions), "{kind:?} {k}: {solutions} of 24 have a solution");
    }
}

/// Clauses of 1, 2, 3 and 5 literals in one formula.
#[test]
fn small_formulas_of_mixed_lengths() {
    let mut solutions = 0;
    for seed in 0..100u64 {
        let mut formula = Formula::new(12).unwrap();
        for (length, clauses) in [(1, seed % 3), (2, seed % 7 + 4), (3, seed % 31 + 8), (5, 10)] {
            let salt = 1000 * seed + length;
            let part =
                Formula::random(Clauses::Or, length as usize, 12, clauses as usize, salt).unwrap();
            part.iter().for_each(|clause| formula.add(&clause.collect::<Vec<_>>()).unwrap());
        }
        solutions += u32::from(check(&formula, seed));
    }
    assert!((20..=80).contains(&solutions), "{solutions} of 100 have a solution");
}

#[test]
fn pigeonhole_formulas() {
    // Each pigeon is in a hole, and no two pigeons are in the same hole.
    for (pigeons, holes) in [(3, 3), (4, 3), (5, 5), (6, 5)] {
        let in_hole = |pigeon: i32, hole: i32| pigeon * holes + hole + 1;
        let mut clauses: Vec<Vec<i32>> = (0..pigeons)
            .map(|pigeon| (0..holes).map(|hole| in_hole(pigeon, hole)).collect())
            .collect();
        for hole in 0..holes {
            for pigeon in 0..pigeons {
                clauses.extend(
                    (0..pigeon).map(|other| vec![-in_hole(pigeon, hole), -in_hole(other, hole)]),
                );
            }
        }
        assert_eq!(check(&Formula::from_clauses(&clauses).unwrap(), 1), pigeons <= holes);
    }
}
