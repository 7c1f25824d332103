//! The cells of a filter, and those that a lookup reads.

use js_sys::{Array, BigUint64Array, Uint8Array, Uint32Array};
use tamis::{CellTable, Step};
use wasm_bindgen::prelude::*;

use crate::errors::raise;
use crate::filter::Filter;
use crate::keys::{Key, with_key};
use crate::{number, object, strings};

fn table(table: &CellTable) -> JsValue {
    let mut roles: Vec<&str> = Vec::new();
    let role = |role: &'static str| match roles.iter().position(|known| *known == role) {
        Some(index) => index as u8,
        None => {
            roles.push(role);
            roles.len() as u8 - 1
        }
    };
    let indexes: Vec<u8> = table.cells.iter().map(|cell| cell.role).map(role).collect();
    let rows: Vec<u32> = table.cells.iter().map(|cell| cell.row as u32).collect();
    let widths: Vec<u8> = table.cells.iter().map(|cell| cell.width as u8).collect();
    let values: Vec<u64> = table.cells.iter().map(|cell| cell.value).collect();
    object(&[
        ("name", table.name.into()),
        ("rowName", table.row.into()),
        ("roles", strings(roles)),
        ("role", Uint8Array::from(&indexes[..]).into()),
        ("row", Uint32Array::from(&rows[..]).into()),
        ("width", Uint8Array::from(&widths[..]).into()),
        ("value", BigUint64Array::from(&values[..]).into()),
    ])
}

fn step(step: &Step) -> JsValue {
    let cells: Vec<u32> = step.cells.iter().map(|cell| *cell as u32).collect();
    object(&[
        ("what", step.what.into()),
        ("table", number(step.table as u64)),
        ("cells", Uint32Array::from(&cells[..]).into()),
        ("wanted", step.wanted.into()),
        ("matches", step.matches.into()),
    ])
}

#[wasm_bindgen]
impl Filter {
    /// Returns the memory of a filter of at most 16 KiB as cells, for drawings. Some kinds have this.
    #[wasm_bindgen(unchecked_return_type = "CellTable[]")]
    pub fn cells(&self) -> Result<Array, JsValue> {
        let tables = self.keyed().filter().cells().map_err(raise)?;
        Ok(tables.iter().map(table).collect())
    }

    /// Returns the steps of a lookup: which cells it reads, and what they must hold.
    #[wasm_bindgen(unchecked_return_type = "Step[]")]
    pub fn path(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Key")] key: &JsValue,
    ) -> Result<Array, JsValue> {
        let hash = with_key!(Key::new(key)?, key => self.keyed().hash(key));
        let steps = self.keyed().filter().path(hash).map_err(raise)?;
        Ok(steps.iter().map(step).collect())
    }

    /// Returns the 128 bits of a key's hash.
    #[wasm_bindgen(js_name = hashOf, unchecked_return_type = "{ hi: bigint; lo: bigint }")]
    pub fn hash_of(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Key")] key: &JsValue,
    ) -> Result<JsValue, JsValue> {
        let hash = with_key!(Key::new(key)?, key => self.keyed().hash(key));
        Ok(object(&[("hi", hash.hi.into()), ("lo", hash.lo.into())]))
    }
}

#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = r#"
/** An array of a filter as cells; entry `i` of each array belongs to cell `i`. */
export interface CellTable {
    name: string;
    /** What a row is: `bucket`, `block`, `bin`, … */
    rowName: string;
    /** The names of the roles. */
    roles: string[];
    /** The index of the cell's role in `roles`. */
    role: Uint8Array;
    row: Uint32Array;
    /** In bits; 0 if the cell is empty. */
    width: Uint8Array;
    value: BigUint64Array;
}
/** A step of a lookup. */
export interface Step {
    what: string;
    /** The index of the table. */
    table: number;
    /** The indexes of the cells that are read. */
    cells: Uint32Array;
    /** The value that the lookup compares with. */
    wanted: bigint;
    matches: boolean;
}
"#;
