//! The clock of this computer beside the times of blocks. A clock that is behind the best block is
//! no reason to refuse blocks or to rebuild anything: it has to be set.

use super::error::SyncError;
use apus_progress::clock::unix_time;
use apus_progress::words::civil;

/// Seconds by which the time of a block may be ahead of the clock (Core's `MAX_FUTURE_BLOCK_TIME`).
const MAX_FUTURE_BLOCK_TIME: i64 = 2 * 60 * 60;

/// Returns an error if a block of this time was accepted when the clock was later than it is now.
/// `what` names the block.
///
/// # Errors
/// The block is more than two hours ahead of the clock.
pub fn refuse_clock_behind(what: &str, time: u32) -> Result<(), SyncError> {
    if i64::from(time) <= unix_time() + MAX_FUTURE_BLOCK_TIME {
        return Ok(());
    }
    let what = clocks(what, time);
    Err(SyncError::Input(format!("{what}; set the clock, and run the same command again")))
}

/// Returns words that compare the time of a block with the clock.
pub fn clocks(what: &str, time: u32) -> String {
    let of_block = date_and_time(i64::from(time));
    let now = date_and_time(unix_time());
    format!("{what} is of {of_block} UTC, but this computer's clock says {now} UTC")
}

fn date_and_time(time: i64) -> String {
    let (year, month, day) = civil(time);
    let of_day = time.rem_euclid(24 * 60 * 60);
    let hour = of_day / 3600;
    let minute = of_day / 60 % 60;
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_may_be_two_hours_ahead() {
        let now = unix_time() as u32;
        assert!(refuse_clock_behind("a block", now + 7000).is_ok());
        let error = refuse_clock_behind("a block", u32::MAX).unwrap_err().to_string();
        assert!(error.contains("a block is of 2106-02-07 06:28 UTC"), "{error}");
        assert!(error.contains("set the clock"), "{error}");
    }
}
