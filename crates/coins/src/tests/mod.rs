mod cache;
mod chainstate;
mod codec;
mod core;
mod sections;
mod spent_coins;
mod survivors;
mod undo;

use apus_hash::{Hash, sha256};
use apus_wire::OutPoint;

use super::Coin;

/// Returns the `n`th of a list of outpoints. Each transaction has three, with indices whose VARINTs
/// have one or two bytes.
fn outpoint(n: u64) -> OutPoint {
    OutPoint { txid: Hash(sha256(&(n / 3).to_le_bytes())), vout: (n % 3) as u32 * 9_000 }
}

/// Returns a coin by its seed. The scripts of two in three are short enough to be stored inline.
fn coin(seed: u64) -> Coin {
    let script = match seed % 3 {
        0 => [&[0, 20][..], &sha256(&seed.to_le_bytes())[..20]].concat(),
        1 => [&[0x51, 32][..], &sha256(&seed.to_le_bytes())].concat(),
        _ => vec![0x51; 40 + (seed % 100) as usize],
    };
    Coin::new(seed, &script, seed as u32 % 1000, seed.is_multiple_of(7))
}
