//! Shared parts of the tests: chains, directories, and Bitcoin Core's engine as a judge.

pub mod block_index;
pub mod blocks;
pub mod chains;
pub mod clock;
pub mod commands;
pub mod conf_cases;
pub mod damage;
pub mod faults;
pub mod fill_disk;
pub mod indexes;
pub mod judge;
pub mod killed;
pub mod listed;
pub mod model;
pub mod mounts;
pub mod outcome;
pub mod ports;
pub mod power;
pub mod program;
pub mod sharding;
pub mod snapshot;
pub mod stop_when;
pub mod swift;
pub mod tree;
pub mod undo_files;
pub mod waiting;

use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use apus::Kernel;
use apus_disk::Disk;
use apus_hash::Hash;
use apus_node::{AssumeValid, Options, ScriptEngine, ScriptOptions, SyncError};
use apus_progress::Watch;
use apus_store::{BlockFiles, BlockIndex, DataDir, DataDirOptions, IndexDb, IndexEntry};
use apus_sync as sync;
use apus_sync::Summary;
use apus_testchain::copy_dir;
use apus_tools as tools;
use apus_tools::{UtxoHash, UtxoStats};
use apus_wire::{Chain, Network, genesis_block};

pub use apus_testdata::{blocks_of, data, shared};

/// Returns blocks framed as in a blk file.
pub fn framed<'a>(network: &Network, blocks: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for block in blocks {
        bytes.extend_from_slice(&network.magic);
        bytes.extend_from_slice(&(block.len() as u32).to_le_bytes());
        bytes.extend_from_slice(block);
    }
    bytes
}

/// Returns the regtest chain of 206 blocks, genesis first.
pub fn regtest_chain() -> Vec<Vec<u8>> {
    let mut blocks = vec![genesis_block(&Network::new(Chain::Regtest))];
    blocks.extend(blocks_of(&data("regtest-1-206.dat")));
    blocks
}

/// Returns all blocks of a generated chain, genesis first.
pub fn with_genesis(chain: &apus_testchain::Chain) -> Vec<Vec<u8>> {
    let mut blocks = vec![genesis_block(&Network::new(Chain::Regtest))];
    blocks.extend(chain.blocks().map(<[u8]>::to_vec));
    blocks
}

pub fn hash_of(block: &[u8]) -> Hash {
    apus_hash::sha256d(&block[..80])
}

/// Changes the bytes of a file.
pub fn change_file(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

/// A temporary directory for a data directory and the other files of a test.
pub struct Place {
    root: tempfile::TempDir,
    pub network: Network,
}

impl Place {
    pub fn new(chain: Chain) -> Self {
        Self { root: tempfile::tempdir().unwrap(), network: Network::new(chain) }
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn datadir(&self) -> PathBuf {
        self.root.path().join("datadir")
    }

    /// Returns the network's own directory inside the data directory.
    pub fn network_dir(&self) -> PathBuf {
        self.datadir().join(self.network.subdirectory)
    }

    /// Returns another place with a copy of the data directory.
    pub fn copy(&self) -> Self {
        let copy = Self::new(self.network.chain);
        copy_dir(&self.datadir(), &copy.datadir()).unwrap();
        copy
    }

    /// Writes blocks to a framed file.
    pub fn write<'a>(&self, name: &str, blocks: impl IntoIterator<Item = &'a Vec<u8>>) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::write(&path, framed(&self.network, blocks)).unwrap();
        path
    }

    /// Returns options that check every script. On regtest the fast engine does so, and Core's
    /// engine where that one gives up: `script_engines` compares the two on the chains of tests.
    pub fn options(&self) -> Options {
        let mut options = Options::new(self.datadir(), self.network.clone());
        options.assumevalid = AssumeValid::Nothing;
        if self.network.chain == Chain::Regtest {
            options.scripts = scripts_by(ScriptEngine::Fast);
        }
        options.threads = 2;
        options.small_steps = true;
        options.allow_delete_blocks = true;
        options
    }

    pub fn try_sync(&self, sources: &[PathBuf]) -> Result<Summary, SyncError> {
        sync::sync(&self.options(), sources, Watch::default())
    }

    pub fn sync(&self, sources: &[PathBuf]) -> Summary {
        self.try_sync(sources).unwrap()
    }

    /// Syncs from a file of these blocks.
    pub fn sync_blocks(&self, name: &str, blocks: &[Vec<u8>]) -> Summary {
        self.sync(&[self.write(name, blocks)])
    }

    pub fn try_reindex(&self) -> Result<Summary, SyncError> {
        sync::reindex(&self.options(), Watch::default())
    }

    pub fn stats(&self, hash: UtxoHash) -> UtxoStats {
        tools::txoutset_info(&self.options(), hash, Watch::default()).unwrap().unwrap()
    }

    /// Returns the best block whose coins are committed, with its height, if there are any.
    pub fn committed(&self) -> Option<(u32, Hash)> {
        // An unfinished directory cannot be read.
        let stats = tools::txoutset_info(&self.options(), UtxoHash::None, Watch::default());
        let stats = stats.ok()??;
        (stats.txouts > 0).then_some((stats.height, stats.best_block))
    }

    /// Returns the index and the files of the data directory's blocks.
    pub fn blocks(&self) -> (BlockIndex, BlockFiles) {
        let disk = Disk::new();
        let options = DataDirOptions::default();
        let dir = DataDir::open(&disk, &self.datadir(), &self.network, options).unwrap();
        let (_, index, files) = dir.open_blocks().unwrap();
        (index, files)
    }

    /// Changes the entries of the block index.
    pub fn change_index(&self, change: impl FnMut(&mut IndexEntry)) {
        let options = DataDirOptions::default();
        let dir = DataDir::open(&Disk::new(), &self.datadir(), &self.network, options).unwrap();
        let (db, mut index, files) = dir.open_blocks().unwrap();
        index.entries.iter_mut().for_each(change);
        db.write(&files.flush().unwrap(), &index.entries).unwrap();
    }

    /// Makes the block index say that the blocks at these heights are pruned.
    pub fn forget_blocks(&self, heights: Range<u32>) {
        self.change_index(|entry| {
            if heights.contains(&entry.height) {
                entry.record.forget_data();
            }
        });
        let path = self.network_dir().join("blocks/index");
        IndexDb::open(&Disk::new(), &path).unwrap().write_pruned().unwrap();
    }

    /// Returns `hash_serialized_3` of the UTXO set, and the number of coins: much quicker than a
    /// MuHash.
    pub fn utxo_hash(&self) -> (String, u64) {
        self.hash_and_count(UtxoHash::HashSerialized3)
    }

    /// Returns the MuHash of the UTXO set, and the number of coins.
    pub fn muhash(&self) -> (String, u64) {
        self.hash_and_count(UtxoHash::MuHash)
    }

    fn hash_and_count(&self, hash: UtxoHash) -> (String, u64) {
        let stats = self.stats(hash);
        (stats.hash.unwrap().1.to_string(), stats.txouts)
    }
}

/// Returns options under which an engine checks every block, buried or not, and the fast engine is
/// used where the processor has no lanes too.
pub fn scripts_by(engine: ScriptEngine) -> ScriptOptions {
    ScriptOptions { engine, buried_seconds: -1, kernel: Some(Kernel::best()) }
}

/// Prints that the test of this thread is skipped, and why.
pub fn note_skipped(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or_default();
    // This bypasses the capture of a passing test's output, so that it is seen.
    std::io::stderr().write_all(format!("skipped {test}: {why}\n").as_bytes()).unwrap();
}

/// Returns the path of the last table in a database's directory.
pub fn first_table(dir: &Path) -> PathBuf {
    let mut tables: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "ldb"))
        .collect();
    tables.sort();
    tables.pop().expect("there is a table")
}
