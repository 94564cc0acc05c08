//! Blocks that a pipeline waits for and that do not come. Near the best header, and where peers
//! have another chain, the pipeline gives them up. Otherwise it tells the user.

use std::time::Duration;

use apus_chain::{BlockId, Tree};

use super::near_tip::NEAR_BLOCKS;
use super::schedule::Schedule;

/// Time from one message about a block that no peer has to the next, minus the time after which it
/// is reported first.
const WORDS_EVERY: Duration = Duration::from_secs(5 * 60);
/// [`Missing::gone_after`] divided by this is the time for which a pipeline waits for a block that
/// may be given up and that a peer has: 10 s of 30. After that it is awaited between pipelines,
/// where it holds up no other branch.
const AWAITED_SHARE: u32 = 3;

/// Which blocks a pipeline gives up if they do not come.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum GivesUp {
    /// None: its blocks are known to exist.
    #[default]
    Nothing,
    /// Those that may exist only as headers: an outbound peer has a chain without the block that
    /// reaches as far as the one below it.
    Disputed,
    /// Those too that are near the best header.
    Near,
    /// Any, since none is needed, but after twice the wait if bytes of blocks keep coming.
    Any,
}

/// The blocks that are waited for.
pub struct Missing {
    /// The block that no peer has, and since when.
    missing: Option<(BlockId, Duration)>,
    /// The block that may be given up and that a thread waits for, and since when.
    awaited: Option<(BlockId, Duration)>,
    gives_up: GivesUp,
    /// The block that a pipeline has given up last. The next one does not wait for it again.
    given_up: Option<BlockId>,
    /// Time after which a block that no peer has is given up or reported, while there are peers.
    gone_after: Duration,
}

impl Missing {
    /// Waits for no block.
    pub fn new(gone_after: Duration) -> Self {
        Self {
            missing: None,
            awaited: None,
            gives_up: GivesUp::Nothing,
            given_up: None,
            gone_after,
        }
    }

    /// Begins again for other blocks.
    pub fn begin(&mut self, gives_up: GivesUp) {
        *self = Self { gives_up, given_up: self.given_up, ..Self::new(self.gone_after) };
    }

    /// Returns a block to give up, with all that build on it, and what to tell the user. `is_alone`
    /// says whether there is no peer.
    pub fn look(
        &mut self,
        schedule: &Schedule,
        is_alone: bool,
        tree: &Tree,
        now: Duration,
    ) -> (Option<BlockId>, Option<String>) {
        let best = tree.node(tree.best_header()).height;
        let gives_up = self.gives_up;
        let may_go = |id: BlockId| match gives_up {
            GivesUp::Nothing => false,
            GivesUp::Disputed => schedule.is_disputed(tree, id),
            GivesUp::Near => tree.height(id) + NEAR_BLOCKS > best || schedule.is_disputed(tree, id),
            GivesUp::Any => true,
        };
        let share = self.gone_after / AWAITED_SHARE;
        let comes = gives_up == GivesUp::Any && now < schedule.progress() + share;
        let patience = if comes { share * 2 } else { share };
        let late = since(&mut self.awaited, schedule.first_awaited().filter(|id| may_go(*id)), now)
            .filter(|(id, waits)| *waits > patience || self.given_up == Some(*id))
            .map(|(id, _)| id);
        let missing = schedule.missing(tree).filter(|_| !is_alone);
        let missing = since(&mut self.missing, missing, now);
        let (gone, words) = match missing.filter(|(_, waits)| *waits > self.gone_after) {
            None => (late, None),
            Some((id, _)) => {
                let node = tree.node(id);
                let then = if may_go(id) { "" } else { ": waiting for one that has" };
                let words =
                    format!("No peer has block {} at height {}{then}", node.hash, node.height);
                // The user is told again if it lasts.
                self.missing = Some((id, now + WORDS_EVERY));
                (late.or(Some(id).filter(|id| may_go(*id))), Some(words))
            }
        };
        self.given_up = gone.or(self.given_up);
        (gone, words)
    }
}

/// Notes a block that is waited for now. Returns it, and for how long it has been.
fn since(
    known: &mut Option<(BlockId, Duration)>,
    block: Option<BlockId>,
    now: Duration,
) -> Option<(BlockId, Duration)> {
    let began = match (*known, block) {
        (Some((known, began)), Some(block)) if known == block => began,
        _ => now,
    };
    *known = block.map(|block| (block, began));
    block.map(|block| (block, now.saturating_sub(began)))
}
