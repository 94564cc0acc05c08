//! `apus export --match`: the history of output descriptors.

use std::path::Path;

use apus_descriptors::Range;
use apus_export::Format;
use apus_tables::{HISTORY, HistoryExported};
use clap::Args;
use serde::Serialize;

use super::numbers::{precise, thousands};

/// The most heights that a message names.
const NAMED_MAX: usize = 20;
/// The inverse of the rate at which a filter matches a script by mistake (BIP158).
const FILTER_M: u64 = 784_931;

#[derive(Args)]
pub struct MatchArgs {
    /// Write the history of this output descriptor in place of a table: each output that pays to
    /// one of its scripts, and each input that spends one. May be given several times.
    ///
    /// It is a descriptor as of Bitcoin Core, such as those of `listdescriptors`, with public keys
    /// and with or without its checksum: wpkh(), pkh(), sh(), wsh() with miniscript, tr(), combo(),
    /// addr(), raw(), and others. Neither a wallet nor a rescan is needed.
    ///
    /// With blockfilterindex (`apus index blockfilterindex`) only the blocks that match are read,
    /// which takes seconds. Otherwise all are read. In a pruned directory, blocks that match and
    /// are not stored are named, and the exit status is 3.
    #[arg(long = "match", value_name = "DESCRIPTOR")]
    pub descriptors: Vec<String>,
    /// The indexes of descriptors that end in *: 0 to N, or [N,N] [default: 1000].
    ///
    /// A wallet that has given out more addresses needs a larger range. A warning says when the
    /// last indexes are used, so that there may be more.
    #[arg(long, value_name = "N", value_parser = range)]
    pub range: Option<Range>,
}

#[derive(Serialize)]
pub struct HistoryJson {
    file: String,
    table: &'static str,
    format: String,
    start_height: u32,
    stop_height: u32,
    bestblock: String,
    rows: u64,
    bytes: u64,
    scripts: u64,
    filters: u32,
    blocks_read: u32,
    blocks_pruned: Vec<u32>,
    range_too_small: Vec<u32>,
    seconds: f64,
    interrupted: bool,
}

/// Parses a range as Bitcoin Core takes it: `N` or `[N,N]`.
fn range(text: &str) -> Result<Range, String> {
    let number = |text: &str| {
        text.trim().parse::<i64>().map_err(|_| format!("'{text}' is neither N nor [N,N]"))
    };
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    let (begin, end) = match inner {
        Some(inner) => match inner.split_once(',') {
            Some((begin, end)) => (number(begin)?, number(end)?),
            None => return Err(format!("'{text}' is neither N nor [N,N]")),
        },
        None => (0, number(text)?),
    };
    Range::new(begin, end).map_err(|error| error.to_string())
}

impl HistoryJson {
    /// Returns what `--json` prints.
    pub fn new(history: &HistoryExported, path: &Path, format: Format) -> Self {
        let exported = &history.exported;
        Self {
            file: path.display().to_string(),
            table: HISTORY.name,
            format: format!("{format:?}").to_lowercase(),
            start_height: exported.heights.0,
            stop_height: exported.heights.1,
            bestblock: exported.best_block.to_string(),
            rows: exported.rows,
            bytes: exported.bytes,
            scripts: history.scripts,
            filters: history.filters,
            blocks_read: history.blocks_read,
            blocks_pruned: history.blocks_pruned.clone(),
            range_too_small: history.near_end.iter().map(|near| near.descriptor).collect(),
            seconds: exported.elapsed.as_secs_f64(),
            interrupted: exported.interrupted,
        }
    }

    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("plain data")
    }
}

/// Returns the report of a history that was written to a file.
pub fn text(history: &HistoryExported, path: &Path) -> String {
    let exported = &history.exported;
    if exported.interrupted {
        return format!("Interrupted: {} was not written", path.display());
    }
    let (start, stop) = exported.heights;
    format!(
        "history: {} rows of heights {} to {}, tip {}\n\
         {} scripts, {}\n\
         {} bytes in {}, written in {}",
        thousands(exported.rows),
        thousands(start.into()),
        thousands(stop.into()),
        exported.best_block,
        thousands(history.scripts),
        blocks(history),
        thousands(exported.bytes),
        path.display(),
        precise(exported.elapsed),
    )
}

/// Returns which blocks were read, and why.
fn blocks(history: &HistoryExported) -> String {
    let read = thousands(history.blocks_read.into());
    match history.filters {
        0 => format!(
            "{read} blocks read, without filters (`apus index blockfilterindex` makes the next \
             history a matter of seconds)"
        ),
        filters => {
            format!("{read} blocks read, found by the filters of {}", thousands(filters.into()))
        }
    }
}

/// Returns what the history may lack; nothing if it is complete.
pub fn warnings(history: &HistoryExported) -> Vec<String> {
    let mut warnings = Vec::new();
    let pruned = &history.blocks_pruned;
    if !pruned.is_empty() {
        let named: Vec<String> = pruned.iter().take(NAMED_MAX).map(u32::to_string).collect();
        let more = match pruned.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {} more, which --json lists", thousands(more as u64)),
        };
        let by_mistake = u64::from(history.filters) * history.scripts / FILTER_M;
        warnings.push(format!(
            "Warning: this history is incomplete. {} blocks match by their filters, but are pruned \
             and were not read: {}{more}. Of all blocks, about {} match by mistake",
            thousands(pruned.len() as u64),
            named.join(", "),
            thousands(by_mistake),
        ));
    }
    for near in &history.near_end {
        warnings.push(format!(
            "Warning: descriptor {} is used up to index {}, near the end of the range: a larger \
             --range may find more",
            near.descriptor, near.index
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_as_for_bitcoin_core() {
        assert_eq!(range("20"), Ok(Range { begin: 0, end: 20 }));
        assert_eq!(range("[5,20]"), Ok(Range { begin: 5, end: 20 }));
        assert_eq!(range("[5, 20]"), Ok(Range { begin: 5, end: 20 }));
        for wrong in ["", "x", "[5]", "[5,20", "5,20", "[1,2,3]", "-1", "[20,5]", "1000000"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
