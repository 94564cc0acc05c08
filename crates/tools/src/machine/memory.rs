//! Memory and swap.

use apus_node::resources::memory_limit;

use super::root::Root;

/// The memory of the machine, in bytes; 0 where the system does not report it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Memory {
    /// All memory.
    pub total: u64,
    /// What a sync may use: what is available without swapping, or the limit of the control group.
    pub available: u64,
    /// All swap.
    pub swap: u64,
    /// Swap that is not used.
    pub swap_free: u64,
}

impl Memory {
    /// Reads what the system reports.
    pub fn of(root: &Root) -> Self {
        let text = root.read("/proc/meminfo").unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
            kib.unwrap_or(0).saturating_mul(1024)
        };
        let limit = memory_limit().map_or(u64::MAX, |limit| limit.bytes);
        Self {
            total: field("MemTotal"),
            available: field("MemAvailable").min(limit),
            swap: field("SwapTotal"),
            swap_free: field("SwapFree"),
        }
    }
}
