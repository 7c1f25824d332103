//! Theorem 20: further levels of quotient filters instead of an exact table, under a load of repairs.

use anyhow::Result;
use lab::{STRANGERS, Sheet, hashes};
use tamis::{AnyFilter, HashId, KeyHasher, Keyed, Kind, Persist, Settings, Sizing};

use crate::guarded::{Guarded, sections};
use crate::{Claims, form};

/// 9 of 10 slots of a table of 2^18.
const KEYS: u64 = 235_900;
const PIECES: u64 = KEYS / 256;

/// What the repairs of an `adaptive_quotient` take, read from its file as FORMAT.md has it.
struct Repairs {
    /// The words of level 0.
    table: u64,
    marks: u64,
    /// Keys in the further levels, and bits of one of their slots.
    levels: Vec<(u64, u64)>,
}

impl Repairs {
    fn of(filter: &AnyFilter) -> Result<Self> {
        let mut bytes = Vec::new();
        let keyed = Keyed::new(KeyHasher::new(HashId::Fast, [1, 2]), filter.clone());
        keyed.write_to(&mut bytes)?;
        let words: Vec<u64> =
            bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let shapes = sections(&words, "shape")?;
        let keys = shapes[0][3..].as_chunks::<2>().0.iter().map(|[_, len]| *len);
        let bits = shapes[2..].iter().map(|shape| shape[1] + 3);
        let marks = sections(&words, "marks")?[0].iter().filter(|mark| **mark != 0).count();
        let table = sections(&words, "table")?[0].len() as u64;
        Ok(Self { table, marks: marks as u64, levels: keys.zip(bits).collect() })
    }

    fn bits(&self) -> u64 {
        self.marks * 64 + self.levels.iter().map(|(keys, bits)| keys * bits).sum::<u64>()
    }

    fn keys(&self, level: usize) -> String {
        self.levels.get(level - 1).map_or(String::new(), |(keys, _)| keys.to_string())
    }
}

/// One level, two and three, with and without the sweeps that drop repairs.
pub(crate) fn levels(claims: &mut Claims) -> Result<()> {
    let columns = [
        "eps",
        "levels",
        "sweeps",
        "bits a key",
        "for repairs",
        "false positives",
        "let in / eps",
        "marks",
        "keys in level 1",
        "keys in level 2",
        "bits in use a false positive",
        "bits a key after",
    ];
    let mut sheet = Sheet::new("adaptive", "levels", &columns);
    let members = hashes(31, 0, KEYS);
    for power in [2, 4, 5, 6, 8] {
        let eps = f64::exp2(-f64::from(power));
        let plain = Guarded::new(Kind::Quotient, members.clone(), eps)?.bits_a_key();
        for levels in [1u32, 2, 3] {
            for swept in [true, false] {
                let settings = Settings::new().with("levels", levels);
                let sizing = Sizing::fpr(eps).capacity(KEYS).settings(settings);
                let mut guarded =
                    Guarded::fitting(Kind::AdaptiveQuotient, &sizing, members.clone())?;
                guarded.renews = swept;
                let planned = guarded.filter.bytes();
                // As many as two sweeps take, or one.
                let found = if swept { 2 * PIECES } else { PIECES };
                let mut number = 0;
                while guarded.counts.passed < found {
                    for x in hashes(31, STRANGERS + number, 1024) {
                        guarded.ask(x)?;
                    }
                    number += 1024;
                }
                let repairs = Repairs::of(&guarded.filter)?;
                let passed = guarded.counts.passed;
                let rate = guarded.counts.since(&Default::default(), eps);
                let used = repairs.bits() as f64 / if swept { PIECES } else { passed } as f64;
                let bits = |bytes: u64| bytes as f64 * 8.0 / KEYS as f64;
                let level_0 = bits(repairs.table * 8);
                sheet.row(&[
                    &form(eps),
                    &levels,
                    &if swept { "2" } else { "none" },
                    &form(bits(planned)),
                    &form(bits(planned) - level_0),
                    &passed,
                    &form(rate),
                    &repairs.marks,
                    &repairs.keys(1),
                    &repairs.keys(2),
                    &form(used),
                    &form(bits(guarded.filter.bytes())),
                ]);
                let claim = format!("Thm 20; {levels} levels 1/{}", 1.0 / eps);
                let lost = guarded.denied() + guarded.counts.impossible;
                claims.add(claim.clone(), "no member denied; no repair refused", lost, lost == 0);
                if swept {
                    let more = bits(planned) - plain;
                    claims.add(claim, "bits over a plain filter: <= 2", form(more), more <= 2.0);
                }
            }
        }
    }
    sheet.finish("Levels of an adaptive quotient filter", "", "", false, Vec::new())
}
