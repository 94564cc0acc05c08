use apus_wire::{Chain, Network};

/// Smallest valid length in a frame: that of a header (Core's `LoadExternalBlockFile`).
pub(super) const MIN_BLOCK_BYTES: u32 = 80;
/// Largest valid length in a frame (Core's `MAX_BLOCK_SERIALIZED_SIZE`).
pub const MAX_BLOCK_BYTES: u32 = 4_000_000;

/// Length in bytes of magic and length before a block.
pub(super) const FRAME_BYTES: u64 = 8;

/// Returns whether `bytes` start with a frame: `magic` and a length that a block can have.
pub(super) fn is_frame(bytes: &[u8], magic: [u8; 4]) -> bool {
    bytes.starts_with(&magic)
        && bytes.get(4..8).is_some_and(|len| {
            let len = u32::from_le_bytes([len[0], len[1], len[2], len[3]]);
            (MIN_BLOCK_BYTES..=MAX_BLOCK_BYTES).contains(&len)
        })
}

/// Returns the index in `bytes` of the first frame with this magic.
pub(super) fn find_frame(bytes: &[u8], magic: [u8; 4]) -> Option<usize> {
    let mut from = 0;
    while let Some(found) = bytes[from..].iter().position(|byte| *byte == magic[0]) {
        if is_frame(&bytes[from + found..], magic) {
            return Some(from + found);
        }
        from += found + 1;
    }
    None
}

/// Returns the networks that Core supports, except those with the magic of `network`.
pub(super) fn other_networks(network: &Network) -> impl Iterator<Item = Network> + use<> {
    let magic = network.magic;
    [Chain::Main, Chain::Test, Chain::Testnet4, Chain::Signet, Chain::Regtest]
        .into_iter()
        .map(Network::new)
        .filter(move |other| other.magic != magic)
}

/// Returns the name of a network in messages to users.
pub(super) fn display_name(network: &Network) -> &'static str {
    match network.chain {
        Chain::Main => "mainnet",
        Chain::Test => "testnet3",
        other => other.name(),
    }
}
