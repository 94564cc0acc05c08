use crate::sync::{UtxoHash, UtxoStats};

/// The statistics as `bitcoin-cli gettxoutsetinfo` prints them, without a newline at the end.
///
/// Written by hand: Core prints the total amount as a number with eight decimals, which no
/// floating-point number keeps.
pub fn json(stats: &UtxoStats) -> String {
    let hash = match stats.hash {
        Some((UtxoHash::MuHash, hash)) => format!("  \"muhash\": \"{hash}\",\n"),
        Some((_, hash)) => format!("  \"hash_serialized_3\": \"{hash}\",\n"),
        None => String::new(),
    };
    let UtxoStats { height, best_block, txouts, bogosize, transactions, disk_size, .. } = stats;
    let total_amount = stats.total_amount_btc();
    format!(
        "{{\n  \"height\": {height},\n  \"bestblock\": \"{best_block}\",\n  \
         \"txouts\": {txouts},\n  \"bogosize\": {bogosize},\n{hash}  \
         \"total_amount\": {total_amount},\n  \"transactions\": {transactions},\n  \
         \"disk_size\": {disk_size}\n}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;

    #[test]
    fn it_is_the_object_of_bitcoin_cli() {
        let stats = UtxoStats {
            height: 1,
            best_block: Hash::ZERO,
            txouts: 2,
            bogosize: 3,
            total_amount: 706_550 * 100_000_000,
            transactions: 5,
            hash: Some((UtxoHash::MuHash, Hash::ZERO)),
            disk_size: 6,
        };
        let zero = "0".repeat(64);
        let expected = format!(
            r#"{{
  "height": 1,
  "bestblock": "{zero}",
  "txouts": 2,
  "bogosize": 3,
  "muhash": "{zero}",
  "total_amount": 706550.00000000,
  "transactions": 5,
  "disk_size": 6
}}"#
        );
        assert_eq!(json(&stats), expected);
        let plain = json(&UtxoStats { hash: None, total_amount: 1, ..stats.clone() });
        assert!(plain.contains("\"total_amount\": 0.00000001,\n") && !plain.contains("hash"));
        let hash = Some((UtxoHash::HashSerialized3, Hash::ZERO));
        assert!(json(&UtxoStats { hash, ..stats }).contains("  \"hash_serialized_3\": \"0"));
        assert!(serde_json::from_str::<serde_json::Value>(&plain).is_ok());
    }
}
