//! The saved work of a SwiftSync. The file holds the salt, so only its owner may read it, and it is
//! removed when the SwiftSync ends.

use std::collections::HashSet;

use apus_hash::Hash;
use apus_node::coin_differences::DifferenceKind;
use apus_store::FlatFilePos;
use apus_wire::{Cursor, OutPoint, ParseError};

use super::hinted::WrongHint;
use super::tally::Tally;
use apus_node::sealed::{bytes, counts, numbers, put_bytes, put_counts, put_numbers, seal, unseal};

/// First bytes of the file; the last of them is the version.
const MAGIC: &[u8; 8] = b"apusss\x00\x08";

/// What a run must have in common with an interrupted one to continue it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Key {
    /// The block at the hints' height.
    pub target: Hash,
    /// Names of the mode, the aggregate and the script engine.
    pub kind: String,
    /// Hash of the hints file, or of the snapshot.
    pub hints: Hash,
}

/// Everything that is needed to continue.
pub(super) struct Saved {
    pub key: Key,
    pub salt: Vec<u8>,
    pub aggregate: Vec<u8>,
    pub tally: Tally,
    /// One bit for each height, bit 0 of a byte first: whether the block there is done.
    pub done: Vec<u8>,
    /// A height above all blocks that came without their witnesses; 0 if none did.
    pub stripped_below: u32,
    pub survivors: Vec<u8>,
    /// The coins that the last blocks spend, encoded by [`super::recent::Recent::to_bytes`].
    pub recent: Vec<u8>,
    /// Undo data written so far.
    pub undo: Vec<SavedUndo>,
    /// Heights of blocks that are not checked yet.
    pub put_off: Vec<u32>,
    /// The hints that are wrong as their block alone shows.
    pub wrong_hints: Vec<WrongHint>,
}

/// The height of a block, and where its undo data is.
#[derive(Clone, Copy)]
pub(super) struct SavedUndo {
    pub height: u32,
    pub at: FlatFilePos,
}

impl Saved {
    /// Returns the bytes of the file: magic, fields, checksum.
    pub fn to_bytes(&self) -> Vec<u8> {
        seal(MAGIC, |out| self.put(out))
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.key.target.0);
        put_bytes(out, self.key.kind.as_bytes());
        out.extend_from_slice(&self.key.hints.0);
        put_bytes(out, &self.salt);
        put_bytes(out, &self.aggregate);
        put_tally(out, &self.tally);
        put_bytes(out, &self.done);
        out.extend_from_slice(&self.stripped_below.to_le_bytes());
        put_bytes(out, &self.survivors);
        put_bytes(out, &self.recent);
        put_numbers(out, &[self.undo.len() as u64]);
        for SavedUndo { height, at } in &self.undo {
            for number in [*height, at.file, at.pos] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        put_numbers(out, &[self.put_off.len() as u64]);
        self.put_off.iter().for_each(|height| out.extend_from_slice(&height.to_le_bytes()));
        put_numbers(out, &[self.wrong_hints.len() as u64]);
        self.wrong_hints.iter().for_each(|wrong| put_wrong_hint(out, wrong));
    }

    /// Parses the bytes of a file; returns `None` unless [`Saved::to_bytes`] has written them.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(unseal(MAGIC, bytes)?);
        let saved = Self::read(&mut cursor).ok()?;
        (cursor.remaining() == 0).then_some(saved)
    }

    fn read(cursor: &mut Cursor) -> Result<Self, ParseError> {
        let target = Hash(cursor.array()?);
        let kind = String::from_utf8_lossy(bytes(cursor)?).into_owned();
        let key = Key { target, kind, hints: Hash(cursor.array()?) };
        let salt = bytes(cursor)?.to_vec();
        let aggregate = bytes(cursor)?.to_vec();
        let tally = read_tally(cursor)?;
        let done = bytes(cursor)?.to_vec();
        let stripped_below = cursor.u32()?;
        let survivors = bytes(cursor)?.to_vec();
        let recent = bytes(cursor)?.to_vec();
        let mut undo = Vec::new();
        for _ in 0..cursor.u64()? {
            let height = cursor.u32()?;
            let file = cursor.u32()?;
            undo.push(SavedUndo { height, at: FlatFilePos { file, pos: cursor.u32()? } });
        }
        let mut put_off = Vec::new();
        for _ in 0..cursor.u64()? {
            put_off.push(cursor.u32()?);
        }
        let mut wrong_hints = Vec::new();
        for _ in 0..cursor.u64()? {
            wrong_hints.push(read_wrong_hint(cursor)?);
        }
        Ok(Self {
            key,
            salt,
            aggregate,
            tally,
            done,
            stripped_below,
            survivors,
            recent,
            undo,
            put_off,
            wrong_hints,
        })
    }

    /// Returns `heights` as the bits of [`Saved::done`].
    pub fn bits(heights: &HashSet<u32>) -> Vec<u8> {
        let bytes = heights.iter().max().map_or(0, |highest| *highest as usize / 8 + 1);
        let mut bits = vec![0; bytes];
        heights.iter().for_each(|height| bits[*height as usize / 8] |= 1 << (height % 8));
        bits
    }

    pub fn blocks_done(&self) -> u32 {
        self.done.iter().map(|bits| bits.count_ones()).sum()
    }

    pub fn is_done(&self, height: u32) -> bool {
        let byte = self.done.get(height as usize / 8).copied().unwrap_or(0);
        byte >> (height % 8) & 1 == 1
    }
}

fn put_wrong_hint(out: &mut Vec<u8>, wrong: &WrongHint) {
    // No block at height 0 spends an output.
    let spent_by = match wrong.kind {
        DifferenceKind::Spent(height) => height,
        _ => 0,
    };
    for number in [wrong.height, wrong.index, spent_by] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    out.extend_from_slice(&wrong.outpoint.to_bytes());
}

fn read_wrong_hint(cursor: &mut Cursor) -> Result<WrongHint, ParseError> {
    let height = cursor.u32()?;
    let index = cursor.u32()?;
    let kind = match cursor.u32()? {
        0 => DifferenceKind::Unspendable,
        height => DifferenceKind::Spent(height),
    };
    let outpoint = OutPoint { txid: Hash(cursor.array()?), vout: cursor.u32()? };
    Ok(WrongHint { height, index, outpoint, kind })
}

fn put_tally(out: &mut Vec<u8>, tally: &Tally) {
    put_numbers(out, &[tally.coins, tally.amount]);
    put_counts(out, &tally.counts);
    put_numbers(out, &[tally.coinbases.len() as u64]);
    for (txid, height) in &tally.coinbases {
        out.extend_from_slice(&txid.0);
        out.extend_from_slice(&height.to_le_bytes());
    }
}

fn read_tally(cursor: &mut Cursor) -> Result<Tally, ParseError> {
    let [coins, amount] = numbers(cursor)?;
    let counts = counts(cursor)?;
    let mut coinbases = Vec::new();
    for _ in 0..cursor.u64()? {
        coinbases.push((Hash(cursor.array()?), cursor.u32()?));
    }
    Ok(Tally { coins, amount, counts, coinbases })
}
