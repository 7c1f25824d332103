//! The class `Filter`.

use js_sys::{Array, BigInt, Uint8Array};
use tamis::{AnyFilter, Key as _, KeyForms, KeyHash, Keyed, Persist, Repair, SettingValue};
use wasm_bindgen::prelude::*;

use crate::errors::{invalid, raise};
use crate::keys::{Key, Keys, with_key, with_keys};
use crate::options::{builder, show_seed};
use crate::plan::figures;
use crate::{number, object, strings};

/// A filter of any kind. An operation that its kind lacks throws an `UnsupportedError`.
#[wasm_bindgen]
pub struct Filter {
    keyed: Keyed<AnyFilter>,
}

impl From<Keyed<AnyFilter>> for Filter {
    fn from(keyed: Keyed<AnyFilter>) -> Self {
        Self { keyed }
    }
}

impl Filter {
    pub(crate) fn keyed(&self) -> &Keyed<AnyFilter> {
        &self.keyed
    }

    /// Reads a key that is looked up, which must be of a form that the filter can hold.
    fn query_key(&self, key: &JsValue) -> Result<Key, JsValue> {
        let key = Key::new(key)?;
        self.keyed.check_key_form(key.forms()).map_err(raise)?;
        Ok(key)
    }

    fn query_keys(&self, keys: &JsValue) -> Result<Keys, JsValue> {
        let keys = Keys::new(keys)?;
        self.keyed.check_key_form(keys.forms()).map_err(raise)?;
        Ok(keys)
    }
}

/// Returns a count, which is infinite if it exceeds what the kind can state.
fn show_count(count: u64) -> f64 {
    if count == u64::MAX { f64::INFINITY } else { count as f64 }
}

fn flags(flags: &[bool]) -> Vec<u8> {
    flags.iter().map(|flag| u8::from(*flag)).collect()
}

fn value(value: JsValue) -> Result<u64, JsValue> {
    match Key::new(&value) {
        Ok(Key::Integer(value)) => Ok(value),
        _ => Err(invalid("a value must be an integer of at most 64 bits")),
    }
}

#[wasm_bindgen]
impl Filter {
    /// Makes an empty filter, to insert into. Most kinds need a `capacity`.
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(unchecked_param_type = "KindName")] kind: &str,
        #[wasm_bindgen(unchecked_optional_param_type = "Options")] options: &JsValue,
    ) -> Result<Self, JsValue> {
        let keyed = builder(kind, options)?.empty().map_err(raise)?;
        Ok(Self { keyed })
    }

    /// Builds a filter of all keys. Static kinds can be made only so.
    pub fn build(
        #[wasm_bindgen(unchecked_param_type = "KindName")] kind: &str,
        #[wasm_bindgen(unchecked_param_type = "Keys")] keys: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Options")] options: &JsValue,
    ) -> Result<Self, JsValue> {
        let (builder, keys) = (builder(kind, options)?, Keys::new(keys)?);
        let keyed = with_keys!(keys, keys => builder.build(keys));
        Ok(Self { keyed: keyed.map_err(raise)? })
    }

    /// Builds a map of keys and values: `values[i]` is the value of `keys[i]`.
    #[wasm_bindgen(js_name = buildMap)]
    pub fn build_map(
        #[wasm_bindgen(unchecked_param_type = "KindName")] kind: &str,
        #[wasm_bindgen(unchecked_param_type = "Keys")] keys: &JsValue,
        #[wasm_bindgen(
            unchecked_param_type = "readonly (number | bigint)[] | BigUint64Array | Uint32Array"
        )]
        values: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Options")] options: &JsValue,
    ) -> Result<Self, JsValue> {
        let (builder, keys) = (builder(kind, options)?, Keys::new(keys)?);
        let values = match Keys::new(values)? {
            Keys::Integers(values) => values,
            keys if keys.slices().is_empty() => Vec::new(),
            _ => return Err(invalid("the values must be integers")),
        };
        let keyed = with_keys!(keys, keys => {
            if keys.len() != values.len() {
                return Err(invalid("there must be one value for each key"));
            }
            builder.build_map(keys.iter().zip(values))
        });
        Ok(Self { keyed: keyed.map_err(raise)? })
    }

    /// Builds a filter of all keys that rejects every key of `denied`.
    #[wasm_bindgen(js_name = buildDenying)]
    pub fn build_denying(
        #[wasm_bindgen(unchecked_param_type = "KindName")] kind: &str,
        #[wasm_bindgen(unchecked_param_type = "Keys")] keys: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Keys")] denied: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Options")] options: &JsValue,
    ) -> Result<Self, JsValue> {
        let builder = builder(kind, options)?;
        let keyed = match (Keys::new(keys)?, Keys::new(denied)?) {
            (Keys::Integers(keys), Keys::Integers(denied)) => builder.build_denying(keys, denied),
            (Keys::Integers(keys), Keys::Joined(_, 0)) => builder.build_denying(keys, Vec::new()),
            (keys, denied) if [keys.forms(), denied.forms()] == [KeyForms::BYTES; 2] => {
                builder.build_denying(keys.slices(), denied.slices())
            }
            (keys, denied) => builder.build_denying(keys.separate(), denied.separate()),
        };
        Ok(Self { keyed: keyed.map_err(raise)? })
    }

    /// Reads a filter from the bytes of a `.tamis` file, and checks every byte.
    #[wasm_bindgen(js_name = fromBytes)]
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, JsValue> {
        Ok(Self { keyed: Keyed::from_bytes(bytes).map_err(raise)? })
    }

    /// Returns the bytes of a `.tamis` file.
    #[wasm_bindgen(js_name = toBytes)]
    pub fn to_bytes(&self) -> Result<Uint8Array, JsValue> {
        Ok(Uint8Array::from(&self.keyed.to_bytes().map_err(raise)?[..]))
    }

    /// Returns the length of the filter's `.tamis` file.
    #[wasm_bindgen(getter, js_name = serializedLength)]
    pub fn serialized_length(&self) -> f64 {
        self.keyed.serialized_len() as f64
    }

    /// Returns a copy.
    pub fn clone(&self) -> Result<Self, JsValue> {
        Ok(Self { keyed: self.keyed.try_clone().map_err(raise)? })
    }

    /// Returns an empty filter of the same shape, hash and seed: the two can be merged if the kind can merge.
    #[wasm_bindgen(js_name = emptyLike)]
    pub fn empty_like(&self) -> Result<Self, JsValue> {
        Ok(Self { keyed: self.keyed.empty_like().map_err(raise)? })
    }

    /// Removes all keys, and keeps shape, hash and seed.
    pub fn clear(&mut self) -> Result<(), JsValue> {
        self.keyed.clear().map_err(raise)
    }

    /// The kind of the filter.
    #[wasm_bindgen(getter, unchecked_return_type = "KindName")]
    pub fn kind(&self) -> String {
        self.keyed.kind().name().into()
    }

    /// What the kind can do beyond answering queries.
    #[wasm_bindgen(getter, unchecked_return_type = "Capability[]")]
    pub fn capabilities(&self) -> JsValue {
        strings(self.keyed.kind().capabilities().iter().map(|capability| capability.name()))
    }

    /// The number of keys in the filter, as its kind counts them.
    #[wasm_bindgen(getter)]
    pub fn length(&self) -> f64 {
        self.keyed.len() as f64
    }

    /// The number of keys that the filter is made for.
    #[wasm_bindgen(getter)]
    pub fn capacity(&self) -> f64 {
        self.keyed.capacity() as f64
    }

    /// The expected false positive rate with the present number of keys.
    #[wasm_bindgen(getter)]
    pub fn fpr(&self) -> f64 {
        self.keyed.fpr()
    }

    /// The present size of the tables in bytes.
    #[wasm_bindgen(getter)]
    pub fn bytes(&self) -> f64 {
        self.keyed.filter().bytes() as f64
    }

    /// Size, rate and cost at the capacity of the filter.
    #[wasm_bindgen(getter, unchecked_return_type = "Figures")]
    pub fn figures(&self) -> JsValue {
        object(&figures(&self.keyed.figures()))
    }

    /// The parameters of the tables, by name.
    #[wasm_bindgen(getter, unchecked_return_type = "Record<string, number | string>")]
    pub fn parameters(&self) -> JsValue {
        let parameters = self.keyed.filter().parameters();
        let show = |value: &SettingValue| match value {
            SettingValue::Integer(value) => number(*value),
            SettingValue::Real(value) => (*value).into(),
            value => value.to_string().into(),
        };
        let properties: Vec<_> =
            parameters.iter().map(|(name, value)| (*name, show(value))).collect();
        object(&properties)
    }

    /// The hash function: one of tamis, such as `fast`, or that of another program.
    #[wasm_bindgen(getter)]
    pub fn hash(&self) -> String {
        self.keyed.hasher().id().name().into()
    }

    /// The seed of the hash function. Filters can be merged only if they have the same seed. Keep it secret
    /// if others choose the keys.
    #[wasm_bindgen(getter)]
    pub fn seed(&self) -> BigInt {
        show_seed(self.keyed.hasher().seed())
    }

    /// The forms of the keys in the filter.
    #[wasm_bindgen(getter, js_name = keyForms)]
    pub fn key_forms(&self) -> String {
        self.keyed.key_forms().to_string()
    }

    /// Returns whether the key may be a member. `false` is certain.
    pub fn contains(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Key")] key: &JsValue,
    ) -> Result<bool, JsValue> {
        let key = self.query_key(key)?;
        Ok(with_key!(key, key => self.keyed.contains(key)))
    }

    /// Returns for each key 1 if it may be a member, and 0 if it certainly is not.
    #[wasm_bindgen(js_name = containsBatch)]
    pub fn contains_batch(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Keys")] keys: &JsValue,
    ) -> Result<Vec<u8>, JsValue> {
        let keys = self.query_keys(keys)?;
        Ok(flags(&with_keys!(keys, keys => self.keyed.contains_batch(keys))))
    }

    /// Returns whether a key from `first` to `last`, both included, may be a member. Only kinds with the
    /// capability `range` can.
    #[wasm_bindgen(js_name = containsRange)]
    pub fn contains_range(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Key")] first: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Key")] last: &JsValue,
    ) -> Result<bool, JsValue> {
        let range = self.keyed.filter().as_range().map_err(raise)?;
        self.keyed.kind().check_hash(self.keyed.hasher().id()).map_err(raise)?;
        let keys = [self.query_key(first)?, self.query_key(last)?];
        let reversed = match &keys {
            [Key::Bytes(first), Key::Bytes(last)] => first > last,
            _ => first.gt(last),
        };
        if reversed {
            return Err(raise(tamis::Error::ReversedRange));
        }
        let [first, last] = keys.map(|key| self.keyed.hash(&key).hi);
        Ok(range.contains_range(first, last))
    }

    /// Inserts a key. A `FullError` leaves the filter unchanged.
    pub fn insert(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Key")] key: &JsValue,
    ) -> Result<(), JsValue> {
        with_key!(Key::new(key)?, key => self.keyed.insert(key)).map_err(raise)
    }

    /// Inserts a key unless the filter seems to hold it. Returns whether it was certainly new.
    #[wasm_bindgen(js_name = insertNew)]
    pub fn insert_new(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Key")] key: &JsValue,
    ) -> Result<bool, JsValue> {
        with_key!(Key::new(key)?, key => self.keyed.insert_new(key)).map_err(raise)
    }

    /// Inserts keys. The `inserted` of a `FullError` states how many are in.
    #[wasm_bindgen(js_name = insertBatch)]
    pub fn insert_batch(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Keys")] keys: &JsValue,
    ) -> Result<(), JsValue> {
        with_keys!(Keys::new(keys)?, keys => self.keyed.insert_batch(keys)).map_err(raise)
    }

    /// Inserts the keys that the filter does not seem to hold. Returns 1 for each that was certainly new.
    #[wasm_bindgen(js_name = insertNewBatch)]
    pub fn insert_new_batch(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Keys")] keys: &JsValue,
    ) -> Result<Vec<u8>, JsValue> {
        let new = with_keys!(Keys::new(keys)?, keys => self.keyed.insert_new_batch(keys));
        Ok(flags(&new.map_err(raise)?))
    }

    /// Removes a key that was inserted. Returns `false` if it was certainly not in.
    pub fn remove(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Key")] key: &JsValue,
    ) -> Result<bool, JsValue> {
        with_key!(self.query_key(key)?, key => self.keyed.remove(key)).map_err(raise)
    }

    /// Removes keys. Returns 0 for each that was certainly not in.
    #[wasm_bindgen(js_name = removeBatch)]
    pub fn remove_batch(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Keys")] keys: &JsValue,
    ) -> Result<Vec<u8>, JsValue> {
        let removed = with_keys!(self.query_keys(keys)?, keys => self.keyed.remove_batch(keys));
        Ok(flags(&removed.map_err(raise)?))
    }

    /// Returns how often a key was inserted, at least; `Infinity` if the count exceeds what the kind can
    /// state.
    pub fn count(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Key")] key: &JsValue,
    ) -> Result<f64, JsValue> {
        let count = with_key!(self.query_key(key)?, key => self.keyed.count(key));
        count.map(show_count).map_err(raise)
    }

    /// Returns the counts of keys.
    #[wasm_bindgen(js_name = countBatch)]
    pub fn count_batch(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Keys")] keys: &JsValue,
    ) -> Result<Vec<f64>, JsValue> {
        let counts = with_keys!(self.query_keys(keys)?, keys => self.keyed.count_batch(keys));
        Ok(counts.map_err(raise)?.into_iter().map(show_count).collect())
    }

    /// Returns the value of a key of a map, or `undefined` if it is certainly not in.
    pub fn get(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Key")] key: &JsValue,
    ) -> Result<Option<u64>, JsValue> {
        with_key!(self.query_key(key)?, key => self.keyed.get(key)).map_err(raise)
    }

    /// Returns the values of keys.
    #[wasm_bindgen(js_name = getBatch, unchecked_return_type = "(bigint | undefined)[]")]
    pub fn get_batch(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Keys")] keys: &JsValue,
    ) -> Result<Array, JsValue> {
        let values = with_keys!(self.query_keys(keys)?, keys => self.keyed.get_batch(keys));
        Ok(values.map_err(raise)?.into_iter().map(JsValue::from).collect())
    }

    /// Replaces the value of a key of a map. Returns the previous value.
    pub fn set(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Key")] key: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "number | bigint")] to: JsValue,
    ) -> Result<Option<u64>, JsValue> {
        let to = value(to)?;
        with_key!(self.query_key(key)?, key => self.keyed.set(key, to)).map_err(raise)
    }

    /// Pushes a key into a window. Returns whether it seemed to be in.
    pub fn push(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Key")] key: &JsValue,
    ) -> Result<bool, JsValue> {
        with_key!(Key::new(key)?, key => self.keyed.push(key)).map_err(raise)
    }

    /// Pushes keys into a window. Returns 1 for each that seemed to be in.
    #[wasm_bindgen(js_name = pushBatch)]
    pub fn push_batch(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Keys")] keys: &JsValue,
    ) -> Result<Vec<u8>, JsValue> {
        let seen = with_keys!(Keys::new(keys)?, keys => self.keyed.push_batch(keys));
        Ok(flags(&seen.map_err(raise)?))
    }

    /// Sets the time of a window, in ticks.
    pub fn advance(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "number | bigint")] now: JsValue,
    ) -> Result<(), JsValue> {
        self.keyed.advance(value(now)?).map_err(raise)
    }

    /// Makes the filter deny `stranger`, a non-member that it reported as a member. `members` are all keys
    /// of the filter. Returns what was done.
    #[wasm_bindgen(
        unchecked_return_type = "\"not needed\" | \"extended\" | \"rehashed\" | \"impossible\""
    )]
    pub fn adapt(
        &mut self,
        #[wasm_bindgen(unchecked_param_type = "Key")] stranger: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Keys")] members: &JsValue,
    ) -> Result<String, JsValue> {
        let (stranger, members) = (self.query_key(stranger)?, self.query_keys(members)?);
        let suspects = with_key!(stranger, key => self.keyed.suspects(key)).map_err(raise)?;
        let hasher = *self.keyed.hasher();
        let hashes: Vec<KeyHash> = with_keys!(members, keys => {
            let hashes = keys.iter().map(|key| key.hash_with(&hasher));
            hashes.filter(|hash| suspects.contains(&hash.hi)).collect()
        });
        let repair = with_key!(stranger, key => self.keyed.adapt(key, &hashes)).map_err(raise)?;
        Ok(match repair {
            Repair::NotNeeded => "not needed",
            Repair::Extended => "extended",
            Repair::Rehashed => "rehashed",
            _ => "impossible",
        }
        .into())
    }

    /// Adds the keys of `other`, which must have the same kind, shape, hash and seed.
    pub fn merge(&mut self, other: &Self) -> Result<(), JsValue> {
        self.keyed.merge(&other.keyed).map_err(raise)
    }

    /// Keeps the keys that may be in both filters.
    pub fn intersect(&mut self, other: &Self) -> Result<(), JsValue> {
        self.keyed.intersect(&other.keyed).map_err(raise)
    }

    /// Returns how alike both filters are: 0 for nothing in common, 1 for equal.
    pub fn similarity(&self, other: &Self) -> Result<f64, JsValue> {
        self.keyed.similarity(&other.keyed).map_err(raise)
    }

    /// Estimates the number of distinct keys.
    pub fn cardinality(&self) -> Result<f64, JsValue> {
        self.keyed.cardinality().map_err(raise)
    }
}
