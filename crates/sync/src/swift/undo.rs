//! The undo data from which a SwiftSync takes the coins that blocks spend: that of the data
//! directory, or of a source. It is not trusted: the sums prove it together with the claim.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use apus_chain::BlockId;
use apus_coins::{Coin, Heights, UndoError, for_each_spending_tx};
use apus_disk::{Disk, StoreError};
use apus_node::block::prepare::{CoinSource, Prepared};
use apus_node::block::step::Step;
use apus_node::block::validate::Refused;
use apus_node::fault::Fault;
use apus_node::shared::Shared;
use apus_progress::clock::Stage;
use apus_store::{FlatFilePos, IndexDb, UndoFile, UndoRecord};

/// Where a block's undo data is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UndoAt {
    /// In the data directory.
    Stored(FlatFilePos),
    /// In the rev file next to the source file `file`, most likely in the record `guess`.
    Source { file: u32, guess: usize },
    /// Nowhere: peers send the coins that the block spends.
    Peers,
}

/// Undo data that was appended to the data directory, and that the block index does not name yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct UndoWritten {
    /// The block. It may move to another file later.
    pub id: BlockId,
    /// Where the undo data is.
    pub at: FlatFilePos,
}

/// The rev files of all sources, by the number of the source file next to each.
#[derive(Clone, Default)]
pub struct UndoCopies {
    files: HashMap<u32, Arc<UndoFile>>,
    /// For each block, by [`BlockId::index`], the source file and record that the block index of a
    /// source names.
    named: HashMap<usize, (u32, usize)>,
}

impl UndoCopies {
    /// Finds the rev files of all sources, lists their records, and reads the block indexes next to
    /// them.
    pub fn open(shared: &Shared) -> Result<Self, StoreError> {
        let mut copies = Self::default();
        let mut directories: HashMap<&Path, HashMap<u32, u32>> = HashMap::new();
        for (index, file) in (0..).zip(shared.sources.files()) {
            if let Some(undo) = UndoFile::beside(file, shared.network.magic)? {
                copies.files.insert(index, Arc::new(undo));
                let directory = file.path.parent().unwrap_or(Path::new("."));
                let by_number = directories.entry(directory).or_default();
                by_number.insert(file.number.unwrap_or(0), index);
            }
        }
        for (directory, by_number) in directories {
            copies.read_index(shared, directory, &by_number);
        }
        Ok(copies)
    }

    /// Notes the records that the block index of a source names, if the source has one and it can
    /// be read: another program may be using it. The records are proved like all others.
    fn read_index(&mut self, shared: &Shared, directory: &Path, by_number: &HashMap<u32, u32>) {
        let path = directory.join("index");
        if !path.is_dir() {
            return;
        }
        let load = |index: IndexDb| shared.pool.install(|| index.load(shared.network));
        let index = match IndexDb::open_unlocked(&Disk::new(), &path).and_then(load) {
            Ok(index) => index,
            Err(error) => {
                tracing::debug!(
                    target: "blockstorage",
                    %error, "a source's block index cannot be read"
                );
                return;
            }
        };
        for entry in &index.entries {
            let (Some(pos), Some(id)) = (entry.undo_pos(), shared.tree.find(&entry.hash)) else {
                continue;
            };
            let Some(file) = by_number.get(&pos.file) else { continue };
            if let Some(record) = self.files[file].record_at(u64::from(pos.pos)) {
                self.named.entry(id.index()).or_insert((*file, record));
            }
        }
    }

    /// Returns whether there is a rev file next to this source file.
    pub fn has_file(&self, file: u32) -> bool {
        self.files.contains_key(&file)
    }

    /// Returns the record that the block index of a source names for a block.
    pub fn named(&self, id: BlockId) -> Option<UndoAt> {
        let (file, guess) = *self.named.get(&id.index())?;
        Some(UndoAt::Source { file, guess })
    }

    /// Returns all rev files, with the numbers of their source files.
    pub fn files(&self) -> impl Iterator<Item = (u32, &UndoFile)> {
        self.files.iter().map(|(file, undo)| (*file, &**undo))
    }

    /// Returns the rev files that may hold a block's undo data; that next to the file `likeliest`
    /// is first.
    pub fn of_block<'a>(
        &'a self,
        shared: &'a Shared,
        id: BlockId,
        likeliest: u32,
    ) -> impl Iterator<Item = (u32, &'a UndoFile)> {
        let others = shared.sources.copies(id).map(|place| place.file);
        let files = std::iter::once(likeliest).chain(others.filter(move |file| *file != likeliest));
        files.filter_map(|file| Some((file, &**self.files.get(&file)?)))
    }

    /// Returns the path of the file that undo data is in.
    pub fn path(&self, shared: &Shared, at: UndoAt) -> PathBuf {
        match at {
            UndoAt::Stored(pos) => shared.files.undo_path(pos.file),
            UndoAt::Source { file, .. } => self.files[&file].path().to_path_buf(),
            UndoAt::Peers => shared.files.undo_path(0),
        }
    }

    /// Reads each record that may be the block's undo data, and calls `check` with its coins for
    /// [`Prepared::external`], until `check` accepts them. There may be several such records, since
    /// undo data of siblings has the same checksum, over the hash of their parent. `payload` is a
    /// buffer, and holds the accepted record at the end. The block is taken from `left`, and is put
    /// back if no record is accepted.
    ///
    /// # Errors
    /// The first rule that `check` has found broken; no record fits the block, or the one that does
    /// lacks heights; or the disk fails.
    pub fn check_with<T>(
        &self,
        shared: &Shared,
        (step, at): (Step, UndoAt),
        left: &mut Option<Prepared>,
        payload: &mut Vec<u8>,
        mut check: impl FnMut(Prepared, Vec<Coin>) -> Result<T, Box<Refused>>,
    ) -> Result<T, Fault> {
        let prev = &shared.tree.prev_hash(step.id);
        let tx_count = left.as_ref().map_or(0, |prepared| prepared.block.view().tx_count());
        let mut taken = None;
        let mut broken = None;
        let mut lacks_heights = false;
        let mut what = "there is no undo data for this block next to its source".to_string();
        let started = Instant::now();
        let mut checking = Duration::ZERO;
        let mut takes = |undo: &[u8]| {
            let Some(prepared) = left.take() else { return false };
            let coins = match external_coins(&prepared, undo) {
                Ok(coins) => coins,
                Err(error) => {
                    lacks_heights |= matches!(error, UndoError::LacksHeight(_));
                    what = error.to_string();
                    *left = Some(prepared);
                    return false;
                }
            };
            let begun = Instant::now();
            match check(prepared, coins) {
                Ok(block) => taken = Some(block),
                Err(refused) => {
                    let Refused { error, prepared } = *refused;
                    *left = Some(prepared);
                    broken.get_or_insert(error);
                }
            }
            checking += begun.elapsed();
            taken.is_some()
        };
        match at {
            UndoAt::Stored(pos) => match shared.files.read_undo_into(pos, prev, payload) {
                Ok(()) => drop(takes(payload)),
                // The file can be read, but the record is damaged.
                Err(error) if error.source.is_none() => what = error.to_string(),
                Err(error) => return Err(Fault::Store(error)),
            },
            UndoAt::Source { file, guess } => {
                for (_, undo) in self.of_block(shared, step.id, file) {
                    let found = undo.find_fitting(guess, prev, tx_count, payload, &mut takes);
                    if found?.is_some() {
                        break;
                    }
                }
            }
            UndoAt::Peers => {}
        }
        shared.clock.add(Stage::Read, started.elapsed().saturating_sub(checking));
        match (taken, broken) {
            (Some(taken), _) => Ok(taken),
            (None, Some(error)) => Err(Fault::Rule(step, error)),
            (None, None) if lacks_heights => {
                let height = shared.tree.node(step.id).height;
                let why = format!(" that can be used ({what})");
                Err(no_undo(height, self.path(shared, at), &why))
            }
            (None, None) => Err(Fault::Undo { id: step.id, path: self.path(shared, at), what }),
        }
    }
}

/// Returns the fault for a block without usable undo data in the file or directory `path`; `why`
/// follows the height in the message.
pub(super) fn no_undo(height: u32, path: impl AsRef<Path>, why: &str) -> Fault {
    let what = format!(
        "no undo data for block {height}{why}: a sync with hints or a snapshot that checks \
         everything needs the rev files next to the block files, or a peer that offers the coins \
         that blocks spend. Without these, assume the blocks valid (--assumevalid=HASH), or sync \
         without --hints and --snapshot; `apus prove --full` needs no rev files"
    );
    Fault::NoUndo(height, StoreError::new(path, what))
}

/// Reads the undo data of a block at `at` in the data directory, and returns the coins of
/// [`Prepared::external`]; `None` if the undo data is damaged, or does not fit the block.
pub(super) fn read_coins(
    shared: &Shared,
    id: BlockId,
    at: FlatFilePos,
    prepared: &Prepared,
) -> Result<Option<Vec<Coin>>, StoreError> {
    let mut payload = Vec::new();
    match shared.files.read_undo_into(at, &shared.tree.prev_hash(id), &mut payload) {
        Ok(()) => Ok(external_coins(prepared, &payload).ok()),
        Err(error) if error.source.is_none() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Appends undo data of a block to the rev file `file` of the data directory, and returns where it
/// is.
pub(super) fn append(
    shared: &Shared,
    id: BlockId,
    file: u32,
    payload: &[u8],
) -> Result<UndoWritten, StoreError> {
    let height = shared.tree.height(id);
    let prev = &shared.tree.prev_hash(id);
    let pos = shared.files.append_undo(UndoRecord { file, height, prev, payload })?;
    Ok(UndoWritten { id, at: FlatFilePos { file, pos } })
}

/// Returns the coins of [`Prepared::external`] from undo data.
///
/// # Errors
/// The undo data lacks heights, does not fit the block, a coin that the block itself created
/// differs there, or another coin is not from an earlier block.
pub(super) fn external_coins(prepared: &Prepared, undo: &[u8]) -> Result<Vec<Coin>, UndoError> {
    let mut coins = Vec::with_capacity(prepared.external.len());
    let mut wrong = None;
    let mut sources = prepared.sources.iter();
    let parsed = for_each_spending_tx(undo, prepared.block.view(), Heights::Needed, |tx, spent| {
        for ((coin, source), input) in spent.drain(..).zip(&mut sources).zip(tx.inputs()) {
            let fits = match *source {
                CoinSource::External(_) => coin.height < prepared.height,
                CoinSource::Inside { tx, vout } => prepared.coin_inside(tx, vout) == coin,
            };
            if !fits {
                wrong.get_or_insert(input.outpoint());
            }
            if matches!(source, CoinSource::External(at) if *at != u32::MAX) {
                coins.push(coin);
            }
        }
    });
    parsed?;
    match wrong {
        Some(outpoint) => Err(UndoError::WrongCoin(outpoint)),
        None => Ok(coins),
    }
}
