//! Random blocks, made from real ones, whose verdicts are compared with those of libbitcoinkernel.

use bitcoin::consensus::{deserialize, serialize};
use bitcoin::{Amount, OutPoint, ScriptBuf, Transaction};
use bitcoinkernel::prelude::*;
use bitcoinkernel::{
    BLOCK_CHECK_ALL, Block, BlockCheckResult, BlockValidationResult, ChainParams, ChainType,
};

use super::*;

/// The result of Core's `CheckBlock`: `None` if the bytes are not a block, else the class of the
/// error if there is one.
pub fn kernel_verdict(bytes: &[u8], params: &ChainParams) -> Option<Option<RuleClass>> {
    let block = Block::new(bytes).ok()?;
    let BlockCheckResult::Invalid(state) = block.check(params, BLOCK_CHECK_ALL) else {
        return Some(None);
    };
    Some(Some(match state.result() {
        BlockValidationResult::Consensus => RuleClass::Consensus,
        BlockValidationResult::Mutated => RuleClass::Mutated,
        BlockValidationResult::InvalidHeader => RuleClass::InvalidHeader,
        other => panic!("CheckBlock does not say {other:?}"),
    }))
}

/// A random script, often one near the limits of signature operations.
fn script(random: &mut Random) -> ScriptBuf {
    let mut script: Vec<u8> = match random.below(4) {
        0 => (0..random.below(200)).map(|_| random.below(256) as u8).collect(),
        1 => vec![0xac; 19_900 + random.below(200)],
        2 => vec![0xae; 990 + random.below(20)],
        _ => (0..random.below(60)).map(|_| random.one_of(&[0xac, 0xae, 1, 0x4c, 0x51])).collect(),
    };
    if random.below(3) == 0 {
        let size = random.below(70_000) as u32;
        let push = random.one_of(&[0x4c, 0x4d, 0x4e]);
        script.splice(0..0, [vec![push], size.to_le_bytes().to_vec()].concat());
    }
    ScriptBuf::from(script)
}

fn change_tx(tx: &mut Transaction, random: &mut Random) {
    match random.below(9) {
        0 => tx.output.clear(),
        1 | 2 => {
            let amount = random.one_of(&[0, 1, -1, MONEY_MAX, MONEY_MAX + 1, i64::MIN, i64::MAX]);
            if !tx.output.is_empty() {
                let at = random.below(tx.output.len());
                tx.output[at].value = Amount::from_sat(amount as u64);
            }
        }
        3 => {
            let repeated = tx.input[random.below(tx.input.len())].clone();
            tx.input.insert(random.below(tx.input.len() + 1), repeated);
        }
        4 => {
            let at = random.below(tx.input.len());
            tx.input[at].previous_output = OutPoint::null();
            if random.below(2) == 0 {
                tx.input[at].previous_output.vout = random.below(3) as u32;
            }
        }
        5 => {
            let at = random.below(tx.input.len());
            tx.input[at].script_sig = script(random);
        }
        6 => {
            let len = random.below(110);
            tx.input[0].script_sig = ScriptBuf::from(vec![0x51; len]);
        }
        7 => tx.output.push(bitcoin::TxOut { script_pubkey: script(random), ..output(1) }),
        _ => tx.input[0].witness.push([1, 2, 3]),
    }
}

fn change_list(txs: &mut Vec<Transaction>, random: &mut Random) {
    if txs.is_empty() {
        return;
    }
    let at = random.below(txs.len());
    match random.below(12) {
        0 => drop(txs.remove(at)),
        1 => txs.insert(at, txs[0].clone()),
        2 => txs.swap(0, at),
        3 => txs.push(txs[at].clone()),
        4 => txs.truncate(at),
        _ => change_tx(&mut txs[at], random),
    }
}

/// A changed block. Most have the merkle root of their transactions and enough work; in some, the
/// last transactions are repeated or a bit is changed after that.
fn changed(block: &bitcoin::Block, random: &mut Random) -> Vec<u8> {
    let mut txs = block.txdata.clone();
    for _ in 0..random.below(4) {
        change_list(&mut txs, random);
    }
    let mut raw: Vec<Vec<u8>> = txs.iter().map(serialize).collect();
    if random.below(16) == 0 {
        raw.push([&[1, 0, 0, 0, 0, 0][..], &[0; 4]].concat());
    }
    let mut bytes = block_of_raw(&raw);
    if raw.len() > 1 && random.below(6) == 0 {
        let header = *BlockView::parse(&bytes)
            .map(|view| *view.header())
            .as_ref()
            .unwrap_or(&Header { version: 4, bits: 0x207f_ffff, ..Header::default() });
        let tail = raw.len() - 1 - random.below(raw.len() / 2);
        raw.extend_from_within(tail..);
        bytes = mined(header, &raw);
    }
    if random.below(6) == 0 {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
    bytes
}

/// The first 150 blocks of a file that have at least `least` transactions.
fn bases(path: &std::path::Path, least: usize) -> Vec<bitcoin::Block> {
    let blocks = blocks_of(path);
    let blocks = blocks.iter().map(|block| deserialize::<bitcoin::Block>(block).unwrap());
    blocks.filter(|block| block.txdata.len() >= least).take(150).collect()
}

#[test]
fn random_blocks_are_judged_as_core_judges_them() {
    let mainnet = bases(&data("mainnet-0-14131.dat"), 3);
    let regtest = bases(&data("regtest-1-206.dat"), 2);
    judged_as_core_judges_them(&[mainnet, regtest].concat());
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs testnet3 blocks that may not be copied")]
fn random_testnet_blocks_are_judged_as_core_judges_them() {
    judged_as_core_judges_them(&bases(&shared("testnet3-0-4000.dat"), 4));
}

fn judged_as_core_judges_them(bases: &[bitcoin::Block]) {
    let params = ChainParams::new(ChainType::Regtest);
    let network = regtest();
    let mut random = Random(0x0d15_ea5e_0123_4567);
    let mut seen = std::collections::BTreeMap::<String, u32>::new();
    for _ in 0..12_000 {
        let bytes = changed(&bases[random.below(bases.len())], &mut random);
        let expected = kernel_verdict(&bytes, &params);
        let Ok(view) = BlockView::parse(&bytes) else {
            assert_eq!(expected, None, "{bytes:02x?}");
            *seen.entry("no block".to_owned()).or_default() += 1;
            continue;
        };
        let result = check_block(view, &network);
        let class = result.as_ref().err().map(|error| error.class);
        let verdict = verdict(result);
        assert_eq!(Some(class), expected, "{verdict}");
        *seen.entry(verdict).or_default() += 1;
    }
    println!("{seen:?}");
    // All verdicts but those that need a block of the largest size.
    assert!(seen.len() >= 17, "{seen:?}");
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs a mainnet block that may not be copied")]
fn a_large_real_block_with_changed_bytes() {
    let bytes = std::fs::read(shared("block413567.raw")).unwrap();
    let params = ChainParams::new(ChainType::Mainnet);
    let network = Network::new(Chain::Main);
    let mut random = Random(413_567);
    for round in 0..60 {
        let mut bytes = bytes.clone();
        if round > 0 {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
        let expected = kernel_verdict(&bytes, &params);
        let result = BlockView::parse(&bytes).map(|view| check_block(view, &network));
        assert_eq!(result.ok().map(|result| result.err().map(|error| error.class)), expected);
    }
}
