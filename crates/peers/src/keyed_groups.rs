//! Parts of the network, hashed, by which inbound peers are told apart.

use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;

use apus_net::Group;
use apus_wire::message::Host;

/// Hashes parts of the network with a secret (Core's `CalculateKeyedNetGroup`), so that an attacker
/// cannot choose one whose peers are kept.
#[derive(Default)]
pub(super) struct KeyedGroups(RandomState);

impl KeyedGroups {
    /// Returns the part of the network that an address is in, hashed.
    pub fn of(&self, ip: IpAddr) -> u64 {
        self.0.hash_one(Group::of(&Host::from(ip)))
    }
}
