//! The filters of tamis for browsers and Node: the npm package `tamis`.
//!
//! This crate translates types and errors. It holds no algorithm. `package/` has the rest of the npm
//! package: the entry points, the error classes and what reads arrays of strings.

mod errors;
mod filter;
mod foreign;
mod inspect;
mod keys;
mod options;
mod plan;

pub use filter::Filter;
pub use foreign::import_filter;
pub use plan::{kinds, peek, plan};

use js_sys::{Array, Object, Reflect};
use wasm_bindgen::JsValue;

/// Returns a JavaScript object with these properties.
fn object(properties: &[(&str, JsValue)]) -> JsValue {
    let object = Object::new();
    for (name, value) in properties {
        // Setting a property of a fresh object cannot fail.
        let _ = Reflect::set(&object, &JsValue::from_str(name), value);
    }
    object.into()
}

/// Returns a JavaScript array of these strings.
fn strings<'a>(strings: impl IntoIterator<Item = &'a str>) -> JsValue {
    strings.into_iter().map(JsValue::from_str).collect::<Array>().into()
}

/// Returns a number of keys or bytes as JavaScript has it: exact up to 2^53, which is beyond all limits.
fn number(value: u64) -> JsValue {
    JsValue::from_f64(value as f64)
}
