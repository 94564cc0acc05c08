//! Reads and writes blocks and undo data field by field, as Bitcoin Core did before PR 31551: each
//! integer, hash and script in a call of its own, which also obfuscates it.

use apus_coins::{Coin, CompactScript, compress_amount};
use apus_hash::{Hash, Sha256d};
use apus_store::Obfuscation;
use apus_wire::{Cursor, put_compact_size, put_varint};
use bitcoin::io::{Error, ErrorKind, Read, Result, Write};

/// A stream of obfuscated bytes; each call obfuscates what it reads or writes.
pub struct Hidden<T> {
    inner: T,
    obfuscation: Obfuscation,
    position: u64,
    scratch: Vec<u8>,
}

impl<T> Hidden<T> {
    /// Creates a stream over `inner`, whose next byte is at `position` of its file.
    pub fn new(inner: T, obfuscation: Obfuscation, position: u64) -> Self {
        Self { inner, obfuscation, position, scratch: Vec::new() }
    }
}

impl<T: std::io::Read> Read for Hidden<T> {
    fn read(&mut self, buf: &mut [u8]) -> Result<usize> {
        let len = self.inner.read(buf)?;
        self.obfuscation.apply(&mut buf[..len], self.position);
        self.position += len as u64;
        Ok(len)
    }
}

impl<T: std::io::Write> Write for Hidden<T> {
    fn write(&mut self, buf: &[u8]) -> Result<usize> {
        self.scratch.clear();
        self.scratch.extend_from_slice(buf);
        self.obfuscation.apply(&mut self.scratch, self.position);
        self.inner.write_all(&self.scratch)?;
        self.position += buf.len() as u64;
        Ok(buf.len())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(self.inner.flush()?)
    }
}

/// A stream that passes bytes on and hashes them (Core's `HashVerifier` and `HashedSourceWriter`).
struct Hashed<T> {
    inner: T,
    hasher: Sha256d,
}

impl<T> Hashed<T> {
    fn new(inner: T, prev: &Hash) -> Self {
        let mut hasher = Sha256d::default();
        hasher.update(&prev.0);
        Self { inner, hasher }
    }
}

impl<T: Read> Hashed<T> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes)?;
        self.hasher.update(&bytes);
        Ok(bytes)
    }

    fn compact_size(&mut self) -> Result<u64> {
        Ok(match self.bytes::<1>()? {
            [0xfd] => u16::from_le_bytes(self.bytes()?).into(),
            [0xfe] => u32::from_le_bytes(self.bytes()?).into(),
            [0xff] => u64::from_le_bytes(self.bytes()?),
            [small] => small.into(),
        })
    }

    /// Reads a VARINT byte by byte, and appends the bytes to `raw`.
    fn varint(&mut self, raw: &mut Vec<u8>) -> Result<u64> {
        let mut value = 0u64;
        loop {
            let [byte] = self.bytes()?;
            raw.push(byte);
            value = value << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            value += 1;
        }
    }

    fn coin(&mut self, raw: &mut Vec<u8>) -> Result<Coin> {
        raw.clear();
        if self.varint(raw)? > 1 {
            self.varint(raw)?;
        }
        self.varint(raw)?;
        let script_start = raw.len();
        let script_len = match self.varint(raw)? {
            0 | 1 => 20,
            2..=5 => 32,
            long => (long as usize - 6).min(10_000),
        };
        let start = raw.len();
        raw.resize(start + script_len, 0);
        self.inner.read_exact(&mut raw[start..])?;
        self.hasher.update(&raw[start..]);
        debug_assert!(CompactScript::decode(&mut Cursor::new(&raw[script_start..])).is_ok());
        Coin::decode_undo(&mut Cursor::new(raw)).map_err(|_| ErrorKind::InvalidData.into())
    }
}

impl<T: Write> Hashed<&mut T> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hasher.update(bytes);
        self.inner.write_all(bytes)
    }

    /// Writes a VARINT byte by byte (Core's `WriteVarInt`).
    fn put_varint(&mut self, value: u64) -> Result<()> {
        let mut bytes = Vec::new();
        put_varint(&mut bytes, value);
        bytes.chunks(1).try_for_each(|byte| self.put(byte))
    }

    fn put_count(&mut self, count: usize) -> Result<()> {
        let mut bytes = Vec::new();
        put_compact_size(&mut bytes, count as u64);
        let (first, rest) = bytes.split_at(1);
        self.put(first)?;
        if rest.is_empty() { Ok(()) } else { self.put(rest) }
    }

    fn put_coin(&mut self, coin: &Coin) -> Result<()> {
        self.put_varint(coin.parts().code.into())?;
        if coin.height > 0 {
            self.put(&[0])?;
        }
        self.put_varint(compress_amount(coin.amount))?;
        let script = coin.script.as_bytes();
        let head = script.len() - script_tail(script);
        script[..head].chunks(1).try_for_each(|byte| self.put(byte))?;
        self.put(&script[head..])
    }
}

/// Returns the number of bytes of a compressed script after its leading VARINT.
fn script_tail(script: &[u8]) -> usize {
    let head = script.iter().take_while(|byte| **byte & 0x80 != 0).count() + 1;
    script.len().saturating_sub(head)
}

/// Reads a record's magic and its length, in one call each.
pub fn read_frame(from: &mut impl Read, magic: [u8; 4]) -> Result<u32> {
    let mut found = [0; 4];
    let mut len = [0; 4];
    from.read_exact(&mut found)?;
    from.read_exact(&mut len)?;
    if found != magic {
        return Err(Error::from(ErrorKind::InvalidData));
    }
    Ok(u32::from_le_bytes(len))
}

/// Writes a record's magic and its length, in one call each.
pub fn write_frame(to: &mut impl Write, magic: [u8; 4], len: usize) -> Result<()> {
    to.write_all(&magic)?;
    to.write_all(&(len as u32).to_le_bytes())
}

/// Reads the spent coins of each transaction, and verifies their checksum.
pub fn read_undo(from: impl Read, prev: &Hash) -> Result<Vec<Vec<Coin>>> {
    let mut from = Hashed::new(from, prev);
    let mut raw = Vec::new();
    let mut spent = Vec::new();
    for _ in 0..from.compact_size()? {
        let count = from.compact_size()?;
        spent.push((0..count).map(|_| from.coin(&mut raw)).collect::<Result<Vec<_>>>()?);
    }
    let Hashed { mut inner, hasher } = from;
    let mut checksum = [0; 32];
    inner.read_exact(&mut checksum)?;
    if hasher.finish().0 == checksum { Ok(spent) } else { Err(ErrorKind::InvalidData.into()) }
}

/// Writes what [`read_undo`] reads.
pub fn write_undo(to: &mut impl Write, prev: &Hash, spent: &[Vec<Coin>]) -> Result<()> {
    let mut to = Hashed::new(to, prev);
    to.put_count(spent.len())?;
    for coins in spent {
        to.put_count(coins.len())?;
        coins.iter().try_for_each(|coin| to.put_coin(coin))?;
    }
    let Hashed { inner, hasher } = to;
    inner.write_all(&hasher.finish().0)
}
