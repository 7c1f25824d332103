//! Tests that every filter must pass.
//!
//! A line in the registry of `tamis` is a set of claims: this type is a filter, it has the false
//! positive rate and the memory that its shape states, it can be saved, and it has the listed
//! capabilities. The [`suite!`] macro turns each line into a module of tests, named after the
//! filter's file, with a block for each claim. A new line in the registry is tested without further
//! changes.
//!
//! | file | what must hold |
//! | --- | --- |
//! | `members.rs` | no member is denied; batches answer as single queries do; every input terminates; the bytes do not depend on the threads |
//! | `rates.rs` | the false positive rate is the stated one, no more and no less; seeds are independent |
//! | `model.rs` | any sequence of operations agrees with an exact multiset |
//! | `operations.rs` | each capability does what its trait documents |
//! | `statics.rs` | a static kind represents a set: its bytes do not depend on order, copies or threads |
//! | `maps.rs` | every key has its value, and keeps it when other values change |
//! | `grow.rs` | for any number of keys, none is denied and the false positive rate holds |
//! | `window.rs` | a key in the window is never denied, a key that has left it is a non-member |
//! | `adapt.rs` | a repaired false positive is not repeated, and no member is denied |
//! | `files.rs` | bytes never change; damage is detected; hostile files are harmless |
//! | `contract.rs` | every language gives the answers of `testdata/contract` |
//! | `memory.rs` | bytes in memory, in buffers and in chunks equal those of a file |
//! | `dynamic.rs` | a filter of any kind has every operation, or an error names the missing capability |
//! | `stops.rs` | cancel flags, deadlines and callbacks take effect |
//! | `range.rs` | a range with a key is reported; the rate of ranges without one is within its bound |
//! | `deny.rs` | the keys of a deny list never pass |
//! | `limits.rs` | requests out of range are errors; the planner is consistent |
//! | `allocation.rs` | the allocator counts the memory that the shape states |
//!
//! They use `oracle.rs`, an exact multiset; `stats.rs`, binomial bounds; `attack.rs`, which damages
//! files; and `keys.rs`, which generates keys. `order.rs` checks the module order of a crate.
//!
//! Tests run with [`Effort::Quick`] unless `TAMIS_SOAK` is set; `cargo xtask soak` sets it.

pub mod adapt;
pub mod allocation;
pub mod attack;
pub mod contract;
pub mod deny;
pub mod dynamic;
pub mod files;
pub mod grow;
pub mod keys;
pub mod limits;
pub mod maps;
pub mod members;
pub mod memory;
pub mod model;
pub mod operations;
pub mod oracle;
pub mod order;
pub mod range;
pub mod rates;
pub mod statics;
pub mod stats;
pub mod stops;
pub mod window;

use std::fmt::Debug;
use std::sync::LazyLock;

use tamis::{Kind, Registered, Settings, Shape};

/// A registered filter that the suite can test.
pub trait Subject: Registered + Debug {}

impl<F: Registered + Debug> Subject for F {}

/// Amount of work that the tests do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Some minutes for the whole suite, with the same seeds each time.
    Quick,
    /// So many times as much, with new seeds each time, which are printed.
    Soak(u64),
}

impl Effort {
    /// Returns the effort that the environment variable `TAMIS_SOAK` sets, a factor.
    pub fn now() -> Self {
        static NOW: LazyLock<Effort> = LazyLock::new(|| match std::env::var("TAMIS_SOAK") {
            Ok(factor) => Effort::Soak(factor.parse().expect("TAMIS_SOAK is a number")),
            Err(_) => Effort::Quick,
        });
        *NOW
    }

    /// Returns `quick`, or so many times as much in a soak.
    pub fn times(self, quick: u64) -> u64 {
        match self {
            Self::Quick => quick,
            Self::Soak(factor) => quick * factor,
        }
    }

    /// Returns a generator with seed `salt` in a quick run, and with a new, printed seed in a soak.
    pub fn random(self, salt: u64) -> keys::Random {
        let seed = match self {
            Self::Quick => salt,
            Self::Soak(_) => {
                let hasher = tamis::KeyHasher::random(tamis::HashId::Fast);
                let seed = hasher.expect("the operating system has random bits").seed()[0];
                println!("salt {salt}: seed {seed:#x}");
                seed
            }
        };
        keys::Random::new(seed)
    }
}

/// Returns the most distinct keys that a filter with capacity `keys` may hold before it is full. A
/// table takes some keys for others, and a bit array estimates the number of its keys.
pub fn most_distinct(keys: u64) -> u64 {
    keys + keys / 10 + 20
}

/// Returns the number of repetitions of a test: `times`, or a hundredth of it for a kind that is slow
/// to build, or a tenth for kinds whose insertions shift counters of variable length.
pub fn repeats<F: Subject>(times: u64) -> u64 {
    match F::KIND {
        kind if kind.is_slow_to_build() => times.div_ceil(100),
        Kind::SpectralBloom | Kind::RemovableSpectralBloom => times.div_ceil(10),
        _ => times,
    }
}

/// Returns the settings to test a kind with: the defaults, and each setting at each of these values
/// that the kind accepts.
pub fn variants<S: Shape>() -> Vec<Settings> {
    let values = [1u64, 2, 3, 4, 5, 8, 12, 16, 64, 256, 512, 1024];
    let mut variants = vec![Settings::default()];
    for setting in S::SETTINGS {
        for value in values {
            let mut settings = Settings::default();
            settings.set(setting.name, value);
            if S::fit_with(1000, 0.05, &settings).is_ok() {
                variants.push(settings);
            }
        }
    }
    variants
}

/// Generates the tests of each line of the registry: `tamis::registry!(suite);`
#[macro_export]
macro_rules! suite {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => { $(
        mod $file {
            $crate::suite!(@tests members $type
                no_member_is_denied
                no_member_is_denied_whatever_the_settings
                batches_answer_as_single_queries_do
                degenerate_hashes_end_and_are_found
                any_number_of_threads_makes_the_same_bytes
                more_keys_than_it_is_for_are_refused);
            $crate::suite!(@tests rates $type
                strangers_get_in_as_often_as_stated
                strangers_get_in_as_often_as_stated_in_small_filters
                strangers_get_in_as_often_as_stated_at_half_load
                strangers_get_in_as_often_as_stated_whatever_the_settings
                another_seed_makes_members_strangers);
            $crate::suite!(@tests files $type
                golden_file_is_kept
                every_accident_is_noticed
                attackers_do_no_harm
                attackers_do_no_harm_through_a_map
                the_unknown_is_an_error);
            $crate::suite!(@tests memory $type
                bytes_come_and_go
                damaged_bytes_are_errors
                copies_are_apart);
            $crate::suite!(@tests dynamic $type
                every_operation_is_there
                typed_and_dynamic_agree
                batches_do_what_single_operations_do
                key_forms_are_recorded
                templates_make_empty_filters);
            $crate::suite!(@tests stops $type
                a_build_can_be_stopped
                a_build_stops_while_it_reads
                a_panic_in_a_callback_reaches_the_caller);
            $crate::suite!(@tests limits $type
                absurd_wishes_are_refused
                extreme_wishes_are_answered
                planning_there_and_back_agrees
                what_does_not_fit_in_memory_is_an_error
                readers_keep_their_limit);
            $( $crate::suite!(@can $can $type); )*
        }
    )* };

    (@can Insert $type:ident) => {
        mod insert {
            $crate::suite!(@tests operations $type
                random_operations_agree_with_the_oracle
                short_random_operations_agree_with_the_oracle
                full_leaves_every_bit_as_it_was
                inserting_is_building);
        }
    };
    (@can Remove $type:ident) => {
        mod remove {
            $crate::suite!(@tests operations $type what_is_removed_is_gone);
        }
    };
    (@can Count $type:ident) => {
        mod count {
            $crate::suite!(@tests operations $type counts_are_never_under);
        }
    };
    (@can Merge $type:ident) => {
        mod merge {
            $crate::suite!(@tests operations $type
                a_merged_filter_has_the_members_of_both
                unlike_filters_do_not_merge
                a_forced_union_states_its_rate);
        }
    };
    (@can List $type:ident) => {
        mod list {
            $crate::suite!(@tests operations $type a_list_has_every_fingerprint);
        }
    };
    (@can Resize $type:ident) => {
        mod resize {
            $crate::suite!(@tests operations $type a_resized_filter_is_the_same_set);
        }
    };
    (@can Map $type:ident) => {
        mod map {
            $crate::suite!(@tests maps $type
                every_key_gets_its_value
                updates_disturb_nobody
                strangers_are_absent
                values_that_cannot_be_are_refused
                degenerate_hashes_have_values
                random_sets_agree_with_a_map);
        }
    };
    (@can Deny $type:ident) => {
        mod deny {
            $crate::suite!(@tests deny $type
                denied_keys_never_pass
                a_key_on_both_lists_is_an_error);
        }
    };
    (@can Range $type:ident) => {
        mod range {
            $crate::suite!(@tests range $type
                ranges_with_a_key_are_reported
                ranges_get_in_within_their_bound);
        }
    };
    (@can Adapt $type:ident) => {
        mod adapt {
            $crate::suite!(@tests adapt $type
                what_got_in_once_does_not_again
                the_rate_is_sustained
                scores_over_many_sweeps_find_no_weak_spot
                random_operations_with_repairs_agree_with_the_store
                a_stranger_that_is_denied_needs_no_repair
                suspects_are_all_that_matter);
        }
    };
    (@can Grow $type:ident) => {
        mod grow {
            $crate::suite!(@tests grow $type
                the_rate_is_kept_at_every_size
                it_goes_on_through_files
                its_figures_are_those_of_its_size);
        }
    };
    (@can Window $type:ident) => {
        mod window {
            $crate::suite!(@tests window $type
                no_key_of_the_window_is_denied
                the_window_ends_where_it_says
                the_rate_holds_after_turnovers
                a_large_window_turns_over
                a_file_in_mid_window_goes_on
                time_is_kept
                a_full_window_refuses_keys);
        }
    };
    (@can Overfill $type:ident) => {
        mod overfill {
            $crate::suite!(@tests operations $type
                past_its_keys_it_goes_on
                copies_end_in_full_or_are_taken);
        }
    };
    (@can Static $type:ident) => {
        mod statics {
            $crate::suite!(@tests statics $type
                order_and_copies_do_not_show
                fewer_keys_than_it_is_for_are_fine
                progress_ends_with_all_keys
                any_number_of_keys_is_placed);
        }
    };
    (@can SetOps $type:ident) => {
        mod set_ops {
            $crate::suite!(@tests operations $type
                merging_is_building_the_union
                an_intersection_keeps_common_members
                cardinality_is_estimated
                duplicates_never_fill_it
                similarity_tells_like_from_unlike);
        }
    };

    (@tests $check:ident $type:ident $($test:ident)*) => { $(
        #[test]
        fn $test() {
            $crate::$check::$test::<::tamis::filters::$type>();
        }
    )* };
}
