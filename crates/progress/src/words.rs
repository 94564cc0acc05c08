//! Numbers, sizes and times in words, for messages and reports.

use std::time::Duration;

/// Returns a size in decimal units: `3 kB`, `64 MB`, `2.5 GB`, `712 GB`.
pub fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        1_000_000_000..10_000_000_000 => format!("{:.1} GB", bytes as f64 / 1e9),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

/// Returns a number of bytes a second: `1 kB/s`, `0.4 MB/s`.
pub fn speed(speed: f64) -> String {
    match speed {
        0.0..100_000.0 => format!("{:.0} kB/s", (speed / 1e3).ceil()),
        _ => format!("{:.1} MB/s", speed / 1e6),
    }
}

/// Returns an estimated time, no more precise than an estimate is: `1 s`, `35 min`, `3 h`,
/// `21 days`.
pub fn about(time: Duration) -> String {
    let (unit, word) = unit(time);
    format!("{} {word}", (time.as_secs() as f64 / unit).round().max(1.0))
}

/// Returns a range of estimated times: `3–8 s`, `12–15 min`, `3–4 h`, `up to 2 min`, `1–3 days`.
pub fn between(low: Duration, high: Duration) -> String {
    let (unit, word) = unit(high);
    let low = (low.as_secs_f64() / unit).floor();
    let high = (high.as_secs_f64() / unit).ceil().max(1.0);
    if low == 0.0 {
        format!("up to {high} {word}")
    } else if low == high {
        format!("{high} {word}")
    } else {
        format!("{low}–{high} {word}")
    }
}

/// Returns the unit in which an estimated time is written, in seconds and in a word.
fn unit(time: Duration) -> (f64, &'static str) {
    match time.as_secs() {
        0..100 => (1.0, "s"),
        100..7200 => (60.0, "min"),
        7200..172_800 => (3600.0, "h"),
        _ => (86_400.0, "days"),
    }
}

/// Returns `1234567` as `1,234,567`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Returns the year, month and day of a time in seconds since 1970, in UTC.
pub fn civil(time: i64) -> (i64, u32, u32) {
    // Days since 0000-03-01 split into eras of 400 years (Howard Hinnant's civil_from_days).
    let days = time.div_euclid(86_400) + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month as u32, day as u32)
}

/// Quotes text as the value of an option (`-datadir=…`) in a shell, where that is needed.
pub fn shell_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%~".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_string()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_said_in_the_unit_that_fits() {
        let seconds = Duration::from_secs;
        for (low, high, words) in [
            (0, 1, "up to 1 s"),
            (3, 8, "3–8 s"),
            (7, 7, "7 s"),
            (20, 110, "up to 2 min"),
            (725, 890, "12–15 min"),
            (7_300, 14_000, "2–4 h"),
            (90_000, 250_000, "1–3 days"),
        ] {
            assert_eq!(between(seconds(low), seconds(high)), words);
        }
    }

    #[test]
    fn a_path_is_one_word_of_a_shell() {
        assert_eq!(shell_word("/home/ann/.bitcoin"), "/home/ann/.bitcoin");
        assert_eq!(shell_word("/a b"), "'/a b'");
        assert_eq!(shell_word("it's; rm"), r"'it'\''s; rm'");
        assert_eq!(shell_word("$HOME"), "'$HOME'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn sizes_and_times_have_the_unit_that_fits() {
        for (bytes, words) in [
            (0, "0 kB"),
            (1, "1 kB"),
            (999_000, "999 kB"),
            (64_000_000, "64 MB"),
            (2_549_000_000, "2.5 GB"),
            (712_999_999_999, "712 GB"),
        ] {
            assert_eq!(size(bytes), words);
        }
        for (bytes, words) in [
            (0.0, "0 kB/s"),
            (900.0, "1 kB/s"),
            (99_000.0, "99 kB/s"),
            (100_000.0, "0.1 MB/s"),
            (12_345_678.0, "12.3 MB/s"),
        ] {
            assert_eq!(speed(bytes), words);
        }
        for (seconds, words) in [
            (0, "1 s"),
            (99, "99 s"),
            (100, "2 min"),
            (2_100, "35 min"),
            (10_000, "3 h"),
            (172_799, "48 h"),
            (172_800, "2 days"),
            (1_800_000, "21 days"),
            (u64::MAX, "213503982334601 days"),
        ] {
            assert_eq!(about(Duration::from_secs(seconds)), words);
        }
    }
}
