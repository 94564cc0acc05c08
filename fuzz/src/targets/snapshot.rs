//! UTXO snapshots.

use apus_coins::{
    Coin, GroupCoin, GroupCoins, SnapshotCoins, SnapshotError, SnapshotGroup, SnapshotHead,
    SnapshotPieces, key_order,
};
use apus_wire::OutPoint;

/// The largest amount that compression restores exactly; there is far less money than this.
const EXACT_AMOUNT_MAX: u64 = u64::MAX / 10;

/// Reads `data` as a snapshot.
///
/// An accepted snapshot has as many coins as its head says, is recognised as sorted or not, has the
/// same coins in groups as one by one, and is the same after it is written again; truncated or
/// extended, it is refused.
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
    let mut pieces = SnapshotPieces::new(data, head);
    let mut coins = Vec::new();
    while let Some(piece) = pieces.next_piece()? {
        let before = coins.len();
        piece.for_each(|outpoint, coin| {
            coins.push((*outpoint, coin));
            Ok::<(), SnapshotError>(())
        })?;
        let mut rest = &coins[before..];
        piece.for_each_group(|group| {
            let (of_group, others) = rest.split_at(group.coins.len());
            rest = others;
            compare(group, of_group);
            Ok::<(), SnapshotError>(())
        })?;
        assert!(rest.is_empty());
    }
    let is_sorted = coins.is_sorted_by(|(a, _), (b, _)| key_order(a, b).is_lt());
    assert_eq!(pieces.is_sorted(), is_sorted);
    Ok(coins)
}

/// Checks that a group has the same coins and, in the form that Core writes, the same bytes.
fn compare(group: &SnapshotGroup, coins: &[(OutPoint, Coin)]) {
    let of_group = |(vout, coin)| (OutPoint { txid: group.txid, vout }, coin);
    assert!(group.decoded().into_iter().map(of_group).eq(coins.iter().cloned()));
    let same = |(coin, (outpoint, expected)): (&GroupCoin, &(OutPoint, Coin))| {
        let parts = expected.parts();
        (coin.vout, coin.code, coin.amount) == (outpoint.vout, parts.code, parts.amount)
    };
    assert!(group.coins.iter().zip(coins).all(same));
    let Some(height) = group.plain_height() else { return };
    assert!(coins.iter().all(|(_, coin)| coin.height == height));
    let mut written = Vec::new();
    for (outpoint, coin) in coins {
        GroupCoins::put(&mut written, outpoint.vout, &coin.parts());
    }
    assert_eq!(written, group.bytes());
}
