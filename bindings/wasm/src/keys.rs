//! Keys of JavaScript: strings and `Uint8Array`s by their bytes, integers by value.

use js_sys::{Array, BigInt64Array, BigUint64Array, Int32Array, Reflect, Uint8Array, Uint32Array};
use tamis::{KeyForms, KeyHash, KeyHasher};
use wasm_bindgen::prelude::*;

use crate::errors::invalid;

#[wasm_bindgen(raw_module = "./keys.js")]
extern "C" {
    /// Returns the strings as UTF-8 with zeros between them, or `undefined` if a key is not a string.
    #[wasm_bindgen(js_name = joinStrings)]
    fn join_strings(keys: &Array) -> Option<Uint8Array>;
}

/// The largest integer up to which every `number` is exact.
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// One key.
pub(crate) enum Key {
    Bytes(Vec<u8>),
    Integer(u64),
}

impl Key {
    pub(crate) fn new(value: &JsValue) -> Result<Self, JsValue> {
        if let Some(text) = value.as_string() {
            return Ok(Self::Bytes(text.into_bytes()));
        }
        if let Some(number) = value.as_f64() {
            return integer(number).map(Self::Integer);
        }
        if value.is_bigint() {
            let signed = i64::try_from(value.clone()).map(|key| key as u64);
            let key = signed.or_else(|value| u64::try_from(value));
            return key
                .map(Self::Integer)
                .map_err(|_| invalid("an integer key must have at most 64 bits"));
        }
        if let Some(bytes) = value.dyn_ref::<Uint8Array>() {
            return Ok(Self::Bytes(bytes.to_vec()));
        }
        Err(invalid("a key must be a string, an integer (number or bigint) or a Uint8Array"))
    }

    pub(crate) fn forms(&self) -> KeyForms {
        match self {
            Self::Bytes(_) => KeyForms::BYTES,
            Self::Integer(_) => KeyForms::INTEGERS,
        }
    }
}

/// A key among others of any form.
impl tamis::Key for Key {
    const FORM: KeyForms = KeyForms::BYTES.union(KeyForms::INTEGERS);

    fn hash_with(&self, hasher: &KeyHasher) -> KeyHash {
        match self {
            Self::Bytes(bytes) => hasher.bytes(bytes),
            Self::Integer(integer) => hasher.int(*integer),
        }
    }
}

fn integer(number: f64) -> Result<u64, JsValue> {
    if number.fract() != 0.0 || number.abs() > MAX_SAFE_INTEGER {
        return Err(invalid(&format!(
            "the key {number} is not an integer that a number holds exactly: use a bigint"
        )));
    }
    Ok(number as i64 as u64)
}

/// Many keys.
pub(crate) enum Keys {
    /// Strings with zeros between them, and their number.
    Joined(Vec<u8>, usize),
    /// The lines of a text.
    Lines(Vec<u8>),
    Separate(Vec<Vec<u8>>),
    Integers(Vec<u64>),
    /// Keys of both forms.
    Mixed(Vec<Key>),
}

impl Keys {
    pub(crate) fn new(value: &JsValue) -> Result<Self, JsValue> {
        if let Some(keys) = value.dyn_ref::<BigUint64Array>() {
            return Ok(Self::Integers(keys.to_vec()));
        }
        if let Some(keys) = value.dyn_ref::<BigInt64Array>() {
            return Ok(Self::Integers(keys.to_vec().into_iter().map(|key| key as u64).collect()));
        }
        if let Some(keys) = value.dyn_ref::<Uint32Array>() {
            return Ok(Self::Integers(keys.to_vec().into_iter().map(u64::from).collect()));
        }
        if let Some(keys) = value.dyn_ref::<Int32Array>() {
            let extend = |key| i64::from(key) as u64;
            return Ok(Self::Integers(keys.to_vec().into_iter().map(extend).collect()));
        }
        if let Some(keys) = value.dyn_ref::<Array>() {
            return Self::from_array(keys);
        }
        if value.is_object()
            && let Some(text) = Reflect::get(value, &"lines".into())?.dyn_ref::<Uint8Array>()
        {
            return Ok(Self::Lines(text.to_vec()));
        }
        Err(invalid(
            "keys must be an array, a BigUint64Array, a BigInt64Array, a Uint32Array, an Int32Array, or \
             { lines: Uint8Array }",
        ))
    }

    fn from_array(keys: &Array) -> Result<Self, JsValue> {
        let count = keys.length() as usize;
        if let Some(text) = join_strings(keys) {
            let text = text.to_vec();
            let zeros = text.iter().filter(|byte| **byte == 0).count();
            if zeros + 1 == count.max(1) {
                return Ok(Self::Joined(text, count));
            }
        }
        let all = keys.iter().map(|key| Key::new(&key)).collect::<Result<Vec<_>, _>>()?;
        let integers = all.iter().filter(|key| matches!(key, Key::Integer(_))).count();
        if integers == 0 {
            let bytes = |key| if let Key::Bytes(bytes) = key { Some(bytes) } else { None };
            return Ok(Self::Separate(all.into_iter().filter_map(bytes).collect()));
        }
        if integers == count {
            let value = |key| if let Key::Integer(value) = key { Some(value) } else { None };
            return Ok(Self::Integers(all.into_iter().filter_map(value).collect()));
        }
        Ok(Self::Mixed(all))
    }

    pub(crate) fn forms(&self) -> KeyForms {
        match self {
            Self::Integers(_) => KeyForms::INTEGERS,
            Self::Mixed(_) => <Key as tamis::Key>::FORM,
            _ => KeyForms::BYTES,
        }
    }

    /// Returns the keys one by one.
    pub(crate) fn separate(self) -> Vec<Key> {
        match self {
            Self::Integers(keys) => keys.into_iter().map(Key::Integer).collect(),
            Self::Mixed(keys) => keys,
            keys => keys.slices().into_iter().map(|key| Key::Bytes(key.to_vec())).collect(),
        }
    }

    /// Returns the keys if all of them are bytes, and none otherwise.
    pub(crate) fn slices(&self) -> Vec<&[u8]> {
        match self {
            Self::Joined(_, 0) | Self::Integers(_) | Self::Mixed(_) => Vec::new(),
            Self::Joined(text, _) => text.split(|byte| *byte == 0).collect(),
            Self::Lines(text) => lines(text).collect(),
            Self::Separate(keys) => keys.iter().map(Vec::as_slice).collect(),
        }
    }
}

/// Returns the lines of a text as the command `tamis` reads them: without the ends of lines.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ended = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = (!text.is_empty()).then(|| ended.split(|byte| *byte == b'\n'));
    lines.into_iter().flatten().map(|line| line.strip_suffix(b"\r").unwrap_or(line))
}

/// Evaluates an expression with the bytes or the integer of a [`Key`].
macro_rules! with_key {
    ($key:expr, $name:ident => $body:expr) => {
        match &$key {
            $crate::keys::Key::Bytes($name) => $body,
            $crate::keys::Key::Integer($name) => $body,
        }
    };
}
pub(crate) use with_key;

/// Evaluates an expression with a slice of the keys: bytes, integers or both.
macro_rules! with_keys {
    ($keys:expr, $name:ident => $body:expr) => {
        match &$keys {
            $crate::keys::Keys::Integers(keys) => {
                let $name = &keys[..];
                $body
            }
            $crate::keys::Keys::Mixed(keys) => {
                let $name = &keys[..];
                $body
            }
            keys => {
                let $name = &keys.slices()[..];
                $body
            }
        }
    };
}
pub(crate) use with_keys;
