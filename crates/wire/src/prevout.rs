/// The coin that an input spends, with what the rules need.
#[derive(Clone, Copy, Debug)]
pub struct Prevout<'a> {
    /// The amount in satoshis.
    pub amount: i64,
    /// The scriptPubKey.
    pub script: &'a [u8],
    /// Height of the block that created the coin.
    pub height: u32,
    /// Whether a coinbase created the coin.
    pub is_coinbase: bool,
}
