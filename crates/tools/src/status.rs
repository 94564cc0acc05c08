//! Reads the state of a data directory without changing it.

use std::path::PathBuf;

use apus_disk::Disk;
use apus_hash::Hash;
use apus_indexes::{IndexReach, reached};
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node};
use apus_node::options::Options;
use apus_node::reconsider::MarkedChain;
use apus_node::run::Run;
use apus_node::snapshot_chainstate::SnapshotChainstate;
use apus_node::{rebuild, remedy, snapshot_chainstate};
use apus_progress::Method;
use apus_store::IndexKind;
use apus_sync::above_tip::above_tip;
use apus_sync::unfinished::{SavedWork, open_node, saved_by};
use apus_sync::{AboveTip, SavedJoin};
use apus_wire::Chain;

/// The state of a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The network's own directory inside the data directory.
    pub directory: PathBuf,
    /// The network.
    pub chain: Chain,
    /// Height of the UTXO set's best block.
    pub height: u32,
    /// The UTXO set's best block.
    pub best_block: Hash,
    /// Time in the best block's header, in seconds since 1970.
    pub time: u32,
    /// Number of coins in the UTXO set; `None` if it is not known without counting them.
    pub coins: Option<u64>,
    /// Height of the best header.
    pub headers: u32,
    /// The blocks between the best block and the best header.
    pub above_tip: AboveTip,
    /// The lowest height such that every block from there to the best one is stored; above 1 in a
    /// pruned directory.
    pub blocks_from: u32,
    /// The lowest height such that every stored block from there on has undo data; above 1 after a
    /// SwiftSync with the blocks assumed valid.
    pub undo_from: u32,
    /// Whether block files were ever pruned.
    pub pruned: bool,
    /// A chain with more work that the block index calls invalid.
    pub marked: Option<MarkedChain>,
    /// Core's optional indexes that there are.
    pub indexes: Vec<IndexStatus>,
    /// Work that was interrupted.
    pub unfinished: Vec<Unfinished>,
    /// The second UTXO set, which bitcoind has loaded from a snapshot; all other fields describe
    /// the first.
    pub snapshot: Option<SnapshotStatus>,
    /// Directories of UTXO sets that neither Apus nor bitcoind uses, so that they can be removed.
    pub unused: Vec<PathBuf>,
}

/// The UTXO set that bitcoind has loaded from a snapshot and works with, while it validates the
/// chain up to the snapshot's base block with the other set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotStatus {
    /// The base block, after which the snapshot's coins were unspent.
    pub base: Hash,
    /// Height of the base block; `None` if its header is not known.
    pub base_height: Option<u32>,
    /// Height of the set's current best block; `None` if it is not known, for example because
    /// bitcoind's flush was interrupted.
    pub height: Option<u32>,
}

impl SnapshotStatus {
    fn of(node: &Node, snapshot: &SnapshotChainstate) -> Self {
        let height = |hash: &Hash| node.tree().find(hash).map(|id| node.tree().node(id).height);
        Self {
            base: snapshot.base,
            base_height: height(&snapshot.base),
            height: snapshot.best_block().and_then(|best| height(&best)),
        }
    }
}

/// One of Core's optional indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStatus {
    /// The index.
    pub kind: IndexKind,
    /// How far each form of its entries reaches, or why that cannot be read.
    pub reached: Result<Vec<IndexReach>, String>,
}

impl IndexStatus {
    /// Returns the indexes of the directory that `node` has open.
    fn all(node: &Node) -> Vec<Self> {
        let status = |kind| match reached(node.dir(), node.tree(), kind) {
            Ok(found) => found.map(|found| Self { kind, reached: Ok(found) }),
            Err(error) => Some(Self { kind, reached: Err(error.to_string()) }),
        };
        IndexKind::ALL.into_iter().filter_map(status).collect()
    }
}

/// Interrupted work, which the command that began it continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// A rebuild of the UTXO set.
    Rebuild {
        /// Height of the new set's best block so far.
        height: u32,
    },
    /// A SwiftSync.
    SwiftSync {
        /// Number of blocks that the saved work covers, of any height.
        blocks: u32,
    },
    /// A join.
    Join(SavedJoin),
}

impl From<SavedWork> for Unfinished {
    fn from(work: SavedWork) -> Self {
        match work {
            SavedWork::Join(join) => Self::Join(join),
            SavedWork::SwiftSync { blocks } => Self::SwiftSync { blocks },
        }
    }
}

impl Unfinished {
    /// Returns advice for the user on how to continue the work.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Rebuild { .. } => "run `apus reindex` with the same options to continue",
            Self::Join(_) => {
                "run the same command to continue; with --method=order, --hints or --snapshot it \
                 is given up"
            }
            Self::SwiftSync { .. } => {
                "run the same command, with the same --hints or --snapshot, to continue; without \
                 either it is given up"
            }
        }
    }
}

/// Reads the state of a data directory. Nothing in the directory changes: it may be on a read-only
/// mount, and other programs may read it at the same time.
///
/// # Errors
/// The directory is missing, a program that may write to it has it open, or a file in it is
/// damaged.
pub fn status(options: &Options) -> Result<Status, SyncError> {
    remedy::naming(options, || {
        let disk = Disk::new();
        let node = open_node(&Run::on(&disk, options), Coins::ReadOnly)?;
        let directory = node.dir().path().to_path_buf();
        let tip = node.tree().node(node.tip());
        let mut unfinished = Vec::new();
        if let Some(best_block) = rebuild::unfinished(&disk, &directory)? {
            let height = node.tree().find(&best_block).map_or(0, |id| node.tree().height(id));
            unfinished.push(Unfinished::Rebuild { height });
        }
        for method in Method::ALL {
            unfinished.extend(saved_by(method, &disk, options)?.map(Unfinished::from));
        }
        let snapshot = SnapshotChainstate::find(&disk, &directory)?;
        Ok(Status {
            snapshot: snapshot.map(|snapshot| SnapshotStatus::of(&node, &snapshot)),
            unused: snapshot_chainstate::unused(&directory),
            chain: options.network.chain,
            height: tip.height,
            best_block: tip.hash,
            time: tip.time,
            coins: node.ledger().coins.map(|coins| coins as u64),
            headers: node.tree().node(node.tree().best_header()).height,
            above_tip: above_tip(&node),
            blocks_from: node.ledger().blocks_from(),
            undo_from: node.ledger().undo_from(),
            pruned: node.ledger().pruning.is_pruned,
            marked: MarkedChain::of(node.tree(), node.tip()),
            indexes: IndexStatus::all(&node),
            unfinished,
            directory,
        })
    })
}
