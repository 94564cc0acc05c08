use std::io::{self, Cursor, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use apus_wire::message::{
    Command, ENVELOPE_BYTES, MessageError, Nonce, PAYLOAD_BYTES_MAX, Raw, encode,
};

use crate::{Reader, Transport, TransportError, Writer, initiate, respond};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
const OTHER_MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];

/// Reads a message.
type ReadFn = Box<dyn FnMut(&mut Vec<u8>) -> Result<(Command, Vec<u8>), TransportError>>;

/// Both sides of a connection, after the transport was agreed on.
struct Sides {
    ours: (Reader<UnixStream>, Writer, UnixStream),
    theirs: (ReadFn, Writer),
    to_us: UnixStream,
    transport: Transport,
}

fn connect(transport: Transport, accept_v2: bool) -> Result<Sides, TransportError> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let to_us = theirs.try_clone().unwrap();
    let responder = thread::spawn(move || {
        let mut to = theirs.try_clone().unwrap();
        respond(MAGIC, accept_v2, theirs, &mut to, &mut |_| Ok(()))
    });
    let mut to_them = ours.try_clone().unwrap();
    let (reader, mut writer) = initiate(transport, MAGIC, ours, &mut to_them)?;
    if transport == Transport::V1 {
        // The responder recognises v1 by the first message.
        send(&mut writer, &mut to_them, Command::VERSION, &[1, 2, 3]);
    }
    let (mut their_reader, their_writer) = responder.join().unwrap()?;
    let read = move |buffer: &mut Vec<u8>| {
        let (command, range) = their_reader.read(buffer)?;
        Ok((command, buffer[range].to_vec()))
    };
    let transport = their_writer.transport();
    let ours = (reader, writer, to_them);
    Ok(Sides { ours, theirs: (Box::new(read), their_writer), to_us, transport })
}

fn send(writer: &mut Writer, to: &mut impl Write, command: Command, payload: &[u8]) {
    let mut bytes = Vec::new();
    writer.encode(&Raw(command, payload), &mut bytes);
    to.write_all(&bytes).unwrap();
}

#[test]
fn both_transports_carry_messages_both_ways() {
    for transport in [Transport::V1, Transport::V2] {
        let mut sides = connect(transport, true).unwrap();
        assert_eq!(sides.transport, transport);
        assert_eq!(sides.ours.1.transport(), transport);
        let mut buffer = Vec::new();
        if transport == Transport::V1 {
            assert_eq!((sides.theirs.0)(&mut buffer).unwrap(), (Command::VERSION, vec![1, 2, 3]));
        }
        // Longer than a socket's buffer, with a name that v2 has no short form of, and empty.
        let long = vec![7; 1_000_000];
        for (command, payload) in [
            (Command::BLOCK, &long[..]),
            (Command::SENDHEADERS, &[][..]),
            (Command::new("twelve_bytes"), &[1, 2][..]),
        ] {
            let (reader, writer, to) = &mut sides.ours;
            let (their_read, their_writer) = &mut sides.theirs;
            let got = thread::scope(|scope| {
                scope.spawn(|| send(writer, to, command, payload));
                their_read(&mut buffer).unwrap()
            });
            assert_eq!(got, (command, payload.to_vec()));
            let to_us = &mut sides.to_us;
            thread::scope(|scope| {
                scope.spawn(|| send(their_writer, to_us, command, payload));
                let (name, range) = reader.read(&mut buffer).unwrap();
                assert_eq!((name, &buffer[range]), (command, payload));
            });
        }
    }
}

/// Also across the changes of keys of v2, and with a name that v2 has no short form of.
#[test]
fn a_payload_sent_in_pieces_arrives_as_a_whole() {
    for transport in [Transport::V1, Transport::V2] {
        let mut sides = connect(transport, true).unwrap();
        let (_, writer, to) = &mut sides.ours;
        let mut buffer = Vec::new();
        if transport == Transport::V1 {
            (sides.theirs.0)(&mut buffer).unwrap();
        }
        for number in 0..500_usize {
            let payload: Vec<u8> = (0..number * 7).map(|at| (at * number) as u8).collect();
            let command = [Command::BLOCK, Command::new("twelve_bytes")][number % 2];
            let frame = writer.outline(Raw(command, &payload), &mut buffer);
            let mut bytes = frame.head.clone();
            for (piece, offset) in payload.chunks(100).zip((0..).step_by(100)) {
                let mut piece = piece.to_vec();
                frame.encode(offset, &mut piece);
                bytes.extend(piece);
            }
            bytes.extend(&frame.tail);
            to.write_all(&bytes).unwrap();
            assert_eq!((sides.theirs.0)(&mut buffer).unwrap(), (command, payload));
            send(writer, to, Command::BLOCK, &[1, 2]);
            assert_eq!((sides.theirs.0)(&mut buffer).unwrap(), (Command::BLOCK, vec![1, 2]));
        }
    }
}

/// The bytes of a block count while it arrives, those of other messages never.
#[test]
fn only_bytes_of_blocks_are_counted() {
    for transport in [Transport::V1, Transport::V2] {
        let long = vec![7; 1_000_000];
        for (command, missing) in [
            (Command::BLOCK, 0),
            (Command::BLOCK, 50),
            (Command::ADDR, 0),
            (Command::ADDR, 50),
            (Command::new("twelve_bytes"), 50),
        ] {
            let Sides { mut ours, mut theirs, mut to_us, .. } = connect(transport, true).unwrap();
            let mut bytes = Vec::new();
            theirs.1.encode(&Raw(Command::PING, &[7; 8]), &mut bytes);
            theirs.1.encode(&Raw(command, &long), &mut bytes);
            bytes.truncate(bytes.len() - missing);
            let mut counted = 0;
            let mut times = 0;
            let (first, second) = thread::scope(|scope| {
                scope.spawn(move || {
                    to_us.write_all(&bytes).unwrap();
                    to_us.shutdown(std::net::Shutdown::Both).unwrap();
                });
                let mut read = || {
                    let count = &mut |bytes| (counted, times) = (counted + bytes, times + 1);
                    let read = ours.0.read_watched(&mut Vec::new(), &mut |_| Ok(()), count);
                    read.map(|(command, _)| command)
                };
                (read(), read())
            });
            assert_eq!(first.unwrap(), Command::PING);
            assert_eq!(second.ok(), Some(command).filter(|_| missing == 0));
            let is_block = command == Command::BLOCK;
            let (least, most) = if is_block { (long.len() - missing, long.len()) } else { (0, 0) };
            assert!((least..=most).contains(&counted), "{transport:?}, {command}: {counted}");
            assert_eq!(is_block, times > 1, "{transport:?}, {command}, {times} times");
        }
    }
}

/// A peer that speaks only v1 closes the connection when it reads our key.
#[test]
fn a_peer_without_v2_is_noticed() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    let peer = thread::spawn(move || {
        let mut start = [0; ENVELOPE_BYTES];
        theirs.read_exact(&mut start).unwrap();
        assert_ne!(start[..4], MAGIC);
    });
    let mut to = ours.try_clone().unwrap();
    let error = initiate(Transport::V2, MAGIC, ours, &mut to).err().unwrap();
    assert!(matches!(error, TransportError::Io(_)), "{error}");
    peer.join().unwrap();
}

#[test]
fn packets_of_the_handshake_are_admitted() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let peer = thread::spawn(move || {
        let mut to = ours.try_clone().unwrap();
        initiate(Transport::V2, MAGIC, ours, &mut to).map(drop)
    });
    let mut to = theirs.try_clone().unwrap();
    let mut announced = Vec::new();
    let mut refuse = |bytes| {
        announced.push(bytes);
        Err(io::Error::other("too much"))
    };
    let error = respond(MAGIC, true, theirs, &mut to, &mut refuse).err().unwrap();
    assert_eq!(error.to_string(), "too much");
    assert_eq!(announced, [0], "the version packet");
    peer.join().unwrap().unwrap();
}

#[test]
fn one_who_does_not_take_v2_reads_a_key_as_a_wrong_message() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(&[9; 64]).unwrap();
    let mut to = theirs.try_clone().unwrap();
    let (mut reader, writer) = respond(MAGIC, false, theirs, &mut to, &mut |_| Ok(())).unwrap();
    assert_eq!(writer.transport(), Transport::V1);
    let error = reader.read(&mut Vec::new()).unwrap_err();
    assert!(matches!(error, TransportError::Message(MessageError::Magic)), "{error}");
}

fn read_v1(bytes: &[u8]) -> Result<(Command, Vec<u8>), TransportError> {
    let (mut reader, _) = initiate(Transport::V1, MAGIC, Cursor::new(bytes), &mut io::sink())?;
    let mut buffer = Vec::new();
    let (command, range) = reader.read(&mut buffer)?;
    Ok((command, buffer[range].to_vec()))
}

#[test]
fn wrong_bytes_are_no_message_of_v1() {
    let mut good = Vec::new();
    encode(&Nonce(5).ping(), MAGIC, &mut good);
    assert_eq!(read_v1(&good).unwrap(), (Command::PING, 5u64.to_le_bytes().to_vec()));
    for end in 0..good.len() {
        assert!(matches!(read_v1(&good[..end]), Err(TransportError::Io(_))), "{end}");
    }
    for at in (0..good.len()).filter(|at| !(4..16).contains(at)) {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        assert!(read_v1(&bytes).is_err(), "{at}");
    }
}

/// As in Core, which drops the message and keeps the peer.
#[test]
fn wrong_checksums_and_names_cost_the_message_alone() {
    let message = |payload: &[u8]| {
        let mut bytes = Vec::new();
        encode(&Raw(Command::INV, payload), MAGIC, &mut bytes);
        bytes
    };
    let mut checksum = message(&[1, 2, 3]);
    checksum[20] ^= 1;
    let [mut noise, mut gap] = [message(&[4]), message(&[])];
    noise[4] = 0xff;
    gap[15] = b'x';
    let bytes = [checksum, noise, gap, message(&[7])].concat();
    assert_eq!(read_v1(&bytes).unwrap(), (Command::INV, vec![7]));
}

/// Memory is used for bytes that arrive, not for the length that was announced.
#[test]
fn a_length_alone_costs_no_memory() {
    let mut head = Vec::new();
    encode(&Raw(Command::BLOCK, &[]), MAGIC, &mut head);
    head[16..20].copy_from_slice(&(PAYLOAD_BYTES_MAX as u32).to_le_bytes());
    assert!(matches!(read_v1(&head), Err(TransportError::Io(_))));
    head[16..20].copy_from_slice(&(PAYLOAD_BYTES_MAX as u32 + 1).to_le_bytes());
    let error = read_v1(&head).unwrap_err();
    assert!(matches!(error, TransportError::Message(MessageError::TooLong(_))), "{error}");
}

/// Any bytes in place of a v2 handshake end with an error.
#[test]
fn garbage_in_a_handshake_ends_it() {
    let mut v1 = Vec::new();
    encode(&Raw(Command::VERSION, &[0; 100]), OTHER_MAGIC, &mut v1);
    let end = "failed to fill whole buffer";
    let terminator = "v2 transport: no terminator after 4095 bytes of garbage";
    for (name, bytes, expected) in [
        ("nothing", Vec::new(), end),
        ("half a key", vec![1; 32], end),
        ("a key alone", vec![1; 64], end),
        ("garbage cut off", vec![1; 64 + 4095 + 15], end),
        ("a key and no end of garbage", vec![1; 64 + 4095 + 16], terminator),
        ("much more", vec![2; 100_000], terminator),
        ("v1", v1, "v2 transport: the peer speaks v1, perhaps of another network"),
    ] {
        let initiated = initiate(Transport::V2, MAGIC, &bytes[..], &mut io::sink());
        assert_eq!(initiated.err().unwrap().to_string(), expected, "{name}");
        let responded = respond(MAGIC, true, &bytes[..], &mut io::sink(), &mut |_| Ok(()));
        assert_eq!(responded.err().unwrap().to_string(), expected, "{name}");
    }
}

#[test]
fn a_packet_that_was_changed_is_refused() {
    // The length, one that is too long, the header, the contents and the tag.
    for (at, change) in [(0, 1), (2, 0xff), (3, 1), (3, 0x80), (10, 1), (50, 1)] {
        let mut sides = connect(Transport::V2, true).unwrap();
        let mut bytes = Vec::new();
        sides.theirs.1.encode(&Raw(Command::BLOCK, &[5; 40]), &mut bytes);
        bytes[at] ^= change;
        // Enough to read whatever the length has become, and then the end of the stream.
        bytes.extend_from_slice(&[0; 70_000]);
        let mut to_us = sides.to_us;
        let reader = &mut sides.ours.0;
        thread::scope(|scope| {
            scope.spawn(move || {
                let _ = to_us.write_all(&bytes);
                let _ = to_us.shutdown(std::net::Shutdown::Both);
            });
            let error = reader.read(&mut Vec::new()).unwrap_err();
            let is_too_long = matches!(error, TransportError::Message(MessageError::TooLong(_)));
            assert_eq!(is_too_long, at == 2, "{at}: {error}");
            assert!(is_too_long || matches!(error, TransportError::V2(_)), "{at}: {error}");
        });
    }
}
