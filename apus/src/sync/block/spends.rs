//! Rules about what a block spends, for blocks whose coins come from elsewhere than the UTXO set.

use std::sync::Arc;

use super::prepare::Prepared;
use super::shared::Shared;
use super::validate::{InFlight, Times};
use crate::chain::BlockId;
use crate::coins::Coin;
use crate::rules::RuleError;
use crate::wire::ScriptFlags;

/// A rule that a block breaks, and the block, to be tried with other coins.
pub(crate) type Refused = Box<(RuleError, Prepared)>;

/// Checks all rules on what a block spends, and with `flags` its scripts. `coins` are those of
/// [`Prepared::external`], up to the first that is missing.
///
/// # Errors
/// What Core would say of the block, if these are its coins.
pub(crate) fn check_spends(
    shared: &Shared,
    times: &Arc<Vec<u32>>,
    id: BlockId,
    prepared: Prepared,
    coins: Vec<Coin>,
    flags: Option<ScriptFlags>,
) -> Result<InFlight, Refused> {
    let parent = shared.tree.parent_median_time_past(id);
    let times = Times { parent, by_height: Arc::clone(times) };
    let absent = prepared.external.get(coins.len());
    let absent = absent.map(|outpoint| (prepared.tx_of_external(coins.len()), *outpoint));
    let missing = absent.into_iter().chain(prepared.fault).min_by_key(|(tx, _)| *tx);
    let block = InFlight::new(id, prepared, coins, missing, flags, times);
    block.work(shared.network);
    match block.take_error() {
        Some(error) => Err(Box::new((error, block.prepared))),
        None => Ok(block),
    }
}
