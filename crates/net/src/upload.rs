//! The upload target: how many bytes may be sent in a day, and what is left for old blocks.

use std::time::Duration;

/// Core's `MAX_UPLOAD_TIMEFRAME`.
const MAX_UPLOAD_TIMEFRAME: Duration = Duration::from_secs(24 * 60 * 60);
/// Core's `MAX_BLOCK_SERIALIZED_SIZE`.
const MAX_BLOCK_SERIALIZED_SIZE: u64 = 4_000_000;
/// Seconds for which one new block is expected to be sent.
const NEW_BLOCK_SECONDS: u64 = 10 * 60;

/// The target of Core's `-maxuploadtarget`: a maximum of bytes in 24 hours, which begin with the
/// first byte sent. Blocks older than a week are refused early, so that each new block can be sent
/// once until the 24 hours end. New blocks are never refused.
#[derive(Debug, Default)]
pub struct UploadTarget {
    /// `None` for no target.
    bytes_max: Option<u64>,
    /// When the present 24 hours began.
    began: Option<Duration>,
    /// Bytes sent since then.
    sent: u64,
}

impl UploadTarget {
    /// Creates a target of `bytes_max` in 24 hours; `None` for no target.
    pub fn new(bytes_max: Option<u64>) -> Self {
        Self { bytes_max, ..Self::default() }
    }

    /// Counts bytes that were sent at `now`.
    pub fn sent(&mut self, bytes: u64, now: Duration) {
        if self.began.is_none_or(|began| began + MAX_UPLOAD_TIMEFRAME < now) {
            (self.began, self.sent) = (Some(now), 0);
        }
        self.sent += bytes;
    }

    /// Returns whether old blocks are refused at `now` (Core's `OutboundTargetReached`).
    pub fn is_reached_for_old_blocks(&self, now: Duration) -> bool {
        let Some(bytes_max) = self.bytes_max else { return false };
        let left = self.began.map_or(MAX_UPLOAD_TIMEFRAME, |began| {
            (began + MAX_UPLOAD_TIMEFRAME).saturating_sub(now)
        });
        let for_new_blocks = left.as_secs() / NEW_BLOCK_SECONDS * MAX_BLOCK_SERIALIZED_SIZE;
        for_new_blocks >= bytes_max || self.sent >= bytes_max - for_new_blocks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;
    const HOUR: Duration = Duration::from_secs(60 * 60);

    #[test]
    fn old_blocks_leave_room_for_each_new_block() {
        let mut target = UploadTarget::new(Some(GB));
        assert!(!target.is_reached_for_old_blocks(HOUR));
        // 144 new blocks of 4 MB may come in a day.
        target.sent(GB - 144 * 4_000_000 - 1, HOUR);
        assert!(!target.is_reached_for_old_blocks(HOUR));
        target.sent(1, HOUR);
        assert!(target.is_reached_for_old_blocks(HOUR));
        assert!(!target.is_reached_for_old_blocks(13 * HOUR), "fewer new blocks can come");
        target.sent(GB, 13 * HOUR);
        assert!(target.is_reached_for_old_blocks(25 * HOUR));
        target.sent(1, 25 * HOUR + Duration::from_secs(1));
        assert!(!target.is_reached_for_old_blocks(26 * HOUR), "the next day has begun");
    }

    #[test]
    fn a_small_target_refuses_all_old_blocks() {
        let small = UploadTarget::new(Some(144 * 4_000_000));
        assert!(small.is_reached_for_old_blocks(HOUR));
        let mut none = UploadTarget::new(None);
        none.sent(u64::MAX, HOUR);
        assert!(!none.is_reached_for_old_blocks(HOUR));
    }
}
