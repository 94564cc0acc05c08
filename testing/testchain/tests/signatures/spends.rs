//! The contents of a chain's inputs, read from its blocks.

use std::collections::HashMap;

use apus_testchain::Chain;
use bitcoin::script::Instruction;
use bitcoin::{ScriptBuf, Transaction};

/// An input, with the script of the output that it spends.
pub struct Spend {
    pub script: ScriptBuf,
    pub tx: Transaction,
    pub index: usize,
}

/// Returns every input of a chain, without coinbases, in order.
pub fn spends(chain: &Chain) -> Vec<Spend> {
    let mut scripts = HashMap::new();
    let mut spends = Vec::new();
    for (n, tx) in
        (1..=chain.height()).flat_map(|h| chain.decoded(h).txdata.into_iter().enumerate())
    {
        for (index, input) in tx.input.iter().enumerate().filter(|_| n > 0) {
            let script = scripts.remove(&input.previous_output).expect("an output before");
            spends.push(Spend { script, tx: tx.clone(), index });
        }
        let txid = tx.compute_txid();
        for (vout, output) in (0..).zip(tx.output) {
            scripts.insert(bitcoin::OutPoint::new(txid, vout), output.script_pubkey);
        }
    }
    spends
}

impl Spend {
    /// Returns the pushes of the input's script, then the witness.
    pub fn items(&self) -> Vec<Vec<u8>> {
        let input = &self.tx.input[self.index];
        pushes(input.script_sig.as_bytes()).into_iter().chain(input.witness.to_vec()).collect()
    }

    /// Returns all signatures, without their hash types: DER, or 64 bytes.
    pub fn signatures(&self) -> Vec<Vec<u8>> {
        self.signed().into_iter().map(|(signature, _)| signature).collect()
    }

    pub fn hash_types(&self) -> Vec<u8> {
        self.signed().into_iter().map(|(_, hash_type)| hash_type).collect()
    }

    fn signed(&self) -> Vec<(Vec<u8>, u8)> {
        let taproot = self.script.is_p2tr();
        let split = |item: Vec<u8>| match (taproot, item.len()) {
            (true, 64) => Some((item, 0)),
            (true, 65) => Some((item[..64].to_vec(), item[64])),
            (false, len) if is_der(&item) => Some((item[..len - 1].to_vec(), item[len - 1])),
            _ => None,
        };
        let mut items = self.items();
        if taproot {
            // The rest is a script, a control block, and an annex.
            let annexed = items.len() > 1 && items.last().is_some_and(|last| last[0] == 0x50);
            items.truncate(items.len() - usize::from(annexed));
            items.truncate(items.len().saturating_sub(2).max(1));
        }
        items.into_iter().filter_map(split).collect()
    }

    /// Returns all keys: of the output's script, of the input, and of the scripts in it. A key that
    /// is only hashed or tweaked is found where the input shows it.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let items = self.items();
        let inner = items.iter().flat_map(|item| pushes(item));
        let found = pushes(self.script.as_bytes()).into_iter().chain(items.clone()).chain(inner);
        let taproot = self.script.is_p2tr();
        found.filter(|item| is_key(item) || (taproot && item.len() == 32)).collect()
    }
}

/// Returns the first number of a signature, which is the nonce's point.
pub fn r_of(signature: &[u8]) -> Vec<u8> {
    match signature.len() {
        64 => signature[..32].to_vec(),
        _ => {
            let r = &signature[4..4 + usize::from(signature[3])];
            r.strip_prefix(&[0]).unwrap_or(r).to_vec()
        }
    }
}

/// Returns whether S of a DER signature is above half the group order, or very nearly.
pub fn is_high(signature: &[u8]) -> bool {
    let s = &signature[6 + usize::from(signature[3])..];
    s.len() == 33 || (s.len() == 32 && s[..16] > [&[0x7f][..], &[0xff; 15]].concat()[..])
}

/// Returns the pushes of a script up to where it can no longer be read.
fn pushes(script: &[u8]) -> Vec<Vec<u8>> {
    let instructions = ScriptBuf::from(script.to_vec());
    let read = instructions.instructions().map_while(Result::ok);
    read.filter_map(|instruction| match instruction {
        Instruction::PushBytes(bytes) => Some(bytes.as_bytes().to_vec()),
        Instruction::Op(_) => None,
    })
    .collect()
}

fn is_der(item: &[u8]) -> bool {
    item.len() >= 9 && item[0] == 0x30 && usize::from(item[1]) + 3 == item.len()
}

fn is_key(item: &[u8]) -> bool {
    matches!((item.len(), item.first()), (33, Some(2 | 3)) | (65, Some(4 | 6 | 7)))
}
