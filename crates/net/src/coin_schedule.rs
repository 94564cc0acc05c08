//! Chooses the peer that the coins of each block are requested from (draft BIP 455): as for blocks,
//! but only peers that offer coins are asked.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_wire::message::GetSpentCoins;

use super::peer::{Has, PeerId};
use super::schedule::{Arrival, Fault, Limits, Schedule};
use super::session::{BLOCK_SPENT_COINS, Outgoing, Themselves};

/// The data with which a peer offers the feature.
const OFFER: [u8; 1] = [0];
/// Number of blocks in a range. The coins that a block spends are not requested if a block of the
/// same range creates them.
pub const COIN_RANGE_BLOCKS: u32 = 16;

/// Returns the height below which the coins are requested that a block at `height` spends: that of
/// the first block of its range. No block at height 0 creates a coin.
pub fn coins_cutoff(height: u32) -> u32 {
    (height / COIN_RANGE_BLOCKS * COIN_RANGE_BLOCKS).max(1)
}

/// Returns whether a peer offers the coins that blocks spend.
pub fn offers_coins(them: &Themselves) -> bool {
    them.feature(BLOCK_SPENT_COINS) == Some(&OFFER)
}

/// The blocks whose coins are wanted, and which peer is asked for which.
pub struct CoinSchedule {
    schedule: Schedule,
    is_wanting: bool,
    /// Peers that are not asked any more, since they lack the coins of many blocks.
    given_up: HashSet<PeerId>,
}

impl CoinSchedule {
    /// Creates a schedule that wants no coins.
    pub fn new(limits: Limits) -> Self {
        Self { schedule: Schedule::new(limits), is_wanting: false, given_up: HashSet::new() }
    }

    /// Wants the coins of these blocks, which are taken nearly in this order, and of no others.
    pub fn want(&mut self, blocks: Arc<[BlockId]>) {
        let all = 0..blocks.len();
        self.is_wanting = !blocks.is_empty();
        self.schedule.want(blocks, std::iter::once(all));
    }

    /// Returns whether coins are wanted.
    pub fn is_wanting(&self) -> bool {
        self.is_wanting
    }

    /// Changes [`Limits::bytes_max`].
    pub fn set_bytes_max(&mut self, bytes_max: u64) {
        self.schedule.set_bytes_max(bytes_max);
    }

    /// Adds a peer that offers coins, or updates which blocks it has.
    pub fn set_peer(&mut self, id: PeerId, has: Has) {
        if !self.given_up.contains(&id) {
            self.schedule.set_peer(id, has);
        }
    }

    /// Removes a peer.
    pub fn remove_peer(&mut self, id: PeerId) {
        self.given_up.remove(&id);
        self.schedule.remove_peer(id);
    }

    /// Returns whether a peer that offers coins is connected.
    pub fn has_peers(&self) -> bool {
        !self.given_up.is_empty() || self.schedule.having().next().is_some()
    }

    /// Records how many bytes of blocks and coins have come from a peer in all.
    pub fn heard(&mut self, id: PeerId, bytes: u64, now: Duration) {
        self.schedule.heard(id, bytes, now);
    }

    /// Records that this many of these bytes were those of a block.
    pub fn heard_block(&mut self, id: PeerId, bytes: u64) {
        self.schedule.heard_other(id, bytes);
    }

    /// Records that a thread waits for coins.
    pub fn read(&mut self) {
        self.schedule.read(0);
    }

    /// Records that the coins of `block` were taken, and fit it.
    pub fn taken(&mut self, block: BlockId) {
        self.schedule.taken(0, block);
    }

    /// Records that the peer `id` sent the coins of `block`.
    pub fn arrived(&mut self, id: PeerId, block: BlockId, bytes: u64, now: Duration) -> Arrival {
        match self.schedule.arrived(id, block, bytes, now) {
            // It was asked before it was given up.
            Arrival::NotAsked if self.given_up.contains(&id) => Arrival::Late,
            arrival => arrival,
        }
    }

    /// Records that the peer `id` sent wrong coins of `block`. Another one is asked for them.
    pub fn refused(&mut self, id: PeerId, block: BlockId) {
        self.schedule.refused(id, block);
    }

    /// Records that the peer `id` says that it lacks the coins of `block`.
    pub fn lacks(&mut self, id: PeerId, block: BlockId) {
        self.schedule.refused_by(id, block);
    }

    /// Returns a block whose coins a thread waits for and no peer has; they are not wanted any
    /// more. While no peer offers coins, none are given up.
    pub fn give_up(&mut self, tree: &Tree) -> Option<BlockId> {
        let block = self.schedule.missing(tree).filter(|_| self.has_peers())?;
        self.schedule.leave_out(0, block);
        Some(block)
    }

    /// Returns the messages to send to peers now.
    pub fn requests(&mut self, tree: &Tree, now: Duration) -> Vec<(PeerId, Outgoing)> {
        let request = |block: BlockId| {
            let node = tree.node(block);
            let cutoff = coins_cutoff(node.height);
            Outgoing::new(&GetSpentCoins { block: node.hash, cutoff })
        };
        let of_peers = self.schedule.requests(tree, now).into_iter();
        of_peers
            .flat_map(|(id, blocks)| blocks.into_iter().map(move |block| (id, block)))
            .map(|(id, block)| (id, request(block)))
            .collect()
    }

    /// Returns the peers to drop, and why. A peer that lacks the coins of many blocks stays, and is
    /// not asked for coins any more.
    pub fn tick(&mut self, now: Duration) -> Vec<(PeerId, Fault)> {
        let mut faults = self.schedule.tick(now);
        for (id, _) in faults.extract_if(.., |(_, fault)| *fault == Fault::Refuses) {
            self.schedule.remove_peer(id);
            self.given_up.insert(id);
        }
        faults
    }
}
