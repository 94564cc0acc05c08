//! A transaction that knows what it spends, and its signed bytes.
//!
//! Signature hashes are computed here rather than with the `bitcoin` crate: a benchmark chain has
//! ten million of them, and the parts that the inputs share are hashed once.

use bitcoin::Transaction;
use bitcoin::consensus::encode::deserialize;
use bitcoin::hashes::{Hash, HashEngine, sha256, sha256d};

use crate::coin::Coin;
use crate::keys::{Keys, tagged};
use crate::lock::{Kind, Lock, p2pkh};
use crate::opcodes::{OP_1, OP_CHECKSIG, OP_PUSHDATA1};

/// A transaction before it is signed.
#[derive(Clone, Debug)]
pub struct Payment {
    /// Version; relative lock times (BIP 68) bind from 2 on.
    pub version: i32,
    /// Absolute lock time.
    pub lock_time: u32,
    /// The coins that it spends.
    pub inputs: Vec<Spend>,
    /// The outputs that it creates.
    pub outputs: Vec<Output>,
}

/// A coin being spent.
#[derive(Clone, Copy, Debug)]
pub struct Spend {
    /// Transaction id, in the order of the wire.
    pub txid: [u8; 32],
    /// Index of the output.
    pub vout: u32,
    /// Amount in satoshis.
    pub amount: u64,
    /// The script's kind and key.
    pub lock: Lock,
    /// Sequence number of the input.
    pub sequence: u32,
}

/// A new output.
#[derive(Clone, Debug)]
pub struct Output {
    /// Amount in satoshis.
    pub amount: u64,
    /// Its script.
    pub to: Target,
}

/// The script of an output.
#[derive(Clone, Debug)]
pub enum Target {
    /// To a key of the chain.
    Lock(Lock),
    /// To any script.
    Script(Vec<u8>),
}

/// A signed transaction.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The transaction's bytes, as in a block.
    pub bytes: Vec<u8>,
    /// Transaction id, in the order of the wire.
    pub txid: [u8; 32],
    /// The hash of the transaction with its witness (wtxid), in the order of the wire.
    pub wtxid: [u8; 32],
}

impl From<&Coin> for Spend {
    fn from(coin: &Coin) -> Self {
        Spend {
            txid: coin.txid,
            vout: u32::from(coin.vout),
            amount: coin.amount,
            lock: coin.lock,
            sequence: u32::MAX,
        }
    }
}

impl Payment {
    /// Spends `coins` and creates an output for each pair of amount and script: version 2, no
    /// lock time, final sequence numbers.
    pub fn new(coins: &[Coin], outputs: impl IntoIterator<Item = (u64, Vec<u8>)>) -> Self {
        let outputs = outputs.into_iter();
        Payment {
            version: 2,
            lock_time: 0,
            inputs: coins.iter().map(Spend::from).collect(),
            outputs: outputs.map(|(amount, s)| Output { amount, to: Target::Script(s) }).collect(),
        }
    }

    /// Signs every input.
    pub fn sign(&self, keys: &Keys) -> Signed {
        Signer::new(self, keys).finish()
    }

    /// The transaction without scripts and witnesses in its inputs.
    ///
    /// # Panics
    /// With outputs to keys: these need [`Payment::sign`].
    pub(crate) fn unsigned(&self) -> Transaction {
        use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, TxIn, TxOut, Txid, Witness};
        let input = |spend: &Spend| TxIn {
            previous_output: OutPoint::new(Txid::from_byte_array(spend.txid), spend.vout),
            script_sig: ScriptBuf::new(),
            sequence: Sequence(spend.sequence),
            witness: Witness::new(),
        };
        let output = |output: &Output| match &output.to {
            Target::Lock(lock) => panic!("{lock:?} is not a script"),
            Target::Script(script) => TxOut {
                value: Amount::from_sat(output.amount),
                script_pubkey: ScriptBuf::from(script.clone()),
            },
        };
        Transaction {
            version: bitcoin::transaction::Version(self.version),
            lock_time: bitcoin::absolute::LockTime::from_consensus(self.lock_time),
            input: self.inputs.iter().map(input).collect(),
            output: self.outputs.iter().map(output).collect(),
        }
    }

    /// Signs every input, for a transaction that is to be changed by hand.
    ///
    /// # Panics
    /// With no inputs or no outputs: the `bitcoin` crate does not read such a transaction.
    pub fn to_transaction(&self, keys: &Keys) -> Transaction {
        deserialize(&self.sign(keys).bytes).expect("the signer writes valid transactions")
    }
}

/// Appends a CompactSize.
pub(crate) fn put_compact(n: usize, out: &mut Vec<u8>) {
    match n {
        0..=0xfc => out.push(n as u8),
        0xfd..=0xffff => {
            out.push(0xfd);
            out.extend_from_slice(&(n as u16).to_le_bytes());
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&(n as u32).to_le_bytes());
        }
    }
}

/// `script_sig` of one input and its witness, serialised with its item count; empty for none.
#[derive(Default)]
struct Unlock {
    script_sig: Vec<u8>,
    witness: Vec<u8>,
}

struct Signer<'a> {
    tx: &'a Payment,
    keys: &'a Keys,
    /// Number of outputs and the outputs, as they stand in the transaction.
    outputs: Vec<u8>,
    /// Where the outputs themselves begin.
    outputs_start: usize,
    /// Outpoints and sequence numbers.
    prevouts: Vec<u8>,
    sequences: Vec<u8>,
    v0: Option<[[u8; 32]; 3]>,
    v1: Option<sha256::HashEngine>,
}

impl<'a> Signer<'a> {
    fn new(tx: &'a Payment, keys: &'a Keys) -> Self {
        let mut outputs = Vec::with_capacity(9 + 34 * tx.outputs.len());
        put_compact(tx.outputs.len(), &mut outputs);
        let outputs_start = outputs.len();
        let mut script = Vec::with_capacity(80);
        for output in &tx.outputs {
            outputs.extend_from_slice(&output.amount.to_le_bytes());
            script.clear();
            match &output.to {
                Target::Lock(lock) => lock.write_script(keys, &mut script),
                Target::Script(bytes) => script.extend_from_slice(bytes),
            }
            put_compact(script.len(), &mut outputs);
            outputs.extend_from_slice(&script);
        }
        let mut prevouts = Vec::with_capacity(36 * tx.inputs.len());
        let mut sequences = Vec::with_capacity(4 * tx.inputs.len());
        for input in &tx.inputs {
            prevouts.extend_from_slice(&input.txid);
            prevouts.extend_from_slice(&input.vout.to_le_bytes());
            sequences.extend_from_slice(&input.sequence.to_le_bytes());
        }
        Signer { tx, keys, outputs, outputs_start, prevouts, sequences, v0: None, v1: None }
    }

    fn finish(mut self) -> Signed {
        let unlocks: Vec<_> = (0..self.tx.inputs.len()).map(|i| self.unlock(i)).collect();
        let segwit = unlocks.iter().any(|u| !u.witness.is_empty());
        let script_bytes: usize = unlocks.iter().map(|u| u.script_sig.len() + 3).sum();
        let witness_bytes: usize = unlocks.iter().map(|u| u.witness.len().max(1)).sum();
        let size = 20 + self.prevouts.len() + self.sequences.len() + script_bytes;
        let mut bytes = Vec::with_capacity(size + self.outputs.len() + witness_bytes);
        bytes.extend_from_slice(&self.tx.version.to_le_bytes());
        if segwit {
            bytes.extend_from_slice(&[0, 1]);
        }
        let body = bytes.len();
        put_compact(unlocks.len(), &mut bytes);
        for (i, unlock) in unlocks.iter().enumerate() {
            bytes.extend_from_slice(&self.prevouts[36 * i..36 * i + 36]);
            put_compact(unlock.script_sig.len(), &mut bytes);
            bytes.extend_from_slice(&unlock.script_sig);
            bytes.extend_from_slice(&self.sequences[4 * i..4 * i + 4]);
        }
        bytes.extend_from_slice(&self.outputs);
        let body_end = bytes.len();
        if segwit {
            for unlock in &unlocks {
                bytes.extend_from_slice(if unlock.witness.is_empty() {
                    &[0]
                } else {
                    &unlock.witness
                });
            }
        }
        bytes.extend_from_slice(&self.tx.lock_time.to_le_bytes());
        let wtxid = sha256d::Hash::hash(&bytes).to_byte_array();
        if !segwit {
            return Signed { bytes, txid: wtxid, wtxid };
        }
        let mut engine = sha256d::Hash::engine();
        engine.input(&bytes[..4]);
        engine.input(&bytes[body..body_end]);
        engine.input(&self.tx.lock_time.to_le_bytes());
        let txid = sha256d::Hash::from_engine(engine).to_byte_array();
        Signed { bytes, txid, wtxid }
    }

    fn unlock(&mut self, i: usize) -> Unlock {
        let lock = self.tx.inputs[i].lock;
        let mut unlock = Unlock::default();
        self.script_sig(i, lock, &mut unlock.script_sig);
        unlock.witness = self.witness(i, lock);
        unlock
    }

    fn script_sig(&self, i: usize, lock: Lock, sig: &mut Vec<u8>) {
        let index = usize::from(lock.key);
        let keys = self.keys;
        let key = keys.key(index);
        let mut code = Vec::new();
        match lock.kind {
            Kind::P2pkh | Kind::P2pkhUncompressed => {
                lock.write_script(keys, &mut code);
                push(keys.ecdsa(index, self.legacy(i, &code)).as_slice(), sig);
                push(if lock.kind == Kind::P2pkh { &key.pk33 } else { &key.pk65 }, sig);
            }
            Kind::P2pk | Kind::P2pkUncompressed => {
                lock.write_script(keys, &mut code);
                push(keys.ecdsa(index, self.legacy(i, &code)).as_slice(), sig);
            }
            Kind::Multisig => {
                lock.write_script(keys, &mut code);
                sig.push(0);
                push(keys.ecdsa(index + 1, self.legacy(i, &code)).as_slice(), sig);
            }
            Kind::P2shMultisig => {
                let code = lock.inner_script(keys);
                let hash = self.legacy(i, &code);
                sig.push(0);
                push(keys.ecdsa(index, hash).as_slice(), sig);
                push(keys.ecdsa(index + 2, hash).as_slice(), sig);
                push(&code, sig);
            }
            Kind::P2shP2wpkh => {
                sig.extend_from_slice(&[22, 0, 20]);
                sig.extend_from_slice(&key.hash33);
            }
            Kind::Empty => sig.push(OP_1),
            _ => {}
        }
    }

    /// The witness with its item count; empty for none.
    fn witness(&mut self, i: usize, lock: Lock) -> Vec<u8> {
        let index = usize::from(lock.key);
        let keys = self.keys;
        let key = keys.key(index);
        match lock.kind {
            Kind::P2shP2wpkh | Kind::P2wpkh => {
                let mut code = Vec::with_capacity(25);
                p2pkh(&key.hash33, &mut code);
                let signature = keys.ecdsa(index, self.segwit_v0(i, &code));
                stack(&[signature.as_slice(), &key.pk33])
            }
            Kind::P2wshMultisig => {
                let code = lock.inner_script(keys);
                let hash = self.segwit_v0(i, &code);
                let (a, b) = (keys.ecdsa(index, hash), keys.ecdsa(index + 1, hash));
                stack(&[&[], a.as_slice(), b.as_slice(), &code])
            }
            Kind::P2wshCltv | Kind::P2wshCsv => {
                let code = lock.inner_script(keys);
                let signature = keys.ecdsa(index, self.segwit_v0(i, &code));
                stack(&[signature.as_slice(), &code])
            }
            Kind::P2trKey => {
                let hash = self.taproot(i, None);
                stack(&[&keys.schnorr_key_path(index, &hash)])
            }
            Kind::P2trScript => {
                let hash = self.taproot(i, Some(&key.leaf_hash));
                let signature = keys.schnorr_leaf(index, &hash);
                let mut leaf = Vec::with_capacity(34);
                push(&key.internal, &mut leaf);
                leaf.push(OP_CHECKSIG);
                stack(&[&signature, &leaf, &key.control])
            }
            _ => Vec::new(),
        }
    }

    /// The signature hash before BIP 143: of the transaction with `code` as the script of input
    /// `i`, and empty scripts in the other inputs.
    fn legacy(&self, i: usize, code: &[u8]) -> [u8; 32] {
        let mut text = Vec::with_capacity(64 + 41 * self.tx.inputs.len() + code.len());
        text.extend_from_slice(&self.tx.version.to_le_bytes());
        put_compact(self.tx.inputs.len(), &mut text);
        for j in 0..self.tx.inputs.len() {
            text.extend_from_slice(&self.prevouts[36 * j..36 * j + 36]);
            let script = if i == j { code } else { &[] };
            put_compact(script.len(), &mut text);
            text.extend_from_slice(script);
            text.extend_from_slice(&self.sequences[4 * j..4 * j + 4]);
        }
        let mut engine = sha256d::Hash::engine();
        engine.input(&text);
        engine.input(&self.outputs);
        engine.input(&self.tx.lock_time.to_le_bytes());
        engine.input(&1u32.to_le_bytes());
        sha256d::Hash::from_engine(engine).to_byte_array()
    }

    /// The signature hash of BIP 143.
    fn segwit_v0(&mut self, i: usize, code: &[u8]) -> [u8; 32] {
        let [prevouts, sequences, outputs] = *self.v0.get_or_insert_with(|| {
            [&self.prevouts[..], &self.sequences, &self.outputs[self.outputs_start..]]
                .map(|part| sha256d::Hash::hash(part).to_byte_array())
        });
        let mut text = Vec::with_capacity(160 + code.len());
        text.extend_from_slice(&self.tx.version.to_le_bytes());
        text.extend_from_slice(&prevouts);
        text.extend_from_slice(&sequences);
        text.extend_from_slice(&self.prevouts[36 * i..36 * i + 36]);
        put_compact(code.len(), &mut text);
        text.extend_from_slice(code);
        text.extend_from_slice(&self.tx.inputs[i].amount.to_le_bytes());
        text.extend_from_slice(&self.sequences[4 * i..4 * i + 4]);
        text.extend_from_slice(&outputs);
        text.extend_from_slice(&self.tx.lock_time.to_le_bytes());
        text.extend_from_slice(&1u32.to_le_bytes());
        sha256d::Hash::hash(&text).to_byte_array()
    }

    /// The signature hash of BIP 341 (SIGHASH_DEFAULT), with the leaf of BIP 342 if there is one.
    fn taproot(&mut self, i: usize, leaf: Option<&[u8; 32]>) -> [u8; 32] {
        if self.v1.is_none() {
            self.v1 = Some(self.taproot_common());
        }
        let mut engine = self.v1.clone().expect("made above");
        engine.input(&[if leaf.is_some() { 2 } else { 0 }]);
        engine.input(&(i as u32).to_le_bytes());
        if let Some(leaf) = leaf {
            engine.input(leaf);
            engine.input(&[0, 0xff, 0xff, 0xff, 0xff]);
        }
        sha256::Hash::from_engine(engine).to_byte_array()
    }

    fn taproot_common(&self) -> sha256::HashEngine {
        let (mut amounts, mut scripts) = (Vec::new(), Vec::new());
        let mut script = Vec::with_capacity(80);
        for input in &self.tx.inputs {
            amounts.extend_from_slice(&input.amount.to_le_bytes());
            script.clear();
            input.lock.write_script(self.keys, &mut script);
            put_compact(script.len(), &mut scripts);
            scripts.extend_from_slice(&script);
        }
        let mut engine = tagged(b"TapSighash");
        engine.input(&[0, 0]);
        engine.input(&self.tx.version.to_le_bytes());
        engine.input(&self.tx.lock_time.to_le_bytes());
        let outputs = &self.outputs[self.outputs_start..];
        for part in [&self.prevouts[..], &amounts, &scripts, &self.sequences, outputs] {
            engine.input(sha256::Hash::hash(part).as_byte_array());
        }
        engine
    }
}

/// Appends a push of at most 255 bytes.
fn push(data: &[u8], out: &mut Vec<u8>) {
    if data.len() > 75 {
        out.push(OP_PUSHDATA1);
    }
    out.push(data.len() as u8);
    out.extend_from_slice(data);
}

fn stack(items: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + items.iter().map(|item| item.len() + 1).sum::<usize>());
    put_compact(items.len(), &mut out);
    for item in items {
        put_compact(item.len(), &mut out);
        out.extend_from_slice(item);
    }
    out
}
