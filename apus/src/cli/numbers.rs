//! Formats numbers, durations and dates for reports, progress and logs.

use std::time::Duration;

use apus_progress::words::civil;
pub use apus_progress::words::thousands;

/// Formats a duration as `3 h 25 min`, `4 min 10 s` or `12 s`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// Formats a duration like [`duration`], but with two decimals below a minute.
pub fn precise(elapsed: Duration) -> String {
    match elapsed.as_secs() {
        0..60 => format!("{:.2} s", elapsed.as_secs_f64()),
        _ => duration(elapsed),
    }
}

/// Formats a Unix time as Bitcoin Core's log does: ISO 8601, UTC, `2009-01-03T18:15:05Z`.
pub fn time_stamp(time: i64) -> String {
    let second = time.rem_euclid(86_400);
    let hour = second / 3600;
    let minute = second / 60 % 60;
    format!("{}T{hour:02}:{minute:02}:{:02}Z", date(time), second % 60)
}

/// Returns the UTC date of a Unix time, `2009-01-03`.
pub fn date(time: i64) -> String {
    let (year, month, day) = civil(time);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_blocks() {
        assert_eq!(date(1231006505), "2009-01-03");
        assert_eq!(date(1709164800), "2024-02-29");
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(time_stamp(1231006505), "2009-01-03T18:15:05Z");
        assert_eq!(time_stamp(-1), "1969-12-31T23:59:59Z");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(duration(Duration::from_secs(3_725)), "1 h 2 min");
    }
}
