//! Peers: the messages of a connection, and all connections together.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use apus_chain::{BlockId, Tree};
use apus_hash::{Hash, sha256d};
use apus_net::{
    Action, ConnectionType, HeaderChain, Limits, Ourselves, PeerId, PeerManager, Settings,
    Transport, initiate,
};
use apus_wire::message::{
    Command, ENVELOPE_BYTES, Headers, Inventory, InventoryItem, Message, Payload, Services,
    Version, encode,
};
use apus_wire::{BlockView, Chain, Header, Network, genesis_block};
use bitcoin::consensus::deserialize;
use bitcoin::p2p::message::{NetworkMessage, RawNetworkMessage};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// Reads `data` after its first byte as what a peer sends by the v1 transport. The first byte says
/// whether length and checksum of the first message are corrected. An accepted message is the same
/// after it is written again, and the crate `bitcoin` reads the same.
pub fn messages(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else { return };
    let mut bytes = bytes.to_vec();
    if first & 1 == 1 && bytes.len() >= ENVELOPE_BYTES {
        let (head, payload) = bytes.split_at_mut(ENVELOPE_BYTES);
        head[..4].copy_from_slice(&MAGIC);
        head[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        head[20..].copy_from_slice(&sha256d(payload).0[..4]);
    }
    let (mut reader, _) =
        initiate(Transport::V1, MAGIC, &bytes[..], &mut io::sink()).expect("nothing is sent");
    let mut buffer = Vec::new();
    while let Ok((command, range)) = reader.read(&mut buffer) {
        check(command, &buffer[range]);
    }
}

fn check(command: Command, payload: &[u8]) {
    let whole = encoded(&apus_wire::message::Raw(command, payload));
    let theirs = deserialize::<RawNetworkMessage>(&whole).map(RawNetworkMessage::into_payload);
    match (Message::decode(command, payload), theirs) {
        (Ok(Message::Headers(list)), theirs) => {
            let headers: Vec<Header> = list.iter().collect();
            assert_eq!(headers.len(), list.len());
            let again = encoded(&Headers(&headers));
            let read =
                |list: &[u8]| matches!(Message::decode(command, list), Ok(Message::Headers(_)));
            assert!(read(&again[ENVELOPE_BYTES..]));
            if let Ok(NetworkMessage::Headers(theirs)) = theirs {
                let hashes = theirs.iter().map(|header| header.block_hash().to_string());
                assert!(hashes.eq(headers.iter().map(|header| header.hash().to_string())));
            }
        }
        (Ok(Message::Inv(list) | Message::GetData(list) | Message::NotFound(list)), theirs) => {
            let items: Vec<InventoryItem> = list.iter().collect();
            assert_eq!(items.len(), list.len());
            let again = encoded(&Inventory(command, &items));
            assert!(payload.starts_with(&again[ENVELOPE_BYTES..]));
            if again == whole {
                assert!(theirs.is_ok());
            }
        }
        (Ok(Message::GetHeaders(request)), _) => {
            assert!(payload.starts_with(&encoded(&request)[ENVELOPE_BYTES..]));
        }
        (Ok(Message::Version(version)), theirs) => {
            let again = encoded(&version);
            let Ok(Message::Version(read)) = Message::decode(command, &again[ENVELOPE_BYTES..])
            else {
                panic!("what was read can be read again")
            };
            assert_eq!(read, version);
            if let Ok(NetworkMessage::Version(theirs)) = theirs {
                assert_eq!((theirs.nonce, theirs.relay), (version.nonce, version.relay));
                assert_eq!(theirs.user_agent.as_bytes(), version.user_agent);
            }
        }
        _ => {}
    }
}

fn encoded(payload: &impl Payload) -> Vec<u8> {
    let mut out = Vec::new();
    encode(payload, MAGIC, &mut out);
    out
}

/// The rest of the input, from which bytes are taken; after its end come zeros.
struct Script<'a>(&'a [u8]);

impl<'a> Script<'a> {
    fn byte(&mut self) -> u8 {
        self.bytes(1).first().copied().unwrap_or(0)
    }

    fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// Commands, by their number in a script.
const COMMANDS: [Command; 14] = [
    Command::VERSION,
    Command::VERACK,
    Command::HEADERS,
    Command::BLOCK,
    Command::INV,
    Command::NOTFOUND,
    Command::PING,
    Command::PONG,
    Command::GETHEADERS,
    Command::ADDR,
    Command::ADDRV2,
    Command::SENDCMPCT,
    Command::WTXIDRELAY,
    Command::TX,
];

/// Reads the input as a script of what peers do. Whatever it is, no peer gets messages before it
/// connects or after it was dropped, nothing is requested from two peers at once, and every block
/// that is handed over was requested.
pub fn peers(data: &[u8]) {
    let mut script = Script(data);
    let network = Network::new(Chain::Regtest);
    let bytes = genesis_block(&network);
    let genesis = *BlockView::parse(&bytes).expect("the built-in block parses").header();
    let mut tree = Tree::new(network);
    let known = [0x51, 0x52].map(|seed| {
        let header = Header { prev: genesis.hash(), merkle_root: Hash([seed; 32]), ..genesis };
        (tree.restore(header.hash(), &header, false).expect("its parent is there"), header)
    });
    let mut manager = PeerManager::new(settings());
    let plan: Arc<[BlockId]> = known.iter().map(|(id, _)| *id).collect();
    let mut now = Duration::ZERO;
    let mut next = 0;
    let mut live = BTreeSet::new();
    let mut out = Vec::new();
    while !script.0.is_empty() && next < 1000 {
        let tip = tree.genesis();
        let kind = script.byte();
        let peer = PeerId(u64::from(script.byte()) % (next + 1));
        let mut chain = match kind & 0x80 {
            0 => HeaderChain::growing(&mut tree, tip, 1_700_000_000, [0; 16]),
            _ => HeaderChain::fixed(&tree, tip),
        };
        match kind % 8 {
            0 => {
                next += 1;
                live.insert(PeerId(next));
                let (connection, ourselves) = greeting(kind, next);
                manager.connected(PeerId(next), connection, ourselves, now, &mut out);
            }
            1 => {
                live.remove(&peer);
                manager.closed(peer);
            }
            2 => now += Duration::from_millis(50 << (script.byte() % 16)),
            3 => manager.schedule().want(Arc::clone(&plan), vec![0..1, 1..2]),
            4 => {
                let command = COMMANDS[usize::from(script.byte()) % COMMANDS.len()];
                let len = usize::from(script.byte());
                let payload = script.bytes(len);
                manager.received(peer, command, payload, &mut chain, now, &mut out);
            }
            // Messages that lead further than random bytes would.
            5 => {
                let version = encoded(&version(script.byte()));
                let payload = &version[ENVELOPE_BYTES..];
                manager.received(peer, Command::VERSION, payload, &mut chain, now, &mut out);
                manager.received(peer, Command::VERACK, &[], &mut chain, now, &mut out);
            }
            6 => {
                let headers = encoded(&Headers(&known.map(|(_, header)| header)[..1]));
                let payload = &headers[ENVELOPE_BYTES..];
                manager.received(peer, Command::HEADERS, payload, &mut chain, now, &mut out);
            }
            _ => {
                let (id, header) = known[usize::from(script.byte()) % 2];
                let payload = [&header.to_bytes()[..], &[0]].concat();
                manager.received(peer, Command::BLOCK, &payload, &mut chain, now, &mut out);
                if out
                    .iter()
                    .any(|action| matches!(action, Action::Block(_, block) if *block == id))
                {
                    let lane = plan.iter().position(|block| *block == id).expect("it is wanted");
                    manager.schedule().taken(lane, id);
                }
            }
        }
        manager.tick(&mut chain, now, 7, &mut out);
        settle(&mut out, &mut live);
        assert_eq!(manager.len(), live.len());
    }
}

/// Returns the type of a connection, and what Apus says on it.
fn greeting(kind: u8, nonce: u64) -> (ConnectionType, Ourselves) {
    let connection = match kind & 0x60 {
        0 => ConnectionType::Automatic,
        0x20 => ConnectionType::Manual,
        _ => ConnectionType::Inbound,
    };
    let user_agent = "/Apus/";
    let time = 1_700_000_000;
    (
        connection,
        Ourselves {
            nonce,
            user_agent,
            services: Services::default(),
            features: Vec::new(),
            time,
            start_height: 0,
        },
    )
}

/// Checks all actions, and removes them.
fn settle(out: &mut Vec<Action>, live: &mut BTreeSet<PeerId>) {
    for action in out.drain(..) {
        match action {
            Action::Disconnect(peer, _) => assert!(live.remove(&peer), "dropped twice"),
            Action::Send(peer, _)
            | Action::Block(peer, _)
            | Action::Addresses(peer, _)
            | Action::Coins(peer, _)
            | Action::Ready(peer) => assert!(live.contains(&peer), "{peer:?} is not connected"),
        }
    }
}

fn version(seed: u8) -> Version<'static> {
    Version {
        version: 70_000 + i32::from(seed),
        services: Services(u64::from(seed) | 9),
        time: 5,
        receiver: [0; 26],
        nonce: u64::from(seed),
        user_agent: b"/x/",
        start_height: 0,
        relay: true,
    }
}

fn settings() -> Settings {
    Settings {
        needs: Services::NETWORK,
        limits: Limits { bytes_max: 1000, block_interval: Duration::from_secs(600) },
    }
}
