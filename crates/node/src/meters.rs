//! What the running work measures, for those who look on.

use std::sync::Arc;

use super::block::scripts::ScriptTally;
use super::clock::Clock;

/// What the running work measures; the numbers go on to grow.
#[derive(Clone)]
pub struct Meters {
    /// The time that each stage takes, and what threads wait for.
    pub clock: Arc<Clock>,
    /// How many inputs and signatures were checked.
    pub scripts: Arc<ScriptTally>,
}
