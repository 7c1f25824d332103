//! Moves several solutions of one formula apart, by simulated annealing.
//!
//! The *surplus* of a variable is the number of solutions in which it is true minus the number in which it is
//! false. The smaller the sum of the squared surpluses, the greater the mean Hamming distance of two solutions.
//! A solution stays a solution if a variable with a break count of 0 is flipped. Such a flip is made if it does not
//! increase the sum, and otherwise with a probability that falls to 0 from round to round.
//!
//! The flips that increase the sum lead out of local minima, as in all simulated annealing. `lab/sat/table-5.csv` has
//! the distances that result.

use alloc::vec;
use alloc::vec::Vec;
use core::mem::take;

use crate::formula::{Formula, Occurrences};
use crate::random::Rng;
use crate::walk::{CHECK_INTERVAL, Walk};
use crate::watch::{Meter, Watch, Why};

/// Draws of a variable per solution and round, for each variable.
const DRAWS: u64 = 10;

/// Flips variables in solutions of one formula so that the solutions differ more. They stay solutions.
///
/// Each of the `rounds` takes as long as a few flips of each variable in each solution: 32 rounds are enough for
/// most of the effect. The same seed gives the same solutions. [`mean_distance`] tells how much they differ.
///
/// # Examples
/// ```
/// use tamis_ksat::{Formula, Watch, mean_distance, spread};
///
/// let formula = Formula::from_clauses([[1, 2, 3], [-1, 2, 3]])?;
/// let mut solutions = vec![vec![true; 3]; 4];
/// spread(&formula, &mut solutions, 0, 32, &Watch::default()).expect("no limit is set");
/// assert!(solutions.iter().all(|solution| formula.unsatisfied(solution) == 0));
/// assert!(mean_distance(&solutions) > 0.3);
/// # Ok::<(), tamis_ksat::Error>(())
/// ```
///
/// # Errors
/// Returns why `watch` stopped it. The solutions are solutions then, but differ less.
///
/// # Panics
/// Panics if a solution does not have one value per variable.
pub fn spread(
    formula: &Formula,
    solutions: &mut [Vec<bool>],
    seed: u64,
    rounds: u32,
    watch: &Watch<'_>,
) -> Result<(), Why> {
    let vars = formula.vars() as usize;
    let mut surplus = vec![0i32; vars];
    for values in &*solutions {
        assert_eq!(values.len(), vars, "a solution needs one value per variable");
        add(&mut surplus, values);
    }
    let occurrences = Occurrences::of(formula);
    let mut walk = Walk::new(formula, &occurrences);
    let mut rng = Rng::new(seed, 1);
    let meter = Meter::new(watch, 0, 0);
    for round in 1..=rounds {
        // From 1/2 down to 0, in units of 2^-32.
        let odds = (u64::from(rounds - round) << 31) / u64::from(rounds);
        for values in &mut *solutions {
            walk.start(take(values));
            let ended = balance(&mut walk, &mut surplus, odds, &mut rng, &meter);
            *values = walk.take_values();
            ended?;
        }
    }
    Ok(())
}

/// Flips variables of one solution. A flip that adds 4 to the sum of squares has the probability
/// `odds / 2^32`, one that adds 4u that to the power of u.
fn balance(
    walk: &mut Walk<'_>,
    surplus: &mut [i32],
    odds: u64,
    rng: &mut Rng,
    meter: &Meter<'_>,
) -> Result<(), Why> {
    let vars = surplus.len() as u64;
    for draw in 0..DRAWS * vars {
        if draw % CHECK_INTERVAL == 0 {
            meter.check()?;
        }
        let variable = rng.below(vars) as usize;
        if !walk.is_free(variable) {
            continue;
        }
        let sign = if walk.value(variable) { 1 } else { -1 };
        let units = 1 - sign * surplus[variable];
        let accepted = units <= 0 || {
            let mut chance = odds;
            for _ in 1..units.min(64) {
                chance = (chance * odds) >> 32;
            }
            rng.next() >> 32 < chance
        };
        if accepted {
            walk.flip(variable as u32);
            surplus[variable] -= 2 * sign;
        }
    }
    Ok(())
}

fn add(surplus: &mut [i32], values: &[bool]) {
    for (surplus, value) in surplus.iter_mut().zip(values) {
        *surplus += if *value { 1 } else { -1 };
    }
}

/// Returns the fraction of the variables in which two of these assignments differ, on average over all pairs.
/// That of independent random ones is 0.5. It is 0 if there are fewer than 2 assignments, or no variables.
///
/// # Panics
/// Panics if the assignments do not have equally many variables.
pub fn mean_distance(assignments: &[Vec<bool>]) -> f64 {
    let vars = assignments.first().map_or(0, Vec::len);
    if vars == 0 || assignments.len() < 2 {
        return 0.0;
    }
    let mut surplus = vec![0i32; vars];
    for values in assignments {
        assert_eq!(values.len(), vars, "the assignments need equally many variables");
        add(&mut surplus, values);
    }
    let squares: f64 =
        surplus.iter().map(|surplus| f64::from(*surplus) * f64::from(*surplus)).sum();
    let (count, vars) = (assignments.len() as f64, vars as f64);
    0.5 * (count * count - squares / vars) / (count * (count - 1.0))
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::AtomicBool;

    use super::*;
    use crate::random::Clauses;
    use crate::solve::{Settings, solve};

    #[test]
    fn distances_are_those_of_pairs() {
        let (a, b, c) = (vec![true, true, false], vec![true, false, true], vec![false; 3]);
        assert!((mean_distance(&[a.clone(), b.clone()]) - 2.0 / 3.0).abs() < 1e-12);
        let d = vec![true, true, true];
        // The six pairs differ in 2, 2, 1, 2, 1 and 3 of 3 variables.
        assert!((mean_distance(&[a.clone(), b, c, d]) - 11.0 / 18.0).abs() < 1e-12);
        assert_eq!(mean_distance(&[a.clone(), a.clone()]), 0.0);
        assert_eq!(mean_distance(&[a]), 0.0);
        assert_eq!(mean_distance(&[vec![], vec![]]), 0.0);
    }

    #[test]
    fn solutions_stay_solutions_and_differ_more() {
        let formula = Formula::random(Clauses::Or, 4, 500, 3500, 1).unwrap();
        let solved = |seed| {
            let settings = Settings { seed, ..Settings::default() };
            solve(&formula, &settings, &Watch::default()).assignment().unwrap()
        };
        let found: Vec<_> = (0..12).map(solved).collect();
        let run = |seed, rounds, watch: &Watch<'_>| {
            let mut moved = found.clone();
            let ended = spread(&formula, &mut moved, seed, rounds, watch);
            assert!(moved.iter().all(|values| formula.unsatisfied(values) == 0));
            (ended, moved)
        };
        let (ended, moved) = run(7, 32, &Watch::default());
        assert_eq!(ended, Ok(()));
        let (before, after) = (mean_distance(&found), mean_distance(&moved));
        // Two random assignments differ in half of the variables.
        assert!(before < 0.47 && after > 0.5, "{before}, {after}");
        assert_eq!(run(7, 32, &Watch::default()).1, moved);
        assert_ne!(run(8, 32, &Watch::default()).1, moved);
        assert_eq!(run(7, 0, &Watch::default()).1, found);
        let cancel = AtomicBool::new(true);
        let (ended, moved) = run(7, 32, &Watch { cancel: Some(&cancel), ..Watch::default() });
        assert_eq!((ended, moved == found), (Err(Why::Cancelled), true));
    }

    #[test]
    fn formulas_without_variables_or_solutions_are_accepted() {
        let formula = Formula::new(0).unwrap();
        assert_eq!(spread(&formula, &mut [vec![], vec![]], 0, 3, &Watch::default()), Ok(()));
        let formula = Formula::new(3).unwrap();
        assert_eq!(spread(&formula, &mut [], 0, 3, &Watch::default()), Ok(()));
        // Without clauses every variable is balanced.
        let mut solutions = vec![vec![true; 3]; 8];
        spread(&formula, &mut solutions, 0, 32, &Watch::default()).unwrap();
        assert!((mean_distance(&solutions) - 4.0 / 7.0).abs() < 1e-12);
    }
}
