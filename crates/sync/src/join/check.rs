//! The last pass: checks each block with the coins that it spends, in any order: every rule on
//! spends, and scripts unless they are assumed valid. Writes its undo data.

use apus_coins::Coin;
use apus_consensus::CheckedBlock;
use apus_host::threads::Crew;
use apus_join::{BlockCoins, SpendSource};
use apus_node::block::prepare::{CoinSource, Prepared};
use apus_node::block::validate::check_spends;
use apus_node::sources::{BlockBytes, BlockOrigin};
use apus_progress::clock::Stage;
use apus_wire::Cursor;

use super::bucket::{BlockQueue, Bucket};
use super::context::{Context, refused_at};
use super::notes::{check_noted, next_coin};
use super::sequencer::{Sequencer, Undo};
use apus_node::fault::Fault;
use apus_progress::marks::Mark;

/// The surroundings that the workers of the last pass share.
pub(super) struct Checking<'a> {
    pub context: &'a Context<'a>,
    pub queue: BlockQueue<'a>,
    pub sequencer: Sequencer<'a>,
    /// For each step, whether its undo data is stored already.
    pub has_undo: Vec<bool>,
}

impl Checking<'_> {
    /// Runs a worker: checks blocks until none is left, and reports the index of each.
    pub fn work(&self, crew: &Crew<usize>) -> Result<(), Fault> {
        while let Some((index, bucket)) = self.queue.take(crew.halt())? {
            match self.context.check(index, &bucket) {
                Ok(payload) => {
                    let undo = self.undo(index, &payload);
                    // After a halt, a block that waits for a lower one is checked again later. If a
                    // lower block is refused, this one no longer counts.
                    let height = self.context.plan.height(index);
                    let is_vain = || crew.is_halted() || self.context.is_refused(height);
                    if !self.sequencer.wait_for_room(index, is_vain) {
                        break;
                    }
                    let _timer = self.context.shared.clock.start(Stage::Undo);
                    self.sequencer.finish(index, undo)?;
                    let is_assumed = bucket.block(height).is_some_and(|it| it.digest.is_none());
                    let mark = if is_assumed { Mark::Assumed } else { Mark::Scripts };
                    self.context.shared.marks.set(height, mark);
                    crew.report(index);
                }
                Err(Fault::Unjudged(height)) => self.context.refuse(height),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Encodes the undo data of a block that has none yet.
    fn undo(&self, index: usize, payload: &[u8]) -> Option<Undo> {
        let shared = self.context.shared;
        let height = self.context.plan.height(index);
        let step = self.context.plan.steps[index];
        let BlockOrigin::Stored(pos) = step.place else { return None };
        if self.has_undo[index] {
            return None;
        }
        let _timer = shared.clock.start(Stage::Undo);
        let record = shared.files.encode_undo(payload, &shared.tree.prev_hash(step.id));
        Some(Undo { file: pos.file, height, record })
    }
}

impl Context<'_> {
    /// Checks the block at `index` of the steps with the coins that it spends, and returns its undo
    /// data.
    ///
    /// # Errors
    /// The block breaks a rule, or cannot be judged here ([`Fault::Unjudged`]); it is damaged, or
    /// the disk fails.
    ///
    /// # Panics
    /// The bucket does not have the block, or not each of its coins once.
    pub fn check(&self, index: usize, bucket: &Bucket) -> Result<Vec<u8>, Fault> {
        let shared = self.shared;
        let height = self.plan.height(index);
        let step = self.plan.steps[index];
        let coins = bucket.block(height).expect("the first pass leaves a record of each block");
        if let Some(digest) = coins.digest {
            return self.read_again(index, digest, &coins, bucket);
        }
        let _timer = shared.clock.start(Stage::Validate);
        let hash = &shared.tree.node(step.id).hash;
        let rules = self.block_context(index);
        let times = &self.plan.times;
        check_noted(&coins, bucket.late(height), hash, rules, times)
            .map_err(|_| Fault::Unjudged(height))
    }

    /// Reads again a block whose scripts are not assumed valid, checks it, and returns its undo
    /// data.
    fn read_again(
        &self,
        index: usize,
        digest: [u8; 16],
        coins: &BlockCoins,
        bucket: &Bucket,
    ) -> Result<Vec<u8>, Fault> {
        let shared = self.shared;
        let plan = self.plan;
        let step = plan.steps[index];
        let height = plan.height(index);
        let is_same = |bytes: &[u8]| self.hash_key.hash(bytes) == digest;
        let block = shared.read_again(step, is_same).map_err(|fault| refused_at(height, fault))?;
        let _timer = shared.clock.start(Stage::Validate);
        let scripts = Some(shared.script_checks(step.id));
        let (prepared, coins) = prepare(block, coins, bucket);
        let checked = check_spends(shared, step.id, prepared, coins, scripts, &plan.times);
        Ok(checked.map_err(|_| Fault::Unjudged(height))?.into_undo())
    }
}

/// Prepares a block for the checks, and collects the coins that it spends.
///
/// # Panics
/// A coin is missing, or there is one too many: the earlier passes match each spend exactly once.
fn prepare(
    block: CheckedBlock<BlockBytes>,
    known: &BlockCoins,
    bucket: &Bucket,
) -> (Prepared, Vec<Coin>) {
    let inputs = block.view().input_count() - 1;
    let mut list = Cursor::new(known.list);
    let mut late = bucket.late(known.height);
    let coins = (0..inputs as u32).map(|place| {
        let (code, output) = next_coin(SpendSource::read(&mut list), &mut late, place);
        let coin = Coin::decode_output(&mut Cursor::new(output), code);
        coin.expect("coins are encoded by this program")
    });
    let coins: Vec<Coin> = coins.collect();
    assert!(list.remaining() == 0 && late.next().is_none(), "no spend has met two coins");
    let sources = (0..inputs as u32).map(CoinSource::External).collect();
    (Prepared::of_sources(block, known.height, sources), coins)
}
