//! Meters of the running work, for the server and the metrics.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use secp_lanes::Kernel;

use super::clock::Clock;
use super::marks::Marks;
use super::outcome::ScriptCounts;

/// Meters of the running work; threads set them without waiting for readers. Counters only grow.
#[derive(Clone)]
pub struct Meters {
    /// The time that each stage takes, and what threads wait for.
    pub clock: Arc<Clock>,
    /// The work done on each block.
    pub marks: Arc<Marks>,
    /// How many inputs and signatures were checked.
    pub scripts: Arc<ScriptTally>,
}

/// The number of inputs and signatures checked, for the progress line and the server.
#[derive(Default)]
pub struct ScriptTally {
    /// Inputs that the fast engine has found valid.
    pub fast: AtomicU64,
    /// Inputs that Core's engine has decided.
    pub core: AtomicU64,
    /// Inputs that Core's engine has checked again.
    pub rechecked: AtomicU64,
    /// Signatures that were verified side by side.
    pub signatures: AtomicU64,
}

impl ScriptTally {
    /// Returns the numbers, with the kernel that verifies signatures together.
    pub fn counts(&self, kernel: Option<Kernel>) -> ScriptCounts {
        let signatures = self.signatures.load(Relaxed);
        let asked = kernel.filter(|kernel| kernel.check().is_ok());
        ScriptCounts {
            fast: self.fast.load(Relaxed),
            core: self.core.load(Relaxed),
            rechecked: self.rechecked.load(Relaxed),
            signatures,
            kernel: (signatures > 0).then(|| asked.unwrap_or_else(Kernel::best)),
        }
    }

    /// Returns the number of inputs that the fast engine has found valid, of those that Core's
    /// engine has decided, and of signatures that were verified side by side.
    pub fn totals(&self) -> [u64; 3] {
        [&self.fast, &self.core, &self.signatures].map(|count| count.load(Relaxed))
    }
}
