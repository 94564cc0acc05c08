//! Why there is each connection.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use apus_chain::BlockId;
use apus_net::{
    Chosen, ConnectionType, EvictionCandidate, Group, NetKind, PeerId, Place, Runner, Slot, Target,
    select_to_evict,
};
use apus_wire::message::Host;

use super::budget::Socket;

/// How a connection was closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Closing {
    /// The peer has closed it, or the line broke.
    Lost,
    /// We have closed it since nothing came: our own line may have been down.
    Silent,
    /// We have closed it for another reason.
    Dropped,
}

/// Why there is a connection.
pub(super) enum Role {
    /// The user asked for it. The index into the list of those.
    Manual(usize, Target),
    /// It was found on the local network. The index into the list of those that the user asked for.
    Local(usize, Target),
    /// It was chosen from the address book.
    Automatic(Automatic),
    /// It was chosen from the address book, to learn whether the address works (Core's feeler).
    Feeler(Place),
    /// The peer is asked for addresses alone.
    Seed(Target),
    /// The peer opened it.
    Inbound(Inbound),
}

/// A connection that a peer opened, maybe without a handshake so far.
pub(super) struct Inbound {
    pub address: SocketAddr,
    pub socket: Arc<Socket>,
    /// The part of the network that the peer is in, hashed.
    pub group: u64,
    pub connected: Duration,
    /// When the peer last sent a block that we wanted.
    pub last_block: Option<Duration>,
}

/// A connection to a peer of the address book.
pub(super) struct Automatic {
    pub place: Place,
    pub slot: Slot,
    /// When the handshake was complete.
    pub since: Option<Duration>,
}

impl Role {
    /// Returns the role of a peer of the address book that is not connected yet.
    pub fn automatic(place: Place, slot: Slot) -> Self {
        Self::Automatic(Automatic { place, slot, since: None })
    }

    /// Returns the address of the peer as messages show it.
    pub fn name(&self) -> String {
        match self {
            Self::Manual(_, target) | Self::Local(_, target) | Self::Seed(target) => {
                target.to_string()
            }
            Self::Automatic(Automatic { place, .. }) | Self::Feeler(place) => {
                Target::from(*place).to_string()
            }
            Self::Inbound(inbound) => inbound.address.to_string(),
        }
    }

    /// Returns who opened the connection.
    pub fn connection_type(&self) -> ConnectionType {
        match self {
            Self::Inbound(_) => ConnectionType::Inbound,
            Self::Manual(..) | Self::Local(..) => ConnectionType::Manual,
            Self::Automatic(_) | Self::Feeler(_) | Self::Seed(_) => ConnectionType::Automatic,
        }
    }

    /// Returns the part of the network that addresses from this peer come from.
    pub fn group(&self) -> Group {
        let of_target = |target: &Target| match target.place() {
            Some((host, _)) => Group::of(&host),
            None => Group::named(&target.name().0),
        };
        match self {
            Self::Manual(_, target) | Self::Local(_, target) | Self::Seed(target) => {
                of_target(target)
            }
            Self::Automatic(Automatic { place: (host, _), .. }) | Self::Feeler((host, _)) => {
                Group::of(host)
            }
            Self::Inbound(inbound) => Group::of(&Host::from(inbound.address.ip())),
        }
    }
}

/// The role of each connection.
#[derive(Default)]
pub(super) struct Roles(pub BTreeMap<PeerId, Role>);

impl Roles {
    fn automatic(&self) -> impl Iterator<Item = (PeerId, &Automatic)> {
        self.0.iter().filter_map(|(id, role)| match role {
            Role::Automatic(automatic) => Some((*id, automatic)),
            _ => None,
        })
    }

    /// Returns the number of connections in slots, or that are being opened for one.
    pub fn in_slots(&self) -> usize {
        self.automatic().filter(|(_, automatic)| automatic.slot != Slot::Candidate).count()
    }

    /// Returns how many of them are in a slot that is given by speed.
    pub fn fast(&self) -> usize {
        self.automatic().filter(|(_, automatic)| automatic.slot == Slot::Fast).count()
    }

    /// Returns the number of connections that we opened for a while, beyond the given slots.
    pub fn extra(&self, slots: usize) -> usize {
        let is_extra = |role: &&Role| match role {
            Role::Feeler(_) => true,
            Role::Automatic(automatic) => automatic.slot == Slot::Candidate,
            _ => false,
        };
        self.0.values().filter(is_extra).count() + self.in_slots().saturating_sub(slots)
    }

    /// Returns the number of peers that we chose and whose handshake is complete.
    pub fn ready(&self) -> usize {
        self.automatic().filter(|(_, automatic)| automatic.since.is_some()).count()
    }

    fn inbound(&self) -> impl Iterator<Item = (PeerId, &Inbound)> {
        self.0.iter().filter_map(|(id, role)| match role {
            Role::Inbound(inbound) => Some((*id, inbound)),
            _ => None,
        })
    }

    /// Returns the number of connections that peers opened.
    pub fn inbound_count(&self) -> usize {
        self.inbound().count()
    }

    /// Returns the connection that a peer opened and that makes room for another. As in Core, those
    /// without a handshake are among the candidates: they must not take the places of others.
    pub fn to_evict(&self, min_ping: impl Fn(PeerId) -> Option<Duration>) -> Option<PeerId> {
        let candidate = |(id, inbound): (PeerId, &Inbound)| {
            let Inbound { group, connected, last_block, address, .. } = *inbound;
            let min_ping = min_ping(id);
            let is_local = address.ip().is_loopback();
            EvictionCandidate { id, connected, min_ping, last_block, group, is_local }
        };
        select_to_evict(self.inbound().map(candidate).collect())
    }

    /// Notes that a peer has sent a block that we wanted.
    pub fn note_block(&mut self, id: PeerId, now: Duration) {
        if let Some(Role::Inbound(inbound)) = self.0.get_mut(&id) {
            inbound.last_block = Some(now);
        }
    }

    /// Removes a connection, and hangs up on a peer that opened it.
    pub fn remove(&mut self, id: PeerId) -> Option<Role> {
        let role = self.0.remove(&id);
        if let Some(Role::Inbound(inbound)) = &role {
            inbound.socket.close();
        }
        role
    }

    /// Returns whether we have chosen this peer, and its handshake is complete.
    pub fn has(&self, place: &Place) -> bool {
        self.automatic().any(|(_, it)| it.place == *place && it.since.is_some())
    }

    /// Returns the parts of the network that another peer must not be in. As in Core, connections
    /// that others opened do not count: with these they could keep us from peers.
    pub fn groups(&self) -> BTreeSet<Group> {
        let hosts = self.0.values().filter_map(|role| match role {
            Role::Automatic(Automatic { place: (host, _), .. }) => Some(*host),
            Role::Manual(_, target) | Role::Local(_, target) => Some(target.place()?.0),
            Role::Feeler(_) | Role::Seed(_) | Role::Inbound(_) => None,
        });
        hosts.map(|host: Host| Group::of(&host)).collect()
    }

    /// Returns whether two peers that we chose are connected, which are in different parts of the
    /// network, or all but one if there may be `connections_max` of them: then we are surely not
    /// offline, or cannot know better (Core's condition for counting failures).
    pub fn are_online(&self, connections_max: usize) -> bool {
        self.ready() >= connections_max.saturating_sub(1).min(2)
    }

    /// Returns the peers that we chose and whose handshake is complete. `speed` is that of a peer.
    pub fn runners(&self, speed: impl Fn(PeerId) -> Option<u64>) -> Vec<Runner> {
        let ready = self.automatic().filter_map(|(id, automatic)| {
            Some(Runner { id, slot: automatic.slot, since: automatic.since?, speed: speed(id) })
        });
        ready.collect()
    }

    /// Returns those of them that have a slot, and the kinds of network of those that the user
    /// chose. `best` is the best block that a peer has.
    pub fn chosen(&self, best: impl Fn(PeerId) -> Option<BlockId>) -> (Vec<Chosen>, Vec<NetKind>) {
        let in_slots = self.automatic().filter(|(_, it)| it.slot != Slot::Candidate);
        let chosen = in_slots.filter_map(|(id, automatic)| {
            let kind = NetKind::of(&automatic.place.0);
            Some(Chosen { id, kind, since: automatic.since?, best: best(id) })
        });
        let manual = self.0.values().filter_map(|role| match role {
            Role::Manual(_, target) => Some(NetKind::of(&target.place()?.0)),
            _ => None,
        });
        (chosen.collect(), manual.collect())
    }

    /// Returns up to `count` peers that were chosen without regard to speed, those first that have
    /// stayed the longest.
    pub fn anchors(&self, count: usize) -> Vec<Place> {
        let is_anchor = |it: &Automatic| it.slot == Slot::Any && it.since.is_some();
        let anchors = self.automatic().filter(|(_, automatic)| is_anchor(automatic));
        anchors.map(|(_, automatic)| automatic.place).take(count).collect()
    }
}
