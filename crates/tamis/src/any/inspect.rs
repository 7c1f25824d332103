//! The memory of a filter whose kind is known only at run time.

use alloc::vec::Vec;

use super::AnyFilter;
use crate::error::Error;
use crate::hash::KeyHash;
use crate::inspect::{CellTable, Inspect, MAX_INSPECTED, Step};
use crate::traits::Persist;

impl AnyFilter {
    /// Returns its memory as cells, for drawings: see [`Inspect`].
    ///
    /// # Errors
    /// [`Error::Infeasible`] for a kind that cannot be shown, [`Error::Limit`] above 16 KiB.
    pub fn cells(&self) -> Result<Vec<CellTable>, Error> {
        let asked = self.bytes();
        if asked > MAX_INSPECTED {
            let what = "bytes of a filter to be shown";
            return Err(Error::Limit { what, asked, most: MAX_INSPECTED });
        }
        Ok(self.as_inspect()?.cells())
    }

    /// Returns the steps of a lookup: see [`Inspect::path`].
    ///
    /// # Errors
    /// As [`AnyFilter::cells`].
    pub fn path(&self, key: KeyHash) -> Result<Vec<Step>, Error> {
        Ok(self.as_inspect()?.path(key))
    }

    fn as_inspect(&self) -> Result<&dyn Inspect, Error> {
        Ok(match self {
            Self::Bloom(filter) => filter,
            Self::SplitBlockBloom(filter) => filter,
            Self::Cuckoo(filter) => filter,
            Self::Quotient(filter) => filter,
            Self::TinySet(filter) => filter,
            Self::BinaryFuse(filter) => filter,
            Self::Ribbon(filter) => filter,
            Self::Broom(filter) => filter,
            _ => return Err(Error::Infeasible { why: "the cells of this kind cannot be shown" }),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::hash::{HashId, Key, KeyHasher};
    use crate::kind::Kind;
    use crate::options::BuildOptions;
    use crate::sizing::Sizing;
    use crate::source::Hashes;
    use crate::traits::Filter;

    const SHOWN: [Kind; 8] = [
        Kind::Bloom,
        Kind::SplitBlockBloom,
        Kind::Cuckoo,
        Kind::Quotient,
        Kind::TinySet,
        Kind::BinaryFuse,
        Kind::Ribbon,
        Kind::Broom,
    ];

    #[test]
    fn steps_lead_to_the_answer_of_the_filter() {
        for (kind, fpr) in SHOWN.into_iter().flat_map(|kind| [(kind, 0.03), (kind, 0.001)]) {
            let hasher = KeyHasher::new(HashId::Fast, [7, 8]);
            let mut keys = Hashes::new((0..500u64).map(|key| key.hash_with(&hasher)));
            let sizing = Sizing::fpr(fpr).capacity(500);
            let filter = kind.build(&sizing, &mut keys, &BuildOptions::new()).unwrap();
            let tables = filter.cells().unwrap();
            for key in 0..20_000u64 {
                let hash = key.hash_with(&hasher);
                let steps = filter.path(hash).unwrap();
                let (last, others) = steps.split_last().unwrap();
                assert_eq!(last.matches, filter.contains(hash), "{kind}, key {key}");
                let shown = |kind: Kind| kind != Kind::Cuckoo && kind != Kind::Broom;
                assert!(
                    !shown(kind) || others.iter().all(|step| step.matches),
                    "{kind}, key {key}"
                );
                for step in &steps {
                    let cells = &tables[step.table].cells;
                    let read: Vec<_> =
                        step.cells.iter().map(|cell| cells[*cell as usize]).collect();
                    let holds = match last.what {
                        // All bits must be set.
                        "a bit of the key" | "one bit in each lane of the key's block" => {
                            read.iter().all(|cell| cell.value == 1)
                        }
                        "the XOR of the key's cells" | "the XOR of the key's slots" => {
                            read.iter().fold(0, |sum, cell| sum ^ cell.value) == step.wanted
                        }
                        _ if step.what.starts_with("whether") => read[0].value == 1,
                        _ if step.what.contains("bucket") && kind == Kind::Cuckoo => {
                            read.iter().any(|cell| cell.value == step.wanted)
                        }
                        _ if step.what == "the remainders of the run" => {
                            read.iter().any(|cell| cell.value == step.wanted)
                        }
                        _ if step.what == "the records of the chain" => read.iter().any(|cell| {
                            cell.value == step.wanted & tamis_bits::packed::mask(cell.width)
                        }),
                        _ if step.what == "the remainders of the bucket" => {
                            read.iter().any(|cell| cell.value == step.wanted)
                        }
                        _ => step.matches,
                    };
                    assert_eq!(holds, step.matches, "{kind}, key {key}: {}", step.what);
                }
            }
        }
    }

    #[test]
    fn cells_of_large_filters_and_other_kinds_are_refused() {
        let build = |kind: Kind, keys: u64| {
            let hasher = KeyHasher::new(HashId::Fast, [7, 8]);
            let mut hashes = Hashes::new((0..10u64).map(|key| key.hash_with(&hasher)));
            kind.build(&Sizing::fpr(0.01).capacity(keys), &mut hashes, &BuildOptions::new())
                .unwrap()
        };
        assert!(build(Kind::Bloom, 1000).cells().is_ok());
        assert!(build(Kind::Bloom, 100_000).cells().is_err());
        assert!(build(Kind::Morton, 1000).cells().is_err());
    }
}
