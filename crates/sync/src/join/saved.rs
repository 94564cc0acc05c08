//! The saved work of a join.

use std::collections::HashSet;

use apus_disk::SavedParts;
use apus_hash::{Hash, HashKey};
use apus_join::Layout;
use apus_leveldb::PendingTable;
use apus_store::FlatFilePos;
use apus_wire::{Cursor, ParseError};

use super::state::{JoinState, PairCounts, Paired, ReadCounts, SpanState, UndoAt};
use apus_node::sealed::{bytes, counts, numbers, put_bytes, put_counts, put_numbers, seal, unseal};

/// First bytes of the file; the last byte is the version.
const MAGIC: &[u8; 8] = b"apusjn\x00\x05";

/// What a run must have in common with the interrupted one to carry on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    /// The block that the join begins after.
    pub base: Hash,
    /// The last block of the join.
    pub target: Hash,
    /// What is assumed valid, which UTXO set is changed, and which engine checks scripts.
    pub kind: String,
}

/// The saved work of a join: all that a later run needs to carry on.
#[derive(PartialEq, Eq)]
pub(super) struct Saved {
    pub key: Key,
    /// The key of the hashes by which blocks are recognised when they are read again.
    pub hash_key: HashKey,
    pub layout: Layout,
    pub state: JoinState,
    /// Double SHA-256 of the positions of all blocks that are read.
    pub positions: Hash,
    pub parts: SavedParts,
}

impl Saved {
    pub fn to_bytes(&self) -> Vec<u8> {
        seal(MAGIC, |out| {
            out.extend_from_slice(&self.key.base.0);
            out.extend_from_slice(&self.key.target.0);
            put_bytes(out, self.key.kind.as_bytes());
            out.extend_from_slice(self.hash_key.as_bytes());
            let Layout { partitions, bucket_ends, first_height } = &self.layout;
            put_numbers(out, &[u64::from(*partitions), u64::from(*first_height)]);
            put_list(out, bucket_ends, |out, end| out.extend_from_slice(&end.to_le_bytes()));
            put_state(out, &self.state);
            out.extend_from_slice(&self.positions.0);
            self.parts.put(out);
        })
    }

    /// Parses what [`Saved::to_bytes`] returned; returns `None` for anything else.
    pub fn parse(file: &[u8]) -> Option<Self> {
        let content = unseal(MAGIC, file)?;
        let mut cursor = Cursor::new(content);
        let key = read_key(&mut cursor).ok()?;
        let hash_key = HashKey::new(cursor.array().ok()?);
        let (layout, state, positions) = read(&mut cursor).ok()?;
        let mut rest = &content[cursor.position()..];
        let parts = SavedParts::read(&mut rest).filter(|_| rest.is_empty())?;
        let fits =
            parts.parts() == layout.parts() && state.paired.done.len() == layout.partitions();
        fits.then_some(Self { key, hash_key, layout, state, positions, parts })
    }
}

/// Parses a file of saved work and encodes it again; returns `None` for anything else.
pub fn rewrite_join_progress(file: &[u8]) -> Option<Vec<u8>> {
    Some(Saved::parse(file)?.to_bytes())
}

fn read_key(cursor: &mut Cursor) -> Result<Key, ParseError> {
    let base = Hash(cursor.array()?);
    let target = Hash(cursor.array()?);
    let kind = String::from_utf8_lossy(bytes(cursor)?).into_owned();
    Ok(Key { base, target, kind })
}

fn read(cursor: &mut Cursor) -> Result<(Layout, JoinState, Hash), ParseError> {
    let partitions = number(cursor)?;
    let first_height = number(cursor)?;
    if !(1..=1 << u16::BITS).contains(&partitions) {
        return Err(cursor.error("no such number of partitions"));
    }
    let bucket_ends = list(cursor, 4, Cursor::u32)?;
    let layout = Layout { partitions, bucket_ends, first_height };
    let state = read_state(cursor)?;
    Ok((layout, state, Hash(cursor.array()?)))
}

fn put_state(out: &mut Vec<u8>, state: &JoinState) {
    put_list(out, &state.spans, put_span);
    let mut dropped: Vec<u32> = state.dropped.iter().copied().collect();
    dropped.sort_unstable();
    put_list(out, &dropped, |out, source| out.extend_from_slice(&source.to_le_bytes()));
    put_numbers(out, &[u64::from(state.sources)]);
    put_paired(out, &state.paired);
    put_numbers(out, &[state.checked as u64, state.assumed as u64]);
    put_list(out, &state.undo, |out, UndoAt { index, at }| {
        for number in [*index, at.file, at.pos] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    });
}

fn read_state(cursor: &mut Cursor) -> Result<JoinState, ParseError> {
    let spans = list(cursor, SPAN_BYTES, read_span)?;
    let dropped: HashSet<u32> = list(cursor, 4, Cursor::u32)?.into_iter().collect();
    let sources = number(cursor)?;
    let paired = read_paired(cursor)?;
    let checked = size(cursor)?;
    let assumed = size(cursor)?;
    let undo = list(cursor, 12, |cursor| {
        let index = cursor.u32()?;
        let file = cursor.u32()?;
        Ok(UndoAt { index, at: FlatFilePos { file, pos: cursor.u32()? } })
    })?;
    Ok(JoinState { spans, dropped, sources, paired, checked, assumed, undo })
}

/// Bytes of an encoded span.
const SPAN_BYTES: usize = 4 * 8 + 9 * 8;

fn put_span(out: &mut Vec<u8>, span: &SpanState) {
    let SpanState { source, first, next, end, read } = *span;
    put_numbers(out, &[u64::from(source), first as u64, next as u64, end as u64]);
    put_counts(out, &read.counts);
    put_numbers(out, &[read.created, read.inside, read.early, read.late]);
}

fn read_span(cursor: &mut Cursor) -> Result<SpanState, ParseError> {
    let source = number(cursor)?;
    let first = size(cursor)?;
    let next = size(cursor)?;
    let end = size(cursor)?;
    if first > next || next > end {
        return Err(cursor.error("a span that ends before it begins"));
    }
    let counts = counts(cursor)?;
    let [created, inside, early, late] = numbers(cursor)?;
    let read = ReadCounts { counts, created, inside, early, late };
    Ok(SpanState { source, first, next, end, read })
}

fn put_paired(out: &mut Vec<u8>, paired: &Paired) {
    put_numbers(out, &[u64::from(paired.source)]);
    put_list(out, &paired.done, |out, done| out.push(u8::from(*done)));
    let PairCounts { taken, left, left_amount, overwritten, .. } = paired.counts;
    let PairCounts { base_taken, base_amount, base_overwritten, .. } = paired.counts;
    put_numbers(out, &[taken, left, left_amount, overwritten]);
    put_numbers(out, &[base_taken, base_amount, base_overwritten]);
    let mut tables = Vec::new();
    paired.tables.iter().for_each(|table| table.put(&mut tables));
    put_bytes(out, &tables);
    put_numbers(out, &[paired.fault.map_or(0, u64::from)]);
}

fn read_paired(cursor: &mut Cursor) -> Result<Paired, ParseError> {
    let source = number(cursor)?;
    let done = list(cursor, 1, |cursor| Ok(cursor.u8()? != 0))?;
    let [taken, left, left_amount, overwritten] = numbers(cursor)?;
    let [base_taken, base_amount, base_overwritten] = numbers(cursor)?;
    let counts = PairCounts {
        taken,
        left,
        left_amount,
        overwritten,
        base_taken,
        base_amount,
        base_overwritten,
    };
    let table_bytes = bytes(cursor)?;
    let mut at = 0;
    let mut tables = Vec::new();
    while at < table_bytes.len() {
        let table = PendingTable::read(table_bytes, &mut at);
        tables.push(table.ok_or_else(|| cursor.error("a damaged table of a run"))?);
    }
    let fault = Some(number(cursor)?).filter(|height| *height > 0);
    Ok(Paired { source, done, counts, tables, fault })
}

/// Reads a number of at most 32 bits.
fn number(cursor: &mut Cursor) -> Result<u32, ParseError> {
    let number = cursor.u64()?;
    u32::try_from(number).map_err(|_| cursor.error("a number over 32 bits"))
}

fn size(cursor: &mut Cursor) -> Result<usize, ParseError> {
    Ok(number(cursor)? as usize)
}

/// Appends the number of items, and then each of them.
fn put_list<T>(out: &mut Vec<u8>, items: &[T], mut put: impl FnMut(&mut Vec<u8>, &T)) {
    put_numbers(out, &[items.len() as u64]);
    items.iter().for_each(|item| put(out, item));
}

/// Reads what [`put_list`] appended; each item has at least `bytes_min` bytes.
fn list<'a, T>(
    cursor: &mut Cursor<'a>,
    bytes_min: usize,
    mut read: impl FnMut(&mut Cursor<'a>) -> Result<T, ParseError>,
) -> Result<Vec<T>, ParseError> {
    let count = usize::try_from(cursor.u64()?).unwrap_or(usize::MAX);
    if count > cursor.remaining() / bytes_min {
        return Err(cursor.error("the data ends too early"));
    }
    (0..count).map(|_| read(cursor)).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use apus_disk::{Caching, Disk, Parts};
    use apus_join::{Memory, Span};

    use super::*;

    #[test]
    fn progress_comes_back_and_damage_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(7, &[100; 50], Memory { bytes: 0, workers: 2 });
        let parts = Parts::new(
            &Disk::new(),
            dir.path().join("spill"),
            layout.parts(),
            4096,
            Caching::Direct,
        );
        parts.append(3, b"records").unwrap();
        let spans = [Span { first: 0, end: 30 }, Span { first: 30, end: 50 }];
        let mut state = JoinState::new(&spans, layout.partitions());
        state.spans[0].next = 12;
        state.spans[0].read.created = 99;
        state.paired.fault = Some(8);
        state.paired.counts.base_amount = 5;
        (state.checked, state.assumed) = (3, 20);
        state.undo = vec![UndoAt { index: 1, at: FlatFilePos { file: 2, pos: 8 } }];
        let base = Hash([1; 32]);
        let target = Hash([2; 32]);
        let kind = "kind".to_string();
        let key = Key { base, target, kind };
        let parts = parts.save().unwrap();
        let positions = Hash([3; 32]);
        let hash_key = HashKey::new([4; 32]);
        let saved = Saved { key, hash_key, layout, state, positions, parts };
        let file = saved.to_bytes();
        assert!(Saved::parse(&file).unwrap() == saved);
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] ^= 1;
            assert!(Saved::parse(&damaged).is_none() && Saved::parse(&file[..at]).is_none());
        }
    }

    /// They tell a fuzzer nothing if they are of an older version.
    #[test]
    fn the_seeds_of_the_fuzzer_are_read() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/join_progress");
        for seed in ["reading", "matching", "checking"] {
            let bytes = std::fs::read(seeds.join(seed)).unwrap();
            assert!(rewrite_join_progress(&bytes[1..]).is_some(), "{seed}");
        }
    }
}
