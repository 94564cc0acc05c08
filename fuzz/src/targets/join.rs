//! The files that a join writes: records in partitions, the spent coins of blocks, and its
//! progress.

use std::collections::{BTreeMap, HashSet};

use apus_coins::TxidHasher;
use apus_hash::{Hash, sha256d};
use apus_join::{
    BlockKind, BlockRecord, Damaged, InputNotes, LateCoin, MatchedOutput, Matcher, Replayed,
    SpendSource, Taken, TxNotes, put_block_coins, put_late_coin,
};
use apus_sync::rewrite_join_progress;
use apus_wire::{Cursor, OutPoint};

use super::input::flags;

/// The number of a source whose records are ignored.
const DROPPED: u32 = 7;

/// Reads `data` after its first byte as records. Of that byte, bit 0 chooses between those of a
/// partition and those of blocks, and bit 1 says that a partition's batches already have heads.
pub fn records(data: &[u8]) {
    let (flags, rest) = flags(data);
    match flags & 1 {
        0 => partition(rest, flags & 2 != 0),
        _ => blocks(rest),
    }
}

/// Reads `data` after its first byte as saved progress. The lowest bit of that byte says whether
/// the checksum is corrected.
pub fn progress(data: &[u8]) {
    let (flags, file) = flags(data);
    let mut file = file.to_vec();
    if let Some((content, checksum)) = file.split_last_chunk_mut::<32>().filter(|_| flags & 1 == 1)
    {
        *checksum = sha256d(content).0;
    }
    let Some(written) = rewrite_join_progress(&file) else { return };
    let again = rewrite_join_progress(&written).expect("what was written is read");
    assert!(again == written);
}

/// All results of a partition, sorted.
#[derive(Default, PartialEq, Eq, Debug)]
struct Found {
    spends: Vec<(OutPoint, u32, u32, String)>,
    taken: Vec<(u32, u32, u32, Vec<u8>)>,
    left: Vec<(OutPoint, u32, Vec<u8>)>,
    replayed: BTreeMap<Hash, Replayed>,
}

/// Matches a partition at once, and slice by slice. One byte is the number of slices, and two are
/// the number of bytes of outputs before the spends.
fn partition(data: &[u8], is_framed: bool) {
    let Some(([slices, low, high], rest)) = data.split_first_chunk() else { return };
    let outputs = usize::from(u16::from_le_bytes([*low, *high]));
    let (outputs, spends) = rest.split_at(outputs.min(rest.len()));
    let framed = |records: &[u8]| {
        if is_framed {
            records.to_vec()
        } else {
            [&[0; 4][..], &(records.len() as u32).to_le_bytes(), records].concat()
        }
    };
    let outputs = framed(outputs);
    let spends = framed(spends);
    let mut matcher = Matcher::new(TxidHasher::random());
    let dropped = HashSet::from([DROPPED]);
    let all = 0..outputs.len();
    let loaded = matcher.load(&outputs, std::slice::from_ref(&all), &dropped);
    let at_once =
        loaded.and_then(|()| found(&mut matcher, &outputs, &spends, None).map(Found::sorted));
    let sliced = in_slices(&mut matcher, &outputs, &spends, 1 + u64::from(slices % 4));
    match (at_once, sliced) {
        (Ok(at_once), Ok(sliced)) => assert_eq!(at_once, sliced),
        (at_once, sliced) => assert!(at_once.is_err() && sliced.is_err()),
    }
}

fn in_slices(
    matcher: &mut Matcher,
    outputs: &[u8],
    spends: &[u8],
    count: u64,
) -> Result<Found, Damaged> {
    let mut all = Found::default();
    for slice in 0..count {
        matcher.clear();
        let mut bytes = Vec::new();
        matcher.keep_slice(outputs, &HashSet::from([DROPPED]), (slice, count), &mut bytes)?;
        let range = 0..bytes.len();
        matcher.load(&bytes, std::slice::from_ref(&range), &HashSet::new())?;
        all.add(found(matcher, &bytes, spends, Some((slice, count)))?);
    }
    Ok(all.sorted())
}

/// Returns the results of the outputs that `matcher` has loaded from `bytes`.
fn found(
    matcher: &mut Matcher,
    bytes: &[u8],
    spends: &[u8],
    slice: Option<(u64, u64)>,
) -> Result<Found, Damaged> {
    let mut found = Found::default();
    for outpoint in matcher.may_exist(bytes) {
        if outpoint.txid.0[31] & 1 == 1 {
            matcher.add_base(bytes, &outpoint, 2, vec![0, 6]);
        }
    }
    let dropped = HashSet::from([DROPPED]);
    matcher.take_all(bytes, spends, &dropped, slice, |spend, taken: Taken| {
        let taken = format!("{taken:?}");
        found.spends.push((spend.outpoint, spend.height, spend.place, taken));
    })?;
    let kind = |height| match height % 3 {
        0 => BlockKind::LookUp,
        1 => BlockKind::Repeat,
        _ => BlockKind::Once,
    };
    found.replayed.extend(matcher.replayed(kind));
    matcher.for_each_taken(bytes, |height, place, MatchedOutput { code, output }| {
        found.taken.push((height, place, code, output.to_vec()));
        Ok::<(), Damaged>(())
    })?;
    matcher.for_each_left(bytes, |outpoint, MatchedOutput { code, output }| {
        let is_next = found.left.last().is_none_or(|(last, ..)| last.txid <= outpoint.txid);
        assert!(is_next, "remaining outputs are in the order of the tables");
        found.left.push((*outpoint, code, output.to_vec()));
        Ok::<(), Damaged>(())
    })?;
    Ok(found)
}

impl Found {
    fn add(&mut self, other: Self) {
        self.spends.extend(other.spends);
        self.taken.extend(other.taken);
        self.left.extend(other.left);
        self.replayed.extend(other.replayed);
    }

    fn sorted(mut self) -> Self {
        self.spends.sort();
        self.taken.sort();
        self.left.sort();
        self
    }
}

/// Checks that the records of blocks are the same bytes after they were written again.
fn blocks(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    while cursor.remaining() > 0 {
        let start = cursor.position();
        let Ok(record) = BlockRecord::read(&mut cursor) else { return };
        let mut written = Vec::new();
        match record {
            BlockRecord::Block(block) => {
                put_block_coins(&mut written, &block);
                match block.digest {
                    Some(_) => sources(block.list),
                    None => notes(block.list),
                }
            }
            BlockRecord::Late(LateCoin { height, place, coin }) => {
                let mut rest = Cursor::new(coin);
                let code = rest.varint().ok().and_then(|code| u32::try_from(code).ok());
                let Some(code) = code else { continue };
                put_late_coin(&mut written, height, place, code, &coin[rest.position()..]);
            }
        }
        assert_eq!(written, data[start..cursor.position()]);
    }
}

/// Checks that the sources of a block's coins are the same bytes after they were written again.
fn sources(list: &[u8]) {
    let mut cursor = Cursor::new(list);
    while cursor.remaining() > 0 {
        let start = cursor.position();
        let Ok(source) = SpendSource::read(&mut cursor) else { return };
        let mut written = Vec::new();
        source.put(&mut written);
        assert_eq!(written, list[start..cursor.position()]);
    }
}

/// Checks that the notes of a block are the same after they were written again.
fn notes(list: &[u8]) {
    let mut cursor = Cursor::new(list);
    let Ok(txs) = cursor.varint() else { return };
    for _ in 0..txs {
        let Ok(tx) = TxNotes::read(&mut cursor) else { return };
        let mut written = Vec::new();
        tx.put(&mut written);
        assert_eq!(TxNotes::read(&mut Cursor::new(&written)), Ok(tx));
        for _ in 0..tx.inputs {
            let Ok(input) = InputNotes::read(&tx, &mut cursor) else { return };
            written.clear();
            input.put(&tx, &mut written);
            assert_eq!(InputNotes::read(&tx, &mut Cursor::new(&written)), Ok(input));
        }
    }
}
