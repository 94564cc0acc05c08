//! The regtest chains of Bitcoin Core's own tests, for whose tips Core's chain parameters list a
//! UTXO set, so that a node loads a snapshot of it (`m_assumeutxo_data` of version 31.99).

use std::str::FromStr;

use bitcoin::absolute::LockTime;
use bitcoin::block::{Block, Version};
use bitcoin::hashes::{Hash, sha256};
use bitcoin::script::Builder as ScriptBuilder;
use bitcoin::transaction::{OutPoint, Transaction, TxIn, TxOut};
use bitcoin::{Address, Amount, Network, ScriptBuf, Sequence, Witness};

use crate::block::{coinbase_script, commit, encode_block, header, subsidy};
use crate::builder::{Builder, Parent, remerkle, witness_root};
use crate::encode::push;
use crate::opcodes::{OP_1, OP_CHECKSIG};

/// The compressed key of the secret 1, to which the unit tests' blocks pay.
const UNIT_TESTS_KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
/// The time before the unit tests' first block.
const UNIT_TESTS_TIME: u32 = 1_598_887_951;
/// The addresses of the functional tests' nodes 0 to 2.
const NODES: [&str; 3] = [
    "mjTkW3DjgyZck4KbiRusZsqTgaYTxdSz6z",
    "msX6jQXvxiNhx3Q62PKeLPrhrqZQdSimTg",
    "mnonCMyH9TmAsSj3M59DsbH8H63U3RKoFP",
];
/// The output key of the functional tests' wallet: the x-only key 1 with the one leaf `OP_TRUE`.
const WALLET_KEY: &str = "2913b252fe537830f843bfdc5fa7d20ba48639a87c86ff837b92d083c55ad7c1";
/// The fee of each payment of the functional tests' wallet, in satoshis.
const WALLET_FEE: u64 = 31_200;
/// The height of the last block of the chain that the functional tests begin with.
const CACHED_HEIGHT: u32 = 199;

/// A chain from height 1 up to the base block of a listed UTXO set.
#[derive(Clone)]
pub struct ListedChain {
    /// The bytes of all blocks, from height 1 on.
    pub blocks: Vec<Vec<u8>>,
    tip: Parent,
}

/// What differs from block to block of these chains.
struct Draft {
    version: i32,
    time: u32,
    /// The script of the coinbase's first output.
    pays: ScriptBuf,
    /// The fees of the other transactions, in satoshis.
    fees: u64,
    /// Transactions after the coinbase.
    txs: Vec<Transaction>,
}

/// Returns the chain of Core's unit tests: 110 blocks (`TestChain100Setup`, and 10 more).
pub fn chain_110() -> ListedChain {
    let key = ScriptBuf::from_hex(UNIT_TESTS_KEY).expect("hex").into_bytes();
    let mut script = Vec::new();
    push(&key, &mut script);
    script.push(OP_CHECKSIG);
    let pays = ScriptBuf::from(script);
    let mut chain = ListedChain::genesis();
    for height in 1..=110 {
        chain.assemble(Draft {
            version: 0x2000_0000,
            time: UNIT_TESTS_TIME + height,
            pays: pays.clone(),
            fees: 0,
            txs: Vec::new(),
        });
    }
    chain
}

/// Returns the chain of Core's `CreateBlockChain`: 200 blocks without witness commitments.
pub fn chain_200() -> ListedChain {
    let script_hash = sha256::Hash::hash(&[OP_1]).to_byte_array();
    let pays = ScriptBuf::from([&[0, 32][..], &script_hash].concat());
    let mut chain = ListedChain::genesis();
    let genesis_time = chain.tip.median_time_past();
    for height in 1..=200 {
        let coinbase = coinbase(height, coinbase_script(height, &[]), &pays, 0);
        chain.push(4, genesis_time + height, vec![coinbase]);
    }
    chain
}

/// Returns the chain of Core's functional tests: 299 blocks with 34 payments
/// (`feature_assumeutxo.py`).
pub fn chain_299() -> ListedChain {
    let wallet = ScriptBuf::from_hex(&format!("5120{WALLET_KEY}")).expect("hex");
    let nodes = NODES.map(|address| {
        Address::from_str(address).expect("an address").assume_checked().script_pubkey()
    });
    let genesis_time = ListedChain::genesis().tip.median_time_past();
    let mut chain = ListedChain::genesis();
    // Coins of the wallet, those to be spent first at the end.
    let mut coinbases = Vec::new();
    let mut change = Vec::new();
    for height in 1..=CACHED_HEIGHT {
        let turn = (height as usize - 1) / 25 % 4;
        let pays = nodes.get(turn).unwrap_or(&wallet);
        let block = chain.assemble(Draft {
            version: if height < 144 { 0x2000_0000 } else { 0x3000_0000 },
            time: chain.time_from(genesis_time),
            pays: pays.clone(),
            fees: 0,
            txs: Vec::new(),
        });
        if (76..=100).contains(&height) {
            let coinbase = &block.txdata[0];
            coinbases.insert(0, (coinbase.compute_txid(), coinbase.output[0].value.to_sat()));
        }
    }
    let now = chain.tip.time();
    for i in 0..100 {
        let mut draft = Draft {
            version: 0x3000_0000,
            time: chain.time_from(now),
            pays: nodes[0].clone(),
            fees: 0,
            txs: Vec::new(),
        };
        if i % 3 == 0 {
            // The wallet spends the largest coin: coinbases first, and then their change.
            let is_coinbase = !coinbases.is_empty();
            let from = if is_coinbase { &mut coinbases } else { &mut change };
            let (txid, value) = from.pop().expect("there are coins for 34 payments");
            let tx = wallet_payment(OutPoint::new(txid, 0), value - WALLET_FEE, &wallet);
            if is_coinbase {
                change.push((tx.compute_txid(), value - WALLET_FEE));
            }
            draft.fees = WALLET_FEE;
            draft.txs.push(tx);
        }
        chain.assemble(draft);
    }
    chain
}

impl ListedChain {
    fn genesis() -> Self {
        let genesis = bitcoin::constants::genesis_block(Network::Regtest);
        let tip = Parent::new(genesis.block_hash(), 0, vec![genesis.header.time]);
        Self { blocks: Vec::new(), tip }
    }

    pub fn base(&self) -> &Parent {
        &self.tip
    }

    /// Returns the bytes of `count` empty blocks that follow the base block.
    pub fn more(&self, count: usize) -> Vec<Vec<u8>> {
        let mut parent = self.tip.clone();
        let mut next = || {
            let block = Builder::block_on(&parent).finish();
            parent = parent.child(&block);
            encode_block(&block)
        };
        (0..count).map(|_| next()).collect()
    }

    /// Returns the time of the next block when the clock says `now`.
    fn time_from(&self, now: u32) -> u32 {
        now.max(self.tip.median_time_past() + 1)
    }

    /// Adds a block like those of Core's `BlockAssembler`, and returns it.
    fn assemble(&mut self, draft: Draft) -> Block {
        let height = self.tip.height + 1;
        let script = match height {
            // With the height alone it would be shorter than a coinbase's script may be.
            ..=16 => coinbase_script(height, &[]),
            _ => ScriptBuilder::new().push_int(i64::from(height)).into_script(),
        };
        let mut txs = vec![coinbase(height, script, &draft.pays, draft.fees)];
        txs.extend(draft.txs);
        let root = witness_root(&txs);
        commit(&mut txs[0], root);
        self.push(draft.version, draft.time, txs)
    }

    /// Adds a block of these transactions, and returns it.
    fn push(&mut self, version: i32, time: u32, txdata: Vec<Transaction>) -> Block {
        let mut header = header(self.tip.hash, [0; 32], time);
        header.version = Version::from_consensus(version);
        let mut block = Block { header, txdata };
        remerkle(&mut block);
        self.tip = self.tip.child(&block);
        self.blocks.push(encode_block(&block));
        block
    }
}

/// Returns a coinbase of the block at `height` that claims its subsidy and `fees`. Like Core's, it
/// could not have been in an earlier block.
fn coinbase(height: u32, script_sig: ScriptBuf, pays: &ScriptBuf, fees: u64) -> Transaction {
    Transaction {
        version: bitcoin::transaction::Version::TWO,
        lock_time: LockTime::from_consensus(height - 1),
        input: vec![TxIn {
            previous_output: OutPoint::null(),
            script_sig,
            sequence: Sequence(0xffff_fffe),
            witness: Witness::new(),
        }],
        output: vec![TxOut {
            value: Amount::from_sat(subsidy(height) + fees),
            script_pubkey: pays.clone(),
        }],
    }
}

/// Returns a payment of the functional tests' wallet to itself, which needs no signature.
fn wallet_payment(spends: OutPoint, value: u64, wallet: &ScriptBuf) -> Transaction {
    let mut control = [0; 33];
    control[0] = crate::keys::LEAF_VERSION;
    control[32] = 1;
    Transaction {
        version: bitcoin::transaction::Version::TWO,
        lock_time: LockTime::ZERO,
        input: vec![TxIn {
            previous_output: spends,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::ZERO,
            witness: Witness::from_slice(&[&[OP_1][..], &control]),
        }],
        output: vec![TxOut { value: Amount::from_sat(value), script_pubkey: wallet.clone() }],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_blocks_are_those_of_core() {
        let chains = [
            (chain_110(), "135eec25a6fb277884e5824e7aa7d052c4868161c99a5122170b5266f86c273d", 111),
            (chain_200(), "385901ccbd69dff6bbd00065d01fb8a9e464dede7cfe0372443884f9b1dcf6b9", 201),
            (chain_299(), "0c552ced4721c249a389eb9b08cb8da261cd46f0e7b5f9d064d48f3113406853", 334),
        ];
        for (chain, base, txs) in chains {
            assert_eq!(chain.base().hash.to_string(), base);
            assert_eq!(chain.blocks.len(), chain.base().height as usize);
            // Fewer than 253 transactions are counted in one byte. Genesis has one.
            let count: usize = chain.blocks.iter().map(|block| usize::from(block[80])).sum();
            assert_eq!(count + 1, txs);
        }
    }

    #[test]
    fn more_blocks_follow_the_base_block() {
        let chain = chain_200();
        let more = chain.more(2);
        let parent = |block: &[u8]| {
            let header: bitcoin::block::Header =
                bitcoin::consensus::encode::deserialize(&block[..80]).unwrap();
            (header.prev_blockhash, header.block_hash())
        };
        let (first, hash) = parent(&more[0]);
        let (second, _) = parent(&more[1]);
        assert_eq!((first, second), (chain.base().hash, hash));
    }
}
