//! Blocks of mainnet: what they hold is hardly ever left to the engine.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::rules::{FastScripts, FastVerdict, TxScripts, script_flags};
use crate::script::Left;
use crate::sighash::TxSighash;
use crate::testdata::{from_hex, shared};
use crate::wire::{BlockView, Chain, Network, Prevout};

/// Inputs of a block, and how many of them are left, by reason.
struct Share {
    inputs: usize,
    left: BTreeMap<Left, usize>,
}

/// Judges all inputs of a block, in one batch.
fn share(height: u32) -> Share {
    let bytes = fs::read(shared(&format!("block{height}.raw"))).expect("a block");
    let coins = fs::read(shared(&format!("block{height}-spent_utxos.json"))).expect("its coins");
    let coins: Vec<Value> = serde_json::from_slice(&coins).expect("JSON");
    let scripts: Vec<Vec<u8>> = coins
        .iter()
        .map(|coin| from_hex(coin["txout"]["script_pubkey"].as_str().expect("a script")))
        .collect();
    let prevouts: Vec<Prevout> = coins
        .iter()
        .zip(&scripts)
        .map(|(coin, script)| Prevout {
            amount: coin["txout"]["value"].as_i64().expect("an amount"),
            script,
            height: 1,
            is_coinbase: false,
        })
        .collect();
    let view = BlockView::parse(&bytes).expect("a block");
    let flags = script_flags(&Network::new(Chain::Main), height, &view.hash());
    let mut fast = FastScripts::new(None);
    let (mut rest, mut engine) = (&prevouts[..], Vec::new());
    for tx in view.txs().skip(1) {
        let (spent, others) = rest.split_at(tx.input_count());
        let mut messages = TxSighash::new(tx, spent);
        (0..spent.len()).for_each(|input| fast.add(&mut messages, input, flags));
        let scripts = TxScripts::new(&tx, spent, flags).expect("the engine reads it");
        engine.extend((0..spent.len()).map(|input| scripts.check_input(input).is_ok()));
        rest = others;
    }
    assert!(rest.is_empty() && engine.iter().all(|valid| *valid), "the block is valid");
    let verdicts = fast.decide();
    assert_eq!(verdicts.len(), engine.len());
    let mut left = BTreeMap::new();
    for verdict in verdicts {
        if let FastVerdict::Left(why) = verdict {
            *left.entry(why).or_insert(0) += 1;
        }
    }
    Share { inputs: prevouts.len(), left }
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs mainnet blocks that may not be copied")]
fn less_than_one_input_in_a_hundred_is_left() {
    for height in [367_891, 413_567, 866_342] {
        let Share { inputs, left } = share(height);
        println!("block {height}: {inputs} inputs, left {left:?}");
        assert!(left.values().sum::<usize>() * 100 < inputs, "{left:?} of {inputs}");
    }
}
