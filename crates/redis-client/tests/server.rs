//! On an empty server or cluster with the module, whose address is in TAMIS_REDIS_URL.
//!
//! `cargo xtask test redis` runs these tests on a single server and on a cluster of three nodes, of Redis and
//! of Valkey.

use std::thread;

use redis::cmd;
use tamis::{AnyFilter, Keyed, Kind};
use tamis_redis_client::{Connection, Error, ShardedFilter, pull, push};

fn url() -> Option<String> {
    let url = std::env::var("TAMIS_REDIS_URL").ok();
    if url.is_none() {
        println!("NOT TESTED: TAMIS_REDIS_URL is not set");
    }
    url
}

fn items(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| format!("item {number}")).collect()
}

#[test]
fn one_filter_over_many_slots() {
    let Some(url) = url() else { return };
    let mut connection = Connection::open(&url).unwrap();
    let (items, strangers) = (items(0..3000), items(5000..8000));
    let seen = ShardedFilter::new("rust seen", 16);
    let new = seen.add(&mut connection, &items).unwrap();
    assert!(new.iter().filter(|new| **new).count() > 2900);
    assert!(!seen.contains(&mut connection, &items).unwrap().contains(&false));
    let found = seen.contains(&mut connection, &strangers).unwrap();
    assert!(found.iter().filter(|found| **found).count() < 150);
    assert_eq!(seen.remove(&mut connection, &items[..5]).unwrap(), [true; 5]);
    assert!(seen.add::<&str>(&mut connection, &[]).unwrap().is_empty());

    let fixed = ShardedFilter::new("rust fixed", 16);
    fixed.reserve(&mut connection, Kind::Cuckoo, 3000, 0.01).unwrap();
    fixed.add(&mut connection, &items).unwrap();
    assert!(!fixed.contains(&mut connection, &items).unwrap().contains(&false));
    let exists = fixed.reserve(&mut connection, Kind::Cuckoo, 3000, 0.01).unwrap_err();
    assert_eq!(exists.to_string(), "item exists");
    let full = (0..9).find_map(|_| fixed.add(&mut connection, &items).err());
    assert_eq!(full.unwrap().to_string(), "the filter is full");
    fixed.delete(&mut connection).unwrap();
    assert!(!fixed.contains(&mut connection, &items).unwrap().contains(&true));
}

#[test]
fn a_filter_goes_and_returns() {
    let Some(url) = url() else { return };
    let mut connection = Connection::open(&url).unwrap();
    // Several chunks.
    let words = Keyed::<AnyFilter>::builder(Kind::Bloom).fpr(1e-6).build(0..700_000u64).unwrap();
    let mut calls = Vec::new();
    push(&mut connection, "rust words", &words, |done, total| calls.push((done, total))).unwrap();
    let total = words.serialized_len();
    assert!(calls.len() > 2 && calls.is_sorted() && calls.last() == Some(&(total, total)));
    assert_eq!(pull(&mut connection, "rust words", |_, _| ()).unwrap(), words);
    // Another filter takes its place, also in the place of another type.
    let fewer = Keyed::<AnyFilter>::builder(Kind::Ribbon).build(["apple"]).unwrap();
    push(&mut connection, "rust words", &fewer, |_, _| ()).unwrap();
    assert_eq!(pull(&mut connection, "rust words", |_, _| ()).unwrap(), fewer);
    let missing = pull(&mut connection, "rust none", |_, _| ()).unwrap_err();
    assert_eq!(missing.to_string(), "not found");
}

#[test]
fn shards_go_and_return() {
    let Some(url) = url() else { return };
    let mut connection = Connection::open(&url).unwrap();
    let (items, sharded) = (items(0..4000), ShardedFilter::new("rust shards", 5));
    let of_shard = |shard: u32| {
        let items = items.iter().filter(|item| sharded.shard(item.as_bytes()) == shard);
        Keyed::<AnyFilter>::builder(Kind::BinaryFuse).build(items).unwrap()
    };
    let filters: Vec<_> = (0..5).map(of_shard).collect();
    let mut last = (0, 0);
    sharded.push(&mut connection, &filters, |done, total| last = (done, total)).unwrap();
    assert!(last.0 == last.1 && last.0 > 0);
    assert!(!sharded.contains(&mut connection, &items).unwrap().contains(&false));
    for (shard, filter) in (0..).zip(&filters) {
        let key = sharded.key(shard);
        assert_eq!(pull(&mut connection, &key, |_, _| ()).unwrap(), *filter);
    }
}

/// A filter that changes between the chunks fails its checksum; the server copies it then.
#[test]
fn a_filter_that_changes_is_copied() {
    let Some(url) = url() else { return };
    let key = "rust changing";
    let mut connection = Connection::open(&url).unwrap();
    let sharded = ShardedFilter::new(key, 1);
    sharded.reserve(&mut connection, Kind::Bloom, 4_000_000, 0.001).unwrap();
    let members = items(0..1000);
    sharded.add(&mut connection, &members).unwrap();
    let mut other = Connection::open(&url).unwrap();
    let mut chunk = 0;
    let pulled = pull(&mut connection, &sharded.key(0), |_, _| {
        chunk += 1;
        let more = [format!("more {chunk}")];
        sharded.add(&mut other, &more).unwrap();
    });
    let pulled = pulled.unwrap();
    assert!(members.iter().all(|member| pulled.contains(member)));
    assert!(chunk > 8, "it was read twice");
}

#[test]
fn concurrent_pushes_leave_one_of_the_filters() {
    let Some(url) = url() else { return };
    let build = |key: &str| {
        Keyed::<AnyFilter>::builder(Kind::Bloom).fpr(1e-6).capacity(500_000).build([key]).unwrap()
    };
    let filters = ["apple", "pear"].map(build);
    thread::scope(|scope| {
        for filter in &filters {
            scope.spawn(|| {
                let mut connection = Connection::open(&url).unwrap();
                for _ in 0..3 {
                    push(&mut connection, "rust both", filter, |_, _| ()).unwrap();
                }
            });
        }
    });
    let left = pull(&mut Connection::open(&url).unwrap(), "rust both", |_, _| ()).unwrap();
    assert!(filters.contains(&left));
}

#[test]
fn errors_are_one_line() {
    let Some(url) = url() else { return };
    for bad in ["nonsense", "http://127.0.0.1/", "redis://"] {
        assert!(matches!(Connection::open(bad), Err(Error::Address | Error::Server(_))), "{bad}");
    }
    let mut text = redis::Client::open(url.as_str()).unwrap().get_connection().unwrap();
    let mut connection = Connection::open(&url).unwrap();
    let set: Result<(), _> = cmd("SET").arg("rust text").arg(1).query(&mut text);
    if set.is_ok() {
        // On a cluster this node may not have the slot.
        let wrong = pull(&mut connection, "rust text", |_, _| ()).unwrap_err().to_string();
        assert!(wrong.starts_with("WRONGTYPE ") && wrong.lines().count() == 1, "{wrong}");
    }
    let refused = Connection::open("redis://127.0.0.1:1/").unwrap_err().to_string();
    assert!(refused.contains("refused"), "{refused}");
}
