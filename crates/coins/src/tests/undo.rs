use apus_testdata::{blocks_of, data};
use apus_wire::{BlockView, put_compact_size};

use super::coin;
use crate::{BlockUndo, Coin, Heights, UndoError, for_each_spending_tx};

/// Returns the undo data of a block whose transactions have these numbers of inputs, and its coins.
fn undo_of(inputs: &[usize]) -> (Vec<u8>, Vec<Vec<Coin>>) {
    let mut undo = Vec::new();
    let mut seed = 0;
    put_compact_size(&mut undo, inputs.len() as u64);
    let mut txs = Vec::new();
    for count in inputs {
        put_compact_size(&mut undo, *count as u64);
        let coins: Vec<Coin> = (seed..seed + *count as u64).map(coin).collect();
        coins.iter().for_each(|coin| coin.encode_undo(&mut undo));
        seed += *count as u64;
        txs.push(coins);
    }
    (undo, txs)
}

fn read(undo: &[u8], inputs: &[usize]) -> Result<Vec<Vec<Coin>>, &'static str> {
    let read = || {
        let mut reader = BlockUndo::new(undo, inputs.len() + 1)?;
        let mut txs = Vec::new();
        for count in inputs {
            let mut coins = Vec::new();
            reader.next_tx(*count, |coin| coins.push(coin))?;
            txs.push(coins);
        }
        reader.finish().map(|()| txs)
    };
    read().map_err(|error: apus_wire::ParseError| error.what)
}

#[test]
fn coins_come_back_transaction_by_transaction() {
    for inputs in [&[][..], &[1], &[3, 1, 7], &[300, 2]] {
        let (undo, txs) = undo_of(inputs);
        assert_eq!(read(&undo, inputs), Ok(txs));
    }
}

#[test]
fn data_for_another_block_is_refused() {
    let (undo, _) = undo_of(&[3, 1]);
    for (inputs, what) in [
        (&[3][..], "number of transactions does not"),
        (&[3, 1, 1], "number of transactions does not"),
        (&[], "number of transactions does not"),
        (&[2, 1], "number of inputs does not"),
        (&[3, 2], "number of inputs does not"),
    ] {
        assert!(read(&undo, inputs).unwrap_err().contains(what), "{inputs:?}");
    }
    for len in 0..undo.len() {
        assert!(read(&undo[..len], &[3, 1]).is_err(), "cut at {len}");
    }
    let longer = [&undo[..], &[0]].concat();
    assert!(read(&longer, &[3, 1]).unwrap_err().contains("bytes follow"));
    // Counts of more coins than fit in memory, without the bytes of the coins.
    for undo in [&[1, 0xfe, 0, 0, 0, 2][..], &[0xfe, 0xff, 0xff, 0xff, 1], &[0xff; 9]] {
        assert!(read(undo, &[0x0200_0000]).is_err());
    }
    let mut reader = BlockUndo::new(&undo, 3).unwrap();
    reader.next_tx(3, |_| ()).unwrap();
    assert!(reader.finish().unwrap_err().what.contains("more transactions than"));
    let mut reader = BlockUndo::new(&[0], 1).unwrap();
    assert!(reader.next_tx(0, |_| ()).unwrap_err().what.contains("no more transactions"));
}

#[test]
fn a_blocks_transactions_get_their_coins() {
    // Height 170: the first payment, which spends the coinbase of height 9.
    let block = &blocks_of(&data("mainnet-0-14131.dat"))[170];
    let block = BlockView::parse(block).unwrap();
    let spent = Coin::new(50 * 100_000_000, block.tx(0).output(0).script(), 9, true);
    let mut undo = vec![1, 1];
    spent.encode_undo(&mut undo);
    let mut seen = Vec::new();
    for_each_spending_tx(&undo, &block, Heights::Needed, |tx, coins| {
        seen.push((tx.txid(), coins.clone()));
    })
    .unwrap();
    assert_eq!(seen, [(block.tx(1).txid(), vec![spent.clone()])]);
    assert!(for_each_spending_tx(&undo[..9], &block, Heights::Needed, |_, _| ()).is_err());
    // Without its height it is a coin only for those who need none.
    let mut old = vec![1, 1];
    let spent = Coin { height: 0, is_coinbase: false, ..spent };
    spent.encode_undo(&mut old);
    let read = |heights| {
        let mut coins = Vec::new();
        for_each_spending_tx(&old, &block, heights, |_, read| coins.append(read))?;
        Ok::<_, UndoError>(coins)
    };
    assert_eq!(read(Heights::Optional).unwrap(), [spent]);
    let outpoint = block.tx(1).inputs().next().unwrap().outpoint();
    assert_eq!(read(Heights::Needed), Err(UndoError::LacksHeight(outpoint)));
}
