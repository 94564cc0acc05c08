//! Comparison with Bitcoin Core: its figures for two real chains, a chainstate that its engine
//! wrote, and one of ours that its engine opens.

use std::path::Path;

use apus_disk::Disk;
use apus_hash::Hash;
use apus_leveldb::Options;
use apus_testdata::{blocks_of, data, shared};
use apus_wire::{BlockView, OutPoint};
use bitcoinkernel::{Block, ChainType, ChainstateManager, ContextBuilder};

use crate::*;

/// The UTXO set of a chain, as described by Core's `gettxoutsetinfo`.
struct Known {
    height: u32,
    best_block: &'static str,
    txouts: u64,
    transactions: u64,
    bogosize: u64,
    coins: u64,
    muhash: &'static str,
    hash_serialized_3: &'static str,
}

const MAINNET: Known = Known {
    height: 14131,
    best_block: "00000000b3e750f37fdb42e1018799a9f44b546d393b130b369590a072430a1c",
    txouts: 13_416,
    transactions: 13_407,
    bogosize: 1_567_404,
    coins: 706_550,
    muhash: "859e27f17a6cce9768b75dd0dbd969890157d29a152b0f4a0afa6c67cbcd5975",
    hash_serialized_3: "74c5a654587d4eaac9248b73889453e0b2fbc918bbc7bb8d8e6301d4d8c98db3",
};

const TESTNET3: Known = Known {
    height: 4000,
    best_block: "00000000185b36fa6e406626a722793bea80531515e0b2a99ff05b73738901f1",
    txouts: 4_197,
    transactions: 4_155,
    bogosize: 354_492,
    coins: 200_000,
    muhash: "6a155d607dccdf17321178f9598283ca7d2b05cc7fa64f8cc4293f2533ff7124",
    hash_serialized_3: "d47a6ca2d786f0db1f8ce4bb8d56d5b26778c8dff317f62036e56b9d7ea0e82c",
};

impl Known {
    fn best_block(&self) -> Hash {
        Hash::from_hex(self.best_block)
    }

    fn holds_for(&self, chainstate: &Chainstate) {
        for (hash_type, hash) in [
            (HashType::None, None),
            (HashType::MuHash, Some(self.muhash)),
            (HashType::HashSerialized3, Some(self.hash_serialized_3)),
        ] {
            let stats =
                UtxoStats::compute(&chainstate.view(), self.height, hash_type).expect("computed");
            assert_eq!(stats.hash.map(|h| h.1.to_string()).as_deref(), hash);
            assert_eq!(stats.best_block, self.best_block());
            assert_eq!((stats.txouts, stats.transactions), (self.txouts, self.transactions));
            assert_eq!(stats.total_amount, self.coins * 100_000_000);
            assert_eq!(stats.bogosize, self.bogosize);
        }
    }
}

fn open(dir: &Path) -> Chainstate {
    let options = Options { create_if_missing: true, ..Options::default() };
    Chainstate::open(Disk::new(), dir, options).expect("it opens")
}

/// Connects blocks without checking any rule, through a cache so small that coins are synced,
/// evicted and read again.
fn connect(blocks: &[Vec<u8>], chainstate: &Chainstate) {
    let cache = CoinsCache::new();
    for (height, bytes) in blocks.iter().enumerate().skip(1) {
        let block = BlockView::parse(&bytes[..]).expect("a block");
        for (tx, txid) in block.txs().zip(block.txids()) {
            for input in tx.inputs().filter(|_| !tx.is_coinbase()) {
                let outpoint = input.outpoint();
                if cache.spend(&outpoint) == Lookup::Unknown {
                    assert!(chainstate.get(&outpoint).expect("read").is_some());
                    cache.remove(&outpoint);
                }
            }
            for (vout, output) in tx.outputs().enumerate() {
                let outpoint = OutPoint { txid, vout: vout as u32 };
                let amount = output.value() as u64;
                let is_coinbase = tx.is_coinbase();
                let coin = Coin::new(amount, output.script(), height as u32, is_coinbase);
                let overwrite = if is_coinbase { Overwrite::Possible } else { Overwrite::Never };
                cache.add(&outpoint, &coin, overwrite).expect("free");
            }
        }
        if height % 500 == 0 || height + 1 == blocks.len() {
            cache.sync(|changes| chainstate.write(changes, &block.hash())).expect("written");
            cache.shrink_to(cache.sizes().bytes / 2);
        }
    }
    cache.check();
}

fn has_the_figures_of_core(known: &Known, blocks: &[Vec<u8>]) {
    let dir = tempfile::tempdir().expect("a directory");
    let chainstate = open(dir.path());
    connect(blocks, &chainstate);
    known.holds_for(&chainstate);
    chainstate.merge_all().expect("merged");
    known.holds_for(&chainstate);
}

#[test]
fn mainnet_has_the_figures_of_core() {
    has_the_figures_of_core(&MAINNET, &blocks_of(&data("mainnet-0-14131.dat")));
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs testnet3 blocks that may not be copied")]
fn testnet3_has_the_figures_of_core() {
    has_the_figures_of_core(&TESTNET3, &blocks_of(&shared("testnet3-0-4000.dat")));
}

/// Opens a data directory with Core's engine, processes blocks, and returns the height of its tip.
fn core(dir: &Path, blocks: &[Vec<u8>]) -> i32 {
    let context = ContextBuilder::new().chain_type(ChainType::Mainnet).build().expect("a context");
    let data = dir.display().to_string();
    let files = dir.join("blocks").display().to_string();
    let core = ChainstateManager::new(&context, &data, &files).expect("Core opens it");
    for bytes in blocks {
        let block = Block::new(bytes).expect("a block");
        assert!(!core.process_block(&block).is_rejected());
    }
    core.active_chain().height()
}

#[test]
fn core_and_we_read_each_others_chainstate() {
    let blocks = blocks_of(&data("mainnet-0-14131.dat"));
    let dir = tempfile::tempdir().expect("a directory");
    let chainstate_dir = dir.path().join("chainstate");
    assert_eq!(core(dir.path(), &blocks[1..]), 14131);

    let theirs = open(&chainstate_dir);
    MAINNET.holds_for(&theirs);
    drop(theirs);
    // After we have opened its chainstate, Core still finds its tip.
    assert_eq!(core(dir.path(), &[]), 14131);

    // Our chainstate replaces Core's and ends a thousand blocks earlier. Core connects those
    // blocks.
    Chainstate::destroy(&Disk::new(), &chainstate_dir).expect("destroyed");
    let ours = open(&chainstate_dir);
    connect(&blocks[..13_132], &ours);
    drop(ours);
    core(dir.path(), &blocks[13_132..]);
    assert_eq!(core(dir.path(), &[]), 14131);
    let both = open(&chainstate_dir);
    MAINNET.holds_for(&both);
}
