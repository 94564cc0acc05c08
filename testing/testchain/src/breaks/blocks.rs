//! Rules about the header, the block as a whole, its coinbase, and transactions by themselves.

use bitcoin::block::{Block, Version};
use bitcoin::hashes::Hash;
use bitcoin::transaction::{OutPoint, TxIn};
use bitcoin::{Amount, BlockHash, CompactTarget, ScriptBuf, TxMerkleNode, Witness};

use super::site::{OP_TRUE, Site};
use super::{Break, Case};
use crate::block::{coinbase_script, commit, mine};
use crate::builder::{Builder, remerkle};
use crate::lock::Kind;
use crate::opcodes::{OP_1, OP_RETURN};
use crate::payment::Payment;

/// Core's `MAX_MONEY`, in satoshis.
const MONEY_MAX: u64 = 2_100_000_000_000_000;

pub fn case(site: &Site<'_>, rule: Break) -> Option<Case> {
    header(site, rule)
        .or_else(|| whole(site, rule))
        .or_else(|| coinbase(site, rule))
        .or_else(|| transaction(site, rule))
        .or_else(|| witness(site, rule))
}

fn header(site: &Site<'_>, rule: Break) -> Option<Case> {
    let sound = site.block(site.ordinary());
    let mut broken = sound.clone();
    let header = &mut broken.header;
    match rule {
        Break::HighHash => {
            mine(header, false);
            return Some(Case { sound, broken });
        }
        Break::BadDiffbits => header.bits = CompactTarget::from_consensus(0x207f_fffe),
        Break::TimeTooOld => header.time = site.median_time_past,
        Break::TimeTooNew => header.time = u32::MAX,
        Break::BadVersion1 => header.version = Version::from_consensus(1),
        Break::BadVersion2 => header.version = Version::from_consensus(2),
        Break::BadVersion3 => header.version = Version::from_consensus(3),
        Break::BadVersionNegative => header.version = Version::from_consensus(i32::MIN),
        Break::PrevBlkNotFound => header.prev_blockhash = BlockHash::from_byte_array([7; 32]),
        Break::BadTxnmrklroot => header.merkle_root = TxMerkleNode::from_byte_array([7; 32]),
        _ => return None,
    }
    mine(header, true);
    Some(Case { sound, broken })
}

fn whole(site: &Site<'_>, rule: Break) -> Option<Case> {
    let sound = site.block(site.ordinary());
    let mut broken = sound.clone();
    match rule {
        // With three transactions, the merkle tree itself repeats the third.
        Break::BadTxnsDuplicate => broken.txdata.extend(sound.txdata.last().cloned()),
        Break::BadBlkLengthEmpty => {
            broken.txdata.clear();
            remerkle(&mut broken);
        }
        Break::BadCbMissing => {
            broken.txdata.remove(0);
            remerkle(&mut broken);
        }
        Break::BadBlkLength => {
            // Without witnesses, the limit on weight is the same limit.
            let txs = || site.builder().without_commitment().tx(site.pay(Kind::P2pkh));
            return Some(padded(site, txs, |block| block.total_size(), 1_000_000));
        }
        Break::BadBlkWeight => {
            let kinds = [Kind::P2wpkh, Kind::P2wshMultisig, Kind::P2trScript];
            let txs = || site.builder().txs(kinds.map(|kind| site.pay(kind)));
            return Some(padded(site, txs, |block| block.weight().to_wu() as usize, 4_000_000));
        }
        _ => return None,
    }
    Some(Case { sound, broken })
}

/// Returns a block that a longer output script takes as close to `limit` as possible, and one with
/// a byte more.
fn padded(
    site: &Site<'_>,
    txs: impl Fn() -> Builder,
    measure: fn(&Block) -> usize,
    limit: usize,
) -> Case {
    let coin = site.coin(Kind::OpTrue);
    let block = |len| {
        let outputs = [(coin.amount, OP_TRUE.to_vec()), (0, vec![OP_RETURN; len])];
        txs().tx(Payment::new(&[coin], outputs).to_transaction(site.keys())).finish()
    };
    let start = 1 << 16;
    let step = 1 << 17;
    let per_byte = (measure(&block(step)) - measure(&block(start))) / (step - start);
    let len = start + (limit - measure(&block(start))) / per_byte;
    Case { sound: block(len), broken: block(len + 1) }
}

fn coinbase(site: &Site<'_>, rule: Break) -> Option<Case> {
    let height = site.height;
    let script = match rule {
        Break::BadCbMultiple => {
            return Some(site.sealed(|block| {
                let mut second = block.txdata[0].clone();
                second.input[0].script_sig = coinbase_script(height, &[7; 7]);
                block.txdata.push(second);
            }));
        }
        Break::BadCbLengthShort => vec![OP_1],
        Break::BadCbLengthLong => {
            let mut script = coinbase_script(height, &[]).into_bytes();
            script.resize(101, 0);
            script
        }
        Break::BadCbHeight => coinbase_script(height + 1, &[7; 4]).into_bytes(),
        Break::BadCbHeightNotMinimal => [&[4][..], &height.to_le_bytes()].concat(),
        _ => return None,
    };
    let change = |block: &mut Block| {
        block.txdata[0].input[0].script_sig = ScriptBuf::from(script);
    };
    Some(site.sealed(change))
}

fn transaction(site: &Site<'_>, rule: Break) -> Option<Case> {
    let sound = site.pay(Kind::P2pkh);
    let mut tx = sound.clone();
    match rule {
        Break::BadTxnsVinEmpty => {
            tx.input.clear();
            tx.output.clear();
        }
        Break::BadTxnsVoutEmpty => tx.output.clear(),
        Break::BadTxnsVoutNegative => tx.output[0].value = Amount::from_sat(u64::MAX),
        Break::BadTxnsVoutToolarge => tx.output[0].value = Amount::from_sat(MONEY_MAX + 1),
        Break::BadTxnsTxouttotalToolarge => {
            tx.output[0].value = Amount::from_sat(MONEY_MAX);
            let mut second = tx.output[0].clone();
            second.value = Amount::from_sat(1);
            tx.output.push(second);
        }
        Break::BadTxnsInputsDuplicate => tx.input.push(tx.input[0].clone()),
        Break::BadTxnsPrevoutNull => {
            tx.input.push(TxIn { previous_output: OutPoint::null(), ..tx.input[0].clone() });
        }
        _ => return None,
    }
    Some(site.case([sound], [tx]))
}

fn witness(site: &Site<'_>, rule: Break) -> Option<Case> {
    let sound = site.block(site.ordinary());
    let mut broken = sound.clone();
    let coinbase = &mut broken.txdata[0];
    let reserved = &mut coinbase.input[0].witness;
    match rule {
        Break::BadWitnessNonceSize => *reserved = Witness::from_slice(&[[0; 31]]),
        Break::BadWitnessNonceMissing => *reserved = Witness::new(),
        Break::BadWitnessNonceTwo => *reserved = Witness::from_slice(&[[0; 32]; 2]),
        Break::BadWitnessMerkleMatch => *reserved = Witness::from_slice(&[[1; 32]]),
        Break::BadWitnessMerkleMatchTx => broken.txdata[1].input[0].witness.push([1]),
        Break::BadWitnessMerkleMatchLast => {
            commit(coinbase, [7; 32]);
            remerkle(&mut broken);
        }
        Break::UnexpectedWitness => {
            *reserved = Witness::new();
            coinbase.output.pop();
            remerkle(&mut broken);
        }
        Break::UnexpectedWitnessCoinbase => {
            let sound = site.builder().without_commitment().tx(site.pay(Kind::P2pkh)).finish();
            let mut broken = sound.clone();
            broken.txdata[0].input[0].witness = Witness::from_slice(&[[0; 32]]);
            return Some(Case { sound, broken });
        }
        _ => return None,
    }
    Some(Case { sound, broken })
}
