//! Filters of other programs, in their own bytes: `importFilter` and `exportTo`.

use js_sys::Uint8Array;
use tamis::{AnyFilter, Keyed};
use tamis_interop::{Error, Foreign, Format};
use wasm_bindgen::prelude::*;

use crate::Filter;
use crate::errors::{invalid, make_error, raise};
use crate::options::fields;

/// Returns an error of the formats as one of JavaScript.
fn raise_foreign(error: Error) -> JsValue {
    let message = error.to_string();
    let class = match error {
        Error::Filter(error) => return raise(error),
        Error::Malformed { .. } => "CorruptError",
        Error::Unsuitable { .. } => "MismatchError",
        _ => "InvalidInputError",
    };
    make_error(class, &message, None)
}

fn parse_format(name: &str) -> Result<Format, JsValue> {
    name.parse().map_err(raise_foreign)
}

/// Returns the one format whose structure the bytes have.
fn recognise(bytes: &[u8]) -> Result<Format, JsValue> {
    let found = Format::recognise(bytes);
    let names = |formats: &[Format]| {
        formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
    };
    Err(invalid(&match found[..] {
        [format] => return Ok(format),
        [] => format!(
            "the format is not recognised; if it is one of these, state it as `format`: {}",
            names(Format::ALL)
        ),
        _ => format!("the bytes fit several formats; state one as `format`: {}", names(&found)),
    }))
}

/// Reads a filter of another program from its bytes. The filter answers as it does in its program. Without
/// `format` the format is recognised, except that of rbloom.
#[wasm_bindgen(js_name = importFilter)]
pub fn import_filter(
    bytes: &[u8],
    #[wasm_bindgen(unchecked_optional_param_type = "{ format?: FormatName }")] options: &JsValue,
) -> Result<Filter, JsValue> {
    let stated = fields(options, &["format"])?("format")?;
    let format = match stated.as_string() {
        Some(name) => parse_format(&name)?,
        None if stated.is_undefined() => recognise(bytes)?,
        None => return Err(invalid("format must be a string")),
    };
    Ok(Filter::from(Keyed::<AnyFilter>::import(format, bytes).map_err(raise_foreign)?))
}

#[wasm_bindgen]
impl Filter {
    /// Returns the bytes of the filter in the format of another program. A filter can be written in the format
    /// that it was imported from.
    #[wasm_bindgen(js_name = exportTo)]
    pub fn export_to(
        &self,
        #[wasm_bindgen(unchecked_param_type = "FormatName")] format: &str,
    ) -> Result<Uint8Array, JsValue> {
        let bytes = self.keyed().export(parse_format(format)?).map_err(raise_foreign)?;
        Ok(Uint8Array::from(&bytes[..]))
    }
}

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** A format of another program. */
export type FormatName =
    | "parquet" | "spark_v1" | "spark_v2" | "guava" | "fuse8" | "fuse16" | "rbloom" | "dcso"
    | "datasketches" | "redisbloom" | "bloomfilter";
"#;
