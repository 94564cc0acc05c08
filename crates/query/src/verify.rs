//! `verifychain`.

use std::sync::atomic::Ordering::Relaxed;

use apus_hash::Hash;
use apus_node::options::{CHECK_BLOCKS, CHECK_LEVEL};
use apus_scripts::check_block;

use super::error::RpcError;
use super::json::{Json, json};
use super::params;
use super::source::Call;
use super::stored::{StoredBlock, parse};

/// `verifychain`. While a sync runs, blocks and undo data are checked, but not coins: a level above
/// 2 then counts as 2.
pub fn verifychain(call: &Call) -> Result<Json, RpcError> {
    let number = |index: usize, default: i32| match call.param(index) {
        value if value.is_null() => Ok(default),
        value => params::integer(value),
    };
    let level = number(0, i32::from(CHECK_LEVEL))?.clamp(0, 4) as u8;
    let blocks = number(1, CHECK_BLOCKS as i32)?.max(0) as u32;
    let Some(at_rest) = &call.source.at_rest else { return blocks_alone(call, level, blocks) };
    Ok(json(&(at_rest.verify)(blocks, level, call.stop)?))
}

/// Checks the last blocks up to level 2.
fn blocks_alone(call: &Call, level: u8, count: u32) -> Result<Json, RpcError> {
    let tip = call.source.look(|it| it.tip().height)?;
    let count = if count == 0 { tip } else { count.min(tip) };
    for height in (tip - count + 1..=tip).rev() {
        if call.stop.load(Relaxed) {
            return Err(RpcError::stopped());
        }
        let block = call.source.look(|it| {
            let id = it.active.at(height)?;
            Some((it.tree.node(id).hash, StoredBlock::new(it, id)))
        })?;
        // The chain may have become shorter.
        let Some((hash, stored)) = block else { continue };
        if !is_sound(call, &hash, &stored, level)? {
            return Ok(json(&false));
        }
    }
    Ok(json(&true))
}

/// Returns whether a block is stored and keeps the rules that need no coins, and its undo data fits
/// it, as far as the level asks.
fn is_sound(call: &Call, hash: &Hash, stored: &StoredBlock, level: u8) -> Result<bool, RpcError> {
    let Ok(bytes) = stored.read() else { return Ok(false) };
    let Ok(view) = parse(&bytes) else { return Ok(false) };
    if view.hash() != *hash || level >= 2 && stored.spent(&view).is_err() {
        return Ok(false);
    }
    Ok(level == 0 || check_block(view, &call.source.network).is_ok())
}
