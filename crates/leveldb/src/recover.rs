use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use apus_disk::{Caching, Disk, Result, StoreError};

use super::format::{
    FileName, SEQUENCE_MAX, get_slice, get_u32, get_u64, log_path, parse_name, table_path,
};
use super::log::LogReader;
use super::options::Options;
use super::state::DbState;
use super::table_writer::TableWriter;
use super::version::LevelTable;

/// Number of bytes of keys and values that are gathered from logs before they are written to
/// tables.
const MEMORY_BYTES_MAX: usize = 256 << 20;
/// Length in bytes of the header of a batch: sequence number and count.
const BATCH_HEADER_BYTES: usize = 12;

/// The newest entry of each key in the logs.
type Memory = BTreeMap<Vec<u8>, LogEntry>;

/// An entry read from a log.
struct LogEntry {
    sequence: u64,
    /// `None` if the key is deleted.
    value: Option<Vec<u8>>,
}

/// Writes the changes in logs that no table holds yet to tables of level 0, and updates `state`. If
/// the database is opened for reading only, the tables are kept in memory.
pub(super) fn recover_logs(
    disk: &Disk,
    dir: &Path,
    names: &[String],
    options: &Options,
    state: &mut DbState,
) -> Result<Vec<LevelTable>> {
    let wanted = |number: u64| {
        number >= state.log_number || (number == state.prev_log_number && number != 0)
    };
    let log = |name: &String| match parse_name(name) {
        Some(FileName::Log(number)) if wanted(number) => Some(number),
        _ => None,
    };
    let mut logs: Vec<u64> = names.iter().filter_map(log).collect();
    logs.sort_unstable();
    let mut memory = Memory::new();
    let mut bytes = 0;
    let mut tables = Vec::new();
    for number in logs {
        let path = log_path(dir, number);
        let log = disk.read(&path)?.unwrap_or_default();
        let mut reader = LogReader::new(&path, &log);
        loop {
            let offset = reader.offset();
            let Some(record) = reader.next_record()? else { break };
            bytes += record.len();
            let last = read_batch(record, &mut memory).ok_or_else(|| {
                StoreError::corrupt(&path, offset, "a batch of changes in the log is damaged")
            })?;
            state.last_sequence = state.last_sequence.max(last);
            if bytes > MEMORY_BYTES_MAX {
                write_tables(disk, dir, options, state, &mut memory, &mut tables)?;
                bytes = 0;
            }
        }
    }
    write_tables(disk, dir, options, state, &mut memory, &mut tables)?;
    Ok(tables)
}

/// Adds the entries of a batch to `memory`, and returns the last sequence number that the batch
/// uses; `None` if it is damaged.
fn read_batch(batch: &[u8], memory: &mut Memory) -> Option<u64> {
    let first = get_u64(batch, 0).filter(|first| *first <= SEQUENCE_MAX)?;
    let count = u64::from(get_u32(batch, 8)?);
    let mut at = BATCH_HEADER_BYTES;
    let mut sequence = first;
    while at < batch.len() {
        let kind = batch[at];
        at += 1;
        let key = get_slice(batch, &mut at)?;
        let value = match kind {
            0 => None,
            1 => Some(get_slice(batch, &mut at)?.to_vec()),
            _ => return None,
        };
        if sequence > SEQUENCE_MAX {
            return None;
        }
        memory.insert(key.to_vec(), LogEntry { sequence, value });
        sequence += 1;
    }
    (sequence - first == count).then(|| sequence.saturating_sub(1))
}

/// Writes `memory` to tables and empties it.
fn write_tables(
    disk: &Disk,
    dir: &Path,
    options: &Options,
    state: &mut DbState,
    memory: &mut Memory,
    tables: &mut Vec<LevelTable>,
) -> Result<()> {
    let mut writer: Option<TableWriter> = None;
    let mut end = |writer: TableWriter| {
        let (table, file) = writer.finish()?;
        tables.push(LevelTable { level: 0, table: Arc::new(table) });
        file.map_or(Ok(()), |file| file.sync())
    };
    for (key, LogEntry { sequence, value }) in std::mem::take(memory) {
        let table = match &mut writer {
            Some(table) => table,
            None => {
                let number = state.next_file;
                state.next_file += 1;
                let path = table_path(dir, number);
                writer.insert(if options.read_only {
                    TableWriter::in_memory(disk, path, number, options)
                } else {
                    TableWriter::create(disk, path, number, options, Caching::PageCache)?
                })
            }
        };
        table.add(&key, sequence, value.as_deref())?;
        if table.bytes() >= options.table_bytes_max {
            writer.take().map_or(Ok(()), &mut end)?;
        }
    }
    writer.map_or(Ok(()), end)
}
