//! The limit on the download, which may depend on the time of day.

use std::ops::Range;

/// The minutes of a day.
const DAY: u32 = 24 * 60;
/// The form of a limit, for errors.
const EXPECTED: &str = "expected MB a second above 0, such as 2.5, or such a number with times of \
                        the day at which it holds, such as 20@08:00-23:00";

/// The most bytes to download in a second, by the time of day.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MaxDownload {
    /// Bytes a second outside all times; `None` for no limit.
    otherwise: Option<u64>,
    /// Times of the day, in minutes since midnight, each with the bytes a second then.
    times: Vec<(Range<u32>, u64)>,
}

impl MaxDownload {
    /// Reads limits in MB (10^6 bytes) a second, separated by commas: `20` holds always, and
    /// `20@08:00-23:00` between these times of the day, which may be on two sides of midnight.
    /// Of several texts, the last limit without times counts.
    ///
    /// # Errors
    /// A text is no such list, or has two limits without times. The error names the part that is
    /// wrong and what is expected.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut all = Self::default();
        for text in texts {
            let mut plain = None;
            for part in text.split(',') {
                match part.split_once('@') {
                    None => {
                        let limit = rate(part).ok_or_else(|| wrong(part))?;
                        if plain.replace(limit).is_some() {
                            return Err(format!(
                                "{text} has two limits without times: write 2.5 with a point, and \
                                 times as in 20@08:00-23:00"
                            ));
                        }
                    }
                    Some((limit, times)) => {
                        let limit = rate(limit).ok_or_else(|| wrong(part))?;
                        let times = ranges(times).ok_or_else(|| wrong(part))?;
                        all.times.extend(times.map(|range| (range, limit)));
                    }
                }
            }
            all.otherwise = plain.or(all.otherwise);
        }
        Ok(all)
    }

    /// Returns the most bytes a second at `minute`, counted from midnight; `None` for no limit.
    /// Where times overlap, the lowest limit holds.
    pub fn at(&self, minute: u32) -> Option<u64> {
        let now = self.times.iter().filter(|(times, _)| times.contains(&minute));
        now.map(|(_, limit)| *limit).min().or(self.otherwise)
    }
}

fn wrong(part: &str) -> String {
    format!("\"{part}\" is no limit: {EXPECTED}")
}

/// Reads MB a second, and returns bytes a second.
fn rate(text: &str) -> Option<u64> {
    let mb = text.trim().parse::<f64>().ok().filter(|mb| *mb > 0.0 && mb.is_finite())?;
    Some((mb * 1e6).max(1.0) as u64)
}

/// Reads `08:00-23:00` as a range of minutes. Times that cross midnight are two ranges, and the
/// second of other times is empty.
fn ranges(text: &str) -> Option<impl Iterator<Item = Range<u32>>> {
    let (from, to) = text.split_once('-')?;
    let from = minute(from)?;
    let to = minute(to)?;
    if from == to || from == DAY {
        return None;
    }
    let ranges = if from < to { [from..to, 0..0] } else { [from..DAY, 0..to] };
    Some(ranges.into_iter())
}

/// Reads `08:00` as minutes since midnight; `24:00` is the end of the day.
fn minute(text: &str) -> Option<u32> {
    let (hours, minutes) = text.trim().split_once(':')?;
    let is_number = |text: &str| text.len() <= 2 && text.bytes().all(|b| b.is_ascii_digit());
    if !is_number(hours) || !is_number(minutes) || minutes.len() != 2 {
        return None;
    }
    let hours: u32 = hours.parse().ok()?;
    let minutes: u32 = minutes.parse().ok()?;
    let minute = hours * 60 + minutes;
    (minutes < 60 && minute <= DAY).then_some(minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    /// The limit in bytes a second at a time of the day, `hhmm`.
    fn at(texts: &[&str], time: u32) -> Option<u64> {
        let limits = MaxDownload::parse(texts.iter().copied()).unwrap();
        limits.at(time / 100 * 60 + time % 100)
    }

    #[test]
    fn a_limit_holds_always_or_between_two_times() {
        let day = "20@08:00-23:00";
        let night = "3@22:30-6:15";
        for (texts, time, limit) in [
            (&["2.5"][..], 1200, Some(2_500_000)),
            (&[], 1200, None),
            (&[day], 759, None),
            (&[day], 800, Some(20 * MB)),
            (&[day], 2259, Some(20 * MB)),
            (&[day], 2300, None),
            (&[day, "50"], 759, Some(50 * MB)),
            (&["50,20@08:00-23:00"], 800, Some(20 * MB)),
            (&["5, 20@08:00-23:00"], 800, Some(20 * MB)),
            (&[night], 2359, Some(3 * MB)),
            (&[night], 0, Some(3 * MB)),
            (&[night], 614, Some(3 * MB)),
            (&[night], 615, None),
            // The lowest of two that hold.
            (&[night, day], 2245, Some(3 * MB)),
            (&["1@20:00-24:00"], 2359, Some(MB)),
            (&["1@00:00-24:00"], 0, Some(MB)),
            // As with other options, the last one counts.
            (&["5", "6"], 0, Some(6 * MB)),
            (&["0.0000001"], 0, Some(1)),
        ] {
            assert_eq!(at(texts, time), limit, "{texts:?} at {time:04}");
        }
    }

    #[test]
    fn a_wrong_limit_says_what_is_expected() {
        for wrong in [
            "",
            "0",
            "-1",
            "x",
            "inf",
            "NaN",
            "20@",
            "@08:00-23:00",
            "20@8-23",
            "20@08:00",
            "20@08:60-23:00",
            "20@08:00-24:01",
            "20@24:00-08:00",
            "20@08:00-08:00",
            "20@08:000-23:00",
            "20@+8:00-23:00",
            "0@08:00-23:00",
            "20@08:00-23:00@",
            "20@08:00-23:00,",
        ] {
            let error = MaxDownload::parse([wrong]).unwrap_err();
            assert!(error.contains("such as 20@08:00-23:00"), "{wrong}: {error}");
        }
        let error = MaxDownload::parse(["2,5"]).unwrap_err();
        assert!(error.contains("write 2.5 with a point"), "{error}");
    }
}
