use super::*;
use crate::range::mix;
use std::collections::HashSet;

fn go_on() -> Result<(), OutOfMemory> {
    Ok(())
}

fn records<const W: usize>(salt: u64, len: u64) -> Vec<[u64; W]> {
    let mut all: Vec<[u64; W]> =
        (0..len).map(|i| std::array::from_fn(|w| mix(salt << 40 | i << 2 | w as u64))).collect();
    all.sort_unstable();
    all
}

fn fuses() -> impl Iterator<Item = (Fuse<3>, Fuse<4>)> {
    (1..=20).flat_map(|segment| {
        let least = Fuse::<4>::least(segment);
        [least, least + 1, least * 2 - 1, least * 3, least * 40].map(move |cells| {
            let skip = segment % 7;
            let three = Fuse::new(cells, segment, skip).unwrap();
            (three, Fuse::new(cells, segment, skip).unwrap())
        })
    })
}

fn edges_are_sound<const K: usize>(graph: &impl Graph<K>, skip: u32, ascends: bool) {
    let digests = (0..2000).map(mix).chain([0, 1, 2, u64::MAX, u64::MAX - 1, 1 << 63]);
    let mut digests: Vec<u64> = digests.map(|digest| digest >> skip).collect();
    digests.sort_unstable();
    let extremes = [0, 1, u64::MAX, u32::MAX.into(), 1 << 32];
    for multiplier in (0..4).map(multiplier).chain(extremes) {
        let edges = digests.iter().map(|digest| graph.edge(multiplier, *digest));
        let firsts: Vec<usize> = edges.clone().map(|edge| edge.cells[0]).collect();
        assert!(firsts.is_sorted() || !ascends);
        assert!(edges.clone().flat_map(|edge| edge.cells).all(|cell| cell < graph.cells()));
        for (digest, edge) in digests.iter().zip(edges) {
            let of_forms = [
                graph.edge_of::<0>(multiplier, *digest),
                graph.edge_of::<1>(multiplier, *digest),
                graph.edge_of::<2>(multiplier, *digest),
            ];
            assert_eq!(of_forms[usize::from(graph.form())], edge);
            assert!(of_forms.iter().flat_map(|edge| edge.cells).all(|cell| cell < graph.cells()));
        }
    }
}

#[test]
fn cells_are_in_range_and_first_ones_ascend() {
    for (three, four) in fuses() {
        edges_are_sound(&three, three.shard_bits, !three.is_small);
        edges_are_sound(&four, four.shard_bits, !four.is_small);
    }
    for block in [1, 2, 3, 100, 1 << 20, (1 << 30) + 7] {
        edges_are_sound(&Blocks::<3>::new(block, 0).unwrap(), 0, true);
        edges_are_sound(&Blocks::<3>::new(block, 9).unwrap(), 9, true);
    }
}

#[test]
fn absurd_graphs_are_refused() {
    for segment in [0, 21, 63, 64, u32::MAX] {
        assert_eq!(Fuse::<3>::new(1 << 30, segment, 0), None);
    }
    for cells in [0, 1, Fuse::<3>::least(10) - 1, 1 << 32, u64::MAX] {
        assert_eq!(Fuse::<3>::new(cells, 10, 0), None);
    }
    assert_eq!(Fuse::<3>::new(1 << 30, 10, 64), None);
    for block in [0, 1 << 31, u64::MAX] {
        assert_eq!(Blocks::<3>::new(block, 0), None);
    }
}

/// The cells of digests in a large graph are those of the definition, computed in 128 bits.
#[test]
fn large_graphs_select_cells_by_one_product() {
    for (cells, segment, shard_bits) in [(1 << 16, 9, 0), (200_003, 12, 0), (70_000, 10, 5)] {
        let graph = Fuse::<4>::new(cells, segment, shard_bits).unwrap();
        let (places, size) = (cells - (1 << segment), 1u128 << segment);
        for number in 0..200u64 {
            let (multiplier, digest) = (multiplier(number % 7), mix(number));
            let factor = u128::from(places << 32) - u128::from(multiplier % (1 << 32));
            let product = u128::from(digest.rotate_left(shard_bits)) * factor;
            let first = product >> 96;
            let fold = |at: u128| at.min(2 * u128::from(cells) - 1 - at);
            let expected = [
                first,
                fold(first + 1 + (product >> 44) % size),
                fold(first + 1 + size + (product >> 24) % size),
                fold(first + 1 + 2 * size + (product >> 64) % size),
            ];
            let found = graph.edge(multiplier, digest).cells.map(|cell| cell as u128);
            assert_eq!(found, expected, "{cells} cells, number {number}");
        }
    }
}

/// Cells other than the first are spread evenly, and rarely equal, in a small and in a large graph.
#[test]
fn cells_are_spread_evenly() {
    for scale in [1usize, 16] {
        let (all, digests) = (6000 * scale, 1_000_000 * scale as u64);
        let graph = Fuse::<3>::new(all as u64, 9 + scale.ilog2(), 0).unwrap();
        let (mut counts, mut same) = (vec![0u32; all], 0);
        for i in 0..digests {
            let cells @ [a, b, c] = graph.edge(multiplier(3), mix(i)).cells;
            same += u32::from(a == b || b == c || a == c);
            cells.iter().for_each(|cell| counts[*cell] += 1);
        }
        // 3 · 10^6 over the cells in the middle: six standard deviations.
        let mean = digests as f64 / (all - 384 * scale) as f64;
        let even = |counts: &[u32], mean: f64| {
            counts.iter().all(|n| (f64::from(*n) - mean).abs() < 6.0 * mean.sqrt())
        };
        assert!(even(&counts[1024 * scale..4900 * scale], 3.0 * mean), "the middle");
        let open = &counts[..400 * scale];
        assert!(open.iter().all(|n| f64::from(*n) < 2.2 * mean), "the open end");
        let tail = f64::from(counts[4900 * scale..].iter().sum::<u32>());
        let load = tail / (1100 * scale) as f64 / mean;
        assert!((load - 3.0).abs() < 0.35, "the folded end: {load}");
        assert!(same < 1000, "{same} of a million have a cell twice");
    }
}

/// Checks that every record is peeled or in the core, and that owners come in a valid order.
fn peeling_is_sound<const K: usize, const W: usize>(
    graph: &impl Graph<K>,
    records: &[[u64; W]],
    number: u64,
) -> usize {
    let (mut peeler, multiplier) = (Peeler::new(), multiplier(number));
    let peeled = peeler.peel(graph, multiplier, records, go_on).unwrap();
    let mut owned = HashSet::new();
    let owners: Vec<_> = peeler.owners().collect();
    for (cell, record) in owners.into_iter().rev() {
        let cells = graph.edge(multiplier, record[0]).cells;
        assert_eq!(cells.iter().filter(|other| **other == cell).count(), 1);
        assert!(cells.iter().all(|other| !owned.contains(other)), "owned before");
        owned.insert(cell);
    }
    let mut all: Vec<[u64; W]> = peeler.owners().map(|(_, record)| *record).collect();
    let core: Vec<[u64; W]> = peeler.core(graph, multiplier, records).copied().collect();
    assert!(all.len() == peeled && all.len() + core.len() == records.len());
    for record in &core {
        let cells = graph.edge(multiplier, record[0]).cells;
        assert!(cells.iter().all(|cell| !owned.contains(cell)));
    }
    all.extend(core);
    all.sort_unstable();
    assert!(all == records);
    peeled
}

#[test]
fn every_record_is_peeled_or_in_the_core() {
    let mut peeled_all = 0;
    for (len, cells, segment) in [(100, 160, 4), (100, 100, 4), (1000, 1300, 6), (1000, 900, 6)] {
        for number in 0..40 {
            let three = Fuse::<3>::new(cells, segment, 0).unwrap();
            let four = Fuse::<4>::new(cells, segment, 0).unwrap();
            let blocks = Blocks::<3>::new(cells / 3, 0).unwrap();
            let (one, two) = (records::<1>(number, len), records::<2>(number, len));
            for peeled in [
                peeling_is_sound(&three, &one, number),
                peeling_is_sound(&four, &two, number),
                peeling_is_sound(&blocks, &one, number),
            ] {
                peeled_all += u64::from(peeled as u64 == len);
                assert!(peeled as u64 == len || cells < len * 3 / 2 || len < 1000);
            }
        }
    }
    assert!(peeled_all > 60, "{peeled_all}");
}

/// Uses so many cells that they are cleared and closed in parts.
#[test]
fn every_record_of_many_is_peeled_or_in_the_core() {
    let (one, two) = (records::<1>(5, 150_000), records::<2>(6, 150_000));
    let sizes = [(175_000, 12), (165_000, 12), (120_000, 9), (400_000, 15), (70_000, 14)];
    for (number, (cells, segment)) in (0..).zip(sizes) {
        let three = Fuse::<3>::new(cells, segment, 0).unwrap();
        let four = Fuse::<4>::new(cells, segment, 0).unwrap();
        let peeled = peeling_is_sound(&three, &one, number);
        assert_eq!(peeled == one.len(), cells >= 175_000, "{cells} cells");
        peeling_is_sound(&four, &two, number);
    }
}

/// Checks that the tables of an earlier peeling have no effect.
#[test]
fn a_peeler_is_as_good_as_new() {
    let (small, large) = (records::<1>(7, 20_000), records::<1>(8, 100_000));
    let mut used = Peeler::new();
    for (set, cells) in [(&large, 118_000), (&small, 90_000), (&large, 100_000), (&small, 21_000)] {
        let (graph, multiplier) = (Fuse::<3>::new(cells, 11, 0).unwrap(), multiplier(1));
        let mut new = Peeler::new();
        assert_eq!(
            used.peel(&graph, multiplier, set, go_on),
            new.peel(&graph, multiplier, set, go_on)
        );
        assert!(used.owners().eq(new.owners()));
        let core = |peeler: &Peeler<1>| -> Vec<[u64; 1]> {
            peeler.core(&graph, multiplier, set).copied().collect()
        };
        assert!(core(&used) == core(&new));
    }
}

/// Checks that peeling ends and finds the core for digests that share most of their bits, also
/// where a cell has more than 255 records.
#[test]
fn hostile_digests_end() {
    let sets: [fn(u64) -> u64; 6] =
        [|i| i, |i| i << 54, |i| u64::MAX - i, |i| i << 32, |i| mix(i % 7) ^ i, |i| i << 20];
    for digest in sets {
        let mut set: Vec<[u64; 1]> = (0..1000).map(|i| [digest(i)]).collect();
        set.sort_unstable();
        set.dedup();
        for (cells, segment) in [(1200, 6), (100, 3), (40_000, 10)] {
            peeling_is_sound(&Fuse::<3>::new(cells, segment, 0).unwrap(), &set, 0);
            peeling_is_sound(&Fuse::<4>::new(cells, segment, 10).unwrap(), &set, 1);
            peeling_is_sound(&Blocks::<3>::new(cells / 3, 3).unwrap(), &set, 2);
        }
    }
    let none: [[u64; 2]; 0] = [];
    assert_eq!(peeling_is_sound(&Fuse::<3>::new(7, 2, 0).unwrap(), &none, 0), 0);
}

/// Cells that many records have: of 128 and more, where the first count ends, and beyond 255.
#[test]
fn full_cells_are_never_peeled() {
    for copies in [1, 2, 100, 127, 128, 255, 256, 257, 513, 70_000] {
        let mut records = records::<1>(3, 3000);
        let repeated = records[1000];
        records.splice(1000..1001, vec![repeated; copies]);
        for segment in [7, 9] {
            let graph = Fuse::<3>::new(4200, segment, 0).unwrap();
            let mut peeler = Peeler::new();
            let peeled = peeler.peel(&graph, multiplier(1), &records, go_on).unwrap();
            let owned = peeler.owners().filter(|(_, record)| **record == repeated).count();
            assert_eq!(owned, usize::from(copies == 1), "{copies} copies");
            let left = records.len() - peeled;
            assert_eq!(peeler.core(&graph, multiplier(1), &records).count(), left, "{copies}");
            assert!(left >= copies - usize::from(copies == 1) && left < copies + 10, "{left}");
        }
    }
}

/// Checks the success rates near the number of cells that the documentation states.
#[test]
fn fewer_cells_are_enough() {
    let share = |cells: u64, segment, len: u64| {
        let graph = Fuse::<3>::new(cells, segment, 0).unwrap();
        let mut peeler = Peeler::<1>::new();
        let done = (0..20).filter(|number| {
            let records = records(number + 99, len);
            peeler.peel(&graph, multiplier(*number), &records, go_on) == Ok(records.len())
        });
        done.count()
    };
    assert!(share(12_000, 9, 10_000) > 12);
    assert!(share(11_000, 9, 10_000) < 3);
}

/// The order within a run has no effect, and of two equal records neither is peeled.
#[test]
fn order_within_runs_has_no_effect() {
    let sorted = records::<1>(11, 150_000);
    let graph = Fuse::<3>::new(172_000, 12, 0).unwrap();
    let (shift, multiplier) = (64 - graph.order_bits(), multiplier(0));
    let mut mixed = sorted.clone();
    mixed.sort_by_key(|[digest]| (digest >> shift, mix(*digest)));
    assert!(mixed != sorted && shift < 64);
    let [mut one, mut other] = [Peeler::new(), Peeler::new()];
    assert_eq!(one.peel(&graph, multiplier, &sorted, go_on), Ok(sorted.len()));
    assert_eq!(other.peel(&graph, multiplier, &mixed, go_on), Ok(sorted.len()));
    assert!(one.owners().eq(other.owners()));
    mixed.insert(70_000, mixed[70_000]);
    assert_eq!(one.peel(&graph, multiplier, &mixed, go_on), Ok(sorted.len() - 1));
}

/// Checks come at least every 2^16 steps, and an error of one ends the peeling at once.
#[test]
fn a_check_ends_the_peeling() {
    fn stops<const K: usize>(graph: &impl Graph<K>, records: &[[u64; 1]]) {
        let count = |most: usize| {
            let (mut peeler, mut checks) = (Peeler::new(), 0);
            let check = || {
                checks += 1;
                if checks > most { Err(OutOfMemory { bytes: 7 }) } else { Ok(()) }
            };
            (peeler.peel(graph, multiplier(0), records, check), checks)
        };
        let (peeled, checks) = count(usize::MAX);
        assert!(peeled == Ok(records.len()) && checks > records.len() / CHECKED);
        for most in [0, 1, checks / 2, checks - 1] {
            assert_eq!(count(most), (Err(OutOfMemory { bytes: 7 }), most + 1));
        }
    }
    let records = records::<1>(12, 300_000);
    stops(&Fuse::<3>::new(345_000, 12, 0).unwrap(), &records);
    stops(&Blocks::<3>::new(125_000, 0).unwrap(), &records);
}

/// Fills a table of every form, and compares it with the graph's edges.
#[test]
fn tables_agree_with_the_edges() {
    fn agrees<const K: usize>(cells: u64, segment: u32, shard_bits: u32, len: u64, width: u32) {
        let graph = Fuse::<K>::new(cells, segment, shard_bits).unwrap();
        let all = records::<1>(13, len);
        let part = packed::words(cells, width).unwrap() as usize;
        let shards = 1 << shard_bits;
        let mut words = Words::zeroed(part * shards + 1).unwrap();
        let mut seeds = Words::zeroed(shards).unwrap();
        let shard = |digest: u64| (digest >> 1 >> (63 - shard_bits)) as usize;
        for number in 0..shards {
            let own: Vec<_> = all.iter().copied().filter(|[d]| shard(*d) == number).collect();
            let mut peeler = Peeler::new();
            let mut peels = |seed: &u64| peeler.peel(&graph, *seed, &own, go_on) == Ok(own.len());
            let seed = (0..200).map(multiplier).find(|seed| peels(seed)).expect("a seed");
            let part = &mut words.to_mut()[number * part..][..part];
            peeler.fill(&graph, seed, width, part, go_on).unwrap();
            seeds.to_mut()[number] = seed;
        }
        let none = || Words::zeroed(0).unwrap();
        let make =
            |words, listed, len| FuseTable::new(graph, width, words, seeds.clone(), listed, len);
        let table = make(words.clone(), none(), len).unwrap();
        let holds = |digest: u64| {
            let edge = graph.edge(seeds[shard(digest)], digest);
            let base = (shard(digest) * part) as u64 * 64;
            let get =
                |cell: usize| packed::get_at(&words, width, base + cell as u64 * u64::from(width));
            let sum = edge.cells.iter().fold(edge.print, |sum, cell| sum ^ get(*cell));
            sum & packed::mask(width) == 0
        };
        assert!(all.iter().all(|[digest]| table.contains(*digest)));
        let others: Vec<u64> = (0..20_000).map(|i| mix(i << 30)).chain([0, u64::MAX]).collect();
        assert!(others.iter().all(|digest| table.contains(*digest) == holds(*digest)));
        let mut out = vec![true; others.len()];
        table.contains_batch(others.iter().copied(), &mut out);
        assert!(others.iter().zip(&out).all(|(digest, out)| *out == holds(*digest)));

        let listed = Words::copy_of(&[others[5], others[5] + 1]).unwrap();
        let listing = make(words.clone(), listed, len).unwrap();
        assert!(listing.contains(others[5]) && listing.contains(others[5] + 1));
        assert!(others.iter().all(|d| listing.contains(*d) == (holds(*d) || *d == others[5])));
        assert!(!make(words.clone(), none(), 0).unwrap().contains(all[0][0]));
        let short = Words::zeroed(part * shards - 1).unwrap();
        assert_eq!(make(short, none(), len), None);
    }
    for width in [1, 3, 7, 8, 9, 12, 16, 25, 31, 32] {
        agrees::<3>(700, 6, 0, 500, width);
        agrees::<4>(700, 5, 0, 500, width);
        agrees::<3>(70_000, 10, 0, 58_000, width);
        agrees::<3>(9000, 8, 3, 55_000, width);
        agrees::<4>(9000, 7, 3, 55_000, width);
    }
    for (width, cells) in [(8, 600_000), (16, 300_000), (5, 900_000)] {
        agrees::<3>(cells, 13, 0, cells * 4 / 5, width);
        agrees::<4>(cells / 4, 10, 2, cells * 4 / 5, width);
    }
    let graph = Fuse::<3>::new(700, 6, 0).unwrap();
    let words = |len| Words::zeroed(len).unwrap();
    for (width, seeds) in [(0, 1), (33, 1), (8, 0), (8, 2)] {
        assert_eq!(FuseTable::new(graph, width, words(999), words(seeds), words(0), 1), None);
    }
}

/// An attempt that ends early is one that does not peel all records.
#[test]
fn attempts_end_early_only_if_they_fail() {
    let (mut peeler, mut failed) = (Peeler::<1>::new(), 0);
    for salt in 0..30 {
        let records = records(salt, 80_000);
        // Some peel all records at 1.145 cells for each of them.
        let graph = Fuse::<3>::new(91_200 + 100 * (salt % 10), 11, 0).unwrap();
        let multiplier = multiplier(salt);
        let all = peeler.peel(&graph, multiplier, &records, go_on).unwrap() == records.len();
        assert_eq!(peeler.peel_all(&graph, multiplier, &records, go_on), Ok(all));
        failed += u32::from(!all);
    }
    assert!((3..27).contains(&failed), "{failed} of 30");
}
