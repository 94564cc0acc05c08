//! The coins that a block spends, as a peer sends them.

use apus_coins::{BlockUndo, put_spent_coins, undo_of_spent_coins};
use apus_wire::{BlockView, HEADER_BYTES};

/// Reads two bytes of `data` as the numbers of inputs of two transactions, and the rest as the
/// coins that a block with these transactions spends.
///
/// What is accepted is undo data of this block, and has the same coins once it is sent again.
pub fn run(data: &[u8]) {
    let [first, second, coins @ ..] = data else { return };
    let shape = [first % 16, second % 16].map(|inputs| usize::from(inputs) + 1);
    let block = BlockView::parse(block_of(&shape)).expect("it is a block");
    let mut undo = Vec::new();
    let _ = put_spent_coins(coins, u32::from(*first), 1 << 20, &mut undo);
    if undo_of_spent_coins(coins, &block, &mut undo).is_err() {
        return;
    }
    let mut reader = BlockUndo::new(&undo, shape.len() + 1).expect("it is undo data");
    let mut heights = Vec::new();
    for inputs in shape {
        reader.next_tx(inputs, |coin| heights.push(coin.height)).expect("it is of this block");
    }
    reader.finish().expect("nothing follows");
    let sent = |cutoff| {
        let mut out = Vec::new();
        assert_eq!(put_spent_coins(&undo, cutoff, usize::MAX, &mut out), Ok(true));
        out
    };
    let mut again = Vec::new();
    undo_of_spent_coins(&sent(0), &block, &mut again).expect("what was accepted is sent");
    assert_eq!(again, undo);
    let below = heights.iter().filter(|height| **height < 100).count();
    assert_eq!(usize::from(sent(100)[0]), below);
}

/// Returns a block whose transactions have a coinbase before them and these numbers of inputs.
fn block_of(shape: &[usize]) -> Vec<u8> {
    let mut block = vec![0; HEADER_BYTES];
    block.push(shape.len() as u8 + 1);
    for inputs in std::iter::once(&1).chain(shape) {
        block.extend_from_slice(&[1, 0, 0, 0, *inputs as u8]);
        // Outpoint, empty script, sequence.
        block.resize(block.len() + inputs * 41, 0);
        // An output with an empty script, and the lock time.
        block.push(1);
        block.resize(block.len() + 9 + 4, 0);
    }
    block
}
