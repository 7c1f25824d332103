//! A row of the table of parameters.

/// How the weight of a variable in the local search decreases with its break count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fall {
    /// By this factor per broken clause.
    Power(f64),
    /// As 1 / (offset + breaks)^2.
    Square(f64),
}

/// The best parameters measured for a clause length and up to a number of variables: a row of the table that
/// `lab/ksat` writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) k: usize,
    pub(crate) nae: bool,
    pub(crate) vars: u32,
    pub(crate) fall: Fall,
    /// The load up to which local search is faster than survey propagation.
    pub(crate) easy: f64,
    /// The load from which decimation needs backtracking.
    pub(crate) hard: f64,
}
