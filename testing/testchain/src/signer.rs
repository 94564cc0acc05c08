//! Signs transactions.

use bitcoin::consensus::encode::deserialize;
use bitcoin::hashes::{Hash, HashEngine, sha256, sha256d};
use bitcoin::{ScriptBuf, Transaction};

use crate::encode::{push, put_compact, stack};
use crate::keys::{Keys, Ring};
use crate::lock::{Kind, Lock, p2pkh};
use crate::odd::{Item, Make, Odd, Place, Separator};
use crate::opcodes::{OP_0, OP_1, OP_CODESEPARATOR, OP_PUSHDATA1, OP_PUSHDATA2, OP_PUSHDATA4};
use crate::payment::Payment;
use crate::sighash::{Messages, Taproot};
use crate::signature::{Der, Nonce, SIGHASH_ALL, ecdsa, schnorr, secret_for};

/// A signed transaction.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The transaction's bytes, as in a block.
    pub bytes: Vec<u8>,
    /// Transaction id, in the byte order of the wire.
    pub txid: [u8; 32],
    /// The hash of the transaction with its witness (wtxid), in the byte order of the wire.
    pub wtxid: [u8; 32],
}

impl Payment {
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

    /// Signs every input with [`Payment::signatures`] nonces, which nothing else is signed with.
    pub(crate) fn sign_with(&self, ring: &Ring<'_>, nonces: &[Nonce]) -> Signed {
        let messages = Messages::new(self, ring);
        Signer { tx: self, ring, messages, nonces: nonces.iter() }.finish()
    }

    /// Signs every input, and returns a transaction that can be changed by hand.
    ///
    /// # Panics
    /// If there are no inputs or no outputs: the `bitcoin` crate does not read such a transaction.
    pub fn to_transaction(&self, keys: &Keys) -> Transaction {
        deserialize(&self.sign(keys).bytes).expect("the signer writes valid transactions")
    }
}

/// The `script_sig` of one input and its witness, serialised with its item count; empty for none.
#[derive(Default)]
struct Unlock {
    script_sig: Vec<u8>,
    witness: Vec<u8>,
}

/// Signs the inputs of a transaction.
struct Signer<'a> {
    tx: &'a Payment,
    ring: &'a Ring<'a>,
    messages: Messages<'a>,
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
            return self.odd(i, &Odd::of(lock.key, self.ring));
        }
        let mut unlock = Unlock::default();
        self.script_sig(i, lock, &mut unlock.script_sig);
        unlock.witness = self.witness(i, lock);
        unlock
    }

    /// Returns an ECDSA signature of input `i` with the key with this index, for the message that
    /// `hash` gives for a hash type.
    fn ecdsa(
        &mut self,
        i: usize,
        key: u32,
        hash: impl FnOnce(&Messages<'a>, u8) -> [u8; 32],
    ) -> Der {
        let hash_type = self.tx.inputs[i].hash_type.unwrap_or(SIGHASH_ALL);
        let z = hash(&self.messages, hash_type);
        let nonce = self.nonces.next().expect("a nonce for every signature");
        ecdsa(&self.ring.key(key).secret(), nonce, z, hash_type)
    }

    /// Returns a BIP 340 signature of input `i` with the key with this index, and its hash type
    /// unless it is the default.
    fn schnorr(&mut self, i: usize, key: u32, spend: Taproot<'_>) -> Vec<u8> {
        let asked = self.tx.inputs[i].hash_type;
        let hash_type = asked.map(|hash_type| self.messages.taproot_type(i, hash_type));
        let message = self.messages.taproot(i, spend, hash_type.unwrap_or(0));
        let nonce = self.nonces.next().expect("a nonce for every signature");
        let key = self.ring.key(key);
        let signature = schnorr(key.even_secret(), &key.xonly(), nonce, &message);
        let mut signature = signature.to_vec();
        signature.extend(hash_type);
        signature
    }

    fn script_sig(&mut self, i: usize, lock: Lock, sig: &mut Vec<u8>) {
        let ring = self.ring;
        let key = || ring.key(lock.key);
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
                sig.extend_from_slice(&key().hash33());
            }
            Kind::Empty => sig.push(OP_1),
            _ => {}
        }
        match lock.kind {
            Kind::P2pkh => push(&key().pk33(), sig),
            Kind::P2pkhUncompressed => push(&key().pk65(), sig),
            Kind::P2shMultisig => push(&code, sig),
            _ => {}
        }
    }

    /// Returns the witness with its item count; empty for none.
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

    /// Returns what spends an odd output as input `i`.
    fn odd(&mut self, i: usize, odd: &Odd) -> Unlock {
        let mut items: Vec<_> = odd.items.iter().map(|item| self.odd_item(i, odd, item)).collect();
        let mut unlock = Unlock::default();
        match odd.place {
            Place::Bare | Place::P2sh => {
                if odd.place == Place::P2sh {
                    items.push(odd.script.clone());
                }
                for (n, item) in items.iter().enumerate() {
                    let put = if odd.clumsy { put_clumsy(n) } else { push };
                    put(item, &mut unlock.script_sig);
                }
                return unlock;
            }
            Place::P2wsh => items.push(odd.script.clone()),
            Place::P2shP2wsh => {
                items.push(odd.script.clone());
                push(&odd.redeem_program(), &mut unlock.script_sig);
            }
            _ => {}
        }
        if let Some(leaf) = &odd.leaf {
            items.push(leaf.script.clone());
            items.push(leaf.control.clone());
        }
        items.extend(odd.annex.clone());
        unlock.witness = stack(&items.iter().map(Vec::as_slice).collect::<Vec<_>>());
        unlock
    }

    fn odd_item(&mut self, i: usize, odd: &Odd, item: &Item) -> Vec<u8> {
        let (key, after, how) = match item {
            Item::Bytes(bytes) => return bytes.clone(),
            Item::KeyOfOwn { nonce, s, code } => {
                let z = odd_message(&self.messages, i, odd, *code, SIGHASH_ALL);
                let nonce = self.ring.key(*nonce);
                let s = self.ring.key(*s);
                let secret = secret_for(nonce.secret(), nonce.xonly(), &s.secret(), z);
                return self.ring.keys().public(&secret).to_vec();
            }
            Item::Signature { key, after, how } => (*key, *after, *how),
        };
        let Separator { start, position } = after;
        if odd.place == Place::KeyPath || odd.leaf.is_some() {
            let leaf = odd.leaf.as_ref().map(|leaf| (leaf.hash, position));
            return self.schnorr(i, key, Taproot { leaf, annex: odd.annex.as_deref() });
        }
        let signature = self.ecdsa(i, key, |messages, hash_type| {
            let mut z = odd_message(messages, i, odd, start, hash_type);
            z[31] ^= u8::from(how == Make::Wrong);
            z
        });
        let signature = if how == Make::HighS { signature.with_other_s() } else { signature };
        signature.as_slice().to_vec()
    }
}

/// Returns the message of an ECDSA signature of input `i`, for the script from byte `start` on.
fn odd_message(
    messages: &Messages<'_>,
    i: usize,
    odd: &Odd,
    start: usize,
    hash_type: u8,
) -> [u8; 32] {
    let code = &odd.script[start..];
    match odd.place {
        Place::Bare | Place::P2sh => messages.legacy(i, &without_separators(code), hash_type),
        _ => messages.segwit_v0(i, code, hash_type),
    }
}

/// Returns a script without OP_CODESEPARATOR, as legacy messages have it.
fn without_separators(script: &[u8]) -> Vec<u8> {
    let whole = ScriptBuf::from(script.to_vec());
    let starts: Vec<_> =
        whole.instruction_indices().map(|read| read.expect("a whole script").0).collect();
    let ends = starts.iter().skip(1).copied().chain([script.len()]);
    let parts = starts.iter().zip(ends).map(|(start, end)| &script[*start..end]);
    parts.filter(|part| *part != [OP_CODESEPARATOR]).flatten().copied().collect()
}

/// Returns a function that writes a push whose length takes 1, 2 or 4 bytes, by the number of the
/// item.
fn put_clumsy(n: usize) -> fn(&[u8], &mut Vec<u8>) {
    fn put(opcode: u8, len_bytes: usize, data: &[u8], out: &mut Vec<u8>) {
        out.push(opcode);
        out.extend_from_slice(&(data.len() as u32).to_le_bytes()[..len_bytes]);
        out.extend_from_slice(data);
    }
    match n % 3 {
        0 => |data, out| put(OP_PUSHDATA1, 1, data, out),
        1 => |data, out| put(OP_PUSHDATA2, 2, data, out),
        _ => |data, out| put(OP_PUSHDATA4, 4, data, out),
    }
}
