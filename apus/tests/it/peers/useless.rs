//! Peers that break no rule, or none that costs the connection, and send nothing of use: next to an
//! honest peer each sync ends as it does from files.

use std::io::{BufReader, Read as _, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use apus_net::{Outgoing, respond};
use apus_progress::Method;
use apus_testpeer::{Answers as _, Honest, Server, not_found};
use apus_wire::message::{Command, Headers, InventoryList, Message, Raw, encode};

use super::held::{Held, late};
use super::world::{assert_as_from_files, chain, world};
use crate::support::waiting::Gate;

/// What a peer does when it gets a message.
enum Reply {
    /// It answers as an honest peer does.
    Honest,
    /// It sends these bytes.
    Bytes(Vec<u8>),
    /// It closes the connection.
    Close,
}

/// The answers of a useless peer.
type Replies = fn(&Message) -> Reply;

fn magic() -> [u8; 4] {
    world().place().network.magic
}

fn message(command: Command, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&Raw(command, payload), magic(), &mut bytes);
    bytes
}

/// Returns the messages with the requested blocks, one after another.
fn blocks(list: &InventoryList) -> Vec<Vec<u8>> {
    let heights = list.iter().filter_map(|item| chain().height_of(&item.hash));
    heights.map(|height| message(Command::BLOCK, &chain().block(height))).collect()
}

fn known_headers() -> Vec<u8> {
    let headers: Vec<_> = (1..=10).map(|height| *chain().header(height)).collect();
    let Outgoing { command, payload } = Outgoing::new(&Headers(&headers));
    message(command, &payload)
}

/// Returns a peer that answers requests for blocks like this.
macro_rules! blocks_by {
    ($answer:expr) => {
        |message: &Message| match message {
            Message::GetData(list) => $answer(list),
            _ => Reply::Honest,
        }
    };
}

/// Returns a peer that answers requests for headers with these bytes.
macro_rules! headers_by {
    ($bytes:expr) => {
        |message: &Message| match message {
            Message::GetHeaders(_) => Reply::Bytes($bytes),
            _ => Reply::Honest,
        }
    };
}

/// Each kind, with its name.
fn kinds() -> Vec<(&'static str, Replies)> {
    vec![
        ("never sends a block", blocks_by!(|_| Reply::Bytes(Vec::new()))),
        (
            "sends half of a block",
            blocks_by!(|list| {
                let mut first = blocks(list).swap_remove(0);
                first.truncate(first.len() / 2);
                Reply::Bytes(first)
            }),
        ),
        (
            "sends junk instead of blocks",
            blocks_by!(|list: &InventoryList| {
                let junk = message(Command::new("junk"), &[7; 10_000]);
                Reply::Bytes(junk.repeat(list.iter().count()))
            }),
        ),
        (
            "sends a message without an end",
            blocks_by!(|_| {
                let mut junk = message(Command::new("junk"), &[7; 3_900_000]);
                junk.truncate(100_000);
                Reply::Bytes(junk)
            }),
        ),
        (
            "has none of its blocks",
            blocks_by!(|list: &InventoryList| {
                let answers = list.iter().map(not_found);
                Reply::Bytes(answers.flat_map(|it| message(it.command, &it.payload)).collect())
            }),
        ),
        (
            "sends the last block first",
            blocks_by!(|list| {
                let mut blocks = blocks(list);
                blocks.reverse();
                Reply::Bytes(blocks.concat())
            }),
        ),
        ("hangs up when it is asked for a block", blocks_by!(|_| Reply::Close)),
        ("repeats headers that are known", headers_by!(known_headers())),
        ("never sends headers", headers_by!(Vec::new())),
        ("has no headers", headers_by!(message(Command::HEADERS, &[0]))),
        ("sends headers again and again", |message: &Message| match message {
            Message::Verack => Reply::Bytes(known_headers().repeat(500)),
            _ => Reply::Honest,
        }),
    ]
}

/// Talks until the other side hangs up. Opens `done` at the first answer that is not honest.
fn talk(stream: &TcpStream, replies: Replies, done: &Gate) -> Option<()> {
    let from = BufReader::new(stream);
    let (mut reader, mut writer) =
        respond(magic(), false, from, &mut &*stream, &mut |_| Ok(())).ok()?;
    let mut honest = Honest::new(chain());
    let mut buffer = Vec::new();
    let mut out = Vec::new();
    let mut bytes = Vec::new();
    loop {
        let (command, payload) = reader.read(&mut buffer).ok()?;
        let message = Message::decode(command, &buffer[payload]).ok()?;
        bytes.clear();
        match replies(&message) {
            Reply::Honest => {
                honest.answer(&message, &mut out).ok()?;
                for Outgoing { command, payload } in out.drain(..) {
                    writer.encode(&Raw(command, &payload), &mut bytes);
                }
            }
            Reply::Bytes(reply) => {
                done.open();
                bytes = reply;
            }
            Reply::Close => {
                done.open();
                return None;
            }
        }
        (&mut &*stream).write_all(&bytes).ok()?;
    }
}

fn useless(replies: Replies) -> (Server, Gate) {
    let done = Gate::default();
    let is_done = done.clone();
    let server = Server::start_raw(move |stream| {
        let _ = talk(&stream, replies, &done);
        // Bytes that were not read would reset the connection.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
        let _ = (&stream).take(1 << 20).read_to_end(&mut Vec::new());
    });
    (server.unwrap(), is_done)
}

/// Each of them alone, and many random ones, are in the simulated worlds of `apus-net`.
#[test]
fn useless_peers_end_no_sync() {
    let (mut servers, gates): (Vec<_>, Vec<_>) =
        kinds().into_iter().map(|(_, replies)| useless(replies)).unzip();
    // The honest peer sends no block before each of the others has done what it does.
    servers.push(late(chain(), Held::Blocks, gates));
    let honest = servers.last().unwrap().address().to_string();
    let told = assert_as_from_files(Method::Join, &servers.iter().collect::<Vec<_>>());
    assert!(!told.has(&["Dropped peer", &honest]), "the honest peer was dropped");
}
