//! A worker of a SwiftSync, which takes blocks in any order. It checks each block, keeps the
//! outputs that the claim calls unspent, and adds all other outputs and all inputs to the sums.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_coins::{Coin, CoinParts, SurvivorWriter, compress_script};
use apus_consensus::CheckedBlock;
use apus_hash::Elements;
use apus_node::block::check::History;
use apus_node::block::prepare::Prepared;
use apus_node::block::step::Step;
use apus_node::block::validate::{Validation, check_spends};
use apus_node::coin_differences::DifferenceKind;
use apus_node::fault::Fault;
use apus_node::sources::{BlockBytes, BlockOrigin};
use apus_progress::clock::Stage;
use apus_progress::marks::Mark;
use apus_progress::outcome::Counts;
use apus_store::FlatFilePos;

use super::context::{Context, FinishedBlock, Taken};
use super::hinted::{HintedFate, for_each_output};
use super::opened_claim::{Scratch, Unspent};
use super::peer_coins::check_with_peers;
use super::plan::Mode;
use super::tally::{Gathered, Tally, push_coin};
use super::undo;
use super::undo::UndoAt;

/// A thread that works on blocks, and its sums.
pub(super) struct Worker<'a> {
    context: &'a Context<'a>,
    halt: &'a AtomicBool,
    survivors: Option<SurvivorWriter<'a>>,
    gathered: Gathered,
    /// Buffers for one block, reused for the next.
    unspent: Scratch,
    undo: Vec<u8>,
    script: Vec<u8>,
    created: Batch,
    spent: Batch,
}

/// What one block adds to one of the two sums: outpoints, or outpoints with coins.
#[derive(Default)]
struct Batch {
    outpoints: Vec<[u8; 36]>,
    coins: Elements,
}

impl Batch {
    fn clear(&mut self) {
        self.outpoints.clear();
        self.coins.clear();
    }
}

impl<'a> Worker<'a> {
    /// Creates a worker without sums. Once `halt` is raised, it no longer waits for a block.
    pub fn new(context: &'a Context<'a>, halt: &'a AtomicBool) -> Self {
        Self {
            context,
            halt,
            survivors: context.survivors.map(SurvivorWriter::new),
            gathered: Gathered::empty(context.plan.aggregate, context.salt),
            unspent: Scratch::default(),
            undo: Vec::new(),
            script: Vec::new(),
            created: Batch::default(),
            spent: Batch::default(),
        }
    }

    /// Checks and sums the block of a step.
    pub fn work_on(&mut self, taken: &mut Taken) -> Result<FinishedBlock, Fault> {
        let step = taken.step();
        let (finished, mark) = match self.context.plan.mode {
            Mode::AssumeValid => (self.sum_outpoints(step)?, Mark::Read),
            Mode::Full => (self.check_everything(taken)?, Mark::Scripts),
        };
        let shared = self.context.shared;
        shared.marks.set(shared.tree.node(self.context.plan.steps[step].id).height, mark);
        Ok(finished)
    }

    /// Writes out the survivors that are still in memory, and returns the sums.
    pub fn into_gathered(mut self) -> Result<Gathered, Fault> {
        if let Some(survivors) = &mut self.survivors {
            survivors.flush()?;
        }
        Ok(self.gathered)
    }

    /// Sums a block whose scripts and amounts are assumed valid.
    fn sum_outpoints(&mut self, index: usize) -> Result<FinishedBlock, Fault> {
        let shared = self.context.shared;
        let step = self.context.plan.steps[index];
        let history = self.context.plan.history_of_peers(shared.tree, &step);
        let block = shared.checked_as(step, history, self.halt)?;
        let view = block.view();
        let may_lack = step.place == BlockOrigin::Peers && history == History::Stripped;
        // A block without a witness commitment has no witnesses that could be left out.
        let is_stripped = may_lack && !view.has_witness() && view.witness_commitment().is_some();
        let height = shared.tree.node(step.id).height;
        {
            let _timer = shared.clock.start(Stage::Sum);
            self.created.clear();
            self.spent.clear();
            self.split_outpoints(&block, height)?;
            for tx in block.view().txs().skip(1) {
                self.spent.outpoints.extend(tx.inputs().map(|input| *input.outpoint_bytes()));
            }
            self.gathered.aggregate.create_outpoints(&self.created.outpoints);
            self.gathered.aggregate.spend_outpoints(&self.spent.outpoints);
        }
        let stored = self.store(step, &block)?;
        let inputs = self.spent.outpoints.len() as u64;
        let counts = Counts { inputs, ..Counts::default() };
        Ok(FinishedBlock { is_stripped, ..self.done(index, &block, stored, None, counts) })
    }

    /// Checks every rule and script of a block with the coins of its undo data, and sums the block.
    fn check_everything(&mut self, taken: &mut Taken) -> Result<FinishedBlock, Fault> {
        let index = taken.step();
        let step = self.context.plan.steps[index];
        let mut left = Some(self.prepare(step, taken)?);
        let checked = match (self.context.plan.undo[index], &*taken) {
            (UndoAt::Peers, Taken::InTurn(turn)) => {
                check_with_peers(self.context, step, &mut left, &turn.blocks, self.halt)?
            }
            _ => match validate(self.context, index, &mut left, &mut self.undo) {
                Err(fault) => {
                    let fault = self.context.puts_off(index, fault)?;
                    return self.put_off(index, &mut left, fault);
                }
                Ok(block) => Some(block),
            },
        };
        let Some(block) = checked else { return self.leave(index, &mut left) };
        let prepared = &block.prepared;
        self.sum_coins(prepared, &block.coins)?;
        let stored = self.store(step, &prepared.block)?;
        let undo = self.store_undo(index, stored, block.undo())?;
        let inputs = block.input_count() as u64;
        let counts = Counts { inputs, scripts: inputs, ..Counts::default() };
        Ok(self.done(index, &prepared.block, stored, undo, counts))
    }

    /// Prepares the block of a step, and passes the turn of its range.
    fn prepare(&self, step: Step, taken: &mut Taken) -> Result<Prepared, Fault> {
        let shared = self.context.shared;
        let Taken::InTurn(turn) = taken else { return shared.prepare(step, self.halt) };
        let height = shared.tree.node(step.id).height;
        turn.blocks.reach(self.context, height, self.halt)?;
        let prepared = shared.prepare(step, self.halt)?;
        turn.blocks.add(height, &prepared.block);
        turn.pass();
        Ok(prepared)
    }

    /// Stores a block whose coins no peer has sent. If they are to be looked up, it is put off.
    fn leave(&mut self, step: usize, left: &mut Option<Prepared>) -> Result<FinishedBlock, Fault> {
        let lacks = self.context.lacks_coins(step);
        if !self.halt.load(Relaxed) && self.context.plan.looks_up_coins {
            let lacks = self.context.puts_off(step, lacks)?;
            return self.put_off(step, left, lacks);
        }
        let block = left.take().ok_or(lacks)?.block;
        Ok(FinishedBlock {
            step,
            tx_count: block.view().tx_count() as u32,
            stored: self.store(self.context.plan.steps[step], &block)?,
            undo: None,
            bytes: 0,
            is_stripped: false,
            is_put_off: false,
            lacks_coins: true,
        })
    }

    /// Sums a block that does not pass with the coins of its undo data, and does not check it: the
    /// undo data may be wrong. If the undo data cannot be used at all, the coins that the block
    /// spends are left out of the sums.
    fn put_off(
        &mut self,
        index: usize,
        left: &mut Option<Prepared>,
        fault: Fault,
    ) -> Result<FinishedBlock, Fault> {
        let Context { shared, plan, .. } = self.context;
        let step = plan.steps[index];
        let source = (step, plan.undo[index]);
        let accept = |prepared, coins| Ok((prepared, coins));
        let (prepared, coins) =
            match plan.undo_copies.check_with(shared, source, left, &mut self.undo, accept) {
                Ok((prepared, coins)) => (prepared, Some(coins)),
                Err(Fault::Undo { .. }) => {
                    let block = left.take().ok_or(fault)?;
                    self.context.look_for(index, block.external.len())?;
                    (block, None)
                }
                Err(other) => return Err(other),
            };
        self.sum_coins(&prepared, coins.as_deref().unwrap_or_default())?;
        let stored = self.store(step, &prepared.block)?;
        let undo = match &coins {
            Some(_) => self.store_undo(index, stored, &self.undo)?,
            None => None,
        };
        let inputs = prepared.sources.len() as u64;
        let counts = Counts { inputs, scripts: inputs, ..Counts::default() };
        let done = self.done(index, &prepared.block, stored, undo, counts);
        Ok(FinishedBlock { is_put_off: true, ..done })
    }

    /// Sums the coins that a block creates, and these `coins` of [`Prepared::external`].
    fn sum_coins(&mut self, prepared: &Prepared, coins: &[Coin]) -> Result<(), Fault> {
        let _timer = self.context.shared.clock.start(Stage::Sum);
        self.created.clear();
        self.spent.clear();
        self.split_coins(prepared)?;
        for (outpoint, coin) in prepared.external.iter().zip(coins) {
            push_coin(&mut self.spent.coins, outpoint, coin);
        }
        self.gathered.aggregate.create_many(&self.created.coins);
        self.gathered.aggregate.spend_many(&self.spent.coins);
        Ok(())
    }

    /// Adds unspent outputs to the survivors, and the outpoints of spent outputs to `created`.
    fn split_outpoints(
        &mut self,
        block: &CheckedBlock<BlockBytes>,
        height: u32,
    ) -> Result<(), Fault> {
        let recent = self.context.recent;
        // Set if the last blocks may spend an output of the current transaction.
        let mut recent_of_tx = None;
        let Self { context, survivors, gathered, script: scratch, created, unspent, .. } = self;
        let claimed = &context.unspent;
        let marks = claimed.of_block(height, unspent)?;
        for_each_output(block, height, claimed, marks, |output| {
            let outpoint = &output.outpoint;
            if outpoint.vout == 0 {
                recent_of_tx = recent.filter(|recent| recent.may_want(&outpoint.txid));
            }
            let is_coinbase = output.tx == 0;
            let script = output.view.script();
            let amount = output.view.value().unsigned_abs();
            match output.fate {
                HintedFate::NoCoin => {}
                HintedFate::Unspendable => {
                    context.note_wrong_hint(output.wrong_hint(DifferenceKind::Unspendable))?;
                }
                HintedFate::Spent => {
                    created.outpoints.push(outpoint.to_bytes());
                    if let Some(recent) = recent_of_tx {
                        recent.keep(outpoint, || Coin::new(amount, script, height, is_coinbase));
                    }
                }
                HintedFate::Unspent => {
                    if let Some(recent) = recent_of_tx.filter(|recent| recent.wants(outpoint)) {
                        if let Unspent::Snapshot(_) = claimed {
                            return Err(output.is_spent());
                        }
                        // The sums will show that the hint is wrong.
                        recent.keep(outpoint, || Coin::new(amount, script, height, is_coinbase));
                    }
                    gathered.tally.add_coin(amount);
                    if let Some(survivors) = survivors {
                        let code = height << 1 | u32::from(is_coinbase);
                        let script = compress_script(script, scratch);
                        let coin = CoinParts { amount, code, script };
                        let pushed = survivors.push(&outpoint.txid, outpoint.vout, &coin);
                        pushed?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Adds unspent coins to the survivors, and coins that other blocks spend to `created`.
    fn split_coins(&mut self, prepared: &Prepared) -> Result<(), Fault> {
        let block = &prepared.block;
        let height = prepared.height;
        let mut left = prepared.created.iter().peekable();
        let Self { context, survivors, gathered, created, unspent, .. } = self;
        let claimed = &context.unspent;
        let marks = claimed.of_block(height, unspent)?;
        for_each_output(block, height, claimed, marks, |output| {
            let outpoint = &output.outpoint;
            let coin = left.next_if(|(created, _)| created == outpoint);
            match (output.fate, coin) {
                // A coin that the block itself spends is in neither sum.
                (HintedFate::NoCoin, _) | (HintedFate::Spent, None) => {}
                (HintedFate::Unspendable, _) => {
                    context.note_wrong_hint(output.wrong_hint(DifferenceKind::Unspendable))?;
                }
                (HintedFate::Spent, Some((_, coin))) => {
                    push_coin(&mut created.coins, outpoint, coin);
                }
                (HintedFate::Unspent, None) => match claimed {
                    Unspent::Hints(_) => {
                        context
                            .note_wrong_hint(output.wrong_hint(DifferenceKind::Spent(height)))?;
                    }
                    Unspent::Snapshot(_) => return Err(output.is_spent()),
                },
                (HintedFate::Unspent, Some((_, coin))) => {
                    gathered.tally.add_coin(coin.amount);
                    if let Some(survivors) = survivors {
                        let pushed = survivors.push(&outpoint.txid, outpoint.vout, &coin.parts());
                        pushed?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Stores a block that came from a source or a peer, unless it is dropped. Returns its position
    /// if it was stored.
    fn store(
        &self,
        step: Step,
        block: &CheckedBlock<BlockBytes>,
    ) -> Result<Option<FlatFilePos>, Fault> {
        let Context { shared, plan, keeps, .. } = self.context;
        let is_stored = matches!(step.place, BlockOrigin::Stored(_));
        if is_stored || !keeps || plan.drops(shared.tree, &step) {
            return Ok(None);
        }
        let _timer = shared.clock.start(Stage::Store);
        let node = shared.tree.node(step.id);
        let bytes = block.view().bytes();
        let pos = shared.files.append_block(bytes, node.height, node.time);
        pos.map(Some).map_err(Fault::Store)
    }

    /// Stores undo data that is not in the data directory yet. Returns its position if it was
    /// stored.
    fn store_undo(
        &self,
        index: usize,
        stored: Option<FlatFilePos>,
        payload: &[u8],
    ) -> Result<Option<FlatFilePos>, Fault> {
        let step = self.context.plan.steps[index];
        let is_stored = matches!(self.context.plan.undo[index], UndoAt::Stored(_));
        let file = match (stored, step.place) {
            (Some(pos), _) => pos.file,
            (None, BlockOrigin::Stored(pos)) if !is_stored => pos.file,
            _ => return Ok(None),
        };
        if !self.context.keeps {
            return Ok(None);
        }
        let shared = self.context.shared;
        let _timer = shared.clock.start(Stage::Undo);
        Ok(Some(undo::append(shared, step.id, file, payload)?.at))
    }

    fn done(
        &mut self,
        step: usize,
        block: &CheckedBlock<BlockBytes>,
        stored: Option<FlatFilePos>,
        undo: Option<FlatFilePos>,
        counts: Counts,
    ) -> FinishedBlock {
        let shared = self.context.shared;
        let view = block.view();
        let height = shared.tree.node(self.context.plan.steps[step].id).height;
        let tally = &mut self.gathered.tally;
        if self.context.plan.needs_bip30(shared.network, height, block.hash()) {
            tally.coinbases.push((block.txids()[0], height));
        }
        let bytes = view.len() as u64;
        let blocks = 1;
        let transactions = view.tx_count() as u64;
        let counts = Counts { blocks, bytes, transactions, ..counts };
        tally.add(Tally { counts, ..Tally::default() });
        let tx_count = view.tx_count() as u32;
        let is_stripped = false;
        let is_put_off = false;
        let lacks_coins = false;
        FinishedBlock { step, tx_count, stored, undo, bytes, is_stripped, is_put_off, lacks_coins }
    }
}

/// Checks all rules that need coins, and the scripts, of the block of a step with the coins of its
/// undo data. The block is taken from `left`, and put back if it does not pass.
pub(super) fn validate(
    context: &Context,
    index: usize,
    left: &mut Option<Prepared>,
    payload: &mut Vec<u8>,
) -> Result<Validation, Fault> {
    let Context { shared, plan, .. } = context;
    let step = plan.steps[index];
    let scripts = shared.script_checks(step.id);
    let source = (step, plan.undo[index]);
    plan.undo_copies.check_with(shared, source, left, payload, |prepared, coins| {
        let _timer = shared.clock.start(Stage::Validate);
        check_spends(shared, step.id, prepared, coins, Some(scripts), &context.times)
    })
}
