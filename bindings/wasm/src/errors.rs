//! Errors of the library as subclasses of the JavaScript class `TamisError`.

use tamis::{Error, ErrorKind};
use wasm_bindgen::prelude::*;

#[wasm_bindgen(raw_module = "./errors.js")]
extern "C" {
    /// Returns an error of the class with this name.
    #[wasm_bindgen(js_name = makeError)]
    pub(crate) fn make_error(class: &str, message: &str, inserted: Option<f64>) -> JsValue;
}

/// Returns an error of the library as one of JavaScript.
pub(crate) fn raise(error: Error) -> JsValue {
    let class = match error.kind() {
        ErrorKind::Full => "FullError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Mismatch => "MismatchError",
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::OutOfMemory => "OutOfMemoryError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::InvalidInput => "InvalidInputError",
        _ => "TamisError",
    };
    let inserted = match error {
        Error::Full { inserted } => Some(inserted as f64),
        _ => None,
    };
    make_error(class, &error.to_string(), inserted)
}

/// Returns an `InvalidInputError`.
pub(crate) fn invalid(message: &str) -> JsValue {
    make_error("InvalidInputError", message, None)
}

/// Returns an `OutOfMemoryError`.
pub(crate) fn out_of_memory(message: &str) -> JsValue {
    make_error("OutOfMemoryError", message, None)
}
