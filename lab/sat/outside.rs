//! SAT filters by an outside solver: CaDiCaL, a complete solver that learns clauses.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use cadical::Solver;
use lab::{Sheet, hashes, processor_time};
use tamis::filters::sat::{Construction, Sat, SatFormula, SatShape};
use tamis::{Build, Filter, Shape};
use tamis_ksat::read_solutions;

use crate::{SALT, add, let_in, name, planes, planned_rate};

/// Conflicts after which CaDiCaL gives up a formula.
const CONFLICTS: i32 = 500_000;

/// Construction, k, binary logarithm of the keys, and efficiency.
const FILTERS: [(Construction, u32, u32, f64); 14] = [
    (Construction::Sliced, 3, 10, 0.65),
    (Construction::Sliced, 3, 12, 0.65),
    (Construction::Sliced, 4, 10, 0.65),
    (Construction::Sliced, 4, 12, 0.65),
    (Construction::Sliced, 4, 12, 0.75),
    (Construction::Sliced, 5, 10, 0.65),
    (Construction::Sliced, 5, 12, 0.65),
    (Construction::Sliced, 5, 12, 0.75),
    (Construction::Sliced, 5, 14, 0.75),
    (Construction::Sliced, 6, 12, 0.75),
    (Construction::Multi, 5, 12, 0.75),
    (Construction::Single, 5, 12, 0.75),
    (Construction::Nae, 4, 12, 0.65),
    (Construction::Nae, 5, 12, 0.75),
];

/// Builds filters from the solutions of CaDiCaL, and the same filters by our own solver.
pub(crate) fn outside_solver(long: bool) -> Result<()> {
    let columns = [
        "construction",
        "k",
        "keys",
        "efficiency asked",
        "solver",
        "solved",
        "solve s",
        "bits",
        "efficiency",
        "let in %",
        "independent %",
    ];
    let queries = if long { 1 << 27 } else { 1 << 22 };
    let mut sheet = Sheet::new("sat", "outside-solver", &columns);
    for (construction, k, log_keys, efficiency) in FILTERS {
        let members = hashes(SALT, 0, 1 << log_keys);
        let planes = planes(construction, k);
        let shape = SatShape::new(construction, k, planes, efficiency, 1 << log_keys)?;
        let formula = SatFormula::new(&members, |_| Ok(shape.clone()))?;

        let start = processor_time()?;
        let printed = solve_all(&formula)?;
        let cadical = (processor_time()? - start) * 1e-9;
        let vars = u32::try_from(formula.variables())?;
        let solutions = read_solutions(printed.as_bytes(), vars, usize::try_from(planes)?)?;
        let solved = solutions.len() as u64;
        let outside = if solved == planes { Some(formula.build(&solutions)?) } else { None };

        let start = processor_time()?;
        let own = Sat::build(shape, &members[..])?;
        let ours = (processor_time()? - start) * 1e-9;

        for (solver, filter, solved, seconds) in
            [("cadical", outside, solved, cadical), ("ours", Some(own), planes, ours)]
        {
            let mut row = vec![
                name(construction).to_owned(),
                k.to_string(),
                format!("2^{log_keys}"),
                efficiency.to_string(),
                solver.to_owned(),
                format!("{solved} of {planes}"),
                format!("{seconds:.3}"),
            ];
            if let Some(filter) = filter {
                if !members.iter().all(|key| filter.contains(*key)) {
                    bail!("a member is denied");
                }
                let rate = let_in(&filter, queries);
                let bits = filter.shape().figures().bytes * 8;
                let reached = -rate.log2() * members.len() as f64 / bits as f64;
                row.extend([bits.to_string(), format!("{reached:.4}")]);
                row.push(format!("{:.2}", rate * 100.0));
            } else {
                row.extend(["-"; 3].map(str::to_owned));
            }
            row.push(format!("{:.2}", planned_rate(construction, k, planes) * 100.0));
            add(&mut sheet, &row);
        }
    }
    let title = "Filters from the solutions of CaDiCaL, and by our own solver";
    sheet.finish(title, "", "", false, Vec::new())
}

/// Returns the solutions as a solver prints them, up to the first formula that is not solved.
///
/// CaDiCaL prefers variables to be true. Before it sees a formula, the variables in `negated` are
/// replaced by their negation, so the solutions of one formula differ.
fn solve_all(formula: &SatFormula) -> Result<String> {
    let mut printed = String::new();
    for plane in 0..formula.solutions() {
        let negated: Vec<bool> =
            hashes(plane, 0, formula.variables()).iter().map(|hash| hash.hi & 1 == 1).collect();
        let rename = |literal: i32| match negated[literal.unsigned_abs() as usize - 1] {
            true => -literal,
            false => literal,
        };
        let mut solver: Solver = Solver::new();
        for clause in formula.clauses(plane.min(formula.formulas() - 1)) {
            solver.add_clause(clause.into_iter().map(rename));
        }
        solver.set_limit("conflicts", CONFLICTS).map_err(anyhow::Error::msg)?;
        if solver.solve() != Some(true) {
            break;
        }
        printed.push_str("s SATISFIABLE\nv");
        for variable in 1..=i32::try_from(formula.variables())? {
            let value = solver.value(rename(variable)).unwrap_or(false);
            write!(printed, " {}", if value { variable } else { -variable })?;
        }
        printed.push_str(" 0\n");
    }
    Ok(printed)
}
