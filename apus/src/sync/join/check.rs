//! The last pass: each block with the coins that it spends, whatever the order. Every rule on
//! spends, scripts where they are not assumed valid, and undo data.

use std::sync::Arc;

use super::bucket::{BlockQueue, Bucket};
use super::fault::Fault;
use super::job::Job;
use super::sequencer::{Sequencer, Undo};
use crate::coins::Coin;
use crate::join::{BlockCoins, SpendSource};
use crate::rules::{CheckedBlock, script_flags};
use crate::sync::block::prepare::{CoinSource, Prepared};
use crate::sync::block::step::BlockFault;
use crate::sync::block::validate::{Validation, check_spends};
use crate::sync::clock::Stage;
use crate::sync::sources::{BlockBytes, Place};
use crate::sync::threads::Crew;
use crate::wire::{Cursor, ParseError};

/// What the threads of the last pass share.
pub(super) struct Checking<'a> {
    pub job: &'a Job<'a>,
    pub queue: BlockQueue<'a>,
    pub sequencer: Sequencer<'a>,
    /// For each step, whether its undo data is stored already.
    pub has_undo: Vec<bool>,
}

impl Checking<'_> {
    /// One thread's run: checks blocks until there are none left, and reports the weight of each.
    pub fn work(&self, crew: &Crew<u64>) -> Result<(), Fault> {
        while let Some((index, bucket)) = self.queue.take(crew.halt())? {
            match self.block(index, &bucket) {
                Ok(undo) => {
                    // After a halt, blocks that wait for a lower one are checked again. Where that
                    // one is refused, this one no longer counts.
                    let height = self.job.plan.height(index);
                    let is_vain = || crew.is_halted() || self.job.is_refused(height);
                    if !self.sequencer.wait_for_room(index, is_vain) {
                        break;
                    }
                    let _timer = self.job.shared.clock.start(Stage::Undo);
                    self.sequencer.finish(index, undo)?;
                    crew.report(self.job.plan.steps[index].weight);
                }
                Err(Fault::Block(height)) => self.job.refuse(height),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    fn block(&self, index: usize, bucket: &Arc<Bucket>) -> Result<Option<Undo>, Fault> {
        let (shared, plan) = (self.job.shared, self.job.plan);
        let (step, height) = (plan.steps[index], plan.height(index));
        let coins = bucket.block(height).expect("the first pass leaves a record of each block");
        let of_block = |fault: BlockFault| Fault::of_block(step, height, fault);
        let block = shared.known(step, coins.crc).map_err(of_block)?;
        let timer = shared.clock.start(Stage::Validate);
        let node = shared.tree.node(step.id);
        let flags = (!plan.assumed.covers(shared.tree, step.id))
            .then(|| script_flags(shared.network, height, &node.hash));
        let (prepared, coins) = prepare(block, height, &coins, bucket);
        let checked = check_spends(shared.tree, step.id, prepared, coins, flags, &plan.times);
        drop(timer);
        let block: Validation = checked.map_err(|_| Fault::Block(height))?;
        let _timer = shared.clock.start(Stage::Undo);
        let undo = match step.place {
            Place::Stored(pos) if !self.has_undo[index] => {
                let record = shared.files.encode_undo(block.undo(), &node.header.prev);
                Some(Undo { file: pos.file, height, record })
            }
            _ => None,
        };
        Ok(undo)
    }
}

/// Lays out the coins that a block spends.
///
/// # Panics
/// A coin is missing, or one is too many: the passes before have met each spend exactly once.
fn prepare(
    block: CheckedBlock<BlockBytes>,
    height: u32,
    known: &BlockCoins,
    bucket: &Bucket,
) -> (Prepared, Vec<Coin>) {
    let inputs = block.view().input_count() - 1;
    let (mut sources, mut coins) = (Vec::with_capacity(inputs), Vec::with_capacity(inputs));
    let mut late = bucket.late(height);
    let external = |coins: &mut Vec<Coin>, bytes: &[u8]| {
        coins.push(decode(bytes).expect("coins are encoded by this program"));
        CoinSource::External(coins.len() as u32 - 1)
    };
    for (place, source) in (0..).zip(known.sources().take(inputs)) {
        sources.push(match source.expect("sources are encoded by this program") {
            SpendSource::Inside { tx, vout } => CoinSource::Inside { tx, vout },
            SpendSource::Early(coin) => external(&mut coins, coin),
            SpendSource::Late => {
                let (met, coin) = late.next().expect("every spend has met its coin");
                assert_eq!(met, place, "every spend has met its coin");
                external(&mut coins, coin)
            }
        });
    }
    assert!(late.next().is_none(), "no spend has met two coins");
    (Prepared::known(block, height, sources), coins)
}

fn decode(bytes: &[u8]) -> Result<Coin, ParseError> {
    Coin::decode(&mut Cursor::new(bytes))
}
