//! During a download, one more peer than there are slots is tried from time to time. If it is much
//! faster than the slowest of the others, it takes its slot: so a peer leaves because a better one
//! waits, and never because its line is slow.
//!
//! Speed must not help an attacker who wants to be our only kind of peer: at most half of the slots
//! are given by it ([`Slot::Fast`]), here and when connections are opened.

use std::time::Duration;

use super::peer::PeerId;

/// Time from one candidate to the next.
const EVERY: Duration = Duration::from_secs(3 * 60);
/// Time after which another one is tried, if no connection was made.
const RETRY: Duration = Duration::from_secs(15);
/// How long a candidate is measured at least, for TCP to reach its speed.
const TRIAL: Duration = Duration::from_secs(30);
/// A candidate whose speed is not known after this time is dropped.
const TRIAL_MAX: Duration = Duration::from_secs(2 * 60);
/// A candidate must be this many times as fast as the peer whose slot it takes.
const FASTER: u64 = 2;
/// Validation, and not the peers, is the limit if more bytes of blocks than these wait for it.
const WAITING_BYTES_MAX: u64 = 64 << 20;

/// Why a peer that we chose has a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slot {
    /// It was chosen without regard to its speed.
    Any,
    /// It was, or is, fast.
    Fast,
    /// It has no slot, and is measured.
    Candidate,
}

impl Slot {
    /// Returns how many of `slots` may be given by speed.
    pub fn fast_max(slots: usize) -> usize {
        slots / 2
    }
}

/// A peer that we chose and whose handshake is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Runner {
    /// The peer.
    pub id: PeerId,
    /// Why it has a connection.
    pub slot: Slot,
    /// When the handshake was complete.
    pub since: Duration,
    /// Bytes of blocks that it sends in a second, if known.
    pub speed: Option<u64>,
}

/// An action on candidates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trial {
    /// Nothing is to be done.
    Wait,
    /// A candidate must be connected to.
    Connect,
    /// The candidate gets a free slot.
    Keep(PeerId),
    /// The first peer must be dropped: the second, the candidate, gets its slot.
    Replace(PeerId, PeerId),
    /// The candidate must be dropped.
    Drop(PeerId),
}

/// When the next candidate is due.
#[derive(Default)]
pub struct Candidates {
    /// The last candidate.
    last: Option<PeerId>,
    /// The time for which peers were the limit of the download since that one was connected, minus
    /// the time for which they were not.
    limited_for: Duration,
    checked: Duration,
}

impl Candidates {
    /// Returns what to do. `runners` are the peers that we chose, for so many `slots`, of which
    /// `taken` are connected or being connected; `waiting_bytes` of blocks wait to be validated,
    /// `None` if nothing is downloaded. It must be called about every second.
    pub fn check(
        &mut self,
        runners: &[Runner],
        (taken, slots): (usize, usize),
        waiting_bytes: Option<u64>,
        now: Duration,
    ) -> Trial {
        let passed = now.saturating_sub(std::mem::replace(&mut self.checked, now));
        self.limited_for = match waiting_bytes {
            None => Duration::ZERO,
            Some(bytes) if bytes <= WAITING_BYTES_MAX => self.limited_for + passed,
            Some(_) => self.limited_for.saturating_sub(passed),
        };
        let is_full = taken >= slots;
        let candidate = runners.iter().find(|runner| runner.slot == Slot::Candidate);
        if let Some(candidate) = candidate
            && self.last != Some(candidate.id)
        {
            (self.last, self.limited_for) = (Some(candidate.id), Duration::ZERO);
        }
        match candidate {
            Some(candidate) if waiting_bytes.is_none() => Trial::Drop(candidate.id),
            Some(candidate) => self.judge(candidate, runners, slots, is_full, now),
            None if is_full && self.limited_for >= EVERY => {
                self.limited_for = EVERY - RETRY;
                Trial::Connect
            }
            None => Trial::Wait,
        }
    }

    fn judge(
        &self,
        candidate: &Runner,
        runners: &[Runner],
        slots: usize,
        is_full: bool,
        now: Duration,
    ) -> Trial {
        let tried_for = now.saturating_sub(candidate.since);
        match candidate.speed {
            None if tried_for >= TRIAL_MAX => Trial::Drop(candidate.id),
            Some(_) if !is_full => Trial::Keep(candidate.id),
            Some(speed) if tried_for >= TRIAL => match slowest(runners, slots) {
                Some((slow, least))
                    if !self.limited_for.is_zero() && speed >= least.saturating_mul(FASTER) =>
                {
                    Trial::Replace(slow, candidate.id)
                }
                _ => Trial::Drop(candidate.id),
            },
            _ => Trial::Wait,
        }
    }
}

/// Returns the slowest peer whose slot may be given by speed: any, or one of those that were given
/// by speed if these are half of all.
fn slowest(runners: &[Runner], slots: usize) -> Option<(PeerId, u64)> {
    let fast = runners.iter().filter(|runner| runner.slot == Slot::Fast).count();
    let may_be_given = |runner: &&Runner| match runner.slot {
        Slot::Any => fast < Slot::fast_max(slots),
        Slot::Fast => true,
        Slot::Candidate => false,
    };
    let known = runners.iter().filter(may_be_given).filter_map(|r| Some((r.id, r.speed?)));
    known.min_by_key(|(_, speed)| *speed)
}
