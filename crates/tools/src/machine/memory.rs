//! Memory and swap.

use apus_node::memory::limit::memory_limit;
use apus_node::memory::share::default_cache_bytes;
use apus_node::resources::field;
use apus_node::root::Root;

/// The memory of the machine, in bytes; 0 where the system does not report it.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Memory {
    /// All memory.
    pub total: u64,
    /// What a sync may use: what is available without swapping, or the limit of the control group.
    pub available: u64,
    /// What a sync uses of it for cached coins, unless the user says otherwise.
    pub cache: u64,
    pub swap: u64,
    /// Swap that is not used.
    pub swap_free: u64,
}

impl Memory {
    /// Reads what the system reports.
    pub fn of(root: &Root) -> Self {
        let text = root.read("/proc/meminfo").unwrap_or_default();
        let field = |name: &str| field(&text, name).unwrap_or(0);
        Self {
            total: field("MemTotal:"),
            available: memory_limit(root).map_or(0, |limit| limit.bytes),
            cache: default_cache_bytes(root) as u64,
            swap: field("SwapTotal:"),
            swap_free: field("SwapFree:"),
        }
    }
}
