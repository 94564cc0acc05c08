//! A block for each reject reason that depends on the coins that it spends.

use apus_wire::flags;
use bitcoin::{ScriptBuf, Sequence, Transaction, Witness};

use super::*;

const HEIGHT: u32 = 200;

/// The rules checked with the block, and with facts noted from it: the verdicts must be the same.
struct BothSpends<'a> {
    block: &'a CheckedBlock<Vec<u8>>,
    context: BlockContext<'a>,
    spends: BlockSpends<'a, Vec<u8>>,
    facts: FactSpends<'a>,
}

impl<'a> BothSpends<'a> {
    fn new(block: &'a CheckedBlock<Vec<u8>>, context: BlockContext<'a>) -> Self {
        let coinbase = TxFacts::of(block, 0, &context);
        let facts = FactSpends::new(block.hash(), context, &coinbase);
        Self { block, context, spends: BlockSpends::new(block, context), facts }
    }

    fn tx(
        &mut self,
        index: usize,
        prevouts: &[Prevout],
        median_time_past_at: impl Fn(u32) -> i64,
    ) -> Result<i64, RuleError> {
        let tx = self.block.view().tx(index);
        let flags = script_flags(self.context.network, self.context.height, self.block.hash());
        let inputs = tx.inputs().zip(prevouts).map(|(input, prevout)| {
            let Prevout { amount, script, height, is_coinbase } = *prevout;
            let sigops = SigopCosts::of(&input, flags);
            let facts = InputFacts { sequence: input.sequence(), sigops };
            let spent_as = SpentAs::by(script);
            (facts, SpentCoin { amount, height, is_coinbase, spent_as })
        });
        let facts = TxFacts::of(self.block, index, &self.context);
        let noted = self.facts.tx(&facts, inputs, &median_time_past_at);
        let fee = self.spends.tx(index, prevouts, median_time_past_at);
        let reason = |error: &RuleError| error.reason.clone();
        assert_eq!(noted.as_ref().map_err(reason), fee.as_ref().map(|_| &()).map_err(reason));
        fee
    }

    fn finish(self) -> Result<i64, RuleError> {
        let noted = self.facts.finish();
        let fees = self.spends.finish();
        assert_eq!(noted, fees.clone().map(|_| ()));
        fees
    }
}

fn context(network: &Network) -> BlockContext<'_> {
    BlockContext { network, height: HEIGHT, parent_median_time_past: 1_000_000 }
}

fn no_median(_: u32) -> i64 {
    unreachable!("asked only for relative locks in time")
}

/// Checks a block at height 200 with one transaction besides the coinbase, which spends these
/// coins.
fn spend(tx: Transaction, prevouts: &[Prevout]) -> Result<i64, RuleError> {
    let network = regtest();
    let block = checked(&[coinbase(HEIGHT), tx]);
    let mut spends = BothSpends::new(&block, context(&network));
    spends.tx(1, prevouts, no_median)
}

fn paying(amount: i64) -> Transaction {
    transaction(vec![input(outpoint(1))], vec![output(amount)])
}

#[test]
fn coinbases_mature() {
    for (height, is_coinbase, expected) in [
        (100, true, "ok"),
        (101, true, "bad-txns-premature-spend-of-coinbase"),
        (101, false, "ok"),
        (200, true, "bad-txns-premature-spend-of-coinbase"),
    ] {
        let prevout = Prevout { height, is_coinbase, ..prevout(1000) };
        assert_eq!(verdict(spend(spending(1), &[prevout])), expected);
    }
    let prevout = Prevout { height: 101, is_coinbase: true, ..prevout(1000) };
    let block = checked(&[coinbase(HEIGHT), spending(1)]);
    assert_eq!(
        spend(spending(1), &[prevout]).unwrap_err().to_string(),
        format!(
            "bad-txns-premature-spend-of-coinbase, tried to spend coinbase at depth 99 \
             in transaction {}",
            block.txids()[1]
        )
    );
}

#[test]
fn amounts() {
    assert_eq!(spend(spending(1), &[prevout(1234)]), Ok(234));
    assert_eq!(spend(paying(0), &[prevout(MONEY_MAX)]), Ok(MONEY_MAX));
    for amount in [-1, MONEY_MAX + 1, i64::MIN, i64::MAX] {
        let error = spend(spending(1), &[prevout(amount)]).unwrap_err();
        assert_eq!(error.reason, "bad-txns-inputvalues-outofrange");
    }
    let mut two = spending(1);
    two.input.push(input(outpoint(2)));
    let total = [prevout(MONEY_MAX), prevout(1)];
    assert_eq!(verdict(spend(two, &total)), "bad-txns-inputvalues-outofrange");
    let error = spend(paying(150_000_000), &[prevout(123_456_000)]).unwrap_err();
    assert_eq!(error.reason, "bad-txns-in-belowout");
    assert!(error.debug.starts_with("value in (1.23456) < value out (1.50) in transaction "));
    assert_eq!(
        spend(paying(1000), &[prevout(999)]).unwrap_err().debug.split(" in t").next(),
        Some("value in (0.00000999) < value out (0.00001)")
    );
}

#[test]
fn fees_accumulate_up_to_all_the_money() {
    let network = regtest();
    let block = checked(&[coinbase(HEIGHT), paying(0), spending(2)]);
    let mut spends = BothSpends::new(&block, context(&network));
    spends.tx(1, &[prevout(MONEY_MAX)], no_median).unwrap();
    let second = spends.tx(2, &[prevout(1001)], no_median);
    assert_eq!(verdict(second), "bad-txns-accumulated-fee-outofrange");
}

#[test]
fn a_coinbase_claims_subsidy_and_fees_at_most() {
    let network = regtest(); // halves every 150 blocks
    for (claim, expected) in
        [(25 * COIN, "ok"), (25 * COIN + 234, "ok"), (25 * COIN + 235, "bad-cb-amount")]
    {
        let mut coinbase = coinbase(HEIGHT);
        coinbase.output = vec![output(claim - 1), output(1)];
        let block = checked(&[coinbase, spending(1)]);
        let mut spends = BothSpends::new(&block, context(&network));
        spends.tx(1, &[prevout(1234)], no_median).unwrap();
        let result = spends.finish();
        if let Ok(fees) = result {
            assert_eq!(fees, 234);
        }
        assert_eq!(verdict(result), expected);
    }
}

#[test]
fn subsidies() {
    let network = Network::new(Chain::Main);
    let mut total = 0;
    for halving in 0..70 {
        let subsidy = subsidy(halving * 210_000, &network);
        assert_eq!(subsidy, if halving < 64 { (50 * COIN) >> halving } else { 0 });
        assert_eq!(subsidy, super::subsidy(halving * 210_000 + 209_999, &network));
        total += subsidy * 210_000;
    }
    assert_eq!(total, 2_099_999_997_690_000);
}

/// Returns whether a transaction of `version` with these sequence numbers may spend coins of these
/// heights in block 200, whose parent's median time past is 1,000,000; that of block n is 1,000 n.
fn relative_locks(version: i32, inputs: &[(u32, u32)]) -> String {
    let network = regtest();
    let before = Network { csv_height: HEIGHT + 1, ..regtest() };
    let mut tx = transaction(vec![], vec![output(0)]);
    tx.version = bitcoin::transaction::Version(version);
    let mut prevouts = Vec::new();
    for (index, (sequence, height)) in inputs.iter().enumerate() {
        let mut input = input(outpoint(index as u32));
        input.sequence = Sequence(*sequence);
        tx.input.push(input);
        prevouts.push(Prevout { height: *height, ..prevout(0) });
    }
    let block = checked(&[coinbase(HEIGHT), tx]);
    let mut spends = BothSpends::new(&block, context(&before));
    spends.tx(1, &prevouts, no_median).unwrap();
    let mut spends = BothSpends::new(&block, context(&network));
    verdict(spends.tx(1, &prevouts, |height| i64::from(height) * 1000))
}

#[test]
fn relative_locks_in_blocks_and_time() {
    const DISABLE: u32 = 1 << 31;
    const TIME: u32 = 1 << 22;
    let bad = "bad-txns-nonfinal";
    for (sequence, height, expected) in [
        (0, 200, "ok"),
        (1, 200, bad),
        (1, 199, "ok"),
        (10, 190, "ok"),
        (10, 191, bad),
        (0xffff, 1, bad),
        (0xffff | DISABLE, 1, "ok"),
        (0xffff_ffff, 200, "ok"),
        (0xff00_0000 & !DISABLE, 200, "ok"),
        // The time is counted from the median time past of the block before the one with the coin.
        (TIME, 0, "ok"),
        (TIME | 1, 1, "ok"),
        (TIME | 1953, 1, "ok"),
        (TIME | 1954, 1, bad),
        (TIME | 1566, 199, "ok"),
        (TIME | 1566, 200, bad),
        (TIME | DISABLE | 0xffff, 199, "ok"),
    ] {
        assert_eq!(relative_locks(2, &[(sequence, height)]), expected, "{sequence:x} {height}");
        assert_eq!(relative_locks(1, &[(sequence, height)]), "ok");
        assert_eq!(relative_locks(-1, &[(sequence, height)]), expected, "versions are unsigned");
        let both = [(u32::MAX, 200), (sequence, height)];
        assert_eq!(relative_locks(3, &both), expected);
    }
}

/// The cost of an input with this scriptSig and witness that spends a coin with this script.
fn cost(script: &[u8], script_sig: &[u8], witness: &[&[u8]], flags: u32) -> u32 {
    let mut tx = spending(1);
    tx.input[0].script_sig = ScriptBuf::from(script_sig.to_vec());
    tx.input[0].witness = Witness::from_slice(witness);
    let block = checked(&[coinbase(HEIGHT), tx]);
    let input = block.view().tx(1).input(0);
    let cost = input_sigop_cost(&input, script, flags);
    let spent_as = SpentAs::by(script);
    assert_eq!(SigopCosts::of(&input, flags).cost(spent_as, flags), cost);
    assert_eq!(SigopCosts::of_spent_as(&input, spent_as, flags).cost(spent_as, flags), cost);
    cost
}

#[test]
fn sigops_of_hashed_scripts() {
    let all = flags::P2SH | flags::WITNESS;
    let p2sh = [&[0xa9, 20][..], &[9; 20], &[0x87]].concat();
    let p2wpkh = [&[0, 20][..], &[9; 20]].concat();
    let p2wsh = [&[0, 32][..], &[9; 32]].concat();
    let taproot = [&[0x51, 32][..], &[9; 32]].concat();
    let two_of_three = [0x52, 0x53, 0xae, 0xac];
    let push = |data: &[u8]| [&[data.len() as u8][..], data].concat();
    let redeem = push(&two_of_three);

    assert_eq!(cost(&p2sh, &redeem, &[], all), 16);
    assert_eq!(cost(&p2sh, &[&[0x00, 0x51][..], &redeem].concat(), &[], all), 16);
    assert_eq!(cost(&p2sh, &redeem, &[], 0), 0);
    assert_eq!(cost(&p2sh, &[&redeem[..], &[0x51]].concat(), &[], all), 0);
    assert_eq!(cost(&p2sh, &[&redeem[..], &[0x61]].concat(), &[], all), 0, "not only pushes");
    assert_eq!(cost(&p2sh, &[&redeem[..], &[5, 1]].concat(), &[], all), 0, "ends in a push");
    assert_eq!(cost(&p2sh, &[], &[], all), 0);
    assert_eq!(cost(&p2sh, &push(&[0x00, 0xae, 0x61, 0xaf]), &[], all), 160);
    assert_eq!(cost(&[0xac], &redeem, &[], all), 0, "legacy ones are counted elsewhere");

    assert_eq!(cost(&p2wpkh, &[], &[&[1], &[2]], all), 1);
    assert_eq!(cost(&p2wpkh, &[], &[], all), 1);
    assert_eq!(cost(&p2wpkh, &[], &[], flags::P2SH), 0);
    assert_eq!(cost(&p2wsh, &[], &[&[1], &two_of_three], all), 4);
    assert_eq!(cost(&p2wsh, &[], &[], all), 0);
    assert_eq!(cost(&taproot, &[], &[&two_of_three], all), 0);
    assert_eq!(cost(&p2sh, &push(&p2wpkh), &[&[1]], all), 1);
    assert_eq!(cost(&p2sh, &push(&p2wsh), &[&two_of_three], all), 4);
    assert_eq!(cost(&p2sh, &push(&p2wsh), &[&two_of_three], flags::P2SH), 0);
    assert_eq!(cost(&p2sh, &[&[0x61][..], &push(&p2wsh)].concat(), &[&two_of_three], all), 0);
}

#[test]
fn sigops_of_a_block_have_a_limit() {
    let network = regtest();
    let p2sh = [&[0xa9, 20][..], &[9; 20], &[0x87]].concat();
    // There are 19,990 legacy operations, and 10 or 11 in hashed scripts.
    for (redeem, expected) in [(vec![0xac; 10], "ok"), (vec![0xac; 11], "bad-blk-sigops")] {
        let mut legacy = spending(1);
        legacy.output[0].script_pubkey = ScriptBuf::from(vec![0xac; 19_990]);
        let mut hashed = spending(2);
        hashed.input[0].script_sig = ScriptBuf::from([&[redeem.len() as u8][..], &redeem].concat());
        let block = checked(&[coinbase(HEIGHT), legacy, hashed]);
        let mut spends = BothSpends::new(&block, context(&network));
        spends.tx(1, &[prevout(1000)], no_median).unwrap();
        let prevout = Prevout { script: &p2sh, ..prevout(1000) };
        assert_eq!(verdict(spends.tx(2, &[prevout], no_median)), expected);
    }
}

#[test]
fn bip30() {
    let repeat: Hash =
        "00000000000a4d0a398161ffc163c503763b1f4360639393e0e4c8e300e0caec".parse().unwrap();
    let unspendable: Hash =
        "00000000000271a2dc26e7667f8419f2e15416dc6955e5a6c6cdf3f2574dd08e".parse().unwrap();
    let check = |height, hash, bip34_ancestor_matches| {
        bip30_check(&Network::new(Chain::Main), height, &hash, bip34_ancestor_matches)
    };
    assert_eq!(check(91_841, repeat, false), Bip30Check::LookUp);
    assert_eq!(check(91_842, repeat, false), Bip30Check::Exempt);
    assert_eq!(check(91_842, hash(1), false), Bip30Check::LookUp);
    assert_eq!(check(300_000, hash(1), true), Bip30Check::Exempt);
    assert_eq!(check(300_000, hash(1), false), Bip30Check::LookUp);
    assert_eq!(check(1_983_701, hash(1), true), Bip30Check::Exempt);
    assert_eq!(check(1_983_702, hash(1), true), Bip30Check::LookUp);
    assert_eq!(bip30_check(&regtest(), 300, &hash(1), false), Bip30Check::Implied);
    assert_eq!(bip30_check(&regtest(), 1_983_702, &hash(1), false), Bip30Check::LookUp);
    let hash_at = |height| (height == 91_722).then_some(unspendable);
    let between = [91_721, 91_722, 91_879, 91_880].map(|at| bip30_overwritten_after(at, hash_at));
    assert_eq!(between, [None, Some((91_722, 91_880)), Some((91_722, 91_880)), None]);
    assert_eq!(bip30_overwritten_after(91_730, |_| Some(repeat)), None);
    assert!(is_bip30_repeat(91_842, &repeat) && !is_bip30_repeat(91_880, &repeat));
    assert!(is_bip30_unspendable(91_722, &unspendable));
    assert!(!is_bip30_unspendable(91_812, &unspendable) && !is_bip30_unspendable(91_722, &repeat));
    assert_eq!(RuleError::bip30().to_string(), "bad-txns-BIP30, tried to overwrite transaction");
    let missing = RuleError::missing_or_spent(&hash(1), &apus_wire::OutPoint::default());
    assert_eq!(missing.reason, "bad-txns-inputs-missingorspent");
    assert!(missing.condemns_hash());
}

#[test]
fn script_flags_by_height() {
    let network = Network::new(Chain::Main);
    let always = flags::P2SH | flags::WITNESS | flags::TAPROOT;
    let dersig = flags::DERSIG;
    let cltv = flags::CHECKLOCKTIMEVERIFY;
    let csv = flags::CHECKSEQUENCEVERIFY;
    let nulldummy = flags::NULLDUMMY;
    for (height, expected) in [
        (1, always),
        (363_724, always),
        (363_725, always | dersig),
        (388_381, always | dersig | cltv),
        (419_328, always | dersig | cltv | csv),
        (481_824, always | dersig | cltv | csv | nulldummy),
    ] {
        assert_eq!(script_flags(&network, height, &hash(1)), expected);
    }
    let bip16 = Hash::from_hex("00000000000002dc756eebf4f49723ed8d30cc28a5f108eb94b1ba88ac4f9c22");
    assert_eq!(script_flags(&network, 170_060, &bip16), 0);
    let taproot =
        Hash::from_hex("0000000000000000000f14c35b2d841e986ab5441de8c585d5ffe55ea1e395ad");
    assert_eq!(
        script_flags(&network, 692_261, &taproot),
        flags::P2SH | flags::WITNESS | dersig | cltv | csv | nulldummy
    );
}

#[test]
fn scripts_fail_with_cores_reason() {
    let mut tx = spending(1);
    tx.input.push(input(outpoint(2)));
    let block = checked(&[coinbase(HEIGHT), tx]);
    let view = block.view().tx(1);
    let flags = flags::P2SH | flags::WITNESS | flags::TAPROOT;
    let good = prevout(1);
    let bad = Prevout { script: &[0x00], ..prevout(1) };
    assert_eq!(check_tx_scripts(&view, &[good, good], flags), Ok(()));
    let error = check_tx_scripts(&view, &[good, bad], flags).unwrap_err();
    let txid = block.txids()[1];
    assert_eq!(
        error.to_string(),
        format!(
            "block-script-verify-flag-failed, input 1 of {txid} (wtxid {txid}), spending {}",
            view.input(1).outpoint()
        )
    );
    let prevouts = [bad, good];
    let scripts = TxScripts::new(&view, &prevouts, flags).unwrap();
    assert_eq!(scripts.input_count(), 2);
    assert!(scripts.check_input(0).is_err() && scripts.check_input(1).is_ok());
    fn shared<T: Send + Sync>(_: &T) {}
    shared(&scripts);
}
