/// The coin that an input spends, as the rules need to know it.
#[derive(Clone, Copy, Debug)]
pub struct Prevout<'a> {
    /// Amount in satoshi.
    pub amount: i64,
    /// The scriptPubKey.
    pub script: &'a [u8],
    /// Height of the block that created it.
    pub height: u32,
    /// Whether a coinbase created it.
    pub is_coinbase: bool,
}
