//! What users expect of every type: it can be sent, shared, cloned and printed.

use std::fmt::Debug;

use tamis::{AnyFilter, Bloom, BuildOptions, Builder, Cuckoo, Error, Full, Keyed, Ribbon};

fn sent<T: Send + Sync + 'static>() {}

fn plain<T: Send + Sync + Clone + Debug + 'static>() {
    sent::<T>();
}

macro_rules! check_filters {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        $(
            plain::<tamis::$type>();
            plain::<Keyed<tamis::$type>>();
        )*
    };
}

#[test]
fn filters_are_sent_shared_cloned_and_printed() {
    tamis::registry!(check_filters);
    plain::<AnyFilter>();
    plain::<Keyed<AnyFilter>>();
    plain::<Builder<'static, Ribbon>>();
    plain::<Builder<'static, AnyFilter>>();
    plain::<BuildOptions<'static>>();
}

#[test]
fn errors_cross_threads() {
    sent::<Error>();
    plain::<Full>();
    let boxed: Box<dyn std::error::Error + Send + Sync> = Error::from(full()).into();
    assert!(boxed.is::<Error>());
}

#[test]
fn question_mark_turns_full_into_error() {
    fn fill() -> Result<(), Error> {
        let mut seen = Keyed::<Cuckoo>::with_capacity(10, 0.01)?;
        for key in 0..10_000u64 {
            seen.insert(&key)?;
        }
        Ok(())
    }
    assert!(matches!(fill(), Err(Error::Full { inserted: 0 })));
}

fn full() -> Full {
    let mut seen = Keyed::<Bloom>::with_capacity(10, 0.01).expect("a small filter");
    let keys: Vec<u64> = (0..10_000).collect();
    seen.insert_batch(&keys).expect_err("1000 times the capacity")
}
