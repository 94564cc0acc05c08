//! Counters of the running work, for the server and the metrics.

use std::sync::Arc;

use super::block::scripts::ScriptTally;
use super::clock::Clock;

/// Counters of the running work. They only grow.
#[derive(Clone)]
pub struct Meters {
    /// The time that each stage takes, and what threads wait for.
    pub clock: Arc<Clock>,
    /// How many inputs and signatures were checked.
    pub scripts: Arc<ScriptTally>,
}
