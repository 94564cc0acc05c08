/// Why a descriptor is refused. Where Bitcoin Core has words for it, these are the words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DescriptorError {
    /// It cannot be parsed, or its checksum is wrong.
    #[error("{0}")]
    Invalid(String),
    /// It derives hardened keys from a public key, which only the private key allows.
    #[error("Cannot derive script without private keys: '{0}'")]
    Hardened(String),
    /// It has a private key. The message does not repeat the key.
    #[error(
        "The descriptor has a private key, which is not needed and not accepted: use public keys \
         (`bitcoin-cli getdescriptorinfo` prints the descriptor with them)"
    )]
    PrivateKey,
}
