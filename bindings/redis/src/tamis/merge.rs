//! `TAMIS.MERGE`, in a thread if the filters are large.

use std::sync::Arc;

use crate::background::{self, Reply, SMALL_BYTES, Server};
use crate::failure::Failure;
use crate::limits;
use crate::server::{Argument, Context};
use crate::value::Filter;

use super::Done;

/// How often a merge starts again because one of its filters has changed. After that the server waits for it.
const ATTEMPTS: usize = 3;

/// `TAMIS.MERGE destination source [source …]`
pub(crate) fn merge(context: &Context, arguments: &[Argument]) -> Done {
    if arguments.len() < 2 {
        return Err(Failure::Arity);
    }
    let names = arguments.iter().map(|name| name.bytes().to_vec()).collect();
    let merge = Merge { names };
    let filters = merge.filters(context)?;
    let small =
        filters.iter().flatten().map(|filter| filter.heap_bytes()).sum::<u64>() < SMALL_BYTES;
    background::start(context, small, move |server| merge.run(server, filters).map(Reply::Integer))
}

/// The filters of a merge: of the destination, which need not exist, and of the sources.
type Filters = Vec<Option<Arc<Filter>>>;

struct Merge {
    /// The destination, then the sources.
    names: Vec<Vec<u8>>,
}

impl Merge {
    /// Returns the filters as they are now. A change copies what it changes.
    fn filters(&self, context: &Context) -> Result<Filters, Failure> {
        let filters = self.names.iter().enumerate().map(|(index, name)| {
            match context.read_named(name)?.value() {
                Some(value) => Ok(Some(Arc::clone(value.filter()?))),
                None if index == 0 => Ok(None),
                None => Err(Failure::MISSING),
            }
        });
        filters.collect()
    }

    /// Merges and stores the union. Returns its number of keys.
    fn run(&self, server: &Server<'_>, mut filters: Filters) -> Result<u64, Failure> {
        let attempts = if matches!(server, Server::Command(_)) { 0 } else { ATTEMPTS };
        for _ in 0..attempts {
            let bytes = filters.iter().flatten().next().map_or(0, |filter| filter.heap_bytes());
            server.locked(|context| limits::check(context, bytes, 0))?;
            let union = union(&filters)?;
            let keys = union.len();
            let changed = server.locked(|context| {
                let now = self.filters(context)?;
                // Replicas merge the filters that they have at this point, which must be the same.
                if !now.iter().zip(&filters).all(|(now, then)| is_same(now, then)) {
                    return Ok(Some(now));
                }
                self.store(context, union)?;
                Ok::<_, Failure>(None)
            })?;
            match changed {
                None => return Ok(keys),
                Some(now) => filters = now,
            }
        }
        drop(filters);
        server.locked(|context| {
            let filters = self.filters(context)?;
            let bytes = filters.iter().flatten().next().map_or(0, |filter| filter.heap_bytes());
            limits::check(context, bytes, 0)?;
            let union = union(&filters)?;
            let keys = union.len();
            self.store(context, union)?;
            Ok(keys)
        })
    }

    fn store(&self, context: &Context, union: Filter) -> Done {
        context.key_named(&self.names[0])?.set(union.into());
        let names: Vec<&[u8]> = self.names.iter().map(|name| &name[..]).collect();
        context.replicate("TAMIS.MERGE", &names);
        Ok(())
    }
}

fn is_same(a: &Option<Arc<Filter>>, b: &Option<Arc<Filter>>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (a, b) => a.is_none() && b.is_none(),
    }
}

/// Merges into a copy: either all sources are merged or none.
fn union(filters: &Filters) -> Result<Filter, Failure> {
    let mut filters = filters.iter().flatten();
    let mut union = filters.next().ok_or(Failure::MISSING)?.try_clone()?;
    filters.try_for_each(|filter| union.merge(filter))?;
    Ok(union)
}
