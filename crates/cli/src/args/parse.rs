//! Parsers of option values.
//!
//! Names of kinds, capabilities and settings have underscores; a hyphen is accepted in place of each.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use tamis::plan::{MAX_KEYS, check_fpr, check_keys};
use tamis::{Capability, HashId, Kind};
use tamis_dictionary::Layout;
use tamis_interop::{Format, KeyType};

use crate::number;

/// `--filter` of `build`: `None` is `auto`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KindOrAuto(pub(crate) Option<Kind>);

/// `--window` of `uniq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Window {
    Lines(u64),
    Time(Duration),
}

/// `--on-overflow` of `uniq`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum OnOverflow {
    #[default]
    Grow,
    Stop,
    Pass,
}

/// `--to` of `export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExportTo {
    /// The plain Bloom filter inside a counting filter.
    Bloom,
    /// The format of another program.
    Format(Format),
}

/// Returns the name with underscores for hyphens.
pub(crate) fn with_underscores(name: &str) -> String {
    name.replace('-', "_")
}

fn possible(name: &'static str) -> PossibleValue {
    let value = PossibleValue::new(name);
    if name.contains('_') { value.alias(name.replace('_', "-")) } else { value }
}

pub(super) fn kind_or_auto() -> impl TypedValueParser<Value = KindOrAuto> {
    let names = std::iter::once("auto").chain(Kind::ALL.iter().map(|kind| kind.name()));
    PossibleValuesParser::new(names.map(possible))
        .map(|name| KindOrAuto(with_underscores(&name).parse().ok()))
}

pub(super) fn need() -> impl TypedValueParser<Value = Capability> {
    let names = Capability::ALL.iter().map(|capability| capability.name());
    PossibleValuesParser::new(names.map(possible))
        .try_map(|name| with_underscores(&name).parse::<Capability>())
}

pub(super) fn hash() -> impl TypedValueParser<Value = HashId> {
    let names = [HashId::Fast, HashId::Secure].map(HashId::name);
    PossibleValuesParser::new(names).try_map(|name| name.parse::<HashId>())
}

pub(super) fn format() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.iter().map(|format| possible(format.name())))
        .try_map(|name| with_underscores(&name).parse::<Format>())
}

pub(super) fn export_to() -> impl TypedValueParser<Value = ExportTo> {
    let names = std::iter::once("bloom").chain(Format::ALL.iter().map(|format| format.name()));
    PossibleValuesParser::new(names.map(possible)).map(|name| {
        // The only name that is not a format.
        with_underscores(&name).parse().map_or(ExportTo::Bloom, ExportTo::Format)
    })
}

pub(super) fn key_type() -> impl TypedValueParser<Value = KeyType> {
    PossibleValuesParser::new(KeyType::ALL.iter().map(|key_type| key_type.name()))
        .try_map(|name| name.parse::<KeyType>())
}

pub(super) fn layout() -> impl TypedValueParser<Value = Layout> {
    let layouts = [Layout::Clustered, Layout::Secondary];
    PossibleValuesParser::new(layouts.map(Layout::name)).map(move |name| {
        layouts.into_iter().find(|layout| layout.name() == name).expect("one of the two layouts")
    })
}

pub(super) fn setting(text: &str) -> Result<(String, String)> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((with_underscores(name), value.into())),
        _ => bail!("expected NAME=VALUE"),
    }
}

/// Parses a false positive rate that the library accepts, so that a wrong one is reported before any
/// key is read.
pub(super) fn rate(text: &str) -> Result<f64> {
    let rate = number::rate(text)?;
    check_fpr(rate)?;
    Ok(rate)
}

/// Parses a false positive rate, or 0 for an exact set.
pub(super) fn rate_or_zero(text: &str) -> Result<f64> {
    match number::rate(text)? {
        0.0 => Ok(0.0),
        _ => rate(text),
    }
}

pub(super) fn keys(text: &str) -> Result<u64> {
    let keys = number::count(text)?;
    check_keys(keys).map_err(|_| anyhow!("at most {MAX_KEYS} keys are supported"))?;
    Ok(keys)
}

pub(super) fn window(text: &str) -> Result<Window> {
    if let Some(time) = number::time(text) {
        return Ok(Window::Time(time?));
    }
    let lines = number::count(text)
        .map_err(|_| anyhow!("expected a number of lines such as 10M, or a time such as 10min"))?;
    check_keys(lines).map_err(|_| anyhow!("at most {MAX_KEYS} lines are supported"))?;
    Ok(Window::Lines(lines))
}

pub(super) fn flips(text: &str) -> Result<u64> {
    number::count(text).map_err(|_| anyhow!("expected a number of flips such as 1e9 or 100M"))
}

pub(super) fn seconds(text: &str) -> Result<Duration> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| anyhow!("expected a number of seconds such as 60 or 0.5"))
}
