//! Encrypts and decrypts packets: FSChaCha20Poly1305 for their contents, FSChaCha20 for their
//! lengths (BIP324). Both replace their key after 224 packets.

use chacha20_poly1305::chacha20::{ChaCha20, Key, Nonce as StreamNonce};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};

use super::error::V2Error;

/// Bytes of the encrypted length that a packet begins with.
pub const LENGTH_BYTES: usize = 3;
/// The most bytes of contents that [`Inbound::peek`] decrypts.
pub const PEEK_BYTES: usize = 13;
/// Bytes of a packet besides its length and contents: the header, and the tag that authenticates
/// both.
pub const PACKET_OVERHEAD: usize = HEADER_BYTES + TAG_BYTES;

/// Bytes of a packet's header, before its contents.
pub const HEADER_BYTES: usize = 1;
/// Bytes of the tag after them.
pub const TAG_BYTES: usize = 16;
/// The bit of the header that makes a packet a decoy (Core's `IGNORE_BIT`).
pub(super) const DECOY_BIT: u8 = 0x80;
/// Packets after which a key is replaced (Core's `REKEY_INTERVAL`).
const REKEY_INTERVAL: u32 = 224;
/// The number of a packet, in the nonce that makes the next key.
const REKEY_NUMBER: u32 = u32::MAX;
/// Bytes of the lengths that one key encrypts.
const LENGTHS_BYTES: usize = REKEY_INTERVAL as usize * LENGTH_BYTES;
const CIPHER_KEY_BYTES: usize = 32;
/// The bytes of ChaCha20's stream before those that encrypt: a block for the key of Poly1305
/// (RFC 8439).
const PAD_START: usize = 64;

/// Encrypts what we send.
pub struct Outbound {
    lengths: LengthCipher,
    contents: ContentsCipher,
    /// Bytes that the next packet authenticates besides its own: our garbage, at first.
    garbage: Vec<u8>,
}

/// Encrypts the contents of one packet piece by piece: to the same bytes as [`Outbound::encrypt`],
/// which must have encrypted them as a whole, since only that makes the tag.
pub struct Pad {
    key: [u8; CIPHER_KEY_BYTES],
    nonce: [u8; 12],
}

impl Pad {
    /// Encrypts bytes that are at `offset` of the contents.
    pub fn apply(&self, offset: usize, bytes: &mut [u8]) {
        self.apply_to_packet(HEADER_BYTES + offset, bytes);
    }

    /// Encrypts or decrypts bytes that are at `offset` of the header and contents.
    fn apply_to_packet(&self, offset: usize, bytes: &mut [u8]) {
        let nonce = StreamNonce::new(self.nonce);
        let start = PAD_START + offset;
        ChaCha20::new(Key::new(self.key), nonce, start as u32).apply_keystream(bytes);
    }
}

/// Decrypts what the peer sends.
pub struct Inbound {
    lengths: LengthCipher,
    contents: ContentsCipher,
    /// Bytes that the next packet authenticates besides its own: the peer's garbage, at first.
    garbage: Vec<u8>,
}

impl Outbound {
    /// Creates the sending half. Its first packet authenticates our garbage.
    pub fn new(length_key: [u8; 32], contents_key: [u8; 32], garbage: Vec<u8>) -> Self {
        let lengths = LengthCipher::new(length_key);
        let contents = ContentsCipher::new(contents_key);
        Self { lengths, contents, garbage }
    }

    /// Returns what encrypts the next packet's contents piece by piece.
    pub fn next_pad(&self) -> Pad {
        self.contents.pad()
    }

    /// Appends a packet to `out`, whose contents `put` appends. They are encrypted where they are.
    pub fn encrypt(&mut self, put: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
        self.encrypt_with(0, put, out);
    }

    /// Like [`Outbound::encrypt`], with the packet's header.
    pub(super) fn encrypt_with(
        &mut self,
        header: u8,
        put: impl FnOnce(&mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let start = out.len();
        out.extend_from_slice(&[0, 0, 0, header]);
        put(out);
        let [length @ .., _, _, _, _, _] =
            (out.len() - start - LENGTH_BYTES - HEADER_BYTES).to_le_bytes();
        out[start..start + LENGTH_BYTES].copy_from_slice(&self.lengths.apply(length));
        let tag = self.contents.encrypt(&self.garbage, &mut out[start + LENGTH_BYTES..]);
        out.extend_from_slice(&tag);
        self.garbage = Vec::new();
    }
}

impl Inbound {
    /// Creates the receiving half, whose peer has sent no garbage yet.
    pub fn new(length_key: [u8; 32], contents_key: [u8; 32]) -> Self {
        let lengths = LengthCipher::new(length_key);
        let contents = ContentsCipher::new(contents_key);
        Self { lengths, contents, garbage: Vec::new() }
    }

    /// Sets the garbage that the peer sent, which its first packet authenticates.
    pub fn set_garbage(&mut self, garbage: Vec<u8>) {
        self.garbage = garbage;
    }

    /// Decrypts the length of the next packet. Returns the number of bytes of its contents.
    pub fn length(&mut self, encrypted: [u8; LENGTH_BYTES]) -> usize {
        let [a, b, c] = self.lengths.apply(encrypted);
        u32::from_le_bytes([a, b, c, 0]) as usize
    }

    /// Returns the first bytes of the contents of the packet whose length [`Inbound::length`]
    /// returned, by the packet's first bytes; nothing if it is a decoy. They are not authenticated:
    /// anyone on the line may have changed them.
    pub fn peek(&self, packet: &[u8]) -> Vec<u8> {
        let mut start = packet[..packet.len().min(HEADER_BYTES + PEEK_BYTES)].to_vec();
        self.contents.pad().apply_to_packet(0, &mut start);
        match start.first() {
            Some(header) if header & DECOY_BIT == 0 => start.split_off(HEADER_BYTES),
            _ => Vec::new(),
        }
    }

    /// Decrypts in place the packet whose length [`Inbound::length`] returned: header, contents and
    /// tag. Returns the range of its contents, or `None` if it is a decoy.
    ///
    /// # Errors
    /// The packet is not what the peer encrypted. Later packets cannot be decrypted then.
    pub fn decrypt(
        &mut self,
        packet: &mut [u8],
    ) -> Result<Option<std::ops::Range<usize>>, V2Error> {
        let len = self.contents.decrypt(&self.garbage, packet)?;
        self.garbage = Vec::new();
        let header = packet[..len].first().ok_or(V2Error::Tag)?;
        Ok((header & DECOY_BIT == 0).then_some(HEADER_BYTES..len))
    }
}

/// FSChaCha20: encrypts or decrypts lengths, each with the next bytes of one stream.
struct LengthCipher {
    /// What ChaCha20 makes of the key: a pad for each length, then the next key.
    stream: [u8; LENGTHS_BYTES + CIPHER_KEY_BYTES],
    used: usize,
    rekeyings: u64,
}

impl LengthCipher {
    fn new(key: [u8; CIPHER_KEY_BYTES]) -> Self {
        Self { stream: stream(key, 0), used: 0, rekeyings: 0 }
    }

    fn apply(&mut self, mut length: [u8; LENGTH_BYTES]) -> [u8; LENGTH_BYTES] {
        for (byte, pad) in length.iter_mut().zip(&self.stream[self.used..]) {
            *byte ^= pad;
        }
        self.used += LENGTH_BYTES;
        if self.used == LENGTHS_BYTES {
            let key = *self.stream.last_chunk().expect("the stream ends with a key");
            self.rekeyings += 1;
            (self.stream, self.used) = (stream(key, self.rekeyings), 0);
        }
        length
    }
}

/// Returns what ChaCha20 makes of a key: the pads of [`REKEY_INTERVAL`] lengths, and the next key.
fn stream(key: [u8; CIPHER_KEY_BYTES], rekeyings: u64) -> [u8; LENGTHS_BYTES + CIPHER_KEY_BYTES] {
    let mut stream = [0; _];
    let nonce = StreamNonce::new(nonce(0, rekeyings));
    ChaCha20::new(Key::new(key), nonce, 0).apply_keystream(&mut stream);
    stream
}

/// FSChaCha20Poly1305: encrypts or decrypts contents, and authenticates them.
struct ContentsCipher {
    key: LessSafeKey,
    /// The same key.
    bytes: [u8; CIPHER_KEY_BYTES],
    /// Number of packets under this key.
    packets: u32,
    rekeyings: u64,
}

impl ContentsCipher {
    fn new(key: [u8; CIPHER_KEY_BYTES]) -> Self {
        Self { key: aead_key(&key), bytes: key, packets: 0, rekeyings: 0 }
    }

    /// Returns what encrypts or decrypts the next packet piece by piece, without its tag.
    fn pad(&self) -> Pad {
        Pad { key: self.bytes, nonce: nonce(self.packets, self.rekeyings) }
    }

    /// Encrypts `bytes` where they are. Returns the tag that authenticates them and `aad`.
    fn encrypt(&mut self, aad: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let tag = self.seal(self.packets, aad, bytes);
        self.count();
        tag
    }

    /// Decrypts where they are the bytes before the tag at the end. Returns their number.
    fn decrypt(&mut self, aad: &[u8], bytes: &mut [u8]) -> Result<usize, V2Error> {
        let nonce = Nonce::assume_unique_for_key(nonce(self.packets, self.rekeyings));
        let opened = self.key.open_in_place(nonce, Aad::from(aad), bytes);
        let len = opened.map_err(|_| V2Error::Tag)?.len();
        self.count();
        Ok(len)
    }

    fn seal(&self, number: u32, aad: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let nonce = Nonce::assume_unique_for_key(nonce(number, self.rekeyings));
        let tag = self.key.seal_in_place_separate_tag(nonce, Aad::from(aad), bytes);
        let tag = tag.expect("a packet is shorter than the 256 GiB that ChaCha20 can encrypt");
        tag.as_ref().try_into().expect("Poly1305's tag")
    }

    /// Counts a packet. The next key is what the old one makes of zeros.
    fn count(&mut self) {
        self.packets += 1;
        if self.packets == REKEY_INTERVAL {
            let mut key = [0; CIPHER_KEY_BYTES];
            self.seal(REKEY_NUMBER, &[], &mut key);
            *self = Self { rekeyings: self.rekeyings + 1, ..Self::new(key) };
        }
    }
}

fn aead_key(key: &[u8; CIPHER_KEY_BYTES]) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).expect("a key of 32 bytes"))
}

fn nonce(number: u32, rekeyings: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&number.to_le_bytes());
    nonce[4..].copy_from_slice(&rekeyings.to_le_bytes());
    nonce
}
