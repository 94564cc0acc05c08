//! The coins that hints or a snapshot are wrong about, as JSON.

use apus_node::{CoinDifference, DifferenceKind, Differences};
use serde::Serialize;

/// The coins that differ, and whether there are more.
#[derive(Debug, Serialize)]
pub struct DifferencesJson {
    coins: Vec<DifferenceJson>,
    more: bool,
}

#[derive(Debug, Serialize)]
struct DifferenceJson {
    txid: String,
    vout: u32,
    height: Option<u32>,
    kind: &'static str,
    /// The height of the block that spends it.
    spent_at: Option<u32>,
    text: String,
}

impl DifferencesJson {
    pub fn of(differences: &Differences) -> Self {
        let coins = differences.coins.iter().map(DifferenceJson::of).collect();
        Self { coins, more: differences.are_more }
    }
}

impl DifferenceJson {
    fn of(coin: &CoinDifference) -> Self {
        let spent_at = match coin.kind {
            DifferenceKind::Spent(height) | DifferenceKind::Undo { height, .. } => Some(height),
            _ => None,
        };
        Self {
            txid: coin.outpoint.txid.to_string(),
            vout: coin.outpoint.vout,
            height: coin.height,
            kind: coin.kind.name(),
            spent_at,
            text: coin.to_string(),
        }
    }
}
