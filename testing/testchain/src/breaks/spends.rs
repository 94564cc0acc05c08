//! Rules about the coins that a block spends: whether they exist, and their age, amounts and lock
//! times.

use std::collections::HashSet;

use bitcoin::absolute::LockTime;
use bitcoin::hashes::Hash;
use bitcoin::transaction::{OutPoint, Transaction};
use bitcoin::{Amount, Sequence, Txid};

use super::site::{OP_TRUE, Site, spend};
use super::{Break, Case};
use crate::block::subsidy;
use crate::builder::remerkle;
use crate::coin::Coin;
use crate::lock::Kind;
use crate::opcodes::{OP_1, OP_PUSHDATA2, OP_RETURN};
use crate::payment::Payment;

pub fn case(site: &Site<'_>, rule: Break) -> Option<Case> {
    missing(site, rule)
        .or_else(|| repeats(site, rule))
        .or_else(|| amounts(site, rule))
        .or_else(|| locks(site, rule))
}

fn missing(site: &Site<'_>, rule: Break) -> Option<Case> {
    let sound = site.pay(Kind::OpTrue);
    let spending = |outpoint| {
        let mut tx = sound.clone();
        tx.input[0].previous_output = outpoint;
        site.case([sound.clone()], [tx])
    };
    let prevout = sound.input[0].previous_output;
    match rule {
        Break::MissingNeverExisted => {
            Some(spending(OutPoint::new(Txid::from_byte_array([7; 32]), 0)))
        }
        Break::MissingVout => Some(spending(OutPoint::new(prevout.txid, 9_999))),
        Break::SpendsGenesis => {
            let genesis = site.chain.decoded(0);
            Some(spending(OutPoint::new(genesis.txdata[0].compute_txid(), 0)))
        }
        Break::SpentInEarlierBlock => Some(spending(last_spent(site))),
        Break::SpentTwiceInBlock => {
            let mut second = sound.clone();
            second.output[0].value -= Amount::from_sat(1);
            Some(site.case([sound.clone()], [sound, second]))
        }
        Break::SpendsLaterTx => {
            let parent = site.fund(&[OP_TRUE.to_vec()]);
            let child = spend(&parent, &[(0, vec![], vec![])]);
            Some(site.case([parent.clone(), child.clone()], [child, parent]))
        }
        Break::SpendsOpReturn => Some(spends_script(site, vec![OP_1], vec![OP_RETURN])),
        Break::SpendsOversized => {
            // A script may have 201 operations, so the longest valid one consists of pushes.
            let filled = |len: usize| {
                let mut script = [OP_PUSHDATA2, 8, 2].to_vec();
                script.resize(523, 0);
                let mut script = script.repeat(19);
                script.resize(len - 1, OP_1);
                script.push(OP_1);
                script
            };
            Some(spends_script(site, filled(10_000), filled(10_001)))
        }
        _ => None,
    }
}

/// Blocks that repeat a transaction of an earlier block.
fn repeats(site: &Site<'_>, rule: Break) -> Option<Case> {
    let sound = site.pay(Kind::OpTrue);
    match rule {
        Break::RepeatsUnspent => Some(site.case([sound], [earlier(site, true)])),
        Break::RepeatsUnspentAfterFault => {
            let coin = coinbase_coin(site, site.height - 99);
            let young = site.payment_of(coin).to_transaction(site.keys());
            Some(site.case([sound], [young, earlier(site, true)]))
        }
        Break::RepeatsUnspentAfterLater => {
            let parent = site.fund(&[OP_TRUE.to_vec()]);
            let child = spend(&parent, &[(0, vec![], vec![])]);
            let repeated = earlier(site, true);
            Some(site.case([parent.clone(), child.clone()], [child, parent, repeated]))
        }
        Break::RepeatsSpent => Some(site.case([sound], [earlier(site, false)])),
        _ => None,
    }
}

/// Returns the latest payment of an earlier block that has an unspent output or, for `unspent` of
/// false, that has none.
fn earlier(site: &Site<'_>, unspent: bool) -> Transaction {
    let coins: HashSet<Txid> = site.chain.utxos().map(|utxo| utxo.outpoint.txid).collect();
    let blocks = (1..=site.chain.height()).rev().map(|height| site.chain.decoded(height));
    let mut payments = blocks.flat_map(|block| block.txdata.into_iter().skip(1));
    let found = payments.find(|tx| coins.contains(&tx.compute_txid()) == unspent);
    found.expect("the chain has such payments")
}

/// Returns an outpoint that the last block with payments spent.
fn last_spent(site: &Site<'_>) -> OutPoint {
    let blocks = (1..=site.chain.height()).rev().map(|height| site.chain.decoded(height));
    let txs = blocks.filter_map(|block| block.txdata.into_iter().nth(1)).next();
    txs.expect("the chain has payments").input[0].previous_output
}

/// Returns blocks that create and spend an output, each with one of two scripts that need no
/// unlocking.
fn spends_script(site: &Site<'_>, sound: Vec<u8>, broken: Vec<u8>) -> Case {
    let [sound, broken] = [sound, broken].map(|script| {
        let parent = site.fund(&[script]);
        let child = spend(&parent, &[(0, vec![], vec![])]);
        [parent, child]
    });
    site.case(sound, broken)
}

fn amounts(site: &Site<'_>, rule: Break) -> Option<Case> {
    let tx = site.pay(Kind::OpTrue);
    match rule {
        Break::BadTxnsInBelowout => {
            let mut more = tx.clone();
            more.output[0].value += Amount::from_sat(1);
            Some(site.case([tx], [more]))
        }
        Break::BadCbAmount => {
            let mut paying = tx;
            paying.output[0].value -= Amount::from_sat(1_000);
            let claim = |value| {
                let builder = site.builder().tx(paying.clone()).coinbase_value(value);
                builder.finish()
            };
            let allowed = subsidy(site.height) + 1_000;
            Some(Case { sound: claim(allowed), broken: claim(allowed + 1) })
        }
        Break::PrematureSpendOfCoinbase => {
            let payment = |age| {
                let payment = site.payment_of(coinbase_coin(site, site.height - age));
                payment.to_transaction(site.keys())
            };
            Some(site.case([payment(100)], [payment(99)]))
        }
        Break::PrematureSpendOfOwnCoinbase => {
            // A commitment in this transaction would have to contain itself.
            let sound = site.builder().without_commitment().finish();
            let mut broken = sound.clone();
            broken.txdata.push(spend(&sound.txdata[0], &[(0, vec![], vec![])]));
            remerkle(&mut broken);
            Some(Case { sound, broken })
        }
        _ => None,
    }
}

/// Returns an unspent coinbase output of the block at `height`, whose script has no lock time.
fn coinbase_coin(site: &Site<'_>, height: u32) -> Coin {
    let fits =
        |kind: Kind| kind.is_spendable() && !matches!(kind, Kind::P2wshCltv | Kind::P2wshCsv);
    let of_block = site.chain.coins().filter(|coin| coin.coinbase && coin.height == height);
    let mut coins = of_block.filter(|coin| fits(coin.lock.kind));
    *coins.next().expect("a coinbase that has just matured is still unspent")
}

fn locks(site: &Site<'_>, rule: Break) -> Option<Case> {
    let absolute = |sound: u32, broken: u32| {
        let [sound, broken] = [sound, broken].map(|lock_time| {
            let mut tx = site.pay(Kind::OpTrue);
            tx.lock_time = LockTime::from_consensus(lock_time);
            tx
        });
        site.case([sound], [broken])
    };
    match rule {
        Break::BadTxnsNonfinalHeight => Some(absolute(site.height - 1, site.height)),
        Break::BadTxnsNonfinalTime => {
            Some(absolute(site.median_time_past - 1, site.median_time_past))
        }
        Break::BadTxnsNonfinalCoinbase => Some(site.sealed(|block| {
            block.txdata[0].lock_time = LockTime::from_consensus(site.height);
            block.txdata[0].input[0].sequence = Sequence(0);
        })),
        Break::BadTxnsNonfinalBip68Height => {
            let coin = site.coin(Kind::P2trKey);
            let age = site.height - coin.height;
            Some(relative(site, coin, age, age + 1))
        }
        Break::BadTxnsNonfinalBip68Time => {
            let coin = site.coin(Kind::P2wpkh);
            let made = site.chain.median_time_past(coin.height.saturating_sub(1));
            let units = (site.median_time_past - made) / 512;
            Some(relative(site, coin, 1 << 22 | units, 1 << 22 | (units + 1)))
        }
        _ => None,
    }
}

/// Returns blocks that spend a coin, each with one of two sequence numbers.
fn relative(site: &Site<'_>, coin: Coin, sound: u32, broken: u32) -> Case {
    let [sound, broken]: [Transaction; 2] = [sound, broken].map(|sequence| {
        let mut payment: Payment = site.payment_of(coin);
        payment.inputs[0].sequence = sequence;
        payment.to_transaction(site.keys())
    });
    site.case([sound], [broken])
}
