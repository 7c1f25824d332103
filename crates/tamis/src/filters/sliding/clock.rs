//! The time of a window, in parts of a generation, and what stamps mean in it.
//!
//! ```text
//!  time           0   1   2   3   4   5   6   7   8   9  10  11     ticks, of which 4 are a generation
//!  class 0        │ generation 0  │ generation 1  │ generation 2
//!  class 1        │ gen. 0    │ generation 1  │ generation 2  │ …
//!  class 2        │ 0     │ generation 1  │ generation 2  │ …
//!  class 3        │ 0 │ generation 1  │ generation 2  │ …
//! ```
//!
//! The buckets of each block are divided into classes, whose generations begin at different times:
//! at each tick those of one class. So at any time some keys are older than the window by nearly a
//! whole generation and others by nothing, and a block has about the same number of keys at all
//! times.

/// The time and its division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    /// Generations that are remembered, which is the number of distinct stamps.
    stamps: u64,
    /// log2 of the number of classes, which is that of the ticks per generation.
    log: u32,
    /// Ticks since the filter is empty, modulo those of all generations that are remembered.
    phase: u64,
}

impl Clock {
    pub(super) fn new(stamps: u64, log: u32, ticks: u64) -> Self {
        Self { stamps, log, phase: ticks % (stamps << log) }
    }

    /// Returns the number of ticks after which all keys have expired.
    #[inline(always)]
    pub(super) fn period(&self) -> u64 {
        self.stamps << self.log
    }

    #[inline(always)]
    pub(super) fn phase(&self) -> u64 {
        self.phase
    }

    #[inline(always)]
    pub(super) fn tick(&mut self) {
        self.phase = if self.phase + 1 < self.period() { self.phase + 1 } else { 0 };
    }

    #[inline(always)]
    fn classes(&self) -> u64 {
        1 << self.log
    }

    /// Returns the ticks since the generation of a class began.
    #[inline(always)]
    fn since(&self, class: u64) -> u64 {
        (self.phase + class) & (self.classes() - 1)
    }

    /// Returns the class whose generation began `since` ticks ago.
    #[inline(always)]
    pub(super) fn class(&self, since: u64) -> u64 {
        since.wrapping_sub(self.phase) & (self.classes() - 1)
    }

    /// Returns what the stamps of a class mean in a block with an eviction `lag` ticks ago.
    #[inline(always)]
    pub(super) fn ages(&self, class: u64, lag: u64) -> Ages {
        let generation = (self.phase + class) >> self.log;
        let now = if generation < self.stamps { generation } else { generation - self.stamps };
        let passed = (lag + self.classes() - 1 - self.since(class)) >> self.log;
        Ages { now, passed, stamps: self.stamps }
    }

    /// Returns the tick, modulo the period, at which a key of a class expires that was pushed `age`
    /// generations ago.
    #[inline(always)]
    pub(super) fn expiry(&self, class: u64, age: u64) -> u64 {
        let back = self.since(class) + (age << self.log);
        if self.phase >= back { self.phase - back } else { self.phase + self.period() - back }
    }
}

/// The meaning of stamps at a time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ages {
    /// The stamp of the current generation.
    pub(super) now: u64,
    /// Generations that began since the last eviction.
    passed: u64,
    stamps: u64,
}

impl Ages {
    /// Returns how many generations ago a stamp was given, modulo the stamps.
    #[inline(always)]
    pub(super) fn age(self, stamp: u64) -> u64 {
        if stamp <= self.now { self.now - stamp } else { self.now + self.stamps - stamp }
    }

    #[inline(always)]
    pub(super) fn is_expired(self, stamp: u64) -> bool {
        // Ages are modulo the number of stamps: a stamp that seems younger than the last eviction
        // is from the round before.
        self.age(stamp) < self.passed || self.passed >= self.stamps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with generations that are counted from the beginning.
    #[test]
    fn keys_expire_when_their_generation_does() {
        for (stamps, log) in [(1, 0), (2, 3), (9, 3), (9, 4), (5, 4)] {
            let (classes, period) = (1u64 << log, stamps << log);
            let mut clock = Clock::new(stamps, log, 0);
            for time in 0..3 * period {
                assert_eq!(clock, Clock::new(stamps, log, time));
                for class in 0..classes {
                    let generation = |time: u64| (time + class) / classes;
                    assert_eq!(clock.class(clock.since(class)), class);
                    for then in time.saturating_sub(2 * period)..=time {
                        let age = generation(time) - generation(then);
                        let stamp = generation(then) % stamps;
                        // The last eviction may have been at any time since.
                        for evicted in (then..=time).step_by(3) {
                            let before = generation(evicted) - generation(then);
                            if before < stamps {
                                let ages = clock.ages(class, time - evicted);
                                assert_eq!(ages.now, generation(time) % stamps);
                                assert_eq!(ages.is_expired(stamp), age >= stamps);
                            }
                        }
                        if age < stamps {
                            let left = (time + 1..)
                                .find(|end| generation(*end) - generation(then) >= stamps);
                            let ages = clock.ages(class, 0);
                            assert_eq!(ages.age(stamp), age);
                            assert_eq!(clock.expiry(class, age), left.unwrap() % period);
                        }
                    }
                }
                clock.tick();
            }
        }
    }
}
