//! Transactions that spend outputs of each kind, with signatures where a script asks for them.

use std::sync::LazyLock;

use apus_hash::{hash160, sha256};
use apus_wire::opcodes::*;
use apus_wire::{BlockView, Header, compact_size};
use bitcoin::absolute::LockTime;
use bitcoin::consensus::serialize;
use bitcoin::secp256k1::{
    All, Keypair, Message, Parity, PublicKey, Scalar, Secp256k1, SecretKey, XOnlyPublicKey,
};
use bitcoin::transaction::Version;
use bitcoin::{Amount, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness};

use super::prevouts;
use crate::sighash::{TaprootExtra, TxSighash, annex_hash};
use crate::tests::{assemble, outpoint};

/// The lock time of transactions that are built here: a height.
pub const LOCK_TIME: u32 = 650_000;
/// The sequence number of inputs that are built here: a relative lock of ten blocks.
pub const SEQUENCE: u32 = 10;

static SECP: LazyLock<Secp256k1<All>> = LazyLock::new(Secp256k1::new);

/// A private key with this number.
pub fn secret(key: u8) -> SecretKey {
    SecretKey::from_slice(&sha256(&[key])).expect("a hash is a key, but for very few")
}

/// The compressed public key with this number.
pub fn public(key: u8) -> Vec<u8> {
    PublicKey::from_secret_key(&SECP, &secret(key)).serialize().to_vec()
}

/// The uncompressed public key with this number.
pub fn uncompressed(key: u8) -> Vec<u8> {
    PublicKey::from_secret_key(&SECP, &secret(key)).serialize_uncompressed().to_vec()
}

/// The x coordinate of the public key with this number.
pub fn x_only(key: u8) -> [u8; 32] {
    secret(key).x_only_public_key(&SECP).0.serialize()
}

/// The shortest push of some bytes, without the opcodes for small numbers.
pub fn push(bytes: &[u8]) -> Vec<u8> {
    let len = bytes.len();
    let mut script = match len {
        0..0x4c => vec![len as u8],
        0x4c..0x100 => vec![OP_PUSHDATA1, len as u8],
        0x100..0x1_0000 => [&[OP_PUSHDATA2][..], &(len as u16).to_le_bytes()].concat(),
        _ => [&[OP_PUSHDATA4][..], &(len as u32).to_le_bytes()].concat(),
    };
    script.extend_from_slice(bytes);
    script
}

/// A script, written opcode by opcode.
#[derive(Clone, Default)]
pub struct Asm(pub Vec<u8>);

impl Asm {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn op(self, code: u8) -> Self {
        self.ops(&[code])
    }

    pub fn ops(mut self, codes: &[u8]) -> Self {
        self.0.extend_from_slice(codes);
        self
    }

    pub fn push(self, bytes: &[u8]) -> Self {
        self.ops(&push(bytes))
    }

    /// Pushes a number in its shortest form.
    pub fn number(self, value: i64) -> Self {
        self.ops(bitcoin::script::Builder::new().push_int(value).as_bytes())
    }

    /// CHECKMULTISIG of `needed` signatures by these keys.
    pub fn multisig(self, needed: usize, keys: &[Vec<u8>]) -> Self {
        let keyed = keys.iter().fold(self.number(needed as i64), |asm, key| asm.push(key));
        keyed.number(keys.len() as i64).op(OP_CHECKMULTISIG)
    }
}

/// DUP HASH160 of a key, EQUALVERIFY CHECKSIG.
pub fn p2pkh(key: &[u8]) -> Vec<u8> {
    Asm::new().ops(&[OP_DUP, OP_HASH160]).push(&hash160(key)).ops(&[OP_EQUALVERIFY, OP_CHECKSIG]).0
}

/// The P2SH output script for a redeem script.
pub fn p2sh(redeem: &[u8]) -> Vec<u8> {
    Asm::new().op(OP_HASH160).push(&hash160(redeem)).op(OP_EQUAL).0
}

/// A witness program.
pub fn program(version: u8, bytes: &[u8]) -> Vec<u8> {
    Asm::new().number(version.into()).push(bytes).0
}

/// How an output commits to a script, and how it is spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrap {
    Bare,
    P2sh,
    /// The script is the one that the program stands for.
    P2wpkh,
    P2shP2wpkh,
    P2wsh,
    P2shP2wsh,
    /// The script is the output's key.
    KeyPath,
    Leaf,
}

impl Wrap {
    /// Those that run an arbitrary script, except for leaves.
    pub const SCRIPTS: [Self; 4] = [Self::Bare, Self::P2sh, Self::P2wsh, Self::P2shP2wsh];

    fn is_p2sh(self) -> bool {
        matches!(self, Self::P2sh | Self::P2shP2wpkh | Self::P2shP2wsh)
    }
}

/// An element that a spend puts on the stack.
#[derive(Clone, Debug)]
pub enum Item {
    Bytes(Vec<u8>),
    Signature { key: u8, hash_type: u8 },
}

/// A signature by the key with this number that signs all inputs and outputs.
pub fn by(key: u8) -> Item {
    Item::Signature { key, hash_type: 1 }
}

/// A signature of this type by the key with this number.
pub fn with_type(key: u8, hash_type: u8) -> Item {
    Item::Signature { key, hash_type }
}

/// Bytes as they are.
pub fn bytes(bytes: &[u8]) -> Item {
    Item::Bytes(bytes.to_vec())
}

/// An input, and the output that it spends.
#[derive(Clone, Debug)]
pub struct Input {
    pub wrap: Wrap,
    pub script: Vec<u8>,
    pub items: Vec<Item>,
    /// The steps from a leaf to the root.
    pub path: Vec<[u8; 32]>,
    pub leaf_version: u8,
    pub annex: Option<Vec<u8>>,
    /// The position of the last OP_CODESEPARATOR that signatures in a leaf commit to.
    pub code_separator: Option<u32>,
}

/// How a Taproot output commits to a leaf.
struct Commitment {
    leaf: [u8; 32],
    output: [u8; 32],
    control: Vec<u8>,
}

impl Input {
    pub fn new(wrap: Wrap, script: Vec<u8>, items: Vec<Item>) -> Self {
        Self {
            wrap,
            script,
            items,
            path: Vec::new(),
            leaf_version: 0xc0,
            annex: None,
            code_separator: None,
        }
    }

    /// The scripts that a spend reveals, from the output's to the one that runs.
    fn scripts(&self, commitment: Option<&Commitment>) -> Vec<Vec<u8>> {
        let inner = match self.wrap {
            Wrap::Bare | Wrap::P2sh => self.script.clone(),
            Wrap::P2wpkh | Wrap::P2shP2wpkh => program(0, &self.script[3..23]),
            Wrap::P2wsh | Wrap::P2shP2wsh => program(0, &sha256(&self.script)),
            Wrap::KeyPath => program(1, &self.script),
            Wrap::Leaf => program(1, &commitment.expect("there is one for each leaf").output),
        };
        if self.wrap.is_p2sh() { vec![p2sh(&inner), inner] } else { vec![inner] }
    }

    fn commitment(&self) -> Commitment {
        let (len, count) = compact_size(self.script.len() as u64);
        let head = [&[self.leaf_version][..], &len[..count]].concat();
        let leaf = tagged("TapLeaf", &[&head, &self.script]);
        let root = self.path.iter().fold(leaf, |node, step| {
            let (low, high) = if node < *step { (&node, step) } else { (step, &node) };
            tagged("TapBranch", &[low, high])
        });
        let internal = x_only(99);
        let tweak = Scalar::from_be_bytes(tagged("TapTweak", &[&internal, &root])).expect("small");
        let key = XOnlyPublicKey::from_slice(&internal).expect("a key");
        let (output, parity) = key.add_tweak(&SECP, &tweak).expect("a tweak that fits");
        let first = self.leaf_version | u8::from(parity == Parity::Odd);
        let control = [&[first][..], &internal, self.path.as_flattened()].concat();
        Commitment { leaf, output: output.serialize(), control }
    }

    fn signature(
        &self,
        messages: &mut TxSighash,
        input: usize,
        leaf: Option<[u8; 32]>,
        (key, hash_type): (u8, u8),
    ) -> Vec<u8> {
        let is_taproot = matches!(self.wrap, Wrap::KeyPath | Wrap::Leaf);
        if is_taproot {
            let annex = self.annex.as_deref().map(annex_hash);
            let extra = TaprootExtra { annex, leaf, code_separator: self.code_separator };
            let message = messages.taproot_message(input, hash_type, extra).unwrap_or_default();
            let message = Message::from_digest(message);
            let keys = Keypair::from_secret_key(&SECP, &secret(key));
            let mut signature = SECP.sign_schnorr_no_aux_rand(&message, &keys).serialize().to_vec();
            signature.extend((hash_type != 0).then_some(hash_type));
            return signature;
        }
        let message = match self.wrap {
            Wrap::Bare | Wrap::P2sh => {
                messages.legacy_message(input, &self.script, hash_type).unwrap_or(sighash_one())
            }
            _ => messages.v0_message(input, &self.script, hash_type),
        };
        ecdsa(key, message, hash_type)
    }
}

/// A signature of this message in DER, with the sighash type.
pub fn ecdsa(key: u8, message: [u8; 32], hash_type: u8) -> Vec<u8> {
    let signature = SECP.sign_ecdsa(&Message::from_digest(message), &secret(key));
    [&signature.serialize_der()[..], &[hash_type]].concat()
}

/// The message of SIGHASH_SINGLE without its output: the number 1.
fn sighash_one() -> [u8; 32] {
    std::array::from_fn(|i| u8::from(i == 0))
}

fn tagged(tag: &str, parts: &[&[u8]]) -> [u8; 32] {
    let tag = sha256(tag.as_bytes());
    sha256(&[&tag[..], &tag, &parts.concat()].concat())
}

/// A transaction with the outputs that it spends.
#[derive(Clone, Debug)]
pub struct Spend {
    pub tx: Transaction,
    pub spent: Vec<TxOut>,
}

impl Spend {
    /// A signed transaction with these inputs and as many outputs.
    pub fn new(inputs: &[Input]) -> Self {
        Self::with(inputs, |_| ())
    }

    /// One input that is spent with this script.
    pub fn one(wrap: Wrap, script: Vec<u8>, items: Vec<Item>) -> Self {
        Self::new(&[Input::new(wrap, script, items)])
    }

    /// One input that spends a script, which is run on these elements.
    pub fn run(wrap: Wrap, script: Vec<u8>, elements: &[&[u8]]) -> Self {
        Self::one(wrap, script, elements.iter().map(|element| bytes(element)).collect())
    }

    /// A transaction that is changed by `change` before it is signed.
    pub fn with(inputs: &[Input], change: impl FnOnce(&mut Transaction)) -> Self {
        let is_leaf = |input: &Input| input.wrap == Wrap::Leaf;
        let commitments: Vec<Option<Commitment>> =
            inputs.iter().map(|input| is_leaf(input).then(|| input.commitment())).collect();
        let scripts: Vec<Vec<Vec<u8>>> = inputs
            .iter()
            .zip(&commitments)
            .map(|(input, commitment)| input.scripts(commitment.as_ref()))
            .collect();
        let mut spend = Self::unsigned(scripts.iter().map(|scripts| scripts[0].clone()).collect());
        change(&mut spend.tx);
        let elements = spend.elements(inputs, &commitments);
        for (index, (input, mut elements)) in inputs.iter().zip(elements).enumerate() {
            if input.wrap == Wrap::Bare || input.wrap == Wrap::P2sh {
                elements.extend_from_slice(&scripts[index][1..]);
                let pushes: Vec<Vec<u8>> = elements.iter().map(|element| push(element)).collect();
                spend.tx.input[index].script_sig = ScriptBuf::from(pushes.concat());
                continue;
            }
            let program: Vec<Vec<u8>> = scripts[index][1..].iter().map(|s| push(s)).collect();
            spend.tx.input[index].script_sig = ScriptBuf::from(program.concat());
            if matches!(input.wrap, Wrap::P2wsh | Wrap::P2shP2wsh | Wrap::Leaf) {
                elements.push(input.script.clone());
            }
            elements.extend(commitments[index].as_ref().map(|found| found.control.clone()));
            elements.extend(input.annex.clone());
            spend.tx.input[index].witness = Witness::from_slice(&elements);
        }
        spend
    }

    /// A transaction without signatures that spends outputs with these scripts.
    pub fn unsigned(scripts: Vec<Vec<u8>>) -> Self {
        let output = |amount: u64, script: Vec<u8>| TxOut {
            value: Amount::from_sat(amount),
            script_pubkey: ScriptBuf::from(script),
        };
        let input = |(index, _): (usize, &Vec<u8>)| TxIn {
            previous_output: outpoint(index as u32 + 1),
            script_sig: ScriptBuf::new(),
            sequence: Sequence(SEQUENCE),
            witness: Witness::new(),
        };
        let tx = Transaction {
            version: Version::TWO,
            lock_time: LockTime::from_consensus(LOCK_TIME),
            input: scripts.iter().enumerate().map(input).collect(),
            output: (0..scripts.len() as u64).map(|i| output(900 + i, vec![OP_1; 3])).collect(),
        };
        let spent = scripts.into_iter().zip(1000..).map(|(script, amount)| output(amount, script));
        Self { spent: spent.collect(), tx }
    }

    /// The elements that each input puts on the stack.
    fn elements(&self, inputs: &[Input], commits: &[Option<Commitment>]) -> Vec<Vec<Vec<u8>>> {
        self.with_messages(|messages| {
            let element = |messages: &mut TxSighash, at: usize, item: &Item| match item {
                Item::Bytes(bytes) => bytes.clone(),
                Item::Signature { key, hash_type } => {
                    let leaf = commits[at].as_ref().map(|commitment| commitment.leaf);
                    inputs[at].signature(messages, at, leaf, (*key, *hash_type))
                }
            };
            (0..inputs.len())
                .map(|at| inputs[at].items.iter().map(|item| element(messages, at, item)).collect())
                .collect()
        })
    }

    /// Calls `ask` with the messages of the transaction.
    pub fn with_messages<R>(&self, ask: impl FnOnce(&mut TxSighash) -> R) -> R {
        let block = assemble(&Header::default(), &[serialize(&self.tx)]);
        let view = BlockView::parse(&block).expect("a transaction is well-formed");
        ask(&mut TxSighash::new(view.tx(0), &prevouts(self), None))
    }

    /// Replaces the first input's scriptSig.
    pub fn script_sig(mut self, script: Vec<u8>) -> Self {
        self.tx.input[0].script_sig = ScriptBuf::from(script);
        self
    }

    /// Replaces the first input's witness.
    pub fn witness(mut self, items: &[Vec<u8>]) -> Self {
        self.tx.input[0].witness = Witness::from_slice(items);
        self
    }

    /// The items of the first input's witness.
    pub fn items(&self) -> Vec<Vec<u8>> {
        self.tx.input[0].witness.to_vec()
    }
}
