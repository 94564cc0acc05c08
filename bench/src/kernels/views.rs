use std::ops::ControlFlow;

use apus_hash::Hash;
use apus_wire::{BlockView, merkle_root};
use bitcoin::Block;
use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash as _;
use bitcoin_slices::{Visit, Visitor, bsl};

use super::Sample;
use super::figures::Amount::Bytes;
use super::figures::{Figures, Kind};
use crate::Result;
use crate::measure::{Effort, digest};

const APUS: (Kind, &str) = (Kind::Apus, "Apus");
const BITCOIN: (Kind, &str) = (Kind::Other, "bitcoin 0.32");
const SLICES: (Kind, &str) = (Kind::Other, "bitcoin_slices 0.10");
const SLICES_SHA2: (Kind, &str) = (Kind::Other, "bitcoin_slices 0.10 with sha2");

/// Measures parsing a block's bytes into amounts, txids and the merkle root.
pub fn run(effort: Effort, sample: &Sample, figures: &mut Figures) -> Result<()> {
    let bytes = &sample.block[..];
    let amount = Bytes(bytes.len());
    let (time, sum) = effort.time(|| BlockView::parse(bytes).map(|view| amounts(&view)));
    figures.add("parse block, add up amounts", APUS, amount, time, sum?)?;
    let theirs = || deserialize::<Block>(bytes).map(|block| amounts_of(&block));
    let (time, sum) = effort.time(theirs);
    figures.add("parse block, add up amounts", BITCOIN, amount, time, sum?)?;
    let (time, sum) = effort.time(|| visit(bytes, Amounts(0)));
    figures.add("parse block, add up amounts", SLICES, amount, time, sum?.0)?;

    let view = BlockView::parse(bytes)?;
    let block: Block = deserialize(bytes)?;
    let (time, txids) = effort.time(|| view.txids());
    let flat = |txids: &[Hash]| digest(&txids.iter().flat_map(|txid| txid.0).collect::<Vec<_>>());
    figures.add("txids", APUS, amount, time, flat(&txids))?;
    let theirs = || block.txdata.iter().map(|tx| Hash(tx.compute_txid().to_byte_array()));
    let (time, same) = effort.time(|| theirs().collect::<Vec<_>>());
    figures.add("txids", BITCOIN, amount, time, flat(&same))?;
    let (time, same) = effort.time(|| visit(bytes, Txids(Vec::new())));
    figures.add("txids", SLICES, amount, time, flat(&same?.0))?;
    let (time, same) = effort.time(|| visit(bytes, TxidsSha2(Vec::new())));
    figures.add("txids", SLICES_SHA2, amount, time, flat(&same?.0))?;

    let amount = Bytes(32 * txids.len());
    let (time, root) = effort.time_with(|| txids.clone(), |mut txids| merkle_root(&mut txids).root);
    figures.add("merkle root of txids", APUS, amount, time, digest(&root.0))?;
    let theirs: Vec<_> = block.txdata.iter().map(|tx| tx.compute_txid().to_raw_hash()).collect();
    let (time, root) = effort.time(|| bitcoin::merkle_tree::calculate_root(theirs.iter().copied()));
    let root = root.map_or([0; 32], |root| root.to_byte_array());
    figures.add("merkle root of txids", BITCOIN, amount, time, digest(&root))?;
    if root != view.header().merkle_root.0 {
        return Err("the header has a different merkle root".into());
    }
    Ok(())
}

fn amounts(view: &BlockView<&[u8]>) -> u64 {
    let outputs = view.txs().flat_map(|tx| tx.outputs().map(|output| output.value()));
    outputs.fold(0, |sum, value| sum.wrapping_add(value.unsigned_abs()))
}

fn amounts_of(block: &Block) -> u64 {
    let outputs = block.txdata.iter().flat_map(|tx| &tx.output);
    outputs.fold(0, |sum, output| sum.wrapping_add(output.value.to_sat()))
}

fn visit<V: Visitor>(bytes: &[u8], mut visitor: V) -> Result<V> {
    match bsl::Block::visit(bytes, &mut visitor) {
        Ok(_) => Ok(visitor),
        Err(error) => Err(format!("bitcoin_slices: {error:?}").into()),
    }
}

struct Amounts(u64);

impl Visitor for Amounts {
    fn visit_tx_out(&mut self, _vout: usize, output: &bsl::TxOut) -> ControlFlow<()> {
        self.0 = self.0.wrapping_add(output.value());
        ControlFlow::Continue(())
    }
}

struct Txids(Vec<Hash>);

impl Visitor for Txids {
    fn visit_transaction(&mut self, tx: &bsl::Transaction) -> ControlFlow<()> {
        self.0.push(Hash(tx.txid().to_byte_array()));
        ControlFlow::Continue(())
    }
}

struct TxidsSha2(Vec<Hash>);

impl Visitor for TxidsSha2 {
    fn visit_transaction(&mut self, tx: &bsl::Transaction) -> ControlFlow<()> {
        self.0.push(Hash(tx.txid_sha2().into()));
        ControlFlow::Continue(())
    }
}
