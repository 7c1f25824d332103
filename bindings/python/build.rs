//! Passes on what pyo3 knows about the interpreter, such as whether it has a global lock.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
