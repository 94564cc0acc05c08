//! Relative locks in sequence numbers (BIP68).

use apus_wire::{SEQUENCE_LOCK_DISABLED, SEQUENCE_LOCK_IN_SECONDS, SEQUENCE_LOCK_MASK, TxView};

use super::block::BlockContext;

/// Relative lock times are in units of two to this power seconds.
const GRANULARITY: u32 = 9;

/// Returns whether the relative locks of all inputs have passed (BIP68; Core's `SequenceLocks`).
/// `heights` are those of the spent coins, in the order of the inputs.
pub(super) fn sequence_locks_passed(
    tx: &TxView,
    heights: impl Iterator<Item = u32>,
    context: &BlockContext,
    median_time_past_at: impl Fn(u32) -> i64,
) -> bool {
    !has_sequence_locks(tx, context)
        || tx.inputs().zip(heights).all(|(input, coin_height)| {
            sequence_lock_passed(input.sequence(), coin_height, context, &median_time_past_at)
        })
}

/// Returns whether the sequence number of any input is a relative lock in this block.
pub(super) fn has_sequence_locks(tx: &TxView, context: &BlockContext) -> bool {
    context.height >= context.network.csv_height
        && tx.version() >= 2
        && tx.inputs().any(|input| input.sequence() & SEQUENCE_LOCK_DISABLED == 0)
}

/// Returns whether the relative lock of an input with this sequence number has passed, if the input
/// spends a coin of the block at `coin_height`.
pub(super) fn sequence_lock_passed(
    sequence: u32,
    coin_height: u32,
    context: &BlockContext,
    median_time_past_at: impl Fn(u32) -> i64,
) -> bool {
    if sequence & SEQUENCE_LOCK_DISABLED != 0 {
        true
    } else if sequence & SEQUENCE_LOCK_IN_SECONDS != 0 {
        let from = median_time_past_at(coin_height.saturating_sub(1));
        let seconds = i64::from((sequence & SEQUENCE_LOCK_MASK) << GRANULARITY);
        from + seconds <= context.parent_median_time_past
    } else {
        i64::from(coin_height) + i64::from(sequence & SEQUENCE_LOCK_MASK)
            <= i64::from(context.height)
    }
}
