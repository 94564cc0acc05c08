use apus_testdata::{Random, blocks_of, data};
use apus_wire::{BlockView, Cursor, ParseError, put_compact_size};

use super::coin;
use crate::{Coin, SpentCoinsReader, put_spent_coins};

const NO_LIMIT: usize = usize::MAX;

/// Returns a block of mainnet that spends coins, undo data with made-up coins for it, and these.
fn spending_block() -> (BlockView<Vec<u8>>, Vec<u8>, Vec<Coin>) {
    let blocks = blocks_of(&data("mainnet-0-14131.dat"));
    let views = blocks.into_iter().map(|block| BlockView::parse(block.to_vec()).unwrap());
    let block = views.max_by_key(BlockView::input_count).unwrap();
    let mut undo = Vec::new();
    let mut coins = Vec::new();
    put_compact_size(&mut undo, block.tx_count() as u64 - 1);
    for tx in block.txs().skip(1) {
        put_compact_size(&mut undo, tx.input_count() as u64);
        for _ in tx.inputs() {
            let coin = Coin { height: coins.len() as u32 + 1, ..coin(coins.len() as u64) };
            coin.encode_undo(&mut undo);
            coins.push(coin);
        }
    }
    assert!(coins.len() > 5, "{}", coins.len());
    (block, undo, coins)
}

fn sent(undo: &[u8], cutoff: u32) -> Vec<u8> {
    let mut out = Vec::new();
    assert_eq!(put_spent_coins(undo, cutoff, NO_LIMIT, &mut out), Ok(true));
    out
}

/// The undo data of a block of which a peer has sent the coins of all inputs.
fn undo_of(coins: &[u8], block: &BlockView<Vec<u8>>) -> Result<Vec<u8>, ParseError> {
    let mut reader = SpentCoinsReader::new(coins, 0)?;
    let mut undo = Vec::new();
    let mut index = 0;
    put_compact_size(&mut undo, block.tx_count() as u64 - 1);
    for tx in block.txs().skip(1) {
        put_compact_size(&mut undo, tx.input_count() as u64);
        for _ in tx.inputs() {
            reader.coin_of(index)?.encode_undo(&mut undo);
            index += 1;
        }
    }
    reader.finish()?;
    Ok(undo)
}

#[test]
fn undo_data_comes_back_byte_for_byte() {
    let (block, undo, _) = spending_block();
    assert_eq!(undo_of(&sent(&undo, 0), &block), Ok(undo));
}

#[test]
fn a_cutoff_leaves_out_the_coins_from_its_height_on() {
    let (block, undo, coins) = spending_block();
    let cutoff = 4;
    let sent = sent(&undo, cutoff);
    let mut cursor = Cursor::new(&sent);
    let old: Vec<usize> = (0..coins.len()).filter(|at| coins[*at].height < cutoff).collect();
    assert_eq!(cursor.compact_size(), Ok(old.len()));
    assert!(!old.is_empty() && old.len() < coins.len());
    let first = &coins[old[0]];
    assert_eq!(cursor.u32(), Ok(old[0] as u32));
    assert_eq!(cursor.u32(), Ok(first.height << 1 | u32::from(first.is_coinbase)));
    let fault = undo_of(&sent, &block).unwrap_err();
    assert!(fault.what.contains("missing"), "{fault}");
    let read = |cutoff| {
        let mut reader = SpentCoinsReader::new(&sent, cutoff).unwrap();
        let read: Result<Vec<Coin>, ParseError> =
            old.iter().map(|at| reader.coin_of(*at as u32)).collect();
        read.and_then(|coins| reader.finish().map(|()| coins))
    };
    let expected: Vec<Coin> = old.iter().map(|at| coins[*at].clone()).collect();
    assert_eq!(read(cutoff), Ok(expected));
    assert_eq!(read(cutoff - 1).unwrap_err().what, "a coin that was not asked for");
}

#[test]
fn an_answer_over_the_limit_is_not_made() {
    let (_, undo, _) = spending_block();
    let len = sent(&undo, 0).len();
    let within = |bytes_max| put_spent_coins(&undo, 0, bytes_max, &mut Vec::new());
    // Room for the number of coins counts as three bytes.
    assert_eq!((within(len + 2), within(len - 1)), (Ok(true), Ok(false)));
}

/// What else than the coins of all inputs in order is refused.
#[test]
fn wrong_answers_are_refused() {
    let (block, undo, coins) = spending_block();
    let good = sent(&undo, 0);
    let refused = |bytes: &[u8]| undo_of(bytes, &block).expect_err("it is wrong").what;
    for len in 0..good.len() {
        refused(&good[..len]);
    }
    assert_eq!(refused(&[&good[..], &[0]].concat()), "bytes follow after the last coin");
    let with = |at: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let out_of_order = "a coin is missing, repeated or out of order";
    assert_eq!(refused(&with(1, &[1, 0, 0, 0])), out_of_order);
    assert_eq!(refused(&with(5, &[1, 0, 0, 0])), "a coin of height 0, which creates none");
    assert_eq!(refused(&with(9, &[9])), "a script of an unknown form");
    let more = with(0, &[coins.len() as u8 + 1]);
    assert_eq!(refused(&more), "there are more coins than were asked for");
    assert_eq!(refused(&with(0, &[coins.len() as u8 - 1])), "the last coins are missing");
    assert!(refused(&[&[0xfd, good[0], 0][..], &good[1..]].concat()).contains("shortest form"));
    // Of an amount, of which each byte string is one coin's at most.
    let head = [&good[..1], &[0, 0, 0, 0, 2, 0, 0, 0, 0, 0]].concat();
    let amount = |bytes: &[u8]| refused(&[&head[..], bytes].concat());
    assert!(amount(&[0xfd, 1, 0]).contains("shortest form"));
    assert!(amount(&[0xff; 9]).contains("64 bits"));
    let long = [&head[..10], &[0xfe, 0x11, 0x27, 0, 0]].concat();
    assert!(refused(&[&head[..10], &[0xfd, 0x11, 0x27]].concat()).contains("10,000 bytes"));
    assert!(refused(&long).contains("shortest form"));
    // Whatever is sent, nothing panics, and what is taken is undo data of this block.
    let mut random = Random(5);
    for _ in 0..2_000 {
        let mut changed = good.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(changed.len());
            changed[at] = random.next() as u8;
        }
        if let Ok(back) = undo_of(&changed, &block) {
            assert_eq!(undo_of(&sent(&back, 0), &block), Ok(back));
        }
    }
}

#[test]
fn undo_data_without_heights_is_not_sent() {
    let mut undo = vec![1, 1];
    Coin { height: 0, ..coin(1) }.encode_undo(&mut undo);
    let fault = put_spent_coins(&undo, 0, NO_LIMIT, &mut Vec::new()).unwrap_err();
    assert_eq!(fault.what, "the height of a coin is missing");
}
