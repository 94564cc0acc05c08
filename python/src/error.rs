//! Exceptions. Their classes are defined in `apus/_errors.py`.

use apus::{StoreError, SyncError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

pub fn exception(py: Python<'_>, error: &SyncError) -> PyErr {
    build(py, error).unwrap_or_else(|wrong| wrong)
}

fn build(py: Python<'_>, error: &SyncError) -> PyResult<PyErr> {
    let about = PyDict::new(py);
    let mut cause = error;
    if let SyncError::Differs { error, differences } = error {
        let coins = differences.coins.iter().map(|coin| {
            let outpoint = &coin.outpoint;
            let kind = coin.kind.name();
            (outpoint.txid.to_string(), outpoint.vout, coin.height, kind, coin.to_string())
        });
        about.set_item("differences", coins.collect::<Vec<_>>())?;
        about.set_item("more_differences", differences.are_more)?;
        cause = error;
    }
    let class = match cause {
        SyncError::Store(store) => {
            about.set_item("path", store.path.as_os_str())?;
            about.set_item("offset", store.offset)?;
            about
                .set_item("errno", store.source.as_ref().and_then(std::io::Error::raw_os_error))?;
            class_of(store)
        }
        SyncError::Hints { path, .. } => {
            about.set_item("path", path.as_os_str())?;
            "HintsError"
        }
        SyncError::Snapshot { path, .. } => {
            about.set_item("path", path.as_os_str())?;
            "SnapshotError"
        }
        SyncError::Refused(refusal) => {
            about.set_item("block", refusal.block.map(|block| block.to_string()))?;
            about.set_item("reason", &refusal.reason)?;
            about.set_item("path", refusal.path.as_ref().map(|path| path.as_os_str()))?;
            about.set_item("offset", refusal.offset)?;
            "RuleError"
        }
        SyncError::Differs { .. } | SyncError::Input(_) | SyncError::WouldShrink(_) => "InputError",
        SyncError::WrongOptions(_) => "WrongOptions",
        SyncError::Unproved(_) => "Unproved",
        SyncError::Stopped => "Interrupted",
    };
    let class = py.import("apus._errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call((error.to_string(),), Some(&about))?))
}

fn class_of(error: &StoreError) -> &'static str {
    if error.is_locked {
        "Locked"
    } else if error.is_full() {
        "DiskFull"
    } else {
        "StoreError"
    }
}
