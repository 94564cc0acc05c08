//! Converts a stream of bytes to messages and back, with the plain v1 transport and the encrypted
//! v2 transport (BIP324).

use std::io::{self, Read, Write};
use std::ops::Range;

use apus_wire::message::{
    Command, ENVELOPE_BYTES, Envelope, MessageError, PAYLOAD_BYTES_MAX, Payload, Raw, encode,
    encode_contents, envelope, split_contents,
};

use crate::v2::{
    GARBAGE_BYTES_MAX, HEADER_BYTES, Handshake, Inbound, KEY_BYTES, LENGTH_BYTES, Outbound,
    PACKET_OVERHEAD, PEEK_BYTES, Pad, Role, TAG_BYTES, TERMINATOR_BYTES, V2Error,
};

/// Bytes by which the responder recognises a v1 peer: the magic and the name of its first message.
const V1_PREFIX_BYTES: usize = 16;
/// Bytes of the longer form of a message's name in the v2 transport.
const LONG_NAME_BYTES: usize = PEEK_BYTES;
/// The most bytes of the contents of a v2 packet.
const CONTENTS_BYTES_MAX: usize = LONG_NAME_BYTES + PAYLOAD_BYTES_MAX;

/// The transport of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// The plain transport.
    V1,
    /// The encrypted transport (BIP324).
    V2,
}

/// Why a message cannot be read, or a transport not be agreed on.
#[derive(Debug, thiserror::Error)]
pub enum TransportError {
    /// The connection is closed or broken.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The bytes are not a valid message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The peer does not speak v2, or violates BIP324.
    #[error("v2 transport: {0}")]
    V2(#[from] V2Error),
}

/// A stream from which some bytes were read already; they are read again first.
pub type Unread<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// The receiving half of a connection.
pub struct Reader<R> {
    from: R,
    mode: ReadMode,
}

enum ReadMode {
    V1 { magic: [u8; 4] },
    V2(Box<Inbound>),
}

/// A function that is called while a message is read.
struct Watch<'a> {
    /// Called with the bytes that the message announces, before they are read.
    admit: &'a mut dyn FnMut(usize) -> io::Result<()>,
    /// Called with the bytes that have come of the payload of a block.
    block_bytes: &'a mut dyn FnMut(usize),
}

/// The sending half of a connection.
pub struct Writer(WriteMode);

enum WriteMode {
    V1 { magic: [u8; 4] },
    V2(Box<Outbound>),
}

/// A message whose payload is sent piece by piece, so that it need not stay in memory.
pub struct Frame {
    /// Bytes sent before the payload.
    pub head: Vec<u8>,
    /// Bytes sent after it.
    pub tail: Vec<u8>,
    /// The cipher of the payload, and where it begins in the contents of its packet; `None` for the
    /// v1 transport.
    pad: Option<(Pad, usize)>,
}

impl Frame {
    /// Encodes where they are the bytes of the payload from `offset` on. They must be the same as
    /// when the frame was made.
    pub fn encode(&self, offset: usize, piece: &mut [u8]) {
        if let Some((pad, start)) = &self.pad {
            pad.apply(start + offset, piece);
        }
    }
}

/// Begins a connection that we opened, with the given transport.
///
/// # Errors
/// The connection is closed or broken, or the peer does not speak v2. A peer that speaks only v1
/// closes the connection, and should be tried again with v1.
pub fn initiate<R: Read>(
    transport: Transport,
    magic: [u8; 4],
    from: R,
    to: &mut impl Write,
) -> Result<(Reader<R>, Writer), TransportError> {
    match transport {
        Transport::V1 => Ok(plain(magic, from)),
        Transport::V2 => encrypted(magic, Role::Initiator, from, to, &mut |_| Ok(())),
    }
}

/// Begins a connection that the peer opened, with the transport that it speaks. Calls `admit` with
/// the bytes that each packet of the handshake announces before they are read; if that fails, so
/// does the handshake.
///
/// # Errors
/// As for [`initiate`], or that of `admit`.
pub fn respond<R: Read>(
    magic: [u8; 4],
    accept_v2: bool,
    mut from: R,
    to: &mut impl Write,
    admit: &mut dyn FnMut(usize) -> io::Result<()>,
) -> Result<(Reader<Unread<R>>, Writer), TransportError> {
    let mut v1 = [0; V1_PREFIX_BYTES];
    v1[..4].copy_from_slice(&magic);
    v1[4..].copy_from_slice(&Command::VERSION.padded());
    // No more bytes are awaited than tell the transports apart: a v2 peer may send only its key
    // before it hears from us.
    let mut prefix = Vec::with_capacity(V1_PREFIX_BYTES);
    while prefix.len() < V1_PREFIX_BYTES && v1.starts_with(&prefix) {
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        prefix.push(byte[0]);
    }
    let is_v1 = prefix == v1;
    let from = io::Cursor::new(prefix).chain(from);
    if is_v1 || !accept_v2 {
        return Ok(plain(magic, from));
    }
    encrypted(magic, Role::Responder, from, to, admit)
}

fn plain<R>(magic: [u8; 4], from: R) -> (Reader<R>, Writer) {
    (Reader { from, mode: ReadMode::V1 { magic } }, Writer(WriteMode::V1 { magic }))
}

fn encrypted<R: Read>(
    magic: [u8; 4],
    role: Role,
    mut from: R,
    to: &mut impl Write,
    admit: &mut dyn FnMut(usize) -> io::Result<()>,
) -> Result<(Reader<R>, Writer), TransportError> {
    let handshake = Handshake::new(magic, role, random()?, random_garbage()?)?;
    to.write_all(&handshake.opening())?;
    let mut key = [0; KEY_BYTES];
    from.read_exact(&mut key)?;
    let mut agreed = handshake.receive_key(key)?;
    let mut answer = agreed.our_terminator.to_vec();
    agreed.outbound.encrypt(|_| {}, &mut answer);
    to.write_all(&answer)?;
    let mut inbound = Box::new(agreed.inbound);
    inbound.set_garbage(read_garbage(&mut from, &agreed.their_terminator)?);
    // The version packet. Nothing is known yet that it could say, so its contents are ignored.
    let mut watch = Watch { admit, block_bytes: &mut |_| {} };
    read_contents(&mut from, &mut inbound, &mut Vec::new(), &mut watch)?;
    let reader = Reader { from, mode: ReadMode::V2(inbound) };
    Ok((reader, Writer(WriteMode::V2(Box::new(agreed.outbound)))))
}

fn random<const BYTES: usize, const COUNT: usize>() -> io::Result<[[u8; BYTES]; COUNT]> {
    let mut bytes = [[0; BYTES]; COUNT];
    getrandom::fill(bytes.as_flattened_mut())
        .map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes)
}

/// Returns garbage of any length that BIP324 allows.
fn random_garbage() -> io::Result<Vec<u8>> {
    let [len] = random()?;
    let mut garbage = random::<GARBAGE_BYTES_MAX, 1>()?.concat();
    garbage.truncate(usize::from(u16::from_le_bytes(len)) % (GARBAGE_BYTES_MAX + 1));
    Ok(garbage)
}

/// Reads the peer's garbage and its terminator. Returns the garbage.
fn read_garbage(
    from: &mut impl Read,
    terminator: &[u8; TERMINATOR_BYTES],
) -> Result<Vec<u8>, TransportError> {
    let mut bytes = vec![0; TERMINATOR_BYTES];
    from.read_exact(&mut bytes)?;
    while !bytes.ends_with(terminator) {
        if bytes.len() == GARBAGE_BYTES_MAX + TERMINATOR_BYTES {
            return Err(V2Error::NoTerminator.into());
        }
        let mut byte = [0];
        from.read_exact(&mut byte)?;
        bytes.push(byte[0]);
    }
    bytes.truncate(bytes.len() - TERMINATOR_BYTES);
    Ok(bytes)
}

impl<R: Read> Reader<R> {
    /// Reads the next message into `buffer`, whose content is replaced. Returns its name, and which
    /// part of the buffer is the payload. Memory is used only for bytes that have arrived, whatever
    /// length the peer announced. As in Core, a message with a wrong checksum or an invalid name is
    /// skipped. In the v1 transport, the checksum of a block is not compared.
    ///
    /// # Errors
    /// The connection is closed or broken, or the bytes are not a valid message. Nothing more can
    /// be read then.
    pub fn read(
        &mut self,
        buffer: &mut Vec<u8>,
    ) -> Result<(Command, Range<usize>), TransportError> {
        self.read_watched(buffer, &mut |_| Ok(()), &mut |_| {})
    }

    /// Like [`Reader::read`], but calls `admit` with the bytes that a message announces before they
    /// are read; if that fails, so does reading. Calls `block_bytes` each time that bytes of the
    /// payload of a block, or of the coins that it spends, have come, with their number: these
    /// count while they arrive, and no other message does.
    ///
    /// # Errors
    /// As for [`Reader::read`], or that of `admit`.
    pub fn read_watched(
        &mut self,
        buffer: &mut Vec<u8>,
        admit: &mut dyn FnMut(usize) -> io::Result<()>,
        block_bytes: &mut dyn FnMut(usize),
    ) -> Result<(Command, Range<usize>), TransportError> {
        let mut watch = Watch { admit, block_bytes };
        loop {
            let read = match &mut self.mode {
                ReadMode::V1 { magic } => read_v1(&mut self.from, *magic, buffer, &mut watch)?,
                ReadMode::V2(inbound) => read_v2(&mut self.from, inbound, buffer, &mut watch)?,
            };
            match read {
                Ok(message) => return Ok(message),
                Err(error) => tracing::debug!(target: "net", %error, "a message is ignored"),
            }
            // It took memory that was admitted for it alone.
            *buffer = Vec::new();
        }
    }
}

/// Returns whether the bytes of a message count while they arrive.
fn counts(command: Command) -> bool {
    command == Command::BLOCK || command == Command::BSPENT
}

/// A message, or why it must be skipped.
type Framed = Result<(Command, Range<usize>), MessageError>;

fn read_v1(
    from: &mut impl Read,
    magic: [u8; 4],
    buffer: &mut Vec<u8>,
    watch: &mut Watch,
) -> Result<Framed, TransportError> {
    let mut head = [0; ENVELOPE_BYTES];
    from.read_exact(&mut head)?;
    let envelope = Envelope::parse(&head, magic)?;
    (watch.admit)(envelope.len)?;
    buffer.clear();
    let counted = envelope.command.is_some_and(counts);
    read_into(from, envelope.len, buffer, if counted { envelope.len } else { 0 }, watch)?;
    Ok(envelope.check(buffer).map(|command| (command, 0..buffer.len())))
}

fn read_v2(
    from: &mut impl Read,
    inbound: &mut Inbound,
    buffer: &mut Vec<u8>,
    watch: &mut Watch,
) -> Result<Framed, TransportError> {
    let contents = read_contents(from, inbound, buffer, watch)?;
    let split = split_contents(&buffer[contents.clone()]);
    Ok(split.map(|(command, start)| (command, contents.start + start..contents.end)))
}

/// Reads the next packet that is not a decoy into `buffer`, whose content is replaced. Returns the
/// range of the packet's contents.
fn read_contents(
    from: &mut impl Read,
    inbound: &mut Inbound,
    buffer: &mut Vec<u8>,
    watch: &mut Watch,
) -> Result<Range<usize>, TransportError> {
    loop {
        let mut length = [0; LENGTH_BYTES];
        from.read_exact(&mut length)?;
        let len = inbound.length(length);
        if len > CONTENTS_BYTES_MAX {
            return Err(MessageError::TooLong(len as u32).into());
        }
        (watch.admit)(len)?;
        buffer.clear();
        buffer.reserve_exact(len + PACKET_OVERHEAD);
        read_into(from, PACKET_OVERHEAD, buffer, 0, watch)?;
        let block = match split_contents(&inbound.peek(buffer)) {
            Ok((command, name)) if counts(command) => len.saturating_sub(name),
            _ => 0,
        };
        read_into(from, len, buffer, block, watch)?;
        if let Some(contents) = inbound.decrypt(buffer)? {
            return Ok(contents);
        }
        // A decoy took memory that was admitted for it alone.
        *buffer = Vec::new();
    }
}

/// Reads exactly `len` bytes and appends them to `buffer`. The first `block` of them count as bytes
/// of a block.
fn read_into(
    from: &mut impl Read,
    len: usize,
    buffer: &mut Vec<u8>,
    block: usize,
    watch: &mut Watch,
) -> io::Result<()> {
    buffer.reserve_exact(len);
    let mut counted = Counted { from, left: block, count: &mut *watch.block_bytes };
    match counted.by_ref().take(len as u64).read_to_end(buffer)? {
        read if read == len => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// A stream whose first bytes are counted when they come.
struct Counted<'a, R> {
    from: &'a mut R,
    /// The number of bytes that are still to be counted.
    left: usize,
    count: &'a mut dyn FnMut(usize),
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        let counted = read.min(self.left);
        if counted > 0 {
            self.left -= counted;
            (self.count)(counted);
        }
        Ok(read)
    }
}

impl Writer {
    /// Appends a message to `out`.
    pub fn encode(&mut self, payload: &impl Payload, out: &mut Vec<u8>) {
        match &mut self.0 {
            WriteMode::V1 { magic } => encode(payload, *magic, out),
            WriteMode::V2(outbound) => {
                // Space for the tag, too, so that the contents need not move for it.
                out.reserve(LENGTH_BYTES + PACKET_OVERHEAD + LONG_NAME_BYTES + payload.size());
                outbound.encrypt(|out| encode_contents(payload, out), out);
            }
        }
    }

    /// Returns the bytes of a message as two parts, to be sent one after the other. With the v1
    /// transport the second is the payload itself, so that a block is not copied; `buffer`, whose
    /// content is replaced, holds the rest.
    pub fn frame<'a>(&mut self, message: Raw<'a>, buffer: &'a mut Vec<u8>) -> (&'a [u8], &'a [u8]) {
        buffer.clear();
        match &self.0 {
            WriteMode::V1 { magic } => {
                buffer.extend_from_slice(&envelope(&message, *magic));
                (buffer, message.1)
            }
            WriteMode::V2(_) => {
                self.encode(&message, buffer);
                (buffer, &[])
            }
        }
    }

    /// Returns what is sent with a message whose payload is sent by itself, piece by piece: all of
    /// it must be sent before any other message. `buffer`, whose content is replaced, may hold the
    /// message meanwhile.
    pub fn outline(&mut self, message: Raw, buffer: &mut Vec<u8>) -> Frame {
        let pad = match &self.0 {
            WriteMode::V1 { .. } => None,
            WriteMode::V2(outbound) => Some(outbound.next_pad()),
        };
        let len = message.1.len();
        let first = self.frame(message, buffer).0;
        let Some(pad) = pad else {
            return Frame { head: first.to_vec(), tail: Vec::new(), pad: None };
        };
        let tail = first[first.len() - TAG_BYTES..].to_vec();
        let head = first[..first.len() - TAG_BYTES - len].to_vec();
        let start = head.len() - LENGTH_BYTES - HEADER_BYTES;
        Frame { head, tail, pad: Some((pad, start)) }
    }

    /// Returns the transport of this connection.
    pub fn transport(&self) -> Transport {
        match self.0 {
            WriteMode::V1 { .. } => Transport::V1,
            WriteMode::V2(_) => Transport::V2,
        }
    }
}
