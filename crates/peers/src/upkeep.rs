//! Replaces peers that we chose: peers that lag behind, one too many, and slow ones for which a
//! faster one waits. `apus-net` decides; this asks the dialer for what the decisions need.

use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_net::{
    Action, Candidates, HeaderChain, PeerId, PeerManager, Slot, TipWatch, Trial, Verdict,
};
use apus_progress::clock::unix_time;

use super::dialer::Dialer;

/// A peer to drop, and why.
pub(super) type Leaving = (PeerId, &'static str);

/// The memory of past decisions.
#[derive(Default)]
pub(super) struct Upkeep {
    candidates: Candidates,
    tip: TipWatch,
}

impl Upkeep {
    /// Tries a faster peer during a download, if it is time. It must be called about every second.
    pub fn look_for_faster(
        &mut self,
        manager: &mut PeerManager,
        dialer: &mut Dialer,
        now: Duration,
    ) -> Option<Leaving> {
        // The slowest peer may be the only one that offers coins.
        if manager.coins().is_wanting() {
            return None;
        }
        let schedule = manager.schedule();
        let waiting_bytes = (!schedule.is_done()).then(|| schedule.waiting_bytes());
        let runners = dialer.roles().runners(|id| schedule.speed(id));
        let slots = (dialer.roles().in_slots(), dialer.slots());
        match self.candidates.check(&runners, slots, waiting_bytes, now) {
            Trial::Wait => None,
            Trial::Connect => {
                dialer.dial_candidate(unix_time());
                None
            }
            Trial::Keep(id) => {
                dialer.give_slot(id, Slot::Any);
                None
            }
            Trial::Replace(slow, id) => {
                dialer.give_slot(id, Slot::Fast);
                Some((slow, "a peer that is twice as fast takes its place"))
            }
            Trial::Drop(id) => Some((id, "it was tried, and is not twice as fast as another")),
        }
    }

    /// Checks, while nothing is downloaded, whether peers lag behind `tip`, and whether it is
    /// stale. Returns messages to send, and the peers to drop.
    pub fn stay_at_tip(
        &mut self,
        manager: &PeerManager,
        dialer: &mut Dialer,
        (tree, tip): (&Tree, BlockId),
        now: Duration,
    ) -> (Vec<Action>, Vec<Leaving>) {
        let (chosen, others) = dialer.roles().chosen(|id| manager.best(id));
        let verdicts = self.tip.check(tree, tip, (&chosen, &others, dialer.slots()), now);
        dialer.want_extra(self.tip.wants_extra());
        let mut actions = Vec::new();
        let mut leaving = Vec::new();
        for verdict in verdicts {
            match verdict {
                Verdict::Ask(id, block) => {
                    let request = HeaderChain::fixed(tree, tip).request_after(block);
                    actions.push(Action::Send(id, request));
                }
                Verdict::Lags(id) => leaving.push((id, "its chain has less work than ours")),
                Verdict::TooMany(id) => {
                    leaving.push((id, "of one peer too many, it announced a block longest ago"));
                }
            }
        }
        (actions, leaving)
    }
}
