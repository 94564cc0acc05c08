//! Disconnects the tip: removes its outputs, and restores the coins that it spent from its undo
//! data (Core's `DisconnectBlock`).

use std::collections::HashSet;

use apus_chain::BlockId;
use apus_coins::{Coin, Heights, UndoError, complete_heights, for_each_spending_tx};
use apus_consensus::{CheckedBlock, is_bip30_repeat, is_bip30_unspendable};
use apus_disk::StoreError;
use apus_hash::Hash;
use apus_node::block::step::Step;
use apus_node::commit::Ledger;
use apus_node::fault::Fault;
use apus_node::shared::{NEVER, Shared};
use apus_node::sources::{BlockBytes, BlockOrigin};
use apus_wire::{BlockView, OutPoint, TxView, is_unspendable};

/// Disconnects the tip. No block may be in flight.
///
/// # Errors
/// The block is not stored, or its stored copy is damaged; or its undo data cannot be read, does
/// not fit it, or lacks the height of a coin that no other output tells. The block is still the tip
/// then.
pub(super) fn disconnect_tip(shared: &Shared, ledger: &mut Ledger) -> Result<(), Fault> {
    let Some(tip) = ledger.active.tip() else { return Ok(()) };
    let entry = *ledger.record(tip);
    let missing = |what: &str| {
        let path = shared.files.block_path(entry.file);
        StoreError::new(
            path,
            format!("cannot disconnect block {}: {what}", shared.tree.node(tip).hash),
        )
    };
    let data_pos = entry.block_pos().ok_or_else(|| missing("the block is not stored"))?;
    let undo_pos = entry
        .undo_pos()
        .ok_or_else(|| missing("its undo data is not stored; `apus reindex` writes it"))?;
    let step = Step { id: tip, place: BlockOrigin::Stored(data_pos), weight: 0 };
    // Checks the whole block, since it says which coins it created and spent.
    let block = shared.checked(step, &NEVER).map_err(|fault| match fault {
        Fault::Rule(step, error) => Fault::Damaged(step, error.to_string()),
        fault => fault,
    })?;
    let undo = shared.files.read_undo(undo_pos, &shared.tree.prev_hash(tip))?;
    let wrong = |error: UndoError| shared.files.undo_error(undo_pos, error);
    let mut spent = Vec::new();
    for_each_spending_tx(&undo, block.view(), Heights::Optional, |tx, coins| {
        spent.extend(tx.inputs().map(|input| input.outpoint()).zip(coins.drain(..)));
    })
    .map_err(wrong)?;
    name_own(&block, shared.tree.node(tip).height, &mut spent);
    if let Some(coin) = complete_heights(&mut spent, shared.cache, shared.chainstate)? {
        return Err(wrong(UndoError::LacksHeight(coin)).into());
    }
    undo_block(shared, ledger, tip, block.view(), spent);
    ledger.active.pop();
    ledger.done.disconnected += 1;
    Ok(())
}

/// Sets the heights of coins that the block itself created, at `height`, and that have none.
fn name_own(block: &CheckedBlock<BlockBytes>, height: u32, spent: &mut [(OutPoint, Coin)]) {
    if spent.iter().any(|(_, coin)| coin.height == 0) {
        let txids: HashSet<&Hash> = block.txids().iter().collect();
        let of_block = spent.iter_mut().filter(|(outpoint, _)| txids.contains(&outpoint.txid));
        of_block.for_each(|(_, coin)| coin.height = height);
    }
}

fn undo_block<B: AsRef<[u8]>>(
    shared: &Shared,
    ledger: &mut Ledger,
    id: BlockId,
    block: &BlockView<B>,
    mut spent: Vec<(OutPoint, Coin)>,
) {
    let node = shared.tree.node(id);
    // A coinbase that occurs twice is one coin: whether it exists, and so the number of coins,
    // depends on which of the two blocks are connected.
    let height = node.height;
    let hash = &node.hash;
    if is_bip30_unspendable(height, hash) || is_bip30_repeat(height, hash) {
        ledger.coins = None;
    }
    let txs: Vec<TxView> = block.txs().collect();
    for (index, tx) in txs.iter().enumerate().rev() {
        let outpoints = spendable(tx);
        change_coins(&mut ledger.coins, -(outpoints.len() as i64));
        shared.cache.remove_batch(&outpoints);
        if index == 0 {
            continue;
        }
        let before = spent.len() - tx.input_count();
        change_coins(&mut ledger.coins, tx.input_count() as i64);
        for (outpoint, coin) in spent.drain(before..) {
            shared.cache.restore(&outpoint, &coin);
        }
    }
}

fn change_coins(coins: &mut Option<i64>, by: i64) {
    if let Some(coins) = coins {
        *coins += by;
    }
}

fn spendable(tx: &TxView) -> Vec<OutPoint> {
    let txid = tx.txid();
    let outputs = tx.outputs().enumerate();
    outputs
        .filter(|(_, output)| !is_unspendable(output.script()))
        .map(|(vout, _)| OutPoint { txid, vout: vout as u32 })
        .collect()
}
