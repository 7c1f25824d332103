//! What has happened, counted.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counters of one shard, which many threads add to.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
        }

        /// What has happened since the dictionary was created, as far as it was closed.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Every count with its name.
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

counters! {
    /// Keys asked for.
    lookups,
    /// Of these, denied by the filter: the store was not asked.
    negatives,
    /// Found in the store.
    true_positives,
    /// Let in by the filter, and not found in the store.
    false_positives,
    /// Asked of the store because a part of the filter was not there.
    unfiltered,
    /// Keys put.
    puts,
    /// Of these, surely new by the filter's word.
    puts_new,
    /// Keys deleted.
    deletes,
    /// False positives that are denied from now on.
    repairs,
    /// Of these, by representing the neighbours anew.
    rehashes,
    /// Repairs not made because of writes nearby at the same time, or too many false positives.
    postponed,
    /// Repairs that the filter could not make.
    impossible,
    /// Parts of the filter that were swept.
    sweeps,
    /// Parts of the filter that were made larger.
    growths,
    /// Parts of the filter that were made anew, since they were damaged or not saved.
    rebuilds,
    /// Members that the filter would have denied. Anything but 0 is a fault.
    missing,
    /// Accesses to the store: to find a key.
    reads_lookup,
    /// To repair a false positive, beyond finding that it is one.
    reads_repair,
    /// To sweep.
    reads_sweep,
    /// To load parts of the filter, to make them larger, or anew.
    reads_filter,
    /// To put and delete, batches counted once.
    writes,
}

pub(crate) fn add(counter: &AtomicU64) {
    add_many(counter, 1);
}

pub(crate) fn add_many(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Relaxed);
}

/// Strangers lately asked for, and those that were let in: this span and the one before it.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Asked in the upper half, let in in the lower one: a span ends for both at once.
    now: AtomicU64,
    before: AtomicU64,
}

const ASKED: u64 = 1 << 32;

impl Window {
    pub(crate) fn add(&self, passed: bool, span: u64) {
        let had = self.now.fetch_add(ASKED + u64::from(passed), Relaxed);
        // One thread sees the last of the span, and closes it.
        if had / ASKED + 1 == span {
            self.before.store(self.now.swap(0, Relaxed), Relaxed);
        }
    }

    /// Asked, let in.
    pub(crate) fn read(&self) -> (u64, u64) {
        let (now, before) = (self.now.load(Relaxed), self.before.load(Relaxed));
        (now / ASKED + before / ASKED, now % ASKED + before % ASKED)
    }
}

/// A dictionary's state and history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// What has happened.
    pub counts: Counts,
    /// Keys, as the filter counts them: a write that failed may count too.
    pub keys: u64,
    /// Keys that the filter has room for before a part of it grows.
    pub capacity: u64,
    /// Memory of the filter, of the parts that are loaded.
    pub filter_bytes: u64,
    /// Parts of the filter, and how many of them are in memory.
    pub shards: usize,
    /// See `shards`.
    pub shards_loaded: usize,
    /// The false positive rate that was asked for.
    pub target_fpr: f64,
    /// Strangers asked for lately: some ten thousand.
    pub window_strangers: u64,
    /// Of these, let in by the filter.
    pub window_passed: u64,
    /// Writes that failed, and of which it is not known whether the store has done them.
    pub doubtful: u64,
}

impl Stats {
    /// The share of strangers let in lately, unless there were none.
    pub fn window_fpr(&self) -> Option<f64> {
        share(self.window_passed, self.window_strangers)
    }

    /// The share of strangers let in ever, unless there were none.
    pub fn fpr(&self) -> Option<f64> {
        let passed = self.counts.false_positives;
        share(passed, passed + self.counts.negatives)
    }

    /// Tells all counts and sizes to the recorder of the crate `metrics`, as `tamis_dictionary_…`.
    /// Call it as often as you want them fresh.
    #[cfg(feature = "metrics")]
    pub fn publish(&self) {
        for (name, count) in self.counts.named() {
            metrics::counter!(format!("tamis_dictionary_{name}")).absolute(count);
        }
        let gauges = [
            ("keys", self.keys as f64),
            ("capacity", self.capacity as f64),
            ("filter_bytes", self.filter_bytes as f64),
            ("doubtful", self.doubtful as f64),
            ("target_fpr", self.target_fpr),
            ("window_fpr", self.window_fpr().unwrap_or(0.0)),
        ];
        for (name, value) in gauges {
            metrics::gauge!(format!("tamis_dictionary_{name}")).set(value);
        }
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_forgets() {
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
    fn metrics_are_heard() {
        use std::sync::{Arc, Mutex};

        use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};

        #[derive(Default)]
        struct Ear(Mutex<Vec<(String, Arc<AtomicU64>)>>);

        impl Ear {
            fn hear(&self, key: &Key) -> Arc<AtomicU64> {
                let cell = Arc::new(AtomicU64::new(0));
                self.0.lock().unwrap().push((key.name().to_owned(), Arc::clone(&cell)));
                cell
            }
        }

        impl metrics::Recorder for Ear {
            fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
            fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
                Counter::from_arc(self.hear(key))
            }
            fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
                Gauge::from_arc(self.hear(key))
            }
            fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
                Histogram::noop()
            }
        }

        let ear = Ear::default();
        let counts = Counts { lookups: 7, ..Counts::default() };
        let stats = Stats {
            counts,
            keys: 5,
            capacity: 9,
            filter_bytes: 64,
            shards: 16,
            shards_loaded: 16,
            target_fpr: 0.01,
            window_strangers: 200,
            window_passed: 1,
            doubtful: 0,
        };
        metrics::with_local_recorder(&ear, || stats.publish());
        let heard = ear.0.lock().unwrap();
        let value = |name: &str| {
            let found =
                heard.iter().find(|(known, _)| known == &format!("tamis_dictionary_{name}"));
            found.map(|(_, cell)| cell.load(Relaxed))
        };
        assert_eq!(value("lookups"), Some(7));
        assert_eq!(value("window_fpr").map(f64::from_bits), Some(0.005));
        assert_eq!(heard.len(), counts.named().count() + 6);
    }

    #[test]
    fn counts_survive_as_words() {
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
