//! Facts about connected peers (Core's `getpeerinfo`).

use std::collections::BTreeMap;
use std::net::SocketAddr;

use apus_chain::Tree;
use apus_net::{ConnectionType, NetKind, PeerId, PeerManager, Themselves, Transport, is_routable};
use apus_progress::PeerInfo;
use apus_wire::message::Host;

use super::budget::{Moved, Socket};
use super::dialer::Dialer;
use super::link::Link;
use super::report::Reports;

/// Returns what is known about each peer whose handshake is complete, without feelers.
pub(super) fn peer_infos(
    links: &BTreeMap<PeerId, Link>,
    manager: &mut PeerManager,
    (dialer, reports): (&Dialer, &Reports),
    tree: &Tree,
) -> Vec<PeerInfo> {
    let info = |(id, link): (&PeerId, &Link)| {
        let speed = manager.schedule().speed(*id);
        let in_flight = manager.schedule().in_flight(*id);
        let session = manager.session(*id).filter(|_| !dialer.is_feeler(*id))?;
        let them = session.them()?;
        let height = |block| tree.node(block).height;
        let report = reports.get(*id);
        Some(PeerInfo {
            connected: link.connected,
            last_block: link.last_block,
            ping: session.ping_time(),
            min_ping: session.min_ping(),
            synced_headers: manager.best(*id).map(height),
            in_flight: in_flight.into_iter().map(height).collect(),
            blocks: report.map_or(0, |report| report.blocks),
            block_bytes: report.map_or(0, |report| report.bytes),
            speed,
            ..basic_info(
                (*id, dialer.name_of(*id)),
                dialer.connection_type(*id),
                them,
                link.transport,
                (link.socket(), link.received()),
            )
        })
    };
    links.iter().filter_map(info).collect()
}

/// Returns what the connection itself tells.
pub(super) fn basic_info(
    (id, address): (PeerId, String),
    kind: ConnectionType,
    them: &Themselves,
    transport: Transport,
    (socket, received): (&Socket, &Moved),
) -> PeerInfo {
    PeerInfo {
        id: id.0,
        network: network(&address, || socket.peer_addr().ok()),
        address,
        bind: socket.local_addr().ok().map(|own| own.to_string()),
        services: them.services.0,
        last: [socket.sent.at(), received.at()],
        bytes: [socket.sent.bytes(), received.bytes()],
        time_offset: them.time_offset,
        version: them.version,
        user_agent: them.user_agent.clone(),
        start_height: them.start_height,
        inbound: kind == ConnectionType::Inbound,
        connection_type: match kind {
            ConnectionType::Inbound => "inbound",
            ConnectionType::Manual => "manual",
            // No transactions are relayed.
            ConnectionType::Automatic => "block-relay-only",
        },
        transport: match transport {
            Transport::V1 => "v1",
            Transport::V2 => "v2",
        },
        ..PeerInfo::default()
    }
}

/// Returns the network of a peer with this address, as Core names it. `connected` is where the
/// connection leads: to the peer, unless a proxy is between.
fn network(address: &str, connected: impl FnOnce() -> Option<SocketAddr>) -> &'static str {
    if address.contains(".onion:") {
        return "onion";
    }
    let peer = address.parse().ok().or_else(connected).map(|peer| Host::from(peer.ip()));
    match peer.filter(is_routable).map(|host| NetKind::of(&host)) {
        Some(NetKind::Ipv4) => "ipv4",
        Some(NetKind::Ipv6) => "ipv6",
        Some(NetKind::Onion) => "onion",
        None => "not_publicly_routable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_those_of_peers_and_not_of_proxies() {
        for (address, connected, expected) in [
            ("8.1.1.1:8333", "127.0.0.1:9050", "ipv4"),
            ("[2600::1]:8333", "127.0.0.1:9050", "ipv6"),
            ("[::ffff:8.1.1.1]:8333", "8.1.1.1:8333", "ipv4"),
            ("abc.onion:8333", "127.0.0.1:9050", "onion"),
            ("node.example:8333", "[2600::1]:8333", "ipv6"),
            ("node.example:8333", "127.0.0.1:9050", "not_publicly_routable"),
            ("127.0.0.1:8333", "127.0.0.1:8333", "not_publicly_routable"),
            ("[fe80::1%2]:8333", "[fe80::1%2]:8333", "not_publicly_routable"),
            ("10.0.0.1:8333", "10.0.0.1:8333", "not_publicly_routable"),
        ] {
            assert_eq!(network(address, || connected.parse().ok()), expected, "{address}");
        }
        assert_eq!(network("node.example:8333", || None), "not_publicly_routable");
    }
}
