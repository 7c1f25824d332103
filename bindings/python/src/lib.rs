//! The extension module of the Python package `tamis`: it translates types and errors, and holds no
//! algorithm.
//!
//! | module | contents |
//! | --- | --- |
//! | `errors` | errors of the library as exceptions |
//! | `keys` | one key: `str`, `bytes` or `int` to its hash |
//! | `arrow` | Arrow arrays through the PyCapsule interface |
//! | `column` | many keys: NumPy, Arrow, iterables |
//! | `batch` | operations on many keys, without the interpreter |
//! | `lock`, `handle` | a filter behind a lock |
//! | `options` | arguments that several functions take |
//! | `show` | filters as text and HTML |
//! | `any`, `filter`, `map`, `window`, `dictionary` | the classes |
//! | `build`, `foreign`, `plan`, `parts` | the functions |

mod any;
mod arrow;
mod batch;
mod build;
mod column;
mod dictionary;
mod errors;
mod filter;
mod foreign;
mod handle;
mod keys;
mod lock;
mod map;
mod options;
mod parts;
mod plan;
mod show;
mod window;

use pyo3::prelude::*;

/// The compiled part of the package `tamis`.
#[pymodule(gil_used = false)]
mod _tamis {
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name that Python packages use")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::any::{PyAnyFilter, from_buffer, from_bytes, open};
    #[pymodule_export]
    use crate::build::build;
    #[pymodule_export]
    use crate::dictionary::{PyDictionary, PyEntries};
    #[pymodule_export]
    use crate::filter::PyFilter;
    #[pymodule_export]
    use crate::foreign::import_filter;
    #[pymodule_export]
    use crate::map::PyMap;
    #[pymodule_export]
    use crate::parts::{assemble, count_part, digests, from_template, solve_part, template};
    #[pymodule_export]
    use crate::plan::{kinds, rank};
    #[pymodule_export]
    use crate::window::PyWindow;
}
