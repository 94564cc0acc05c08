//! SwiftSync in tests: chains with their hints, sources in Core's layout, and runs in each mode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use apus_hash::{Hash, sha256d};
use apus_node::{AssumeValid, Options, SyncError};
use apus_progress::Watch;
use apus_store::BlockStatus;
use apus_swiftsync::Format;
use apus_sync as sync;
use apus_sync::{SWIFTSYNC_DIRECTORY, Summary};
use apus_testchain::{Chain, Mix, Rng, Spec, used_len};
use apus_wire::Chain as Network;

use super::model::Model;
use super::{Place, hash_of, with_genesis};

/// The two modes of SwiftSync.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    AssumeValid,
    Full,
}

pub const MODES: [Mode; 2] = [Mode::AssumeValid, Mode::Full];

/// Returns a chain of many small blocks with every kind of output and few signatures.
pub fn small_chain(seed: u64, busy_blocks: u32, busy_bytes: u64) -> Chain {
    chain_of(Mix::few_signatures(), seed, busy_blocks, busy_bytes)
}

/// Returns a chain like [`small_chain`] of which most inputs have signatures.
pub fn signed_chain(seed: u64, busy_blocks: u32, busy_bytes: u64) -> Chain {
    chain_of(Mix::varied(), seed, busy_blocks, busy_bytes)
}

fn chain_of(mix: Mix, seed: u64, busy_blocks: u32, busy_bytes: u64) -> Chain {
    Chain::new(Spec {
        seed,
        quiet_blocks: 110,
        busy_blocks,
        busy_bytes,
        busy_txs_max: u32::MAX,
        empty_blocks_after: 3,
        keys: 16,
        in_block_percent: 15,
        never_spent_percent: 20,
        mix,
        top_blocks: 0,
    })
}

/// A chain's blocks, genesis first, and the model made by applying them.
pub struct World {
    pub network: Network,
    pub blocks: Vec<Vec<u8>>,
    pub model: Model,
}

impl World {
    pub fn new(network: Network, blocks: Vec<Vec<u8>>) -> Self {
        let model = Model::of(&blocks);
        Self { network, blocks, model }
    }

    pub fn of(chain: &Chain) -> Self {
        Self::new(Network::Regtest, with_genesis(chain))
    }

    pub fn height(&self) -> u32 {
        self.model.height()
    }

    pub fn tip(&self) -> Hash {
        self.hash(self.height())
    }

    pub fn hash(&self, height: u32) -> Hash {
        hash_of(&self.blocks[height as usize])
    }

    pub fn place(&self) -> Place {
        Place::new(self.network)
    }

    /// Returns a directory that was synced in order.
    pub fn in_order(&self) -> Place {
        let place = self.place();
        let summary = place.sync(&[place.write("blocks", &self.blocks)]);
        assert_eq!((summary.height, summary.best_block), (self.height(), self.tip()));
        assert!(summary.refusals.is_empty(), "{:?}", summary.refusals);
        place
    }

    /// Writes correct hints for a height next to the data directory.
    pub fn write_hints(&self, place: &Place, height: u32) -> PathBuf {
        let bytes = self.model.hints_file(height, Format::Bip456);
        place.write_bytes(&format!("{height}.hints"), &bytes)
    }

    /// Writes a source in Core's layout: a blk file with all blocks in this order of heights, and a
    /// rev file with their undo data in order of height.
    pub fn write_source(&self, place: &Place, name: &str, order: &[usize]) -> PathBuf {
        let undo = (1..=self.height()).map(|height| self.model.undo(height));
        let records = (1..=self.height()).zip(undo).collect::<Vec<_>>();
        self.write_source_with(place, name, order, &records)
    }

    /// Writes the same source as [`World::write_source`], but with this undo data, each with its
    /// height, in this order.
    pub fn write_source_with(
        &self,
        place: &Place,
        name: &str,
        order: &[usize],
        undo: &[(u32, Vec<u8>)],
    ) -> PathBuf {
        let dir = place.root().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        place.write(&format!("{name}/blk00000.dat"), order.iter().map(|at| &self.blocks[*at]));
        let mut rev = Vec::new();
        for (height, payload) in undo {
            let prev = self.hash(height - 1);
            rev.extend(frame_undo(&place.network.magic, &prev, payload));
        }
        std::fs::write(dir.join("rev00000.dat"), rev).unwrap();
        dir
    }

    /// Writes the sources for a mode: all blocks in this order of heights, and in full mode their
    /// undo data.
    pub fn sources(&self, place: &Place, mode: Mode, order: &[usize]) -> Vec<PathBuf> {
        vec![match mode {
            Mode::AssumeValid => place.write("blocks", order.iter().map(|at| &self.blocks[*at])),
            Mode::Full => self.write_source(place, "source", order),
        }]
    }

    /// Returns a new place with the hints of all blocks and the sources for a mode, and their
    /// paths.
    pub fn prepared(&self, mode: Mode, order: &[usize]) -> (Place, PathBuf, Vec<PathBuf>) {
        let place = self.place();
        let hints = self.write_hints(&place, self.height());
        let sources = self.sources(&place, mode, order);
        (place, hints, sources)
    }

    /// Returns the heights of all blocks, ascending.
    pub fn file_order(&self) -> Vec<usize> {
        (0..self.blocks.len()).collect()
    }

    /// Returns the heights of all blocks in random order.
    pub fn shuffled(&self, seed: u64) -> Vec<usize> {
        let mut order = self.file_order();
        let mut rng = Rng::new(seed, 0);
        for i in (1..order.len()).rev() {
            order.swap(i, rng.below(i as u64 + 1) as usize);
        }
        order
    }

    /// Returns the options of a SwiftSync in a mode. In assumevalid mode the chain's tip is assumed
    /// valid.
    pub fn options(&self, place: &Place, mode: Mode, hints: &Path) -> Options {
        let mut options = place.options();
        options.swiftsync.hints = Some(hints.to_path_buf());
        if mode == Mode::AssumeValid {
            options.assumevalid = AssumeValid::Block(self.tip());
            options.network.minimum_chain_work = Hash::ZERO;
        }
        options
    }

    /// Returns the options of a SwiftSync in a mode whose claim is a snapshot.
    pub fn options_of_snapshot(&self, place: &Place, mode: Mode, snapshot: &Path) -> Options {
        let mut options = self.options(place, mode, snapshot);
        options.swiftsync.snapshot = options.swiftsync.hints.take();
        options
    }

    pub fn try_swift(
        &self,
        place: &Place,
        mode: Mode,
        hints: &Path,
        sources: &[PathBuf],
    ) -> Result<Summary, SyncError> {
        try_sync_with(&self.options(place, mode, hints), sources)
    }

    /// Returns a new directory, synced with correct hints for `height`.
    pub fn swift(&self, mode: Mode, height: u32) -> Place {
        let place = self.place();
        let hints = self.write_hints(&place, height);
        let sources = self.sources(&place, mode, &self.file_order());
        let summary = self.try_swift(&place, mode, &hints, &sources).unwrap();
        assert_eq!((summary.height, summary.best_block), (self.height(), self.tip()));
        place
    }
}

/// Returns a record of a rev file: magic, length, undo data, checksum with the parent's hash.
pub fn frame_undo(magic: &[u8; 4], prev: &Hash, payload: &[u8]) -> Vec<u8> {
    let mut record = magic.to_vec();
    record.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    record.extend_from_slice(payload);
    let checked: Vec<u8> = prev.0.iter().chain(payload).copied().collect();
    record.extend_from_slice(&sha256d(&checked).0);
    record
}

pub fn try_sync_with(options: &Options, sources: &[PathBuf]) -> Result<Summary, SyncError> {
    sync::sync(options, sources, Watch::default())
}

pub fn try_reindex_with(options: &Options) -> Result<Summary, SyncError> {
    sync::reindex(options, Watch::default())
}

/// A block's height, status and number of transactions in the index.
pub type Indexed = (u32, BlockStatus, u32);

impl Place {
    /// Writes a file next to the data directory.
    pub fn write_bytes(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.root().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Returns the directory with the saved work of an unfinished SwiftSync.
    pub fn swift_dir(&self) -> PathBuf {
        self.network_dir().join(SWIFTSYNC_DIRECTORY)
    }

    /// Returns the block index without positions in files.
    pub fn index(&self) -> BTreeMap<Hash, Indexed> {
        let (index, _) = self.blocks();
        let entries = index.entries.into_iter();
        entries.map(|e| (e.hash, (e.height, e.record.status, e.record.tx_count))).collect()
    }

    /// Returns the undo data of all blocks that have it.
    pub fn undo(&self) -> BTreeMap<Hash, Vec<u8>> {
        let (index, files) = self.blocks();
        let with_undo = index.entries.iter().filter_map(|e| Some((e, e.undo_pos()?)));
        let read = |pos, e: &apus_store::IndexEntry| files.read_undo(pos, &e.header.prev).unwrap();
        with_undo.map(|(entry, pos)| (entry.hash, read(pos, entry))).collect()
    }

    /// Cuts off the space that block and undo files reserve in steps of 16 MiB, so that tests do
    /// not copy it again and again. A directory with genesis alone has no undo file.
    pub fn shrink(&self) {
        for name in ["blk00000.dat", "rev00000.dat"] {
            let path = self.network_dir().join("blocks").join(name);
            let Ok(file) = std::fs::File::options().write(true).open(&path) else { continue };
            // Obfuscated records may end in zeros.
            let end = used_len(&path).unwrap() + 64;
            file.set_len(end.min(file.metadata().unwrap().len())).unwrap();
        }
    }
}
