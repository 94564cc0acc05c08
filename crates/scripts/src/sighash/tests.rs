//! Messages compared with Core's and BIP341's vectors, and with the crate `bitcoin`, whose own
//! tests have BIP143's.

use apus_testdata::{Random, from_hex, vectors};
use apus_wire::{BlockView, Prevout};
use bitcoin::consensus::{deserialize, serialize};
use bitcoin::hashes::Hash as _;
use bitcoin::sighash::{Annex, EcdsaSighashType, Prevouts, SighashCache, TapSighashType};
use bitcoin::{Amount, Script, ScriptBuf, TapLeafHash, Transaction, TxOut};
use serde_json::Value;

use super::{Message, Preimages, TaprootExtra, TxSighash, annex_hash};

/// Messages hashed alone.
impl TxSighash<'_> {
    /// The message of a legacy input.
    pub fn legacy_message(&mut self, input: usize, code: &[u8], hash_type: u8) -> Option<[u8; 32]> {
        alone(|preimages| self.legacy(input, code, hash_type, preimages))
    }

    /// The message of a spend of witness version 0 (BIP143).
    pub fn v0_message(&mut self, input: usize, code: &[u8], hash_type: u8) -> [u8; 32] {
        alone(|all| Some(self.v0(input, code, hash_type, all))).expect("there is always one")
    }

    /// The message of a spend of witness version 1 (BIP341).
    pub fn taproot_message(
        &mut self,
        input: usize,
        hash_type: u8,
        extra: TaprootExtra,
    ) -> Option<[u8; 32]> {
        alone(|preimages| self.taproot(input, hash_type, extra, preimages))
    }
}

fn alone(add: impl FnOnce(&mut Preimages) -> Option<Message>) -> Option<[u8; 32]> {
    let mut preimages = Preimages::default();
    let message = add(&mut preimages)?;
    Some(*preimages.hash_all().of(message))
}

/// Calls `ask` with the messages of a transaction that spends these outputs.
fn with_messages<R>(tx: &Transaction, spent: &[TxOut], ask: impl FnOnce(&mut TxSighash) -> R) -> R {
    let block = [&[0; 80][..], &[1], &serialize(tx)].concat();
    let view = BlockView::parse(&block).expect("a transaction is well-formed");
    let prevouts: Vec<Prevout> = spent
        .iter()
        .map(|spent| Prevout {
            amount: spent.value.to_sat() as i64,
            script: spent.script_pubkey.as_bytes(),
            height: 1,
            is_coinbase: false,
        })
        .collect();
    ask(&mut TxSighash::new(view.tx(0), &prevouts, None))
}

/// Core's vectors have sighash types of four bytes, but signatures have one. So the crate `bitcoin`
/// is compared with the vectors, and our code with the crate, for every type of one byte.
#[test]
fn legacy_messages_of_core() {
    const CODE_SEPARATOR: u8 = 0xab;
    let mut count = 0;
    let mut single_without_output = 0;
    for vector in vectors("sighash.json").as_array().expect("a list") {
        let Some([tx, script, input, hash_type, expected]) =
            vector.as_array().and_then(|vector| vector.first_chunk())
        else {
            continue;
        };
        let text = |value: &Value| from_hex(value.as_str().expect("hex"));
        let tx: Transaction = deserialize(&text(tx)).expect("a transaction");
        let input = input.as_u64().expect("a number") as usize;
        let hash_type = hash_type.as_i64().expect("a number") as u32;
        let mut expected = text(expected);
        expected.reverse();
        // Core removes this opcode wherever it stands; the scripts here have no pushes.
        let mut code = text(script);
        assert!(code.iter().all(|code| *code == 0 || *code > 0x4e));
        code.retain(|code| *code != CODE_SEPARATOR);
        let cache = SighashCache::new(&tx);
        let theirs = |hash_type: u32| {
            let message = cache.legacy_signature_hash(input, Script::from_bytes(&code), hash_type);
            message.expect("an input").to_byte_array()
        };
        assert_eq!(theirs(hash_type).to_vec(), expected);
        let few = [0, 1, 2, 3, 4, 0x1f, 0x20, 0x41, 0x62, 0x80, 0x81, 0x82, 0x83, 0xa3, 0xff];
        with_messages(&tx, &[], |messages| {
            for hash_type in few.into_iter().chain([hash_type as u8]) {
                let Some(ours) = messages.legacy_message(input, &code, hash_type) else {
                    let one: [u8; 32] = std::array::from_fn(|i| u8::from(i == 0));
                    assert_eq!(theirs(hash_type.into()), one);
                    single_without_output += 1;
                    continue;
                };
                assert_eq!(ours, theirs(hash_type.into()), "type {hash_type:#x}");
            }
        });
        count += 1;
    }
    assert_eq!(count, 500);
    assert!(single_without_output > 100, "{single_without_output}");
}

#[test]
fn key_path_messages_of_bip341() {
    let all = vectors("bip341_wallet_vectors.json");
    let vector = &all["keyPathSpending"][0];
    let text = |value: &Value| from_hex(value.as_str().expect("hex"));
    let tx: Transaction = deserialize(&text(&vector["given"]["rawUnsignedTx"])).expect("valid");
    let spent =
        vector["given"]["utxosSpent"].as_array().expect("a list").iter().map(|spent| TxOut {
            value: Amount::from_sat(spent["amountSats"].as_u64().expect("a number")),
            script_pubkey: ScriptBuf::from(text(&spent["scriptPubKey"])),
        });
    let spent: Vec<TxOut> = spent.collect();
    let inputs = vector["inputSpending"].as_array().expect("a list");
    with_messages(&tx, &spent, |messages| {
        for input in inputs.iter().chain(inputs.iter().rev()) {
            let index = input["given"]["txinIndex"].as_u64().expect("a number") as usize;
            let hash_type = input["given"]["hashType"].as_u64().expect("a number") as u8;
            let message = messages.taproot_message(index, hash_type, TaprootExtra::default());
            let message = message.expect("a known type").to_vec();
            assert_eq!(message, text(&input["intermediary"]["sigHash"]));
        }
    });
    assert_eq!(inputs.len(), 7);
}

/// A transaction with this many inputs and outputs, and random contents.
fn random_tx(inputs: usize, outputs: usize, random: &mut Random) -> (Transaction, Vec<TxOut>) {
    let script = |random: &mut Random| {
        let len = random.one_of(&[0, 1, 22, 34, 252, 253, 600]);
        ScriptBuf::from(random.bytes(len))
    };
    let output = |random: &mut Random| TxOut {
        value: Amount::from_sat(random.next() >> 14),
        script_pubkey: script(random),
    };
    let tx = Transaction {
        version: bitcoin::transaction::Version(random.next() as i32),
        lock_time: bitcoin::absolute::LockTime::from_consensus(random.next() as u32),
        input: (0..inputs)
            .map(|_| bitcoin::TxIn {
                previous_output: bitcoin::OutPoint {
                    txid: bitcoin::Txid::from_slice(&random.bytes(32)).expect("32 bytes"),
                    vout: random.next() as u32,
                },
                script_sig: script(random),
                sequence: bitcoin::Sequence(random.next() as u32),
                witness: bitcoin::Witness::new(),
            })
            .collect(),
        output: (0..outputs).map(|_| output(random)).collect(),
    };
    let spent = (0..inputs).map(|_| output(random)).collect();
    (tx, spent)
}

const SHAPES: [(usize, usize); 9] =
    [(1, 1), (1, 3), (3, 1), (2, 2), (7, 4), (252, 1), (253, 2), (1, 253), (300, 300)];

#[test]
fn version_0_messages() {
    let types = [1, 2, 3, 0x81, 0x82, 0x83];
    let mut random = Random(11);
    for (inputs, outputs) in SHAPES {
        let (tx, spent) = random_tx(inputs, outputs, &mut random);
        let mut cache = SighashCache::new(&tx);
        with_messages(&tx, &spent, |messages| {
            for _ in 0..40 {
                let input = random.below(inputs);
                let len = random.one_of(&[0, 25, 252, 253, 9000]);
                let code = random.bytes(len);
                let hash_type: u8 = random.one_of(&types);
                let known = EcdsaSighashType::from_consensus(hash_type.into());
                let script = Script::from_bytes(&code);
                let theirs =
                    cache.p2wsh_signature_hash(input, script, spent[input].value, known).unwrap();
                assert_eq!(messages.v0_message(input, &code, hash_type), theirs.to_byte_array());
            }
        });
    }
}

#[test]
fn taproot_messages() {
    let types = [0, 1, 2, 3, 0x81, 0x82, 0x83];
    let mut random = Random(12);
    let mut none = 0;
    for (inputs, outputs) in SHAPES {
        let (tx, spent) = random_tx(inputs, outputs, &mut random);
        let mut cache = SighashCache::new(&tx);
        with_messages(&tx, &spent, |messages| {
            for _ in 0..60 {
                let input = random.below(inputs);
                let hash_type: u8 = random.one_of(&types);
                let len = random.one_of(&[0, 1, 251, 252, 600]);
                let annex = [&[0x50][..], &random.bytes(len)].concat();
                let annex = (random.below(2) == 0).then_some(&annex[..]);
                let leaf: [u8; 32] = std::array::from_fn(|_| random.next() as u8);
                let leaf = (random.below(2) == 0).then_some(leaf);
                let code_separator = random.one_of(&[None, Some(0), Some(1), Some(70_000)]);
                let theirs = cache.taproot_signature_hash(
                    input,
                    &Prevouts::All(&spent),
                    annex.map(|annex| Annex::new(annex).expect("it begins with 0x50")),
                    leaf.map(|leaf| {
                        let position = code_separator.unwrap_or(u32::MAX);
                        (TapLeafHash::from_byte_array(leaf), position)
                    }),
                    TapSighashType::from_consensus_u8(hash_type).expect("a known type"),
                );
                let ours = messages.taproot_message(
                    input,
                    hash_type,
                    TaprootExtra { annex: annex.map(annex_hash), leaf, code_separator },
                );
                assert_eq!(ours, theirs.ok().map(|theirs| theirs.to_byte_array()));
                none += usize::from(ours.is_none());
            }
        });
    }
    assert!(none > 0, "SIGHASH_SINGLE never lacked its output");
}

#[test]
fn types_that_taproot_does_not_know() {
    let (tx, spent) = random_tx(2, 2, &mut Random(13));
    with_messages(&tx, &spent, |messages| {
        for hash_type in 0..=255 {
            let is_known = matches!(hash_type, 0..=3 | 0x81..=0x83);
            let message = messages.taproot_message(1, hash_type, TaprootExtra::default());
            assert_eq!(message.is_some(), is_known, "{hash_type:#x}");
        }
    });
}

/// Messages of all kinds, short and long, that are hashed side by side and in several batches.
#[test]
fn messages_side_by_side_are_those_hashed_alone() {
    let mut random = Random(14);
    let mut preimages = Preimages::default();
    for batch in [1, 2, 15, 16, 17, 33, 500] {
        let mut expected: Vec<(Message, [u8; 32])> = Vec::new();
        while expected.len() < batch {
            let (inputs, outputs) = random.one_of(&SHAPES);
            let (tx, spent) = random_tx(inputs, outputs, &mut random);
            with_messages(&tx, &spent, |messages| {
                for _ in 0..random.below(5_usize) {
                    let input = random.below(inputs);
                    let len = random.one_of(&[0, 25, 105, 252, 253, 9000]);
                    let code = random.bytes(len);
                    let hash_type = random.one_of(&[1, 2, 3, 0x81]);
                    let (message, alone) = match random.below(3_u8) {
                        0 => (
                            messages.legacy(input, &code, hash_type, &mut preimages),
                            messages.legacy_message(input, &code, hash_type),
                        ),
                        1 => (
                            Some(messages.v0(input, &code, hash_type, &mut preimages)),
                            Some(messages.v0_message(input, &code, hash_type)),
                        ),
                        _ => {
                            let leaf = random.bytes(32).try_into().ok();
                            let extra = TaprootExtra { leaf, ..TaprootExtra::default() };
                            (
                                messages.taproot(input, hash_type, extra, &mut preimages),
                                messages.taproot_message(input, hash_type, extra),
                            )
                        }
                    };
                    assert_eq!(message.is_some(), alone.is_some());
                    expected.extend(message.zip(alone));
                }
            });
        }
        assert_eq!(preimages.count(), expected.len());
        let found = preimages.hash_all();
        assert!(expected.iter().all(|(message, alone)| found.of(*message) == alone));
        preimages.clear();
        assert_eq!(preimages.count(), 0);
    }
}
