//! `tamis similar`: prints the similarity of sets, or of passages of texts.

mod pairs;
mod passages;

use anyhow::{Result, anyhow, bail};
use serde_json::json;

use crate::args::Similar;
use crate::errors::failure;
use crate::{files, output};

pub(crate) fn run(args: &Similar) -> Result<()> {
    if args.passages {
        return passages::run(args);
    }
    if args.filters.len() < 2 {
        bail!("expected at least 2 filters");
    }
    files::check_stdin(&args.filters, None)?;
    let open = |path| files::open(path, true);
    let filters = args.filters.iter().map(|path| open(path)).collect::<Result<Vec<_>>>()?;
    let names: Vec<String> = args.filters.iter().map(|path| files::name(path)).collect();
    let similarity = |a: usize, b: usize| {
        filters[a].similarity(&filters[b]).map_err(|error| match error {
            tamis::Error::Mismatch { what } => {
                anyhow!("{}: the {what} differs from {}", names[b], names[a])
            }
            error => failure(&names[b], &error),
        })
    };
    let all = 0..names.len();
    let row = |a: usize| all.clone().map(|b| similarity(a.min(b), a.max(b))).collect();
    let matrix = all.clone().map(row).collect::<Result<Vec<Vec<f64>>>>()?;
    if args.json {
        let pairs = all.clone().flat_map(|a| (a + 1..all.end).map(move |b| (a, b)));
        return output::print_json(
            pairs.map(|(a, b)| json!({ "a": names[a], "b": names[b], "similarity": matrix[a][b] })),
        );
    }
    if names.len() == 2 {
        return output::print(format_args!("{:.4}", matrix[0][1]));
    }
    let head: Vec<&str> = std::iter::once("").chain(names.iter().map(String::as_str)).collect();
    let rows = names.iter().zip(&matrix).map(|(name, row)| {
        let cells = row.iter().map(|similarity| format!("{similarity:.4}"));
        std::iter::once(name.clone()).chain(cells).collect()
    });
    output::print(output::table(&head, &(1..head.len()).collect::<Vec<_>>(), rows.collect()))
}
