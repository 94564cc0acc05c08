/// The largest weight of a block (BIP141; Core's `MAX_BLOCK_WEIGHT`).
pub const WEIGHT_MAX: usize = 4_000_000;

/// The largest cost of a block's signature operations (BIP141; Core's `MAX_BLOCK_SIGOPS_COST`).
pub const SIGOPS_COST_MAX: u64 = 80_000;
