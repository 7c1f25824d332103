//! Tests every registered filter with a counting allocator.

use tamis_conformance::allocation::{self, Counting};
use tamis_ksat::{Clauses, Fault, Formula, Settings, Watch, solve};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn the_allocator_counts() {
    allocation::the_allocator_counts();
}

/// Reading and solving a formula takes no more memory than it states, nor much less.
#[test]
fn formulas_take_the_memory_that_they_state() {
    let random = |k, vars, clauses| Formula::random(Clauses::Or, k, vars, clauses, 7).unwrap();
    let mut units = random(3, 20_000, 40_000);
    (1..5000).for_each(|name| units.add(&[name]).unwrap());
    let formulas = [
        ("easy", random(3, 20_000, 60_000)),
        ("by surveys", random(3, 5000, 20_900)),
        ("of long clauses", random(40, 2000, 20_000)),
        ("with unit clauses", units),
        ("with unused variables", random(2, 300_000, 20_000)),
    ];
    for (name, formula) in formulas {
        let mut file = Vec::new();
        formula.write(&mut file).unwrap();
        drop(formula);
        let mut stated = 0;
        let peak = allocation::peak(|| {
            let formula = Formula::read(&file[..]).unwrap();
            stated = formula.memory_bytes();
            let settings = Settings { flips: 20_000, ..Settings::default() };
            drop(solve(&formula, &settings, &Watch::default()));
        });
        assert!((stated / 10..=stated).contains(&peak), "{name}: {peak} bytes, {stated} stated");
        let short = Formula::read_within(&file[..], stated - 1).unwrap_err();
        assert!(matches!(short.what, Fault::MemoryLimit { .. }), "{short}");
        assert!(Formula::read_within(&file[..], stated).is_ok());
    }
}

macro_rules! memory {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => { $(
        mod $file {
            #[test]
            fn memory_is_what_the_shape_states() {
                super::allocation::memory_is_what_the_shape_states::<tamis::filters::$type>();
            }

            #[test]
            fn hostile_files_take_no_memory() {
                super::allocation::hostile_files_take_no_memory::<tamis::filters::$type>();
            }
        }
    )* };
}

tamis::registry!(memory);
