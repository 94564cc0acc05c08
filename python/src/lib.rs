//! The module `apus._apus`, the part of Apus's Python package that is in Rust. The package's Python
//! files say what users see; this module converts values, and starts and watches the work.
//!
//! | module | what it does |
//! |---|---|
//! | `error` | turns an error into the exception that names who is to blame |
//! | `command` | runs a command of the program, shows progress, and stops it on Ctrl-C |
//! | `block` | blocks, transactions, inputs, outputs and coins as Python objects |
//! | `table` | tables by Arrow's C stream interface |
//! | `reader` | a directory that stays open for reading |
//!
//! Without the feature `module` this crate is empty (Cargo.toml says why).
#![cfg(feature = "module")]

mod error;
mod command;
mod block;
mod table;
mod reader;

use pyo3::prelude::*;

/// The part of the package that is in Rust.
#[pymodule]
fn _apus(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(command::run, module)?)?;
    module.add_class::<block::Block>()?;
    module.add_class::<block::Header>()?;
    module.add_class::<block::Transaction>()?;
    module.add_class::<block::Input>()?;
    module.add_class::<block::Output>()?;
    module.add_class::<block::Coin>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<reader::Reader>()
}
