//! Valid spends with one byte changed, or with one element added, removed or moved.

use std::thread;

use apus_testdata::Random;
use bitcoin::absolute::LockTime;
use bitcoin::{Amount, ScriptBuf, Transaction, Witness};

use super::build::Spend;
use super::{ALL, families, judge, rounds};

/// The largest number of positions in one field whose byte is changed; shorter fields have all
/// changed.
const POSITIONS_MAX: usize = 64;

/// The verdicts on the changed spends.
#[derive(Default, Debug)]
struct Counts {
    changed: usize,
    fast: usize,
    engine: usize,
}

impl Counts {
    fn judge(&mut self, spends: &[Spend]) {
        for judged in judge(spends, ALL) {
            self.changed += 1;
            self.fast += usize::from(judged.is_fast());
            self.engine += usize::from(judged.engine);
        }
    }
}

/// Returns copies of a field, each with one bit of another byte flipped.
fn flipped(field: &[u8], random: &mut Random) -> Vec<Vec<u8>> {
    let len = field.len();
    let positions = len.min(rounds(POSITIONS_MAX));
    (0..positions)
        .map(|i| {
            let at = if positions == len { i } else { random.below(len) };
            let mut field = field.to_vec();
            field[at] ^= 1 << random.below(8);
            field
        })
        .collect()
}

/// All changes to the witness.
fn witnesses(spend: &Spend, random: &mut Random) -> Vec<Vec<Vec<u8>>> {
    let items = spend.items();
    let mut found = Vec::new();
    let replaced = |at: usize, item: Vec<u8>| {
        let mut items = items.clone();
        items[at] = item;
        items
    };
    for at in 0..items.len() {
        found.extend(flipped(&items[at], random).into_iter().map(|item| replaced(at, item)));
        found.push(replaced(at, Vec::new()));
        found.push(replaced(at, [&items[at][..], &[0]].concat()));
        found.push(replaced(at, items[at][..items[at].len().saturating_sub(1)].to_vec()));
        let mut less = items.clone();
        let mut twice = items.clone();
        let mut turned = items.clone();
        less.remove(at);
        twice.insert(at, items[at].clone());
        turned.swap(0, at);
        found.extend([less, twice, turned]);
    }
    for extra in [vec![], vec![1], vec![0x50]] {
        found.push([&[extra.clone()][..], &items].concat());
        found.push([&items[..], &[extra]].concat());
    }
    found
}

/// All changes to the transaction, except to scriptSig and witness.
fn transactions(spend: &Spend, random: &mut Random) -> Vec<Transaction> {
    let bit = 1_u32 << random.below(32);
    let changed = |change: &dyn Fn(&mut Transaction)| {
        let mut tx = spend.tx.clone();
        change(&mut tx);
        tx
    };
    vec![
        changed(&|tx| tx.version.0 ^= 1 << random_bit(bit)),
        changed(&|tx| {
            tx.lock_time = LockTime::from_consensus(spend.tx.lock_time.to_consensus_u32() ^ bit)
        }),
        changed(&|tx| tx.lock_time = LockTime::ZERO),
        changed(&|tx| tx.input[0].sequence.0 ^= bit),
        changed(&|tx| tx.input[0].sequence.0 = u32::MAX),
        changed(&|tx| tx.input[0].sequence.0 = tx.input[0].sequence.0.wrapping_sub(1)),
        changed(&|tx| tx.input[0].previous_output.vout ^= bit),
        changed(&|tx| tx.output.iter_mut().take(1).for_each(|o| o.value = Amount::from_sat(901))),
        changed(&|tx| {
            tx.output
                .iter_mut()
                .take(1)
                .for_each(|o| o.script_pubkey = ScriptBuf::from(vec![0x52]));
        }),
        changed(&|tx| tx.output.extend(tx.output.first().cloned())),
        changed(&|tx| tx.output.clear()),
        changed(&|tx| tx.input.push(tx.input[0].clone())),
    ]
}

/// Returns the index of the bit that is set.
fn random_bit(bit: u32) -> u32 {
    bit.trailing_zeros().min(30)
}

fn all_changes(spend: &Spend, random: &mut Random) -> Vec<Spend> {
    let mut found = Vec::new();
    for items in witnesses(spend, random) {
        let mut spend = spend.clone();
        spend.tx.input[0].witness = Witness::from_slice(&items);
        found.push(spend);
    }
    let script_sig = spend.tx.input[0].script_sig.to_bytes();
    let mut scripts = flipped(&script_sig, random);
    scripts.extend([0, 1, 0x51, 0x61].map(|code| [&[code], &script_sig[..]].concat()));
    scripts.extend([0, 1, 0x51, 0x61].map(|code| [&script_sig[..], &[code]].concat()));
    scripts.push(Vec::new());
    found.extend(scripts.into_iter().map(|script| spend.clone().script_sig(script)));
    for script in flipped(spend.spent[0].script_pubkey.as_bytes(), random) {
        let mut spend = spend.clone();
        spend.spent[0].script_pubkey = ScriptBuf::from(script);
        found.push(spend);
    }
    for bit in 0..8 {
        let mut spend = spend.clone();
        spend.spent[0].value = Amount::from_sat(spend.spent[0].value.to_sat() ^ (1 << (7 * bit)));
        found.push(spend);
    }
    for tx in transactions(spend, random) {
        let mut spent = spend.spent.clone();
        spent.resize(tx.input.len(), spent[0].clone());
        found.push(Spend { tx, spent });
    }
    found
}

#[test]
fn no_change_is_valid_against_the_engine() {
    let families = families::all();
    let judge_share = |first: usize| {
        let mut random = Random((first + rounds(1)) as u64);
        let mut counts = Counts::default();
        for (_, input) in families.iter().skip(first).step_by(4) {
            let spend = Spend::new(std::slice::from_ref(input));
            counts.judge(&all_changes(&spend, &mut random));
        }
        counts
    };
    let counts = thread::scope(|scope| {
        let judge_share = &judge_share;
        let shares = [0, 1, 2, 3].map(|first| scope.spawn(move || judge_share(first)));
        shares.map(|share| share.join().unwrap())
    });
    println!("{counts:?}");
    let sum = |count: fn(&Counts) -> usize| counts.iter().map(count).sum::<usize>();
    let [changed, fast, engine] = [sum(|c| c.changed), sum(|c| c.fast), sum(|c| c.engine)];
    assert!(changed > 20_000 && changed > 8 * engine, "{counts:?}");
    // The fast engine decides most of what the engine still accepts, too.
    assert!(engine > 1_000 && fast * 2 > engine, "{fast} of {engine}");
}

/// Two changes at once, where the second may undo what the first one breaks.
#[test]
fn no_two_changes_are_valid_against_the_engine() {
    let mut random = Random(77 + rounds(1) as u64);
    let mut counts = Counts::default();
    let families = families::all();
    for _ in 0..rounds(60) {
        let (_, input) = &families[random.below(families.len())];
        let spend = Spend::new(std::slice::from_ref(input));
        let mut once = all_changes(&spend, &mut random);
        let first = once.swap_remove(random.below(once.len()));
        if first.tx.input[0].witness.is_empty() && first.tx.input[0].script_sig.is_empty() {
            continue;
        }
        let mut twice = all_changes(&first, &mut random);
        twice.retain(|spend| !spend.tx.input.is_empty());
        let few: Vec<Spend> = (0..40).map(|_| twice[random.below(twice.len())].clone()).collect();
        counts.judge(&few);
    }
    println!("{counts:?}");
    assert!(counts.changed > 1_000 && counts.engine < counts.changed);
}
