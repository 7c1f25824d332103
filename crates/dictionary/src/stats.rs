//! Counters and statistics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counters of one shard. Many threads add to them.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// Counters since the dictionary was created. Those of a session that was not closed are lost.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Returns every count with its name.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }

            pub(crate) fn add(&mut self, counters: &Counters) {
                $(self.$name += counters.$name.load(Relaxed);)*
            }

            pub(crate) fn from_words(words: &[u64]) -> Self {
                let mut words = words.iter().copied();
                Self { $($name: words.next().unwrap_or(0),)* }
            }
        }
    };
}

// The order is part of the metadata format: new counters go to the end.
counters! {
    /// Keys looked up.
    lookups,
    /// Lookups that the filter rejected, without an access to the store.
    negatives,
    /// Lookups that passed the filter and were found in the store.
    true_positives,
    /// Lookups that passed the filter and were not found in the store.
    false_positives,
    /// Lookups of absent keys that went to the store because a shard of the filter was not loaded.
    unfiltered,
    /// Keys put.
    puts,
    /// Puts of keys that the filter had rejected, so that they are certainly new.
    puts_new,
    /// Keys deleted.
    deletes,
    /// False positives that the filter now rejects.
    repairs,
    /// Repairs that changed the fingerprints of neighbouring members.
    rehashes,
    /// Repairs that were dropped because of a concurrent write to the shard or a full queue.
    postponed,
    /// Repairs that the filter could not make.
    impossible,
    /// Parts of shards that were swept.
    sweeps,
    /// Shards that were enlarged.
    growths,
    /// Shards that were rebuilt because they were damaged, unsaved or full of keys in doubt.
    rebuilds,
    /// Members that the filter would have rejected. Any value but 0 is a bug.
    missing,
    /// Accesses to the store to find a key.
    reads_lookup,
    /// Accesses to the store to repair a false positive, beyond the lookup itself.
    reads_repair,
    /// Accesses to the store to sweep.
    reads_sweep,
    /// Accesses to the store to load, enlarge or rebuild shards of the filter.
    reads_filter,
    /// Accesses to the store to put and delete. A batch counts once.
    writes,
    /// Entries that were found to be missing from the store.
    lost,
}

pub(crate) fn add(counter: &AtomicU64) {
    add_many(counter, 1);
}

pub(crate) fn add_many(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

/// Counts recent lookups of absent keys and the false positives among them, in the current span of lookups
/// and the previous one.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Lookups in the upper 32 bits, false positives in the lower 32, so that one operation resets both.
    current: AtomicU64,
    previous: AtomicU64,
}

const ONE_LOOKUP: u64 = 1 << 32;

impl Window {
    /// Counts a lookup of an absent key. A span ends after `span` lookups.
    pub(crate) fn add(&self, false_positive: bool, span: u64) {
        let before = self.current.fetch_add(ONE_LOOKUP + u64::from(false_positive), Relaxed);
        // Exactly one thread makes the last lookup of a span, and ends it.
        if before / ONE_LOOKUP + 1 == span {
            self.previous.store(self.current.swap(0, Relaxed), Relaxed);
        }
    }

    /// Returns the lookups of absent keys and the false positives among them.
    pub(crate) fn read(&self) -> (u64, u64) {
        let (current, previous) = (self.current.load(Relaxed), self.previous.load(Relaxed));
        let lookups = current / ONE_LOOKUP + previous / ONE_LOOKUP;
        (lookups, current % ONE_LOOKUP + previous % ONE_LOOKUP)
    }
}

/// The result of [`Dictionary::verify`](crate::Dictionary::verify).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// Keys in the store, without those of damaged entries.
    pub keys: u64,
    /// Entries in the store that are damaged: the checksum of key and value does not match, or the key is not
    /// where its hash belongs.
    pub damaged: u64,
    /// The keys of the first 100 damaged entries, as the store returns them.
    pub damaged_keys: Vec<Vec<u8>>,
    /// Entries that the store has lost since the dictionary was opened, according to the filter. `verify` reports
    /// them once: it rebuilds the shard.
    pub lost: u64,
    /// Keys in the store that the filter rejected. Any value but 0 is a bug; `verify` rebuilds the shard.
    pub missing: u64,
    /// Keys in the filter that the store does not hold, left by failed writes. Each may cause a false
    /// positive, whose repair removes it.
    pub stale: u64,
}

/// The number of damaged keys that an audit lists.
const MAX_DAMAGED_KEYS: usize = 100;

impl Audit {
    pub(crate) fn add_damaged(&mut self, key: Vec<u8>) {
        self.damaged += 1;
        if self.damaged_keys.len() < MAX_DAMAGED_KEYS {
            self.damaged_keys.push(key);
        }
    }

    /// Returns whether the store is undamaged and the filter accepts all of its keys.
    pub fn is_ok(&self) -> bool {
        self.damaged == 0 && self.lost == 0 && self.missing == 0
    }
}

/// The counters and sizes of a dictionary.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Counters of operations and accesses.
    pub counts: Counts,
    /// Keys in the filter. Keys of failed writes may be included.
    pub keys: u64,
    /// Keys that fit before a shard of the filter grows.
    pub capacity: u64,
    /// The size of the filter in bytes, with the saved size of shards that are not loaded.
    pub filter_bytes: u64,
    /// The number of shards.
    pub shards: usize,
    /// The number of shards in memory.
    pub shards_loaded: usize,
    /// The configured false positive rate.
    pub target_fpr: f64,
    /// Recent lookups of absent keys, up to about 130,000.
    pub window_negatives: u64,
    /// False positives among the recent lookups of absent keys.
    pub window_false_positives: u64,
    /// Keys of failed writes for which it is unknown whether the store applied the write.
    pub in_doubt: u64,
}

impl Stats {
    /// Returns the false positive rate of recent lookups, or `None` without any of absent keys.
    pub fn window_fpr(&self) -> Option<f64> {
        ratio(self.window_false_positives, self.window_negatives)
    }

    /// Returns the false positive rate of all lookups, or `None` without any of absent keys.
    pub fn fpr(&self) -> Option<f64> {
        let false_positives = self.counts.false_positives;
        ratio(false_positives, false_positives + self.counts.negatives)
    }

    /// Sends all counts and sizes to the recorder of the crate `metrics`, with the prefix
    /// `tamis_dictionary_`. Call it once per reporting interval.
    #[cfg(feature = "metrics")]
    pub fn publish(&self) {
        for (name, count) in self.counts.named() {
            metrics::counter!(format!("tamis_dictionary_{name}")).absolute(count);
        }
        let gauges = [
            ("keys", self.keys as f64),
            ("capacity", self.capacity as f64),
            ("filter_bytes", self.filter_bytes as f64),
            ("in_doubt", self.in_doubt as f64),
            ("target_fpr", self.target_fpr),
            ("window_fpr", self.window_fpr().unwrap_or(0.0)),
        ];
        for (name, value) in gauges {
            metrics::gauge!(format!("tamis_dictionary_{name}")).set(value);
        }
    }
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_covers_two_spans() {
        let window = Window::default();
        (0..100).for_each(|_| window.add(true, 10));
        assert_eq!(window.read(), (10, 10));
        (0..5).for_each(|_| window.add(false, 10));
        assert_eq!(window.read(), (15, 10));
        (0..15).for_each(|_| window.add(false, 10));
        assert_eq!(window.read(), (10, 0));
    }

    #[cfg(feature = "metrics")]
    #[test]
    fn metrics_reach_the_recorder() {
        use std::sync::{Arc, Mutex};

        use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};

        #[derive(Default)]
        struct TestRecorder(Mutex<Vec<(String, Arc<AtomicU64>)>>);

        impl TestRecorder {
            fn register(&self, key: &Key) -> Arc<AtomicU64> {
                let cell = Arc::new(AtomicU64::new(0));
                self.0.lock().unwrap().push((key.name().to_owned(), Arc::clone(&cell)));
                cell
            }
        }

        impl metrics::Recorder for TestRecorder {
            fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
                Counter::from_arc(self.register(key))
            }
            fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
                Gauge::from_arc(self.register(key))
            }
            fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
                Histogram::noop()
            }
        }

        let recorder = TestRecorder::default();
        let counts = Counts { lookups: 7, ..Counts::default() };
        let stats = Stats {
            counts,
            keys: 5,
            capacity: 9,
            filter_bytes: 64,
            shards: 16,
            shards_loaded: 16,
            target_fpr: 0.01,
            window_negatives: 200,
            window_false_positives: 1,
            in_doubt: 0,
        };
        metrics::with_local_recorder(&recorder, || stats.publish());
        let recorded = recorder.0.lock().unwrap();
        let value = |name: &str| {
            let found =
                recorded.iter().find(|(known, _)| known == &format!("tamis_dictionary_{name}"));
            found.map(|(_, cell)| cell.load(Relaxed))
        };
        assert_eq!(value("lookups"), Some(7));
        assert_eq!(value("window_fpr").map(f64::from_bits), Some(0.005));
        assert_eq!(recorded.len(), counts.named().count() + 6);
    }

    #[test]
    fn counts_round_trip_as_words() {
        let counters = Counters::default();
        add_many(&counters.lookups, 7);
        add(&counters.writes);
        let mut counts = Counts::default();
        counts.add(&counters);
        let words: Vec<u64> = counts.named().map(|(_, count)| count).collect();
        assert_eq!(Counts::from_words(&words), counts);
        assert_eq!((counts.lookups, counts.writes), (7, 1));
    }
}
