//! Tests with a block for each reject reason, with real chains in full, with random blocks whose
//! verdicts are compared with those of libbitcoinkernel, and with spends of every kind.

mod core;
mod differential;
mod fast_scripts;
mod node;
mod real;
mod real_scripts;
mod reasons;
mod spends;

use apus_consensus::*;
use apus_hash::Hash;
use apus_testdata::{Random, blocks_of, data, shared};
use apus_wire::{
    BlockView, Chain, Header, Network, Prevout, ScriptFlags, TxView, merkle_root, put_compact_size,
};
use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash as _;
use bitcoin::transaction::Version;
use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness};

use super::check_block;
use super::*;

/// A chain of headers from the genesis block on, as the ancestry of its last one.
#[derive(Clone, Copy)]
pub struct Headers<'a>(pub &'a [Header]);

impl Ancestry for Headers<'_> {
    fn height(&self) -> u32 {
        self.0.len() as u32 - 1
    }

    fn at(&self, height: u32) -> HeaderFacts {
        let header = &self.0[height as usize];
        HeaderFacts { bits: header.bits, time: header.time }
    }
}

pub fn regtest() -> Network {
    Network::new(Chain::Regtest)
}

/// An output of `amount` satoshi that anybody can spend.
pub fn output(amount: i64) -> TxOut {
    // Some tests need a negative amount.
    TxOut { value: Amount::from_sat(amount as u64), script_pubkey: ScriptBuf::from(vec![0x51]) }
}

pub fn input(outpoint: OutPoint) -> TxIn {
    TxIn {
        previous_output: outpoint,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    }
}

/// The `n`th outpoint of a made-up transaction.
pub fn outpoint(n: u32) -> OutPoint {
    OutPoint { txid: Txid::from_byte_array([7; 32]), vout: n }
}

pub fn transaction(inputs: Vec<TxIn>, outputs: Vec<TxOut>) -> Transaction {
    Transaction { version: Version::TWO, lock_time: LockTime::ZERO, input: inputs, output: outputs }
}

/// A coinbase that claims 50 bitcoins and begins with its height, as BIP34 requires.
pub fn coinbase(height: u32) -> Transaction {
    let mut input = input(OutPoint::null());
    input.script_sig = bitcoin::script::Builder::new().push_int(height.into()).into_script();
    input.script_sig.push_slice([height as u8; 4]);
    transaction(vec![input], vec![output(50 * COIN)])
}

/// A transaction that spends made-up output `n`.
pub fn spending(n: u32) -> Transaction {
    transaction(vec![input(outpoint(n))], vec![output(1000)])
}

/// A block of serialised transactions, with their merkle root, mined for regtest.
pub fn block_of_raw(txs: &[Vec<u8>]) -> Vec<u8> {
    let header = Header { version: 4, time: 1_700_000_000, bits: 0x207f_ffff, ..Header::default() };
    let bytes = assemble(&header, txs);
    let root = BlockView::parse(&bytes).map(|view| merkle_root(&mut view.txids()).root);
    mined(Header { merkle_root: root.unwrap_or_default(), ..header }, txs)
}

/// The block with the first nonce that meets its own target.
pub fn mined(mut header: Header, txs: &[Vec<u8>]) -> Vec<u8> {
    let network = regtest();
    while !proof_of_work(&header.hash(), header.bits, &network) {
        header.nonce += 1;
    }
    assemble(&header, txs)
}

fn assemble(header: &Header, txs: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = header.to_bytes().to_vec();
    put_compact_size(&mut bytes, txs.len() as u64);
    bytes.extend(txs.iter().flatten());
    bytes
}

pub fn block_of(txs: &[Transaction]) -> Vec<u8> {
    let raw: Vec<Vec<u8>> = txs.iter().map(serialize).collect();
    block_of_raw(&raw)
}

/// A checked block of these transactions.
pub fn checked(txs: &[Transaction]) -> CheckedBlock<Vec<u8>> {
    let view = BlockView::parse(block_of(txs)).unwrap();
    check_block(view, &regtest()).unwrap()
}

/// Checks every input of a transaction that spends `prevouts`.
pub fn check_tx_scripts(
    tx: &TxView,
    prevouts: &[Prevout],
    flags: ScriptFlags,
) -> Result<(), RuleError> {
    let scripts = TxScripts::new(tx, prevouts, flags)?;
    (0..scripts.input_count()).try_for_each(|input| scripts.check_input(input))
}

/// `ok`, or the reject reason of an error.
pub fn verdict<T>(result: Result<T, RuleError>) -> String {
    result.map_or_else(|error| error.reason.into_owned(), |_| "ok".to_owned())
}

pub fn prevout(amount: i64) -> Prevout<'static> {
    Prevout { amount, script: &[0x51], height: 1, is_coinbase: false }
}

pub fn hash(byte: u8) -> Hash {
    Hash([byte; 32])
}
