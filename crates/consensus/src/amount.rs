use std::fmt;

use apus_wire::Network;

/// The number of satoshis in a bitcoin.
pub const COIN: i64 = 100_000_000;

/// The largest amount, in satoshi (Core's `MAX_MONEY`).
pub const MONEY_MAX: i64 = 21_000_000 * COIN;

/// Returns whether an amount is from 0 to [`MONEY_MAX`] (Core's `MoneyRange`).
pub(super) fn money_range(amount: i64) -> bool {
    (0..=MONEY_MAX).contains(&amount)
}

/// Returns the amount in satoshi that the coinbase of a block at this height may claim on top of
/// fees (Core's `GetBlockSubsidy`).
pub fn subsidy(height: u32, network: &Network) -> i64 {
    (50 * COIN).checked_shr(height / network.halving_interval).unwrap_or(0)
}

/// An amount in satoshi, displayed as Core does (`FormatMoney`): in bitcoins, with at least two
/// decimals.
pub(super) struct Money(pub i64);

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let whole = self.0.unsigned_abs() / COIN as u64;
        let part = self.0.unsigned_abs() % COIN as u64;
        let digits = format!("{part:08}");
        let (cents, rest) = digits.split_at(2);
        write!(f, "{sign}{whole}.{cents}{}", rest.trim_end_matches('0'))
    }
}
