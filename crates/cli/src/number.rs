//! Parses and formats numbers with units.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};

/// Powers of 1000, for counts and sizes.
const THOUSANDS: [(&str, f64); 4] = [("k", 1e3), ("m", 1e6), ("g", 1e9), ("t", 1e12)];
/// Units of sizes.
const SIZES: [(&str, f64); 9] = [
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("tib", 1_099_511_627_776.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("tb", 1e12),
    ("b", 1.0),
];
/// Units of time. There is no `m` for minutes, since `10M` is a count.
const TIMES: [(&str, f64); 5] =
    [("ms", 1e-3), ("s", 1.0), ("min", 60.0), ("h", 3600.0), ("d", 86_400.0)];
const PERCENT: [(&str, f64); 1] = [("%", 0.01)];

/// Parses a number of keys above 0: `1000000`, `1e6`, `1.5M`, `2^20`.
pub(crate) fn count(text: &str) -> Result<u64> {
    match whole(text, &THOUSANDS) {
        Some(0) => bail!("expected at least 1"),
        Some(count) => Ok(count),
        None => bail!("expected a count such as 1000000, 1e6 or 10M"),
    }
}

/// Parses a time from 1 ms to 1000 years: `90s`, `10min`, `1.5h`, `7d`. Returns `None` if the text does
/// not end with a unit of time.
pub(crate) fn time(text: &str) -> Option<Result<Duration>> {
    let (digits, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic() && c != 'e')?);
    let (_, scale) = TIMES.iter().find(|(name, _)| unit.eq_ignore_ascii_case(name))?;
    let seconds = plain(digits.trim_end()).map(|number| number * scale);
    let fits = seconds.filter(|seconds| (1e-3..=3.2e10).contains(seconds));
    Some(
        fits.map(Duration::from_secs_f64)
            .ok_or_else(|| anyhow!("expected a time from 1ms to 365000d")),
    )
}

/// Parses a number of bytes: `4096`, `64KiB`, `1.5GB`, `2^20`.
pub(crate) fn size(text: &str) -> Result<u64> {
    let units: Vec<_> = SIZES.into_iter().chain(THOUSANDS).collect();
    let Some(size) = whole(text, &units) else {
        bail!("expected a size such as 4096, 64KiB or 1.5GB");
    };
    Ok(size)
}

/// Parses a rate: `0.01`, `1%`, `1/100`, `1e-2`, `2^-8`. Does not check its range.
pub(crate) fn rate(text: &str) -> Result<f64> {
    match scaled(text, &PERCENT) {
        Some(rate) => Ok(rate),
        None => bail!("expected a rate such as 0.01, 1%, 1/100 or 2^-8"),
    }
}

/// Parses a number of bits above 0, which may have a fraction.
pub(crate) fn bits(text: &str) -> Result<f64> {
    match scaled(text, &[]) {
        Some(bits) if bits.is_finite() && bits > 0.0 => Ok(bits),
        _ => bail!("expected a number of bits above 0"),
    }
}

/// Parses a seed of 128 bits: 32 hexadecimal digits, or 1 to 32 after `0x`.
pub(crate) fn seed(text: &str) -> Result<[u64; 2]> {
    let digits = text.strip_prefix("0x");
    let all_hex = digits.unwrap_or(text).bytes().all(|digit| digit.is_ascii_hexdigit());
    let seed = u128::from_str_radix(digits.unwrap_or(text), 16);
    match seed {
        Ok(seed) if all_hex && (digits.is_some() || text.len() == 32) => {
            Ok([(seed >> 64) as u64, seed as u64])
        }
        _ => bail!("expected 32 hexadecimal digits, or 0x and 1 to 32 digits"),
    }
}

fn whole(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    // Integers are parsed exactly: a float would round those above 2^53.
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let number = scaled(text, units)?;
    let rounded = number.round();
    let exact = (number - rounded).abs() <= rounded.abs() * 1e-12;
    (number >= 0.0 && exact).then_some(rounded as u64)
}

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let lower = text.to_ascii_lowercase();
    let unit = units.iter().find_map(|(name, scale)| Some((lower.strip_suffix(name)?, *scale)));
    let (digits, scale) = unit.unwrap_or((&lower, 1.0));
    Some(plain(digits.trim_end())? * scale)
}

fn plain(text: &str) -> Option<f64> {
    let parse = |part: &str| part.parse::<f64>().ok();
    if let Some((base, power)) = text.split_once('^') {
        return Some(parse(base)?.powf(parse(power)?));
    }
    if let Some((share, of)) = text.split_once('/') {
        return Some(parse(share)? / parse(of)?);
    }
    parse(text)
}

/// Formats a rate in percent, or in scientific notation below 10^-4.
pub(crate) fn show_rate(rate: f64) -> String {
    match rate {
        0.0 => "0 %".into(),
        _ if rate < 1e-4 => format!("{rate:.2e}"),
        _ => format!("{} %", digits(rate * 100.0)),
    }
}

/// Formats a size with a binary unit.
pub(crate) fn show_size(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = "B";
    for next in units {
        if size < 1023.5 {
            break;
        }
        (size, unit) = (size / 1024.0, next);
    }
    format!("{} {unit}", digits(size))
}

/// Formats a size of at least 1 MiB in whole units, rounded up: so much memory is enough.
pub(crate) fn show_size_up(bytes: u64) -> String {
    let units = ["MiB", "GiB", "TiB"];
    let shift = if bytes >> 20 < 10_000 {
        20
    } else if bytes >> 30 < 10_000 {
        30
    } else {
        40
    };
    format!("{} {}", bytes.div_ceil(1 << shift), units[shift / 10 - 2])
}

/// Formats a number per second with a decimal unit.
pub(crate) fn show_speed(per_second: f64) -> String {
    match per_second {
        _ if per_second >= 1e6 => format!("{} M", digits(per_second / 1e6)),
        _ if per_second >= 1e3 => format!("{} k", digits(per_second / 1e3)),
        _ => format!("{} ", digits(per_second)).trim_end().into(),
    }
}

/// Formats a number with 3 significant digits and no trailing zeros.
pub(crate) fn digits(number: f64) -> String {
    let places = (2 - number.abs().max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{number:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_sizes_and_rates_in_every_form() {
        for (text, expected) in [
            ("1", 1),
            ("1000000", 1_000_000),
            ("1e6", 1_000_000),
            ("10M", 10_000_000),
            ("1.1m", 1_100_000),
            ("2k", 2000),
            ("2^20", 1 << 20),
            ("2^60", 1 << 60),
            ("18446744073709551615", u64::MAX),
            ("2^70", u64::MAX),
        ] {
            assert_eq!(count(text).unwrap(), expected, "{text}");
        }
        for text in ["0", "", "-1", "1.5", "nan", "inf", "ten", "1M5", "0x10", "1/3"] {
            assert!(count(text).is_err(), "{text}: {:?}", count(text));
        }
        for (text, expected) in [
            ("0", 0),
            ("4096", 4096),
            ("64KiB", 65536),
            ("64 KiB", 65536),
            ("1.5GB", 1_500_000_000),
            ("10M", 10_000_000),
            ("12B", 12),
            ("1TiB", 1 << 40),
        ] {
            assert_eq!(size(text).unwrap(), expected, "{text}");
        }
        for (text, expected) in [
            ("0.01", 0.01),
            ("1%", 0.01),
            ("0.1 %", 0.001),
            ("1/1000", 0.001),
            ("2^-8", 1.0 / 256.0),
        ] {
            assert!((rate(text).unwrap() - expected).abs() < 1e-17, "{text}");
        }
        assert!(rate("nan").unwrap().is_nan() && rate("-1").unwrap() == -1.0);
        assert!(rate("").is_err() && rate("one").is_err() && rate("1//2").is_err());
        assert!(bits("0").is_err() && bits("nan").is_err() && bits("10.5").unwrap() == 10.5);
    }

    #[test]
    fn times_have_units_and_counts_have_none() {
        for (text, milliseconds) in [
            ("90s", 90_000),
            ("10min", 600_000),
            ("1.5h", 5_400_000),
            ("7 D", 604_800_000),
            ("1e3ms", 1000),
        ] {
            assert_eq!(time(text).unwrap().unwrap().as_millis(), milliseconds, "{text}");
        }
        for text in ["0s", "-1min", "s", "1e99d", "nans", "0.1ms"] {
            assert!(!matches!(time(text), Some(Ok(_))), "{text}");
        }
        for text in ["10M", "10", "1e6", "2^20", "5k", "", "10minutes"] {
            assert!(time(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_seed_is_two_words() {
        let both = seed("0123456789abcdeffedcba9876543210").unwrap();
        assert_eq!(both, [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);
        assert_eq!(seed("0x2a").unwrap(), [0, 42]);
        for text in ["", "0x", "2a", "+123456789abcdeffedcba9876543210", "0x+1", "xyz"] {
            assert!(seed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn shown_as_people_read_them() {
        let rates = [(0.0, "0 %"), (0.01, "1 %"), (0.009_987, "0.999 %"), (3.81e-6, "3.81e-6")];
        rates.iter().for_each(|(rate, text)| assert_eq!(show_rate(*rate), *text));
        let sizes = [(64, "64 B"), ((1 << 20) - 64, "1 MiB"), (13_126_720, "12.5 MiB")];
        sizes.iter().for_each(|(size, text)| assert_eq!(show_size(*size), *text));
        let enough = [(1, "1 MiB"), ((1 << 20) + 1, "2 MiB"), (9999 << 20, "9999 MiB")];
        enough.iter().for_each(|(size, text)| assert_eq!(show_size_up(*size), *text));
        assert_eq!(show_size_up(10_000 << 20), "10 GiB");
        assert_eq!(show_size_up(u64::MAX), "16777216 TiB");
        let speeds = [(15_321_000.0, "15.3 M"), (1200.0, "1.2 k"), (12.0, "12")];
        speeds.iter().for_each(|(speed, text)| assert_eq!(show_speed(*speed), *text));
    }
}
