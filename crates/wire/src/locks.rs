//! The meaning of lock times and sequence numbers, for rules and scripts.

/// The smallest lock time that is a time; lower ones are heights (Core's `LOCKTIME_THRESHOLD`).
pub const LOCK_TIME_THRESHOLD: u32 = 500_000_000;
/// The sequence number of an input that ignores lock times (Core's `SEQUENCE_FINAL`).
pub const SEQUENCE_FINAL: u32 = u32::MAX;
/// The bit of a sequence number that disables its relative lock (BIP68).
pub const SEQUENCE_LOCK_DISABLED: u32 = 1 << 31;
/// The bit of a sequence number that makes its lock a time, in units of 512 seconds, and not a
/// number of blocks (BIP68).
pub const SEQUENCE_LOCK_IN_SECONDS: u32 = 1 << 22;
/// The bits of a sequence number that hold the time or the number of blocks (BIP68).
pub const SEQUENCE_LOCK_MASK: u32 = 0xffff;
