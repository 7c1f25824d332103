//! The registry: one line for each filter.
//!
//! [`Kind`](crate::Kind), [`AnyFilter`](crate::AnyFilter), the modules below `filters/`, the conformance
//! suite, the fuzz targets, `tamis filters`, `tamis plan`, `tamis bench`, `tamis demo` and the table of
//! filters in the documentation are all derived from these lines.

/// Calls the macro `$then` with the registry: `number file Type { Capability … } "paper";` for each
/// filter, after the tokens of `[…]` if there are any.
///
/// Numbers are permanent: they are stored in files. A capability is the name of a trait that the type
/// implements; a line that claims one that is missing does not compile.
#[macro_export]
macro_rules! registry {
    ($then:ident $([ $($before:tt)* ])?) => {
        $then! {
            $([ $($before)* ])?
            1 bloom Bloom { Insert Merge SetOps } "Bloom 1970";
            2 bloom_g BloomG { Insert Merge SetOps } "Qiao, Li, Chen 2014";
            3 split_block_bloom SplitBlockBloom { Insert Merge SetOps } "Putze, Sanders, Singler 2007; Apache Parquet";
            4 counting_bloom CountingBloom { Insert Remove Count Merge } "Fan, Cao, Almeida, Broder 2000";
            5 hash_compaction HashCompaction { Insert Merge List Resize } "Wolper, Leroy 1993";
            6 quotient Quotient { Insert Remove Merge List Resize } "Bender et al. 2012";
            7 counting_quotient CountingQuotient { Insert Remove Count Merge List Resize } "Pandey, Bender, Johnson, Patro 2017";
            8 cuckoo Cuckoo { Insert Remove Count } "Fan, Andersen, Kaminsky, Mitzenmacher 2014";
            9 morton Morton { Insert Remove } "Breslow, Jayasena 2018";
            10 tinyset TinySet { Insert Overfill } "Einziger, Friedman 2015";
            11 removable_tinyset RemovableTinySet { Insert Remove Overfill } "Einziger, Friedman 2015";
            12 binary_fuse BinaryFuse { Static } "Graf, Lemire 2022";
            13 xor Xor { Static } "Graf, Lemire 2020";
            14 ribbon Ribbon { Static } "Dillinger, Walzer 2021; with Hübschle-Schneider, Sanders 2022";
            15 bloomier Bloomier { Static Map } "Chazelle, Kilian, Rubinfeld, Tal 2004";
            16 guarded Guarded { Static Deny } "Chazelle et al. 2004; Bender et al. 2018";
            17 sat Sat { Static } "Weaver, Ray, Marek, Mayer, Walker 2014";
            18 xorsat XorSat { Static } "Weaver et al. 2014, 2018; Dietzfelbinger, Walzer 2019";
            19 broom Broom { Insert Remove Adapt } "Bender et al. 2018";
            20 adaptive_bloom AdaptiveBloom { Insert Remove Adapt } "Bender et al. 2018";
            21 adaptive_quotient AdaptiveQuotient { Insert Remove Adapt } "Bender et al. 2018";
            22 spectral_bloom SpectralBloom { Insert Count } "Cohen, Matias 2003";
            23 sliding Sliding { Window } "Naor, Yogev 2013";
            24 growing Growing { Insert Remove Count Grow } "Pagh, Segev, Wieder 2013; Dayan, Bercea, Pagh 2024";
            25 scalable_bloom ScalableBloom { Insert Grow } "Almeida, Baquero, Preguiça, Hutchison 2007";
            26 removable_spectral_bloom RemovableSpectralBloom { Insert Remove Count Merge } "Cohen, Matias 2003";
            27 foreign_bloom ForeignBloom { Insert Merge SetOps } "Bloom 1970; Spark, Guava and others";
            28 foreign_fuse ForeignFuse { Static } "Graf, Lemire 2022; FastFilter";
            29 grafite Grafite { Static Range } "Costa, Ferragina, Vinciguerra 2024";
            30 exact Exact { Insert Remove Merge List Resize } "Amble, Knuth 1974";
            31 adaptive_cuckoo AdaptiveCuckoo { Insert Remove Adapt } "Mitzenmacher, Pontarelli, Reviriego 2018";
        }
    };
}
