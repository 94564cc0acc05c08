//! Real blocks whose scripts are checked on the fast way, with Core's engine as the judge.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::node::Coin;
use super::real::{LargeBlock, large_block};
use super::*;
use crate::script::Left;
use crate::sighash::TxSighash;

/// What became of a block's inputs.
#[derive(Default)]
struct Share {
    valid: u32,
    left: BTreeMap<Left, u32>,
    signatures: u64,
    fast: Duration,
    core: Duration,
}

/// Checks all inputs of a mainnet block both ways.
fn share(height: u32) -> Share {
    let LargeBlock { block, coins } = large_block(height);
    let flags = script_flags(&Network::new(Chain::Main), height, block.hash());
    let mut fast = FastScripts::new(None);
    let mut share = Share::default();
    let start = Instant::now();
    for (tx, coins) in block.view().txs().zip(&coins).skip(1) {
        let prevouts: Vec<Prevout> = coins.iter().map(Coin::prevout).collect();
        let mut messages = TxSighash::new(tx, &prevouts);
        (0..prevouts.len()).for_each(|input| fast.add(&mut messages, input, flags));
    }
    let verdicts = fast.decide();
    share.fast = start.elapsed();
    share.signatures = fast.signatures();
    let mut verdicts = verdicts.into_iter();
    let start = Instant::now();
    for (tx, coins) in block.view().txs().zip(&coins).skip(1) {
        let prevouts: Vec<Prevout> = coins.iter().map(Coin::prevout).collect();
        let scripts = TxScripts::new(&tx, &prevouts, flags).unwrap();
        for input in 0..prevouts.len() {
            scripts.check_input(input).unwrap();
            match verdicts.next().unwrap() {
                FastVerdict::Valid => share.valid += 1,
                FastVerdict::Left(why) => *share.left.entry(why).or_default() += 1,
            }
        }
    }
    share.core = start.elapsed();
    let inputs = share.valid + share.left.values().sum::<u32>();
    println!(
        "block {height}: {inputs} inputs, {} found valid with {} signatures, the others {:?}; \
         an input: fast {:?}, Core's engine {:?}",
        share.valid,
        share.signatures,
        share.left,
        share.fast / inputs,
        share.core / inputs,
    );
    share
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs mainnet blocks that may not be copied")]
fn of_a_block_of_2024_hardly_an_input_is_left_to_cores_engine() {
    let share = share(866_342);
    assert_eq!(share.valid + share.left.values().sum::<u32>(), 7_972);
    assert!(share.valid >= 7_940, "{:?}", share.left);
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs mainnet blocks that may not be copied")]
fn of_a_block_of_2016_hardly_an_input_is_left_to_cores_engine() {
    let share = share(413_567);
    assert_eq!(share.valid + share.left.values().sum::<u32>(), 4_886);
    assert!(share.valid >= 4_870, "{:?}", share.left);
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs mainnet blocks that may not be copied")]
fn a_block_of_odd_bare_scripts_is_decided_one_way_or_the_other() {
    let share = share(367_891);
    assert_eq!(share.valid + share.left.values().sum::<u32>(), 20_817);
}
