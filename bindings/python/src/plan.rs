//! Which kind suits a job: what `tamis.plan` and `tamis.kinds` wrap.

use pyo3::prelude::*;
use tamis::{Advice, Goal, Kind, Merit, plan};

use crate::errors::{exception, raise};
use crate::keys::Whole;
use crate::options;

/// The fields of `tamis.Advice`.
type Row = (&'static str, u64, f64, u64, f64, Vec<&'static str>, Vec<&'static str>);
/// The fields of `tamis.KindInfo`.
type KindRow = (&'static str, Vec<&'static str>, &'static str, Vec<(&'static str, &'static str)>);

fn capabilities(kind: Kind) -> Vec<&'static str> {
    kind.capabilities().iter().map(|capability| capability.name()).collect()
}

fn row(advice: &Advice) -> Row {
    let Advice { kind, figures, merits, .. } = advice;
    let merits = merits.iter().map(|merit| match merit {
        Merit::OnlyChoice => "only choice",
        Merit::LowestRate => "lowest rate",
        Merit::Smallest => "smallest",
        Merit::LeastWork => "least work",
        _ => "best balance",
    });
    let (name, can) = (kind.name(), capabilities(*kind));
    (name, figures.keys, figures.fpr, figures.bytes, figures.query_cost, can, merits.collect())
}

/// Ranks the kinds for a job.
#[pyfunction]
#[pyo3(name = "_plan", signature = (keys, fpr, nbytes, needs, distinct))]
pub(crate) fn rank(
    py: Python<'_>,
    keys: Option<Whole>,
    fpr: Option<f64>,
    nbytes: Option<Whole>,
    needs: Option<Vec<String>>,
    distinct: bool,
) -> PyResult<Vec<Row>> {
    let needs = options::capabilities(needs)?;
    let goal = match (keys, fpr, nbytes) {
        (Some(Whole(keys)), fpr, None) => Goal::KeysFpr { keys, fpr: fpr.unwrap_or(0.01) },
        (Some(Whole(keys)), None, Some(Whole(bytes))) => Goal::KeysBytes { keys, bytes },
        (None, Some(fpr), Some(Whole(bytes))) => Goal::BytesFpr { bytes, fpr },
        (None, fpr, None) => {
            let ranked = plan::recommend_unknown(fpr.unwrap_or(0.01), &needs).map_err(raise)?;
            return Ok(ranked.iter().map(row).collect());
        }
        _ => {
            let message = "expected two of keys, fpr and nbytes".to_owned();
            return Err(exception("InvalidInputError", message));
        }
    };
    let recommend = if distinct { plan::recommend_distinct } else { plan::recommend };
    let ranked = py.detach(|| recommend(goal, &needs)).map_err(raise)?;
    Ok(ranked.iter().map(row).collect())
}

/// Returns all kinds.
#[pyfunction]
#[pyo3(name = "_kinds")]
pub(crate) fn kinds() -> Vec<KindRow> {
    let row = |kind: &Kind| {
        let settings = kind.settings().iter().map(|setting| (setting.name, setting.takes));
        (kind.name(), capabilities(*kind), kind.paper(), settings.collect())
    };
    Kind::ALL.iter().map(row).collect()
}
