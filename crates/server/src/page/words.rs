//! Numbers and times in words, and foreign text made harmless.

use std::borrow::Cow;
use std::fmt::Write;
use std::time::Duration;

pub use apus_progress::words::{civil, thousands};

/// Escapes text for HTML, in elements and in quoted attributes. Control characters and marks of
/// direction become `\u{fffd}`: names of peers are foreign input.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200b}'..='\u{200f}' => {
                out.push('\u{fffd}');
            }
            _ if character.is_control() => out.push('\u{fffd}'),
            _ => out.push(character),
        }
    }
    out
}

/// Returns the first characters of a text, with `…` if there are more.
pub fn shorten(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Returns a number and its noun, in the plural unless the number is 1.
pub fn count(number: u64, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {noun}{s}", thousands(number))
}

/// Returns a size with three figures: `950 kB`, `64.1 MB`, `712 GB`.
pub fn size(bytes: u64) -> String {
    let (value, unit) = match bytes {
        0..1_000_000 => (bytes as f64 / 1e3, "kB"),
        1_000_000..1_000_000_000 => (bytes as f64 / 1e6, "MB"),
        1_000_000_000..1_000_000_000_000 => (bytes as f64 / 1e9, "GB"),
        _ => (bytes as f64 / 1e12, "TB"),
    };
    format!("{}\u{a0}{unit}", figures(value))
}

/// Returns a speed: `38.2 MB/s`.
pub fn speed(bytes_a_second: f64) -> String {
    size(bytes_a_second.max(0.0) as u64) + "/s"
}

/// Returns a number that is not negative, with about three figures: `0.42`, `3.14`, `38.2`,
/// `1,234`.
pub fn figures(value: f64) -> String {
    match value {
        0.0 => "0".to_string(),
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => thousands(value.round() as u64),
    }
}

/// Returns a percentage that reaches 100 only at the end: `0`, `3.4`, `41`, `99.9`.
pub fn percent(fraction: f64) -> String {
    let value = 100.0 * fraction.clamp(0.0, 1.0);
    match value {
        100.0 => "100".to_string(),
        _ if !(10.0..99.0).contains(&value) => format!("{:.1}", (value * 10.0).floor() / 10.0),
        _ => format!("{}", value.floor()),
    }
}

/// Returns the percentage of a part, rounded, which is neither 0 nor 100 for less than that.
pub fn share(part: u64, all: u64) -> String {
    let percent = 100.0 * part as f64 / all.max(1) as f64;
    match percent {
        _ if part == 0 || part >= all => format!("{percent:.0}"),
        ..0.1 => "0.1".to_string(),
        99.9.. => "99.9".to_string(),
        ..9.95 | 98.95.. => format!("{percent:.1}"),
        _ => format!("{percent:.0}"),
    }
}

/// Returns a measured time: `12 s`, `4 min`, `3 h 25 min`, `2 days 3 h`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    let mut out = String::new();
    let (large, small) = match seconds {
        0..60 => ((seconds, "s"), (0, "")),
        60..600 => ((seconds / 60, "min"), (seconds % 60, "s")),
        600..3600 => ((seconds / 60, "min"), (0, "")),
        3600..86_400 => ((seconds / 3600, "h"), (seconds / 60 % 60, "min")),
        _ => (
            (seconds / 86_400, if seconds < 172_800 { "day" } else { "days" }),
            (seconds / 3600 % 24, "h"),
        ),
    };
    let _ = write!(out, "{}\u{a0}{}", large.0, large.1);
    if small.0 > 0 {
        let _ = write!(out, " {}\u{a0}{}", small.0, small.1);
    }
    out
}

/// Returns the first second of a year in UTC, in seconds since 1970.
pub fn new_year(year: i64) -> i64 {
    let before = year - 1;
    let leap_days = before / 4 - before / 100 + before / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
    ((year - 1970) * 365 + leap_days) * 86_400
}

/// Returns a date: `3 January 2009`.
pub fn date(time: i64) -> String {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    let (year, month, day) = civil(time);
    format!("{day}\u{a0}{} {year}", MONTHS[month as usize - 1])
}

/// Returns the time of day in UTC: `18:15:05`.
pub fn clock(time: i64) -> String {
    let second = time.rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_is_harmless() {
        let hostile = "/Sat\u{202e}oshi:<script>\"'&\0\n/";
        let safe = "/Sat\u{fffd}oshi:&lt;script&gt;&quot;&#39;&amp;\u{fffd}\u{fffd}/";
        assert_eq!(escape(hostile), safe);
        assert_eq!(escape(&shorten(&"<".repeat(1000), 2)), "&lt;&lt;…");
        assert_eq!(shorten("é鳥", 2), "é鳥");
        assert_eq!(escape("é 鳥"), "é 鳥");
    }

    #[test]
    fn numbers_have_three_figures() {
        for (bytes, words) in [
            (0, "0 kB"),
            (1_500, "1.50 kB"),
            (64_149_000, "64.1 MB"),
            (712_499_999_999, "712 GB"),
            (1_234_000_000_000, "1.23 TB"),
        ] {
            assert_eq!(size(bytes).replace('\u{a0}', " "), words);
        }
        assert_eq!(figures(1234.4), "1,234");
        assert_eq!(count(1, "peer"), "1 peer");
        assert_eq!(count(0, "peer"), "0 peers");
    }

    #[test]
    fn only_the_end_is_100_percent() {
        for (fraction, words) in [
            (0.0, "0.0"),
            (0.0349, "3.4"),
            (0.419, "41"),
            (0.9899, "98"),
            (0.9999, "99.9"),
            (1.0, "100"),
        ] {
            assert_eq!(percent(fraction), words, "{fraction}");
        }
    }

    #[test]
    fn shares_add_up_to_about_100_percent() {
        for (part, all, words) in [
            (0, 5, "0"),
            (1, 5_000, "0.1"),
            (154, 311, "50"),
            (157, 311, "50"),
            (1, 31, "3.2"),
            (4_999, 5_000, "99.9"),
            (5, 5, "100"),
            (0, 0, "0"),
        ] {
            assert_eq!(share(part, all), words, "{part} of {all}");
        }
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let plain = |text: String| text.replace('\u{a0}', " ");
        for (seconds, words) in [
            (0, "0 s"),
            (59, "59 s"),
            (250, "4 min 10 s"),
            (2_000, "33 min"),
            (12_300, "3 h 25 min"),
            (90_000, "1 day 1 h"),
            (216_000, "2 days 12 h"),
        ] {
            assert_eq!(plain(duration(Duration::from_secs(seconds))), words);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(1_231_006_505).replace('\u{a0}', " "), "3 January 2009");
        assert_eq!(civil(1_709_164_800), (2024, 2, 29));
        assert_eq!(clock(1_231_006_505), "18:15:05");
        for year in [1970, 2000, 2001, 2009, 2024, 2025, 2100, 2101] {
            assert_eq!(civil(new_year(year)), (year, 1, 1));
            assert_eq!(civil(new_year(year) - 1), (year - 1, 12, 31));
        }
    }
}
