//! On a server with the module, whose address is in TAMIS_REDIS_URL: `cargo xtask test redis` sets it.

use tamis::{AnyFilter, Keyed, Kind};
use tamis_redis_client::{ShardedFilter, pull, push};

fn connect() -> Option<redis::Connection> {
    let Ok(url) = std::env::var("TAMIS_REDIS_URL") else {
        println!("NOT TESTED: TAMIS_REDIS_URL is not set");
        return None;
    };
    Some(redis::Client::open(url).unwrap().get_connection().unwrap())
}

#[test]
fn one_filter_over_many_slots() {
    let Some(mut connection) = connect() else { return };
    let items: Vec<String> = (0..3000).map(|number| format!("item {number}")).collect();
    let seen = ShardedFilter::new("rust seen", 16);
    assert!(seen.add(&mut connection, &items).unwrap().iter().filter(|new| **new).count() > 2900);
    assert!(!seen.contains(&mut connection, &items).unwrap().contains(&false));
    assert_eq!(seen.remove(&mut connection, &items[..5]).unwrap(), [true; 5]);
    let fixed = ShardedFilter::new("rust fixed", 16);
    fixed.reserve(&mut connection, Kind::Cuckoo, 3000, 0.01).unwrap();
    fixed.add(&mut connection, &items).unwrap();
    assert!(!fixed.contains(&mut connection, &items).unwrap().contains(&false));
    assert!(fixed.reserve(&mut connection, Kind::Cuckoo, 3000, 0.01).is_err());
    // The shards of the Python helper.
    assert_eq!(ShardedFilter::new("x", 64).shard(b"123456789"), 0xCBF4_3926_u32 >> 26);
}

#[test]
fn a_filter_goes_and_returns() {
    let Some(mut connection) = connect() else { return };
    let words = Keyed::<AnyFilter>::builder(Kind::Ribbon).fpr(0.001).build(0..300_000u64).unwrap();
    push(&mut connection, "rust words", &words).unwrap();
    assert_eq!(pull(&mut connection, "rust words").unwrap(), words);
    let fewer = Keyed::<AnyFilter>::builder(Kind::Bloom).build(["apple"]).unwrap();
    push(&mut connection, "rust words", &fewer).unwrap();
    assert_eq!(pull(&mut connection, "rust words").unwrap(), fewer);
    assert!(pull(&mut connection, "rust none").is_err());
    redis::cmd("SET").arg("rust text").arg(1).exec(&mut connection).unwrap();
    assert!(pull(&mut connection, "rust text").is_err());
}
