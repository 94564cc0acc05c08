//! Converts a stream of bytes to messages and back, with the plain v1 transport and the encrypted
//! v2 transport (BIP324).

use std::io::{self, Read, Write};
use std::ops::Range;

use apus_wire::message::{
    Command, ENVELOPE_BYTES, Envelope, MessageError, PAYLOAD_BYTES_MAX, Payload, Raw, encode,
    encode_contents, envelope, split_contents,
};
use bip324::io::{ProtocolError, ProtocolSessionReader};
use bip324::{InboundCipher, OutboundCipher, PacketType, Role};

/// Bytes by which the responder recognises a v1 peer: the magic and the name of its first message.
const V1_PREFIX_BYTES: usize = 16;
/// The most bytes of garbage in a v2 handshake (BIP324).
const GARBAGE_BYTES_MAX: u16 = 4095;
/// Bytes of a v2 packet besides its contents: the header, and the tag that authenticates both.
const PACKET_OVERHEAD: usize = 1 + 16;
/// The most bytes of a v2 packet: a message with the long form of its name.
const PACKET_BYTES_MAX: usize = 13 + PAYLOAD_BYTES_MAX + PACKET_OVERHEAD;

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
    V2(String),
}

impl From<ProtocolError> for TransportError {
    fn from(error: ProtocolError) -> Self {
        match error {
            ProtocolError::Io(error, _) => Self::Io(error),
            ProtocolError::Internal(error) => Self::V2(error.to_string()),
        }
    }
}

/// A stream from which some bytes were read already; they are read again first.
pub type Unread<R> = io::Chain<io::Cursor<Vec<u8>>, R>;

/// The receiving half of a connection.
pub enum Reader<R> {
    /// The plain transport.
    V1 {
        /// Where the bytes come from.
        from: R,
        /// The network's magic bytes.
        magic: [u8; 4],
    },
    /// The encrypted transport.
    V2 {
        /// Where the bytes come from, first those that the handshake read in excess.
        from: ProtocolSessionReader<R>,
        /// What decrypts them.
        cipher: Box<InboundCipher>,
    },
}

/// The sending half of a connection.
pub struct Writer {
    mode: WriteMode,
    contents: Vec<u8>,
}

enum WriteMode {
    V1 { magic: [u8; 4] },
    V2 { cipher: Box<OutboundCipher> },
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
        Transport::V2 => encrypted(magic, Role::Initiator, from, to),
    }
}

/// Begins a connection that the peer opened, with the transport that it speaks.
///
/// # Errors
/// As for [`initiate`].
pub fn respond<R: Read>(
    magic: [u8; 4],
    accept_v2: bool,
    mut from: R,
    to: &mut impl Write,
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
    encrypted(magic, Role::Responder, from, to)
}

fn plain<R>(magic: [u8; 4], from: R) -> (Reader<R>, Writer) {
    (Reader::V1 { from, magic }, Writer { mode: WriteMode::V1 { magic }, contents: Vec::new() })
}

fn encrypted<R: Read>(
    magic: [u8; 4],
    role: Role,
    from: R,
    to: &mut impl Write,
) -> Result<(Reader<R>, Writer), TransportError> {
    let mut random = [0; 2];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    let len = u16::from_le_bytes(random) % (GARBAGE_BYTES_MAX + 1);
    let mut garbage = vec![0; usize::from(len)];
    getrandom::fill(&mut garbage).map_err(|error| io::Error::other(error.to_string()))?;
    let (inbound, outbound, from) =
        bip324::io::handshake(magic, role, Some(garbage), None, from, to)?;
    let reader = Reader::V2 { from, cipher: Box::new(inbound) };
    let mode = WriteMode::V2 { cipher: Box::new(outbound) };
    Ok((reader, Writer { mode, contents: Vec::new() }))
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
        self.read_admitted(buffer, &mut |_| Ok(()))
    }

    /// Like [`Reader::read`], but calls `admit` with the bytes that a message announces before they
    /// are read. If that fails, so does reading.
    ///
    /// # Errors
    /// As for [`Reader::read`], or that of `admit`.
    pub fn read_admitted(
        &mut self,
        buffer: &mut Vec<u8>,
        admit: &mut dyn FnMut(usize) -> io::Result<()>,
    ) -> Result<(Command, Range<usize>), TransportError> {
        loop {
            let read = match self {
                Self::V1 { from, magic } => read_v1(from, *magic, buffer, admit)?,
                Self::V2 { from, cipher } => read_v2(from, cipher, buffer, admit)?,
            };
            match read {
                Ok(message) => return Ok(message),
                Err(error) => tracing::debug!(target: "net", %error, "a message is ignored"),
            }
        }
    }
}

/// A message, or why it must be skipped.
type Framed = Result<(Command, Range<usize>), MessageError>;

fn read_v1(
    from: &mut impl Read,
    magic: [u8; 4],
    buffer: &mut Vec<u8>,
    admit: &mut dyn FnMut(usize) -> io::Result<()>,
) -> Result<Framed, TransportError> {
    let mut head = [0; ENVELOPE_BYTES];
    from.read_exact(&mut head)?;
    let envelope = Envelope::parse(&head, magic)?;
    admit(envelope.len)?;
    read_into(from, envelope.len, buffer)?;
    Ok(envelope.check(buffer).map(|command| (command, 0..buffer.len())))
}

fn read_v2(
    from: &mut impl Read,
    cipher: &mut InboundCipher,
    buffer: &mut Vec<u8>,
    admit: &mut dyn FnMut(usize) -> io::Result<()>,
) -> Result<Framed, TransportError> {
    loop {
        let mut len = [0; 3];
        from.read_exact(&mut len)?;
        let len = cipher.decrypt_packet_len(len);
        if len > PACKET_BYTES_MAX {
            return Err(MessageError::TooLong(len as u32).into());
        }
        admit(len)?;
        read_into(from, len, buffer)?;
        let decrypted = cipher.decrypt_in_place(buffer, None);
        let (kind, plain) = decrypted.map_err(|error| TransportError::V2(error.to_string()))?;
        if kind == PacketType::Genuine {
            // The first byte is the packet's header.
            let split = split_contents(&plain[1..]);
            return Ok(split.map(|(command, start)| (command, 1 + start..plain.len())));
        }
    }
}

/// Reads exactly `len` bytes into `buffer`, whose content is replaced.
fn read_into(from: &mut impl Read, len: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.clear();
    buffer.reserve_exact(len);
    match from.take(len as u64).read_to_end(buffer)? {
        read if read == len => Ok(()),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

impl Writer {
    /// Appends a message to `out`.
    pub fn encode(&mut self, payload: &impl Payload, out: &mut Vec<u8>) {
        match &mut self.mode {
            WriteMode::V1 { magic } => encode(payload, *magic, out),
            WriteMode::V2 { cipher } => {
                self.contents.clear();
                encode_contents(payload, &mut self.contents);
                let start = out.len();
                out.resize(start + OutboundCipher::encryption_buffer_len(self.contents.len()), 0);
                let packet = &mut out[start..];
                cipher
                    .encrypt(&self.contents, packet, PacketType::Genuine, None)
                    .expect("the buffer has the size that the packet needs");
            }
        }
    }

    /// Returns the bytes of a message as two parts, to be sent one after the other. With the v1
    /// transport the second is the payload itself, so that a block is not copied; `buffer`, whose
    /// content is replaced, holds the rest.
    pub fn frame<'a>(&mut self, message: Raw<'a>, buffer: &'a mut Vec<u8>) -> (&'a [u8], &'a [u8]) {
        buffer.clear();
        match &mut self.mode {
            WriteMode::V1 { magic } => {
                buffer.extend_from_slice(&envelope(&message, *magic));
                (buffer, message.1)
            }
            WriteMode::V2 { .. } => {
                self.encode(&message, buffer);
                // The copy of a block would stay as long as the connection.
                self.contents = Vec::new();
                (buffer, &[])
            }
        }
    }

    /// Returns the transport of this connection.
    pub fn transport(&self) -> Transport {
        match self.mode {
            WriteMode::V1 { .. } => Transport::V1,
            WriteMode::V2 { .. } => Transport::V2,
        }
    }
}
