//! The rules for headers and their arithmetic, compared with the crate `bitcoin` and real chains.
//! The other rules are tested beside Bitcoin Core's engine, in apus-scripts.

use apus_hash::Hash;
use apus_testdata::{blocks_of, shared};
use apus_wire::{BlockView, Chain, Cursor, Header, Network};
use bitcoin::CompactTarget;
use bitcoin::hashes::Hash as _;
use bitcoin::pow::Target;
use proptest::prelude::*;

use super::*;
use crate::arith::U256;
use crate::tx::check_transaction;

/// A chain of headers from the genesis block on, as the ancestry of its last one.
#[derive(Clone, Copy)]
struct Headers<'a>(&'a [Header]);

impl Ancestry for Headers<'_> {
    fn height(&self) -> u32 {
        self.0.len() as u32 - 1
    }

    fn at(&self, height: u32) -> HeaderFacts {
        let header = &self.0[height as usize];
        HeaderFacts { bits: header.bits, time: header.time }
    }
}

fn regtest() -> Network {
    Network::new(Chain::Regtest)
}

/// `ok`, or the reject reason of an error.
fn verdict(result: Result<(), RuleError>) -> String {
    result.map_or_else(|error| error.reason.into_owned(), |()| "ok".to_owned())
}

fn parse_headers(bytes: &[u8]) -> Vec<Header> {
    bytes.chunks_exact(80).map(|h| Header::parse(&mut Cursor::new(h)).unwrap()).collect()
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs mainnet headers that may not be copied")]
fn a_hundred_thousand_mainnet_headers_pass() {
    let bytes = std::fs::read(shared("headers-mainnet-0-100006.bin")).unwrap();
    let network = Network::new(Chain::Main);
    let headers = parse_headers(&bytes);
    let mut work = Work::ZERO;
    let mut upstream = block_work_upstream(headers[0].bits);
    for (height, header) in headers.iter().enumerate() {
        check_header(header, &header.hash(), &network).unwrap();
        work = work.plus(block_work(header.bits));
        if height > 0 {
            let parent = Headers(&headers[..height]);
            let now = i64::from(header.time) - FUTURE;
            check_header_in_context(header, &network, &parent, now).unwrap();
            let wrong = Header { bits: header.bits ^ 1, ..*header };
            assert_eq!(
                verdict(check_header_in_context(&wrong, &network, &parent, now)),
                "bad-diffbits"
            );
            upstream = upstream + block_work_upstream(header.bits);
        }
    }
    assert_eq!(headers.len(), 100_007);
    assert_eq!(work.to_be_bytes(), upstream.to_be_bytes());
}

#[test]
#[cfg_attr(not(shared_data), ignore = "needs testnet3 blocks that may not be copied")]
fn testnet_headers_pass() {
    let network = Network::new(Chain::Test);
    let headers: Vec<Header> = blocks_of(&shared("testnet3-0-4000.dat"))
        .iter()
        .map(|block| Header::parse(&mut Cursor::new(block)).unwrap())
        .collect();
    for (height, header) in headers.iter().enumerate().skip(1) {
        let parent = Headers(&headers[..height]);
        check_header(header, &header.hash(), &network).unwrap();
        check_header_in_context(header, &network, &parent, i64::from(header.time)).unwrap();
    }
}

const FUTURE: i64 = 7200;

fn block_work_upstream(bits: u32) -> bitcoin::Work {
    Target::from_compact(CompactTarget::from_consensus(bits)).to_work()
}

/// `count` headers ten minutes apart from `time` on, all with the same target.
fn chain(count: usize, bits: u32, time: u32) -> Vec<Header> {
    (0..count as u32)
        .map(|i| Header { version: 4, bits, time: time + 600 * i, ..Header::default() })
        .collect()
}

fn child(headers: &[Header], network: &Network, change: impl Fn(&mut Header)) -> String {
    let last = headers.last().unwrap();
    let mut header = Header { time: last.time + 600, ..*last };
    header.bits = next_work_required(network, &Headers(headers), header.time);
    change(&mut header);
    verdict(check_header_in_context(&header, network, &Headers(headers), NOW))
}

const NOW: i64 = 1_600_000_000;

#[test]
fn times() {
    let network = Network::new(Chain::Main);
    let headers = chain(20, 0x1d00_ffff, NOW as u32 - 12_000);
    assert_eq!(child(&headers, &network, |_| ()), "ok");
    let median = headers[14].time;
    assert_eq!(Headers(&headers).median_time_past(), i64::from(median));
    assert_eq!(Headers(&headers[..4]).median_time_past(), i64::from(headers[2].time));
    assert_eq!(Headers(&headers[..1]).median_time_past(), i64::from(headers[0].time));
    assert_eq!(child(&headers, &network, |h| h.time = median), "time-too-old");
    assert_eq!(child(&headers, &network, |h| h.time = median + 1), "ok");
    assert_eq!(child(&headers, &network, |h| h.time = (NOW + FUTURE) as u32), "ok");
    assert_eq!(child(&headers, &network, |h| h.time = (NOW + FUTURE) as u32 + 1), "time-too-new");
    assert_eq!(child(&headers, &network, |h| h.time = u32::MAX), "time-too-new");
}

#[test]
fn versions() {
    let network = Network { bip34_height: 5, bip66_height: 10, bip65_height: 15, ..regtest() };
    for (height, least) in [(4, i32::MIN), (5, 2), (9, 2), (10, 3), (14, 3), (15, 4), (16, 4)] {
        let headers = chain(height, 0x207f_ffff, NOW as u32 - 12_000);
        assert_eq!(child(&headers, &network, |h| h.version = least), "ok");
        if least > 0 {
            let reason = child(&headers, &network, |h| h.version = least - 1);
            assert_eq!(reason, format!("bad-version(0x0000000{})", least - 1));
            let reason = child(&headers, &network, |h| h.version = -1);
            assert_eq!(reason, "bad-version(0xffffffff)");
        }
    }
}

#[test]
fn timewarp() {
    let testnet4 = Network::new(Chain::Testnet4);
    let mut headers = chain(2016, 0x1d00_ffff, NOW as u32 - 2016 * 600);
    let last = headers.last_mut().unwrap();
    last.time += 3000;
    let last = last.time;
    assert_eq!(child(&headers, &testnet4, |h| h.time = last - 600), "ok");
    assert_eq!(child(&headers, &testnet4, |h| h.time = last - 601), "time-timewarp-attack");
    let main = Network { bip34_height: 9999, bip65_height: 9999, ..Network::new(Chain::Main) };
    assert_eq!(child(&headers, &main, |h| h.time = last - 601), "ok");
    assert_eq!(child(&headers[..2015], &testnet4, |h| h.time = last - 3600 - 1), "ok");
}

#[test]
fn minimum_difficulty_on_testnet() {
    let network = Network::new(Chain::Test);
    let real = 0x1c00_ffff;
    let easiest = 0x1d00_ffff;
    let mut headers = chain(100, real, NOW as u32 - 100_000);
    let last = headers[99].time;
    let next = |headers: &[Header], time| next_work_required(&network, &Headers(headers), time);
    assert_eq!(next(&headers, last + 1200), real);
    assert_eq!(next(&headers, last + 1201), easiest);
    headers[98].bits = easiest;
    headers[99].bits = easiest;
    assert_eq!(next(&headers, last + 1200), real);
    assert_eq!(next_work_required(&Network::new(Chain::Main), &Headers(&headers), 0), easiest);
    // The search ends at a period's first block, whatever its target.
    let mut headers = chain(2019, real, NOW as u32 - 2019 * 600);
    headers[2016..].iter_mut().for_each(|header| header.bits = easiest);
    assert_eq!(next(&headers, headers[2018].time), easiest);
}

#[test]
fn retargets() {
    let bits = 0x1b04_864c;
    let network = Network::new(Chain::Main);
    let mut headers = chain(2016, bits, 1_000_000_000);
    let next = |headers: &[Header], network: &Network| {
        next_work_required(network, &Headers(headers), headers.last().unwrap().time + 600)
    };
    let scaled = |numerator: u64, denominator: u64| {
        let target = Target::from_compact(CompactTarget::from_consensus(bits)).to_be_bytes();
        let mut out = [0u8; 32];
        let mut rest = 0u64;
        let mut carry = 0u64;
        let mut product = [0u8; 40];
        for i in (0..32).rev() {
            let value = u64::from(target[i]) * numerator + carry;
            product[i + 8] = value as u8;
            carry = value >> 8;
        }
        product[..8].copy_from_slice(&carry.to_be_bytes());
        for (i, byte) in product.iter().enumerate() {
            rest = rest << 8 | u64::from(*byte);
            if i >= 8 {
                out[i - 8] = (rest / denominator) as u8;
            }
            rest %= denominator;
        }
        Target::from_be_bytes(out).to_compact_lossy().to_consensus()
    };
    for seconds in [1, 302_399, 302_400, 302_401, 1_000_000, 1_209_599, 4_838_400, 9_999_999] {
        headers[2015].time = headers[0].time + seconds;
        let clamped = u64::from(seconds).clamp(302_400, 4_838_400);
        assert_eq!(next(&headers, &network), scaled(clamped, 1_209_600), "{seconds}");
    }
    headers[2015].time = headers[0].time - 5;
    assert_eq!(next(&headers, &network), scaled(1, 4));
    headers[2015].bits = 0x1d00_ffff;
    assert_eq!(next(&headers, &network), 0x1c3f_ffc0);
    assert_eq!(next(&headers, &Network::new(Chain::Testnet4)), scaled(1, 4));
    headers[2015].time = headers[0].time + 9_999_999;
    assert_eq!(next(&headers, &network), 0x1d00_ffff);
    let regtest = chain(144, 0x207f_ffff, 1_000_000_000);
    assert_eq!(next(&regtest, &self::regtest()), 0x207f_ffff);
}

#[test]
fn compact_targets_of_core() {
    for (bits, value, again) in [
        (0x0000_0000, "0", 0x0000_0000),
        (0x0012_3456, "0", 0),
        (0x0100_3456, "0", 0),
        (0x0200_0056, "0", 0),
        (0x0300_0000, "0", 0),
        (0x0400_0000, "0", 0),
        (0x0092_3456, "0", 0),
        (0x0112_3456, "12", 0x0112_0000),
        (0x0212_3456, "1234", 0x0212_3400),
        (0x0312_3456, "123456", 0x0312_3456),
        (0x0412_3456, "12345600", 0x0412_3456),
        (0x0500_9234, "92340000", 0x0500_9234),
    ] {
        let compact = U256::from_compact(bits);
        let shown = compact.value.to_string();
        let shown = shown.trim_start_matches('0');
        assert_eq!(shown, value.trim_start_matches('0'), "{bits:08x}");
        assert_eq!(compact.value.to_compact(), again);
        assert!(!compact.negative && !compact.overflow, "{bits:08x}");
    }
    assert!(U256::from_compact(0x0492_3456).negative);
    assert!(U256::from_compact(0x01fe_dcba).negative);
    for (bits, overflow) in [
        (0xff12_3456, true),
        (0x2100_ffff, false),
        (0x2101_0000, true),
        (0x2200_00ff, false),
        (0x2200_0100, true),
        (0x2300_0001, true),
        (0x2300_0000, false),
        (0x207f_ffff, false),
    ] {
        assert_eq!(U256::from_compact(bits).overflow, overflow, "{bits:08x}");
    }
}

#[test]
fn both_forms_of_every_network_limit_agree() {
    for chain in [Chain::Main, Chain::Test, Chain::Testnet4, Chain::Signet, Chain::Regtest] {
        let network = Network::new(chain);
        let limit = U256::from_le_bytes(&network.pow_limit);
        assert_eq!(limit.to_compact(), network.pow_limit_bits, "{chain:?}");
        let genesis = BlockView::parse(apus_wire::genesis_block(&network)).unwrap();
        check_header(genesis.header(), &genesis.hash(), &network).unwrap();
    }
}

#[test]
fn targets_that_no_hash_meets() {
    let network = regtest();
    let low = Hash::ZERO;
    assert!(proof_of_work(&low, 0x207f_ffff, &network));
    for bits in [0, 0x0092_3456, 0x0492_3456, 0x2080_0000, 0x2100_8000, 0xff12_3456] {
        assert!(!proof_of_work(&low, bits, &network), "{bits:08x}");
    }
    assert!(!proof_of_work(&low, 0x1d01_0000, &Network::new(Chain::Main)));
    let mut target = Hash::ZERO;
    target.0[26..28].copy_from_slice(&[0xff, 0xff]);
    assert!(proof_of_work(&target, 0x1d00_ffff, &Network::new(Chain::Main)));
    target.0[0] = 1;
    assert!(!proof_of_work(&target, 0x1d00_ffff, &Network::new(Chain::Main)));
}

#[test]
fn equivalent_times() {
    let network = Network::new(Chain::Main);
    let bits = 0x1d00_ffff;
    let one = block_work(bits);
    let ten = (0..10).fold(Work::ZERO, |sum, _| sum.plus(one));
    assert_eq!(equivalent_time(ten, one, bits, &network), 5400);
    assert_eq!(equivalent_time(one, ten, bits, &network), -5400);
    assert_eq!(equivalent_time(one, one, bits, &network), 0);
    let huge = Work::from_hash(&Hash([0x7f; 32]));
    assert_eq!(equivalent_time(huge, one, 0x207f_ffff, &network), i64::MAX);
    assert_eq!(equivalent_time(one, huge, 0x207f_ffff, &network), -i64::MAX);
    assert_eq!(equivalent_time(ten, one, 0, &network), i64::MAX);
    assert!(Work::from_hash(&network.minimum_chain_work) > ten);
    assert_eq!(Work::from_hash(&Hash::from_hex(&format!("{one}"))), one);
}

#[test]
fn a_transaction_larger_than_a_block() {
    let output = bitcoin::TxOut {
        value: bitcoin::Amount::ZERO,
        script_pubkey: bitcoin::ScriptBuf::from(vec![0; 1_000_000]),
    };
    let tx = bitcoin::Transaction {
        version: bitcoin::transaction::Version::TWO,
        lock_time: bitcoin::absolute::LockTime::ZERO,
        input: vec![bitcoin::TxIn::default()],
        output: vec![output],
    };
    let mut block = Header::default().to_bytes().to_vec();
    block.push(1);
    block.extend(bitcoin::consensus::serialize(&tx));
    let view = BlockView::parse(block).unwrap();
    assert_eq!(check_transaction(&view.tx(0)), Err("bad-txns-oversize"));
}

proptest! {
    #[test]
    fn arithmetic_agrees_with_crate_bitcoin(bits: u32, hash: [u8; 32]) {
        let ours = U256::from_compact(bits);
        let theirs = Target::from_compact(CompactTarget::from_consensus(bits));
        if !ours.negative && !ours.overflow && ours.value != U256::ZERO {
            prop_assert_eq!(ours.value.to_be_bytes(), theirs.to_be_bytes());
            prop_assert_eq!(ours.value.to_compact(), theirs.to_compact_lossy().to_consensus());
            prop_assert_eq!(block_work(bits).to_be_bytes(), theirs.to_work().to_be_bytes());
            let met = theirs.is_met_by(bitcoin::BlockHash::from_byte_array(hash));
            let limit = U256::from_le_bytes(&regtest().pow_limit);
            prop_assert_eq!(proof_of_work(&Hash(hash), bits, &regtest()),
                met && ours.value <= limit);
        } else {
            prop_assert_eq!(block_work(bits), Work::ZERO);
            prop_assert!(!proof_of_work(&Hash(hash), bits, &regtest()));
        }
    }

    #[test]
    fn division_and_multiplication_undo_each_other(a: [u8; 32], b: u32, shift in 0u32..224) {
        let a = U256::from_le_bytes(&a);
        let b = b.max(1);
        let small = a.shr(32);
        prop_assert_eq!(small.wrapping_mul(b).checked_div(U256::from(b)), Some(small));
        let divisor = U256::from(b).shl(shift);
        let quotient = a.checked_div(divisor).unwrap();
        let rest = a.wrapping_sub(quotient.wrapping_mul(b).shl(shift));
        prop_assert!(rest < divisor);
        prop_assert_eq!(a.wrapping_sub(a), U256::ZERO);
        prop_assert_eq!(a.wrapping_add(a.not()).wrapping_add(U256::ONE), U256::ZERO);
    }
}
