//! One function for each consensus rule, without Bitcoin Core's code. This crate does not know
//! where coins come from: it is handed the coins that a block spends. It does not run scripts
//! either: apus-scripts does.
//!
//! The list of rules is the specification. Each rule must be Bitcoin Core's, in Core's order and
//! with Core's reject reason; anything else is a bug. `tests/core.rs` of apus-scripts compares with
//! a whole Bitcoin Core over thousands of blocks that break one to three rules each. A block that
//! breaks several rules is refused for the first of them in this list.
//! `apus/tests/layers/rule_list.rs` checks that the list has exactly the reasons that the code
//! gives, and that a test yields each that can occur. Only the class of rule 2 differs from Core's:
//! a block that breaks rule 3 or 4 as well counts as mutated, since one flipped bit in a stored
//! block can break all of them.
//!
//! The last column names the field of `Network`, or the function, that says in which blocks a rule
//! is in force; a rule without one is in force in every block. docs/recipes.md says how to add a
//! rule.
//!
//! | # | rule | reason | source | in force by |
//! |--:|---|---|---|---|
//! | | **`check_block`**: the block alone | | `CheckBlock` | |
//! | 1 | `check_header` | `high-hash` | | |
//! | 2 | `signet_solution` | `bad-signet-blksig` | BIP325 | `signet_challenge` |
//! | 3 | `merkle_root_matches` | `bad-txnmrklroot` (mutated) | | |
//! | 4 | | `bad-txns-duplicate` (mutated) | CVE-2012-2459 | |
//! | 5 | `size_in_limit` | `bad-blk-length` | BIP141 | |
//! | 6 | `coinbase_first_and_only` | `bad-cb-missing` | | |
//! | 7 | | `bad-cb-multiple` | | |
//! | 8 | `has_inputs_and_outputs` | `bad-txns-vin-empty` | | |
//! | 9 | | `bad-txns-vout-empty` | | |
//! | 10 | `size_in_limit` (of a transaction) | `bad-txns-oversize` | | |
//! | 11 | `output_amounts_in_range` | `bad-txns-vout-negative` | | |
//! | 12 | | `bad-txns-vout-toolarge` | CVE-2010-5139 | |
//! | 13 | | `bad-txns-txouttotal-toolarge` | CVE-2010-5139 | |
//! | 14 | `inputs_differ` | `bad-txns-inputs-duplicate` | CVE-2018-17144 | |
//! | 15 | `coinbase_script_length` | `bad-cb-length` | | |
//! | 16 | `inputs_spend_something` | `bad-txns-prevout-null` | | |
//! | 17 | `legacy_sigops_in_limit` | `bad-blk-sigops` | | |
//! | | **`check_header_in_context`**: the header on its parent | | `ContextualCheckBlockHeader` | |
//! | 18 | `difficulty` | `bad-diffbits` | BIP94 | `enforce_bip94`, for its part |
//! | 19 | `time_after_median` | `time-too-old` | | |
//! | 20 | `no_timewarp` | `time-timewarp-attack` | BIP94 | `enforce_bip94` |
//! | 21 | `time_not_in_future` | `time-too-new` (not forever) | | |
//! | 22 | `version` | `bad-version(0x…)` | BIP34, 66, 65 | `bip34_height`, `bip66_…`, `bip65_…` |
//! | | **`check_block_in_context`**: the block on its parent | | `ContextualCheckBlock` | |
//! | 23 | `transactions_final` | `bad-txns-nonfinal` | BIP113 | `csv_height`, for median time |
//! | 24 | `coinbase_has_height` | `bad-cb-height` | BIP34 | `bip34_height` |
//! | 25 | `witness_committed` | `bad-witness-nonce-size` (mutated) | BIP141 | `segwit_height` |
//! | 26 | | `bad-witness-merkle-match` (mutated) | BIP141 | `segwit_height` |
//! | 27 | | `unexpected-witness` (mutated) | BIP141 | |
//! | 28 | `weight_in_limit` | `bad-blk-weight` | BIP141 | |
//! | | **`BlockSpends`**: the block and the coins it spends | | `ConnectBlock` | |
//! | 29 | `bip30_check`, the caller looks up | `bad-txns-BIP30` | BIP30 | `bip30_check` |
//! | 30 | `missing_or_spent`, the caller looks up | `bad-txns-inputs-missingorspent` | | |
//! | 31 | `coinbase_mature` | `bad-txns-premature-spend-of-coinbase` | | |
//! | 32 | `input_amounts_in_range` | `bad-txns-inputvalues-outofrange` | | |
//! | 33 | `inputs_cover_outputs` | `bad-txns-in-belowout` | | |
//! | 34 | `fee_in_range` | `bad-txns-fee-outofrange` | | |
//! | 35 | `accumulated_fees_in_range` | `bad-txns-accumulated-fee-outofrange` | | |
//! | 36 | `sequence_locks` | `bad-txns-nonfinal` | BIP68 | `csv_height` |
//! | 37 | `sigop_cost_in_limit` | `bad-blk-sigops` | BIP16, 141 | |
//! | 38 | `TxScripts` of apus-scripts | `block-script-verify-flag-failed` | | `script_flags` |
//! | 39 | `coinbase_amount_in_limit` | `bad-cb-amount` | | |
//!
//! The rules on a transaction alone, from `has_inputs_and_outputs` to `inputs_spend_something`, are
//! checked for one transaction after the other; so are those on the coins that it spends, from
//! their existence to `TxScripts`. Where several threads check scripts, as in Core and here,
//! `TxScripts` comes after `coinbase_amount_in_limit`. Where a block's coins become known only
//! after its bytes were dropped, `FactSpends` checks rules 31 to 37 and 39 with facts noted from
//! the bytes.

#![warn(missing_docs)]

mod amount;
mod arith;
mod bip30;
mod block;
mod error;
mod header;
mod limits;
mod script_flags;
mod sequence_locks;
mod signet;
mod sigops;
mod spend;
mod spend_facts;
#[cfg(test)]
mod tests;
mod tx;
mod work;

pub use amount::{COIN, MONEY_MAX, subsidy};
pub use bip30::{
    Bip30Check, bip30_check, bip30_overwritten_after, is_bip30_repeat, is_bip30_unspendable,
};
pub use block::{
    BlockContext, CheckedBlock, check_block, check_block_in_context,
    check_stripped_block_in_context, stated_height,
};
pub use error::{RuleClass, RuleError};
pub use header::{
    Ancestry, FUTURE_SECONDS_MAX, HeaderFacts, check_header, check_header_in_context,
    median_time_past, next_work_required, permitted_difficulty_transition, proof_of_work,
};
pub use limits::{SIGOPS_COST_MAX, WEIGHT_MAX};
pub use script_flags::script_flags;
pub use signet::{VerifyScript, has_signet_solution};
pub use sigops::{SigopCosts, SpentAs, input_sigop_cost, legacy_sigops};
pub use spend::BlockSpends;
pub use spend_facts::{FactSpends, InputFacts, SpentCoin, TxFacts};
pub use work::{Work, block_work, equivalent_time};
