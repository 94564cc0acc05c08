//! Blocks that a data directory calls invalid, and entries of its block index that are not
//! Bitcoin's: found, and reconsidered (Core's `reconsiderblock`, for a directory at rest).
//!
//! A mark says that some program, by its rules at that time, refused a block. Nothing here decides
//! whether it was right, or whose it is: without its mark a block is checked as any other, and
//! marked again if it is invalid.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

use apus_chain::{BlockId, Tree};
use apus_coins::Chainstate;
use apus_consensus::proof_of_work;
use apus_disk::{Disk, StoreError};
use apus_hash::{Hash, hex};
use apus_progress::words::thousands;
use apus_store::{BlockStatus, DataDir, IndexDb, IndexEntry, IndexSurvey, block_key};
use apus_wire::Network;

use super::directory::open_directory;
use super::error::SyncError;
use super::options::Options;

/// The entries of a data directory to reconsider.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Doubtful {
    /// Height of the best block of the UTXO set.
    pub height: u32,
    /// Time in its header, in seconds since 1970.
    pub time: u32,
    /// Whether block files were ever pruned.
    pub pruned: bool,
    /// Number of blocks that are marked invalid, themselves or by an ancestor.
    pub marked: usize,
    /// Height of the lowest marked block.
    pub marked_from: u32,
    /// Number of entries that are not Bitcoin's.
    pub left_out: usize,
    /// The key of the first of these, and what is wrong with it.
    pub first_left_out: String,
    /// Number of records of kinds that Bitcoin Core does not read.
    pub unknown: usize,
    /// The key of the first of these.
    pub first_unknown: String,
}

impl Doubtful {
    pub fn is_none(&self) -> bool {
        self.marked == 0 && self.left_out == 0
    }

    fn marked_words(&self) -> String {
        let from = thousands(u64::from(self.marked_from));
        format!("{} from height {from} on", counted(self.marked, ["block", "blocks"]))
    }

    /// Returns words for the entries that are not Bitcoin's.
    fn left_out_words(&self) -> String {
        format!(
            "{} of the block index that are not of Bitcoin's chain; the first: {}",
            counted(self.left_out, ["entry", "entries"]),
            self.first_left_out
        )
    }

    /// Returns messages for the user about the changes, one for each kind.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.marked > 0 {
            notes.push(format!("Reconsidered {}, marked invalid before", self.marked_words()));
        }
        if self.left_out > 0 {
            notes.push(format!("Warning: removed {}", self.left_out_words()));
        }
        if self.unknown > 0 {
            notes.push(format!(
                "Warning: the block index holds {} of kinds that Bitcoin Core does not read, which \
                 are passed over; the key of the first: {}",
                counted(self.unknown, ["record", "records"]),
                self.first_unknown
            ));
        }
        notes
    }
}

/// Words for a block index in which something is to be reconsidered.
impl fmt::Display for Doubtful {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.marked, self.left_out) {
            (_, 0) => write!(f, "{} marked invalid", self.marked_words()),
            (0, _) => write!(f, "{}", self.left_out_words()),
            _ => write!(f, "{} marked invalid; {}", self.marked_words(), self.left_out_words()),
        }
    }
}

fn counted(count: usize, words: [&str; 2]) -> String {
    format!("{} {}", thousands(count as u64), words[usize::from(count != 1)])
}

/// A chain with more work than the one in use, which the block index calls invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkedChain {
    /// Height of its first block that is marked.
    pub from: u32,
    /// Height of its last block.
    pub to: u32,
}

impl MarkedChain {
    /// Finds the one with the most work.
    pub fn of(tree: &Tree, tip: BlockId) -> Option<Self> {
        let failed = tree.ids().filter(|id| tree.node(*id).failed);
        let best = failed.max_by_key(|id| (tree.node(*id).work, Reverse(*id)))?;
        if tree.node(best).work <= tree.node(tip).work {
            return None;
        }
        let first = tree.ancestors(best).take_while(|id| tree.node(*id).failed).last()?;
        Some(Self { from: tree.height(first), to: tree.height(best) })
    }
}

impl fmt::Display for MarkedChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [from, to] = [self.from, self.to].map(|height| thousands(u64::from(height)));
        write!(
            f,
            "the block index marks blocks {from} to {to} as invalid, of a chain with more work \
             than this one; if another program marked them (Bitcoin Knots, bitcoind's \
             invalidateblock), `apus sync --reconsider` checks them again"
        )
    }
}

/// Finds what is to be reconsidered in a directory, which is only read.
pub fn doubtful(options: &Options) -> Result<Doubtful, SyncError> {
    let disk = Disk::new();
    let dir = open_directory(options, &disk, true)?;
    let index = IndexDb::open_read_only(&disk, &dir.index_path())?;
    Ok(judge(&dir, &index, &options.network)?.doubtful)
}

/// Removes from the block index all marks of invalid blocks, and the entries that are not
/// Bitcoin's, in one step. Returns what was found; a directory without a block index is left
/// unchanged.
///
/// # Errors
/// The directory is in use or cannot be read, the best block of its UTXO set is not Bitcoin's, or
/// the options about pruning do not fit it: nothing is changed then.
pub fn reconsider(options: &Options, disk: &Disk) -> Result<Doubtful, SyncError> {
    if !options.network_dir().join("blocks/index/CURRENT").is_file() {
        return Ok(Doubtful::default());
    }
    let dir = open_directory(options, disk, false)?;
    let index = IndexDb::open_read_only(disk, &dir.index_path())?;
    let Judged { doubtful, changed, left_out } = judge(&dir, &index, &options.network)?;
    drop(index);
    dir.check_pruned(doubtful.pruned)?;
    if options.prune.is_some() && !doubtful.pruned && !options.allow_delete_blocks {
        return Err(SyncError::WrongOptions(
            "--reconsider and --prune, in a directory that was never pruned: run `apus sync \
             --reconsider` first, and then `apus sync --prune=MIB`"
                .to_string(),
        ));
    }
    if !doubtful.is_none() {
        IndexDb::open(disk, &dir.index_path())?.correct(&changed, &left_out)?;
    }
    Ok(doubtful)
}

/// The new content of a block index.
struct Judged {
    doubtful: Doubtful,
    /// The entries whose marks are removed.
    changed: Vec<IndexEntry>,
    /// The keys of records to delete.
    left_out: Vec<Vec<u8>>,
}

/// Reads the block index, and decides about each of its entries.
fn judge(dir: &DataDir, index: &IndexDb, network: &Network) -> Result<Judged, SyncError> {
    let IndexSurvey { mut entries, mut strangers, unknown, pruned } = index.survey()?;
    entries.sort_unstable_by_key(|entry| entry.height);
    let mut kept: Vec<IndexEntry> = Vec::with_capacity(entries.len());
    let mut places: HashMap<Hash, usize> = HashMap::with_capacity(entries.len());
    for entry in entries {
        let parent = places.get(&entry.header.prev).map(|at| kept[*at].height);
        let wrong = if entry.hash == network.genesis_hash {
            None
        } else if !proof_of_work(&entry.hash, entry.header.bits, network) {
            Some("has no valid proof of work")
        } else if parent.is_none_or(|parent| parent + 1 != entry.height) {
            Some("has no parent, or a height that does not follow its parent's")
        } else {
            None
        };
        match wrong {
            None => {
                places.insert(entry.hash, kept.len());
                kept.push(entry);
            }
            Some(what) => {
                let what = format!("the entry of block {} {what}", entry.hash);
                strangers.push((block_key(&entry.hash), what));
            }
        }
    }
    if kept.is_empty() && !strangers.is_empty() {
        index.load(network)?;
    }
    let best = find_best(dir, &places)?;
    let mut active = vec![false; kept.len()];
    let mut next = best;
    while let Some(at) = next {
        active[at] = true;
        next = places.get(&kept[at].header.prev).copied();
    }
    let changed = without_marks(&kept, &places, &active);
    let best = best.map(|at| kept[at]).unwrap_or_default();
    let doubtful = Doubtful {
        height: best.height,
        time: best.header.time,
        pruned,
        marked: changed.len(),
        marked_from: changed.iter().map(|entry| entry.height).min().unwrap_or(0),
        left_out: strangers.len(),
        first_left_out: strangers.first().map_or(String::new(), |(_, what)| what.clone()),
        unknown: unknown.len(),
        first_unknown: unknown.first().map_or(String::new(), |key| hex(key)),
    };
    let left_out = strangers.into_iter().map(|(key, _)| key).collect();
    Ok(Judged { doubtful, changed, left_out })
}

/// Returns where the best block of the UTXO set is among the entries; `None` if there is no set.
fn find_best(dir: &DataDir, places: &HashMap<Hash, usize>) -> Result<Option<usize>, StoreError> {
    let path = dir.chainstate_path();
    if !path.join("CURRENT").is_file() {
        return Ok(None);
    }
    let Some(best) = Chainstate::open_read_only(dir.disk(), &path)?.best_block()? else {
        return Ok(None);
    };
    places.get(&best).map(|at| Some(*at)).ok_or_else(|| {
        let what = format!(
            "the entry of its best block {best} in the block index is not of Bitcoin's chain, or \
             is missing or damaged, so nothing was changed: `apus reindex --index --allow-shrink` \
             builds the block index and the UTXO set again, from those blocks in the block files \
             that are valid"
        );
        StoreError::new(path, what)
    })
}

/// Returns the marked entries without their marks. Marks of old versions of Core are on the invalid
/// block alone, and count for all blocks that build on it. What a marked block has passed does not
/// count any more, unless the UTXO set is built on it.
fn without_marks(
    entries: &[IndexEntry],
    places: &HashMap<Hash, usize>,
    active: &[bool],
) -> Vec<IndexEntry> {
    let mut is_marked = vec![false; entries.len()];
    let mut changed = Vec::new();
    for (at, entry) in entries.iter().enumerate() {
        let is_of_marked = places.get(&entry.header.prev).is_some_and(|parent| is_marked[*parent]);
        is_marked[at] = is_of_marked || entry.record.status.is_failed();
        if !is_marked[at] {
            continue;
        }
        let mut entry = *entry;
        let status = &mut entry.record.status;
        status.0 &= !(BlockStatus::BLOCK_FAILED_VALID | BlockStatus::BLOCK_FAILED_CHILD);
        if !active[at] && status.is_valid(BlockStatus::BLOCK_VALID_CHAIN) {
            status.lower_validity(BlockStatus::BLOCK_VALID_TRANSACTIONS);
        }
        changed.push(entry);
    }
    changed
}
