//! Peers as a source of blocks: the blocks that are wanted, and a trait that the threads and
//! sockets around [`net`](apus_net) implement.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apus_chain::{BlockId, Tree};
pub use apus_net::{COIN_RANGE_BLOCKS, GivesUp, coins_cutoff};

use super::block::step::Step;
use super::fault::Fault;
use super::sources::{BlockBytes, BlockOrigin};
use apus_progress::Observer;

/// Peers that send wanted blocks.
pub trait BlockPeers: Send + Sync {
    /// Waits for the block of a step and, if they are wanted, the coins that it spends, and calls
    /// `check` with the block's bytes. A peer that sent other bytes is disconnected, and the block
    /// is requested from others.
    ///
    /// # Errors
    /// `halt` was raised, no peer has the block, or it breaks a rule.
    ///
    /// # Panics
    /// The thread that talks to peers has panicked.
    fn fetch(
        &self,
        tree: &Tree,
        step: Step,
        halt: &AtomicBool,
        check: &mut dyn FnMut(BlockBytes) -> Result<(), Fault>,
    ) -> Result<(), Fault>;

    /// Waits for any wanted block that no thread has taken; `None` if `halt` was raised.
    ///
    /// # Panics
    /// The thread that talks to peers has panicked.
    fn next(&self, _halt: &AtomicBool) -> Option<BlockId> {
        None
    }

    /// Returns whether a connected peer offers the coins that blocks spend (draft BIP 455).
    fn offers_coins(&self) -> bool {
        false
    }

    /// Waits for the coins that the block of a step spends and that were created below
    /// [`coins_cutoff`], and calls `check` with them. A peer whose coins are wrong is disconnected,
    /// and they are requested from others. Returns `false` if no peer has them.
    ///
    /// # Errors
    /// `halt` was raised, or the disk fails.
    ///
    /// # Panics
    /// The thread that talks to peers has panicked.
    fn fetch_coins(
        &self,
        _tree: &Tree,
        _step: Step,
        _halt: &AtomicBool,
        _check: &mut dyn FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<bool, Fault> {
        Ok(false)
    }

    /// Talks to peers, which send the `wanted` blocks, while `work` runs once.
    ///
    /// # Panics
    /// `work` or the thread that talks to peers panics.
    fn serve(&self, tree: &Tree, wanted: Wanted, observer: &dyn Observer, work: &mut dyn FnMut());

    /// Takes a block that has arrived and that no thread has taken, if there is one.
    fn take_left(&self) -> Option<(BlockId, BlockBytes)> {
        None
    }

    /// Drops the blocks that have arrived and that no thread has taken, and frees their space.
    fn drop_left(&self) {}

    /// Keeps at least `bytes` of the disk free, for other data.
    fn keep_free(&self, _bytes: u64) {}

    /// Sets the height of the tip that peers are told when they connect.
    fn set_height(&self, _height: u32) {}
}

/// The blocks that a pipeline wants from peers.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The blocks, in order of height, all of one branch.
    pub blocks: Arc<[BlockId]>,
    /// The expected size of each of them, in bytes; 0 if it is unknown.
    pub sizes: Arc<[u32]>,
    /// Ranges of `blocks`; the blocks of each range are taken in order.
    pub lanes: Vec<Range<usize>>,
    /// Which blocks that do not come are given up.
    pub gives_up: GivesUp,
    /// The height below which blocks are requested without their witnesses.
    pub stripped_below: u32,
    /// The blocks whose spent coins are wanted, in order of height; those that are stored already
    /// may be among them.
    pub coins: Arc<[BlockId]>,
}

impl Wanted {
    /// Returns the blocks of these steps that are to come from peers, each list as a lane. All
    /// steps are of one branch and in order of height.
    pub fn of<'a>(lists: impl IntoIterator<Item = &'a [Step]>) -> Self {
        let mut blocks = Vec::new();
        let mut sizes = Vec::new();
        let mut lanes = Vec::new();
        for steps in lists {
            let first = blocks.len();
            for step in steps.iter().filter(|step| step.place == BlockOrigin::Peers) {
                blocks.push(step.id);
                sizes.push(u32::try_from(step.weight).unwrap_or(u32::MAX));
            }
            if blocks.len() > first {
                lanes.push(first..blocks.len());
            }
        }
        let blocks = blocks.into();
        let sizes = sizes.into();
        Self { blocks, sizes, lanes, ..Self::default() }
    }

    /// Returns the expected size of all blocks in bytes.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().map(|bytes| u64::from(*bytes)).sum()
    }

    /// Returns the expected size in bytes of a block; 0 if it is unknown, or the block is not
    /// wanted.
    pub fn bytes_of(&self, tree: &Tree, id: BlockId) -> u64 {
        let at = self.place_of(tree, id);
        let bytes = self.sizes.get(at).filter(|_| self.blocks.get(at) == Some(&id));
        bytes.map_or(0, |bytes| u64::from(*bytes))
    }

    /// Returns whether the coins that a block spends are wanted.
    pub fn wants_coins(&self, tree: &Tree, id: BlockId) -> bool {
        self.coins.get(place_in(&self.coins, tree, id)) == Some(&id)
    }

    /// Returns where in `blocks` a block is, if it is one of them.
    fn place_of(&self, tree: &Tree, id: BlockId) -> usize {
        place_in(&self.blocks, tree, id)
    }

    /// Returns the lane of a block; `None` if the block is not wanted.
    pub fn lane_of(&self, tree: &Tree, id: BlockId) -> Option<usize> {
        let at = self.place_of(tree, id);
        let lane = self.lanes.partition_point(|lane| lane.end <= at);
        self.lanes.get(lane).filter(|lane| lane.contains(&at)).map(|_| lane)
    }
}

/// Returns where in `blocks`, which are in order of height, a block is, if it is one of them.
fn place_in(blocks: &[BlockId], tree: &Tree, id: BlockId) -> usize {
    let height = tree.node(id).height;
    blocks.partition_point(|block| tree.node(*block).height < height)
}

#[cfg(test)]
mod tests {
    use apus_wire::{Chain, Network};

    use super::*;

    #[test]
    fn blocks_of_peers_alone_are_wanted_with_their_sizes() {
        let tree = Tree::new(Network::new(Chain::Regtest));
        let id = tree.genesis();
        let wanted = Wanted::of([&[Step { id, place: BlockOrigin::Peers, weight: 285 }][..]]);
        assert_eq!((wanted.bytes(), wanted.bytes_of(&tree, id)), (285, 285));
        assert_eq!(wanted.lane_of(&tree, id), Some(0));
        let none = Wanted::of([&[][..]]);
        assert_eq!((none.bytes(), none.bytes_of(&tree, id)), (0, 0));
        assert_eq!(none.lane_of(&tree, id), None);
    }
}
