//! The results of tasks: the names of their packs, the notes in them, and what follows from those
//! that are there.

use std::collections::HashSet;

use apus_disk::{PartBuffer, Parts, StoreError};
use apus_join::batches;
use apus_node::block::script_difference::ScriptDifference;
use apus_node::sealed::{counts, numbers, put_counts, put_numbers};
use apus_progress::outcome::Counts;
use apus_sync::join::{PairCounts, ReadCounts};
use apus_wire::{Cursor, ParseError};

use super::job::Job;
use super::stage::Stage;
use crate::objects::{Pack, PackWriter};

/// Bytes of a part that are stored as one piece, if they are not one batch.
const PIECE_BYTES: usize = 4 << 20;

/// The note on a block that was read.
#[derive(Clone, Copy)]
pub struct BlockNote {
    /// The number of its transactions.
    pub tx_count: u32,
    /// The keyed hash of its bytes.
    pub digest: [u8; 16],
}

/// The result of a task that reads.
pub struct ReadNote {
    /// The height of the first block that cannot be right, below which the span ends.
    pub fault: Option<u32>,
    /// The counts of the blocks below that.
    pub read: ReadCounts,
    /// A note on each of them.
    pub blocks: Vec<BlockNote>,
}

impl ReadNote {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let ReadCounts { counts, created, inside, early, late } = &self.read;
        put_numbers(&mut out, &[height(self.fault), *created, *inside, *early, *late]);
        put_counts(&mut out, counts);
        for BlockNote { tx_count, digest } in &self.blocks {
            out.extend_from_slice(&tx_count.to_le_bytes());
            out.extend_from_slice(digest);
        }
        out
    }

    fn read(cursor: &mut Cursor) -> Result<Self, ParseError> {
        let [fault, created, inside, early, late] = numbers(cursor)?;
        let counts: Counts = counts(cursor)?;
        let mut blocks = Vec::new();
        while cursor.remaining() > 0 {
            blocks.push(BlockNote { tx_count: cursor.u32()?, digest: cursor.array()? });
        }
        let read = ReadCounts { counts, created, inside, early, late };
        Ok(Self { fault: fault_at(fault), read, blocks })
    }
}

/// The result of a task that matches.
pub struct MatchNote {
    /// The height of the lowest block that the partition refuses. Its other results do not count
    /// then.
    pub fault: Option<u32>,
    /// The counts of its outputs.
    pub counts: PairCounts,
}

impl MatchNote {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let PairCounts { taken, left, left_amount, overwritten, .. } = self.counts;
        put_numbers(&mut out, &[height(self.fault), taken, left, left_amount, overwritten]);
        out
    }

    fn read(cursor: &mut Cursor) -> Result<Self, ParseError> {
        let [fault, taken, left, left_amount, overwritten] = numbers(cursor)?;
        let counts = PairCounts { taken, left, left_amount, overwritten, ..PairCounts::default() };
        Ok(Self { fault: fault_at(fault), counts })
    }
}

/// Returns the bytes of the note of a task that checks: the height of the first block that it
/// refuses, if there is one.
pub fn check_note(fault: Option<u32>) -> Vec<u8> {
    height(fault).to_le_bytes().to_vec()
}

fn height(fault: Option<u32>) -> u64 {
    fault.map_or(0, u64::from)
}

fn fault_at(number: u64) -> Option<u32> {
    Some(number as u32).filter(|height| *height > 0)
}

/// The results that are there, and how far the job reaches by them.
pub struct Results {
    /// The first height after the last block that may be right, as far as the results tell.
    pub end: u32,
    /// The stage whose results are missing first, and the numbers of the tasks that have none.
    pub stage: Stage,
    /// The numbers of the tasks of that stage that have no result yet.
    pub missing: Vec<usize>,
    /// For each span that begins before `end`, its result if it is there.
    pub read: Vec<Option<(Pack, ReadNote)>>,
    /// The results of all partitions; empty before all are matched.
    pub matched: Vec<(Pack, MatchNote)>,
    /// The results of all buckets; empty before all are checked.
    pub checked: Vec<Pack>,
    /// Whether a task has met a script about which the engines disagree.
    pub has_difference: bool,
}

impl Results {
    /// Finds out which results are there. A block that one of them refuses ends the job below it:
    /// the tasks that looked at later blocks are then missing again, up to there. This is the same
    /// in every process, since results never change.
    pub fn find(job: &Job) -> Result<Self, StoreError> {
        let names: HashSet<String> = job.objects.names()?.into_iter().collect();
        let is_there = |name: &str| names.contains(&format!("{name}.done"));
        let counts = job.counts();
        let mut end = job.whole_end();
        loop {
            let spans = (0..counts.spans).filter(|span| !job.span(*span, end).is_empty());
            let read: Vec<Option<(Pack, ReadNote)>> = spans
                .map(|span| {
                    open(job, &Stage::Read.pack(span, job.span(span, end).end), ReadNote::read)
                })
                .collect::<Result<_, _>>()?;
            let faults = read.iter().flatten().filter_map(|(_, note)| note.fault);
            if let Some(fault) = faults.min().filter(|fault| *fault < end) {
                end = fault;
                continue;
            }
            let mut results = Self {
                end,
                stage: Stage::Read,
                missing: missing(read.len(), |span| read[span].is_some()),
                read,
                matched: Vec::new(),
                checked: Vec::new(),
                has_difference: names.iter().any(|name| ScriptDifference::is_name(name)),
            };
            if !results.missing.is_empty() {
                return Ok(results);
            }
            results.stage = Stage::Match;
            // Without a block there is nothing to match.
            let partitions = if end > 1 { counts.partitions } else { 0 };
            let name = |number: usize| Stage::Match.pack(number, end);
            let open_it = |number| open(job, &name(number), MatchNote::read);
            let matched = match open_all(partitions, |number| is_there(&name(number)), open_it)? {
                Ok(matched) => matched,
                Err(missing) => {
                    results.missing = missing;
                    return Ok(results);
                }
            };
            if let Some(fault) = matched.iter().filter_map(|(_, note)| note.fault).min() {
                end = fault;
                continue;
            }
            results.matched = matched;
            results.stage = Stage::Check;
            let end_of = |number: usize| job.bucket(number, end).end;
            let buckets =
                (0..counts.buckets).take_while(|number| !job.bucket(*number, end).is_empty());
            let buckets = buckets.count();
            let name = |number: usize| Stage::Check.pack(number, end_of(number));
            let open_it = |number| job.pack(&name(number));
            let checked = match open_all(buckets, |number| is_there(&name(number)), open_it)? {
                Ok(checked) => checked,
                Err(missing) => {
                    results.missing = missing;
                    return Ok(results);
                }
            };
            let faults: Vec<Option<u32>> = checked
                .iter()
                .map(|pack| note_of(job, pack, numbers).map(|[fault]| fault_at(fault)))
                .collect::<Result<_, _>>()?;
            if let Some(fault) = faults.into_iter().flatten().min() {
                end = fault;
                continue;
            }
            results.checked = checked;
            results.stage = Stage::Finish;
            return Ok(results);
        }
    }
}

/// Returns whether a task has a result for any last height.
pub fn has_result(job: &Job, stage: Stage, number: usize) -> Result<bool, StoreError> {
    let start = format!("{}-{number:05}-", stage.name());
    let is_it = |name: &String| name.starts_with(&start) && name.ends_with(".done");
    Ok(job.objects.names()?.iter().any(is_it))
}

/// Returns the numbers below `count` for which `is_there` is false.
fn missing(count: usize, is_there: impl Fn(usize) -> bool) -> Vec<usize> {
    (0..count).filter(|number| !is_there(*number)).collect()
}

fn open<T>(
    job: &Job,
    name: &str,
    read: impl Fn(&mut Cursor) -> Result<T, ParseError>,
) -> Result<Option<(Pack, T)>, StoreError> {
    job.pack(name)?.map(|pack| with_note(job, pack, read)).transpose()
}

/// Opens the results with the numbers below `count`, once all of them are there; the inner error
/// has the numbers of the missing and damaged ones.
fn open_all<T>(
    count: usize,
    is_there: impl Fn(usize) -> bool,
    open: impl Fn(usize) -> Result<Option<T>, StoreError>,
) -> Result<Result<Vec<T>, Vec<usize>>, StoreError> {
    let missing_names = missing(count, is_there);
    if !missing_names.is_empty() {
        return Ok(Err(missing_names));
    }
    let opened: Vec<Option<T>> = (0..count).map(open).collect::<Result<_, _>>()?;
    let missing = missing(count, |number| opened[number].is_some());
    Ok(if missing.is_empty() { Ok(opened.into_iter().flatten().collect()) } else { Err(missing) })
}

fn with_note<T>(
    job: &Job,
    pack: Pack,
    read: impl Fn(&mut Cursor) -> Result<T, ParseError>,
) -> Result<(Pack, T), StoreError> {
    let note = note_of(job, &pack, read)?;
    Ok((pack, note))
}

fn note_of<T>(
    job: &Job,
    pack: &Pack,
    read: impl Fn(&mut Cursor) -> Result<T, ParseError>,
) -> Result<T, StoreError> {
    let read = read(&mut Cursor::new(&pack.note));
    read.map_err(|error| StoreError::new(job.objects.path(pack.name()), error.to_string()))
}

/// Copies all bytes of a part to the part `number` of a pack, whole batches at a time.
pub fn store(
    writer: &mut PackWriter,
    number: usize,
    parts: &Parts,
    part: usize,
) -> Result<(), StoreError> {
    let mut buffer = PartBuffer::new();
    parts.for_each_piece(part, &mut buffer, |piece| {
        let mut start = 0;
        for batch in batches(piece, 0..piece.len()) {
            let (_, records) = batch.expect("a part holds whole batches of this process");
            if records.end - start >= PIECE_BYTES {
                writer.append(number as u32, &piece[start..records.end])?;
                start = records.end;
            }
        }
        writer.append(number as u32, &piece[start..])
    })
}
