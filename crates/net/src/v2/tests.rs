use apus_testdata::{Random, from_hex};
use secp256k1::SecretKey;
use secp256k1::ellswift::ElligatorSwift;

use super::cipher::DECOY_BIT;
use super::handshake::Agreed;
use super::*;

const MAIN: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];
const CONTENTS: &[u8] = b"contents";

/// Returns both ends of a connection, the one that opened it first. Garbage has been received.
fn connected(garbage: [&[u8]; 2]) -> [Agreed; 2] {
    let mut random = Random(1);
    let mut begin = |role, garbage: &[u8]| {
        let random = [(); 3].map(|()| random.bytes(32).try_into().unwrap());
        Handshake::new(MAIN, role, random, garbage.to_vec()).unwrap()
    };
    let ends = [begin(Role::Initiator, garbage[0]), begin(Role::Responder, garbage[1])];
    let keys = [0, 1].map(|end| *ends[end].opening().first_chunk().unwrap());
    let [initiator, responder] = ends;
    let mut ends =
        [initiator.receive_key(keys[1]).unwrap(), responder.receive_key(keys[0]).unwrap()];
    ends[0].inbound.set_garbage(garbage[1].to_vec());
    ends[1].inbound.set_garbage(garbage[0].to_vec());
    ends
}

fn packet(from: &mut Agreed, header: u8, contents: &[u8]) -> Vec<u8> {
    let mut packet = Vec::new();
    from.outbound.encrypt_with(header, |out| out.extend_from_slice(contents), &mut packet);
    packet
}

/// Returns the contents of a packet; `None` if it is a decoy.
fn read(to: &mut Agreed, mut packet: Vec<u8>) -> Result<Option<Vec<u8>>, V2Error> {
    let len = to.inbound.length(*packet.first_chunk().unwrap());
    let packet = &mut packet[LENGTH_BYTES..];
    let peeked = to.inbound.peek(packet);
    let contents = to.inbound.decrypt(packet)?;
    let start = contents.clone().map_or(&[][..], |contents| &packet[contents]);
    let start = &start[..start.len().min(PEEK_BYTES)];
    assert!(peeked.starts_with(start), "{peeked:?}, {start:?}");
    assert_eq!(contents.is_some(), !peeked.is_empty());
    assert_eq!(len + PACKET_OVERHEAD, packet.len());
    Ok(contents.map(|range| packet[range].to_vec()))
}

#[test]
fn packets_are_those_of_the_vectors_of_bip324() {
    let vectors = include_str!("../../../../testing/testdata/vectors/bip324.csv");
    for line in vectors.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [index, secret, key, theirs, initiating, contents, times, aad, decoy, ..] = fields[..]
        else {
            panic!("{line}");
        };
        let [.., our_terminator, their_terminator, _, whole, end] = fields[..] else {
            panic!("{line}");
        };
        let handshake = Handshake {
            magic: MAIN,
            role: if initiating == "1" { Role::Initiator } else { Role::Responder },
            secret: SecretKey::from_slice(&from_hex(secret)).unwrap(),
            key: ElligatorSwift::from_array(from_hex(key).try_into().unwrap()),
            garbage: from_hex(aad),
        };
        let mut agreed = handshake.receive_key(from_hex(theirs).try_into().unwrap()).unwrap();
        assert_eq!(agreed.our_terminator[..], from_hex(our_terminator), "{index}");
        assert_eq!(agreed.their_terminator[..], from_hex(their_terminator), "{index}");
        for _ in 0..index.parse().unwrap() {
            packet(&mut agreed, DECOY_BIT, &[]);
        }
        let contents = from_hex(contents).repeat(times.parse().unwrap());
        let packet = packet(&mut agreed, if decoy == "1" { DECOY_BIT } else { 0 }, &contents);
        assert!(whole.is_empty() || packet == from_hex(whole), "{index}");
        assert!(packet.ends_with(&from_hex(end)), "{index}");
    }
}

#[test]
fn packets_arrive_through_many_keys() {
    let [mut from, mut to] = connected([&[1; GARBAGE_BYTES_MAX], &[]]);
    let mut random = Random(2);
    for number in 0..1000 {
        let len = random.below(300);
        let contents = random.bytes(len);
        // Only one bit of the header has a meaning, as in Core.
        let header = random.next() as u8;
        let packet = packet(&mut from, header, &contents);
        let expected = (header & DECOY_BIT == 0).then_some(contents);
        assert_eq!(read(&mut to, packet), Ok(expected), "{number}");
    }
}

#[test]
fn a_flipped_bit_is_noticed_wherever_it_is() {
    for at in 0..LENGTH_BYTES + PACKET_OVERHEAD + CONTENTS.len() {
        let [mut from, mut to] = connected([&[], &[]]);
        let mut packet = packet(&mut from, 0, CONTENTS);
        packet[at] ^= 1 << (at % 8);
        let len = to.inbound.length(*packet.first_chunk().unwrap());
        // A wrong length ends the packet in the wrong place.
        packet.resize(LENGTH_BYTES + len.min(1000) + PACKET_OVERHEAD, 0);
        assert_eq!(to.inbound.decrypt(&mut packet[LENGTH_BYTES..]), Err(V2Error::Tag), "{at}");
    }
}

#[test]
fn packets_cut_off_repeated_or_swapped_are_noticed() {
    let [mut from, mut to] = connected([&[], &[]]);
    let [first, second] = [0, 0].map(|header| packet(&mut from, header, CONTENTS));
    for len in LENGTH_BYTES..first.len() {
        let mut cut = first[LENGTH_BYTES..len].to_vec();
        assert_eq!(to.inbound.decrypt(&mut cut), Err(V2Error::Tag), "{len}");
    }
    assert_eq!(read(&mut to, second), Err(V2Error::Tag));
    let [_, mut to] = connected([&[], &[]]);
    assert_eq!(read(&mut to, first.clone()), Ok(Some(CONTENTS.to_vec())));
    let mut again = first[LENGTH_BYTES..].to_vec();
    assert_eq!(to.inbound.decrypt(&mut again), Err(V2Error::Tag));
}

#[test]
fn garbage_is_authenticated_once() {
    let garbage = [7; 20];
    let [mut from, mut to] = connected([&garbage, &[]]);
    let packets = [0; 2].map(|header| packet(&mut from, header, CONTENTS));
    for packet in packets {
        assert_eq!(read(&mut to, packet), Ok(Some(CONTENTS.to_vec())));
    }
    let [mut from, mut to] = connected([&garbage, &[]]);
    to.inbound.set_garbage(vec![7; 19]);
    assert_eq!(read(&mut to, packet(&mut from, 0, CONTENTS)), Err(V2Error::Tag));
}

/// As in Core: it is a `version` message of v1, perhaps with another network's magic.
#[test]
fn a_key_that_begins_like_v1_is_refused() {
    let handshake = Handshake::new(MAIN, Role::Responder, [[1; 32]; 3], Vec::new()).unwrap();
    let mut key = [0; KEY_BYTES];
    key[4..11].copy_from_slice(b"version");
    assert!(matches!(handshake.receive_key(key), Err(V2Error::V1)));
    let zero = Handshake::new(MAIN, Role::Responder, [[0; 32]; 3], Vec::new());
    assert!(matches!(zero, Err(V2Error::Secret)));
}
