//! The stand-in for `x86.rs` on other processors, whose vector registers the compiler uses.

use super::key::SipKey;
use super::lanes::{LANES, Lanes, hash};

/// The vector registers that every processor of this architecture has.
#[derive(Clone, Copy)]
pub struct Engine(());

impl Engine {
    /// Returns the only engine.
    pub fn best() -> Self {
        Self(())
    }

    /// Returns every engine.
    #[cfg(test)]
    pub fn all() -> [Self; 1] {
        [Self(())]
    }

    /// Returns the hash of each message.
    pub fn hash(self, key: SipKey, lanes: &Lanes) -> [u64; LANES] {
        hash(key, lanes)
    }
}
