//! The paper's tables.

/// Solutions for a rate of about 1/4, for k = 3 to 7.
pub(crate) const PLANES: [u64; 5] = [11, 22, 44, 89, 177];

/// The columns of Table 2.
pub(crate) const EFFICIENCIES: [f64; 12] =
    [0.75, 0.77, 0.79, 0.81, 0.83, 0.85, 0.87, 0.89, 0.91, 0.93, 0.95, 0.97];

/// Returns a row with these first columns, and dashes after them.
const fn row<const N: usize>(seconds: [u32; N]) -> [Option<u32>; 12] {
    let mut row = [None; 12];
    let mut at = 0;
    while at < N {
        row[at] = Some(seconds[at]);
        at += 1;
    }
    row
}

/// Seconds to build, for k = 3 to 6 and 2^14 to 2^17 keys.
pub(crate) const TABLE_2: [[[Option<u32>; 12]; 4]; 4] = [
    [row([1, 1, 2, 137]), row([1, 3, 15, 101]), row([2, 6, 67, 101]), row([7, 17, 116, 120])],
    [
        row([1, 1, 1, 1, 1, 2, 6, 39]),
        row([1, 1, 1, 2, 2, 9, 19, 62]),
        row([1, 2, 2, 4, 10, 26, 36, 71]),
        row([4, 5, 7, 11, 25, 62, 74, 144]),
    ],
    [
        row([1, 1, 1, 1, 4, 33, 183, 285, 1436]),
        row([1, 1, 2, 4, 21, 96, 97, 117, 349]),
        row([3, 3, 5, 8, 71, 211, 219, 222, 548]),
        row([7, 9, 14, 23, 471, 484, 499, 517, 626]),
    ],
    [
        row([1, 2, 6, 29, 54, 68, 115, 235]),
        row([3, 11, 105, 105, 110, 123, 167, 389]),
        row([7, 79, 250, 251, 258, 268, 324, 671]),
        row([21, 555, 567, 569, 579, 604, 640, 1283]),
    ],
];

/// Bits of a Bloom filter, and of the SAT filter with the highest efficiency in Table 2.
pub(crate) const TABLE_3: [[[u32; 2]; 4]; 4] = [
    [[50090, 42856], [100_179, 85734], [200_356, 171_446], [400_715, 342_914]],
    [[48419, 37708], [96837, 75416], [193_674, 150_832], [387_348, 301_664]],
    [[47638, 36256], [95275, 72556], [190_550, 145_112], [381_099, 290_268]],
    [[47797, 37202], [95593, 74404], [191_186, 148_897], [382_371, 297_794]],
];

/// Seconds for 2^27 queries of these filters.
pub(crate) const TABLE_4: [[[u32; 2]; 4]; 4] = [
    [[30, 84], [30, 84], [30, 84], [30, 85]],
    [[31, 186], [31, 186], [31, 185], [31, 185]],
    [[31, 415], [31, 410], [31, 401], [31, 421]],
    [[31, 1034], [31, 1031], [31, 1028], [31, 1011]],
];

/// Seconds to build, bits, false positives in percent and seconds for 2^27 queries of the
/// single-instance filters with a Hamming distance of 1/2, for k = 4 to 6.
pub(crate) const TABLE_5: [(u32, u32, f64, u32); 3] =
    [(20802, 44748, 24.20, 47), (610, 44000, 24.86, 51), (643, 44144, 25.09, 61)];
