//! Checks the scripts of blocks: with Bitcoin Core's engine, with the fast engine and Core's engine
//! for the inputs that it leaves, or with both.

use std::cell::RefCell;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use apus_chain::{BlockId, Tree};
use apus_disk::{Disk, StoreError};
use apus_rules::sighash::{SharedHashes, TxSighash};
use apus_rules::{FastScripts, FastVerdict, RuleError, TxScripts, script_flags};
use apus_wire::{Network, Prevout, ScriptFlags, TxView};
use secp_lanes::Kernel;

use super::script_difference::ScriptDifference;
use crate::assumevalid::is_buried_below_best;
use crate::options::{Options, ScriptEngine};
use crate::outcome::ScriptCounts;

/// Core's engine also checks one in this many of the inputs that the fast engine finds valid,
/// chosen at random.
const RECHECK_ONE_IN: u64 = 4096;

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
    tally: Arc<ScriptTally>,
}

/// How many inputs and signatures were checked, for those who look on.
#[derive(Default)]
pub struct ScriptTally {
    fast: AtomicU64,
    core: AtomicU64,
    rechecked: AtomicU64,
    signatures: AtomicU64,
}

impl ScriptTally {
    /// Returns the numbers, with the kernel that verifies signatures together.
    fn counts(&self, kernel: Option<Kernel>) -> ScriptCounts {
        let signatures = self.signatures.load(Relaxed);
        let asked = kernel.filter(|kernel| kernel.check().is_ok());
        ScriptCounts {
            fast: self.fast.load(Relaxed),
            core: self.core.load(Relaxed),
            rechecked: self.rechecked.load(Relaxed),
            signatures,
            kernel: (signatures > 0).then(|| asked.unwrap_or_else(Kernel::best)),
        }
    }

    /// Returns the number of inputs that the fast engine has found valid, of those that Core's
    /// engine has decided, and of signatures that were verified side by side.
    pub fn totals(&self) -> [u64; 3] {
        [&self.fast, &self.core, &self.signatures].map(|count| count.load(Relaxed))
    }
}

/// Some inputs of a block, with the coins that their transactions spend.
pub trait Inputs {
    /// Returns the transaction at `index`.
    fn tx(&self, index: usize) -> TxView<'_>;

    /// Calls `work` with the transaction at `index` and the coins that it spends, whose scripts are
    /// written to `scratch`.
    fn with_tx<T>(
        &self,
        index: usize,
        scratch: &mut Scratch,
        work: impl FnOnce(&TxView, &[Prevout]) -> T,
    ) -> T;
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
    ///
    /// # Errors
    /// The directory cannot be read.
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
    pub fn begin_again(&mut self) {
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
                self.fast(inputs, part, checks.flags, &mut scratch)
            }
        };
        if checks.engine == ScriptEngine::Fast {
            let all = asked.len();
            asked.retain(|asked| !asked.is_valid || asked.is_chosen);
            self.tally.fast.fetch_add((all - asked.len()) as u64, Relaxed);
        }
        for asked in asked.chunk_by(|one, next| one.tx == next.tx) {
            inputs.with_tx(asked[0].tx, &mut scratch, |tx, prevouts| {
                let scripts = TxScripts::new(tx, prevouts, checks.flags)?;
                asked.iter().try_for_each(|PartInput { input, is_valid, .. }| {
                    self.ask_core(&scripts, tx, prevouts, *input, checks, *is_valid)
                })
            })?;
        }
        Ok(())
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
        flags: ScriptFlags,
        scratch: &mut Scratch,
    ) -> Vec<PartInput> {
        // Taken out and put back, so that nothing of it is used again after a panic.
        let known = LANES.take().filter(|(kernel, _)| *kernel == self.kernel);
        let mut lanes = known.map_or_else(|| FastScripts::new(self.kernel), |(_, lanes)| lanes);
        let before = lanes.signatures();
        let txs: Vec<TxView> = part.txs.clone().map(|index| inputs.tx(index)).collect();
        let counts = txs.iter().map(|tx| part.inputs(tx.input_count()).len());
        let mut all = Vec::with_capacity(counts.sum());
        for (index, shared) in part.txs.clone().zip(SharedHashes::of_many(&txs)) {
            inputs.with_tx(index, scratch, |tx, prevouts| {
                let mut messages = TxSighash::new(*tx, prevouts, shared);
                for input in part.inputs(prevouts.len()) {
                    lanes.add(&mut messages, input, flags);
                    // Chosen here, where the outpoint is in the processor's cache.
                    let is_chosen = self.is_chosen(tx, input);
                    all.push(PartInput { tx: index, input, is_valid: false, is_chosen });
                }
            });
        }
        let verdicts = lanes.decide();
        assert_eq!(verdicts.len(), all.len(), "a verdict for each input");
        for (input, verdict) in all.iter_mut().zip(verdicts) {
            input.is_valid = verdict == FastVerdict::Valid;
            #[cfg(any(test, debug_assertions))]
            if self.is_faulty {
                (input.is_valid, input.is_chosen) = (true, true);
            }
        }
        self.tally.signatures.fetch_add(lanes.signatures() - before, Relaxed);
        LANES.set(Some((self.kernel, lanes)));
        all
    }

    /// Returns whether Core's engine checks this input too: one in [`RECHECK_ONE_IN`], chosen by
    /// the outpoint that it spends.
    fn is_chosen(&self, tx: &TxView, input: usize) -> bool {
        let outpoint = tx.input(input);
        let (txid, vout) = outpoint.outpoint_bytes().split_at(32);
        let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let mut mixed = self.salt ^ word(&txid[..8]) ^ word(vout).rotate_left(40);
        // The last steps of SplitMix64, which make each bit depend on all others.
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31).is_multiple_of(RECHECK_ONE_IN)
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

#[cfg(test)]
mod tests {
    use crate::options::ScriptOptions;
    use apus_testdata::{blocks_of, data};
    use apus_wire::{BlockView, Chain, flags};

    use super::*;

    fn checker(directory: &std::path::Path, engine: ScriptEngine) -> ScriptChecker {
        let network = Network::new(Chain::Regtest);
        let options = Options {
            scripts: ScriptOptions { engine, ..ScriptOptions::default() },
            ..Options::new(directory.to_path_buf(), network)
        };
        std::fs::create_dir_all(options.network_dir()).unwrap();
        ScriptChecker::new(&options, &Disk::new()).unwrap()
    }

    /// Returns the first block whose second transaction spends something: one input, without a
    /// witness.
    fn block_with_spend() -> BlockView<Vec<u8>> {
        let blocks = blocks_of(&data("mainnet-0-14131.dat")).into_iter();
        let mut views = blocks.map(|block| BlockView::parse(block).unwrap());
        views.find(|view| view.tx_count() > 1).expect("some block spends")
    }

    #[test]
    fn one_in_4096_is_chosen_and_another_salt_chooses_others() {
        let place = tempfile::tempdir().unwrap();
        let views: Vec<_> = blocks_of(&data("mainnet-0-14131.dat"))
            .into_iter()
            .map(|block| BlockView::parse(block).unwrap())
            .collect();
        let chosen = |checker: &ScriptChecker| -> Vec<usize> {
            let txs = views.iter().flat_map(|view| view.txs().skip(1));
            let inputs = txs.flat_map(|tx| (0..tx.input_count()).map(move |input| (tx, input)));
            let found = inputs.enumerate().filter(|(_, (tx, input))| checker.is_chosen(tx, *input));
            found.map(|(index, _)| index).collect()
        };
        let mut counts = Vec::new();
        let mut inputs = 0;
        for round in 0..64 {
            let mut checker = checker(place.path(), ScriptEngine::Fast);
            checker.salt = round;
            counts.push(chosen(&checker));
            inputs = views.iter().map(|view| view.input_count() - view.tx_count()).sum();
        }
        let all: usize = counts.iter().map(Vec::len).sum();
        let expected = 64 * inputs / 4096;
        assert!(all > expected / 2 && all < expected * 2, "{all} of {expected}");
        counts.dedup();
        assert!(counts.len() > 10);
    }

    /// A block whose transactions spend outputs with the same script.
    struct Spends<'a> {
        view: &'a BlockView<Vec<u8>>,
        script: &'a [u8],
    }

    impl Inputs for Spends<'_> {
        fn tx(&self, index: usize) -> TxView<'_> {
            self.view.tx(index)
        }

        fn with_tx<T>(
            &self,
            index: usize,
            _: &mut Scratch,
            work: impl FnOnce(&TxView, &[Prevout]) -> T,
        ) -> T {
            let tx = self.tx(index);
            let prevout = Prevout { amount: 7, script: self.script, height: 1, is_coinbase: false };
            work(&tx, &vec![prevout; tx.input_count()])
        }
    }

    #[test]
    fn core_checks_the_inputs_that_are_chosen_or_not_found_valid() {
        let place = tempfile::tempdir().unwrap();
        let view = block_with_spend();
        let (tx, part) = (view.tx(1), Part { txs: 1..2, inputs: 0..usize::MAX });
        assert_eq!(tx.input_count(), 1);
        let counts = |engine, chosen, script: &[u8]| {
            let mut checker = checker(place.path(), engine);
            let salt = (0..1 << 20).find(|salt| {
                checker.salt = *salt;
                checker.is_chosen(&tx, 0) == chosen
            });
            assert!(salt.is_some());
            let flags = flags::P2SH | flags::WITNESS | flags::TAPROOT;
            let checks = ScriptChecks { flags, engine };
            let verdict = checker.check(&Spends { view: &view, script }, &part, checks);
            let ScriptCounts { fast, core, rechecked, .. } = checker.counts();
            (verdict.is_ok(), fast, core, rechecked)
        };
        // OP_1 succeeds, whatever the scriptSig pushes; OP_0 fails.
        let (always, never) = (&[0x51][..], &[0x00][..]);
        for chosen in [false, true] {
            let again = u64::from(chosen);
            assert_eq!(counts(ScriptEngine::Fast, chosen, always), (true, 1, 0, again));
            assert_eq!(counts(ScriptEngine::Both, chosen, always), (true, 1, 0, 1));
            assert_eq!(counts(ScriptEngine::Core, chosen, always), (true, 0, 1, 0));
            for engine in [ScriptEngine::Fast, ScriptEngine::Both, ScriptEngine::Core] {
                assert_eq!(counts(engine, chosen, never), (false, 0, 1, 0));
            }
        }
    }

    #[test]
    fn a_wrong_valid_is_saved_and_the_engines_verdict_counts() {
        let place = tempfile::tempdir().unwrap();
        let view = block_with_spend();
        let (tx, part) = (view.tx(1), Part { txs: 1..2, inputs: 0..usize::MAX });
        let flags = flags::P2SH | flags::WITNESS | flags::TAPROOT;
        // The first script fails with any scriptSig; the second succeeds.
        let (never, always) = (&[0x51, 0x69, 0x00][..], &[0x51][..]);
        let check = |checker: &ScriptChecker, engine, script: &[u8]| {
            checker.check(&Spends { view: &view, script }, &part, ScriptChecks { flags, engine })
        };
        for engine in [ScriptEngine::Fast, ScriptEngine::Both] {
            let mut checker = checker(place.path(), engine);
            checker.is_faulty = true;
            assert_eq!(check(&checker, engine, always), Ok(()));
            assert_eq!(checker.difference(), None);
            let error = check(&checker, engine, never).unwrap_err();
            assert_eq!(error.reason, "block-script-verify-flag-failed");
            let difference = checker.difference().unwrap().clone();
            let json = std::fs::read(&difference.path).unwrap();
            let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
            assert_eq!(json["spent"][0]["scriptPubKey"], "516900");
            assert_eq!((&json["input"], &json["flags"]), (&0.into(), &flags.into()));
            assert_eq!(json["tx"].as_str().unwrap().len(), 2 * tx.bytes().len());
            // From then on Core's engine checks alone, and every later run finds the file.
            let before = checker.counts();
            assert_eq!(check(&checker, engine, always), Ok(()));
            let after = checker.counts();
            assert_eq!((after.fast, after.core), (before.fast, before.core + 1));
            let next = super::tests::checker(place.path(), engine);
            assert_eq!((next.engine(), next.difference()), (ScriptEngine::Core, Some(&difference)));
            std::fs::remove_file(&difference.path).unwrap();
            assert_eq!(super::tests::checker(place.path(), engine).engine(), engine);
        }
    }

    #[test]
    fn a_difference_that_cannot_be_saved_is_told_in_full() {
        let place = tempfile::tempdir().unwrap();
        let view = block_with_spend();
        let mut checker = checker(place.path(), ScriptEngine::Both);
        checker.is_faulty = true;
        std::fs::remove_dir_all(place.path().join("regtest")).unwrap();
        let spends = Spends { view: &view, script: &[0x00] };
        let checks = ScriptChecks { flags: flags::P2SH, engine: ScriptEngine::Both };
        let part = Part { txs: 1..2, inputs: 0..usize::MAX };
        assert!(checker.check(&spends, &part, checks).is_err());
        let words = checker.difference().unwrap().to_string();
        for part in ["--script-engine=core", r#""scriptPubKey": "00""#, "No such file"] {
            assert!(words.contains(part), "{words}");
        }
    }
}
