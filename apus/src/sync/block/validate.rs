//! A block between taking its coins and being committed: its rules and scripts are checked by all
//! workers, each claiming the next chunk.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::prepare::{CoinSource, Prepared};
use crate::chain::{ActiveChain, BlockId, Tree};
use crate::coins::Coin;
use crate::rules::{BlockContext, BlockSpends, Prevout, RuleError, TxScripts, is_bip30_repeat};
use crate::wire::{Network, OutPoint, ScriptFlags, TxView, put_compact_size};

/// Inputs in a chunk of script checks: at about 33 µs each, 4 ms of work, so that the last chunk
/// of a block keeps no core waiting for long, and taking one costs nothing beside.
const CHUNK_INPUTS: usize = 128;

/// A block whose coins are taken from the cache and whose outputs are in it.
pub(crate) struct InFlight {
    pub id: BlockId,
    pub prepared: Prepared,
    /// The coins of [`Prepared::external`]; fewer if one was missing.
    pub coins: Vec<Coin>,
    /// The first input without coin: the index of its transaction, and the outpoint.
    pub missing: Option<(usize, OutPoint)>,
    /// Flags to check scripts with; `None` where they are assumed valid.
    pub script_flags: Option<ScriptFlags>,
    /// Median time past of the parent, and of every earlier block by height.
    pub times: Times,
    /// First input of each transaction among [`Prepared::sources`].
    first_source: Vec<u32>,
    chunks: Vec<Chunk>,
    next_chunk: AtomicUsize,
    chunks_done: AtomicUsize,
    /// Errors by chunk: the lowest is what Core would say.
    errors: Mutex<BTreeMap<usize, RuleError>>,
    undo: OnceLock<Vec<u8>>,
    /// Whether its coins are taken and its outputs added.
    coins_taken: bool,
}

/// Median times past that BIP68 may ask for.
#[derive(Clone)]
pub(crate) struct Times {
    pub parent: i64,
    pub by_height: Arc<Vec<u32>>,
}

impl Times {
    /// The times of the branch that ends in `tip`.
    pub fn of_branch(tree: &Tree, tip: BlockId) -> Arc<Vec<u32>> {
        let chain = ActiveChain::to(tree, tip);
        let at = |height| chain.at(height).map_or(0, |id| tree.median_time_past(id));
        Arc::new((0..=tree.node(tip).height).map(at).collect())
    }
}

#[derive(Clone, Copy)]
enum Chunk {
    /// All rules about amounts, locks and signature operations.
    Rules,
    /// Encoding the undo data.
    Undo,
    /// Every input of these transactions.
    Scripts { first_tx: usize, end_tx: usize },
    /// Some inputs of one large transaction.
    ScriptsOfTx { tx: usize, first_input: usize, end_input: usize },
}

impl InFlight {
    /// Readies a block for the workers.
    pub fn new(
        id: BlockId,
        prepared: Prepared,
        coins: Vec<Coin>,
        missing: Option<(usize, OutPoint)>,
        script_flags: Option<ScriptFlags>,
        times: Times,
    ) -> Self {
        let mut first_source = vec![0, 0];
        for tx in prepared.block.view().txs().skip(1) {
            let last = first_source[first_source.len() - 1];
            first_source.push(last + tx.input_count() as u32);
        }
        let mut chunks = vec![Chunk::Rules];
        if missing.is_none() {
            chunks.push(Chunk::Undo);
            if script_flags.is_some() {
                script_chunks(&prepared, &mut chunks);
            }
        }
        Self {
            coins_taken: missing.is_none(),
            undo: OnceLock::new(),
            id,
            prepared,
            coins,
            missing,
            script_flags,
            times,
            first_source,
            chunks,
            next_chunk: AtomicUsize::new(0),
            chunks_done: AtomicUsize::new(0),
            errors: Mutex::default(),
        }
    }

    /// A block that is refused before any of its coins is taken.
    pub fn refused(id: BlockId, prepared: Prepared, error: RuleError) -> Self {
        let times = Times { parent: 0, by_height: Arc::default() };
        let mut block = Self::new(id, prepared, Vec::new(), None, None, times);
        block.chunks.clear();
        block.coins_taken = false;
        block.errors = Mutex::new(BTreeMap::from([(0, error)]));
        block
    }

    /// Whether its coins are taken from the cache and its outputs added to it.
    pub fn coins_taken(&self) -> bool {
        self.coins_taken
    }

    /// Works on the block until no chunk is left to claim; true for whoever finished the last.
    pub fn work(&self, network: &Network) -> bool {
        let mut finished_last = false;
        loop {
            let index = self.next_chunk.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = self.chunks.get(index) else { return finished_last };
            if let Err(error) = self.check(*chunk, network) {
                let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
                errors.insert(index, error);
            }
            let done = self.chunks_done.fetch_add(1, Ordering::AcqRel) + 1;
            finished_last |= done == self.chunks.len();
        }
    }

    /// Whether every chunk is done.
    pub fn is_done(&self) -> bool {
        self.chunks_done.load(Ordering::Acquire) == self.chunks.len()
    }

    /// The error that Core would give, once all is done.
    pub fn take_error(&self) -> Option<RuleError> {
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        errors.pop_first().map(|(_, error)| error)
    }

    /// Inputs, the coinbase's left out.
    pub fn input_count(&self) -> usize {
        self.prepared.sources.len()
    }

    /// By how many coins the UTXO set has grown.
    pub fn coins_gained(&self) -> i64 {
        let prepared = &self.prepared;
        let overwrites = is_bip30_repeat(prepared.height, prepared.block.hash());
        let overwritten = if overwrites { prepared.created_by_coinbase } else { 0 };
        prepared.created.len() as i64 - overwritten as i64 - self.coins.len() as i64
    }

    fn check(&self, chunk: Chunk, network: &Network) -> Result<(), RuleError> {
        match (chunk, self.script_flags) {
            (Chunk::Rules, _) => self.check_rules(network),
            (Chunk::Undo, _) => {
                self.undo.get_or_init(|| encode_undo(&self.prepared, &self.coins));
                Ok(())
            }
            (Chunk::Scripts { first_tx, end_tx }, Some(flags)) => {
                (first_tx..end_tx).try_for_each(|index| self.check_scripts(index, .., flags))
            }
            (Chunk::ScriptsOfTx { tx, first_input, end_input }, Some(flags)) => {
                self.check_scripts(tx, first_input..end_input, flags)
            }
            (_, None) => Ok(()),
        }
    }

    fn check_rules(&self, network: &Network) -> Result<(), RuleError> {
        let context = BlockContext {
            network,
            height: self.prepared.height,
            parent_median_time_past: self.times.parent,
        };
        let block = &self.prepared.block;
        let mut spends = BlockSpends::new(block, context);
        let time_at = |height: u32| {
            self.times.by_height.get(height as usize).map_or(0, |time| i64::from(*time))
        };
        let mut scripts = Vec::new();
        for index in 1..block.view().tx_count() {
            if let Some((tx, outpoint)) = &self.missing
                && *tx == index
            {
                return Err(RuleError::missing_or_spent(&block.txids()[index], outpoint));
            }
            self.with_prevouts(index, &mut scripts, |_, prevouts| {
                spends.tx(index, prevouts, time_at)
            })?;
        }
        spends.finish().map(|_| ())
    }

    fn check_scripts(
        &self,
        index: usize,
        inputs: impl std::ops::RangeBounds<usize>,
        flags: ScriptFlags,
    ) -> Result<(), RuleError> {
        self.with_prevouts(index, &mut Vec::new(), |tx, prevouts| {
            let scripts = TxScripts::new(tx, prevouts, flags)?;
            let wanted = (0..prevouts.len()).filter(|input| inputs.contains(input));
            wanted.into_iter().try_for_each(|input| scripts.check_input(input))
        })
    }

    /// Calls `work` with the transaction at `index` and the coins that it spends. `scripts` is
    /// scratch space for scripts in full.
    fn with_prevouts<T>(
        &self,
        index: usize,
        scripts: &mut Vec<u8>,
        work: impl FnOnce(&TxView, &[Prevout]) -> T,
    ) -> T {
        let view = self.prepared.block.view();
        let sources = self.sources_of(index);
        scripts.clear();
        let mut ends = Vec::with_capacity(sources.len());
        for source in sources {
            if let CoinSource::External(at) = source {
                self.coins[*at as usize].script.decompress_into(scripts);
            }
            ends.push(scripts.len());
        }
        let mut start = 0;
        let prevouts: Vec<Prevout> = sources
            .iter()
            .zip(ends)
            .map(|(source, end)| match *source {
                CoinSource::External(at) => {
                    let coin = &self.coins[at as usize];
                    let script = &scripts[start..end];
                    start = end;
                    let (height, is_coinbase) = (coin.height, coin.is_coinbase);
                    Prevout { amount: coin.amount as i64, script, height, is_coinbase }
                }
                CoinSource::Inside { tx, vout } => {
                    let output = view.tx(tx as usize).output(vout as usize);
                    let (amount, script) = (output.value(), output.script());
                    let height = self.prepared.height;
                    Prevout { amount, script, height, is_coinbase: tx == 0 }
                }
            })
            .collect();
        work(&view.tx(index), &prevouts)
    }

    fn sources_of(&self, index: usize) -> &[CoinSource] {
        let (first, end) = (self.first_source[index], self.first_source[index + 1]);
        &self.prepared.sources[first as usize..end as usize]
    }

    /// The undo data, once all is done: for every transaction but the coinbase, the coins that it
    /// spent (Core's `CBlockUndo`).
    pub fn undo(&self) -> &[u8] {
        self.undo.get().map_or(&[], Vec::as_slice)
    }
}

/// The undo data of a block that spends `coins` ([`Prepared::external`]).
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

/// Cuts a block's inputs into chunks of about equal work.
fn script_chunks(prepared: &Prepared, chunks: &mut Vec<Chunk>) {
    let view = prepared.block.view();
    let (mut first_tx, mut inputs) = (1, 0);
    for (index, tx) in view.txs().enumerate().skip(1) {
        let count = tx.input_count();
        if count > 2 * CHUNK_INPUTS {
            if first_tx < index {
                chunks.push(Chunk::Scripts { first_tx, end_tx: index });
            }
            for first_input in (0..count).step_by(CHUNK_INPUTS) {
                let end_input = (first_input + CHUNK_INPUTS).min(count);
                chunks.push(Chunk::ScriptsOfTx { tx: index, first_input, end_input });
            }
            (first_tx, inputs) = (index + 1, 0);
            continue;
        }
        inputs += count;
        if inputs >= CHUNK_INPUTS {
            chunks.push(Chunk::Scripts { first_tx, end_tx: index + 1 });
            (first_tx, inputs) = (index + 1, 0);
        }
    }
    if first_tx < view.tx_count() {
        chunks.push(Chunk::Scripts { first_tx, end_tx: view.tx_count() });
    }
}
