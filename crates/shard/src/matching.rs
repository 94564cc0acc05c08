//! The second stage: matches the outputs and the spends of a partition of txids.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use apus_coins::{ChangeSink, decode_coin_key};
use apus_disk::{Parts, StoreError};
use apus_node::error::SyncError;
use apus_sync::join::Pairer;

use super::ahead::Ahead;
use super::errors::error;
use super::job::Job;
use super::results::{MatchNote, Results, store};
use super::stage::Stage;
use super::task::Task;
use crate::objects::{Pack, PackWriter};

/// The part of a result that has the unspent coins; those of buckets follow.
pub const COINS: u32 = 0;
/// Spans whose records are read before they are used.
const SPANS_AHEAD: usize = 8;
/// Bytes of unspent coins that are written at a time.
const PIECE_BYTES: usize = 4 << 20;

/// Matches a partition. The result has its unspent coins, in the order of the chainstate's keys,
/// and for each bucket the coins that its blocks spend.
pub fn match_partition(
    job: &Job,
    number: usize,
    results: &Arc<Results>,
    stop: &AtomicBool,
) -> Result<(), SyncError> {
    let end = results.end;
    let layout = &job.manifest.layout;
    let name = Stage::Match.pack(number, end);
    let task = Task::new(job, end, job.manifest.engine)?;
    let parts = task.parts();
    load_partition(job, number, results, &parts)?;
    if stop.load(Relaxed) {
        return Err(SyncError::Stopped);
    }
    let mut writer = PackWriter::begin(&job.objects, &name, job.id)?;
    let source = job.counts().spans as u32 + 1;
    let none = std::collections::HashSet::new();
    let (counts, fault) = task
        .with_context(end..end, &parts, |context, _| {
            let mut coins = CoinPieces { writer: &mut writer, bytes: Vec::new() };
            let mut pairer = Pairer::new(context, source, &none)?;
            pairer.partition(number, &mut coins)?;
            coins.flush()?;
            Ok((pairer.finish()?, context.fault()))
        })
        .map_err(|fault| error(job, fault))?;
    if fault.is_none() {
        for bucket in 0..layout.buckets() {
            store(&mut writer, 1 + bucket, &parts, layout.first_bucket() + bucket)?;
        }
    }
    Ok(writer.finish(&MatchNote { fault, counts }.to_bytes())?)
}

/// Loads the outputs and spends of a partition from all spans.
fn load_partition(
    job: &Job,
    number: usize,
    results: &Arc<Results>,
    parts: &Parts,
) -> Result<(), StoreError> {
    let results = Arc::clone(results);
    let objects = Arc::clone(&job.objects);
    let count = results.read.len();
    let outputs = 2 * number as u32;
    let read = move |span: usize| -> Result<Vec<(u32, Vec<u8>)>, StoreError> {
        let mut pieces = Vec::new();
        let (pack, _) = results.read[span].as_ref().expect("all spans are read");
        pack.read(&objects, outputs..outputs + 2, |part, bytes| {
            pieces.push((part, bytes.to_vec()));
            Ok::<(), StoreError>(())
        })?;
        Ok(pieces)
    };
    let layout = &job.manifest.layout;
    let spans = Ahead::new(count, SPANS_AHEAD, read);
    while let Some(pieces) = spans.next() {
        for (part, bytes) in pieces? {
            let part = if part == outputs { layout.outputs(number) } else { layout.spends(number) };
            parts.append(part, &bytes)?;
        }
    }
    Ok(())
}

/// The unspent coins of a partition, which go to its result: for each the length of its key, in one
/// byte, that of its value in two, key and value.
struct CoinPieces<'a, 'b> {
    writer: &'a mut PackWriter<'b>,
    bytes: Vec<u8>,
}

impl CoinPieces<'_, '_> {
    fn flush(&mut self) -> Result<(), StoreError> {
        self.writer.append(COINS, &self.bytes)?;
        self.bytes.clear();
        Ok(())
    }
}

impl ChangeSink for CoinPieces<'_, '_> {
    fn put(&mut self, key: &[u8], coin: &mut [u8]) -> Result<(), StoreError> {
        self.bytes.push(key.len() as u8);
        self.bytes.extend_from_slice(&(coin.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(coin);
        if self.bytes.len() >= PIECE_BYTES { self.flush() } else { Ok(()) }
    }

    fn delete(&mut self, _key: &[u8]) -> Result<(), StoreError> {
        unreachable!("a job begins with no coins, so it deletes none")
    }
}

/// Calls `each` with the key and value of each unspent coin in the result of the partition
/// `number`.
///
/// # Errors
/// The result cannot be read, its coins are not in order or not of this partition, or `each` fails.
pub fn for_each_coin(
    job: &Job,
    (number, pack): (usize, &Pack),
    mut each: impl FnMut(&[u8], &mut [u8]) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let wrong = || {
        let what = "its coins are not as a task writes them";
        StoreError::new(job.objects.path(pack.name()), what)
    };
    let mut last = Vec::new();
    let mut piece = Vec::new();
    pack.read(&job.objects, COINS..COINS + 1, |_, bytes| {
        piece.clear();
        piece.extend_from_slice(bytes);
        let mut rest = &mut piece[..];
        while !rest.is_empty() {
            let (key, value, after) = split_coin(rest).ok_or_else(wrong)?;
            let outpoint = decode_coin_key(key).map_err(|_| wrong())?;
            let partition = job.manifest.layout.partition_of(&outpoint.txid);
            if *key <= *last || partition != number {
                return Err(wrong());
            }
            last.clear();
            last.extend_from_slice(key);
            each(key, value)?;
            rest = after;
        }
        Ok(())
    })
}

/// Splits bytes into the key and the value of the first coin, and what follows.
fn split_coin(bytes: &mut [u8]) -> Option<(&[u8], &mut [u8], &mut [u8])> {
    let [key_len, low, high, rest @ ..] = bytes else { return None };
    let (key, rest) = rest.split_at_mut_checked(usize::from(*key_len))?;
    let (value, rest) =
        rest.split_at_mut_checked(usize::from(u16::from_le_bytes([*low, *high])))?;
    Some((key, value, rest))
}
