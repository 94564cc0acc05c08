use super::{Command, Payload};
use crate::{OutPoint, compact_size_len, put_compact_size};

/// A transaction to send (`tx`), with its witnesses if it has any (BIP144).
#[derive(Clone, Copy, Debug)]
pub struct Transaction<'a> {
    /// The version.
    pub version: u32,
    /// The inputs.
    pub inputs: &'a [TxInput<'a>],
    /// The outputs.
    pub outputs: &'a [TxOutput<'a>],
    /// The lock time: the height or the time from which the transaction may be in a block.
    pub lock_time: u32,
}

/// An input of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct TxInput<'a> {
    /// The output that the input spends.
    pub outpoint: OutPoint,
    /// The script (`scriptSig`).
    pub script: &'a [u8],
    /// The sequence number.
    pub sequence: u32,
    /// The items of the witness.
    pub witness: &'a [&'a [u8]],
}

/// An output of a transaction.
#[derive(Clone, Copy, Debug)]
pub struct TxOutput<'a> {
    /// The amount in satoshis.
    pub value: i64,
    /// The script (`scriptPubKey`).
    pub script: &'a [u8],
}

impl Transaction<'_> {
    fn has_witness(&self) -> bool {
        self.inputs.iter().any(|input| !input.witness.is_empty())
    }
}

impl Payload for Transaction<'_> {
    fn command(&self) -> Command {
        Command::TX
    }

    fn size(&self) -> usize {
        let input = |input: &TxInput| 36 + bytes_size(input.script) + 4;
        let output = |output: &TxOutput| 8 + bytes_size(output.script);
        let inputs: usize = self.inputs.iter().map(input).sum();
        let outputs: usize = self.outputs.iter().map(output).sum();
        let counts = compact_size_len(self.inputs.len() as u64)
            + compact_size_len(self.outputs.len() as u64);
        let body = 4 + counts + inputs + outputs + 4;
        if !self.has_witness() {
            return body;
        }
        let witness = |input: &TxInput| {
            let items: usize = input.witness.iter().map(|item| bytes_size(item)).sum();
            compact_size_len(input.witness.len() as u64) + items
        };
        body + 2 + self.inputs.iter().map(witness).sum::<usize>()
    }

    fn put(&self, out: &mut Vec<u8>) {
        let has_witness = self.has_witness();
        out.extend_from_slice(&self.version.to_le_bytes());
        if has_witness {
            out.extend_from_slice(&[0, 1]);
        }
        put_compact_size(out, self.inputs.len() as u64);
        for input in self.inputs {
            out.extend_from_slice(&input.outpoint.to_bytes());
            put_bytes(out, input.script);
            out.extend_from_slice(&input.sequence.to_le_bytes());
        }
        put_compact_size(out, self.outputs.len() as u64);
        for output in self.outputs {
            out.extend_from_slice(&output.value.to_le_bytes());
            put_bytes(out, output.script);
        }
        if has_witness {
            for input in self.inputs {
                put_compact_size(out, input.witness.len() as u64);
                input.witness.iter().for_each(|item| put_bytes(out, item));
            }
        }
        out.extend_from_slice(&self.lock_time.to_le_bytes());
    }
}

/// Returns the length of a byte string with its length prefix.
fn bytes_size(bytes: &[u8]) -> usize {
    compact_size_len(bytes.len() as u64) + bytes.len()
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_compact_size(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
