//! Matches the outputs and spends of one partition in memory.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use apus_coins::{Table, TxidHasher, prefetch};
use apus_hash::Hash;
use apus_wire::{Cursor, OutPoint};

use super::batch::{Damaged, batches, begin_batch, end_batch};
use super::record::{Created, Spend, read_output, read_spend, read_tx_head};
use super::replay::{BlockKind, Replay, Replayed};

/// Marks an output that no spend has taken.
const UNTAKEN: u64 = u64::MAX;
/// Memory is prefetched for the spend this many places ahead.
const AHEAD: usize = 8;
/// Marks a transaction whose outputs cannot be spent in their own block.
const NOT_READY: u32 = u32::MAX;

/// The outputs of a partition, or of a slice of it, with the spend that takes each.
pub struct Matcher {
    hasher: TxidHasher,
    table: Table,
    txs: Vec<Tx>,
    outputs: Vec<Output>,
    /// Transactions that are created more than once.
    replays: BTreeMap<Hash, Replay>,
    sorted: Vec<(u64, u32)>,
}

/// A transaction with outputs to match.
#[derive(Clone, Copy)]
struct Tx {
    /// Offset of its txid.
    at: u32,
    /// 2 × height + coinbase.
    code: u32,
    /// The index, among the inputs of its own block, of the first one that can spend its outputs.
    ready: u32,
    first_output: u32,
    end_output: u32,
    is_replayed: bool,
}

#[derive(Clone, Copy)]
struct Output {
    vout: u32,
    /// Offset of the length of its amount and script.
    at: u32,
    /// Height and place of the spend that takes it.
    taker: u64,
}

/// The outcome of a spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It has taken its output, or waits for the replay of its transaction.
    Met,
    /// No block of the join creates such an output.
    Unmet,
    /// The block at this height creates the transaction, but only after the spend.
    TooEarly(u32),
    /// Another spend takes the same output; the later of the two is in the block at this height.
    Twice(u32),
}

/// An output and where it was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchedOutput<'a> {
    /// 2 × height + coinbase.
    pub code: u32,
    /// Amount and script in compressed form.
    pub output: &'a [u8],
}

impl Matcher {
    /// Creates a matcher without outputs. Slices depend on the hasher's secret.
    pub fn new(hasher: TxidHasher) -> Self {
        Self {
            hasher,
            table: Table::default(),
            txs: Vec::new(),
            outputs: Vec::new(),
            replays: BTreeMap::new(),
            sorted: Vec::new(),
        }
    }

    /// Forgets all outputs.
    pub fn clear(&mut self) {
        self.table.clear();
        self.txs.clear();
        self.outputs.clear();
        self.replays.clear();
    }

    /// Returns the slice that a transaction is in, if there are `slices` of them.
    pub fn slice_of(&self, txid: &Hash, slices: u64) -> u64 {
        ((u128::from(self.hasher.hash(txid)) * u128::from(slices)) >> 64) as u64
    }

    /// Loads the outputs of all batches in `ranges` of `bytes`, except those of the sources in
    /// `dropped`.
    ///
    /// # Errors
    /// The bytes are not valid records.
    pub fn load(
        &mut self,
        bytes: &[u8],
        ranges: &[Range<usize>],
        dropped: &HashSet<u32>,
    ) -> Result<(), Damaged> {
        for range in ranges {
            for batch in batches(bytes, range.clone()) {
                let (source, records) = batch?;
                if dropped.contains(&source) {
                    continue;
                }
                let mut cursor = Cursor::at(&bytes[..records.end], records.start);
                while cursor.remaining() > 0 {
                    self.load_tx(bytes, &mut cursor)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the output records of one slice from `piece` to `out`, batch by batch, except those
    /// of the sources in `dropped`.
    ///
    /// # Errors
    /// The bytes are not valid records.
    pub fn keep_slice(
        &self,
        piece: &[u8],
        dropped: &HashSet<u32>,
        (slice, of): (u64, u64),
        out: &mut Vec<u8>,
    ) -> Result<(), Damaged> {
        for batch in batches(piece, 0..piece.len()) {
            let (source, records) = batch?;
            let kept = begin_batch(out, source);
            let mut cursor = Cursor::at(&piece[..records.end], records.start);
            while cursor.remaining() > 0 && !dropped.contains(&source) {
                let start = cursor.position();
                let (txid, _, count) = read_tx_head(&mut cursor)?;
                for _ in 0..count {
                    read_output(&mut cursor)?;
                }
                if self.slice_of(&txid, of) == slice {
                    out.extend_from_slice(&piece[start..cursor.position()]);
                }
            }
            end_batch(out, kept);
        }
        Ok(())
    }

    fn load_tx(&mut self, bytes: &[u8], cursor: &mut Cursor) -> Result<(), Damaged> {
        let at = cursor.position();
        let (txid, created, count) = read_tx_head(cursor)?;
        let first_output = self.outputs.len() as u32;
        for _ in 0..count {
            let before = cursor.position();
            let (vout, start, end) = read_output(cursor)?;
            // The length comes after the VARINT of the index.
            let at = before + apus_wire::varint_len(vout.into());
            debug_assert!(at < start && start <= end);
            self.outputs.push(Output { vout, at: offset(at), taker: UNTAKEN });
        }
        let tx = Tx {
            at: offset(at),
            code: created.code(),
            ready: created.ready.unwrap_or(NOT_READY),
            first_output,
            end_output: self.outputs.len() as u32,
            is_replayed: false,
        };
        match self.find(bytes, &txid) {
            Some(first) => self.repeat(bytes, txid, first, tx),
            None => {
                self.table.insert(self.hasher.hash(&txid), self.txs.len() as u32);
                self.txs.push(tx);
            }
        }
        Ok(())
    }

    /// Marks a known transaction that is created again for replay.
    fn repeat(&mut self, bytes: &[u8], txid: Hash, first: u32, again: Tx) {
        self.replay(bytes, txid, first);
        let outputs = self.owned_outputs(bytes, again);
        if let Some(replay) = self.replays.get_mut(&txid) {
            replay.create(created(again), outputs);
        }
        self.outputs.truncate(again.first_output as usize);
    }

    /// Marks the transaction at `index` for replay, and returns its replay.
    fn replay(&mut self, bytes: &[u8], txid: Hash, index: u32) -> &mut Replay {
        let tx = self.txs[index as usize];
        if !tx.is_replayed {
            let outputs = self.owned_outputs(bytes, tx);
            let mut replay = Replay::default();
            replay.create(created(tx), outputs);
            self.replays.insert(txid, replay);
            self.txs[index as usize].is_replayed = true;
        }
        self.replays.entry(txid).or_default()
    }

    fn owned_outputs(&self, bytes: &[u8], tx: Tx) -> Vec<(u32, Vec<u8>)> {
        let outputs = &self.outputs[tx.first_output as usize..tx.end_output as usize];
        outputs.iter().map(|o| (o.vout, output_bytes(bytes, o).to_vec())).collect()
    }

    /// Returns the outputs of transactions that may exist already in the UTXO set that the join
    /// began with: those of all coinbases, and of blocks for which BIP30 is looked up. Any other
    /// transaction can be created again only after a coinbase that it depends on was.
    pub fn may_exist(&self, bytes: &[u8]) -> Vec<OutPoint> {
        let txs = self.txs.iter().filter(|tx| tx.ready != NOT_READY || tx.code & 1 == 1);
        let outpoints = txs.flat_map(|tx| {
            let outputs = &self.outputs[tx.first_output as usize..tx.end_output as usize];
            let txid = txid_at(bytes, tx.at);
            outputs.iter().map(move |output| OutPoint { txid, vout: output.vout })
        });
        outpoints.collect()
    }

    /// Adds a coin of [`Matcher::may_exist`] that does exist: `code` is 2 × height + coinbase,
    /// `output` is the amount and script in compressed form.
    pub fn add_base(&mut self, bytes: &[u8], outpoint: &OutPoint, code: u32, output: Vec<u8>) {
        if let Some(index) = self.find(bytes, &outpoint.txid) {
            self.replay(bytes, outpoint.txid, index).add_base(outpoint.vout, code, output);
        }
    }

    /// Takes the outputs of all spends in the batches of `spends`, and calls `each` with every
    /// spend and its outcome. Skips the sources in `dropped` and, if `slice` gives the number of a
    /// slice and of all slices, the transactions of other slices. `bytes` are those that the
    /// outputs were loaded from.
    ///
    /// # Errors
    /// The bytes are not valid records.
    #[inline]
    pub fn take_all(
        &mut self,
        bytes: &[u8],
        spends: &[u8],
        dropped: &HashSet<u32>,
        slice: Option<(u64, u64)>,
        mut each: impl FnMut(&Spend, Taken),
    ) -> Result<(), Damaged> {
        let mut batch: Vec<(Spend, u64)> = Vec::new();
        for found in batches(spends, 0..spends.len()) {
            let (source, records) = found?;
            if dropped.contains(&source) {
                continue;
            }
            let mut cursor = Cursor::new(&spends[records]);
            batch.clear();
            while cursor.remaining() > 0 {
                let spend = read_spend(&mut cursor)?;
                let txid = &spend.outpoint.txid;
                if slice.is_none_or(|(slice, of)| self.slice_of(txid, of) == slice) {
                    let hash = self.hasher.hash(txid);
                    self.table.prefetch(hash);
                    batch.push((spend, hash));
                }
            }
            for (at, (spend, hash)) in batch.iter().enumerate() {
                if let Some((_, hash)) = batch.get(at + AHEAD) {
                    self.prefetch(bytes, *hash);
                }
                let taken = self.take(bytes, spend, *hash);
                each(spend, taken);
            }
        }
        Ok(())
    }

    /// Prefetches the memory that taking an output of a transaction touches.
    #[inline]
    fn prefetch(&self, bytes: &[u8], hash: u64) {
        if let Some(slot) = self.table.candidate(hash) {
            let tx = &self.txs[slot as usize];
            prefetch(&bytes[tx.at as usize]);
            if let Some(output) = self.outputs.get(tx.first_output as usize) {
                prefetch(output);
            }
        }
    }

    #[inline]
    fn take(&mut self, bytes: &[u8], spend: &Spend, hash: u64) -> Taken {
        let OutPoint { txid, vout } = &spend.outpoint;
        let Some(index) = self.find_hashed(bytes, txid, hash) else { return Taken::Unmet };
        let tx = self.txs[index as usize];
        if tx.is_replayed {
            if let Some(replay) = self.replays.get_mut(txid) {
                replay.spend(*spend);
            }
            return Taken::Met;
        }
        let created = tx.code >> 1;
        if (created, tx.ready) > (spend.height, spend.place)
            || created == spend.height && tx.ready == NOT_READY
        {
            return Taken::TooEarly(created);
        }
        let outputs = &mut self.outputs[tx.first_output as usize..tx.end_output as usize];
        let Ok(at) = outputs.binary_search_by_key(vout, |output| output.vout) else {
            return Taken::Unmet;
        };
        let (taker, other) =
            (u64::from(spend.height) << 32 | u64::from(spend.place), outputs[at].taker);
        if other == UNTAKEN {
            outputs[at].taker = taker;
            return Taken::Met;
        }
        outputs[at].taker = taker.min(other);
        Taken::Twice((taker.max(other) >> 32) as u32)
    }

    #[inline]
    fn find(&self, bytes: &[u8], txid: &Hash) -> Option<u32> {
        self.find_hashed(bytes, txid, self.hasher.hash(txid))
    }

    #[inline]
    fn find_hashed(&self, bytes: &[u8], txid: &Hash, hash: u64) -> Option<u32> {
        self.table.find(hash, |slot| {
            let at = self.txs[slot as usize].at as usize;
            bytes[at..at + 32] == txid.0
        })
    }

    /// Replays the transactions that are created more than once. It must be called after all
    /// spends.
    pub fn replayed(
        &mut self,
        kind: impl Fn(u32) -> BlockKind,
    ) -> impl Iterator<Item = (Hash, Replayed)> {
        let replays = std::mem::take(&mut self.replays);
        replays.into_iter().map(move |(txid, replay)| (txid, replay.run(&kind)))
    }

    /// Calls `each` with the height and place of every spend that has taken an output, and with the
    /// output.
    pub fn for_each_taken<E>(
        &self,
        bytes: &[u8],
        mut each: impl FnMut(u32, u32, MatchedOutput) -> Result<(), E>,
    ) -> Result<(), E> {
        for tx in self.txs.iter().filter(|tx| !tx.is_replayed) {
            for output in &self.outputs[tx.first_output as usize..tx.end_output as usize] {
                if output.taker != UNTAKEN {
                    let height = (output.taker >> 32) as u32;
                    let place = output.taker as u32;
                    let bytes = output_bytes(bytes, output);
                    each(height, place, MatchedOutput { code: tx.code, output: bytes })?;
                }
            }
        }
        Ok(())
    }

    /// Calls `each` with every output that no spend has taken, in the order of coins' keys. Skips
    /// replayed transactions.
    pub fn for_each_left<E>(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&OutPoint, MatchedOutput) -> Result<(), E>,
    ) -> Result<(), E> {
        self.sort(bytes);
        let mut order: Vec<&Output> = Vec::new();
        for (_, index) in &self.sorted {
            let tx = self.txs[*index as usize];
            let txid = txid_at(bytes, tx.at);
            let outputs = &self.outputs[tx.first_output as usize..tx.end_output as usize];
            let mut put = |output: &Output| {
                let outpoint = OutPoint { txid, vout: output.vout };
                let output = output_bytes(bytes, output);
                each(&outpoint, MatchedOutput { code: tx.code, output })
            };
            let left = outputs.iter().filter(|output| output.taker == UNTAKEN);
            if outputs.last().is_some_and(|last| last.vout < apus_coins::VOUT_UNORDERED) {
                left.into_iter().try_for_each(&mut put)?;
                continue;
            }
            order.clear();
            order.extend(left);
            order.sort_by_key(|output| apus_coins::vout_order(output.vout));
            order.iter().try_for_each(|output| put(output))?;
        }
        Ok(())
    }

    /// Sorts by txid the transactions with outputs that no spend has taken.
    fn sort(&mut self, bytes: &[u8]) {
        self.sorted.clear();
        for (index, tx) in (0..).zip(&self.txs) {
            let outputs = &self.outputs[tx.first_output as usize..tx.end_output as usize];
            if !tx.is_replayed && outputs.iter().any(|output| output.taker == UNTAKEN) {
                let mut head = [0; 8];
                head.copy_from_slice(&bytes[tx.at as usize..tx.at as usize + 8]);
                self.sorted.push((u64::from_be_bytes(head), index));
            }
        }
        let txid = |index: u32| {
            let at = self.txs[index as usize].at as usize;
            &bytes[at..at + 32]
        };
        self.sorted.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| txid(a.1).cmp(txid(b.1))));
    }
}

/// Converts an offset in the loaded bytes to 32 bits.
///
/// # Panics
/// The offset has more than 32 bits, which [`Memory::slices`](super::Memory::slices) prevents.
#[inline]
fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("less than 4 GiB is loaded at a time")
}

fn created(tx: Tx) -> Created {
    let ready = (tx.ready != NOT_READY).then_some(tx.ready);
    Created { height: tx.code >> 1, is_coinbase: tx.code & 1 == 1, ready }
}

#[inline]
fn txid_at(bytes: &[u8], at: u32) -> Hash {
    let mut txid = Hash::ZERO;
    txid.0.copy_from_slice(&bytes[at as usize..at as usize + 32]);
    txid
}

/// Returns the amount and script of an output whose record was read before.
#[inline]
fn output_bytes<'a>(bytes: &'a [u8], output: &Output) -> &'a [u8] {
    let mut cursor = Cursor::at(bytes, output.at as usize);
    let len = cursor.varint().expect("this length was read before");
    cursor.take(len as usize).expect("these bytes were read before")
}

#[cfg(test)]
mod tests;
