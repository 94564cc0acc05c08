//! Blocks made by hand.

use bitcoin::block::Block;
use bitcoin::hashes::Hash;
use bitcoin::transaction::{Transaction, TxOut};
use bitcoin::{Amount, BlockHash, ScriptBuf};

use crate::block::{coinbase, commit, header, median_time, merkle_root, mine, subsidy};
use crate::opcodes::OP_1;

/// The block that another is built on.
#[derive(Clone, Debug)]
pub struct Parent {
    /// The block's hash.
    pub hash: BlockHash,
    /// The block's height.
    pub height: u32,
    /// The times of the block and of up to ten before it, in order of height.
    times: Vec<u32>,
}

impl Parent {
    /// Creates the parent from its hash, height, and the times of the last 11 blocks up to it
    /// (fewer near the genesis block).
    ///
    /// # Panics
    /// If `times` is empty.
    pub fn new(hash: BlockHash, height: u32, times: Vec<u32>) -> Self {
        assert!(!times.is_empty(), "a block has a time");
        Parent { hash, height, times }
    }

    /// Returns the median time past (BIP 113), which the next block's time must exceed.
    pub fn median_time_past(&self) -> u32 {
        median_time(&self.times)
    }

    pub fn time(&self) -> u32 {
        self.times.last().copied().expect("a block has a time")
    }

    /// Returns `block`, which was built on this one, as the parent of another.
    pub fn child(&self, block: &Block) -> Parent {
        let skip = (self.times.len() + 1).saturating_sub(11);
        let mut times = self.times[skip..].to_vec();
        times.push(block.header.time);
        Parent { hash: block.block_hash(), height: self.height + 1, times }
    }
}

/// Builds a block by hand. The block from [`Builder::finish`] is valid if its transactions are; it
/// can then be changed at will, and made consistent again as far as wanted with [`seal`],
/// [`remerkle`] and [`crate::block::mine`].
#[derive(Clone, Debug)]
pub struct Builder {
    parent: Parent,
    time: u32,
    coinbase_value: u64,
    extra: Vec<u8>,
    txs: Vec<Transaction>,
    commits: bool,
}

impl Builder {
    /// Starts an empty block on `parent`, ten minutes after it, that claims the subsidy to
    /// `OP_TRUE`.
    pub fn block_on(parent: &Parent) -> Self {
        Builder {
            time: parent.time().saturating_add(600).max(parent.median_time_past() + 1),
            coinbase_value: subsidy(parent.height + 1),
            extra: vec![0; 4],
            txs: Vec::new(),
            commits: true,
            parent: parent.clone(),
        }
    }

    pub fn height(&self) -> u32 {
        self.parent.height + 1
    }

    pub fn parent(&self) -> &Parent {
        &self.parent
    }

    /// Adds a transaction. Its fee is left unclaimed.
    pub fn tx(mut self, tx: Transaction) -> Self {
        self.txs.push(tx);
        self
    }

    /// Adds transactions.
    pub fn txs(mut self, txs: impl IntoIterator<Item = Transaction>) -> Self {
        self.txs.extend(txs);
        self
    }

    /// Sets the satoshis that the coinbase claims.
    pub fn coinbase_value(mut self, amount: u64) -> Self {
        self.coinbase_value = amount;
        self
    }

    /// Sets the bytes in the coinbase's script after the height, at most 75, by which otherwise
    /// equal blocks differ.
    pub fn extra(mut self, bytes: &[u8]) -> Self {
        self.extra = bytes.to_vec();
        self
    }

    /// Sets the block's time.
    pub fn time(mut self, time: u32) -> Self {
        self.time = time;
        self
    }

    /// Leaves the witness commitment out.
    pub fn without_commitment(mut self) -> Self {
        self.commits = false;
        self
    }

    /// Returns the finished block, with its commitments and its proof of work.
    pub fn finish(self) -> Block {
        let script = ScriptBuf::from(vec![OP_1]);
        let output = TxOut { value: Amount::from_sat(self.coinbase_value), script_pubkey: script };
        let mut txdata = vec![coinbase(self.height(), &self.extra, vec![output])];
        txdata.extend(self.txs);
        if self.commits {
            let root = witness_root(&txdata);
            commit(&mut txdata[0], root);
        }
        let mut block = Block { header: header(self.parent.hash, [0; 32], self.time), txdata };
        remerkle(&mut block);
        block
    }
}

/// Makes a changed block consistent again: replaces the witness commitment, which is the coinbase's
/// last output, the merkle root and the proof of work.
pub fn seal(block: &mut Block) {
    let root = witness_root(&block.txdata);
    if let Some(coinbase) = block.txdata.first_mut() {
        coinbase.output.pop();
        commit(coinbase, root);
    }
    remerkle(block);
}

/// Replaces the merkle root and the proof of work of a changed block.
pub fn remerkle(block: &mut Block) {
    let leaves = block.txdata.iter().map(|tx| tx.compute_txid().to_byte_array()).collect();
    block.header.merkle_root = bitcoin::TxMerkleNode::from_byte_array(merkle_root(leaves));
    mine(&mut block.header, true);
}

/// Returns the merkle root over the witness hashes of `txs`, with zeros for the coinbase's own.
pub(crate) fn witness_root(txs: &[Transaction]) -> [u8; 32] {
    let own = txs.iter().skip(1).map(|tx| tx.compute_wtxid().to_byte_array());
    merkle_root(std::iter::once([0; 32]).chain(own).collect())
}
