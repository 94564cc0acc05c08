//! What a data directory holds, without changing it.

use std::path::PathBuf;

use super::error::SyncError;
use super::node::{Coins, Node};
use super::options::Options;
use super::rebuild::Rebuild;
use super::remedy;
use crate::disk::Disk;
use crate::hash::Hash;
use crate::sync::swift;
use crate::wire::Chain;

/// What a data directory holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The network's own directory.
    pub directory: PathBuf,
    /// The network.
    pub chain: Chain,
    /// Height of the UTXO set's best block.
    pub height: u32,
    /// The UTXO set's best block.
    pub best_block: Hash,
    /// Time in that block's header, in seconds since 1970.
    pub time: u32,
    /// Coins in the UTXO set, where the number is known without counting them.
    pub coins: Option<u64>,
    /// Height of the best header.
    pub headers: u32,
    /// The lowest height from which on every block up to the best one is stored; above 1 in a
    /// pruned directory.
    pub blocks_from: u32,
    /// The lowest height from which on every block that is stored has undo data; above 1 after
    /// SwiftSync with the blocks assumed valid.
    pub undo_from: u32,
    /// Whether block files were ever pruned.
    pub pruned: bool,
    /// Work that was interrupted.
    pub unfinished: Vec<Unfinished>,
}

/// Work that was interrupted and is carried on by the command that began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfinished {
    /// A UTXO set that is built anew, up to this height so far.
    Rebuild {
        /// Height of its best block.
        height: u32,
    },
    /// A SwiftSync, of which so many blocks are done.
    SwiftSync {
        /// Blocks that are done and saved, of any height.
        blocks: u32,
    },
}

impl Unfinished {
    /// How to carry it on.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Rebuild { .. } => "`apus reindex` with the same options carries on",
            Self::SwiftSync { .. } => {
                "the same command, with the same --hints, carries on; a command without hints \
                 gives it up"
            }
        }
    }
}

/// Says what a data directory holds. It is read and not changed, and may be on a read-only mount;
/// other programs may read it at the same time.
///
/// # Errors
/// There is no such directory, a program that writes has it open, or it holds what cannot be right.
pub fn status(options: &Options) -> Result<Status, SyncError> {
    remedy::naming(options, || {
        let disk = Disk::new();
        let node = Node::open(options, &disk, Coins::ReadOnly)?;
        let directory = node.dir.path().to_path_buf();
        let tip = node.tree.node(node.tip());
        let active = &node.ledger.active;
        let is_stored =
            |height: u32| active.at(height).is_some_and(|id| node.entry(id).block_pos().is_some());
        let lacking = (1..=tip.height).rev().find(|height| !is_stored(*height));
        let mut unfinished = Vec::new();
        if let Some(best) = Rebuild::unfinished(&disk, &directory)? {
            let height = best.and_then(|hash| node.tree.find(&hash));
            let height = height.map_or(0, |id| node.tree.node(id).height);
            unfinished.push(Unfinished::Rebuild { height });
        }
        if let Some(blocks) = swift::directory::unfinished(&disk, &directory)? {
            unfinished.push(Unfinished::SwiftSync { blocks });
        }
        Ok(Status {
            chain: options.network.chain,
            height: tip.height,
            best_block: tip.hash,
            time: tip.header.time,
            coins: node.ledger.coins.map(|coins| coins as u64),
            headers: node.tree.node(node.tree.best_header()).height,
            blocks_from: lacking.map_or(1, |height| height + 1),
            undo_from: node.ledger.undo_from(),
            pruned: node.pruned,
            unfinished,
            directory,
        })
    })
}
