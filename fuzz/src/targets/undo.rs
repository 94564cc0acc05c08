//! Undo data and the coins in it.

use apus_coins::{BlockUndo, Coin, CompactScript};
use apus_wire::{Cursor, ParseError, is_unspendable, put_compact_size};

/// The largest amount that compression restores exactly; there is far less money than this.
const EXACT_AMOUNT_MAX: u64 = u64::MAX / 10;

/// Reads `data` as the undo data of a block with the right shape.
///
/// [`BlockUndo`] accepts what a plain walk over the coins accepts, with the same coins, also after
/// they were written again. A block of another shape is refused.
pub fn run(data: &[u8]) {
    let _ = read(data, &[1, 2, 1]);
    let Ok((shape, len)) = shape_of(data) else { return };
    let txs = read(&data[..len], &shape).expect("its shape fits");
    assert_eq!(read(data, &shape).is_ok(), len == data.len());
    txs.iter().flatten().for_each(check_coin);
    let written = write(&txs);
    let again = read(&written, &shape).expect("what was written is read");
    let exact = txs.iter().flatten().all(|coin| coin.amount <= EXACT_AMOUNT_MAX);
    assert!(again == txs || !exact);
    for cut in [0, written.len() / 2, written.len() - 1] {
        assert!(read(&written[..cut], &shape).is_err());
    }
    let longer = [&shape[..], &[1]].concat();
    assert!(read(&written, &longer).is_err());
    if let [all @ .., last] = &shape[..] {
        assert!(read(&written, all).is_err());
        assert!(read(&written, &[all, &[last + 1]].concat()).is_err());
    }
}

/// Returns the number of inputs of each transaction in undo data, and where the undo data ends.
fn shape_of(undo: &[u8]) -> Result<(Vec<usize>, usize), ParseError> {
    let mut cursor = Cursor::new(undo);
    let mut shape = Vec::new();
    for _ in 0..cursor.compact_size()? {
        let inputs = cursor.compact_size()?;
        for _ in 0..inputs {
            Coin::decode_undo(&mut cursor)?;
        }
        shape.push(inputs);
    }
    Ok((shape, cursor.position()))
}

/// Returns the coins of undo data for a block whose transactions have this many inputs.
fn read(undo: &[u8], shape: &[usize]) -> Result<Vec<Vec<Coin>>, ParseError> {
    let mut reader = BlockUndo::new(undo, shape.len() + 1)?;
    let mut txs = Vec::new();
    for inputs in shape {
        let mut coins = Vec::new();
        reader.next_tx(*inputs, |coin| coins.push(coin))?;
        txs.push(coins);
    }
    reader.finish().map(|()| txs)
}

fn write(txs: &[Vec<Coin>]) -> Vec<u8> {
    let mut undo = Vec::new();
    put_compact_size(&mut undo, txs.len() as u64);
    for coins in txs {
        put_compact_size(&mut undo, coins.len() as u64);
        coins.iter().for_each(|coin| coin.encode_undo(&mut undo));
    }
    undo
}

/// Compares the forms of a coin and of its script with each other.
fn check_coin(coin: &Coin) {
    let mut bytes = Vec::new();
    coin.encode(&mut bytes);
    assert_eq!(bytes.len(), coin.encoded_len());
    for (encode, decode) in [
        (
            Coin::encode as fn(&Coin, &mut Vec<u8>),
            Coin::decode as fn(&mut Cursor) -> Result<Coin, ParseError>,
        ),
        (Coin::encode_undo, Coin::decode_undo),
    ] {
        let mut bytes = Vec::new();
        encode(coin, &mut bytes);
        let mut cursor = Cursor::new(&bytes);
        let again = decode(&mut cursor).expect("what was written is read");
        assert_eq!(cursor.remaining(), 0);
        assert!(again == *coin || coin.amount > EXACT_AMOUNT_MAX, "{coin:?}, {again:?}");
    }
    let script = coin.script.to_script();
    assert!(script.is_empty() || script.len() == coin.script.script_len());
    assert!(script.is_empty() || coin.script.is_unspendable() == is_unspendable(&script));
    assert_eq!(CompactScript::new(&script).to_script(), script);
}
