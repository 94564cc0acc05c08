//! Where the coins that blocks spend come from when nobody looks them up: undo data, ours or a
//! source's. It is not trusted: the sums prove it, with the hints.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::node::Node;
use super::super::pipeline::Shared;
use super::super::prepare::{CoinSource, Prepared};
use super::fault::Fault;
use crate::chain::BlockId;
use crate::coins::{Coin, for_each_spending_tx};
use crate::disk::StoreError;
use crate::store::{FlatFilePos, UndoFile};

/// Where a block's undo data is.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum UndoAt {
    /// In the data directory.
    Stored(FlatFilePos),
    /// In the rev file beside the source file `file`, perhaps as its record `guess`.
    Source { file: u32, guess: usize },
}

/// The rev files of all sources.
#[derive(Default)]
pub(in super::super) struct UndoCopies {
    files: HashMap<u32, Arc<UndoFile>>,
}

impl UndoCopies {
    /// Finds them and walks their frames.
    pub fn open(node: &Node) -> Result<Self, StoreError> {
        let mut files = HashMap::new();
        for (index, file) in node.sources.files().iter().enumerate() {
            if let Some(undo) = UndoFile::beside(file, node.options.network.magic)? {
                files.insert(index as u32, Arc::new(undo));
            }
        }
        Ok(Self { files })
    }

    /// Whether there is a rev file beside this source file.
    pub fn has_file(&self, file: u32) -> bool {
        self.files.contains_key(&file)
    }

    /// The file that undo data is in.
    fn path(&self, shared: &Shared, at: UndoAt) -> PathBuf {
        match at {
            UndoAt::Stored(pos) => shared.files.undo_path(pos.file),
            UndoAt::Source { file, .. } => self.files[&file].path().to_path_buf(),
        }
    }

    /// The coins of [`Prepared::external`]. `payload` is scratch space.
    pub fn coins(
        &self,
        shared: &Shared,
        id: BlockId,
        at: UndoAt,
        prepared: &Prepared,
        payload: &mut Vec<u8>,
    ) -> Result<Vec<Coin>, Fault> {
        let prev = &shared.tree.node(id).header.prev;
        let mut coins = Err("there is none for this block".to_string());
        match at {
            UndoAt::Stored(pos) => {
                coins = match shared.files.read_undo_into(pos, prev, payload) {
                    Ok(()) => external_coins(prepared, payload),
                    // It can be read and is damaged.
                    Err(error) if error.source.is_none() => Err(error.to_string()),
                    Err(error) => return Err(Fault::Store(error)),
                };
            }
            UndoAt::Source { file, guess } => {
                let tx_count = prepared.block.view().tx_count();
                let found =
                    self.files[&file].find_fitting(guess, prev, tx_count, payload, |undo| {
                        coins = external_coins(prepared, undo);
                        coins.is_ok()
                    });
                found.map_err(Fault::Store)?;
            }
        }
        coins.map_err(|what| Fault::Undo { id, path: self.path(shared, at), what })
    }
}

/// The coins of [`Prepared::external`], taken from undo data; those that the block itself created
/// must be as it created them, and those from outside must be older.
fn external_coins(prepared: &Prepared, undo: &[u8]) -> Result<Vec<Coin>, String> {
    let mut coins = Vec::with_capacity(prepared.external.len());
    let mut wrong = None;
    let mut sources = prepared.sources.iter();
    let parsed = for_each_spending_tx(undo, prepared.block.view(), |tx, spent| {
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
    parsed.map_err(|error| error.to_string())?;
    match wrong {
        Some(outpoint) => Err(format!("the coin {outpoint} cannot be as it says")),
        None => Ok(coins),
    }
}
