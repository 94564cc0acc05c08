//! The tables as they are counted by hand, with the crate `bitcoin`.

use std::collections::HashMap;

use apus_hash::hex;
use bitcoin::consensus::{deserialize, serialize};
use bitcoin::hashes::Hash as _;
use bitcoin::{Block, OutPoint, Script, Transaction, TxOut};

/// A row of a table, in the form of CSV.
pub type Row = Vec<String>;

/// The tables of a regtest chain but for that of coins, without the line of names.
#[derive(Default)]
pub struct ByHand {
    pub blocks: Vec<Row>,
    pub transactions: Vec<Row>,
    pub inputs: Vec<Row>,
    pub outputs: Vec<Row>,
    times: Vec<u32>,
    /// The outputs of all transactions so far, with height and whether a coinbase made them.
    made: HashMap<OutPoint, (TxOut, u32, bool)>,
}

/// The tables of these blocks, genesis first.
pub fn by_hand(blocks: &[Vec<u8>]) -> ByHand {
    let mut all = ByHand::default();
    for (height, bytes) in (0..).zip(blocks) {
        all.add(height, bytes);
    }
    all
}

fn row<const N: usize>(values: [&dyn ToString; N]) -> Row {
    values.iter().map(|value| value.to_string()).collect()
}

fn kind(script: &Script) -> &'static str {
    match script {
        script if script.is_p2pkh() => "p2pkh",
        script if script.is_p2sh() => "p2sh",
        script if script.is_p2wpkh() => "p2wpkh",
        script if script.is_p2wsh() => "p2wsh",
        script if script.is_p2tr() => "p2tr",
        script if script.is_witness_program() => "witness",
        script if script.is_op_return() => "op_return",
        script if script.is_p2pk() => "p2pk",
        script if script.is_multisig() => "multisig",
        _ => "other",
    }
}

fn output_value(tx: &Transaction) -> u64 {
    tx.output.iter().map(|output| output.value.to_sat()).sum()
}

impl ByHand {
    fn add(&mut self, height: u32, bytes: &[u8]) {
        let block: Block = deserialize(bytes).unwrap();
        self.times.push(block.header.time);
        let mut fees = 0;
        for (position, tx) in block.txdata.iter().enumerate() {
            fees += self.add_tx(height, position, tx).unwrap_or(0);
        }
        let last = &self.times[self.times.len().saturating_sub(11)..];
        let mut last = last.to_vec();
        last.sort_unstable();
        let header = &block.header;
        let stripped: usize = block.txdata.iter().map(Transaction::base_size).sum();
        let stripped =
            stripped + bytes.len() - block.txdata.iter().map(|tx| tx.total_size()).sum::<usize>();
        self.blocks.push(row([
            &height,
            &block.block_hash(),
            &header.version.to_consensus(),
            &header.prev_blockhash,
            &header.merkle_root,
            &header.time,
            &last[last.len() / 2],
            &header.bits.to_consensus(),
            &header.nonce,
            &bytes.len(),
            &stripped,
            &block.weight().to_wu(),
            &block.txdata.len(),
            &block.txdata.iter().map(|tx| tx.input.len()).sum::<usize>(),
            &block.txdata.iter().map(|tx| tx.output.len()).sum::<usize>(),
            &(5_000_000_000_u64 >> (height / 150)),
            &output_value(&block.txdata[0]),
            &fees,
        ]));
    }

    /// Adds a transaction with its inputs and outputs; returns its fee, unless it is a coinbase.
    fn add_tx(&mut self, height: u32, position: usize, tx: &Transaction) -> Option<u64> {
        let txid = tx.compute_txid();
        let mut spent = 0;
        for (vin, input) in tx.input.iter().enumerate() {
            let witness = if input.witness.is_empty() {
                String::new()
            } else {
                hex(&serialize(&input.witness))
            };
            let mut values = row([&height, &txid, &vin]);
            let coin = (position > 0).then(|| self.made[&input.previous_output].clone());
            let previous = input.previous_output;
            values.extend(match coin {
                Some(_) => row([&previous.txid, &previous.vout]),
                None => row([&"", &""]),
            });
            let sequence = input.sequence.to_consensus_u32();
            let script = &input.script_sig;
            values.extend(row([&sequence, &hex(script.as_bytes()), &witness]));
            values.extend(match coin {
                Some((output, height, is_coinbase)) => {
                    spent += output.value.to_sat();
                    let script = &output.script_pubkey;
                    let kind = kind(script);
                    let bytes = hex(script.as_bytes());
                    let value = output.value.to_sat();
                    row([&value, &height, &u8::from(is_coinbase), &kind, &bytes])
                }
                None => row([&"", &"", &"", &"", &""]),
            });
            self.inputs.push(values);
        }
        let is_coinbase = position == 0;
        for (vout, output) in (0..).zip(&tx.output) {
            let script = &output.script_pubkey;
            let value = output.value.to_sat();
            let coinbase = u8::from(is_coinbase);
            let bytes = hex(script.as_bytes());
            self.outputs.push(row([
                &height,
                &txid,
                &vout,
                &value,
                &coinbase,
                &kind(script),
                &bytes,
            ]));
            let made = (output.clone(), height, is_coinbase);
            self.made.insert(OutPoint::new(txid, vout), made);
        }
        let fee = (!is_coinbase).then(|| spent - output_value(tx));
        let wtxid = bitcoin::Wtxid::hash(&serialize(tx));
        self.transactions.push(row([
            &height,
            &position,
            &txid,
            &wtxid,
            &u8::from(is_coinbase),
            &(tx.version.0 as u32),
            &tx.lock_time.to_consensus_u32(),
            &tx.total_size(),
            &tx.weight().to_wu(),
            &tx.vsize(),
            &tx.input.len(),
            &tx.output.len(),
            &output_value(tx),
            &fee.map_or(String::new(), |fee| fee.to_string()),
        ]));
        fee
    }
}
