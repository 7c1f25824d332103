//! Static filters of other crates, each called in its fastest way, with fingerprints of 8 bits.
//!
//! All of them have a rate of 2^-8: compare them with `--fpr 2^-8`. They hash integers themselves.

use anyhow::anyhow;
use dsi_progress_logger::no_logging;
use mem_dbg::{MemSize, SizeFlags};
use sux::dict::VFilter;
use sux::func::VBuilder;
use sux::func::shard_edge::{Fuse3NoShards, FuseAug3Shards};
use tamis_bench::Contender;
use xorf::Filter as _;

use crate::peers::{batching, peer};

type Sharded = VFilter<u64, Box<[u8]>, [u64; 2], FuseAug3Shards>;
type Whole = VFilter<u64, Box<[u8]>, [u64; 1], Fuse3NoShards>;

/// Returns all of them.
pub fn all() -> Vec<Box<dyn Contender>> {
    vec![
        peer(
            "xorf BinaryFuse8",
            |members| xorf::BinaryFuse8::try_from(members).map_err(|error| anyhow!(error)),
            |filter| filter.fingerprints.len(),
            |filter, key| filter.contains(&key),
        ),
        peer(
            "xorf Xor8",
            |members| Ok(xorf::Xor8::from(members)),
            |filter| filter.fingerprints.len(),
            |filter, key| filter.contains(&key),
        ),
        batching(
            "jdb_xorf Bf8",
            |members| Ok(jdb_xorf::Bf8::from(members)),
            |filter| filter.fingerprints.len(),
            |filter, key| filter.has_key(key),
            |filter, keys, out| filter.contains_batch(keys, out),
        ),
        peer(
            "sux NoShards",
            |members| {
                let builder =
                    VBuilder::default().max_num_threads(1).expected_num_keys(members.len());
                Whole::try_par_new_with_builder(members, builder, no_logging![])
            },
            |filter| filter.mem_size(SizeFlags::default()),
            |filter, key| filter.contains(key),
        ),
        peer(
            "sux sharded",
            |members| {
                let builder =
                    VBuilder::default().max_num_threads(1).expected_num_keys(members.len());
                Sharded::try_par_new_with_builder(members, builder, no_logging![])
            },
            |filter| filter.mem_size(SizeFlags::default()),
            |filter, key| filter.contains(key),
        ),
        batching(
            "pleat Ribbon",
            |members| Ok(pleat::filter::Ribbon::<8>::from_keys_pleated(members)),
            pleat::filter::Ribbon::<8>::size_bytes,
            |filter, key| filter.contains(key),
            |filter, keys, out| filter.contains_batch(keys, out),
        ),
        batching(
            "pleat StdRibbon",
            |members| {
                let filter = pleat::filter::StdRibbon::<8>::from_keys_pleated(members);
                filter.map_err(|error| anyhow!("{error:?}"))
            },
            pleat::filter::StdRibbon::<8>::size_bytes,
            |filter, key| filter.contains(key),
            |filter, keys, out| filter.contains_batch(keys, out),
        ),
    ]
}
