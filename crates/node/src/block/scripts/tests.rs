use crate::options::ScriptOptions;
use std::sync::LazyLock;

use apus_testdata::{blocks_of, data, from_hex};
use apus_wire::{BlockView, Chain, flags};

use super::*;

fn checker_of(directory: &std::path::Path, engine: ScriptEngine) -> ScriptChecker {
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
        let found = inputs
            .enumerate()
            .filter(|(_, (tx, input))| checker.is_chosen(tx, *input, RECHECK_ONE_IN));
        found.map(|(index, _)| index).collect()
    };
    let mut counts = Vec::new();
    let mut inputs = 0;
    for round in 0..64 {
        let mut checker = checker_of(place.path(), ScriptEngine::Fast);
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
    shared: Option<&'a SharedTx>,
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

    fn shared(&self, _: usize) -> Option<&SharedTx> {
        self.shared
    }
}

#[test]
fn core_checks_the_inputs_that_are_chosen_or_not_found_valid() {
    let place = tempfile::tempdir().unwrap();
    let view = block_with_spend();
    let tx = view.tx(1);
    let part = Part { txs: 1..2, inputs: 0..usize::MAX };
    assert_eq!(tx.input_count(), 1);
    let counts = |engine, chosen, script: &[u8]| {
        let mut checker = checker_of(place.path(), engine);
        let salt = (0..1 << 20).find(|salt| {
            checker.salt = *salt;
            checker.is_chosen(&tx, 0, RECHECK_ONE_IN) == chosen
        });
        assert!(salt.is_some());
        let flags = flags::P2SH | flags::WITNESS | flags::TAPROOT;
        let checks = ScriptChecks { flags, engine };
        let verdict = checker.check(&Spends { view: &view, script, shared: None }, &part, checks);
        let ScriptCounts { fast, core, rechecked, .. } = checker.counts();
        (verdict.is_ok(), fast, core, rechecked)
    };
    // OP_1 succeeds, whatever the scriptSig pushes; OP_0 fails.
    let always = &[0x51][..];
    let never = &[0x00][..];
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

/// A block whose second transaction spends `count` outputs by a leaf that is an OP_SUCCESS.
fn block_with_leaves(count: u16) -> BlockView<Vec<u8>> {
    block_with_inputs(count, &[], &[&[2, 1, 0x50, 33][..], &CONTROL].concat())
}

/// A block whose second transaction has `count` inputs with this scriptSig and this witness.
fn block_with_inputs(count: u16, script_sig: &[u8], witness: &[u8]) -> BlockView<Vec<u8>> {
    let size = [script_sig.len() as u8];
    let input = |number: u16| {
        let outpoint = [&[7; 32][..], &number.to_le_bytes(), &[0; 2]].concat();
        [&outpoint[..], &size, script_sig, &[0; 4]].concat()
    };
    let mut block = vec![0; 80];
    block.extend([2, 1, 0, 0, 0, 1]);
    block.extend([&[0; 32][..], &[0xff; 4], &[2, 0, 0], &[0xff; 4], &[0; 5]].concat());
    let marker = if witness.is_empty() { &[][..] } else { &[0, 1] };
    block.extend([&[2, 0, 0, 0], marker, &[253], &count.to_le_bytes()].concat());
    block.extend((0..count).flat_map(input));
    block.extend([1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    block.extend(witness.repeat(count.into()));
    block.extend([0; 4]);
    BlockView::parse(block).unwrap()
}

/// The control block of a leaf that is an OP_SUCCESS, by the base point, and the output.
static CONTROL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    from_hex("c079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
});
const LEAF_OUTPUT: &str = "5120b24dd91099ea57f2f942a0177f1ab650eb5bec51083311ed9e1d115092ba81af";

/// An output that commits to another leaf.
const OTHER_OUTPUT: &str = "512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";

/// Core's engine copies all spent outputs for each taproot input, which would cost minutes in a
/// block that is made for it.
#[test]
fn the_copies_for_taproot_inputs_are_bounded() {
    let place = tempfile::tempdir().unwrap();
    let script = from_hex(LEAF_OUTPUT);
    let counts = |engine, inputs: u16| {
        let view = block_with_leaves(inputs);
        let mut checker = checker_of(place.path(), engine);
        checker.copied_bytes_max = 60_000;
        let flags = flags::P2SH | flags::WITNESS | flags::TAPROOT;
        let checks = ScriptChecks { flags, engine: ScriptEngine::Core };
        let part = Part { txs: 1..2, inputs: 0..usize::MAX };
        checker
            .check(&Spends { view: &view, script: &script, shared: None }, &part, checks)
            .unwrap();
        let ScriptCounts { fast, core, rechecked, .. } = checker.counts();
        assert_eq!(fast + core, u64::from(inputs));
        (core, rechecked)
    };
    // Few spent outputs are copied.
    assert_eq!(counts(ScriptEngine::Fast, 300), (300, 0));
    // From then on, at most half of the inputs are checked by both.
    let (core, rechecked) = counts(ScriptEngine::Fast, 400);
    assert!(core == 0 && (140..260).contains(&rechecked), "{core}, {rechecked}");
    // 6,000 outputs are five times too many: one input in five is checked by both.
    let (core, rechecked) = counts(ScriptEngine::Fast, 6000);
    assert!(core == 0 && (1000..1400).contains(&rechecked), "{core}, {rechecked}");
    // Those who trust Core's engine alone have it check all.
    assert_eq!(counts(ScriptEngine::Core, 700), (700, 0));
}

/// Signatures that are not valid, and need not be. Core's engine checks them all; the fast
/// engine would hash 82,000 bytes for each.
#[test]
fn the_fast_engine_gives_up_where_its_work_is_for_nothing() {
    let place = tempfile::tempdir().unwrap();
    let key = from_hex("0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798");
    let script = [&[33][..], &key, &[0xac, 0x75, 0x51]].concat();
    let view = block_with_inputs(2000, &from_hex("09300602010102010101"), &[]);
    let checker = checker_of(place.path(), ScriptEngine::Fast);
    let flags = flags::P2SH | flags::WITNESS | flags::TAPROOT;
    let checks = ScriptChecks { flags, engine: ScriptEngine::Fast };
    let part = Part { txs: 1..2, inputs: 0..usize::MAX };
    let spends = Spends { view: &view, script: &script, shared: None };
    checker.check(&spends, &part, checks).unwrap();
    let counts = checker.counts();
    assert_eq!(counts.core, 2000);
    assert!((1..80).contains(&counts.signatures), "{}", counts.signatures);
}

/// The parts of a transaction have it prepared once, and each of their inputs has its own verdict.
#[test]
fn parts_of_a_transaction_share_what_is_prepared() {
    let place = tempfile::tempdir().unwrap();
    let view = block_with_leaves(700);
    let valid = from_hex(LEAF_OUTPUT);
    let other = from_hex(OTHER_OUTPUT);
    for engine in [ScriptEngine::Fast, ScriptEngine::Core] {
        for (script, is_valid) in [(&valid, true), (&other, false)] {
            let shared = SharedTx::default();
            let checker = checker_of(place.path(), engine);
            let flags = flags::P2SH | flags::WITNESS | flags::TAPROOT;
            for inputs in [0..300, 300..600, 600..900] {
                let checks = ScriptChecks { flags, engine };
                let part = Part { txs: 1..2, inputs };
                let spends = Spends { view: &view, script, shared: Some(&shared) };
                assert_eq!(checker.check(&spends, &part, checks).is_ok(), is_valid);
            }
            let counts = checker.counts();
            assert_eq!(counts.fast + counts.core, if is_valid { 700 } else { 3 });
        }
    }
}

#[test]
fn a_wrong_valid_is_saved_and_the_engines_verdict_counts() {
    let place = tempfile::tempdir().unwrap();
    let view = block_with_spend();
    let tx = view.tx(1);
    let part = Part { txs: 1..2, inputs: 0..usize::MAX };
    let flags = flags::P2SH | flags::WITNESS | flags::TAPROOT;
    // The first script fails with any scriptSig; the second succeeds.
    let never = &[0x51, 0x69, 0x00][..];
    let always = &[0x51][..];
    let check = |checker: &ScriptChecker, engine, script: &[u8]| {
        checker.check(
            &Spends { view: &view, script, shared: None },
            &part,
            ScriptChecks { flags, engine },
        )
    };
    for engine in [ScriptEngine::Fast, ScriptEngine::Both] {
        let mut checker = checker_of(place.path(), engine);
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
        let next = checker_of(place.path(), engine);
        assert_eq!((next.engine(), next.difference()), (ScriptEngine::Core, Some(&difference)));
        std::fs::remove_file(&difference.path).unwrap();
        assert_eq!(checker_of(place.path(), engine).engine(), engine);
    }
}

#[test]
fn a_difference_that_cannot_be_saved_is_told_in_full() {
    let place = tempfile::tempdir().unwrap();
    let view = block_with_spend();
    let mut checker = checker_of(place.path(), ScriptEngine::Both);
    checker.is_faulty = true;
    std::fs::remove_dir_all(place.path().join("regtest")).unwrap();
    let spends = Spends { view: &view, script: &[0x00], shared: None };
    let checks = ScriptChecks { flags: flags::P2SH, engine: ScriptEngine::Both };
    let part = Part { txs: 1..2, inputs: 0..usize::MAX };
    assert!(checker.check(&spends, &part, checks).is_err());
    let words = checker.difference().unwrap().to_string();
    for part in ["--script-engine=core", r#""scriptPubKey": "00""#, "No such file"] {
        assert!(words.contains(part), "{words}");
    }
}
