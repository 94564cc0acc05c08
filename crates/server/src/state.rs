//! The source of answers to calls.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use apus_node::view::View;
use apus_query::{Source, Waiting};
use serde_json::Value;

use super::live::Live;

/// The source of answers to calls.
pub(crate) struct ServerState {
    /// Reports of the process about itself.
    pub live: Arc<Live>,
    /// The directory as of its last commit, for answers about blocks and coins.
    pub source: Source,
    /// The same, for the rest.
    pub view: Arc<View>,
    /// Asks the work of the process to end.
    pub stop: Arc<AtomicBool>,
    active: Mutex<BTreeMap<u64, Active>>,
}

/// A call that is being answered.
pub(crate) struct Active {
    pub method: String,
    /// When the call began.
    pub began: Instant,
    /// Ends the call soon after it is raised.
    pub stop: Arc<AtomicBool>,
}

impl ServerState {
    /// Creates the state without calls.
    pub fn new(live: Arc<Live>, source: Source, view: Arc<View>, stop: Arc<AtomicBool>) -> Self {
        Self { live, source, view, stop, active: Mutex::default() }
    }

    /// Returns the calls that are being answered.
    pub fn active(&self) -> MutexGuard<'_, BTreeMap<u64, Active>> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call of a method.
pub(crate) struct Call<'a> {
    /// The source of its answer.
    pub state: &'a ServerState,
    /// The parameters by position, which are of the method's types.
    pub params: &'a [Value],
    /// Since when the call is made, and whether it is to be made again.
    pub waiting: &'a Waiting,
}

impl Call<'_> {
    /// Returns the parameter at a position; null if it was left out.
    pub fn param(&self, index: usize) -> &Value {
        self.params.get(index).unwrap_or(&Value::Null)
    }
}
