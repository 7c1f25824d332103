//! The filters: one structure, one file, one name. The [registry](crate::registry) lists them.

pub(crate) mod common;

macro_rules! declare_filters {
    ($( $id:literal $file:ident $type:ident { $($can:ident)* } $paper:literal; )*) => {
        $( pub mod $file; )*
        $( pub use $file::*; )*
    };
}

crate::registry!(declare_filters);
