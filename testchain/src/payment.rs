//! A transaction that knows what it spends, and its signed bytes.

use bitcoin::Transaction;
use bitcoin::consensus::encode::deserialize;
use bitcoin::hashes::{Hash, HashEngine, sha256, sha256d};

use crate::coin::Coin;
use crate::keys::{Keys, Ring};
use crate::lock::{Kind, Lock, p2pkh};
use crate::odd::Odd;
use crate::opcodes::{OP_0, OP_1, OP_PUSHDATA1, OP_PUSHDATA2};
use crate::sighash::{Messages, SIGHASH_ALL, Taproot};
use crate::signature::{Der, Nonce};

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
    /// The hash type of the signatures, if it is not the usual one (SIGHASH_ALL, in Taproot
    /// SIGHASH_DEFAULT). In Taproot only what BIP 341 knows of it counts.
    pub hash_type: Option<u8>,
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
            hash_type: None,
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
        let mut text = Vec::new();
        for input in &self.inputs {
            text.extend_from_slice(&input.txid);
            text.extend_from_slice(&input.vout.to_le_bytes());
        }
        let [a, b, c, d, ..] = sha256::Hash::hash(&text).to_byte_array();
        let nonces = keys.nonces(u32::from_le_bytes([a, b, c, d]), self.signatures());
        self.sign_with(&keys.ring_of(self.keys().collect()), &nonces)
    }

    /// Signs every input with nonces that nothing else is signed with: [`Payment::signatures`] of
    /// them.
    pub(crate) fn sign_with(&self, ring: &Ring<'_>, nonces: &[Nonce]) -> Signed {
        let messages = Messages::new(self, ring);
        Signer { tx: self, ring, messages, nonces: nonces.iter() }.finish()
    }

    /// The indices of the keys of all that it spends and creates.
    pub(crate) fn keys(&self) -> impl Iterator<Item = u32> {
        let spent = self.inputs.iter().map(|input| input.lock);
        let created = self.outputs.iter().filter_map(|output| match output.to {
            Target::Lock(lock) => Some(lock),
            Target::Script(_) => None,
        });
        spent.chain(created).flat_map(Lock::keys)
    }

    /// The number of signatures that it needs at most.
    pub(crate) fn signatures(&self) -> usize {
        self.inputs.iter().map(|input| input.lock.kind.signatures() as usize).sum()
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

/// The bytes after their length.
pub(crate) fn with_length(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(3 + bytes.len());
    put_compact(bytes.len(), &mut text);
    text.extend_from_slice(bytes);
    text
}

/// `script_sig` of one input and its witness, serialised with its item count; empty for none.
#[derive(Default)]
pub(crate) struct Unlock {
    pub script_sig: Vec<u8>,
    pub witness: Vec<u8>,
}

/// Signs the inputs of a transaction.
pub(crate) struct Signer<'a> {
    tx: &'a Payment,
    ring: &'a Ring<'a>,
    pub messages: Messages<'a>,
    nonces: std::slice::Iter<'a, Nonce>,
}

impl<'a> Signer<'a> {
    fn finish(mut self) -> Signed {
        let unlocks: Vec<_> = (0..self.tx.inputs.len()).map(|i| self.unlock(i)).collect();
        let segwit = unlocks.iter().any(|u| !u.witness.is_empty());
        let script_bytes: usize = unlocks.iter().map(|u| u.script_sig.len() + 3).sum();
        let witness_bytes: usize = unlocks.iter().map(|u| u.witness.len().max(1)).sum();
        let size = 20 + self.messages.prevouts.len() + self.messages.sequences.len() + script_bytes;
        let mut bytes = Vec::with_capacity(size + self.messages.outputs.len() + witness_bytes);
        bytes.extend_from_slice(&self.tx.version.to_le_bytes());
        if segwit {
            bytes.extend_from_slice(&[0, 1]);
        }
        let body = bytes.len();
        put_compact(unlocks.len(), &mut bytes);
        for (i, unlock) in unlocks.iter().enumerate() {
            bytes.extend_from_slice(&self.messages.prevouts[36 * i..36 * i + 36]);
            put_compact(unlock.script_sig.len(), &mut bytes);
            bytes.extend_from_slice(&unlock.script_sig);
            bytes.extend_from_slice(&self.messages.sequences[4 * i..4 * i + 4]);
        }
        bytes.extend_from_slice(&self.messages.outputs);
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
        if lock.kind == Kind::Odd {
            return Odd::of(lock, self.ring).unlock(self, i);
        }
        let mut unlock = Unlock::default();
        self.script_sig(i, lock, &mut unlock.script_sig);
        unlock.witness = self.witness(i, lock);
        unlock
    }

    /// An ECDSA signature of input `i` with the key with this index, for the message that `hash`
    /// gives for a hash type.
    pub fn ecdsa(
        &mut self,
        i: usize,
        key: u32,
        hash: impl FnOnce(&Messages<'a>, u8) -> [u8; 32],
    ) -> Der {
        let hash_type = self.tx.inputs[i].hash_type.unwrap_or(SIGHASH_ALL);
        let z = hash(&self.messages, hash_type);
        let nonce = self.nonces.next().expect("a nonce for every signature");
        self.ring.keys().signatures.ecdsa(&self.ring.key(key), nonce, z, hash_type)
    }

    /// A BIP 340 signature of input `i` with the key with this index, and its hash type unless it
    /// is the default.
    pub fn schnorr(&mut self, i: usize, key: u32, spend: Taproot<'_>) -> Vec<u8> {
        let asked = self.tx.inputs[i].hash_type;
        let hash_type = asked.map(|hash_type| self.messages.taproot_type(i, hash_type));
        let message = self.messages.taproot(i, spend, hash_type.unwrap_or(0));
        let nonce = self.nonces.next().expect("a nonce for every signature");
        let signatures = &self.ring.keys().signatures;
        let mut signature = signatures.schnorr(&self.ring.key(key), nonce, &message).to_vec();
        signature.extend(hash_type);
        signature
    }

    /// The key for which the signature of [`Ring::premature`] is valid on the hash `z`.
    pub fn premature_key(&self, nonce: u32, s: u32, z: [u8; 32]) -> [u8; 33] {
        let keys = self.ring.keys();
        let (nonce, s) = (self.ring.key(nonce), self.ring.key(s));
        keys.public(&keys.signatures.premature_secret(&nonce, &s, z))
    }

    fn script_sig(&mut self, i: usize, lock: Lock, sig: &mut Vec<u8>) {
        let key = self.ring.key(lock.key);
        let mut code = Vec::new();
        match lock.kind {
            Kind::P2pkh | Kind::P2pkhUncompressed | Kind::P2pk | Kind::P2pkUncompressed => {
                lock.write_script(self.ring, &mut code);
                let signature = self.ecdsa(i, lock.key, |m, t| m.legacy(i, &code, t));
                push(signature.as_slice(), sig);
            }
            Kind::Multisig | Kind::P2shMultisig => {
                code = lock.inner_script(self.ring);
                sig.push(OP_0);
                for key in lock.signers() {
                    let signature = self.ecdsa(i, key, |m, t| m.legacy(i, &code, t));
                    push(signature.as_slice(), sig);
                }
            }
            Kind::P2shP2wpkh => {
                sig.extend_from_slice(&[22, OP_0, 20]);
                sig.extend_from_slice(&key.hash33());
            }
            Kind::Empty => sig.push(OP_1),
            _ => {}
        }
        match lock.kind {
            Kind::P2pkh => push(&key.pk33(), sig),
            Kind::P2pkhUncompressed => push(&key.pk65(), sig),
            Kind::P2shMultisig => push(&code, sig),
            _ => {}
        }
    }

    /// The witness with its item count; empty for none.
    fn witness(&mut self, i: usize, lock: Lock) -> Vec<u8> {
        match lock.kind {
            Kind::P2shP2wpkh | Kind::P2wpkh => {
                let key = self.ring.key(lock.key);
                let mut code = Vec::with_capacity(25);
                p2pkh(&key.hash33(), &mut code);
                let signature = self.ecdsa(i, lock.key, |m, t| m.segwit_v0(i, &code, t));
                stack(&[signature.as_slice(), &key.pk33()])
            }
            Kind::P2wshMultisig => {
                let code = lock.inner_script(self.ring);
                let [a, b] = [0, 1].map(|n| {
                    let key = lock.signers()[n];
                    self.ecdsa(i, key, |m, t| m.segwit_v0(i, &code, t))
                });
                stack(&[&[], a.as_slice(), b.as_slice(), &code])
            }
            Kind::P2wshCltv | Kind::P2wshCsv => {
                let code = lock.inner_script(self.ring);
                let signature = self.ecdsa(i, lock.key, |m, t| m.segwit_v0(i, &code, t));
                stack(&[signature.as_slice(), &code])
            }
            Kind::P2trKey => {
                let spend = Taproot { leaf: None, annex: None };
                stack(&[&self.schnorr(i, lock.key, spend)])
            }
            Kind::P2trScript => {
                let leaf = self.ring.key(lock.key).leaf();
                let spend = Taproot { leaf: Some((leaf.hash, u32::MAX)), annex: None };
                let signature = self.schnorr(i, lock.key, spend);
                stack(&[&signature, &leaf.script, &leaf.control])
            }
            _ => Vec::new(),
        }
    }
}

/// Appends the shortest push of at most 520 bytes; numbers have shorter ones.
pub(crate) fn push(data: &[u8], out: &mut Vec<u8>) {
    match data.len() {
        0..=75 => {}
        76..=255 => out.push(OP_PUSHDATA1),
        _ => out.push(OP_PUSHDATA2),
    }
    out.push(data.len() as u8);
    if data.len() > 255 {
        out.push((data.len() >> 8) as u8);
    }
    out.extend_from_slice(data);
}

/// A witness: the number of items, and each after its length.
pub(crate) fn stack(items: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 + items.iter().map(|item| item.len() + 1).sum::<usize>());
    put_compact(items.len(), &mut out);
    for item in items {
        put_compact(item.len(), &mut out);
        out.extend_from_slice(item);
    }
    out
}
