//! The window of recent transactions: most outputs are spent soon after they are created, and are
//! matched here, without a record of the output or the spend.
//!
//! It holds the transactions of consecutive blocks, whole blocks at a time, and forgets the oldest
//! block when it needs room. The transactions of the current block are always in it, so that every
//! spend within a block is matched here, and its order is checked.

use std::collections::VecDeque;
use std::ops::Range;

use apus_coins::{Table, TxidHasher, large_vec, prefetch};
use apus_hash::Hash;
use apus_wire::{OutPoint, VARINT_BYTES_MAX};

use super::record::Created;

/// Bytes of a transaction before the offsets of its outputs.
const HEAD_BYTES: usize = 52;
const CODE: usize = 32;
const TX: usize = 36;
const COUNT: usize = 40;
const BYTES: usize = 44;
const LEFT: usize = 48;
/// Maximum bytes of an output besides its script: its amount in compressed form, and room for the
/// script's length.
const OUTPUT_BYTES: usize = 2 * VARINT_BYTES_MAX;
/// The bit in an output's offset that marks the output as spent or unspendable.
const GONE: u32 = 1 << 31;
/// When a transaction is removed from the table, memory is prefetched for the one this many places
/// ahead.
const AHEAD: usize = 8;
/// Most outputs in compressed form have at most this many bytes.
const OUTPUT_BYTES_MOST: usize = 32;
/// Slots of the table are in units of this many bytes.
const UNIT: usize = 8;
/// The share of the window's memory that transactions take; the rest is for the table.
const RING_PERCENT: usize = 85;
/// Maximum bytes of transactions: slots have 32 bits.
const RING_BYTES_MAX: usize = 1 << 33;

/// The transactions of the last blocks of a span.
pub struct Window {
    hasher: TxidHasher,
    table: Table,
    ring: Vec<u8>,
    capacity: usize,
    /// The range of bytes of each block in the window, the oldest first.
    blocks: VecDeque<Range<usize>>,
    /// Where the next transaction goes.
    head: usize,
}

/// The result of looking a spend up in the window.
#[derive(Debug, PartialEq, Eq)]
pub enum Met<'a> {
    /// The window does not have the transaction, or its output is spent or unspendable.
    Elsewhere,
    /// The transaction is in the same block, but there is nothing to spend: it comes later in the
    /// block, has no such output, or the output is spent.
    Missing,
    /// The output, from the same block or an earlier one.
    Output {
        /// 2 × height + coinbase.
        code: u32,
        /// Amount and script in compressed form.
        output: &'a [u8],
    },
}

/// A transaction with unspent outputs that leaves the window.
pub struct TxLeft<'a> {
    /// Its txid.
    pub txid: Hash,
    /// Where it was created.
    pub created: Created,
    /// Number of unspent outputs.
    pub count: u32,
    entry: &'a [u8],
}

impl<'a> TxLeft<'a> {
    /// Returns the unspent outputs: index, and amount and script in compressed form.
    pub fn outputs(&self) -> impl Iterator<Item = (u32, &'a [u8])> + use<'a> {
        let entry = self.entry;
        (0..u32_at(entry, COUNT)).filter_map(move |vout| {
            let at = HEAD_BYTES + 4 * vout as usize;
            let start = u32_at(entry, at);
            let end = u32_at(entry, at + 4) & !GONE;
            (start & GONE == 0).then(|| (vout, &entry[start as usize..end as usize]))
        })
    }
}

impl Window {
    /// Creates an empty window of about `bytes` bytes, or of one block if that is larger.
    pub fn new(bytes: usize) -> Self {
        let capacity = (bytes / 100 * RING_PERCENT).min(RING_BYTES_MAX) / UNIT * UNIT;
        Self {
            hasher: TxidHasher::random(),
            table: Table::default(),
            ring: large_vec(capacity),
            capacity,
            blocks: VecDeque::new(),
            head: 0,
        }
    }

    /// Returns the maximum bytes of a transaction with this many outputs, whose scripts have
    /// `script_bytes` bytes together.
    #[inline]
    pub fn bytes_of_tx(outputs: usize, script_bytes: usize) -> usize {
        (HEAD_BYTES + 4 * (outputs + 1) + OUTPUT_BYTES * outputs + script_bytes)
            .next_multiple_of(UNIT)
    }

    /// Begins a block whose transactions take at most `room` bytes. Calls `leaves` with every
    /// transaction that leaves the window to make room and has unspent outputs.
    pub fn begin_block<E>(
        &mut self,
        room: usize,
        mut leaves: impl FnMut(&TxLeft) -> Result<(), E>,
    ) -> Result<(), E> {
        if room > self.capacity {
            self.clear(&mut leaves)?;
            self.capacity = room.next_multiple_of(UNIT);
            self.ring = large_vec(self.capacity);
        }
        // A block without transactions would look like one that fills the whole ring.
        if self.blocks.back().is_some_and(|block| block.start == block.end) {
            self.blocks.pop_back();
        }
        while let Some(oldest) = self.blocks.front().map(|block| block.start) {
            // The blocks lie from `oldest` to `head`, either straight on or around the end.
            let is_straight = self.head > oldest;
            if is_straight && self.head + room > self.capacity && room <= oldest {
                self.head = 0;
                break;
            }
            let end = if is_straight { self.capacity } else { oldest };
            if self.head + room <= end {
                break;
            }
            self.forget_oldest(&mut leaves)?;
        }
        if self.blocks.is_empty() {
            self.head = 0;
        }
        if self.ring.len() < self.head + room {
            self.ring.resize((self.head + room).min(self.capacity), 0);
        }
        self.blocks.push_back(self.head..self.head);
        Ok(())
    }

    /// Adds a transaction of the current block, at position `tx`. `put` writes the amount and
    /// script of each output in compressed form to the start of the given bytes and returns their
    /// number, or `None` if the output is unspendable. Returns the number of spendable outputs.
    #[inline]
    pub fn push_tx(
        &mut self,
        txid: &Hash,
        code: u32,
        tx: u32,
        outputs: usize,
        mut put: impl FnMut(usize, &mut [u8]) -> Option<usize>,
    ) -> u32 {
        let start = self.head;
        let entry = &mut self.ring[start..];
        let mut end = HEAD_BYTES + 4 * (outputs + 1);
        let mut left = 0;
        for vout in 0..outputs {
            let offset = match put(vout, &mut entry[end..]) {
                Some(bytes) => {
                    left += 1;
                    end += bytes;
                    (end - bytes) as u32
                }
                None => end as u32 | GONE,
            };
            set_u32(entry, HEAD_BYTES + 4 * vout, offset);
        }
        set_u32(entry, HEAD_BYTES + 4 * outputs, end as u32);
        entry[..32].copy_from_slice(&txid.0);
        set_u32(entry, CODE, code);
        set_u32(entry, TX, tx);
        set_u32(entry, COUNT, outputs as u32);
        let bytes = end.next_multiple_of(UNIT);
        set_u32(entry, BYTES, bytes as u32);
        set_u32(entry, LEFT, left);
        self.table.insert(self.hasher.hash(txid), (start / UNIT) as u32);
        self.head += bytes;
        if let Some(block) = self.blocks.back_mut() {
            block.end = self.head;
        }
        left
    }

    /// Returns the hash by which a transaction is found.
    #[inline]
    pub fn hash(&self, txid: &Hash) -> u64 {
        self.hasher.hash(txid)
    }

    /// Prefetches the memory that a look-up of `hash` touches first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// Prefetches the memory that a look-up of `hash` touches next: the transaction without its
    /// outputs.
    #[inline]
    pub fn prefetch_tx(&self, hash: u64, vout: u32) {
        if let Some(slot) = self.table.candidate(hash) {
            let at = slot as usize * UNIT;
            self.prefetch_bytes::<HEAD_BYTES>(at);
            self.prefetch_bytes::<4>(at + HEAD_BYTES + 4 * vout as usize);
        }
    }

    /// Prefetches the output `vout` of the transaction, which a look-up of `hash` touches last.
    #[inline]
    pub fn prefetch_output(&self, hash: u64, vout: u32) {
        if let Some(slot) = self.table.candidate(hash) {
            let entry = &self.ring[slot as usize * UNIT..];
            if vout < u32_at(entry, COUNT) {
                let offset = u32_at(entry, HEAD_BYTES + 4 * vout as usize) & !GONE;
                self.prefetch_bytes::<OUTPUT_BYTES_MOST>(slot as usize * UNIT + offset as usize);
            }
        }
    }

    #[inline]
    fn prefetch_bytes<const N: usize>(&self, at: usize) {
        if let Some(bytes) = self.ring.get(at..).and_then(<[u8]>::first_chunk::<N>) {
            prefetch(bytes);
        }
    }

    /// Spends an output for the transaction at position `spender` of the block at `height`. `hash`
    /// is [`Window::hash`] of the outpoint's txid.
    #[inline]
    pub fn spend(&mut self, outpoint: &OutPoint, hash: u64, height: u32, spender: u32) -> Met<'_> {
        let ring = &self.ring;
        let is_it = |slot: u32| {
            let at = slot as usize * UNIT;
            ring[at..at + 32] == outpoint.txid.0
        };
        let Some(slot) = self.table.find(hash, is_it) else { return Met::Elsewhere };
        let entry = &mut self.ring[slot as usize * UNIT..];
        let code = u32_at(entry, CODE);
        let tx = u32_at(entry, TX);
        let is_inside = code >> 1 == height;
        let at = HEAD_BYTES + 4 * outpoint.vout as usize;
        let offset = if outpoint.vout < u32_at(entry, COUNT) { u32_at(entry, at) } else { GONE };
        if offset & GONE != 0 || is_inside && tx >= spender {
            return if is_inside { Met::Missing } else { Met::Elsewhere };
        }
        set_u32(entry, at, offset | GONE);
        let left = u32_at(entry, LEFT) - 1;
        set_u32(entry, LEFT, left);
        let end = u32_at(entry, at + 4) & !GONE;
        Met::Output { code, output: &entry[offset as usize..end as usize] }
    }

    /// Forgets all blocks. Calls `leaves` with every transaction that has unspent outputs.
    pub fn clear<E>(&mut self, mut leaves: impl FnMut(&TxLeft) -> Result<(), E>) -> Result<(), E> {
        while !self.blocks.is_empty() {
            self.forget_oldest(&mut leaves)?;
        }
        self.head = 0;
        Ok(())
    }

    fn forget_oldest<E>(
        &mut self,
        leaves: &mut impl FnMut(&TxLeft) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(block) = self.blocks.pop_front() else { return Ok(()) };
        let mut at = block.start;
        let mut ahead = block.start;
        let mut to_ask = AHEAD;
        while at < block.end {
            while to_ask > 0 && ahead < block.end {
                self.table.prefetch(self.hasher.hash(&txid_at(&self.ring[ahead..])));
                ahead += u32_at(&self.ring[ahead..], BYTES) as usize;
                to_ask -= 1;
            }
            to_ask = 1;
            let entry = &self.ring[at..];
            let txid = txid_at(entry);
            self.table.remove(self.hasher.hash(&txid), (at / UNIT) as u32);
            let code = u32_at(entry, CODE);
            let count = u32_at(entry, LEFT);
            if count > 0 {
                let is_coinbase = code & 1 == 1;
                let created = Created { height: code >> 1, is_coinbase, ready: None };
                leaves(&TxLeft { txid, created, count, entry })?;
            }
            at += u32_at(entry, BYTES) as usize;
        }
        Ok(())
    }
}

#[inline]
fn txid_at(entry: &[u8]) -> Hash {
    let mut txid = Hash::ZERO;
    txid.0.copy_from_slice(&entry[..32]);
    txid
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

#[inline]
fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::convert::Infallible;

    use apus_testdata::Random;

    use super::*;

    /// A window, and maps of the same coins that it must agree with.
    struct Pair {
        window: Window,
        /// Every output that was created and not spent, with its amount and script.
        coins: HashMap<OutPoint, (u32, Vec<u8>)>,
        left: HashMap<OutPoint, (u32, Vec<u8>)>,
    }

    fn outpoint(txid: &Hash, vout: u32) -> OutPoint {
        OutPoint { txid: *txid, vout }
    }

    impl Pair {
        fn block(&mut self, height: u32, txs: &[(Hash, Vec<Vec<u8>>)]) {
            let bytes = |outputs: &Vec<Vec<u8>>| {
                Window::bytes_of_tx(outputs.len(), outputs.iter().map(Vec::len).sum())
            };
            let room = txs.iter().map(|(_, outputs)| bytes(outputs)).sum();
            let left = &mut self.left;
            let note = |tx: &TxLeft| -> Result<(), Infallible> {
                assert_eq!(tx.outputs().count(), tx.count as usize);
                for (vout, bytes) in tx.outputs() {
                    let known =
                        left.insert(outpoint(&tx.txid, vout), (tx.created.code(), bytes.to_vec()));
                    assert!(known.is_none());
                }
                Ok(())
            };
            self.window.begin_block(room, note).unwrap();
            for (tx, (txid, outputs)) in txs.iter().enumerate() {
                let put = |vout: usize, out: &mut [u8]| {
                    let bytes = &outputs[vout];
                    out[..bytes.len()].copy_from_slice(bytes);
                    (!bytes.is_empty()).then_some(bytes.len())
                };
                let code = height << 1;
                self.window.push_tx(txid, code, tx as u32, outputs.len(), put);
                for (vout, bytes) in outputs.iter().enumerate().filter(|(_, b)| !b.is_empty()) {
                    self.coins.insert(outpoint(txid, vout as u32), (code, bytes.clone()));
                }
            }
        }
    }

    #[test]
    fn every_output_is_met_once_or_leaves() {
        let mut random = Random(11);
        for bytes in [0, 3000, 40_000, 1 << 20] {
            let window = Window::new(bytes);
            let coins = HashMap::new();
            let left = HashMap::new();
            let mut pair = Pair { window, coins, left };
            let mut met = 0;
            for height in 1..300u32 {
                let txs: Vec<_> = (0..random.below(12u32))
                    .map(|_| {
                        let txid = Hash(random.bytes(32).try_into().unwrap());
                        let mut output = |_| {
                            let len = random.below(60usize);
                            random.bytes(len)
                        };
                        let count = 5;
                        (txid, (0..count).map(&mut output).collect())
                    })
                    .collect();
                pair.block(height, &txs);
                let mut wanted: Vec<OutPoint> = pair.coins.keys().copied().collect();
                wanted.sort_unstable();
                for outpoint in wanted.into_iter().filter(|o| o.txid.0[3] % 5 == 0) {
                    let (code, bytes) = pair.coins[&outpoint].clone();
                    let hash = pair.window.hash(&outpoint.txid);
                    match pair.window.spend(&outpoint, hash, height, u32::MAX) {
                        Met::Output { code: found, output } => {
                            assert_eq!((found, output), (code, &bytes[..]));
                        }
                        found => {
                            assert_eq!(found, Met::Elsewhere);
                            assert_eq!(pair.left[&outpoint], (code, bytes));
                            continue;
                        }
                    }
                    met += 1;
                    pair.coins.remove(&outpoint);
                    let again = pair.window.spend(&outpoint, hash, height + 1, 0);
                    assert_eq!(again, Met::Elsewhere, "spent twice");
                }
            }
            let left = &mut pair.left;
            let clear = pair.window.clear(|tx| -> Result<(), Infallible> {
                tx.outputs().for_each(|(vout, bytes)| {
                    let coin = (tx.created.code(), bytes.to_vec());
                    left.insert(outpoint(&tx.txid, vout), coin);
                });
                Ok(())
            });
            clear.unwrap();
            assert_eq!(pair.left, pair.coins);
            assert!(met > 50, "{met}");
        }
    }

    #[test]
    fn the_order_within_a_block_counts() {
        let window = Window::new(0);
        let coins = HashMap::new();
        let left = HashMap::new();
        let mut pair = Pair { window, coins, left };
        let first = Hash([1; 32]);
        let second = Hash([2; 32]);
        pair.block(5, &[(first, vec![b"a".to_vec()]), (second, vec![b"b".to_vec(), vec![]])]);
        let mut spend = |txid: &Hash, vout, height, spender| {
            let hash = pair.window.hash(txid);
            match pair.window.spend(&outpoint(txid, vout), hash, height, spender) {
                Met::Output { output, .. } => Some(output[0]),
                Met::Missing => None,
                found @ Met::Elsewhere => panic!("{found:?}"),
            }
        };
        assert_eq!(spend(&second, 0, 5, 1), None, "by itself");
        assert_eq!(spend(&second, 0, 5, 0), None, "by an earlier transaction");
        assert_eq!(spend(&second, 1, 5, 7), None, "it can never be spent");
        assert_eq!(spend(&second, 2, 5, 7), None, "there is no such output");
        assert_eq!(spend(&first, 0, 5, 1), Some(b'a'));
        assert_eq!(spend(&first, 0, 5, 2), None, "twice");
        assert_eq!(spend(&second, 0, 5, 2), Some(b'b'));
    }
}
