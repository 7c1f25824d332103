//! Tests every registered filter with a counting allocator.

use tamis_conformance::allocation::{self, Counting};

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn the_allocator_counts() {
    allocation::the_allocator_counts();
}

macro_rules! memory {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => { $(
        mod $file {
            #[test]
            fn memory_is_what_the_shape_states() {
                super::allocation::memory_is_what_the_shape_states::<tamis::filters::$type>();
            }

            #[test]
            fn hostile_files_take_no_memory() {
                super::allocation::hostile_files_take_no_memory::<tamis::filters::$type>();
            }
        }
    )* };
}

tamis::registry!(memory);
