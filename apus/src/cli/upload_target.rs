//! The option `--maxuploadtarget`.

use super::conf::Config;

/// Returns the upload target in bytes; `None` for no limit.
pub fn maxuploadtarget(config: &mut Config) -> Result<Option<u64>, String> {
    let Some(found) = config.take("maxuploadtarget")? else { return Ok(None) };
    match bytes(&found.text) {
        Some(bytes) => Ok(Some(bytes).filter(|bytes| *bytes > 0)),
        None => Err(format!(
            "{}: '{}' is not a size: give a whole number of MiB, or one with a unit behind \
             it (k, K, m, M, g, G, t or T)",
            found.origin("maxuploadtarget"),
            found.text
        )),
    }
}

/// Parses a size as Core does (`ParseByteUnits`): lower-case units are powers of 1000, upper-case
/// ones and MiB, the default, are powers of 1024.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match &text[digits.len()..] {
        "k" => 1000,
        "K" => 1 << 10,
        "m" => 1_000_000,
        "M" | "" => 1 << 20,
        "g" => 1_000_000_000,
        "G" => 1 << 30,
        "t" => 1_000_000_000_000,
        "T" => 1 << 40,
        _ => return None,
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse::<u64>().ok().filter(|_| is_number)?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_the_units_of_core() {
        for (text, expected) in [
            ("0", Some(0)),
            ("500", Some(500 << 20)),
            ("500M", Some(500 << 20)),
            ("2g", Some(2_000_000_000)),
            ("1T", Some(1 << 40)),
            ("7k", Some(7_000)),
            ("", None),
            ("M", None),
            ("+1", None),
            ("1.5G", None),
            ("1MB", None),
            ("99999999999T", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
