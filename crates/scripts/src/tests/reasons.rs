//! A block for each reject reason that does not depend on coins, which is right in everything else.
//! Where the reason depends on nothing but the block, libbitcoinkernel must agree.

use bitcoin::consensus::serialize;
use bitcoin::{OutPoint, ScriptBuf, Sequence, Transaction, TxOut, Witness};

use super::differential::kernel_verdict;
use super::*;

/// The verdict on a block without context, which libbitcoinkernel must share.
fn context_free(bytes: Vec<u8>) -> String {
    let params = bitcoinkernel::ChainParams::new(bitcoinkernel::ChainType::Regtest);
    let expected = kernel_verdict(&bytes, &params);
    let result = check_block(BlockView::parse(bytes).unwrap(), &regtest());
    assert_eq!(result.as_ref().err().map(|error| error.class), expected.unwrap());
    verdict(result)
}

fn context_free_txs(txs: &[Transaction]) -> String {
    context_free(block_of(txs))
}

#[test]
fn a_plain_block_passes() {
    assert_eq!(context_free_txs(&[coinbase(1)]), "ok");
    assert_eq!(context_free_txs(&[coinbase(1), spending(1), spending(2)]), "ok");
}

#[test]
fn header_and_merkle_root() {
    let txs = [coinbase(1), spending(1), spending(2)].map(|tx| serialize(&tx));
    let good = block_of_raw(&txs);
    let header = *BlockView::parse(&good[..]).unwrap().header();
    let mut easy = good.clone();
    easy[72..76].copy_from_slice(&0x1d00_ffff_u32.to_le_bytes());
    assert_eq!(context_free(easy), "high-hash");
    let other = Header { merkle_root: hash(1), ..header };
    assert_eq!(context_free(mined(other, &txs)), "bad-txnmrklroot");
    let mut repeated = txs.to_vec();
    repeated.push(txs[2].clone());
    assert_eq!(context_free(mined(header, &repeated)), "bad-txns-duplicate");
    let error = check_block(BlockView::parse(mined(header, &repeated)).unwrap(), &regtest());
    assert!(!error.err().unwrap().condemns_hash());
}

#[test]
fn size_and_coinbase() {
    assert_eq!(context_free_txs(&[]), "bad-blk-length");
    let mut large = spending(1);
    large.output[0].script_pubkey = ScriptBuf::from(vec![0; 1_000_000]);
    assert_eq!(context_free_txs(&[coinbase(1), large]), "bad-blk-length");
    assert_eq!(context_free_txs(&[spending(1), coinbase(1)]), "bad-cb-missing");
    assert_eq!(context_free_txs(&[coinbase(1), spending(1), coinbase(2)]), "bad-cb-multiple");
    for (len, expected) in [(1, "bad-cb-length"), (2, "ok"), (100, "ok"), (101, "bad-cb-length")] {
        let mut tx = coinbase(1);
        tx.input[0].script_sig = ScriptBuf::from(vec![0; len]);
        assert_eq!(context_free_txs(&[tx]), expected, "{len}");
    }
}

#[test]
fn a_block_of_exactly_the_largest_size_passes() {
    for (more, expected) in [(0, "ok"), (1, "bad-blk-length")] {
        let mut large = spending(1);
        large.output[0].script_pubkey = ScriptBuf::from(vec![0; 900_000]);
        let size = block_of(&[coinbase(1), large.clone()]).len();
        large.output[0].script_pubkey = ScriptBuf::from(vec![0; 900_000 + 1_000_000 - size + more]);
        assert_eq!(context_free_txs(&[coinbase(1), large]), expected);
    }
}

#[test]
fn inputs_and_outputs() {
    let no_inputs = [&2u32.to_le_bytes()[..], &[0, 0], &[0; 4]].concat();
    assert_eq!(
        context_free(block_of_raw(&[serialize(&coinbase(1)), no_inputs])),
        "bad-txns-vin-empty"
    );
    let mut tx = spending(1);
    tx.output.clear();
    assert_eq!(context_free_txs(&[coinbase(1), tx]), "bad-txns-vout-empty");
    let with_outputs = |amounts: &[i64]| {
        let mut tx = spending(1);
        tx.output = amounts.iter().map(|&amount| output(amount)).collect();
        context_free_txs(&[coinbase(1), tx])
    };
    assert_eq!(with_outputs(&[0, MONEY_MAX]), "ok");
    assert_eq!(with_outputs(&[1, -1]), "bad-txns-vout-negative");
    assert_eq!(with_outputs(&[i64::MIN]), "bad-txns-vout-negative");
    assert_eq!(with_outputs(&[MONEY_MAX + 1]), "bad-txns-vout-toolarge");
    assert_eq!(with_outputs(&[i64::MAX]), "bad-txns-vout-toolarge");
    assert_eq!(with_outputs(&[MONEY_MAX, 1]), "bad-txns-txouttotal-toolarge");
    let with_inputs = |outpoints: &[OutPoint]| {
        let mut tx = spending(1);
        tx.input = outpoints.iter().map(|&outpoint| input(outpoint)).collect();
        context_free_txs(&[coinbase(1), tx])
    };
    assert_eq!(with_inputs(&[outpoint(1), OutPoint::null()]), "bad-txns-prevout-null");
    for count in [2, 12, 13, 300] {
        let mut outpoints: Vec<_> = (0..count).map(outpoint).collect();
        assert_eq!(with_inputs(&outpoints), "ok");
        outpoints[count as usize / 2 - 1] = outpoint(count - 1);
        assert_eq!(with_inputs(&outpoints), "bad-txns-inputs-duplicate");
    }
}

#[test]
fn legacy_sigops() {
    for (script, expected) in [
        (vec![0xac; 20_000], "ok"),
        (vec![0xad; 20_001], "bad-blk-sigops"),
        (vec![0xae; 1000], "ok"),
        ([vec![0x51], vec![0xaf; 1001]].concat(), "bad-blk-sigops"),
        // After a push that reaches beyond the script's end, nothing is counted.
        ([vec![0x4c], vec![0xac; 30_000]].concat(), "bad-blk-sigops"),
        ([vec![0x4d, 0xff, 0xff], vec![0xac; 30_000]].concat(), "ok"),
        ([vec![0x4e, 0xff, 0xff, 0xff, 0xff], vec![0xac; 30_000]].concat(), "ok"),
    ] {
        let mut tx = spending(1);
        tx.output[0].script_pubkey = ScriptBuf::from(script.clone());
        assert_eq!(context_free_txs(&[coinbase(1), tx]), expected);
        let mut tx = spending(1);
        tx.input[0].script_sig = ScriptBuf::from(script);
        assert_eq!(context_free_txs(&[coinbase(1), tx]), expected);
    }
}

/// The verdict on a block at height 200 of a network by the rules that need its ancestors.
fn in_context(network: &Network, txs: &[Transaction]) -> String {
    let context = BlockContext { network, height: 200, parent_median_time_past: 1_600_000_000 };
    verdict(check_block_in_context(&checked(txs), &context))
}

#[test]
fn lock_times() {
    let verdict_of = |network: &Network, lock_time: u32, sequence: u32| {
        let mut tx = spending(1);
        tx.lock_time = LockTime::from_consensus(lock_time);
        tx.input[0].sequence = Sequence(sequence);
        in_context(network, &[coinbase(200), tx])
    };
    let network = regtest();
    let before_csv = Network { csv_height: 201, ..regtest() };
    for (lock_time, after, before) in [
        (0, "ok", "ok"),
        (199, "ok", "ok"),
        (200, "bad-txns-nonfinal", "bad-txns-nonfinal"),
        (499_999_999, "bad-txns-nonfinal", "bad-txns-nonfinal"),
        (500_000_000, "ok", "ok"),
        (1_599_999_999, "ok", "ok"),
        (1_600_000_000, "bad-txns-nonfinal", "ok"),
        (1_699_999_999, "bad-txns-nonfinal", "ok"),
        (1_700_000_000, "bad-txns-nonfinal", "bad-txns-nonfinal"),
    ] {
        assert_eq!(verdict_of(&network, lock_time, 0), after, "{lock_time}");
        assert_eq!(verdict_of(&before_csv, lock_time, 0), before, "{lock_time}");
        assert_eq!(verdict_of(&network, lock_time, u32::MAX), "ok");
    }
}

#[test]
fn coinbase_heights() {
    let block = |script: Vec<u8>| {
        let mut tx = coinbase(1);
        tx.input[0].script_sig = ScriptBuf::from(script);
        checked(&[tx])
    };
    let check = |height: u32, script: Vec<u8>| {
        let network = regtest();
        let context = BlockContext { network: &network, height, parent_median_time_past: 0 };
        verdict(check_block_in_context(&block(script), &context))
    };
    for height in
        [1, 15, 16, 17, 127, 128, 255, 256, 32767, 32768, 65536, 8_388_607, 8_388_608, i32::MAX]
    {
        let push = bitcoin::script::Builder::new().push_int(height.into()).into_bytes();
        let height = height as u32;
        assert_eq!(check(height, [&push[..], &[9, 9]].concat()), "ok", "{height}");
        assert_eq!(check(height + 1, [&push[..], &[9, 9]].concat()), "bad-cb-height");
        let padded = [&[push.len() as u8][..], &push[1..], &[0]].concat();
        assert_eq!(check(height, [&padded[..], &[9, 9]].concat()), "bad-cb-height", "{height}");
        let stated = |push: &[u8], network: &Network| {
            stated_height(block([push, &[9, 9]].concat()).view(), network)
        };
        let is_possible = (1..=20_000_000).contains(&height);
        assert_eq!(stated(&push, &regtest()), is_possible.then_some(height), "{height}");
        assert_eq!(stated(&padded, &regtest()), None, "{height}");
        let later = Network { bip34_height: height.saturating_add(1), ..regtest() };
        assert_eq!(stated(&push, &later), None, "{height}");
    }
    assert_eq!(check(200, vec![2, 200]), "bad-cb-height");
    let before = Network { bip34_height: 201, ..regtest() };
    assert_eq!(in_context(&before, &[coinbase(1)]), "ok");
}

/// The transactions of a block with a commitment to its witnesses. `reserved` is the witness of the
/// coinbase.
pub fn committed(mut txs: Vec<Transaction>, reserved: &[Vec<u8>]) -> Vec<Transaction> {
    let root = BlockView::parse(block_of(&txs)).unwrap().witness_merkle_root().root;
    let nonce = reserved.first().and_then(|item| item[..].try_into().ok()).unwrap_or([0; 32]);
    let commitment = BlockView::<Vec<u8>>::expected_commitment(&root, &nonce);
    let script = [&apus_wire::WITNESS_COMMITMENT_HEADER[..], &commitment.0].concat();
    txs[0].output.push(TxOut { script_pubkey: ScriptBuf::from(script), ..output(0) });
    txs[0].input[0].witness = Witness::from_slice(reserved);
    txs
}

#[test]
fn witness_commitments() {
    let network = regtest();
    let before = Network { segwit_height: 201, ..regtest() };
    let mut spend = spending(1);
    spend.input[0].witness = Witness::from_slice(&[[1, 2, 3]]);
    let txs = vec![coinbase(200), spend, spending(2)];
    assert_eq!(in_context(&network, &txs), "unexpected-witness");
    let good = committed(txs.clone(), &[vec![5; 32]]);
    assert_eq!(in_context(&network, &good), "ok");
    assert_eq!(in_context(&before, &good), "unexpected-witness");
    for reserved in [vec![], vec![vec![5; 31]], vec![vec![5; 33]], vec![vec![5; 32]; 2]] {
        let bad = committed(txs.clone(), &reserved);
        assert_eq!(in_context(&network, &bad), "bad-witness-nonce-size");
    }
    let mut other = good.clone();
    other[1].input[0].witness = Witness::from_slice(&[[1, 2, 4]]);
    assert_eq!(in_context(&network, &other), "bad-witness-merkle-match");
    // Only the last commitment counts. An output that is one byte too short is not a commitment.
    let mut later = good.clone();
    let script = [&apus_wire::WITNESS_COMMITMENT_HEADER[..], &[0; 32]].concat();
    later[0].output.push(TxOut { script_pubkey: ScriptBuf::from(script.clone()), ..output(0) });
    assert_eq!(in_context(&network, &later), "bad-witness-merkle-match");
    later[0].output[2].script_pubkey = ScriptBuf::from(script[..37].to_vec());
    assert_eq!(in_context(&network, &later), "ok");
    // A block without witnesses may have no commitment, but not a wrong one.
    let plain = [coinbase(200), spending(1)];
    assert_eq!(in_context(&network, &plain), "ok");
    let empty = committed(plain.to_vec(), &[]);
    assert_eq!(in_context(&network, &empty), "bad-witness-nonce-size");
    assert_eq!(in_context(&before, &empty), "ok");
}

/// Without witnesses, neither the commitment nor the weight is checked, but everything else is.
#[test]
fn blocks_that_come_without_witnesses() {
    let network = regtest();
    let verdict_of = |txs: &[Transaction], height| {
        let context =
            BlockContext { network: &network, height, parent_median_time_past: 1_600_000_000 };
        verdict(check_stripped_block_in_context(&checked(txs), &context))
    };
    let mut spend = spending(1);
    spend.input[0].witness = Witness::from_slice(&[[1, 2, 3]]);
    let whole = committed(vec![coinbase(200), spend], &[vec![5; 32]]);
    let mut stripped = whole.clone();
    stripped.iter_mut().for_each(|tx| tx.input[0].witness = Witness::new());
    assert_eq!(in_context(&network, &stripped), "bad-witness-nonce-size");
    assert_eq!(verdict_of(&stripped, 200), "ok");
    assert_eq!(verdict_of(&stripped, 201), "bad-cb-height");
    stripped[1].lock_time = LockTime::from_consensus(200);
    stripped[1].input[0].sequence = Sequence(0);
    assert_eq!(verdict_of(&stripped, 200), "bad-txns-nonfinal");
    // A block that arrives with witnesses all the same is checked in full.
    assert_eq!(verdict_of(&whole, 200), "ok");
    let mut other = whole.clone();
    other[1].input[0].witness = Witness::from_slice(&[[1, 2, 4]]);
    assert_eq!(verdict_of(&other, 200), "bad-witness-merkle-match");
    let mut half = whole;
    half[0].input[0].witness = Witness::new();
    assert_eq!(verdict_of(&half, 200), "bad-witness-nonce-size");
}

#[test]
fn weight() {
    let network = regtest();
    for (more, expected) in [(0, "ok"), (1, "bad-blk-weight")] {
        let with_witness = |len: usize| {
            let mut spend = spending(1);
            spend.input[0].witness = Witness::from_slice(&[vec![0; len]]);
            committed(vec![coinbase(200), spend], &[vec![0; 32]])
        };
        let weight = BlockView::parse(block_of(&with_witness(3_900_000))).unwrap().weight();
        let txs = with_witness(3_900_000 + WEIGHT_MAX - weight + more);
        assert_eq!(in_context(&network, &txs), expected);
    }
}

/// Signet's block 1, as mined.
const SIGNET_BLOCK_1: &str = "\
    00000020f61eee3b63a380a477a063af32b2bbc97c9ff9f01f2c4225e973988108000000f575c83235984e7dc4\
    afc1f30944c170462e84437ab6f2d52e16878a79e4678bd1914d5fae77031eccf4070001010000000001010000\
    000000000000000000000000000000000000000000000000000000000000ffffffff025151feffffff0200f205\
    2a010000001600149243f727dd5343293eb83174324019ec16c2630f0000000000000000776a24aa21a9ede2f6\
    1c3f71d1defd3fa999dfa36953755c690689799962b48bebd836974e8cf94c4fecc7daa2490047304402205e42\
    3a8754336ca99dbe16509b877ef1bf98d008836c725005b3c787c41ebe46022047246e4467ad7cc7f1ad98662a\
    fcaf14c115e0095a227c7b05c5182591c23e7e0100012000000000000000000000000000000000000000000000\
    0000000000000000000000000000";

#[test]
fn signet_solutions() {
    use bitcoin::hex::FromHex;
    let bytes = Vec::from_hex(SIGNET_BLOCK_1).unwrap();
    let signet = Network::new(Chain::Signet);
    assert_eq!(verdict(check_block(BlockView::parse(&bytes).unwrap(), &signet)), "ok");
    let genesis = apus_wire::genesis_block(&signet);
    assert_eq!(verdict(check_block(BlockView::parse(&genesis).unwrap(), &signet)), "ok");
    let mut two_of_two = signet.signet_challenge.clone().unwrap();
    two_of_two[0] = 0x52;
    for (challenge, expected) in [
        (vec![0x51], "ok"),
        (vec![], "ok"),
        (vec![0x00], "bad-signet-blksig"),
        (two_of_two, "bad-signet-blksig"),
    ] {
        let network = Network::custom_signet(challenge.clone());
        let params = bitcoinkernel::ChainParams::new_signet(&challenge);
        let result = check_block(BlockView::parse(&bytes).unwrap(), &network);
        let class = result.as_ref().err().map(|error| error.class);
        assert_eq!(kernel_verdict(&bytes, &params), Some(class));
        assert_eq!(verdict(result), expected, "{challenge:02x?}");
    }
}

/// Damage to the stored bytes of a valid block does not condemn its hash.
#[test]
fn bytes_that_are_not_the_headers_condemn_no_signet_block() {
    use bitcoin::hex::FromHex;
    let good = Vec::from_hex(SIGNET_BLOCK_1).unwrap();
    let signet = Network::new(Chain::Signet);
    let start = 81;
    let witness = good.len() - 38;
    // The bytes of the coinbase, of which all but the witness make its txid.
    for at in start + 6..witness {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let Ok(view) = BlockView::parse(&bytes) else { continue };
        let error = check_block(view, &signet).err().unwrap();
        assert_eq!(
            (&*error.reason, error.class),
            ("bad-signet-blksig", RuleClass::Mutated),
            "{at}"
        );
    }
    // The coinbase twice has the same merkle root, and other txids than those signed.
    let twice = [&good[..80], &[2], &good[81..], &good[81..]].concat();
    let error = check_block(BlockView::parse(&twice).unwrap(), &signet).err().unwrap();
    assert_eq!((&*error.reason, error.class), ("bad-signet-blksig", RuleClass::Mutated));
}

#[test]
fn signet_judged_on_changed_bytes() {
    use bitcoin::hex::FromHex;
    let good = Vec::from_hex(SIGNET_BLOCK_1).unwrap();
    let network = Network {
        pow_limit: regtest().pow_limit,
        ..Network::custom_signet(Network::new(Chain::Signet).signet_challenge.unwrap())
    };
    for at in 0..good.len() {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let Ok(view) = BlockView::parse(&bytes) else { continue };
        let solved = has_signet_solution(
            &view,
            &view.txids(),
            network.signet_challenge.as_ref().unwrap(),
            crate::core_scripts::only_input_is_valid,
        );
        // The solution commits to everything but the target, the nonce, the header's own merkle
        // root and the witness of the coinbase.
        let free = (36..68).contains(&at) || (72..80).contains(&at) || at >= good.len() - 36;
        assert_eq!(solved, free && at < good.len() - 4, "byte {at}");
    }
}
