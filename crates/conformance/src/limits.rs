//! Requests out of range are errors, and the planner is consistent.

use tamis::plan::{MAX_BYTES, MAX_KEYS, MIN_FPR, solve};
use tamis::{Error, Goal, Keyed, Limits, Settings, Shape};

use crate::files::golden;
use crate::{Subject, variants};

/// Values that are not false positive rates.
pub const NOT_A_RATE: [f64; 10] =
    [0.0, -0.0, 1.0, 2.0, -1.0, 1e-30, 5e-324, f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

/// Checks that each request out of range is refused with its own error, by the shape and by the
/// planner. An exact kind takes a rate of 0.
pub fn absurd_wishes_are_refused<F: Subject>() {
    let plan = |goal| solve::<F::Shape>(goal, &Settings::default());
    for fpr in NOT_A_RATE {
        if F::KIND.is_exact() && fpr == 0.0 {
            let figures = F::Shape::fit(1000, fpr).expect("an exact kind").figures();
            assert!(figures.fpr < 1e-30, "{figures:?}");
            let most = plan(Goal::BytesFpr { bytes: figures.bytes, fpr }).expect("an exact kind");
            assert!((1000..1010).contains(&most.keys()), "{most:?}");
            continue;
        }
        let refused = [
            F::Shape::fit(1000, fpr),
            plan(Goal::KeysFpr { keys: 1000, fpr }),
            plan(Goal::BytesFpr { bytes: 1 << 20, fpr }),
        ];
        for result in refused {
            let error = result.expect_err("not a rate");
            assert!(
                matches!(error, Error::Fpr(told) if told.to_bits() == fpr.to_bits()),
                "{error}"
            );
        }
    }
    for keys in [MAX_KEYS + 1, 1 << 60, u64::MAX] {
        let refused = [
            F::Shape::fit(keys, 0.01),
            plan(Goal::KeysFpr { keys, fpr: 0.01 }),
            plan(Goal::KeysBytes { keys, bytes: 1 << 40 }),
        ];
        for result in refused {
            let error = result.expect_err("too many keys");
            let Error::Limit { what: "keys", asked, most: MAX_KEYS } = error else {
                panic!("{error}")
            };
            assert_eq!(asked, keys);
        }
    }
    let small = [
        plan(Goal::KeysBytes { keys: 1000, bytes: 0 }),
        plan(Goal::KeysBytes { keys: MAX_KEYS, bytes: 1 << 20 }),
        plan(Goal::BytesFpr { bytes: 0, fpr: 0.01 }),
        plan(Goal::BytesFpr { bytes: 63, fpr: 0.01 }),
    ];
    for result in small {
        let error = result.expect_err("too little memory");
        assert!(matches!(error, Error::Infeasible { .. }), "{error}");
    }
    let mut settings = Settings::default();
    settings.set("no-such-setting", "1");
    let goal = Goal::KeysFpr { keys: 1000, fpr: 0.01 };
    assert!(matches!(solve::<F::Shape>(goal, &settings), Err(Error::Setting { .. })));
    for setting in F::Shape::SETTINGS {
        for value in ["", "x", "-1", "1.5", "0", "18446744073709551615", "99999999999999999999"] {
            let mut settings = Settings::default();
            settings.set(setting.name, value);
            let error = solve::<F::Shape>(goal, &settings).expect_err("not a valid value");
            assert!(matches!(error, Error::Setting { .. }), "{}={value}: {error}", setting.name);
        }
    }
}

/// Checks that requests at the ends of the ranges have an answer, with any settings.
pub fn extreme_wishes_are_answered<F: Subject>() {
    const RATES: [f64; 2] = [MIN_FPR, 1.0 - f64::EPSILON];
    const BYTES: [u64; 4] = [0, 64, MAX_BYTES, u64::MAX];
    for settings in variants::<F::Shape>() {
        let mut goals = Vec::new();
        for keys in [0, 1, MAX_KEYS] {
            goals.extend(RATES.map(|fpr| Goal::KeysFpr { keys, fpr }));
            goals.extend(BYTES.map(|bytes| Goal::KeysBytes { keys, bytes }));
        }
        for bytes in BYTES {
            goals.extend(RATES.map(|fpr| Goal::BytesFpr { bytes, fpr }));
        }
        for goal in goals {
            match solve::<F::Shape>(goal, &settings) {
                Ok(shape) => answers::<F>(goal, &shape),
                Err(Error::Limit { .. } | Error::Infeasible { .. }) => {}
                Err(error) => panic!("{goal:?} {settings:?}: {error}"),
            }
        }
    }
}

/// Checks that the shape meets the goal.
fn answers<F: Subject>(goal: Goal, shape: &F::Shape) {
    let figures = shape.figures();
    let met = match goal {
        Goal::KeysFpr { keys, fpr } => figures.keys == keys && figures.fpr <= fpr * (1.0 + 1e-9),
        Goal::KeysBytes { keys, bytes } => figures.keys == keys && figures.bytes <= bytes,
        Goal::BytesFpr { bytes, fpr } => {
            figures.bytes <= bytes && figures.fpr <= fpr * (1.0 + 1e-9)
        }
        other => panic!("{other:?} is not covered"),
    };
    assert!(met && (0.0..=1.0).contains(&figures.fpr), "{goal:?}: {shape:?}, {figures:?}");
}

/// Checks that the bytes planned for a number of keys and a rate hold those keys at that rate.
pub fn planning_there_and_back_agrees<F: Subject>() {
    let plan = |goal| solve::<F::Shape>(goal, &Settings::default());
    for keys in [100, 1000, 10_000, 1_000_000, 1_000_000_000, 100_000_000_000] {
        for fpr in [0.3, 0.1, 0.01, 1.0 / 256.0, 1e-3, 1e-5] {
            let wish = Goal::KeysFpr { keys, fpr };
            let shape = match plan(wish) {
                Ok(shape) => shape,
                Err(Error::Infeasible { .. }) => continue,
                Err(error) => panic!("{wish:?}: {error}"),
            };
            let there = shape.figures();
            assert!(there.keys == keys && there.fpr <= fpr * (1.0 + 1e-9), "{wish:?}: {there:?}");
            let bytes = there.bytes;
            let more = plan(Goal::BytesFpr { bytes, fpr }).expect("it fits").figures();
            assert!(more.bytes <= bytes && more.fpr <= fpr * (1.0 + 1e-9), "{wish:?}: {more:?}");
            assert!(more.keys as f64 >= keys as f64 * 0.999, "{wish:?}: only {} keys", more.keys);
            let sharp = plan(Goal::KeysBytes { keys, bytes }).expect("it fits").figures();
            assert!(sharp.bytes <= bytes && sharp.keys == keys, "{wish:?}: {sharp:?}");
            assert!(sharp.fpr <= fpr * 1.02, "{wish:?}: an fpr of {}", sharp.fpr);
        }
    }
}

/// Checks that a filter larger than the address space is an error and does not end the program.
pub fn what_does_not_fit_in_memory_is_an_error<F: Subject>() {
    let wish = Goal::KeysFpr { keys: MAX_KEYS, fpr: 0.01 };
    let error = match solve::<F::Shape>(wish, &Settings::default()) {
        Ok(shape) => F::build(shape, &[][..]).expect_err("2^48 keys"),
        Err(error) => error,
    };
    // A format of another program may have no filter of that size.
    let has_none = F::KIND.is_foreign() && matches!(error, Error::Infeasible { .. });
    assert!(has_none || matches!(error, Error::Memory { .. } | Error::Limit { .. }), "{error}");
}

/// Checks that a reader whose limit is below the file's size returns an error, and that it reads a
/// file of exactly the limit.
pub fn readers_keep_their_limit<F: Subject>() {
    let file = golden(F::KIND);
    let read = |bytes| Keyed::<F>::read_from(&file[..], &Limits { bytes });
    for bytes in [0, 1, 64, file.len() as u64 - 1] {
        let error = read(bytes).expect_err("more than it allows");
        assert!(
            matches!(error, Error::File(tamis_format::Error::Limit { what: "bytes", .. })),
            "{error}"
        );
    }
    assert!(read(file.len() as u64).is_ok());
}
