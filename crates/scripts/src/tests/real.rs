//! Real chains and a large real block, with all rules checked.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::node::{Coin, Node};
use super::*;

/// Connects all blocks and compares number and amount of the coins with Core's.
fn connect_all(blocks: &[Vec<u8>], chain: Chain, coins: usize, amount: i64) {
    let network = Network::new(chain);
    let mut node = Node::new(&network);
    for (height, block) in blocks.iter().enumerate().skip(1) {
        let now = i64::from(u32::MAX);
        node.connect(block, now).unwrap_or_else(|error| panic!("block {height}: {error}"));
    }
    assert_eq!(node.coins.len(), coins);
    assert_eq!(node.coins.values().map(|coin| coin.amount).sum::<i64>(), amount);
}

#[test]
fn mainnet_connects() {
    connect_all(&blocks_of(&data("mainnet-0-14131.dat")), Chain::Main, 13_416, 706_550 * COIN);
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs testnet3 blocks that may not be copied")]
fn testnet_connects_with_its_bip16_exception() {
    connect_all(&blocks_of(&shared("testnet3-0-4000.dat")), Chain::Test, 4_197, 200_000 * COIN);
}

/// A block of mainnet and the coins that each of its transactions spends; the coinbase spends none.
pub struct LargeBlock {
    pub block: CheckedBlock<Vec<u8>>,
    pub coins: Vec<Vec<Coin>>,
}

/// The block at this height, if it is one of those in `shared/data`.
pub fn large_block(height: u32) -> LargeBlock {
    let bytes = fs::read(shared(&format!("block{height}.raw"))).unwrap();
    let json = fs::read(shared(&format!("block{height}-spent_utxos.json"))).unwrap();
    let json: Vec<Value> = serde_json::from_slice(&json).unwrap();
    let mut coins = json.iter().map(|coin| Coin {
        amount: coin["txout"]["value"].as_i64().unwrap(),
        script: bitcoin::hex::FromHex::from_hex(coin["txout"]["script_pubkey"].as_str().unwrap())
            .unwrap(),
        height: coin["creation_height"].as_u64().unwrap() as u32,
        is_coinbase: coin["is_coinbase"].as_bool().unwrap(),
    });
    let view = BlockView::parse(bytes).unwrap();
    let block = check_block(view, &Network::new(Chain::Main)).unwrap();
    let of_txs = block.view().txs().enumerate().map(|(index, tx)| {
        if index == 0 { Vec::new() } else { coins.by_ref().take(tx.input_count()).collect() }
    });
    let of_txs: Vec<Vec<Coin>> = of_txs.collect();
    assert!(coins.next().is_none());
    LargeBlock { block, coins: of_txs }
}

const HEIGHT: u32 = 413_567;

/// Checks all rules on coins but scripts. The block is older than BIP68 and 113, so that no times
/// are needed. `changed` is the transaction, the input and the new amount of a coin that is
/// changed.
fn check_spends(
    block: &CheckedBlock<Vec<u8>>,
    coins: &[Vec<Coin>],
    changed: Option<(usize, usize, i64)>,
) -> Result<i64, RuleError> {
    let network = Network::new(Chain::Main);
    let context = BlockContext { network: &network, height: HEIGHT, parent_median_time_past: 0 };
    let mut spends = BlockSpends::new(block, context);
    for (index, coins) in coins.iter().enumerate().skip(1) {
        let mut prevouts: Vec<Prevout> = coins.iter().map(Coin::prevout).collect();
        if let Some((tx, input, amount)) = changed
            && tx == index
        {
            prevouts[input].amount = amount;
        }
        spends.tx(index, &prevouts, |_| unreachable!("BIP68 is not active"))?;
    }
    spends.finish()
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs a mainnet block that may not be copied")]
fn a_large_block_passes_in_little_time_without_its_scripts() {
    let LargeBlock { block, coins } = large_block(HEIGHT);
    let network = Network::new(Chain::Main);
    let context = BlockContext { network: &network, height: HEIGHT, parent_median_time_past: 0 };
    check_block_in_context(&block, &context).unwrap();
    let start = Instant::now();
    let fees = check_spends(&block, &coins, None).unwrap();
    println!("spends: {:?}, fees {fees}", start.elapsed());
    let flags = script_flags(&network, HEIGHT, block.hash());
    let mut ready = Duration::ZERO;
    let mut verified = Duration::ZERO;
    let mut inputs = 0;
    for (tx, coins) in block.view().txs().zip(&coins).skip(1) {
        let start = Instant::now();
        let prevouts: Vec<Prevout> = coins.iter().map(Coin::prevout).collect();
        let scripts = TxScripts::new(&tx, &prevouts, flags).unwrap();
        ready += start.elapsed();
        let start = Instant::now();
        (0..scripts.input_count()).for_each(|input| scripts.check_input(input).unwrap());
        verified += start.elapsed();
        inputs += scripts.input_count() as u32;
    }
    assert_eq!(inputs, 4_886);
    println!("per input: made ready {:?}, verified {:?}", ready / inputs, verified / inputs);
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs a mainnet block that may not be copied")]
fn a_large_block_is_refused_when_one_coins_script_is_changed() {
    let LargeBlock { block, coins } = large_block(HEIGHT);
    let flags = script_flags(&Network::new(Chain::Main), HEIGHT, block.hash());
    let mut seen = HashMap::new();
    for (tx, coins) in block.view().txs().zip(&coins) {
        for (input, coin) in coins.iter().enumerate() {
            let count = seen.entry((coin.script.len(), coin.script[0])).or_insert(0);
            *count += 1;
            // A bit of the hash is changed. With changed opcodes, some scripts would still be
            // satisfied.
            let mut changed = coin.script.clone();
            changed[3 + *count % 19] ^= 1 << (*count % 8);
            let mut prevouts: Vec<Prevout> = coins.iter().map(Coin::prevout).collect();
            prevouts[input].script = &changed;
            let scripts = TxScripts::new(&tx, &prevouts, flags).unwrap();
            let error = scripts.check_input(input).unwrap_err();
            assert_eq!(error.reason, "block-script-verify-flag-failed");
        }
    }
    println!("changed, by length and first byte: {seen:?}");
    assert!(seen.keys().all(|kind| [(25, 0x76), (23, 0xa9)].contains(kind)), "{seen:?}");
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs a mainnet block that may not be copied")]
fn a_large_block_is_refused_when_one_coins_amount_is_lowered() {
    let LargeBlock { block, coins } = large_block(HEIGHT);
    let claimed: i64 = block.view().tx(0).outputs().map(|output| output.value()).sum();
    let fees = check_spends(&block, &coins, None).unwrap();
    // The coinbase claims as much as it may, so that a coin with one satoshi less is noticed. One
    // more would not be: signatures commit to amounts only since segwit.
    assert_eq!(claimed, fees + subsidy(HEIGHT, &Network::new(Chain::Main)));
    let mut seen = HashMap::new();
    for (tx, coins_of_tx) in coins.iter().enumerate() {
        for (input, coin) in coins_of_tx.iter().enumerate() {
            let result = check_spends(&block, &coins, Some((tx, input, coin.amount - 1)));
            *seen.entry(verdict(result)).or_insert(0) += 1;
        }
    }
    println!("{seen:?}");
    assert!(!seen.contains_key("ok"));
}
