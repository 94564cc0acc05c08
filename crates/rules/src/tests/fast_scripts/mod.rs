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

use apus_wire::{BlockView, Header, Prevout, ScriptFlags, TxView, flags};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::consensus::serialize;

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

/// Returns the verdicts on all inputs of some transactions, one after the other, as one batch.
///
/// # Panics
/// If the fast engine accepts an input that Core's engine refuses.
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
        let scripts = TxScripts::new(&tx, prevouts, flags);
        for input in 0..prevouts.len() {
            let engine = scripts.as_ref().is_ok_and(|tx| tx.check_input(input).is_ok());
            let fast = verdicts.next().expect("a verdict for each input");
            let is_lawful = engine || fast != FastVerdict::Valid;
            assert!(is_lawful, "valid against the engine, {}", described(spend, input, flags));
            judged.push(Judged { fast, engine });
        }
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
