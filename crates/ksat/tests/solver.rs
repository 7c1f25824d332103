//! Tests of the solver through its public interface.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tamis_ksat::{
    Clauses, Decimation, Fall, Formula, Lean, Outcome, Plan, Progress, Settings, Watch, Why, solve,
};

fn plain(formula: &Formula, seed: u64) -> Outcome {
    solve(formula, &Settings { seed, ..Settings::default() }, &Watch::default())
}

#[track_caller]
fn must_solve(formula: &Formula, seed: u64) -> Vec<bool> {
    let Outcome::Solved(solution) = plain(formula, seed) else {
        panic!("{} clauses over {} variables: not solved", formula.clauses(), formula.vars());
    };
    assert_eq!(formula.unsatisfied(&solution.assignment), 0);
    solution.assignment
}

/// Clause lengths, and clauses per variable at which random formulas are solved at once.
const EASY: [(usize, f64); 5] = [(3, 3.8), (4, 8.4), (5, 17.0), (6, 33.0), (7, 64.0)];

#[test]
fn random_formulas_below_the_threshold() {
    for (k, density) in EASY {
        for vars in [40, 300, 2000] {
            // Small formulas vary more, so they get fewer clauses.
            let density = if vars == 40 { density * 0.7 } else { density };
            let clauses = (density * f64::from(vars)) as usize;
            for seed in 0..3 {
                let formula = Formula::random(Clauses::Or, k, vars, clauses, seed).unwrap();
                must_solve(&formula, seed);
            }
        }
    }
}

#[test]
fn random_nae_formulas_below_the_threshold() {
    for (k, density) in [(3, 1.7), (4, 3.7), (5, 7.8), (6, 14.5), (7, 28.0)] {
        for vars in [300, 1000] {
            let clauses = (density * f64::from(vars)) as usize;
            let formula = Formula::random(Clauses::Nae, k, vars, clauses, 5).unwrap();
            assert_eq!((formula.clauses(), formula.nae_clauses()), (2 * clauses, clauses));
            let values = must_solve(&formula, 1);
            let opposite: Vec<bool> = values.iter().map(|value| !value).collect();
            assert_eq!(formula.unsatisfied(&opposite), 0, "NAE solutions come in pairs");
            // The same clauses without the NAE mark, as in a file, are solved as well.
            let clauses = formula.iter().map(Iterator::collect::<Vec<i32>>);
            must_solve(&Formula::from_clauses(clauses).unwrap(), 1);
        }
    }
}

/// Formulas that local search alone does not solve.
#[test]
fn close_to_the_threshold_by_survey_propagation() {
    for (k, vars, density) in [(3, 7800, 4.2), (4, 3400, 9.6), (5, 1600, 19.8), (6, 840, 38.8)] {
        let clauses = (density * f64::from(vars)) as usize;
        let formula = Formula::random(Clauses::Or, k, vars, clauses, 3).unwrap();
        let Outcome::Solved(solution) = plain(&formula, 2) else { panic!("k = {k}: not solved") };
        assert!(solution.sweeps > 0, "k = {k}: no survey was needed");
    }
}

#[test]
fn planted_formulas() {
    for (kind, k, density) in [
        (Clauses::Or, 3, 4.0),
        (Clauses::Or, 3, 20.0),
        (Clauses::Or, 4, 9.0),
        (Clauses::Or, 5, 18.0),
        (Clauses::Or, 6, 35.0),
        (Clauses::Or, 7, 66.0),
        (Clauses::Nae, 3, 1.8),
        (Clauses::Nae, 5, 8.0),
    ] {
        let clauses = (density * 500.0) as usize;
        let (formula, hidden) = Formula::planted(kind, k, 500, clauses, 9).unwrap();
        assert_eq!(formula.unsatisfied(&hidden), 0);
        must_solve(&formula, 4);
        // A start from the hidden assignment takes no flips.
        let settings = Settings { start: Some(&hidden), flips: 0, ..Settings::default() };
        let outcome = solve(&formula, &settings, &Watch::default());
        assert_eq!(outcome.assignment(), Some(hidden));
    }
}

#[test]
fn the_same_seed_gives_the_same_answer_on_every_thread() {
    let walked = Formula::random(Clauses::Or, 4, 1000, 8400, 7).unwrap();
    let surveyed = Formula::random(Clauses::Or, 5, 1000, 19_500, 7).unwrap();
    let nae = Formula::random(Clauses::Nae, 5, 500, 3900, 7).unwrap();
    for formula in [&walked, &surveyed, &nae] {
        let first = plain(formula, 11);
        assert!(matches!(first, Outcome::Solved(_)));
        let other_seed = plain(formula, 12);
        assert_ne!(first, other_seed);
        thread::scope(|scope| {
            let runs: Vec<_> = (0..3).map(|_| scope.spawn(|| plain(formula, 11))).collect();
            for run in runs {
                assert_eq!(run.join().unwrap(), first);
            }
        });
        // A deadline, a flag and a callback do not change the answer.
        let seen = Cell::new(0);
        let on_progress = |progress: &Progress| {
            assert!(progress.fewest <= progress.unsatisfied);
            seen.set(seen.get() + 1);
        };
        let cancel = AtomicBool::new(false);
        let watch = Watch {
            deadline: Some(Instant::now() + Duration::from_secs(3600)),
            cancel: Some(&cancel),
            progress: Some(&on_progress),
        };
        let settings = Settings { seed: 11, ..Settings::default() };
        assert_eq!(solve(formula, &settings, &watch), first);
        assert!(seen.get() > 0);
    }
}

/// The answers must not depend on the machine or the compiler, because filters are built from them.
#[test]
fn answers_are_pinned() {
    let digest = |formula: &Formula, opening: u64| {
        let surveys = &[Decimation { share: 0.03, back: 0.4 }];
        let plan = Some(Plan { fall: Fall::Power(4.0), opening, surveys });
        let settings = Settings { seed: 1, plan, ..Settings::default() };
        let Outcome::Solved(solution) = solve(formula, &settings, &Watch::default()) else {
            panic!("not solved");
        };
        let mut digest = 0xcbf2_9ce4_8422_2325u64;
        for value in solution.assignment {
            digest = (digest ^ u64::from(value)).wrapping_mul(0x0100_0000_01b3);
        }
        (solution.flips, solution.sweeps, digest)
    };
    let easy = Formula::random(Clauses::Or, 4, 1000, 8400, 1).unwrap();
    let hard = Formula::random(Clauses::Or, 6, 500, 19_200, 1).unwrap();
    assert_eq!(digest(&easy, u64::MAX), (29_858, 0, 506_428_596_017_413_817));
    assert_eq!(digest(&hard, 1000), (2207, 454, 12_573_611_744_055_325_152));
}

fn unsatisfiable() -> Formula {
    // Twice as many clauses as the threshold allows.
    Formula::random(Clauses::Or, 4, 2000, 40_000, 1).unwrap()
}

#[test]
fn the_budget_is_exact() {
    let formula = unsatisfiable();
    for (flips, sweeps) in [(0, 0), (1, 0), (100_003, 0), (100_003, 7), (1_000_000, 150)] {
        let settings = Settings { flips, sweeps, ..Settings::default() };
        let Outcome::GaveUp(end) = solve(&formula, &settings, &Watch::default()) else {
            panic!("solved an unsatisfiable formula");
        };
        assert_eq!((end.why, end.flips), (Why::Budget, flips));
        assert!(end.sweeps <= sweeps);
        assert!(end.fewest > 0 && end.fewest <= 40_000, "{end:?}");
    }
}

#[test]
fn a_deadline_stops_the_solver() {
    let formula = unsatisfiable();
    let settings = Settings { flips: u64::MAX, sweeps: u64::MAX, ..Settings::default() };
    let start = Instant::now();
    let watch = Watch { deadline: Some(start + Duration::from_millis(300)), ..Watch::default() };
    let Outcome::GaveUp(end) = solve(&formula, &settings, &watch) else { panic!("solved") };
    assert_eq!(end.why, Why::Time);
    assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
    // A deadline in the past allows no flip.
    let watch = Watch { deadline: Some(start), ..Watch::default() };
    let Outcome::GaveUp(end) = solve(&formula, &settings, &watch) else { panic!("solved") };
    assert_eq!((end.why, end.flips, end.sweeps), (Why::Time, 0, 0));
}

#[test]
fn another_thread_cancels_the_solver() {
    let formula = unsatisfiable();
    let cancel = AtomicBool::new(false);
    let settings = Settings { flips: u64::MAX, sweeps: u64::MAX, ..Settings::default() };
    let end = thread::scope(|scope| {
        let run = scope.spawn(|| {
            let watch = Watch { cancel: Some(&cancel), ..Watch::default() };
            solve(&formula, &settings, &watch)
        });
        thread::sleep(Duration::from_millis(100));
        cancel.store(true, Ordering::Relaxed);
        run.join().unwrap()
    });
    let Outcome::GaveUp(end) = end else { panic!("solved") };
    assert_eq!(end.why, Why::Cancelled);
}

#[test]
fn cancellation_takes_effect_within_8192_flips_or_one_sweep() {
    let formula = unsatisfiable();
    for after in [1, 20_000, 200_000] {
        let cancel = AtomicBool::new(false);
        let at = Cell::new(None);
        let on_progress = |progress: &Progress| {
            if progress.flips + progress.sweeps >= after && at.get().is_none() {
                at.set(Some(*progress));
                cancel.store(true, Ordering::Relaxed);
            }
        };
        let watch =
            Watch { cancel: Some(&cancel), progress: Some(&on_progress), ..Watch::default() };
        let outcome = solve(&formula, &Settings::default(), &watch);
        let Outcome::GaveUp(end) = outcome else { panic!("solved") };
        let seen = at.get().unwrap();
        assert_eq!((end.why, end.flips, end.sweeps), (Why::Cancelled, seen.flips, seen.sweeps));
        assert!(seen.flips <= after + 8192 && seen.sweeps <= after + 1);
    }
}

#[test]
fn the_checker_finds_a_single_wrong_value() {
    // A chain of implications that forces every variable.
    let chain = (1..100).map(|at| vec![-at, at + 1]).chain([vec![1]]);
    let formula = Formula::from_clauses(chain).unwrap();
    let values = must_solve(&formula, 0);
    assert_eq!(values, vec![true; 100]);
    for at in 0..100 {
        let mut wrong = values.clone();
        wrong[at] = false;
        assert_eq!(formula.unsatisfied(&wrong), 1, "variable {at}");
    }
}

#[test]
fn mixed_lengths_units_and_unused_variables() {
    // No clauses, with and without variables.
    assert_eq!(must_solve(&Formula::new(0).unwrap(), 0), []);
    assert_eq!(must_solve(&Formula::new(3).unwrap(), 0).len(), 3);
    // Unit clauses and a residual formula, over few of 2^20 variables.
    let mut formula = Formula::new(1 << 20).unwrap();
    let (inner, _) = Formula::planted(Clauses::Or, 3, 200, 900, 3).unwrap();
    for clause in inner.iter() {
        let moved: Vec<i32> = clause.map(|literal| literal * 5000).collect();
        formula.add(&moved).unwrap();
    }
    formula.add(&[7]).unwrap();
    formula.add(&[-7, -8]).unwrap();
    formula.add(&[8, 9, 9]).unwrap();
    formula.add(&[10, -10]).unwrap();
    let values = must_solve(&formula, 1);
    assert_eq!(&values[6..9], [true, false, true]);
    // Many clause lengths.
    let mut mixed = Formula::new(400).unwrap();
    for (length, clauses) in [(1, 3), (2, 80), (3, 600), (4, 400), (7, 900), (12, 500), (63, 20)] {
        let (part, _) = Formula::planted(Clauses::Or, length, 400, clauses, 8).unwrap();
        part.iter().for_each(|clause| mixed.add(&clause.collect::<Vec<_>>()).unwrap());
    }
    must_solve(&mixed, 2);
}

#[test]
fn a_contradiction_of_unit_clauses_is_unsatisfiable() {
    for clauses in [
        vec![vec![1], vec![-1]],
        vec![vec![1], vec![-1, 2], vec![-2]],
        vec![vec![4, 5, 6], vec![-1], vec![1, 2], vec![-2, 3], vec![-3, 1]],
    ] {
        let formula = Formula::from_clauses(&clauses).unwrap();
        let outcome = solve(&formula, &Settings::default(), &Watch::default());
        assert_eq!(outcome, Outcome::Unsatisfiable, "{clauses:?}");
    }
    // No unit clause: the solver cannot tell.
    let formula = Formula::from_clauses([[1, 2], [1, -2], [-1, 2], [-1, -2]]).unwrap();
    let settings = Settings { flips: 10_000, ..Settings::default() };
    let Outcome::GaveUp(end) = solve(&formula, &settings, &Watch::default()) else {
        panic!("solved, or proved");
    };
    assert_eq!((end.why, end.flips, end.fewest), (Why::Budget, 10_000, 1));
}

fn distance(a: &[bool], b: &[bool]) -> usize {
    a.iter().zip(b).filter(|(a, b)| a != b).count()
}

/// Solutions that were found with a start and a bias away from the first are further from it than others.
#[test]
fn a_lean_increases_the_distance() {
    let formula = Formula::random(Clauses::Or, 5, 1000, 16_000, 2).unwrap();
    let first = must_solve(&formula, 1);
    let start: Vec<bool> = first.iter().map(|value| !value).collect();
    let towards: Vec<i8> = start.iter().map(|value| if *value { 16 } else { -16 }).collect();
    let lean = Some(Lean { towards: &towards, flips: 100_000 });
    let mut far = 0;
    let mut plain = 0;
    for seed in 2..8 {
        plain += distance(&first, &must_solve(&formula, seed));
        let settings = Settings { seed, start: Some(&start), lean, ..Settings::default() };
        let away = solve(&formula, &settings, &Watch::default()).assignment().unwrap();
        far += distance(&first, &away);
    }
    assert!(far > plain + 6 * 50, "{far} and {plain} of 6000");
    // A start from a solution returns that solution.
    let settings = Settings { seed: 9, start: Some(&first), ..Settings::default() };
    assert_eq!(solve(&formula, &settings, &Watch::default()).assignment(), Some(first));
}
