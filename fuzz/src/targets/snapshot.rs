//! UTXO snapshots.

use apus::coins::{Coin, SnapshotCoins, SnapshotError, SnapshotHead, SnapshotPieces};
use apus::wire::OutPoint;

/// The largest amount that compression gives back exactly; there is far less money than this.
const EXACT_AMOUNT_MAX: u64 = u64::MAX / 10;

/// Reads `data` as a snapshot.
///
/// What is read has as many coins as its head says, and comes back the same once it is written
/// again; cut short or made longer, that is refused.
pub fn run(data: &[u8]) {
    let Ok(head) = SnapshotHead::parse(data) else { return };
    assert!(data.starts_with(&head.to_bytes()));
    let Ok(coins) = read(data, &head) else { return };
    assert_eq!(coins.len() as u64, head.coins);
    let mut written = SnapshotCoins::default();
    coins.iter().for_each(|(outpoint, coin)| written.push(outpoint, coin));
    let (bytes, count) = written.finish();
    assert_eq!(count, head.coins);
    let mut bytes = [head.to_bytes(), bytes].concat();
    let again = read(&bytes, &head).expect("what was written is read");
    let exact = coins.iter().all(|(_, coin)| coin.amount <= EXACT_AMOUNT_MAX);
    assert!(again == coins || !exact);
    for cut in [bytes.len() / 2, bytes.len() - 1] {
        assert!(coins.is_empty() || read(&bytes[..cut], &head).is_err());
    }
    bytes.push(0);
    assert!(read(&bytes, &head).is_err());
}

fn read(data: &[u8], head: &SnapshotHead) -> Result<Vec<(OutPoint, Coin)>, SnapshotError> {
    let (mut pieces, mut coins) = (SnapshotPieces::new(data, head), Vec::new());
    while let Some(piece) = pieces.next_piece()? {
        piece.for_each(|outpoint, coin| {
            coins.push((*outpoint, coin));
            Ok::<(), SnapshotError>(())
        })?;
    }
    Ok(coins)
}
