//! Section 4 of the paper with its errors corrected, for blocks of any size.

/// A block: the bits of its array of ends and records, and the number of chains.
#[derive(Clone, Copy)]
pub(crate) struct Block {
    pub(crate) array: usize,
    pub(crate) chains: usize,
    pub(crate) removable: bool,
}

impl Block {
    /// Returns the rate of a block with `records` records.
    pub(crate) fn rate(self, records: usize) -> f64 {
        if records == 0 {
            return 0.0;
        }
        if records > self.array {
            return 1.0;
        }
        let longer = (self.array % records) as f64;
        let short = (1.0 - (self.array / records) as f64).exp2() / self.chains as f64;
        // Half of the longer records end in a 0, which carries no information if keys can be
        // removed.
        let long = short * if self.removable { 0.75 } else { 0.5 };
        -(longer * (-long).ln_1p() + (records as f64 - longer) * (-short).ln_1p()).exp_m1()
    }

    /// Returns the mean rate of blocks with `mean` keys on average.
    pub(crate) fn mean_rate(self, mean: f64) -> f64 {
        poisson(mean).map(|(records, chance)| chance * self.rate(records)).sum()
    }

    /// Returns the rate by formula 4.3 as it is printed. Its second sum takes the longer records
    /// from the wrong range, where they have two bits less.
    pub(crate) fn printed_rate(self, mean: f64) -> f64 {
        let rate = |records: usize| {
            if records == 0 {
                return 0.0;
            }
            let longer = (self.array % records) as f64;
            let short = (1.0 - (self.array / records) as f64).exp2() / self.chains as f64;
            longer * 2.0 * short + (records as f64 - longer) * short
        };
        poisson(mean).map(|(records, chance)| chance * rate(records)).sum()
    }
}

/// Returns the numbers with a relevant probability and their probabilities.
pub(crate) fn poisson(mean: f64) -> impl Iterator<Item = (usize, f64)> {
    let last = (mean + 14.0 * mean.sqrt() + 40.0) as usize;
    let mut log = -mean;
    (0..=last).map(move |n| {
        let chance = log.exp();
        log += (mean / (n as f64 + 1.0)).ln();
        (n, chance)
    })
}

/// Returns the bits of an array at which blocks with `mean` keys reach the rate, interpolated on a
/// logarithmic scale.
pub(crate) fn array_for(rate: f64, mean: f64, chains: usize, removable: bool) -> f64 {
    let at = |array| Block { array, chains, removable }.mean_rate(mean);
    let mut array = mean as usize;
    while at(array) > rate {
        array += 1;
    }
    let (before, after) = (at(array - 1).ln(), at(array).ln());
    array as f64 - (rate.ln() - after) / (before - after)
}

/// Returns the bits per key at which `rate`, which falls as they grow, reaches `goal`.
pub(crate) fn bits_for(goal: f64, rate: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (1.0, 120.0);
    for _ in 0..50 {
        let middle = f64::midpoint(low, high);
        *(if rate(middle) > goal { &mut low } else { &mut high }) = middle;
    }
    high
}
