//! The bytes of mainnet's blocks, by height, before headers and blocks are known.

/// Heights of mainnet, and the gigabytes of all blocks below, rounded from public charts of the
/// chain's size. They end at the 770 GB of docs/budget.md.
const MAINNET: [(u32, f64); 12] = [
    (0, 0.0),
    (100_000, 0.07),
    (200_000, 3.0),
    (300_000, 18.0),
    (400_000, 60.0),
    (500_000, 150.0),
    (600_000, 245.0),
    (700_000, 367.0),
    (800_000, 512.0),
    (850_000, 601.0),
    (900_000, 686.0),
    (950_000, 770.0),
];

/// Returns the height that mainnet has about at this time, in seconds since 1970.
pub fn mainnet_height(time: i64) -> u32 {
    /// The time of block 900,000.
    const LATE: (i64, i64) = (900_000, 1_749_190_000);
    u32::try_from(LATE.0 + (time - LATE.1) / 600).unwrap_or(0)
}

/// Returns the bytes of mainnet's blocks from height `first` to `last`; 0 if there are none. After
/// the last era, blocks are like its own.
pub fn mainnet_bytes(first: u32, last: u32) -> u64 {
    let gigabytes = gigabytes_below(last.saturating_add(1)) - gigabytes_below(first);
    (gigabytes.max(0.0) * 1e9) as u64
}

fn gigabytes_below(height: u32) -> f64 {
    let after = MAINNET.partition_point(|era| era.0 <= height).clamp(1, MAINNET.len() - 1);
    let (low, below) = MAINNET[after - 1];
    let (high, above) = MAINNET[after];
    let share = (f64::from(height) - f64::from(low)) / f64::from(high - low);
    below + (above - below) * share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mainnets_eras_add_up_to_its_size() {
        assert!((760_000_000_000..780_000_000_000).contains(&mainnet_bytes(1, 949_999)));
        assert!((16_000_000_000..18_000_000_000).contains(&mainnet_bytes(950_000, 959_999)));
        assert_eq!(mainnet_bytes(7, 6), 0);
        assert!((920_000..990_000).contains(&mainnet_height(1_780_000_000)));
        assert_eq!(mainnet_height(0), 0);
    }
}
