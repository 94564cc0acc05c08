//! Facts about connected peers (Core's `getpeerinfo`).

use std::collections::BTreeMap;

use apus_chain::Tree;
use apus_net::{ConnectionType, PeerId, PeerManager, Themselves, Transport};
use apus_progress::PeerInfo;

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
    let network = match socket.peer_addr().map(|peer| peer.ip().to_canonical()) {
        _ if address.contains(".onion:") => "onion",
        Ok(peer) if peer.is_ipv6() => "ipv6",
        _ => "ipv4",
    };
    PeerInfo {
        id: id.0,
        address,
        bind: socket.local_addr().ok().map(|own| own.to_string()),
        network,
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
