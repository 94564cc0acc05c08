//! The v2 transport against another implementation of BIP324, the crate `bip324`.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use apus_testdata::Random;
use apus_wire::message::{Command, Raw};
use bip324::{
    CipherSession, FillBytes, GarbageResult, Handshake, OutboundCipher, PacketType, ReceivedKey,
    Role, VersionResult,
};
use secp256k1::Secp256k1;

use crate::{Reader, Transport, Writer, initiate, respond};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// The bytes of a secret key.
struct Secret(Random);

impl FillBytes for Secret {
    fn fill_bytes(&mut self, bytes: &mut [u8; 32]) {
        bytes.copy_from_slice(&self.0.bytes(32));
    }
}

/// Shakes hands by the crate's states. Its function for streams would need other features of
/// `secp256k1`, and all that stands on it would be compiled once more for the tests.
fn handshake(
    role: Role,
    garbage: &[u8],
    decoys: &[Vec<u8>],
    mut stream: &UnixStream,
) -> CipherSession {
    let curve = Secp256k1::signing_only();
    let begun = Handshake::new_with_rng(MAGIC, role, &mut Secret(Random(5)), &curve).unwrap();
    let mut key = vec![0; 64 + garbage.len()];
    let sent_key = begun.send_key(Some(garbage), &mut key).unwrap();
    stream.write_all(&key).unwrap();

    let mut their_key = [0; 64];
    stream.read_exact(&mut their_key).unwrap();
    let received_key = sent_key.receive_key(their_key).unwrap();
    let decoys: Vec<&[u8]> = decoys.iter().map(Vec::as_slice).collect();
    let mut version = vec![0; Handshake::<ReceivedKey>::send_version_len(Some(&decoys))];
    let mut sent_version = received_key.send_version(&mut version, Some(&decoys)).unwrap();
    stream.write_all(&version).unwrap();

    let mut their_garbage = Vec::new();
    let mut received_garbage = loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        their_garbage.push(byte[0]);
        match sent_version.receive_garbage(&their_garbage).unwrap() {
            GarbageResult::FoundGarbage { handshake, .. } => break handshake,
            GarbageResult::NeedMoreData(waiting) => sent_version = waiting,
        }
    };
    loop {
        let mut length = [0; 3];
        stream.read_exact(&mut length).unwrap();
        let mut packet = vec![0; received_garbage.decrypt_packet_len(length).unwrap()];
        stream.read_exact(&mut packet).unwrap();
        match received_garbage.receive_version(&mut packet).unwrap() {
            VersionResult::Complete { cipher } => return cipher,
            VersionResult::Decoy(waiting) => received_garbage = waiting,
        }
    }
}

fn encrypted(cipher: &mut OutboundCipher, contents: &[u8], kind: PacketType) -> Vec<u8> {
    let mut packet = vec![0; OutboundCipher::encryption_buffer_len(contents.len())];
    cipher.encrypt(contents, &mut packet, kind, None).unwrap();
    packet
}

/// The other side of a connection.
struct Peer {
    cipher: CipherSession,
    stream: UnixStream,
}

impl Peer {
    fn new(role: Role, garbage: Vec<u8>, decoys: Vec<Vec<u8>>, stream: UnixStream) -> Self {
        Self { cipher: handshake(role, &garbage, &decoys, &stream), stream }
    }

    fn send(&mut self, contents: &[u8], kind: PacketType) {
        let packet = encrypted(self.cipher.outbound(), contents, kind);
        self.stream.write_all(&packet).unwrap();
    }

    /// Returns the contents of the next packet, which is `None` at the end of the connection.
    fn read(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 3];
        self.stream.read_exact(&mut length).ok()?;
        let inbound = self.cipher.inbound();
        let mut packet = vec![0; inbound.decrypt_packet_len(length)];
        self.stream.read_exact(&mut packet).unwrap();
        let (kind, contents) = inbound.decrypt_in_place(&mut packet, None).unwrap();
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
        let mut cipher = handshake(Role::Responder, &[], &[], &theirs);
        let mut send = |contents: &[u8]| {
            let packet = encrypted(cipher.outbound(), contents, PacketType::Genuine);
            (&theirs).write_all(&packet).unwrap();
        };
        // A number without a name, none at all, a name that is not printable, and one cut off.
        for contents in [&[200, 1, 2][..], &[], &[&[0, 1][..], &[0; 11]].concat(), &[0, b'x']] {
            send(contents);
        }
        send(&[18, 5, 0, 0, 0, 0, 0, 0, 0]);
    });
    let mut to = ours.try_clone().unwrap();
    let (mut reader, _) = initiate(Transport::V2, MAGIC, ours, &mut to).unwrap();
    let mut buffer = Vec::new();
    let (command, range) = reader.read(&mut buffer).unwrap();
    assert_eq!((command, &buffer[range]), (Command::PING, &5u64.to_le_bytes()[..]));
    peer.join().unwrap();
}
