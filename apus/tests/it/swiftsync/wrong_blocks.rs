//! Invalid blocks, and blocks that assumevalid does not cover.

use apus_hash::Hash;
use apus_node::{AssumeValid, Options};
use apus_store::BlockStatus;
use apus_swiftsync::{Format, Numbering};
use apus_testchain::block::{encode_block, subsidy};
use apus_testchain::{Break, Builder, Chain, Kind, Payment};

use super::refusals::{
    Blame, Due, assert_due, assert_in_order_succeeds, assert_nothing_committed, assert_unchanged,
};
use crate::support::model::{Hinted, encode};
use crate::support::swift::{MODES, Mode, World, small_chain, try_reindex_with, try_sync_with};
use crate::support::{Place, change_file, with_genesis};

const UNBALANCED: Due = Due(Blame::Hints, &["are not those that the blocks spend"]);

fn block(reason: &'static [&'static str]) -> Due {
    Due(Blame::Block, reason)
}

/// Broken rules, with what is due in assumevalid mode (nothing where the rule is not checked) and
/// in full mode.
fn broken_rules() -> Vec<(Break, Option<Due>, Due)> {
    let header = Due(Blame::Hints, &["the best chain of headers ends at"]);
    let same = |rule, due| (rule, Some(due), due);
    let full = |rule, due| (rule, None, due);
    let missing = block(&["bad-txns-inputs-missingorspent"]);
    let script = block(&["block-script-verify-flag-failed"]);
    let unbalanced = |rule| same(rule, UNBALANCED);
    vec![
        same(Break::TimeTooOld, header),
        same(Break::BadDiffbits, header),
        same(Break::BadTxnmrklroot, block(&["bad-txnmrklroot"])),
        same(Break::BadWitnessMerkleMatchTx, block(&["bad-witness-merkle-match"])),
        same(Break::BadTxnsDuplicate, block(&["bad-txns-duplicate"])),
        same(Break::BadCbHeight, block(&["bad-cb-height"])),
        same(Break::BadCbMultiple, block(&["bad-cb-multiple"])),
        same(Break::BadTxnsInputsDuplicate, block(&["bad-txns-inputs-duplicate"])),
        same(Break::BadTxnsNonfinalHeight, block(&["bad-txns-nonfinal"])),
        same(Break::BadTxnsNonfinalTime, block(&["bad-txns-nonfinal"])),
        unbalanced(Break::MissingNeverExisted),
        unbalanced(Break::MissingVout),
        unbalanced(Break::SpentInEarlierBlock),
        unbalanced(Break::SpentTwiceInBlock),
        unbalanced(Break::SpendsGenesis),
        (Break::SpendsOpReturn, Some(UNBALANCED), missing),
        full(Break::SpendsLaterTx, missing),
        same(Break::PrematureSpendOfCoinbase, block(&["bad-txns-premature-spend-of-coinbase"])),
        same(Break::PrematureSpendOfOwnCoinbase, block(&["bad-txns-premature-spend-of-coinbase"])),
        same(Break::BadTxnsNonfinalBip68Height, block(&["bad-txns-nonfinal"])),
        same(Break::BadTxnsNonfinalBip68Time, block(&["bad-txns-nonfinal"])),
        same(Break::BadTxnsInBelowout, block(&["bad-txns-in-belowout"])),
        same(Break::BadCbAmount, block(&["bad-cb-amount"])),
        same(Break::BadBlkSigopsP2sh, block(&["bad-blk-sigops"])),
        full(Break::P2pkhSignature, script),
        full(Break::P2trKeySignature, script),
        full(Break::P2wshMultisigSignature, script),
        full(Break::CltvHeight, script),
        full(Break::CsvHeight, script),
    ]
}

fn chain() -> Chain {
    small_chain(61, 50, 9_000)
}

/// A chain whose last blocks are wrong, and the one before it.
struct Broken<'a> {
    sound: &'a World,
    utxo_hash: &'a (String, u64),
}

impl Broken<'_> {
    /// Runs a mode on these blocks, with hints that fit them.
    fn check(&self, mode: Mode, wrong: &[Vec<u8>], due: &Due, what: &str) {
        let blocks = self.sound.blocks.iter().chain(wrong).cloned().collect();
        let mut world = World::new(self.sound.network, blocks);
        // Coins that do not exist get undo data of a large amount that anybody may spend.
        for coin in world.model.blocks.iter_mut().flat_map(|deeds| &mut deeds.undo).flatten() {
            if coin.amount == 0 && coin.script == apus_coins::CompactScript::new(&[0x51]) {
                coin.amount = 1_000_000 * 100_000_000;
            }
        }
        let hints = world.model.hints(world.height(), Numbering::Spendable);
        self.check_with(&world, mode, &hints, due, what);
    }

    fn check_with(&self, world: &World, mode: Mode, hints: &[Hinted], due: &Due, what: &str) {
        let what = format!("{what}, {mode:?}");
        let place = world.place();
        let hints = place.write_bytes("fitting.hints", &encode(hints, Format::Bip456));
        let sources = world.sources(&place, mode, &world.file_order());
        assert_due(due, world.try_swift(&place, mode, &hints, &sources), &what);
        assert_nothing_committed(&place, &what);
        assert_in_order_succeeds(&place, &sources, self.utxo_hash, &what);
    }
}

#[test]
fn broken_rules_are_refused_in_the_modes_that_check_them() {
    let chain = chain();
    let sound = World::of(&chain);
    let utxo_hash = sound.in_order().utxo_hash();
    let broken = Broken { sound: &sound, utxo_hash: &utxo_hash };
    for (rule, in_assumevalid, in_full) in broken_rules() {
        let block = chain.broken(rule).block;
        let what = format!("{rule:?}");
        if let Some(due) = in_assumevalid {
            broken.check(Mode::AssumeValid, std::slice::from_ref(&block), &due, &what);
        }
        broken.check(Mode::Full, &[block], &in_full, &what);
    }
}

/// Blocks on top of a chain, each with one transaction.
fn on_top(chain: &Chain, txs: &[bitcoin::Transaction]) -> Vec<Vec<u8>> {
    let mut tip = chain.parent(chain.height());
    let blocks = txs.iter().map(|tx| {
        let block = Builder::block_on(&tip).tx(tx.clone()).finish();
        tip = tip.child(&block);
        encode_block(&block)
    });
    blocks.collect()
}

/// Spends a coin that anybody may spend to another such coin, without a fee.
fn payment(chain: &Chain, fee: u64) -> bitcoin::Transaction {
    let coin = chain.spendable(Kind::OpTrue)[0];
    Payment::new(&[coin], [(coin.amount - fee, vec![0x51])]).to_transaction(chain.keys())
}

/// Spends the output of another transaction.
fn child(chain: &Chain, parent: &bitcoin::Transaction) -> bitcoin::Transaction {
    let mut tx = payment(chain, 5);
    tx.input[0].previous_output = bitcoin::OutPoint::new(parent.compute_txid(), 0);
    tx.output[0].value = parent.output[0].value;
    tx
}

#[test]
fn what_goes_wrong_between_blocks_is_refused() {
    let chain = chain();
    let sound = World::of(&chain);
    let utxo_hash = sound.in_order().utxo_hash();
    let broken = Broken { sound: &sound, utxo_hash: &utxo_hash };
    // A coin is spent in two blocks. In order, the first of them is valid.
    let twice = on_top(&chain, &[payment(&chain, 0), payment(&chain, 1)]);
    let first = World::new(sound.network, [&sound.blocks[..], &twice[..1]].concat());
    let with_first = first.in_order().utxo_hash();
    for mode in MODES {
        let twice_broken = Broken { sound: &sound, utxo_hash: &with_first };
        twice_broken.check(mode, &twice, &UNBALANCED, "a coin spent by two blocks");
    }
    // A coin is spent one block before it is created, with hints that fit and undo data that lies.
    let parent = payment(&chain, 0);
    let wrong = on_top(&chain, &[child(&chain, &parent), parent]);
    let world = World::new(sound.network, [&sound.blocks[..], &wrong].concat());
    let mut hints = world.model.hints(world.height(), Numbering::Spendable);
    let last = hints.last_mut().unwrap();
    assert_eq!(last.0, [0, 1], "a coinbase and the output");
    last.0.pop();
    let amount = chain.spendable(Kind::OpTrue)[0].amount;
    for (claimed, due) in [
        (world.height() - 2, UNBALANCED),
        (world.height(), block(&["its undo data is wrong", "is not from an earlier block"])),
    ] {
        let mut model = world.model.clone();
        let spent = &mut model.blocks[world.height() as usize - 1].undo[0][0];
        (spent.amount, spent.height) = (amount, claimed);
        let world = World { network: world.network, blocks: world.blocks.clone(), model };
        broken.check_with(&world, Mode::Full, &hints, &due, "spent before it is created");
    }
    // A transaction creates more money than it spends.
    let parent = chain.parent(chain.height());
    let rich = Builder::block_on(&parent).coinbase_value(1_000_000 * 100_000_000).finish();
    let rich = [encode_block(&rich)];
    let issued = Due(Blame::Chain, &["satoshi are unspent", "were issued"]);
    broken.check(Mode::AssumeValid, &rich, &issued, "inflation");
    broken.check(Mode::Full, &rich, &block(&["bad-cb-amount"]), "inflation");
    assert!(subsidy(chain.height()) < 1_000_000 * 100_000_000);
}

#[test]
fn blocks_that_nobody_vouches_for_are_refused() {
    let chain = chain();
    let world = World::of(&chain);
    let utxo_hash = world.in_order().utxo_hash();
    let fork = World::of(&chain.fork(chain.height() - 2, 2, 1));
    let mode = Mode::AssumeValid;
    let user = |words| Due(Blame::User, words);
    type Change = Box<dyn Fn(&mut Options)>;
    let assume = |assumevalid| Box::new(move |o: &mut Options| o.assumevalid = assumevalid);
    let below = world.hash(world.height() - 1);
    let height = world.height();
    let cases: Vec<(&str, Change, Due)> = vec![
        ("nothing built in", assume(AssumeValid::BuiltIn), user(&["has no built-in block"])),
        (
            "unknown",
            assume(AssumeValid::Block(Hash([7; 32]))),
            user(&["block 0707", "is not among the headers", "--assumevalid=HASH"]),
        ),
        (
            "one below",
            assume(AssumeValid::Block(below)),
            user(&["is at height 162", "no descendant of", "height of 163", "name a later one"]),
        ),
        (
            "too little work",
            Box::new(|o| o.network.minimum_chain_work = Hash([0x22; 32])),
            user(&["the best header, at height 163", "--minimumchainwork is 22222"]),
        ),
        (
            "to stop below",
            Box::new(move |o| o.stop_at_height = Some(height - 1)),
            user(&["--stopatheight is below the hints' height"]),
        ),
    ];
    for (name, change, due) in cases {
        let place = world.place();
        let hints = world.write_hints(&place, height);
        let mut sources = world.sources(&place, mode, &world.file_order());
        sources.push(place.write("fork", &fork.blocks));
        let mut options = world.options(&place, mode, &hints);
        change(&mut options);
        assert_due(&due, try_sync_with(&options, &sources), name);
        assert_nothing_committed(&place, name);
        assert_in_order_succeeds(&place, &sources, &utxo_hash, name);
    }
}

#[test]
fn blocks_that_are_not_there_are_named() {
    let world = World::of(&small_chain(62, 30, 5_000));
    let right = world.in_order().utxo_hash();
    for mode in MODES {
        // The block is missing with its header.
        let place = world.place();
        let hints = world.write_hints(&place, world.height());
        let mut order = world.file_order();
        order.retain(|at| *at != 120);
        let sources = world.sources(&place, mode, &order);
        let due = Due(Blame::Hints, &["headers ends at 119", "provide more blocks"]);
        assert_due(&due, world.try_swift(&place, mode, &hints, &sources), "a block is missing");
        assert_nothing_committed(&place, "a block is missing");
        let all = world.sources(&place, mode, &world.file_order());
        assert_in_order_succeeds(&place, &all, &right, "a block is missing");
        // Only the header is present.
        let mut damaged = World::new(world.network, world.blocks.clone());
        let middle = damaged.blocks[120].len() / 2;
        damaged.blocks[120][middle] ^= 1;
        let place = world.place();
        let hints = world.write_hints(&place, world.height());
        let sources = damaged.sources(&place, mode, &world.file_order());
        let due = Due(Blame::Block, &["bad-txnmrklroot"]);
        assert_due(&due, world.try_swift(&place, mode, &hints, &sources), "a damaged block");
        assert_nothing_committed(&place, "a damaged block");
        assert_eq!(place.try_sync(&sources).unwrap().height, 119);
        let mended = world.place();
        let all = world.sources(&mended, mode, &world.file_order());
        assert_in_order_succeeds(&place, &all, &right, "a damaged block");
    }
}

#[test]
fn files_of_our_own_that_are_gone_or_damaged_are_named() {
    let world = World::of(&small_chain(63, 30, 5_000));
    let place = world.in_order();
    place.shrink();
    let utxo_hash = place.utxo_hash();
    let hints = world.write_hints(&place, world.height());
    let (index, _) = place.blocks();
    let entry = index.entries.iter().find(|entry| entry.height == 125).unwrap();
    assert!(entry.record.status.has(BlockStatus::BLOCK_HAVE_DATA));
    let at = entry.record.data_pos as usize + 90;
    let path = place.network_dir().join("blocks/blk00000.dat");
    drop(index);
    for mode in MODES {
        let options = world.options(&place, mode, &hints);
        let flip = || change_file(&path, |bytes| bytes[at] ^= 1);
        flip();
        let due = Due(Blame::Disk, &["blk00000.dat", "at byte"]);
        assert_due(&due, try_reindex_with(&options), "a damaged block");
        assert_unchanged(&place, &utxo_hash, "a damaged block");
        flip();
        let away = place.root().join("away");
        std::fs::rename(&path, &away).unwrap();
        let due = Due(Blame::Disk, &["blk00000.dat"]);
        assert_due(&due, try_reindex_with(&options), "no block file");
        std::fs::rename(&away, &path).unwrap();
        assert_unchanged(&place, &utxo_hash, "no block file");
        assert_eq!(try_reindex_with(&options).unwrap().best_block, world.tip());
        assert_eq!(place.utxo_hash(), utxo_hash);
    }
}

#[test]
fn stale_blocks_are_no_obstacle_and_wrong_ones_are_refused() {
    let chain = chain();
    let world = World::of(&chain);
    let right = world.in_order().utxo_hash();
    let shorter = chain.fork(chain.height() - 3, 1, 4);
    let wrong = shorter.broken(Break::BadCbHeight).block;
    let mut blocks = with_genesis(&shorter);
    blocks.push(wrong);
    for mode in MODES {
        let place: Place = world.place();
        let hints = world.write_hints(&place, world.height());
        let mut sources = world.sources(&place, mode, &world.file_order());
        sources.push(place.write("branch", &blocks));
        let summary = world.try_swift(&place, mode, &hints, &sources).unwrap();
        assert_eq!(summary.best_block, world.tip());
        let [refusal] = &summary.refusals[..] else { panic!("{:?}", summary.refusals) };
        assert!(refusal.reason.starts_with("bad-cb-height"), "{refusal}");
        assert_eq!(place.utxo_hash(), right);
    }
}
