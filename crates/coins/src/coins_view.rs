use std::path::Path;
use std::sync::Arc;

use apus_disk::StoreError;
use apus_hash::Hash;
use apus_leveldb::{Cursor as TableCursor, Snapshot};
use apus_store::Obfuscation;
use apus_wire::{Cursor, OutPoint};

use super::coin::{Coin, decode_coin_key, put_coin_key};

/// The key of the record of the best block.
pub const BEST_BLOCK: &[u8] = b"B";
/// The first byte of the keys of coins.
const COINS: &[u8] = b"C";
/// The first key after those of coins.
const COINS_END: &[u8] = b"D";
/// The length of a coin's key without the output's index.
const TXID_END: usize = 33;

type Result<T> = std::result::Result<T, StoreError>;

/// How the values of a chainstate are read: its directory, for errors, and its obfuscation.
#[derive(Clone)]
pub(super) struct Values {
    pub dir: Arc<Path>,
    pub obfuscation: Obfuscation,
}

impl Values {
    /// Returns the coin that `value` is the record of. `scratch` is a buffer.
    pub fn coin(&self, outpoint: &OutPoint, value: &[u8], scratch: &mut Vec<u8>) -> Result<Coin> {
        scratch.clear();
        scratch.extend_from_slice(value);
        self.obfuscation.apply(scratch, 0);
        Coin::decode(&mut Cursor::new(scratch)).map_err(|e| {
            StoreError::new(&self.dir, format!("the record of the coin {outpoint} is damaged: {e}"))
        })
    }
}

/// The UTXO set as it was at one moment: the coins after its best block. It stays as it is while
/// the chainstate is written, merged or closed, and its tables are kept on disk until it is
/// dropped. Copies share them.
#[derive(Clone)]
pub struct CoinsView {
    pub(super) tables: Snapshot,
    pub(super) values: Values,
}

impl CoinsView {
    /// Returns the best block, after which these coins are unspent; `None` in an empty set.
    ///
    /// # Errors
    /// A table cannot be read, or the record is damaged.
    pub fn best_block(&self) -> Result<Option<Hash>> {
        let Some(mut value) = self.tables.get(BEST_BLOCK)?.map(<[u8]>::to_vec) else {
            return Ok(None);
        };
        self.values.obfuscation.apply(&mut value, 0);
        match <[u8; 32]>::try_from(&value[..]) {
            Ok(hash) => Ok(Some(Hash(hash))),
            Err(_) => Err(StoreError::new(
                &self.values.dir,
                "the record of the best block is damaged: 32 bytes are expected",
            )),
        }
    }

    /// Returns the coin with this outpoint.
    ///
    /// # Errors
    /// A table cannot be read, or the coin's record is damaged.
    pub fn get(&self, outpoint: &OutPoint) -> Result<Option<Coin>> {
        let mut key = Vec::new();
        put_coin_key(&mut key, outpoint);
        let value = self.tables.get(&key)?;
        value.map(|value| self.values.coin(outpoint, value, &mut Vec::new())).transpose()
    }

    /// Divides the UTXO set into at most `parts` consecutive scans of about equal size. All outputs
    /// of a transaction are in the same scan.
    ///
    /// # Errors
    /// A table cannot be read.
    pub fn scans(&self, parts: usize) -> Result<Vec<CoinScan>> {
        let mut cuts = vec![COINS.to_vec()];
        for mut key in self.tables.split(parts)? {
            key.truncate(TXID_END);
            if key.len() == TXID_END && key.starts_with(COINS) && cuts.last() != Some(&key) {
                cuts.push(key);
            }
        }
        cuts.push(COINS_END.to_vec());
        Ok(cuts.windows(2).map(|cut| self.scan(cut[0].clone(), cut[1].clone())).collect())
    }

    /// Returns a scan of the coins of all transactions from `first` to `last`.
    pub fn scan_txids(&self, first: &Hash, last: &Hash) -> CoinScan {
        let from = [COINS, &first.0].concat();
        // Keys continue after the txid with at most five bytes, the index of the output.
        let to = [COINS, &last.0, &[0xff; 6]].concat();
        self.scan(from, to)
    }

    fn scan(&self, from: Vec<u8>, to: Vec<u8>) -> CoinScan {
        CoinScan { coins: self.clone(), from, to, cursor: None, scratch: Vec::new() }
    }

    /// Returns the size of all tables in bytes.
    pub fn disk_bytes(&self) -> u64 {
        self.tables.bytes()
    }

    /// Returns the directory of the chainstate.
    pub fn dir(&self) -> &Path {
        &self.values.dir
    }
}

/// Reads one part of the UTXO set in the order of [`key_order`](super::key_order).
pub struct CoinScan {
    coins: CoinsView,
    from: Vec<u8>,
    to: Vec<u8>,
    cursor: Option<TableCursor>,
    scratch: Vec<u8>,
}

impl CoinScan {
    /// Returns the next coin; `None` after the last one.
    ///
    /// # Errors
    /// A table cannot be read, or a record is damaged.
    pub fn next_coin(&mut self) -> Result<Option<(OutPoint, Coin)>> {
        let CoinsView { tables, values } = &self.coins;
        let cursor = match &mut self.cursor {
            Some(cursor) => cursor,
            None => self.cursor.insert(tables.scan(&self.from, Some(&self.to))?),
        };
        let Some((key, value)) = cursor.next_entry()? else { return Ok(None) };
        let outpoint = decode_coin_key(key).map_err(|e| {
            let what = format!("the key {key:02x?} is damaged: {e}");
            StoreError::new(&values.dir, what)
        })?;
        let coin = values.coin(&outpoint, value, &mut self.scratch)?;
        Ok(Some((outpoint, coin)))
    }
}
