//! What lock times and sequence numbers mean; rules and scripts ask.

/// The least lock time that is a time; those below are heights (Core's `LOCKTIME_THRESHOLD`).
pub const LOCK_TIME_THRESHOLD: u32 = 500_000_000;
/// The sequence number of an input that no lock time binds (Core's `SEQUENCE_FINAL`).
pub const SEQUENCE_FINAL: u32 = u32::MAX;
/// The bit of a sequence number which says that it is no relative lock (BIP68).
pub const SEQUENCE_LOCK_DISABLED: u32 = 1 << 31;
/// The bit which says that the lock is a time, in units of 512 seconds; else it is a number of
/// blocks (BIP68).
pub const SEQUENCE_LOCK_IN_SECONDS: u32 = 1 << 22;
/// The bits of the time or the number (BIP68).
pub const SEQUENCE_LOCK_MASK: u32 = 0xffff;
