//! Bitcoin Core as the judge: its figures for two real chains, a chainstate that its engine wrote,
//! and one that its engine opens.

use std::path::{Path, PathBuf};

use bitcoinkernel::{Block, ChainType, ChainstateManager, ContextBuilder};

use super::super::*;
use crate::disk::Disk;
use crate::leveldb::Options;
use crate::wire::{BlockView, Hash, OutPoint};

/// A chain, and what Core's `gettxoutsetinfo` says of it.
struct Known {
    file: &'static str,
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
    file: "mainnet-0-14131.dat",
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
    file: "testnet3-0-4000.dat",
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
    /// The blocks in order of height, or `None`, said aloud, where the file is not at hand.
    fn blocks(&self) -> Option<Vec<Vec<u8>>> {
        let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
        let dir = std::env::var_os("APUS_SHARED_DATA").map_or(default, PathBuf::from);
        let Ok(bytes) = std::fs::read(dir.join(self.file)) else {
            println!("skipped: no {} in {}", self.file, dir.display());
            return None;
        };
        let (mut blocks, mut rest) = (Vec::new(), &bytes[..]);
        while let [_, _, _, _, a, b, c, d, more @ ..] = rest {
            let (block, more) = more.split_at(u32::from_le_bytes([*a, *b, *c, *d]) as usize);
            blocks.push(block.to_vec());
            rest = more;
        }
        Some(blocks)
    }

    fn best_block(&self) -> Hash {
        Hash::from_hex(self.best_block)
    }

    fn holds_for(&self, chainstate: &Chainstate) {
        for (hash_type, hash) in [
            (HashType::None, None),
            (HashType::MuHash, Some(self.muhash)),
            (HashType::HashSerialized3, Some(self.hash_serialized_3)),
        ] {
            let stats = UtxoStats::compute(chainstate, self.height, hash_type).expect("computed");
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

/// Connects blocks without a look at any rule, through a cache so small that it has to sync, evict
/// and read back.
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
                let (amount, is_coinbase) = (output.value() as u64, tx.is_coinbase());
                let coin = Coin::new(amount, output.script(), height as u32, is_coinbase);
                cache.add(&outpoint, &coin, is_coinbase).expect("free");
            }
        }
        if height % 500 == 0 || height + 1 == blocks.len() {
            cache.sync(|changes| chainstate.write(changes, &block.hash())).expect("written");
            cache.shrink_to(cache.bytes() / 2);
        }
    }
    cache.check();
}

#[test]
fn real_chains_have_the_figures_of_core() {
    for known in [MAINNET, TESTNET3] {
        let Some(blocks) = known.blocks() else { continue };
        let dir = tempfile::tempdir().expect("a directory");
        let chainstate = open(dir.path());
        connect(&blocks, &chainstate);
        known.holds_for(&chainstate);
        chainstate.merge_all().expect("merged");
        known.holds_for(&chainstate);
    }
}

/// Core's engine over a data directory, and the height of its tip.
fn core(dir: &Path, blocks: &[Vec<u8>]) -> i32 {
    let context = ContextBuilder::new().chain_type(ChainType::Mainnet).build().expect("a context");
    let (data, files) = (dir.display().to_string(), dir.join("blocks").display().to_string());
    let core = ChainstateManager::new(&context, &data, &files).expect("Core opens it");
    for bytes in blocks {
        let block = Block::new(bytes).expect("a block");
        assert!(!core.process_block(&block).is_rejected());
    }
    core.active_chain().height()
}

#[test]
fn core_and_we_read_each_others_chainstate() {
    let Some(blocks) = MAINNET.blocks() else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let chainstate_dir = dir.path().join("chainstate");
    assert_eq!(core(dir.path(), &blocks[1..]), 14131);

    let theirs = open(&chainstate_dir);
    MAINNET.holds_for(&theirs);
    drop(theirs);
    // Core opens what we only opened, and finds the tip.
    assert_eq!(core(dir.path(), &[]), 14131);

    // Ours in the place of Core's, a thousand blocks behind: Core connects the rest to it.
    Chainstate::destroy(&Disk::new(), &chainstate_dir).expect("destroyed");
    let ours = open(&chainstate_dir);
    connect(&blocks[..13_132], &ours);
    drop(ours);
    core(dir.path(), &blocks[13_132..]);
    assert_eq!(core(dir.path(), &[]), 14131);
    let both = open(&chainstate_dir);
    MAINNET.holds_for(&both);
}
