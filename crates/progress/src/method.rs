//! The methods of syncing.

/// A method of syncing blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// Blocks connect in order of height, and each spent coin is looked up in the UTXO set.
    InOrder,
    /// Every output and every spend goes to a partition by its txid, and they meet there.
    Join,
    /// Hints say which outputs are unspent, and two sums prove that all others are spent.
    SwiftSync,
}

impl Method {
    /// All methods.
    pub const ALL: [Self; 3] = [Self::InOrder, Self::Join, Self::SwiftSync];

    /// Returns the name used by `--method` and `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::InOrder => "order",
            Self::Join => "join",
            Self::SwiftSync => "swiftsync",
        }
    }
}
