//! Peers, as those know them who want blocks: what is wanted, and a trait that the threads and
//! sockets around [`net`](apus_net) implement.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use apus_chain::{BlockId, Tree};

use super::block::step::Step;
use super::fault::Fault;
use super::progress::Observer;
use super::sources::{BlockBytes, Place};

/// Peers who send blocks that are wanted.
pub trait BlockPeers: Send + Sync {
    /// Waits for the block of a step, and has `check` check its bytes. Bytes that are not the
    /// block's cost the peer that sent them its connection, and the block is asked of others.
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

    /// Waits for any block that is wanted and that no thread has taken; `None` if `halt` was
    /// raised.
    ///
    /// # Panics
    /// The thread that talks to peers has panicked.
    fn next(&self, halt: &AtomicBool) -> Option<BlockId>;

    /// Talks to peers, and has them send what is `wanted`, while `work` is done, once.
    ///
    /// # Panics
    /// `work` panics, or the thread that talks.
    fn serve(&self, tree: &Tree, wanted: Wanted, observer: &dyn Observer, work: &mut dyn FnMut());

    /// The blocks that have come and that no thread has taken.
    fn take_left(&self) -> Vec<(BlockId, BlockBytes)>;

    /// Tells peers that connect from now on the height of the tip.
    fn set_height(&self, height: u32);
}

/// The blocks that a pipeline wants from peers.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// In order of height, all of one branch.
    pub blocks: Arc<[BlockId]>,
    /// Ranges of `blocks`, each of which is taken in order.
    pub lanes: Vec<Range<usize>>,
    /// Whether a block near the best header is given up if no peer has it.
    pub gives_up: bool,
    /// The height below which blocks are asked for without their witnesses.
    pub stripped_below: u32,
}

impl Wanted {
    /// The blocks of these steps that peers are to send, each list as a lane. All steps are of one
    /// branch and in order of height.
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

    /// The lane of a block.
    pub fn lane_of(&self, tree: &Tree, id: BlockId) -> Option<usize> {
        let height = tree.node(id).height;
        let at = self.blocks.partition_point(|block| tree.node(*block).height < height);
        let lane = self.lanes.partition_point(|lane| lane.end <= at);
        self.lanes.get(lane).filter(|lane| lane.contains(&at)).map(|_| lane)
    }
}
