//! One function for each consensus rule. Does not know where coins come from.

mod arith;
mod block;
mod error;
mod header;
mod scripts;
mod signet;
mod sigops;
mod spend;
mod tx;
mod work;

pub use block::{BlockContext, CheckedBlock, check_block, check_block_in_context};
pub use error::{RuleClass, RuleError};
pub use header::{
    Ancestry, HeaderFacts, check_header, check_header_in_context, median_time_past,
    next_work_required, proof_of_work,
};
pub use scripts::{TxScripts, check_tx_scripts, script_flags};
pub use sigops::{input_sigop_cost, legacy_sigops};
pub use spend::{
    BlockSpends, Prevout, bip30_applies, bip34_implies_bip30, is_bip30_repeat,
    is_bip30_unspendable, subsidy,
};
pub use work::{Work, block_work, equivalent_time};

/// Satoshis in a bitcoin.
pub const COIN: i64 = 100_000_000;

/// No amount is larger, in satoshi (Core's `MAX_MONEY`).
pub const MONEY_MAX: i64 = 21_000_000 * COIN;

/// Largest weight of a block (BIP141; Core's `MAX_BLOCK_WEIGHT`).
pub const WEIGHT_MAX: usize = 4_000_000;

/// Largest cost of a block's signature operations (BIP141; Core's `MAX_BLOCK_SIGOPS_COST`).
pub const SIGOPS_COST_MAX: u64 = 80_000;

/// Whether an amount is from 0 to [`MONEY_MAX`] (Core's `MoneyRange`).
fn money_range(amount: i64) -> bool {
    (0..=MONEY_MAX).contains(&amount)
}
