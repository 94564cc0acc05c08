//! The v2 transport against another implementation of BIP324, the crate `bip324`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use apus_testdata::Random;
use apus_wire::message::{Command, Raw};
use bip324::{InboundCipher, OutboundCipher, PacketType, Role};

use crate::{Reader, Transport, Writer, initiate, respond};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// The other side of a connection.
struct Peer {
    inbound: InboundCipher,
    outbound: OutboundCipher,
    from: bip324::io::ProtocolSessionReader<UnixStream>,
    to: UnixStream,
}

impl Peer {
    fn new(role: Role, garbage: Vec<u8>, decoys: Vec<Vec<u8>>, stream: UnixStream) -> Self {
        let mut to = stream.try_clone().unwrap();
        let (inbound, outbound, from) =
            bip324::io::handshake(MAGIC, role, Some(garbage), Some(decoys), stream, &mut to)
                .unwrap();
        Self { inbound, outbound, from, to }
    }

    fn send(&mut self, contents: &[u8], kind: PacketType) {
        let packet = self.outbound.encrypt_to_vec(contents, kind, None);
        self.to.write_all(&packet).unwrap();
    }

    /// Returns the contents of the next packet, which is `None` at the end of the connection.
    fn read(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 3];
        self.from.read_exact(&mut length).ok()?;
        let mut packet = vec![0; self.inbound.decrypt_packet_len(length)];
        self.from.read_exact(&mut packet).unwrap();
        let (kind, contents) = self.inbound.decrypt_in_place(&mut packet, None).unwrap();
        assert_eq!(kind, PacketType::Genuine);
        Some(contents[1..].to_vec())
    }

    /// Sends every message back, some after decoys.
    fn echo(mut self) {
        let mut random = Random(3);
        while let Some(contents) = self.read() {
            for _ in 0..random.below(3) {
                let len = random.below(200);
                self.send(&random.bytes(len), PacketType::Decoy);
            }
            self.send(&contents, PacketType::Genuine);
        }
    }
}

/// Sends `count` messages to a peer that is in `role` and sends them back, and compares them.
fn converse(role: Role, garbage: Vec<u8>, decoys: Vec<Vec<u8>>, count: u64) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let peer = thread::spawn(move || Peer::new(role, garbage, decoys, theirs).echo());
    let mut to = ours.try_clone().unwrap();
    match role {
        Role::Responder => {
            let (reader, writer) = initiate(Transport::V2, MAGIC, ours, &mut to).unwrap();
            exchange(reader, writer, to, count);
        }
        Role::Initiator => {
            let (reader, writer) = respond(MAGIC, true, ours, &mut to, &mut |_| Ok(())).unwrap();
            exchange(reader, writer, to, count);
        }
    }
    peer.join().unwrap();
}

fn exchange(mut reader: Reader<impl Read>, mut writer: Writer, mut to: UnixStream, count: u64) {
    assert_eq!(writer.transport(), Transport::V2);
    let mut buffer = Vec::new();
    let mut random = Random(4);
    let mut bytes = Vec::new();
    for number in 0..count {
        let command = random.one_of(&[Command::BLOCK, Command::SENDHEADERS, Command::PING]);
        let len = random.below(if number % 100 == 0 { 300_000 } else { 300 });
        let payload = random.bytes(len);
        bytes.clear();
        writer.encode(&Raw(command, &payload), &mut bytes);
        to.write_all(&bytes).unwrap();
        let (name, range) = reader.read(&mut buffer).unwrap();
        assert_eq!((name, &buffer[range]), (command, &payload[..]), "{number}");
    }
    to.shutdown(std::net::Shutdown::Write).unwrap();
}

/// More packets than four keys encrypt, in both directions.
#[test]
fn messages_are_understood_in_both_roles() {
    for role in [Role::Responder, Role::Initiator] {
        converse(role, vec![9; 100], Vec::new(), 4 * 224 + 10);
    }
}

#[test]
fn garbage_and_decoys_of_a_handshake_are_ignored() {
    let decoys = || vec![vec![], vec![1], vec![2; 5000]];
    for role in [Role::Responder, Role::Initiator] {
        for garbage in [0, 1, 15, 16, 17, 4095] {
            converse(role, vec![0; garbage], Vec::new(), 2);
            converse(role, vec![0xff; garbage], decoys(), 2);
        }
    }
}

/// As in Core.
#[test]
fn unknown_names_of_v2_cost_the_message_alone() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let peer = thread::spawn(move || {
        let mut to = theirs.try_clone().unwrap();
        let role = bip324::Role::Responder;
        let (_, mut cipher, _) =
            bip324::io::handshake(MAGIC, role, None, None, &theirs, &mut to).unwrap();
        // A number without a name, none at all, a name that is not printable, and one cut off.
        for contents in [&[200, 1, 2][..], &[], &[&[0, 1][..], &[0; 11]].concat(), &[0, b'x']] {
            let mut packet = vec![0; bip324::OutboundCipher::encryption_buffer_len(contents.len())];
            let kind = bip324::PacketType::Genuine;
            cipher.encrypt(contents, &mut packet, kind, None).unwrap();
            to.write_all(&packet).unwrap();
        }
        let last = [18, 5, 0, 0, 0, 0, 0, 0, 0];
        let mut packet = vec![0; bip324::OutboundCipher::encryption_buffer_len(last.len())];
        cipher.encrypt(&last, &mut packet, bip324::PacketType::Genuine, None).unwrap();
        to.write_all(&packet).unwrap();
    });
    let mut to = ours.try_clone().unwrap();
    let (mut reader, _) = initiate(Transport::V2, MAGIC, ours, &mut to).unwrap();
    let mut buffer = Vec::new();
    let (command, range) = reader.read(&mut buffer).unwrap();
    assert_eq!((command, &buffer[range]), (Command::PING, &5u64.to_le_bytes()[..]));
    peer.join().unwrap();
}
