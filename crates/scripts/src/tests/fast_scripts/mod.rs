//! The fast engine for scripts, compared with Core's engine: it may say that an input is valid only
//! where the engine says so too.

mod build;
mod commitments;
mod families;
mod flips;
mod hash_types;
mod limits;
mod many_inputs;
mod oddities;
mod random;
mod soft_forks;
mod templates;
mod vectors;

use apus_wire::opcodes::OP_1;
use apus_wire::{BlockView, Header, Prevout, ScriptFlags, TxView, flags};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::consensus::serialize;
use bitcoinkernel::prelude::*;
use bitcoinkernel::{PrecomputedTransactionData, ScriptPubkey, Transaction, TxOut, verify};

use super::assemble;
use crate::script::Left;
use crate::sighash::{SharedHashes, TxSighash};
use crate::{FastScripts, FastVerdict, TxScripts};
use build::Spend;

/// The flags of each block since the latest soft fork.
const ALL: ScriptFlags = flags::P2SH
    | flags::DERSIG
    | flags::NULLDUMMY
    | flags::CHECKLOCKTIMEVERIFY
    | flags::CHECKSEQUENCEVERIFY
    | flags::WITNESS
    | flags::TAPROOT;

/// The verdicts of the fast engine and of the engine on one input.
#[derive(Clone, Copy, Debug)]
struct Judged {
    fast: FastVerdict,
    /// Whether Core's engine accepts it.
    engine: bool,
}

impl Judged {
    fn is_fast(&self) -> bool {
        self.fast == FastVerdict::Valid
    }
}

/// The verdicts that both are expected to give on one input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expected {
    /// Accepted by the fast engine and by the engine.
    Valid,
    /// Left to the engine, which accepts it.
    Left,
    /// Left to the engine, which refuses it.
    Refused,
}

/// Returns `default` times the environment variable `APUS_TEST_ROUNDS`.
fn rounds(default: usize) -> usize {
    let asked = std::env::var("APUS_TEST_ROUNDS");
    default * asked.map_or(1, |text| text.parse().expect("APUS_TEST_ROUNDS is a whole number"))
}

/// The coins that a transaction spends, as the rules know them.
fn prevouts(spend: &Spend) -> Vec<Prevout<'_>> {
    let coins = spend.spent.iter().map(|spent| Prevout {
        amount: spent.value.to_sat() as i64,
        script: spent.script_pubkey.as_bytes(),
        height: 1,
        is_coinbase: false,
    });
    coins.collect()
}

/// Returns the verdict of libbitcoinkernel on each input, with the spent outputs in all calls.
fn with_spent_outputs(tx: &TxView, prevouts: &[Prevout], flags: ScriptFlags) -> Vec<bool> {
    let tx = Transaction::new(tx.bytes()).unwrap();
    let scripts = prevouts.iter().map(|spent| ScriptPubkey::new(spent.script).unwrap());
    let amounts = prevouts.iter().map(|spent| spent.amount);
    let spent: Vec<_> =
        scripts.zip(amounts).map(|(script, amount)| TxOut::new(&script, amount)).collect();
    let data = PrecomputedTransactionData::new(&tx, &spent).unwrap();
    let verdict = |(index, spent): (usize, &TxOut)| {
        let amount = Some(spent.value());
        verify(&spent.script_pubkey(), amount, &tx, index, Some(flags), &data).is_ok()
    };
    spent.iter().enumerate().map(verdict).collect()
}

/// Returns the verdicts on all inputs of some transactions, one after the other, as one batch.
///
/// # Panics
/// If the fast engine accepts an input that Core's engine refuses, if the verdict of Core's engine
/// depends on the spent outputs that it is given, or if it is given them without a taproot input.
fn judge(spends: &[Spend], flags: ScriptFlags) -> Vec<Judged> {
    let raw: Vec<Vec<u8>> = spends.iter().map(|spend| serialize(&spend.tx)).collect();
    let block = assemble(&Header::default(), &raw);
    let view = BlockView::parse(&block).expect("transactions are well-formed");
    let prevouts: Vec<Vec<Prevout>> = spends.iter().map(prevouts).collect();
    let mut fast = FastScripts::new(None);
    let txs: Vec<TxView> = view.txs().collect();
    let shared = SharedHashes::of_many(&txs);
    for ((tx, prevouts), shared) in txs.into_iter().zip(&prevouts).zip(shared) {
        let mut messages = TxSighash::new(tx, prevouts, shared);
        (0..prevouts.len()).for_each(|input| fast.add(&mut messages, input, flags));
    }
    let mut verdicts = fast.decide().into_iter();
    let mut judged = Vec::with_capacity(verdicts.len());
    for ((tx, prevouts), spend) in view.txs().zip(&prevouts).zip(spends) {
        let scripts = TxScripts::new(&tx, prevouts, flags).expect("an input for each coin");
        let with_spent = with_spent_outputs(&tx, prevouts, flags);
        for (input, with_spent) in with_spent.into_iter().enumerate() {
            let engine = scripts.check_input(input).is_ok();
            assert_eq!(engine, with_spent, "{}", described(spend, input, flags));
            let fast = verdicts.next().expect("a verdict for each input");
            let is_lawful = engine || fast != FastVerdict::Valid;
            assert!(is_lawful, "valid against the engine, {}", described(spend, input, flags));
            judged.push(Judged { fast, engine });
        }
        let is_taproot = |coin: &Prevout| coin.script.len() == 34 && coin.script[0] == OP_1;
        let may_use = flags & flags::TAPROOT != 0 && prevouts.iter().any(is_taproot);
        assert!(may_use || !scripts.has_used_spent(), "{}", described(spend, 0, flags));
    }
    assert!(verdicts.next().is_none(), "no verdict without an input");
    judged
}

/// Describes an input with everything that is needed to reproduce a verdict.
fn described(spend: &Spend, input: usize, flags: ScriptFlags) -> String {
    let spent: Vec<String> = spend.spent.iter().map(serialize_hex).collect();
    format!("flags {flags:#x}, input {input} of {}, spending {spent:?}", serialize_hex(&spend.tx))
}

/// Compares the verdicts on all inputs of transactions with the expected ones.
#[track_caller]
fn expect(cases: &[(String, Spend, Expected)], flags: ScriptFlags) {
    let spends: Vec<Spend> = cases.iter().map(|(_, spend, _)| spend.clone()).collect();
    let mut judged = judge(&spends, flags).into_iter();
    let mut wrong = Vec::new();
    for (name, spend, expected) in cases {
        for input in 0..spend.spent.len() {
            let Judged { fast, engine } = judged.next().expect("a verdict for each input");
            let found = match (fast, engine) {
                (FastVerdict::Valid, _) => Expected::Valid,
                (FastVerdict::Left(_), true) => Expected::Left,
                (FastVerdict::Left(_), false) => Expected::Refused,
            };
            if found != *expected {
                wrong.push(format!("{name}, input {input}: {fast:?}, engine {engine}"));
            }
        }
    }
    assert!(wrong.is_empty(), "flags {flags:#x}:\n{}", wrong.join("\n"));
}

/// Does what [`expect`] does for one transaction under all flags, and checks why it is left.
#[track_caller]
fn expect_left(name: &str, spend: &Spend, expected: Expected, why: Left) {
    expect(&[(name.to_owned(), spend.clone(), expected)], ALL);
    for judged in judge(std::slice::from_ref(spend), ALL) {
        assert_eq!(judged.fast, FastVerdict::Left(why), "{name}");
    }
}
