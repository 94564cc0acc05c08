//! Every message that Core knows is sent to bitcoind and to `apus serve` on the same directory, and
//! the answers are compared.

use std::net::SocketAddr;

use apus_hash::Hash;
use apus_net::{Outgoing, Transport};
use apus_wire::message::{
    Command, GetHeaders, Hashes, Inventory, InventoryItem, InventoryKind, Payload, Raw,
};

use super::daemon::{Daemon, program_in};
use crate::peers::world::world;
use crate::serving::client::{Client, Serving};
use crate::support::Place;

/// Blocks that bitcoind adds, so that the tip is recent, and `getblocks` names 500 at most.
const MINED: u32 = 520;
/// What both say of themselves at any time.
const UNASKED: [&str; 8] =
    ["addr", "addrv2", "feefilter", "getaddr", "getheaders", "ping", "sendcmpct", "sendheaders"];

/// A message of `command`, and what to call it.
pub struct Sent(pub String, pub Outgoing);

pub fn sent(name: &str, payload: &impl Payload) -> Sent {
    let message = Outgoing::new(payload);
    Sent(format!("{} {name}", message.command), message)
}

fn raw(command: &str, payload: &[u8]) -> Sent {
    let message = Outgoing::new(&Raw(Command::new(command), payload));
    Sent(format!("{command} of {} bytes", payload.len()), message)
}

fn item(kind: InventoryKind, hash: Hash) -> InventoryItem {
    InventoryItem { kind, hash }
}

/// The requests for blocks and headers: `at` is the chain by height.
fn requests(at: &[Hash]) -> Vec<Sent> {
    let top = at.len() - 1;
    let unknown = Hash([7; 32]);
    let mut all = Vec::new();
    for (name, locator, stop) in [
        ("from genesis", vec![at[0]], Hash::ZERO),
        ("from genesis to 9", vec![at[0]], at[9]),
        ("without locator", vec![], Hash::ZERO),
        ("without locator to 9", vec![], at[9]),
        ("of an unknown block", vec![unknown], Hash::ZERO),
        ("of one unknown, one known", vec![unknown, at[top - 3]], Hash::ZERO),
        ("at the tip", vec![at[top]], Hash::ZERO),
        ("with 102 hashes", vec![at[3]; 102], Hash::ZERO),
    ] {
        let request = GetHeaders { version: 70_016, locator: Hashes::List(&locator), stop };
        let headers = sent(name, &request);
        let payload = headers.1.payload.clone();
        all.push(headers);
        all.push(sent(name, &Raw(Command::GETBLOCKS, &payload)));
    }
    for kind in [0, 1, 2, 3, 4, 5, 6, 1 << 30 | 1, 1 << 30 | 2, 1 << 30 | 3, 1 << 30 | 4] {
        for depth in [0, 5, 6, 100] {
            let items = [item(InventoryKind(kind), at[top - depth])];
            let name = format!("of kind {kind:x}, {depth} below the tip");
            all.push(sent(&name, &Inventory(Command::GETDATA, &items)));
        }
        let items = [item(InventoryKind(kind), unknown), item(InventoryKind(2), at[3])];
        let name = format!("of an unknown one of kind {kind:x} and a block");
        all.push(sent(&name, &Inventory(Command::GETDATA, &items)));
    }
    for depth in [0, 10, 11] {
        let name = format!("{depth} below the tip");
        for indexes in [&[1, 0][..], &[0], &[1, 200], &[2, 0, 0xfd, 0xff, 0xff], &[1]] {
            let payload = [&at[top - depth].0, indexes].concat();
            all.push(sent(&format!("{name} {indexes:?}"), &Raw(Command::GETBLOCKTXN, &payload)));
        }
    }
    all.push(raw("getblocktxn", &[&[7; 32][..], &[1, 0]].concat()));
    all
}

/// One message of each kind that Core knows, and some that it does not know or cannot read.
fn others(at: &[Hash]) -> Vec<Sent> {
    let range = [&[0, 1, 0, 0, 0][..], &at[9].0].concat();
    let bloom = [&[1, 0xff][..], &[0; 9]].concat();
    let of_block = [&[0; 80][..], &[0; 2]].concat();
    let mut all = vec![
        raw("version", &[0; 100]),
        raw("getcfilters", &range),
        raw("getcfheaders", &range),
        raw("getcfcheckpt", &[&[0][..], &at[9].0].concat()),
        raw("filterload", &bloom),
        raw("filteradd", &[1, 7]),
        raw("sendcmpct", &[1, 2, 0, 0, 0, 0, 0, 0, 0]),
        raw("sendcmpct", &[1, 1, 0, 0, 0, 0, 0, 0, 0]),
        raw("sendcmpct", &[2, 2, 0, 0, 0, 0, 0, 0, 0]),
        raw("feefilter", &[0; 8]),
        raw("pong", &[0; 8]),
        raw("ping", &[3; 8]),
        raw("addr", &[0]),
        raw("addrv2", &[0]),
        raw("inv", &[0]),
        raw("notfound", &[0]),
        raw("headers", &[0]),
        raw("merkleblock", &of_block),
        raw("cfilter", &[0; 34]),
        raw("cfheaders", &[0; 66]),
        raw("cfcheckpt", &[0; 34]),
        raw("feature", &[4, b'n', b'a', b'm', b'e', 0]),
        raw("sendtxrcncl", &[0; 12]),
        raw("alert", &[0; 9]),
        raw("reject", &[0; 9]),
        raw("xyzzy", &[0; 9]),
    ];
    for empty in [
        "addr",
        "block",
        "blocktxn",
        "cmpctblock",
        "filteradd",
        "filterclear",
        "filterload",
        "getblocks",
        "getblocktxn",
        "getcfcheckpt",
        "getcfheaders",
        "getcfilters",
        "getdata",
        "getheaders",
        "headers",
        "inv",
        "mempool",
        "notfound",
        "ping",
        "pong",
        "sendaddrv2",
        "sendcmpct",
        "sendheaders",
        "verack",
        "wtxidrelay",
    ] {
        all.push(raw(empty, &[]));
    }
    all
}

/// A new connection, on which the server has said what it says without being asked.
pub fn connected(place: &Place, address: SocketAddr) -> Client {
    let mut client = Client::new(place, address, Transport::V1);
    client.answers(&Outgoing::empty(Command::FEEFILTER)).expect("a pong");
    client
}

/// What a server answers to a message; `None` if it hangs up.
pub fn answer(client: &mut Client, message: &Outgoing) -> Option<String> {
    let mut told = Vec::new();
    for (command, payload) in client.answers(message)? {
        if UNASKED.contains(&command.to_string().as_str()) {
            continue;
        }
        // A compact block depends on a random number.
        let content = if command == Command::CMPCTBLOCK { &[][..] } else { &payload };
        told.push(format!("{command} {} {}", payload.len(), apus_hash::sha256d(content)));
    }
    Some(told.join(", "))
}

/// What a server answers to each message, on a connection of its own.
fn answers(place: &Place, address: SocketAddr, all: &[Sent]) -> Vec<String> {
    let answer = |Sent(name, message): &Sent| {
        let answer = answer(&mut connected(place, address), message);
        format!("{name}: {}", answer.as_deref().unwrap_or("closed"))
    };
    all.iter().map(answer).collect()
}

/// Asks for the last block of a full answer to `getblocks`; the hash of the tip follows.
fn continues(place: &Place, address: SocketAddr, at: &[Hash]) -> Vec<Command> {
    let mut client = Client::new(place, address, Transport::V1);
    let locator = [at[0]];
    let stop = Hash::ZERO;
    let request = GetHeaders { version: 70_016, locator: Hashes::List(&locator), stop };
    let payload = Outgoing::new(&request).payload;
    client.answers(&Outgoing::new(&Raw(Command::GETBLOCKS, &payload))).unwrap();
    let mut got = Vec::new();
    for height in [499, 500, 500] {
        let items = [item(InventoryKind::WITNESS_BLOCK, at[height])];
        let request = Outgoing::new(&Inventory(Command::GETDATA, &items));
        let answers = client.answers(&request).unwrap();
        let commands = answers.into_iter().map(|(command, _)| command);
        got.extend(commands.filter(|name| !UNASKED.contains(&name.to_string().as_str())));
    }
    got
}

#[test]
fn every_message_is_answered_as_by_bitcoind() {
    let Some(bitcoind) = program_in("BITCOIND") else { return };
    let place = world().in_order();
    let daemon = Daemon::start(&bitcoind, &place, &["-blocksonly"]);
    daemon.mine(MINED, '1');
    let height = world().height() + MINED;
    let hash = |height: u32| daemon.ask(&["getblockhash", &height.to_string()]).parse().unwrap();
    let at: Vec<Hash> = (0..=height).map(hash).collect();
    let all: Vec<Sent> = requests(&at).into_iter().chain(others(&at)).collect();
    let expected = answers(&place, daemon.address().parse().unwrap(), &all);
    let then = continues(&place, daemon.address().parse().unwrap(), &at);
    let is_before_32 = daemon.is_before_32();
    daemon.stop();
    let server = Serving::start(&place, &[]);
    let found = answers(&place, server.address, &all);
    let both = expected.iter().zip(&found);
    // From v32 on, Core hangs up on who asks for a filtered block, or for no transactions.
    let is_new = |request: &str| request.contains("of kind 3") || request.ends_with("[0]: closed");
    let is_known = |ours: &str| is_before_32 && is_new(ours) && ours.ends_with(": closed");
    let differences: Vec<_> = both.filter(|(a, b)| a != b && !is_known(b)).collect();
    assert!(differences.is_empty(), "{differences:#?}");
    assert_eq!(continues(&place, server.address, &at), then);
    assert_eq!(then, [Command::BLOCK, Command::BLOCK, Command::INV, Command::BLOCK]);
}
