//! Blocks as Apus reads them, compared with Bitcoin Core's own deserialisation and with
//! rust-bitcoin.

use apus_hash::Hash;
use apus_wire::{BlockView, TxView, merkle_root};
use bitcoin::consensus::deserialize_partial;
use bitcoin::hashes::Hash as _;

/// Reads `data` as a block, which other bytes may follow.
///
/// Core and Apus accept the same bytes, and find the same block in them. So does rust-bitcoin,
/// except for transactions without inputs, which Core reads differently and no valid block has.
pub fn run(data: &[u8]) {
    let core = bitcoinkernel::Block::new(data);
    let other = deserialize_partial::<bitcoin::Block>(data);
    let Ok(view) = BlockView::parse(data) else {
        assert!(core.is_err(), "Core reads this block");
        let without_inputs = |tx: &bitcoin::Transaction| tx.input.is_empty();
        assert!(other.is_err() || other.is_ok_and(|(b, _)| b.txdata.iter().any(without_inputs)));
        return;
    };
    let core = core.expect("Core reads this block, too");
    assert_eq!(core.consensus_encode().expect("Core writes what it has read"), view.bytes());
    assert_eq!(core.transaction_count(), view.tx_count());
    walk(&view);
    if view.txs().all(|tx| tx.input_count() > 0) {
        let (other, len) = other.expect("rust-bitcoin reads this block, too");
        assert_eq!(len, view.len());
        compare(&view, &other);
    }
}

/// Visits every part of a block, and compares its counts and sizes with each other.
fn walk(view: &BlockView<&[u8]>) {
    assert_eq!(view.txs().map(|tx| tx.input_count()).sum::<usize>(), view.input_count());
    assert_eq!(view.txs().map(|tx| tx.output_count()).sum::<usize>(), view.output_count());
    assert!(view.base_size() <= view.len());
    let _ = (view.hash(), view.weight(), view.witness_merkle_root(), view.witness_commitment());
    assert_eq!(view.txids(), view.txs().map(|tx| tx.txid()).collect::<Vec<_>>());
    for tx in view.txs() {
        assert!(tx.base_size() <= tx.bytes().len());
        let items: usize = tx.inputs().flat_map(|i| i.witness()).map(<[u8]>::len).sum();
        let scripts: usize = tx.inputs().map(|input| input.script_sig().len()).sum();
        let outputs: usize = tx.outputs().map(|output| output.script().len() + 9).sum();
        assert!(items + scripts + outputs + 41 * tx.input_count() <= tx.bytes().len());
    }
}

/// Compares all that a view returns with rust-bitcoin.
fn compare(view: &BlockView<&[u8]>, other: &bitcoin::Block) {
    assert_eq!(view.hash().0, other.block_hash().to_byte_array());
    assert_eq!(view.header().to_bytes()[..], bitcoin::consensus::serialize(&other.header)[..]);
    assert_eq!(view.tx_count(), other.txdata.len());
    assert_eq!(view.weight() as u64, other.weight().to_wu());
    for (tx, theirs) in view.txs().zip(&other.txdata) {
        compare_tx(&tx, theirs);
    }
    let root = merkle_root(&mut view.txids()).root;
    let theirs = other.compute_merkle_root();
    assert_eq!(theirs.map_or(Hash::ZERO.0, |root| root.to_byte_array()), root.0);
    if let Some(root) = other.witness_root() {
        assert_eq!(view.witness_merkle_root().root.0, root.to_byte_array());
    }
}

fn compare_tx(tx: &TxView, theirs: &bitcoin::Transaction) {
    assert_eq!(tx.txid().0, theirs.compute_txid().to_byte_array());
    assert_eq!(tx.version() as i32, theirs.version.0);
    assert_eq!(tx.lock_time(), theirs.lock_time.to_consensus_u32());
    assert_eq!((tx.base_size(), tx.bytes().len()), (theirs.base_size(), theirs.total_size()));
    assert_eq!(tx.is_coinbase(), theirs.is_coinbase());
    assert_eq!((tx.input_count(), tx.output_count()), (theirs.input.len(), theirs.output.len()));
    for (input, theirs) in tx.inputs().zip(&theirs.input) {
        let outpoint = bitcoin::consensus::serialize(&theirs.previous_output);
        assert_eq!(input.outpoint_bytes()[..], outpoint[..]);
        assert_eq!(input.script_sig(), theirs.script_sig.as_bytes());
        assert_eq!(input.sequence(), theirs.sequence.0);
        assert!(input.witness().eq(theirs.witness.iter()));
    }
    for (output, theirs) in tx.outputs().zip(&theirs.output) {
        assert_eq!(output.value() as u64, theirs.value.to_sat());
        assert_eq!(output.script(), theirs.script_pubkey.as_bytes());
    }
}
