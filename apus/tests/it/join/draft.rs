//! Small regtest chains made by hand, of coins that anybody may spend.

use apus_testchain::block::encode_block;
use apus_testchain::{Builder, Parent, remerkle};
use apus_wire::{Chain, Network, genesis_block};
use bitcoin::block::Block;
use bitcoin::script::ScriptBuf;
use bitcoin::transaction::{Transaction, TxIn, TxOut, Version};
use bitcoin::{Amount, OutPoint, Sequence, Txid, Witness};

use crate::support::blocks::{branch, genesis_parent};

/// Satoshis of a coinbase below height 150.
pub const SUBSIDY: u64 = 5_000_000_000;

/// A chain that grows block by block.
#[derive(Clone)]
pub struct Draft {
    blocks: Vec<Block>,
    /// The blocks that the next ones can be built on: genesis, and each block.
    parents: Vec<Parent>,
}

impl Draft {
    /// A chain of `n` blocks with only a coinbase, without commitments.
    pub fn new(height: u32) -> Self {
        let mut draft = Self { blocks: Vec::new(), parents: vec![genesis_parent()] };
        draft.grow(height);
        draft
    }

    /// The height of the last block.
    pub fn height(&self) -> u32 {
        self.blocks.len() as u32
    }

    /// The block at `height`.
    pub fn at(&self, height: u32) -> &Block {
        &self.blocks[height as usize - 1]
    }

    /// The coinbase's output of the block at `height`.
    pub fn coin(&self, height: u32) -> OutPoint {
        out(&self.at(height).txdata[0], 0)
    }

    /// A block on the tip that is not part of the chain yet.
    pub fn next(&self) -> Builder {
        Builder::block_on(&self.parents[self.blocks.len()]).without_commitment()
    }

    /// Adds a block.
    pub fn push(&mut self, block: Block) {
        self.parents.push(self.parents[self.blocks.len()].child(&block));
        self.blocks.push(block);
    }

    /// Adds a block with these transactions.
    pub fn add<const N: usize>(&mut self, txs: [Transaction; N]) {
        self.push(self.next().txs(txs).finish());
    }

    /// Adds a block with these transactions, and with `coinbase` in the place of its own.
    pub fn add_with_coinbase<const N: usize>(
        &mut self,
        coinbase: &Transaction,
        txs: [Transaction; N],
    ) {
        let mut block = self.next().txs(txs).finish();
        block.txdata[0] = coinbase.clone();
        remerkle(&mut block);
        self.push(block);
    }

    /// Adds `n` blocks with only a coinbase.
    pub fn grow(&mut self, count: u32) {
        (0..count).for_each(|_| self.add([]));
    }

    /// Adds blocks with a coinbase alone up to `height`.
    pub fn grow_to(&mut self, height: u32) {
        self.grow(height - self.height());
    }

    /// Blocks with a coinbase alone on the block at `height`, which are not part of the chain.
    pub fn fork(&self, height: u32, name: &str, count: usize) -> Vec<Vec<u8>> {
        let (blocks, _) = branch(&self.parents[height as usize], name, count);
        blocks.iter().map(encode_block).collect()
    }

    /// The bytes of all blocks, genesis first.
    pub fn bytes(&self) -> Vec<Vec<u8>> {
        let genesis = genesis_block(&Network::new(Chain::Regtest));
        std::iter::once(genesis).chain(self.blocks.iter().map(encode_block)).collect()
    }
}

/// An output of a transaction.
pub fn out(tx: &Transaction, vout: u32) -> OutPoint {
    OutPoint::new(tx.compute_txid(), vout)
}

/// A transaction that spends `coins` and pays these amounts to everybody.
pub fn pay<const N: usize, const M: usize>(coins: [OutPoint; N], amounts: [u64; M]) -> Transaction {
    pay_to(&coins, amounts.iter().map(|amount| (*amount, vec![0x51])))
}

/// A transaction that spends `coins` and pays amounts to scripts.
pub fn pay_to(
    coins: &[OutPoint],
    outputs: impl IntoIterator<Item = (u64, Vec<u8>)>,
) -> Transaction {
    let input = |coin: &OutPoint| TxIn {
        previous_output: *coin,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    };
    let output = |(amount, script): (u64, Vec<u8>)| TxOut {
        value: Amount::from_sat(amount),
        script_pubkey: ScriptBuf::from(script),
    };
    Transaction {
        version: Version::TWO,
        lock_time: bitcoin::absolute::LockTime::ZERO,
        input: coins.iter().map(input).collect(),
        output: outputs.into_iter().map(output).collect(),
    }
}

/// `tx` with the first lock time that gives it a txid whose first byte is `first`. Final sequence
/// numbers keep the lock time from binding.
pub fn ground(mut tx: Transaction, first: u8) -> Transaction {
    use bitcoin::hashes::Hash as _;
    for lock_time in 0.. {
        tx.lock_time = bitcoin::absolute::LockTime::from_consensus(lock_time);
        if tx.compute_txid().to_byte_array()[0] == first {
            return tx;
        }
    }
    unreachable!("one in 256 fits")
}

/// An output of a transaction that no block has.
pub fn nowhere(byte: u8) -> OutPoint {
    use bitcoin::hashes::Hash as _;
    OutPoint::new(Txid::from_byte_array([byte; 32]), 0)
}
