//! Exact binomial bounds for counts of random events.
//!
//! A test that allows "a few percent" passes filters that are wrong by a few percent, and fails
//! correct ones when counts are small. Bounds from the distribution itself fail a correct filter
//! once in 10^9 runs on each side, and otherwise accept only what the number of trials cannot
//! distinguish from a correct one.

use std::f64::consts::TAU;
use std::ops::Range;

/// Probability that a correct filter fails a test, on each side.
pub const ALPHA: f64 = 1e-9;

/// Returns the counts that `trials` trials of probability `p` give, except with probability `alpha`
/// on each side.
pub fn bounds(trials: u64, p: f64, alpha: f64) -> Range<u64> {
    if p <= 0.0 {
        return 0..1;
    }
    if p >= 1.0 {
        return trials..trials + 1;
    }
    let mean = (trials as f64 * p) as u64;
    // The first count above the mean that is refused; `trials + 1` is impossible.
    let high = first(mean + 1, trials + 1, |count| tail_above(trials, p, count) <= alpha);
    // The first count up to the mean that is not refused.
    let low = first(0, mean, |count| tail_below(trials, p, count) > alpha);
    low..high
}

/// Returns the first of `from..to` for which `holds` is true, or `to`. `holds` must be monotonic.
fn first(mut from: u64, mut to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while from < to {
        let middle = from.midpoint(to);
        if holds(middle) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    from
}

/// Returns P(X >= count) for a count above the mean, from where the terms shrink.
fn tail_above(trials: u64, p: f64, count: u64) -> f64 {
    let (n, odds) = (trials as f64, p / (1.0 - p));
    let (mut term, mut sum) = (1.0, 0.0);
    let mut i = count as f64;
    while i <= n && term > sum * 1e-17 {
        sum += term;
        term *= (n - i) / (i + 1.0) * odds;
        i += 1.0;
    }
    (ln_pmf(trials, p, count) + sum.ln()).exp()
}

/// Returns P(X <= count) for a count up to the mean.
fn tail_below(trials: u64, p: f64, count: u64) -> f64 {
    let (n, odds) = (trials as f64, p / (1.0 - p));
    let (mut term, mut sum) = (1.0, 0.0);
    let mut i = count as f64;
    while i >= 0.0 && term > sum * 1e-17 {
        sum += term;
        term *= i / ((n - i + 1.0) * odds);
        i -= 1.0;
    }
    (ln_pmf(trials, p, count) + sum.ln()).exp()
}

fn ln_pmf(trials: u64, p: f64, count: u64) -> f64 {
    let (n, k) = (trials as f64, count as f64);
    ln_gamma(n + 1.0) - ln_gamma(k + 1.0) - ln_gamma(n - k + 1.0)
        + k * p.ln()
        + (n - k) * (-p).ln_1p()
}

/// Returns ln Γ(x) by Stirling's series, after stepping `x` up to where 4 terms give all digits.
fn ln_gamma(mut x: f64) -> f64 {
    let mut steps = 1.0;
    while x < 16.0 {
        steps *= x;
        x += 1.0;
    }
    let inverse = 1.0 / (x * x);
    let series =
        (1.0 / 12.0 - inverse * (1.0 / 360.0 - inverse * (1.0 / 1260.0 - inverse / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * TAU.ln() + series - f64::ln(steps)
}

/// Panics unless `count` of `trials` is within the bounds for probability `p`.
pub fn check(what: &str, count: u64, trials: u64, p: f64) {
    let accepted = bounds(trials, p, ALPHA);
    assert!(
        accepted.contains(&count),
        "{what}: {count} of {trials} where {:.1} are expected and {accepted:?} are accepted",
        p * trials as f64
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_bounds_are_those_worked_out_by_hand() {
        assert_eq!(bounds(10_000_000, 1.0 / 256.0, ALPHA).end, 40_252);
        assert_eq!(bounds(10_000_000, 1e-3, ALPHA).end, 10_606);
        assert_eq!(bounds(100_000_000, 1.0 / 65_536.0, ALPHA).end, 1_767);
    }

    #[test]
    fn ln_gamma_is_ln_factorial() {
        let mut sum = 0.0;
        for n in 1..200 {
            sum += f64::from(n).ln();
            assert!((ln_gamma(f64::from(n) + 1.0) - sum).abs() < 1e-10 * sum.max(1.0), "{n}");
        }
    }

    #[test]
    fn bounds_are_the_tightest_that_grant_alpha() {
        // Small enough for a sum of all terms.
        for (n, p) in [(1u64, 0.5f64), (20, 0.5), (100, 0.03), (300, 0.9), (1000, 0.001)] {
            let mut pmf = vec![(1.0 - p).powi(n as i32)];
            for k in 1..=n {
                pmf.push(pmf[k as usize - 1] * (n - k + 1) as f64 / k as f64 * p / (1.0 - p));
            }
            for alpha in [1e-9, 1e-3, 0.1] {
                let Range { start, end } = bounds(n, p, alpha);
                let below = |k: u64| pmf[..k as usize].iter().sum::<f64>();
                let above = |k: u64| pmf[k as usize..].iter().sum::<f64>();
                let near = 1.0 + 1e-6;
                assert!(below(start) <= alpha * near && below(start + 1) * near > alpha);
                assert!(end > n || above(end) <= alpha * near, "{n} {p} {alpha}");
                assert!(above(end - 1) * near > alpha, "{n} {p} {alpha}");
            }
        }
    }

    #[test]
    fn certain_things_have_one_outcome() {
        assert_eq!(bounds(7, 0.0, ALPHA), 0..1);
        assert_eq!(bounds(7, 1.0, ALPHA), 7..8);
    }
}
