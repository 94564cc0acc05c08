//! Peers as a source of blocks: the blocks that are wanted, and a trait that the threads and
//! sockets around [`net`](apus_net) implement.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apus_chain::{BlockId, Tree};

use super::block::step::Step;
use super::fault::Fault;
use super::progress::Observer;
use super::sources::{BlockBytes, Place};

/// Peers that send wanted blocks.
pub trait BlockPeers: Send + Sync {
    /// Waits for the block of a step, and calls `check` with its bytes. A peer that sent other
    /// bytes is disconnected, and the block is requested from others.
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
    fn next(&self, halt: &AtomicBool) -> Option<BlockId>;

    /// Talks to peers, which send the `wanted` blocks, while `work` runs once.
    ///
    /// # Panics
    /// `work` or the thread that talks to peers panics.
    fn serve(&self, tree: &Tree, wanted: Wanted, observer: &dyn Observer, work: &mut dyn FnMut());

    /// Takes a block that has arrived and that no thread has taken, if there is one.
    fn take_left(&self) -> Option<(BlockId, BlockBytes)>;

    /// Sets the height of the tip that peers are told when they connect.
    fn set_height(&self, height: u32);
}

/// The blocks that a pipeline wants from peers.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// The blocks, in order of height, all of one branch.
    pub blocks: Arc<[BlockId]>,
    /// Ranges of `blocks`; the blocks of each range are taken in order.
    pub lanes: Vec<Range<usize>>,
    /// Whether a block near the best header is given up if no peer has it.
    pub gives_up: bool,
    /// The height below which blocks are requested without their witnesses.
    pub stripped_below: u32,
}

impl Wanted {
    /// Returns the blocks of these steps that are to come from peers, each list as a lane. All
    /// steps are of one branch and in order of height.
    pub fn of<'a>(lists: impl IntoIterator<Item = &'a [Step]>) -> Self {
        let mut blocks = Vec::new();
        let mut lanes = Vec::new();
        for steps in lists {
            let first = blocks.len();
            blocks.extend(steps.iter().filter(|step| step.place == Place::Peers).map(|s| s.id));
            if blocks.len() > first {
                lanes.push(first..blocks.len());
            }
        }
        Self { blocks: blocks.into(), lanes, gives_up: false, stripped_below: 0 }
    }

    /// Returns the lane of a block; `None` if the block is not wanted.
    pub fn lane_of(&self, tree: &Tree, id: BlockId) -> Option<usize> {
        let height = tree.node(id).height;
        let at = self.blocks.partition_point(|block| tree.node(*block).height < height);
        let lane = self.lanes.partition_point(|lane| lane.end <= at);
        self.lanes.get(lane).filter(|lane| lane.contains(&at)).map(|_| lane)
    }
}
