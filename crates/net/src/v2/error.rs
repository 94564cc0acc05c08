/// Why a peer's bytes are not the v2 transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum V2Error {
    /// The peer's first bytes are a message of the v1 transport.
    #[error("the peer speaks v1, perhaps of another network")]
    V1,
    /// The peer's garbage is longer than BIP324 allows.
    #[error("no terminator after 4095 bytes of garbage")]
    NoTerminator,
    /// A packet, or the garbage before it, is not what the peer authenticated.
    #[error("a packet has a wrong authentication tag")]
    Tag,
    /// The random bytes are not a secret key; by chance this does not happen.
    #[error("random bytes are not a valid secret key")]
    Secret,
}
