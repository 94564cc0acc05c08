//! The methods about peers.

use std::time::{SystemTime, UNIX_EPOCH};

use apus_net::{NetKind, PROTOCOL_VERSION};
use apus_progress::PeerInfo;
use apus_query::error::{RPC_INVALID_PARAMETER, RPC_MISC_ERROR};
use apus_query::json::{Amount, Json, json};
use apus_query::params::{hash, integer};
use apus_query::{RELAY_FEE, RpcError};
use apus_wire::message::Services;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::state::{Call, ServerState};

/// The version of Bitcoin Core whose answers are given, as a number.
const VERSION: u32 = 310_000;
/// The version of Bitcoin Core whose answers are given, and that of Apus. Clients read the first
/// name, and take every other than Core's for an old version or for another chain.
const SUBVERSION: &str = concat!("/Satoshi:31.0.0/Apus:", env!("CARGO_PKG_VERSION"), "/");
/// A node that was not added (Core's `RPC_CLIENT_NODE_NOT_ADDED`).
const NODE_NOT_ADDED: i32 = -24;
/// The seconds for which `-maxuploadtarget` counts.
const UPLOAD_TIMEFRAME: u64 = 24 * 3600;
/// The names of networks, as in Core.
const NETWORKS: [&str; 5] = ["ipv4", "ipv6", "onion", "i2p", "cjdns"];
/// The names of services, by bit.
const SERVICES: [(u32, &str); 6] = [
    (0, "NETWORK"),
    (2, "BLOOM"),
    (3, "WITNESS"),
    (6, "COMPACT_FILTERS"),
    (10, "NETWORK_LIMITED"),
    (11, "P2P_V2"),
];

/// Returns the number of peers.
pub(crate) fn getconnectioncount(call: &Call) -> Result<Json, RpcError> {
    Ok(json(&call.state.live.peers().len()))
}

/// Returns the bytes received and sent.
pub(crate) fn getnettotals(call: &Call) -> Result<Json, RpcError> {
    #[derive(Serialize)]
    struct Target {
        timeframe: u64,
        target: u64,
        target_reached: bool,
        serve_historical_blocks: bool,
        bytes_left_in_cycle: u64,
        time_left_in_cycle: u64,
    }
    #[derive(Serialize)]
    struct Totals {
        totalbytesrecv: u64,
        totalbytessent: u64,
        timemillis: u64,
        uploadtarget: Target,
    }
    let live = &call.state.live;
    let [sent, received] = live.bytes();
    let target = live.about().upload_target;
    let is_reached = target > 0 && sent >= target;
    let uploadtarget = Target {
        timeframe: UPLOAD_TIMEFRAME,
        target,
        target_reached: is_reached,
        serve_historical_blocks: !is_reached,
        bytes_left_in_cycle: target.saturating_sub(sent),
        time_left_in_cycle: if target > 0 { UPLOAD_TIMEFRAME } else { 0 },
    };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let totalbytesrecv = received;
    let totalbytessent = sent;
    let timemillis = since.as_millis() as u64;
    Ok(json(&Totals { totalbytesrecv, totalbytessent, timemillis, uploadtarget }))
}

pub(crate) fn getnetworkinfo(call: &Call) -> Result<Json, RpcError> {
    /// Blocks that wait to be announced, and may be.
    #[derive(Default, Serialize)]
    struct Bucket {
        backlog: u32,
        count_tok: u32,
        size_tok: u32,
    }
    #[derive(Default, Serialize)]
    struct Buckets {
        inbound: Bucket,
        outbound: Bucket,
    }
    #[derive(Serialize)]
    struct Info {
        version: u32,
        subversion: &'static str,
        protocolversion: i32,
        localservices: String,
        localservicesnames: Vec<String>,
        localrelay: bool,
        timeoffset: i64,
        tx_send_rate: u32,
        inv_buckets: Buckets,
        networkactive: bool,
        connections: usize,
        connections_in: usize,
        connections_out: usize,
        networks: Vec<Network>,
        relayfee: Amount,
        incrementalfee: Amount,
        localaddresses: [(); 0],
        warnings: [(); 0],
    }
    let live = &call.state.live;
    let peers = live.peers();
    let connections_in = peers.iter().filter(|peer| peer.inbound).count();
    let services = services(call.state);
    let mut offsets: Vec<i64> =
        peers.iter().filter(|peer| !peer.inbound).map(|peer| peer.time_offset).collect();
    offsets.sort_unstable();
    Ok(json(&Info {
        version: VERSION,
        subversion: SUBVERSION,
        protocolversion: PROTOCOL_VERSION,
        localservices: format!("{services:016x}"),
        localservicesnames: names(services),
        localrelay: false,
        timeoffset: offsets.get(offsets.len() / 2).copied().unwrap_or(0),
        // No transaction is announced.
        tx_send_rate: 0,
        inv_buckets: Buckets::default(),
        networkactive: live.about().is_at_rest || live.about().peers.is_some(),
        connections: peers.len(),
        connections_in,
        connections_out: peers.len() - connections_in,
        networks: networks(call.state),
        relayfee: RELAY_FEE,
        incrementalfee: RELAY_FEE,
        localaddresses: [],
        warnings: [],
    }))
}

/// Refuses to ask a peer for a block (Core's `FetchBlock`).
pub(crate) fn getblockfrompeer(call: &Call) -> Result<Json, RpcError> {
    let failed = |what: &str| Err(RpcError::new(RPC_MISC_ERROR, what));
    let hash = hash(call.param(0), "blockhash")?;
    let id: i64 = integer(call.param(1))?;
    let ServerState { view, live, .. } = call.state;
    let found = view.look(|it| {
        let id = it.tree.find(&hash)?;
        let is_above_tip = it.tree.node(id).height > it.tip().height;
        Some((it.record(id).block_pos().is_some(), it.may_prune && is_above_tip))
    });
    match found.flatten() {
        None => failed("Block header missing"),
        Some((_, true)) => failed(
            "In prune mode, only blocks that the node has already synced previously can be \
             fetched from a peer",
        ),
        Some((true, _)) => failed("Block already downloaded"),
        _ if live.peers().iter().all(|peer| peer.id as i64 != id) => failed("Peer does not exist"),
        _ => failed("Apus chooses itself which peer it asks for a block"),
    }
}

/// Returns what peers are told that we serve.
fn services(state: &ServerState) -> u64 {
    let about = state.live.about();
    let listens = about.is_at_rest || about.peers.as_ref().is_some_and(|peers| peers.listen);
    let mut others = if about.v2transport { Services::P2P_V2 } else { Services::default() };
    if about.peerblockfilters {
        others = others.with(Services::COMPACT_FILTERS);
    }
    let served = state.view.look(|committed| committed.services()).filter(|_| listens);
    served.map_or(0, |services| services.with(others).0)
}

/// A network, as Core describes it.
#[derive(Serialize)]
struct Network {
    name: &'static str,
    limited: bool,
    reachable: bool,
    proxy: String,
    proxy_randomize_credentials: bool,
}

fn networks(state: &ServerState) -> Vec<Network> {
    let kinds = [Some(NetKind::Ipv4), Some(NetKind::Ipv6), Some(NetKind::Onion), None, None];
    let peers = state.live.about().peers.as_ref();
    let network = |(name, kind): (&'static str, Option<NetKind>)| {
        let reachable = match (kind, peers) {
            (Some(kind), Some(peers)) => peers.reaches(kind),
            (Some(kind), None) => kind != NetKind::Onion,
            (None, _) => false,
        };
        let proxy = peers.filter(|_| reachable).and_then(|peers| match kind {
            Some(NetKind::Onion) => peers.proxies.onion.as_ref(),
            Some(NetKind::Ipv4) => peers.proxies.ipv4.as_ref(),
            Some(NetKind::Ipv6) => peers.proxies.ipv6.as_ref(),
            None => None,
        });
        let proxy = proxy.map_or_else(String::new, ToString::to_string);
        let proxy_randomize_credentials = !proxy.is_empty();
        let limited = !reachable;
        Network { name, limited, reachable, proxy, proxy_randomize_credentials }
    };
    NETWORKS.into_iter().zip(kinds).map(network).collect()
}

fn names(services: u64) -> Vec<String> {
    let bits = (0..u64::BITS).filter(|bit| services >> bit & 1 == 1);
    let name = |bit: u32| {
        let known = SERVICES.iter().find(|(known, _)| *known == bit);
        known.map_or_else(|| format!("UNKNOWN[2^{bit}]"), |(_, name)| name.to_string())
    };
    bits.map(name).collect()
}

/// A peer, as Core describes it.
#[derive(Serialize)]
struct Peer<'a> {
    id: u64,
    addr: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    addrbind: Option<&'a str>,
    network: &'a str,
    services: String,
    servicesnames: Vec<String>,
    relaytxes: bool,
    last_inv_sequence: u64,
    inv_to_send: u64,
    lastsend: i64,
    lastrecv: i64,
    last_transaction: i64,
    last_block: i64,
    bytessent: u64,
    bytesrecv: u64,
    conntime: i64,
    timeoffset: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pingtime: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    minping: Option<f64>,
    version: i32,
    subver: &'a str,
    inbound: bool,
    bip152_hb_to: bool,
    bip152_hb_from: bool,
    presynced_headers: i64,
    synced_headers: i64,
    synced_blocks: i64,
    inflight: &'a [u32],
    addr_relay_enabled: bool,
    addr_processed: u64,
    addr_rate_limited: u64,
    permissions: [(); 0],
    minfeefilter: Amount,
    bytessent_per_msg: Map<String, Value>,
    bytesrecv_per_msg: Map<String, Value>,
    connection_type: &'a str,
    transport_protocol_type: &'a str,
    session_id: &'a str,
}

/// Returns all peers. What Apus does not know is 0 or empty, and it relays no transactions.
pub(crate) fn getpeerinfo(call: &Call) -> Result<Json, RpcError> {
    let peers = call.state.live.peers();
    let height = call.state.view.look(|committed| committed.active.height()).flatten();
    let peer = |peer: &PeerInfo| -> Json {
        let synced = peer.synced_headers;
        json(&Peer {
            id: peer.id,
            addr: &peer.address,
            addrbind: peer.bind.as_deref(),
            network: peer.network,
            services: format!("{:016x}", peer.services),
            servicesnames: names(peer.services),
            relaytxes: false,
            last_inv_sequence: 0,
            inv_to_send: 0,
            lastsend: peer.last[0],
            lastrecv: peer.last[1],
            last_transaction: 0,
            last_block: peer.last_block,
            bytessent: peer.bytes[0],
            bytesrecv: peer.bytes[1],
            conntime: peer.connected,
            timeoffset: peer.time_offset,
            pingtime: peer.ping.map(|ping| ping.as_secs_f64()),
            minping: peer.min_ping.map(|ping| ping.as_secs_f64()),
            version: peer.version,
            subver: &peer.user_agent,
            inbound: peer.inbound,
            bip152_hb_to: false,
            bip152_hb_from: false,
            presynced_headers: -1,
            synced_headers: synced.map_or(-1, i64::from),
            synced_blocks: synced.zip(height).map_or(-1, |(one, other)| one.min(other).into()),
            inflight: &peer.in_flight,
            addr_relay_enabled: !peer.inbound,
            addr_processed: 0,
            addr_rate_limited: 0,
            permissions: [],
            minfeefilter: Amount(0),
            bytessent_per_msg: Map::new(),
            bytesrecv_per_msg: Map::new(),
            connection_type: peer.connection_type,
            transport_protocol_type: peer.transport,
            session_id: "",
        })
    };
    Ok(json(&peers.iter().map(peer).collect::<Vec<_>>()))
}

/// Returns an empty list of added peers: none is added while Apus runs.
pub(crate) fn getaddednodeinfo(call: &Call) -> Result<Json, RpcError> {
    if !call.param(0).is_null() {
        return Err(RpcError::new(NODE_NOT_ADDED, "Error: Node has not been added."));
    }
    none(call)
}

/// Returns how many addresses of peers are known, by network.
pub(crate) fn getaddrmaninfo(call: &Call) -> Result<Json, RpcError> {
    let counted =
        |[new, tried]: [u64; 2]| json!({ "new": new, "tried": tried, "total": new + tried });
    let known = call.state.live.addresses();
    let all = known.into_iter().fold([0, 0], |sum, of| [sum[0] + of[0], sum[1] + of[1]]);
    let counts = known.into_iter().chain([[0, 0]; 2]).chain([all]);
    let names = NETWORKS.into_iter().chain(["all_networks"]).map(str::to_string);
    Ok(json(&names.zip(counts.map(counted)).collect::<Map<String, Value>>()))
}

/// Returns an empty list of addresses.
pub(crate) fn getnodeaddresses(call: &Call) -> Result<Json, RpcError> {
    let count = call.param(0);
    if !count.is_null() && integer::<i32>(count)? < 0 {
        return Err(RpcError::new(RPC_INVALID_PARAMETER, "Address count out of range"));
    }
    let name = call.param(1).as_str();
    if let Some(name) = name.filter(|name| NETWORKS.iter().all(|it| !name.eq_ignore_ascii_case(it)))
    {
        let what = format!("Network not recognized: {name}");
        return Err(RpcError::new(RPC_INVALID_PARAMETER, what));
    }
    none(call)
}

/// Returns an empty list: Apus neither bans peers, nor adds them while it runs.
pub(crate) fn none(_: &Call) -> Result<Json, RpcError> {
    Ok(json(&[(); 0]))
}
