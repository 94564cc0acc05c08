//! The coins that a block spends, as a peer sends them.

use apus_coins::{Coin, SpentCoinsReader, put_spent_coins};
use apus_wire::{ParseError, put_compact_size};

/// Reads a byte of `data` as a cutoff, one as the number of inputs of a block's only transaction
/// besides the coinbase, and the rest as the coins that it spends.
///
/// What is accepted is the same once it is sent again, and all of it was asked for.
pub fn run(data: &[u8]) {
    let [cutoff, inputs, coins @ ..] = data else { return };
    let cutoff = u32::from(*cutoff);
    let _ = put_spent_coins(coins, cutoff, 1 << 20, &mut Vec::new());
    let inputs = u32::from(inputs % 16);
    let Ok(read) = read(coins, cutoff, inputs) else { return };
    assert!(cutoff == 0 || read.iter().all(|coin| coin.height < cutoff));
    let mut undo = vec![1];
    put_compact_size(&mut undo, u64::from(inputs));
    read.iter().for_each(|coin| coin.encode_undo(&mut undo));
    let mut sent = Vec::new();
    assert_eq!(put_spent_coins(&undo, cutoff, usize::MAX, &mut sent), Ok(true));
    assert_eq!(self::read(&sent, cutoff, inputs).expect("what was accepted is sent"), read);
}

fn read(coins: &[u8], cutoff: u32, inputs: u32) -> Result<Vec<Coin>, ParseError> {
    let mut reader = SpentCoinsReader::new(coins, cutoff)?;
    let coins = (0..inputs).map(|index| reader.coin_of(index)).collect::<Result<_, _>>()?;
    reader.finish()?;
    Ok(coins)
}
