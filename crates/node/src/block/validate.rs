//! The rules about what a block spends, its scripts and its undo data, once its coins are known.
//!
//! The work is split into chunks, so that all workers can take part in one block.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use apus_chain::{BlockId, Tree};
use apus_coins::Coin;
use apus_consensus::{BlockContext, BlockSpends, RuleError, is_bip30_repeat};
use apus_disk::lock;
use apus_wire::{Network, Prevout, TxView, put_compact_size};

use super::prepare::{CoinSource, MissingCoin, Prepared};
use super::scripts::{Inputs, Part, Scratch, ScriptChecker, ScriptChecks, SharedTx};
use crate::options::ScriptEngine;
use crate::shared::Shared;

/// Maximum number of inputs, roughly, in a chunk of script checks by Core's engine: at about 33 µs
/// each, 4 ms of work, so that other cores do not wait long for the last chunk of a block, and
/// taking a chunk costs next to nothing.
const CHUNK_INPUTS: usize = 128;
/// The same where signatures are verified together: 3 ms of work, and enough inputs that the fixed
/// cost of a batch is a few per cent of it.
const CHUNK_INPUTS_FAST: usize = 512;
/// Maximum number of chunks of one transaction, since each collects all coins that it spends.
const CHUNKS_OF_TX_MAX: usize = 16;

/// A block with the coins that it spends, while its rules and scripts are checked.
pub struct Validation {
    /// The block.
    pub id: BlockId,
    /// The checked block, and the coins that it spends and creates.
    pub prepared: Prepared,
    /// The coins of [`Prepared::external`], up to the first one that is missing.
    pub coins: Vec<Coin>,
    /// How scripts are checked; `None` if they are assumed valid.
    pub scripts: Option<ScriptChecks>,
    /// The first input without a coin.
    missing: Option<MissingCoin>,
    has_all_coins: bool,
    parent_median_time_past: i64,
    times: BranchTimes,
    /// The index in [`Prepared::sources`] of each transaction's first input.
    first_source: Vec<u32>,
    chunks: Vec<Chunk>,
    /// Data shared by the chunks of a transaction, by its index.
    shared: BTreeMap<usize, SharedTx>,
    next_chunk: AtomicUsize,
    chunks_done: AtomicUsize,
    /// Errors by chunk: that of the lowest chunk is the one that Core would give.
    errors: Mutex<BTreeMap<usize, RuleError>>,
    undo: OnceLock<Vec<u8>>,
}

/// The median time past of each block of a branch, by height. Lock times relative to the time of a
/// spent coin need it (BIP68).
#[derive(Clone, Default)]
pub struct BranchTimes {
    by_height: Arc<Vec<u32>>,
    /// The last block of the branch; `None` before the first.
    tip: Option<BlockId>,
}

impl BranchTimes {
    pub fn of(tree: &Tree, tip: BlockId) -> Self {
        let mut times = Self::default();
        times.follow(tree, tip);
        times
    }

    /// Moves to the branch that ends in `tip`, in time proportional to the number of blocks that
    /// are in only one of the two branches.
    pub fn follow(&mut self, tree: &Tree, tip: BlockId) {
        let fork = self.tip.and_then(|before| tree.fork(before, tip));
        let kept = fork.map_or(0, |fork| tree.node(fork).height as usize + 1);
        let new = tree.ancestors(tip).take_while(|id| Some(*id) != fork);
        let mut new: Vec<u32> = new.map(|id| tree.median_time_past(id)).collect();
        new.reverse();
        let by_height = Arc::make_mut(&mut self.by_height);
        by_height.truncate(kept);
        by_height.extend(new);
        self.tip = Some(tip);
    }

    /// Returns the median time past of the block at `height`; 0 if the branch does not reach it.
    pub fn at(&self, height: u32) -> i64 {
        self.by_height.get(height as usize).map_or(0, |time| i64::from(*time))
    }
}

/// A part of the work on one block.
enum Chunk {
    /// All rules about what the block spends, except its scripts.
    Rules,
    /// Encoding the undo data.
    Undo,
    /// Some of the scripts.
    Scripts(Part),
}

impl Inputs for Validation {
    fn tx(&self, index: usize) -> TxView<'_> {
        self.prepared.block.view().tx(index)
    }

    fn with_tx<T>(
        &self,
        index: usize,
        scratch: &mut Scratch,
        work: impl FnOnce(&TxView, &[Prevout]) -> T,
    ) -> T {
        let view = self.prepared.block.view();
        let sources = self.sources_of(index);
        let Scratch { scripts, ends } = scratch;
        scripts.clear();
        ends.clear();
        for source in sources {
            if let CoinSource::External(at) = source
                && let script = &self.coins[*at as usize].script
                && script.as_raw().is_none()
            {
                script.decompress_into(scripts);
            }
            ends.push(scripts.len());
        }
        let mut start = 0;
        let prevouts: Vec<Prevout> = sources
            .iter()
            .zip(ends.iter())
            .map(|(source, &end)| match *source {
                CoinSource::External(at) => {
                    let coin = &self.coins[at as usize];
                    let script = coin.script.as_raw().unwrap_or(&scripts[start..end]);
                    start = end;
                    let height = coin.height;
                    let is_coinbase = coin.is_coinbase;
                    Prevout { amount: coin.amount as i64, script, height, is_coinbase }
                }
                CoinSource::Inside { tx, vout } => {
                    let output = view.tx(tx as usize).output(vout as usize);
                    let amount = output.value();
                    let script = output.script();
                    let height = self.prepared.height;
                    Prevout { amount, script, height, is_coinbase: tx == 0 }
                }
            })
            .collect();
        work(&view.tx(index), &prevouts)
    }

    fn shared(&self, index: usize) -> Option<&SharedTx> {
        self.shared.get(&index)
    }
}

impl Validation {
    /// Prepares a block for its checks. `coins` are those of [`Prepared::external`], up to the
    /// first that is missing; `times` are those of a branch that contains the block.
    pub fn new(
        tree: &Tree,
        id: BlockId,
        prepared: Prepared,
        coins: Vec<Coin>,
        scripts: Option<ScriptChecks>,
        times: &BranchTimes,
    ) -> Self {
        let missing = prepared.first_missing(coins.len());
        let mut first_source = vec![0, 0];
        for tx in prepared.block.view().txs().skip(1) {
            let last = first_source[first_source.len() - 1];
            first_source.push(last + tx.input_count() as u32);
        }
        let mut chunks = vec![Chunk::Rules];
        let mut shared = BTreeMap::new();
        if missing.is_none() {
            chunks.push(Chunk::Undo);
            if let Some(scripts) = scripts {
                shared = script_chunks(&prepared, scripts, &mut chunks);
            }
        }
        Self {
            id,
            prepared,
            coins,
            scripts,
            has_all_coins: missing.is_none(),
            missing,
            parent_median_time_past: tree.parent_median_time_past(id),
            times: times.clone(),
            first_source,
            chunks,
            shared,
            next_chunk: AtomicUsize::new(0),
            chunks_done: AtomicUsize::new(0),
            errors: Mutex::default(),
            undo: OnceLock::new(),
        }
    }

    /// Returns a block that breaks a rule which is checked before any of its coins is taken.
    pub fn refused(tree: &Tree, id: BlockId, prepared: Prepared, error: RuleError) -> Self {
        let mut block = Self::new(tree, id, prepared, Vec::new(), None, &BranchTimes::default());
        block.chunks.clear();
        block.has_all_coins = false;
        block.errors = Mutex::new(BTreeMap::from([(0, error)]));
        block
    }

    /// Returns whether a coin was found for every input; if not, the block takes none from the UTXO
    /// set.
    pub fn has_all_coins(&self) -> bool {
        self.has_all_coins
    }

    /// Works on the block until every chunk is taken. Returns whether this call finished the last
    /// chunk.
    pub fn work(&self, network: &Network, checker: &ScriptChecker) -> bool {
        let mut finished_last = false;
        loop {
            let index = self.next_chunk.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = self.chunks.get(index) else { return finished_last };
            if let Err(error) = self.check(chunk, network, checker) {
                let mut errors = lock(&self.errors);
                errors.insert(index, error);
            }
            let done = self.chunks_done.fetch_add(1, Ordering::AcqRel) + 1;
            if done == self.chunks.len() {
                finished_last = true;
                self.shared.values().for_each(SharedTx::release);
            }
        }
    }

    /// Returns whether every chunk is done.
    pub fn is_done(&self) -> bool {
        self.chunks_done.load(Ordering::Acquire) == self.chunks.len()
    }

    /// Takes the error that Core would give for the block, once every chunk is done.
    pub fn take_error(&self) -> Option<RuleError> {
        let mut errors = lock(&self.errors);
        errors.pop_first().map(|(_, error)| error)
    }

    /// Returns the number of threads that can take part in the checks.
    pub fn parts(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the number of inputs, without the coinbase's.
    pub fn input_count(&self) -> usize {
        self.prepared.sources.len()
    }

    /// Returns the number of coins by which the block changes the size of the UTXO set.
    pub fn coins_gained(&self) -> i64 {
        let prepared = &self.prepared;
        let overwrites = is_bip30_repeat(prepared.height, prepared.block.hash());
        let overwritten = if overwrites { prepared.created_by_coinbase } else { 0 };
        prepared.created.len() as i64 - overwritten as i64 - self.coins.len() as i64
    }

    fn check(
        &self,
        chunk: &Chunk,
        network: &Network,
        checker: &ScriptChecker,
    ) -> Result<(), RuleError> {
        match (chunk, self.scripts) {
            (Chunk::Rules, _) => self.check_rules(network),
            (Chunk::Undo, _) => {
                self.undo.get_or_init(|| encode_undo(&self.prepared, &self.coins));
                Ok(())
            }
            (Chunk::Scripts(part), Some(scripts)) => checker.check(self, part, scripts),
            (Chunk::Scripts(_), None) => Ok(()),
        }
    }

    fn check_rules(&self, network: &Network) -> Result<(), RuleError> {
        let context = BlockContext {
            network,
            height: self.prepared.height,
            parent_median_time_past: self.parent_median_time_past,
        };
        let block = &self.prepared.block;
        let mut spends = BlockSpends::new(block, context);
        let mut scratch = Scratch::default();
        for index in 1..block.view().tx_count() {
            if let Some(missing) = self.missing.filter(|missing| missing.tx == index) {
                return Err(RuleError::missing_or_spent(&block.txid(index), &missing.outpoint));
            }
            self.with_tx(index, &mut scratch, |_, prevouts| {
                spends.tx(index, prevouts, |height| self.times.at(height))
            })?;
        }
        spends.finish().map(|_| ())
    }

    fn sources_of(&self, index: usize) -> &[CoinSource] {
        let first = self.first_source[index];
        let end = self.first_source[index + 1];
        &self.prepared.sources[first as usize..end as usize]
    }

    /// Returns the undo data, once every chunk is done: the coins that each transaction but the
    /// coinbase spends (Core's `CBlockUndo`).
    pub fn undo(&self) -> &[u8] {
        self.undo.get().map_or(&[], Vec::as_slice)
    }

    /// Consumes the block, and returns what [`Validation::undo`] does.
    pub fn into_undo(self) -> Vec<u8> {
        self.undo.into_inner().unwrap_or_default()
    }
}

/// The rule that a block breaks, and the block, which may be tried with other coins.
pub struct Refused {
    /// The rule that the block breaks.
    pub error: RuleError,
    /// The block.
    pub prepared: Prepared,
}

/// Checks all rules about what a block spends, and its scripts as `scripts` says, in this thread.
/// `coins` and `times` are as for [`Validation::new`].
///
/// # Errors
/// The reason that Core would give if these were the block's coins.
pub fn check_spends(
    shared: &Shared,
    id: BlockId,
    prepared: Prepared,
    coins: Vec<Coin>,
    scripts: Option<ScriptChecks>,
    times: &BranchTimes,
) -> Result<Validation, Box<Refused>> {
    let block = Validation::new(shared.tree, id, prepared, coins, scripts, times);
    block.work(shared.network, shared.scripts);
    match block.take_error() {
        Some(error) => Err(Box::new(Refused { error, prepared: block.prepared })),
        None => Ok(block),
    }
}

/// Returns the undo data of a block that spends `coins` ([`Prepared::external`]).
fn encode_undo(prepared: &Prepared, coins: &[Coin]) -> Vec<u8> {
    let view = prepared.block.view();
    let mut undo = Vec::with_capacity(prepared.sources.len() * 32 + view.tx_count() * 2 + 5);
    put_compact_size(&mut undo, view.tx_count() as u64 - 1);
    let mut sources = prepared.sources.iter();
    for tx in view.txs().skip(1) {
        put_compact_size(&mut undo, tx.input_count() as u64);
        for source in sources.by_ref().take(tx.input_count()) {
            match *source {
                CoinSource::External(at) => coins[at as usize].encode_undo(&mut undo),
                CoinSource::Inside { tx, vout } => {
                    prepared.coin_inside(tx, vout).encode_undo(&mut undo);
                }
            }
        }
    }
    undo
}

/// Splits a block's inputs into chunks of about equal work. Returns what the chunks of each
/// transaction share that has several.
fn script_chunks(
    prepared: &Prepared,
    scripts: ScriptChecks,
    chunks: &mut Vec<Chunk>,
) -> BTreeMap<usize, SharedTx> {
    let mut shared = BTreeMap::new();
    let view = prepared.block.view();
    let most_inputs = match scripts.engine {
        ScriptEngine::Core => CHUNK_INPUTS,
        ScriptEngine::Fast | ScriptEngine::Both => CHUNK_INPUTS_FAST,
    };
    // Of equal size, so that no small chunk is left at the end.
    let all_inputs = prepared.sources.len();
    let chunk_inputs = all_inputs.div_ceil(all_inputs.div_ceil(most_inputs).max(1)).max(1);
    let all = 0..usize::MAX;
    let mut first_tx = 1;
    let mut inputs = 0;
    for (index, tx) in view.txs().enumerate().skip(1) {
        let count = tx.input_count();
        if count > 2 * chunk_inputs {
            if first_tx < index {
                chunks.push(Chunk::Scripts(Part { txs: first_tx..index, inputs: all.clone() }));
            }
            shared.insert(index, SharedTx::default());
            let step = chunk_inputs.max(count.div_ceil(CHUNKS_OF_TX_MAX));
            for first_input in (0..count).step_by(step) {
                let inputs = first_input..first_input + step;
                chunks.push(Chunk::Scripts(Part { txs: index..index + 1, inputs }));
            }
            (first_tx, inputs) = (index + 1, 0);
            continue;
        }
        inputs += count;
        if inputs >= chunk_inputs {
            chunks.push(Chunk::Scripts(Part { txs: first_tx..index + 1, inputs: all.clone() }));
            (first_tx, inputs) = (index + 1, 0);
        }
    }
    if first_tx < view.tx_count() {
        chunks.push(Chunk::Scripts(Part { txs: first_tx..view.tx_count(), inputs: all }));
    }
    shared
}
