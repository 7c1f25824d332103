use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;

use super::*;

fn is_shared_by_threads<T: Send + Sync>() {}

#[test]
fn threads_can_share_every_form() {
    is_shared_by_threads::<Shared<Keyed<Bloom>>>();
    is_shared_by_threads::<Shared<Keyed<Cuckoo>>>();
    is_shared_by_threads::<Shared<Keyed<Sliding>>>();
}

/// Lets 8 threads insert and query their own keys, and checks that all keys are members afterwards.
fn stress<G>(keys: u64)
where
    G: Registered,
    Keyed<G>: Share<Filter = G, Storage: InsertStorage>,
{
    const THREADS: u64 = 8;
    let shared = Shared::<Keyed<G>>::with_capacity(keys, 0.01).unwrap();
    let (start, each) = (Barrier::new(THREADS as usize), keys / THREADS);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (shared, start) = (&shared, &start);
            scope.spawn(move || {
                start.wait();
                let own: Vec<u64> = (thread * each..(thread + 1) * each).collect();
                let (single, batch) = own.split_at(own.len() / 2);
                for key in single {
                    shared.insert(key).unwrap();
                    assert!(shared.contains(key), "{key} is denied");
                }
                shared.insert_batch(batch).unwrap();
                assert!(shared.contains_batch(&own).iter().all(|found| *found));
            });
        }
    });
    let all: Vec<u64> = (0..THREADS * each).collect();
    assert!(shared.contains_batch(&all).iter().all(|found| *found));
    // A table that takes two keys for one counts only one.
    assert!(shared.len() <= keys && shared.len() > keys * 9 / 10, "{} keys", shared.len());
    let strangers: Vec<u64> = (1 << 40..(1 << 40) + 20_000).collect();
    let found = shared.contains_batch(&strangers).iter().filter(|found| **found).count();
    assert!(found < 300, "{found} of 20 000 non-members at 1 %");
    assert_eq!(shared.key_forms(), KeyForms::INTEGERS);
    // Through bytes.
    let again = Shared::<Keyed<G>>::from_shards(shared.shards().unwrap()).unwrap();
    assert!(again.contains_batch(&all).iter().all(|found| *found));
    assert_eq!((again.len(), again.shard_count()), (shared.len(), shared.shard_count()));
}

#[test]
fn eight_threads_insert() {
    stress::<Bloom>(40_000);
    stress::<SplitBlockBloom>(40_000);
    stress::<BloomG>(40_000);
    stress::<Cuckoo>(300_000);
    stress::<CountingQuotient>(40_000);
    stress::<Morton>(40_000);
    stress::<TinySet>(40_000);
    stress::<Broom>(40_000);
    stress::<Growing>(40_000);
    stress::<SpectralBloom>(40_000);
}

/// Each thread inserts and removes its own keys, while one set of keys stays.
fn stress_removal<G: Registered + Remove + Send + Sync>()
where
    Keyed<G>: Share<Filter = G, Storage = Sharded<G>>,
{
    let shared = Shared::<Keyed<G>>::with_capacity(40_000, 0.01).unwrap();
    assert!(shared.shard_count() > 1);
    let stay: Vec<u64> = (0..10_000).collect();
    shared.insert_batch(&stay).unwrap();
    std::thread::scope(|scope| {
        for thread in 1..=8u64 {
            let (shared, stay) = (&shared, &stay);
            scope.spawn(move || {
                for round in 0..4 {
                    let from = thread << 32 | round << 16;
                    let own: Vec<u64> = (from..from + 2000).collect();
                    shared.insert_batch(&own).unwrap();
                    assert!(shared.contains_batch(&own).iter().all(|found| *found));
                    assert!(shared.remove(&own[0]).unwrap());
                    assert!(shared.remove_batch(&own[1..]).unwrap().iter().all(|removed| *removed));
                    assert!(shared.contains_batch(stay).iter().all(|found| *found));
                }
            });
        }
    });
    assert_eq!(shared.len(), 10_000);
    assert!(shared.contains_batch(&stay).iter().all(|found| *found));
}

#[test]
fn eight_threads_remove_their_own_keys() {
    stress_removal::<Cuckoo>();
    stress_removal::<Quotient>();
    stress_removal::<CountingBloom>();
    stress_removal::<RemovableTinySet>();
}

#[test]
fn threads_count_together() {
    let shared = Shared::<Keyed<CountingQuotient>>::with_capacity(50_000, 0.001).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000u64).for_each(|key| shared.insert(&key).unwrap()));
        }
    });
    let keys: Vec<u64> = (0..1000).collect();
    let counts = shared.count_batch(&keys).unwrap();
    assert!(counts.iter().all(|count| *count >= 4));
    assert!(counts.iter().filter(|count| **count == 4).count() > 900);
    assert_eq!(shared.count(&7u64).unwrap(), counts[7]);
}

#[test]
fn one_thread_is_told_that_a_key_is_new() {
    let shared = Shared::<Keyed<Cuckoo>>::with_capacity(40_000, 0.0001).unwrap();
    let keys: Vec<u64> = (0..4000).collect();
    let start = Barrier::new(4);
    let told = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let (shared, keys, start) = (&shared, &keys, &start);
                scope.spawn(move || {
                    start.wait();
                    if thread % 2 == 0 {
                        return shared.insert_new_batch(keys).unwrap();
                    }
                    keys.iter().map(|key| shared.insert_new(key).unwrap()).collect()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<Vec<bool>>>()
    });
    let times: Vec<usize> =
        (0..keys.len()).map(|key| told.iter().filter(|told| told[key]).count()).collect();
    assert!(times.iter().all(|times| *times <= 1));
    assert!(times.iter().filter(|times| **times == 1).count() > 3990);
    let lock_free = Shared::<Keyed<Bloom>>::with_capacity(1000, 0.01).unwrap();
    assert_eq!(lock_free.insert_new_batch(&["a", "b", "a"]).unwrap(), [true, true, false]);
    assert!(!lock_free.insert_new("b").unwrap());
}

/// Threads without locks set the bits that one thread would have set.
#[test]
fn many_threads_make_the_bytes_of_one() {
    fn check<G>()
    where
        G: Registered + crate::Insert,
        Keyed<G>: Share<Filter = G, Storage: InsertStorage>,
    {
        let keys: Vec<u64> = (0..10_000).collect();
        let mut plain = Keyed::<G>::with_capacity(10_000, 0.01).unwrap();
        let shared = Shared::from(plain.clone());
        plain.insert_batch(&keys).unwrap();
        std::thread::scope(|scope| {
            for part in keys.chunks(2500) {
                let shared = &shared;
                scope.spawn(move || shared.insert_batch(part).unwrap());
            }
        });
        assert_eq!(shared.shards().unwrap(), [plain.to_bytes().unwrap()]);
        assert!(shared.into_inner().unwrap() == plain);
    }
    check::<Bloom>();
    check::<SplitBlockBloom>();
}

/// Duplicates never fill the filter, and 8 threads at the limit pass it by no more than a key each.
#[test]
fn the_limit_without_locks() {
    fn check<G>()
    where
        G: Registered + crate::Insert + crate::SetOps,
        Keyed<G>: Share<Filter = G, Storage: InsertStorage>,
    {
        let plain = Keyed::<G>::builder().seed([1, 2]).capacity(1000).empty().unwrap();
        let shared = Shared::from(plain.clone());
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    (0..20_000u64).for_each(|row| shared.insert(&(row % 1000)).unwrap());
                });
            }
        });
        assert!((900..=1000).contains(&shared.len()), "{} keys", shared.len());
        let shared = Shared::from(plain.clone());
        std::thread::scope(|scope| {
            for thread in 1..=8u64 {
                let shared = &shared;
                scope.spawn(move || {
                    let full = |key: &u64| shared.insert(&(thread << 32 | key)).is_err();
                    assert!((0..1200).any(|key| full(&key)), "never full");
                });
            }
        });
        assert_eq!(shared.len(), 1000);
        let cardinality = shared.into_inner().unwrap().cardinality();
        assert!((960.0..1070.0).contains(&cardinality), "{cardinality} keys");
    }
    check::<Bloom>();
    check::<SplitBlockBloom>();
}

/// Bytes that are taken while threads insert are valid, and hold every key inserted before.
#[test]
fn bytes_are_valid_while_threads_insert() {
    let shared = Shared::<Keyed<SplitBlockBloom>>::with_capacity(200_000, 0.01).unwrap();
    let before: Vec<u64> = (0..1000).collect();
    shared.insert_batch(&before).unwrap();
    std::thread::scope(|scope| {
        let writer =
            scope.spawn(|| (1000..100_000u64).for_each(|key| shared.insert(&key).unwrap()));
        while !writer.is_finished() {
            let copy = Shared::<Keyed<SplitBlockBloom>>::from_shards(shared.shards().unwrap());
            assert!(copy.unwrap().contains_batch(&before).iter().all(|found| *found));
        }
    });
}

#[test]
fn a_full_batch_states_the_first_key_that_did_not_fit() {
    let builder = Keyed::<Cuckoo>::builder().seed([3, 4]).fpr(0.01);
    let shared = Shared::with_shards(8, 2000, builder).unwrap();
    let keys: Vec<u64> = (0..20_000).collect();
    let Err(Error::Full { inserted }) = shared.insert_batch(&keys) else { panic!("never full") };
    assert!((2000..8000).contains(&inserted), "{inserted} keys");
    assert!(shared.contains_batch(&keys[..inserted as usize]).iter().all(|found| *found));
    assert!(matches!(shared.insert(&keys[inserted as usize]), Err(Error::Full { inserted: 0 })));
}

#[test]
fn a_poisoned_shard_denies_nothing() {
    let shared = Shared::<Keyed<CountingBloom>>::with_capacity(40_000, 0.01).unwrap();
    let keys: Vec<u64> = (0..10_000).collect();
    shared.insert_batch(&keys).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        shared.storage.write(0, |_| panic!("in the middle of a change"))
    }));
    assert!(panicked.is_err());
    assert!(shared.contains_batch(&keys).iter().all(|found| *found));
    let poisoned: Vec<u64> =
        keys.iter().copied().filter(|key| shared.remove(key).is_err()).collect();
    assert!(!poisoned.is_empty() && poisoned.len() < keys.len() / 4);
    for key in &poisoned {
        assert!(shared.contains(key));
        assert!(matches!(shared.insert(key), Err(Error::Poisoned)));
        assert!(matches!(shared.insert_new(key), Err(Error::Poisoned)));
        assert!(matches!(shared.count(key), Err(Error::Poisoned)));
    }
    assert!(matches!(shared.insert_batch(&keys), Err(Error::Poisoned)));
    assert!(matches!(shared.shards(), Err(Error::Poisoned)));
    // Other shards work, and non-members of the poisoned one are reported as members.
    let strangers: Vec<u64> = (1 << 40..(1 << 40) + 10_000).collect();
    let found = shared.contains_batch(&strangers).iter().filter(|found| **found).count();
    assert!(found < 10_000 / 4);
    assert!(!shared.is_empty() && shared.into_inner().is_err());
    // One shard.
    let shared = Shared::from(Keyed::<Cuckoo>::with_capacity(100, 0.01).unwrap());
    let _ = catch_unwind(AssertUnwindSafe(|| shared.storage.write(0, |_| panic!("again"))));
    assert!(shared.contains("anything") && shared.into_inner().is_err());
}

#[test]
fn shards_that_do_not_belong_together_are_refused() {
    type Filter = Shared<Keyed<Quotient>>;
    let make = |seed, shards, keys| {
        let builder = Keyed::<Quotient>::builder().fpr(0.01).seed([seed, 1]);
        let shared = Filter::with_shards(shards, keys, builder).unwrap();
        shared.insert("apple").unwrap();
        shared.shards().unwrap()
    };
    let shards = make(1, 4, 4000);
    assert!(Filter::from_shards(&shards).unwrap().contains("apple"));
    assert!(matches!(Filter::from_shards(&shards[..3]), Err(Error::Infeasible { .. })));
    assert!(matches!(Filter::from_shards([[0u8; 0]; 0]), Err(Error::Missing { .. })));
    assert!(matches!(Filter::from_shards([[0u8; 9]]), Err(Error::File(_))));
    let mixed = |other: Vec<Vec<u8>>| Filter::from_shards([&shards[0], &other[1]]);
    assert!(matches!(mixed(make(2, 4, 4000)), Err(Error::Mismatch { what: "hash or seed" })));
    assert!(matches!(mixed(make(1, 4, 9000)), Err(Error::Mismatch { what: "shape" })));
    let bloom = Keyed::<Bloom>::with_capacity(100, 0.01).unwrap().to_bytes().unwrap();
    assert!(Shared::<Keyed<Bloom>>::from_shards([&bloom, &bloom]).is_err());
    assert!(Shared::<Keyed<Bloom>>::from_shards([&bloom]).is_ok());
    let builder = || Keyed::<Quotient>::builder();
    for shards in [0, 3, 2048] {
        let refused = Filter::with_shards(shards, 1000, builder());
        assert!(matches!(refused, Err(Error::Infeasible { .. })));
    }
    assert!(Filter::with_shards(4, u64::MAX, builder()).is_err());
    assert_eq!(Filter::with_shards(4, 0, builder()).unwrap().len(), 0);
}

#[test]
fn one_shard_is_the_plain_filter() {
    let mut plain = Keyed::<Cuckoo>::with_capacity(1000, 0.01).unwrap();
    plain.insert("apple").unwrap();
    let shared = Shared::from(plain.clone());
    assert_eq!(shared.shards().unwrap(), [plain.to_bytes().unwrap()]);
    assert!(shared.into_inner().unwrap() == plain);
    assert_eq!(Shared::<Keyed<Cuckoo>>::with_capacity(1000, 0.01).unwrap().shard_count(), 1);
    let many = Shared::<Keyed<Cuckoo>>::with_capacity(1_000_000, 0.01).unwrap();
    assert_eq!(many.shard_count(), 64);
    assert_eq!(many.into_inner().unwrap_err().shard_count(), 64);
}

/// A key in the window is reported, however often another key is pushed.
#[test]
fn a_window_is_not_divided() {
    let recent = Shared::<Keyed<Sliding>>::with_capacity(100_000, 0.01).unwrap();
    assert_eq!(recent.shard_count(), 1);
    let keys: Vec<u64> = (0..20_000).collect();
    recent.push_batch(&keys).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..15_000).for_each(|_| assert!(recent.push(&7u64).unwrap())));
        }
    });
    assert!(recent.contains_batch(&keys).iter().all(|found| *found));
    recent.advance(1).unwrap();
    assert!(!recent.into_inner().unwrap().is_empty());
}

#[test]
fn shards_have_room_for_their_share() {
    assert_eq!(shard_capacity(1000, 1), 1000);
    assert_eq!(shard_capacity(0, 64), 0);
    assert_eq!(shard_capacity(64_000_000, 64), 1_000_000 + 5953);
    assert_eq!(shard_capacity(64, 64), 7);
}
