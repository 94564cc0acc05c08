//! Directories that bitcoind and Apus are asked about.

use std::path::{Path, PathBuf};

use apus_hash::{Hash, sha256d};
use apus_node::options::{AssumeValid, Options, Prune};
use apus_progress::Method;
use apus_progress::Watch;
use apus_store::IndexKind;
use apus_testchain::block::encode_block;
use apus_testchain::{Chain, Spec};
use apus_wire::{BlockView, Network, genesis_block};
use tempfile::TempDir;

/// Blocks, and the directory that holds them.
pub struct World {
    directory: TempDir,
    pub network: Network,
    /// The active chain, the genesis block first.
    pub blocks: Vec<Vec<u8>>,
    /// Headers of the last blocks of other branches.
    pub others: Vec<[u8; 80]>,
    /// Blocks that were disconnected.
    pub disconnected: Vec<Vec<u8>>,
    /// A next block, of which the directory has nothing.
    pub stray: Option<Vec<u8>>,
    /// Options of bitcoind for this directory.
    pub options: Vec<String>,
    pub fast_prune: bool,
    /// The indexes that Apus builds.
    indexes: Vec<IndexKind>,
}

impl World {
    /// Returns the data directory.
    pub fn datadir(&self) -> PathBuf {
        self.directory.path().join("datadir")
    }

    /// Returns the options of Apus for the directory.
    pub fn at_rest(&self) -> Options {
        let mut options = Options::new(self.datadir(), self.network.clone());
        options.threads = 2;
        options.fast_prune = self.fast_prune;
        options.indexes = self.indexes.clone();
        options.assumevalid = AssumeValid::Nothing;
        options
    }

    pub fn hash(&self, height: usize) -> Hash {
        hash_of(&self.blocks[height])
    }

    /// Lets Apus build indexes, and bitcoind use them.
    fn with_indexes(mut self, indexes: &[IndexKind]) -> Self {
        self.indexes = indexes.to_vec();
        self.options.extend(indexes.iter().map(|kind| format!("-{}", kind.name())));
        self
    }

    pub fn tip(&self) -> Hash {
        self.hash(self.blocks.len() - 1)
    }

    pub fn view(&self, height: usize) -> BlockView<&[u8]> {
        BlockView::parse(&self.blocks[height][..]).unwrap()
    }

    /// Syncs the directory from these blocks.
    fn sync(&self, options: &Options, blocks: &[Vec<u8>]) {
        let mut framed = Vec::new();
        for block in blocks {
            framed.extend_from_slice(&self.network.magic);
            framed.extend_from_slice(&(block.len() as u32).to_le_bytes());
            framed.extend_from_slice(block);
        }
        let source = self.directory.path().join("blocks.dat");
        std::fs::write(&source, framed).unwrap();
        apus_sync::sync(options, &[source], Watch::default()).unwrap();
    }
}

pub fn hash_of(block: &[u8]) -> Hash {
    sha256d(&block[..80])
}

fn header_of(block: &[u8]) -> [u8; 80] {
    block[..80].try_into().unwrap()
}

fn new(chain: apus_wire::Chain, blocks: Vec<Vec<u8>>) -> World {
    World {
        directory: tempfile::tempdir().unwrap(),
        network: Network::new(chain),
        blocks,
        others: Vec::new(),
        disconnected: Vec::new(),
        stray: None,
        options: Vec::new(),
        fast_prune: false,
        indexes: Vec::new(),
    }
}

/// An empty directory of regtest.
pub fn empty() -> World {
    let world = new(apus_wire::Chain::Regtest, Vec::new());
    std::fs::create_dir_all(world.datadir()).unwrap();
    world
}

fn with_genesis(chain: &Chain) -> Vec<Vec<u8>> {
    let mut blocks = vec![genesis_block(&Network::new(apus_wire::Chain::Regtest))];
    blocks.extend(chain.blocks().map(<[u8]>::to_vec));
    blocks
}

/// A chain that a sync by `method` connects, with a side branch and a block that breaks a rule.
pub fn branches(spec: Spec, method: Method, indexes: &[IndexKind]) -> World {
    let chain = Chain::new(spec);
    let world = new(apus_wire::Chain::Regtest, with_genesis(&chain));
    let mut world = world.with_indexes(indexes);
    let height = chain.height();
    let fork = with_genesis(&chain.fork(height - 9, 4, 7));
    let side = &fork[height as usize - 8..];
    let mut broken = chain.next_block().coinbase_value(51 * 100_000_000).finish();
    apus_testchain::seal(&mut broken);
    let broken = encode_block(&broken);
    world.others = vec![header_of(&side[3]), header_of(&broken)];
    world.sync(
        &Options { method: Some(method), ..world.at_rest() },
        &[&world.blocks[..], side, &[broken]].concat(),
    );
    world.stray = Some(encode_block(&chain.next_block().extra(b"stray").finish()));
    world
}

/// A chain with indexes whose last blocks were disconnected for a longer branch.
pub fn reorganised(spec: Spec) -> World {
    let chain = Chain::new(spec);
    let height = chain.height();
    let old = with_genesis(&chain);
    let world = new(apus_wire::Chain::Regtest, with_genesis(&chain.fork(height - 5, 7, 11)));
    let mut world = world.with_indexes(&IndexKind::ALL);
    let options = Options { method: Some(Method::InOrder), ..world.at_rest() };
    world.sync(&options, &old);
    world.sync(&options, &world.blocks);
    world.others = old[height as usize - 4..].iter().map(|block| header_of(block)).collect();
    world.disconnected = old[height as usize - 4..].to_vec();
    world
}

/// The first blocks of mainnet.
pub fn mainnet() -> World {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apus/data/mainnet-0-14131.dat");
    let blocks = apus_testdata::blocks_of(&data);
    let world = new(apus_wire::Chain::Main, blocks).with_indexes(&IndexKind::ALL);
    world.sync(&world.at_rest(), &world.blocks);
    world
}

/// A directory whose block files are pruned.
pub fn pruned() -> World {
    let spec = Spec { busy_bytes: 6_000, busy_blocks: 590, quiet_blocks: 110, ..Spec::small(41) };
    let world = new(apus_wire::Chain::Regtest, with_genesis(&Chain::new(spec)));
    let mut world = world.with_indexes(&[IndexKind::BlockFilterIndex, IndexKind::CoinStatsIndex]);
    world.options.extend(["-fastprune", "-prune=1"].map(str::to_string));
    world.fast_prune = true;
    let prune = Some(Prune::Target(17 << 20));
    let options = Options { prune, method: Some(Method::InOrder), ..world.at_rest() };
    world.sync(&options, &world.blocks);
    world
}
