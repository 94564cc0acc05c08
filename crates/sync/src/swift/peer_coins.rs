//! The coins that blocks spend, as peers send them (draft BIP 455). They are not trusted: the sums
//! prove them together with the claim.

use std::sync::atomic::AtomicBool;

use apus_coins::{Coin, SpentCoinsReader};
use apus_node::block::prepare::{CoinSource, Prepared};
use apus_node::block::step::Step;
use apus_node::block::validate::{Refused, Validation, check_spends};
use apus_node::block_peers::coins_cutoff;
use apus_node::fault::Fault;
use apus_node::sources::BlockOrigin;
use apus_progress::clock::Stage;
use apus_wire::ParseError;

use super::context::Context;
use super::range_blocks::RangeBlocks;

/// Checks the block in `left` with the coins that peers send, and those that blocks of its range
/// create. A peer is disconnected if its coins do not fit the block, or if the block breaks a rule
/// with them: a peer that knows the coins of a block has found it valid. Returns `None`, and puts
/// the block back, if no peer has the coins; also once `halt` is raised and a peer has sent the
/// block, which would be lost.
///
/// # Errors
/// The block breaks a rule whatever it spends, the disk fails, or `halt` was raised and the block
/// is stored.
pub(super) fn check_with_peers(
    context: &Context,
    step: Step,
    left: &mut Option<Prepared>,
    range: &RangeBlocks,
    halt: &AtomicBool,
) -> Result<Option<Validation>, Fault> {
    let shared = context.shared;
    let check = |prepared: Prepared, coins: Vec<Coin>| {
        let _timer = shared.clock.start(Stage::Validate);
        let scripts = Some(shared.script_checks(step.id));
        check_spends(shared, step.id, prepared, coins, scripts, &context.times)
    };
    if let Some(prepared) = left.take_if(|prepared| prepared.missing_inside.is_some()) {
        let refused = check(prepared, Vec::new()).err();
        return Err(Fault::Rule(step, refused.expect("an input has no coin").error));
    }
    let mut checked = None;
    let mut check_sent = |sent: &[u8]| {
        let prepared = left.take().expect("the block is put back while it is not checked");
        let height = prepared.height;
        let refused = match external_coins(&prepared, range, sent) {
            Ok(coins) => check(prepared, coins),
            Err(error) => {
                *left = Some(prepared);
                return Err(format!("those of block {height}: {error}"));
            }
        };
        match refused {
            Ok(block) => checked = Some(block),
            Err(refused) => {
                let Refused { error, prepared } = *refused;
                *left = Some(prepared);
                return Err(format!("with those of block {height}, the block is invalid: {error}"));
            }
        }
        Ok(())
    };
    let Some(peers) = shared.peers else { return Ok(None) };
    match peers.fetch_coins(shared.tree, step, halt, &mut check_sent) {
        Err(Fault::Stopped) if step.place == BlockOrigin::Peers => Ok(None),
        fetched => fetched.map(|_| checked),
    }
}

/// Returns the coins of [`Prepared::external`]: those that a block of its range creates, and those
/// that a peer has sent.
///
/// # Errors
/// The coins cannot be parsed, are not those of the inputs that spend an output from below the
/// cutoff, or are not in the order of these.
fn external_coins(
    prepared: &Prepared,
    range: &RangeBlocks,
    sent: &[u8],
) -> Result<Vec<Coin>, ParseError> {
    let mut reader = SpentCoinsReader::new(sent, coins_cutoff(prepared.height))?;
    let mut coins = Vec::with_capacity(prepared.external.len());
    for (index, source) in (0..).zip(&prepared.sources) {
        let CoinSource::External(at) = source else { continue };
        coins.push(match range.coin(&prepared.external[*at as usize], prepared.height) {
            Some(coin) => coin,
            None => reader.coin_of(index)?,
        });
    }
    reader.finish()?;
    Ok(coins)
}
