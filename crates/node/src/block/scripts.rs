//! Checks the scripts of blocks: with Bitcoin Core's engine, with the fast engine and Core's engine
//! for the inputs that it leaves, or with both.

use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, OnceLock};

use apus_chain::{BlockId, Tree};
use apus_consensus::{RuleError, script_flags};
use apus_disk::{Disk, StoreError, lock};
use apus_progress::meters::ScriptTally;
use apus_scripts::sighash::{SharedHashes, TxHashes, TxSighash};
use apus_scripts::{FastScripts, FastVerdict, PreparedTx, TxScripts, is_taproot};
use apus_wire::{Network, Prevout, ScriptFlags, TxView};
use secp_lanes::Kernel;

use super::script_difference::ScriptDifference;
use crate::assumevalid::is_buried_below_best;
use crate::options::{Options, ScriptEngine};
use apus_progress::outcome::ScriptCounts;

/// Core's engine also checks one in this many of the inputs that the fast engine finds valid,
/// chosen at random.
const RECHECK_ONE_IN: u64 = 4096;

/// The most bytes of spent outputs that are copied for a taproot input, on average: a fifth of the
/// time that its signature takes, and half of the time of a leaf without one. Where a quarter of it
/// is enough, as for up to 170 inputs that spend keys, Core's engine checks all.
const COPIED_BYTES_MAX: u64 = 32 << 10;
/// The size of a spent output in memory, and the longest script that has its place in it.
const SPENT_OUTPUT_BYTES: usize = 48;
const SHORT_SCRIPT_BYTES: usize = 36;

/// How the scripts of a block are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScriptChecks {
    /// The flags with which all scripts of the block are checked.
    pub flags: ScriptFlags,
    /// The engine that checks them.
    pub engine: ScriptEngine,
}

/// Checks scripts, and counts the inputs that each engine has checked.
pub struct ScriptChecker {
    engine: ScriptEngine,
    buried_seconds: i64,
    kernel: Option<Kernel>,
    /// Chooses the inputs that are checked twice; it must be unknown to those who create blocks.
    salt: u64,
    /// Where an input is saved about which the fast engine and Core's engine disagree.
    disk: Disk,
    directory: PathBuf,
    /// An input about which the two disagreed, in this run or an earlier one: from then on Core's
    /// engine alone checks scripts.
    difference: OnceLock<ScriptDifference>,
    /// Whether to simulate a bug in the fast engine, for tests, which run with debug assertions: it
    /// finds each input valid, and Core's engine is asked too.
    #[cfg(any(test, debug_assertions))]
    pub is_faulty: bool,
    /// [`COPIED_BYTES_MAX`], but for tests.
    copied_bytes_max: u64,
    tally: Arc<ScriptTally>,
}

/// Some inputs of a block, with the coins that their transactions spend.
pub trait Inputs {
    fn tx(&self, index: usize) -> TxView<'_>;

    /// Calls `work` with the transaction at `index` and the coins that it spends. Compressed
    /// scripts are written to `scratch`; long ones, which are not compressed, are not copied.
    fn with_tx<T>(
        &self,
        index: usize,
        scratch: &mut Scratch,
        work: impl FnOnce(&TxView, &[Prevout]) -> T,
    ) -> T;

    /// Returns what the parts of the transaction at `index` share, if it has several.
    fn shared(&self, index: usize) -> Option<&SharedTx>;
}

/// Data shared by the parts of a transaction, so that one of many inputs is prepared once.
#[derive(Default)]
pub struct SharedTx {
    prepared: Mutex<Option<Arc<PreparedTx>>>,
    hashes: TxHashes,
}

impl SharedTx {
    /// Returns the transaction prepared for Core's engine.
    fn prepared(&self, tx: &TxView) -> Result<Arc<PreparedTx>, RuleError> {
        let mut prepared = lock(&self.prepared);
        if let Some(prepared) = &*prepared {
            return Ok(Arc::clone(prepared));
        }
        Ok(Arc::clone(prepared.insert(Arc::new(PreparedTx::new(tx)?))))
    }

    /// Frees the memory, which may be a hundred megabytes, once all parts are checked.
    pub fn release(&self) {
        *lock(&self.prepared) = None;
    }
}

/// Memory for the scripts that a transaction spends, reused for one transaction after another.
#[derive(Default)]
pub struct Scratch {
    /// The scripts, one after another.
    pub scripts: Vec<u8>,
    /// Where each script ends in `scripts`.
    pub ends: Vec<usize>,
}

/// An input of a part.
struct PartInput {
    tx: usize,
    input: usize,
    /// Whether the fast engine finds it valid.
    is_valid: bool,
    /// Whether Core's engine checks the input even if it is valid.
    is_chosen: bool,
}

impl PartInput {
    /// Returns whether Core's engine is asked.
    fn is_asked(&self) -> bool {
        !self.is_valid || self.is_chosen
    }
}

/// Transactions of a block, and the inputs of them to check.
#[derive(Clone)]
pub struct Part {
    /// Indexes of the transactions in the block.
    pub txs: Range<usize>,
    /// The inputs to check: all, or a range of those of the only transaction.
    pub inputs: Range<usize>,
}

impl Part {
    fn inputs(&self, count: usize) -> Range<usize> {
        self.inputs.start..self.inputs.end.min(count)
    }
}

thread_local! {
    /// Memory for the signatures of a part, kept by each thread.
    static LANES: RefCell<Option<(Option<Kernel>, FastScripts)>> = const { RefCell::new(None) };
}

impl ScriptChecker {
    /// Returns a checker for the blocks of a data directory. If a difference is saved there, it
    /// uses Core's engine alone.
    pub fn new(options: &Options, disk: &Disk) -> Result<Self, StoreError> {
        let mut salt = [0; 8];
        // Without randomness the salt is known, and everything else still holds.
        let _ = getrandom::fill(&mut salt);
        let directory = options.network_dir();
        let difference = ScriptDifference::find(disk, &directory)?;
        let engine = if difference.is_some() { ScriptEngine::Core } else { options.scripts.engine };
        Ok(Self {
            engine,
            buried_seconds: options.scripts.buried_seconds,
            kernel: options.scripts.kernel,
            salt: u64::from_le_bytes(salt),
            disk: disk.clone(),
            directory,
            difference: difference.map(OnceLock::from).unwrap_or_default(),
            #[cfg(any(test, debug_assertions))]
            is_faulty: false,
            copied_bytes_max: COPIED_BYTES_MAX,
            tally: Arc::default(),
        })
    }

    /// Returns the engine that checks scripts in this run, for blocks that the fast engine may
    /// check.
    pub fn engine(&self) -> ScriptEngine {
        self.engine
    }

    /// Returns the first known input about which the fast engine and Core's engine disagree.
    pub fn difference(&self) -> Option<&ScriptDifference> {
        self.difference.get()
    }

    /// Resets the counts, since everything is checked again.
    pub fn begin_again(&self) {
        let ScriptTally { fast, core, rechecked, signatures } = &*self.tally;
        for count in [fast, core, rechecked, signatures] {
            count.store(0, Relaxed);
        }
    }

    /// Returns how the scripts of a block are checked: with the flags of its height, and on the
    /// fast engine only if the block is buried so deep that it cannot have been created to exploit
    /// a bug in Apus, and if the processor has lanes, without which the fast engine is not faster
    /// than Core's engine.
    pub fn checks(&self, network: &Network, tree: &Tree, id: BlockId) -> ScriptChecks {
        let node = tree.node(id);
        let flags = script_flags(network, node.height, &node.hash);
        let is_buried = || is_buried_below_best(tree, id, self.buried_seconds);
        // Checked last, since the first call builds and tests the tables of the lanes.
        let has_lanes = || self.kernel.is_some() || Kernel::best() != Kernel::Library;
        let engine = match self.engine {
            ScriptEngine::Fast if !(is_buried() && has_lanes()) => ScriptEngine::Core,
            engine => engine,
        };
        ScriptChecks { flags, engine }
    }

    /// Checks the scripts of some inputs.
    ///
    /// # Errors
    /// The first input that Core's engine finds invalid.
    ///
    /// # Panics
    /// With debug assertions, if the fast engine finds an input valid that Core's engine does not,
    /// so that no test misses it. What is needed to reproduce it is saved first.
    pub fn check(
        &self,
        inputs: &impl Inputs,
        part: &Part,
        mut checks: ScriptChecks,
    ) -> Result<(), RuleError> {
        if self.difference.get().is_some() {
            checks.engine = ScriptEngine::Core;
        }
        let mut scratch = Scratch::default();
        let mut asked = match checks.engine {
            ScriptEngine::Core => Self::all(inputs, part),
            ScriptEngine::Fast | ScriptEngine::Both => {
                self.fast(inputs, part, checks, &mut scratch)
            }
        };
        let all = asked.len();
        asked.retain(PartInput::is_asked);
        self.tally.fast.fetch_add((all - asked.len()) as u64, Relaxed);
        for asked in asked.chunk_by_mut(|one, next| one.tx == next.tx) {
            let shared = inputs.shared(asked[0].tx);
            inputs.with_tx(asked[0].tx, &mut scratch, |tx, prevouts| {
                self.spare_copies(tx, prevouts, shared, asked, checks);
                let prepared = match shared {
                    Some(shared) => shared.prepared(tx)?,
                    None => Arc::new(PreparedTx::new(tx)?),
                };
                let scripts = TxScripts::of(prepared, prevouts, checks.flags)?;
                let asked = asked.iter().filter(|input| input.is_asked());
                asked.into_iter().try_for_each(|PartInput { input, is_valid, .. }| {
                    self.ask_core(&scripts, tx, prevouts, *input, checks, *is_valid)
                })
            })?;
        }
        Ok(())
    }

    /// Has the fast engine decide taproot inputs if a copy of all spent outputs for each of them
    /// would take Core's engine too long. Core's engine still checks some of those that are found
    /// valid, so that [`COPIED_BYTES_MAX`] are copied for an input on average.
    fn spare_copies(
        &self,
        tx: &TxView,
        prevouts: &[Prevout],
        shared: Option<&SharedTx>,
        asked: &mut [PartInput],
        checks: ScriptChecks,
    ) {
        let copied_bytes = spent_bytes(prevouts);
        let trusts_core_alone =
            self.engine == ScriptEngine::Core || self.difference.get().is_some();
        if checks.engine != ScriptEngine::Core
            || trusts_core_alone
            || !self.copies_much(copied_bytes)
        {
            return;
        }
        let needs_copy = |asked: &&mut PartInput| is_taproot(prevouts[asked.input].script);
        let mut asked: Vec<_> = asked.iter_mut().filter(needs_copy).collect();
        let one_in = copied_bytes.div_ceil(self.copied_bytes_max).max(2);
        let verdicts = self.with_lanes(|lanes| {
            let messages = TxSighash::new(*tx, prevouts, None).sparing_core(true);
            let mut messages = messages.with_common(shared.map(|shared| &shared.hashes));
            asked.iter().for_each(|asked| lanes.add(&mut messages, asked.input, checks.flags));
            lanes.decide()
        });
        for (asked, verdict) in asked.iter_mut().zip(verdicts) {
            asked.is_valid = verdict == FastVerdict::Valid;
            asked.is_chosen = self.is_chosen(tx, asked.input, one_in);
            self.tally.fast.fetch_add(u64::from(!asked.is_asked()), Relaxed);
        }
    }

    /// Returns whether copying `n` bytes for each taproot input costs too much.
    fn copies_much(&self, copied_bytes: u64) -> bool {
        copied_bytes > self.copied_bytes_max / 4
    }

    /// Returns all inputs of a part, unchecked.
    fn all(inputs: &impl Inputs, part: &Part) -> Vec<PartInput> {
        let of_tx = |tx| {
            let all = part.inputs(inputs.tx(tx).input_count());
            all.map(move |input| PartInput { tx, input, is_valid: false, is_chosen: false })
        };
        part.txs.clone().flat_map(of_tx).collect()
    }

    /// Checks with Core's engine an input that the fast engine may have found valid.
    fn ask_core(
        &self,
        scripts: &TxScripts,
        tx: &TxView,
        prevouts: &[Prevout],
        input: usize,
        checks: ScriptChecks,
        is_valid: bool,
    ) -> Result<(), RuleError> {
        let verdict = scripts.check_input(input);
        if !is_valid {
            self.tally.core.fetch_add(1, Relaxed);
            return verdict;
        }
        if verdict.is_err() {
            self.note_difference(tx, prevouts, input, checks.flags);
        }
        self.tally.fast.fetch_add(1, Relaxed);
        self.tally.rechecked.fetch_add(1, Relaxed);
        verdict
    }

    /// Checks all inputs of a part by the fast engine, and returns them.
    fn fast(
        &self,
        inputs: &impl Inputs,
        part: &Part,
        checks: ScriptChecks,
        scratch: &mut Scratch,
    ) -> Vec<PartInput> {
        let txs: Vec<TxView> = part.txs.clone().map(|index| inputs.tx(index)).collect();
        let counts = txs.iter().map(|tx| part.inputs(tx.input_count()).len());
        let mut all = Vec::with_capacity(counts.sum());
        let verdicts = self.with_lanes(|lanes| {
            let hashes = match inputs.shared(part.txs.start) {
                Some(_) => vec![None],
                None => SharedHashes::of_many(&txs),
            };
            for (index, hashes) in part.txs.clone().zip(hashes) {
                let shared = inputs.shared(index).map(|shared| &shared.hashes);
                inputs.with_tx(index, scratch, |tx, prevouts| {
                    // Core's engine would copy much for each taproot input that is left to it.
                    let is_dear = self.copies_much(spent_bytes(prevouts));
                    let messages = TxSighash::new(*tx, prevouts, hashes).with_common(shared);
                    let mut messages = messages.sparing_core(is_dear);
                    for input in part.inputs(prevouts.len()) {
                        let is_dear = is_dear && is_taproot(prevouts[input].script);
                        if is_dear || lanes.is_worthwhile() {
                            lanes.add(&mut messages, input, checks.flags);
                        } else {
                            lanes.leave();
                        }
                        // Chosen here, where the outpoint is in the processor's cache.
                        let is_chosen = checks.engine == ScriptEngine::Both
                            || self.is_chosen(tx, input, RECHECK_ONE_IN);
                        all.push(PartInput { tx: index, input, is_valid: false, is_chosen });
                    }
                });
            }
            lanes.decide()
        });
        assert_eq!(verdicts.len(), all.len(), "a verdict for each input");
        for (input, verdict) in all.iter_mut().zip(verdicts) {
            input.is_valid = verdict == FastVerdict::Valid;
            #[cfg(any(test, debug_assertions))]
            if self.is_faulty {
                (input.is_valid, input.is_chosen) = (true, true);
            }
        }
        all
    }

    /// Calls `work` with the thread's memory for signatures.
    fn with_lanes<T>(&self, work: impl FnOnce(&mut FastScripts) -> T) -> T {
        // Taken out and put back, so that nothing of it is used again after a panic.
        let known = LANES.take().filter(|(kernel, _)| *kernel == self.kernel);
        let mut lanes = known.map_or_else(|| FastScripts::new(self.kernel), |(_, lanes)| lanes);
        let before = lanes.signatures();
        let result = work(&mut lanes);
        self.tally.signatures.fetch_add(lanes.signatures() - before, Relaxed);
        LANES.set(Some((self.kernel, lanes)));
        result
    }

    /// Returns whether Core's engine checks this input too: one in so many, chosen by the outpoint
    /// that it spends.
    fn is_chosen(&self, tx: &TxView, input: usize, one_in: u64) -> bool {
        let outpoint = tx.input(input);
        let (txid, vout) = outpoint.outpoint_bytes().split_at(32);
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let mut mixed = self.salt ^ word(&txid[..8]) ^ word(vout).rotate_left(40);
        // The last steps of SplitMix64, which make each bit depend on all others.
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31).is_multiple_of(one_in)
    }

    /// Saves an input that the fast engine finds valid and Core's engine does not. From now on
    /// Core's engine alone checks scripts.
    fn note_difference(&self, tx: &TxView, prevouts: &[Prevout], input: usize, flags: ScriptFlags) {
        let save =
            || ScriptDifference::save(&self.disk, &self.directory, tx, prevouts, input, flags);
        let difference = self.difference.get_or_init(save);
        tracing::error!(target: "validation", "{difference}");
        #[cfg(any(test, debug_assertions))]
        assert!(self.is_faulty, "{difference}");
    }

    /// Returns how many inputs each engine has checked so far.
    pub fn counts(&self) -> ScriptCounts {
        self.tally.counts(self.kernel)
    }

    /// Returns the numbers, which go on to grow.
    pub fn tally(&self) -> &Arc<ScriptTally> {
        &self.tally
    }
}

/// Returns the bytes that the outputs spent by a transaction take in the memory of Core's engine.
fn spent_bytes(prevouts: &[Prevout]) -> u64 {
    let long = prevouts.iter().map(|spent| spent.script.len());
    let long = long.filter(|len| *len > SHORT_SCRIPT_BYTES).sum::<usize>();
    (prevouts.len() * SPENT_OUTPUT_BYTES + long) as u64
}

#[cfg(test)]
mod tests;
