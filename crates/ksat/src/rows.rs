//! Written by `cargo run --release -p tamis-lab --bin ksat -- tune`.

use crate::row::{Fall, Row};

#[rustfmt::skip]
pub(crate) const ROWS: [Row; 20] = [
    Row { k: 3, nae: false, vars: 12062, fall: Fall::Square(0.7), easy: 0.78, hard: 0.81 },
    Row { k: 3, nae: false, vars: u32::MAX, fall: Fall::Square(0.7), easy: 0.76, hard: 0.815 },
    Row { k: 4, nae: false, vars: 5321, fall: Fall::Power(2.9), easy: 0.84, hard: 0.91 },
    Row { k: 4, nae: false, vars: u32::MAX, fall: Fall::Power(2.9), easy: 0.8, hard: 0.9 },
    Row { k: 5, nae: false, vars: 2712, fall: Fall::Power(3.5), easy: 0.83, hard: 0.93 },
    Row { k: 5, nae: false, vars: u32::MAX, fall: Fall::Power(3.5), easy: 0.79, hard: 0.93 },
    Row { k: 6, nae: false, vars: 1395, fall: Fall::Power(4.6), easy: 0.81, hard: 1.0 },
    Row { k: 6, nae: false, vars: u32::MAX, fall: Fall::Power(4.6), easy: 0.75, hard: 0.9 },
    Row { k: 7, nae: false, vars: 731, fall: Fall::Power(5.2), easy: 0.76, hard: 0.86 },
    Row { k: 7, nae: false, vars: u32::MAX, fall: Fall::Power(5.2), easy: 0.72, hard: 0.86 },
    Row { k: 3, nae: true, vars: 27945, fall: Fall::Power(3.5), easy: 1.0, hard: 1.0 },
    Row { k: 3, nae: true, vars: u32::MAX, fall: Fall::Power(3.1), easy: 1.0, hard: 1.0 },
    Row { k: 4, nae: true, vars: 12139, fall: Fall::Power(4.5), easy: 1.0, hard: 1.0 },
    Row { k: 4, nae: true, vars: u32::MAX, fall: Fall::Power(4.0), easy: 1.0, hard: 1.0 },
    Row { k: 5, nae: true, vars: 5720, fall: Fall::Power(4.2), easy: 1.0, hard: 1.0 },
    Row { k: 5, nae: true, vars: u32::MAX, fall: Fall::Power(4.2), easy: 1.0, hard: 1.0 },
    Row { k: 6, nae: true, vars: 2962, fall: Fall::Power(4.4), easy: 1.0, hard: 1.0 },
    Row { k: 6, nae: true, vars: u32::MAX, fall: Fall::Power(4.8), easy: 1.0, hard: 1.0 },
    Row { k: 7, nae: true, vars: 1551, fall: Fall::Power(5.4), easy: 1.0, hard: 1.0 },
    Row { k: 7, nae: true, vars: u32::MAX, fall: Fall::Power(4.8), easy: 1.0, hard: 1.0 },
];
