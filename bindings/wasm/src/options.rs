//! Options of a filter that is to be built, as a JavaScript object states them.

use js_sys::{BigInt, Object, Reflect};
use tamis::plan::{MAX_BYTES, MAX_KEYS};
use tamis::{AnyFilter, Builder, Keyed, Kind, SettingValue, Settings, Sizing};
use wasm_bindgen::prelude::*;

use crate::errors::{invalid, out_of_memory, raise};

const NAMES: [&str; 7] = ["capacity", "fpr", "bytes", "bitsPerKey", "settings", "hash", "seed"];

/// Returns a builder with the options of `object`, which may be `undefined`.
pub(crate) fn builder(
    kind: &str,
    object: &JsValue,
) -> Result<Builder<'static, AnyFilter>, JsValue> {
    let kind: Kind = kind.parse().map_err(|error: tamis::UnknownName| raise(error.into()))?;
    let get = fields(object, &NAMES)?;
    let number = |name| number(get(name)?, name);
    let mut sizing =
        match (number("fpr")?, whole(get("bytes")?, "bytes", MAX_BYTES)?, number("bitsPerKey")?) {
            (fpr, None, None) => Sizing::fpr(fpr.unwrap_or(0.01)),
            (None, Some(bytes), None) => Sizing::bytes(bytes),
            (None, None, Some(bits)) => Sizing::bits_per_key(bits),
            _ => return Err(invalid("give one of fpr, bytes and bitsPerKey")),
        };
    sizing = sizing.settings(settings(&get("settings")?)?);
    if let Some(keys) = whole(get("capacity")?, "capacity", MAX_KEYS)? {
        sizing = sizing.capacity(keys);
        check_address_space(kind, &sizing, keys)?;
    }
    let hash = match get("hash")?.as_string() {
        Some(name) => name.parse().map_err(|error: tamis::UnknownName| raise(error.into()))?,
        None => kind.default_hash(),
    };
    let seed = match get("seed")? {
        seed if seed.is_undefined() => random_seed()?,
        seed => parse_seed(seed)?,
    };
    Ok(Keyed::<AnyFilter>::builder(kind).sizing(sizing).hash(hash).seed(seed))
}

/// Returns a function that reads the properties of `object`. Another property than those of `names` is
/// an error.
pub(crate) fn fields<'a>(
    object: &'a JsValue,
    names: &[&str],
) -> Result<impl Fn(&str) -> Result<JsValue, JsValue> + 'a, JsValue> {
    if !object.is_undefined() && !object.is_object() {
        return Err(invalid("the options must be an object"));
    }
    if let Some(object) = object.dyn_ref::<Object>() {
        for key in Object::keys(object).iter().filter_map(|key| key.as_string()) {
            if !names.contains(&key.as_str()) {
                return Err(invalid(&format!("there is no option `{key}`: {}", names.join(", "))));
            }
        }
    }
    Ok(move |name: &str| match object.is_undefined() {
        true => Ok(JsValue::UNDEFINED),
        false => Reflect::get(object, &name.into()),
    })
}

pub(crate) fn number(value: JsValue, name: &str) -> Result<Option<f64>, JsValue> {
    match value.as_f64() {
        None if value.is_undefined() => Ok(None),
        None => Err(invalid(&format!("{name} must be a number"))),
        number => Ok(number),
    }
}

/// Reads an integer of at most `most`.
pub(crate) fn whole(value: JsValue, name: &str, most: u64) -> Result<Option<u64>, JsValue> {
    match number(value, name)? {
        None => Ok(None),
        Some(number) if number.fract() == 0.0 && (0.0..=most as f64).contains(&number) => {
            Ok(Some(number as u64))
        }
        Some(number) => {
            Err(invalid(&format!("{name} must be an integer of 0 to {most}, not {number}")))
        }
    }
}

pub(crate) fn settings(value: &JsValue) -> Result<Settings, JsValue> {
    let mut settings = Settings::new();
    let Some(object) = value.dyn_ref::<Object>() else { return Ok(settings) };
    for name in Object::keys(object).iter().filter_map(|name| name.as_string()) {
        let value = Reflect::get(object, &name.as_str().into())?;
        let value = match (value.as_f64(), value.as_string()) {
            (Some(number), _) => SettingValue::parse(&number.to_string()),
            (_, Some(text)) => SettingValue::parse(&text),
            _ => return Err(invalid(&format!("the setting {name} must be a number or a string"))),
        };
        settings.set(name, value);
    }
    Ok(settings)
}

/// A filter of more than 4 GiB cannot be addressed in WebAssembly.
fn check_address_space(kind: Kind, sizing: &Sizing, keys: u64) -> Result<(), JsValue> {
    let figures = kind.plan(sizing.goal(keys), sizing.get_settings()).map_err(raise)?;
    if figures.bytes >= 1 << 32 {
        return Err(out_of_memory(&format!(
            "a filter of {} bytes does not fit in the 4 GiB of memory of WebAssembly",
            figures.bytes
        )));
    }
    Ok(())
}

fn random_seed() -> Result<[u64; 2], JsValue> {
    let word = || getrandom::u64().map_err(|_| invalid("there are no random bits for a seed"));
    Ok([word()?, word()?])
}

/// Reads a seed of 128 bits.
fn parse_seed(value: JsValue) -> Result<[u64; 2], JsValue> {
    u128::try_from(value)
        .map(|seed| [(seed >> 64) as u64, seed as u64])
        .map_err(|_| invalid("the seed must be a bigint of at most 128 bits"))
}

/// Returns a seed as a bigint of 128 bits.
pub(crate) fn show_seed([high, low]: [u64; 2]) -> BigInt {
    BigInt::from(u128::from(high) << 64 | u128::from(low))
}
