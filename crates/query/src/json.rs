//! JSON as Bitcoin Core prints it: amounts with eight decimals, other fractions with 16 digits.

use apus_consensus::COIN;
use apus_hash::Hash;
pub use apus_hash::hex;
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

/// JSON text.
pub type Json = Box<RawValue>;

pub fn json(value: &impl Serialize) -> Json {
    to_raw_value(value).expect("plain data has a JSON text")
}

/// An amount in satoshis, printed in bitcoins (Core's `ValueFromAmount`).
#[derive(Clone, Copy)]
pub struct Amount(pub i64);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sign = if self.0 < 0 { "-" } else { "" };
        let satoshis = self.0.unsigned_abs();
        let coin = COIN.unsigned_abs();
        number(&format!("{sign}{}.{:08}", satoshis / coin, satoshis % coin)).serialize(serializer)
    }
}

/// A fraction, printed with up to 16 digits (Core's `UniValue::setFloat`).
#[derive(Clone, Copy)]
pub struct Fraction(pub f64);

impl Serialize for Fraction {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        number(&general(self.0)).serialize(serializer)
    }
}

fn number(text: &str) -> Json {
    RawValue::from_string(text.to_string()).expect("a number is JSON")
}

/// Returns a finite number with 16 significant digits, without zeros at its end (C's `%.16g`).
fn general(value: f64) -> String {
    const DIGITS: i32 = 16;
    let scientific = format!("{value:.15e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("scientific notation");
    let exponent: i32 = exponent.parse().expect("an exponent");
    let trimmed = |number: &str| {
        if number.contains('.') {
            number.trim_end_matches('0').trim_end_matches('.').to_string()
        } else {
            number.to_string()
        }
    };
    if (-4..DIGITS).contains(&exponent) {
        return trimmed(&format!("{value:.*}", (DIGITS - 1 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs())
}

/// Returns a hash as Core shows it, the last byte first.
pub(super) fn id(hash: &Hash) -> String {
    let mut bytes = hash.0;
    bytes.reverse();
    hex(&bytes)
}

/// A list whose elements are made while it is printed, so that all of them never are in memory.
pub(super) struct Each<F>(pub F);

impl<F: Fn() -> I, I: Iterator<Item: Serialize>> Serialize for Each<F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

/// Returns the bytes of hex digits; `None` if they are not an even number of hex digits (Core's
/// `IsHex`, but that the text may be empty).
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(digit(pair[0])? << 4 | digit(*pair.get(1)?)?);
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_as_core_prints_them() {
        let text = |value: &dyn Fn() -> Json| value().get().to_string();
        for (satoshis, expected) in [
            (0, "0.00000000"),
            (5_000_000_000, "50.00000000"),
            (1, "0.00000001"),
            (-123_456_789, "-1.23456789"),
            (i64::MIN, "-92233720368.54775808"),
        ] {
            assert_eq!(text(&|| json(&Amount(satoshis))), expected);
        }
        for (value, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (4.656542373906925e-10, "4.656542373906925e-10"),
            (0.1 + 0.2, "0.3"),
            (1.0 / 3.0, "0.3333333333333333"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (126_271_255_279_306.67, "126271255279306.7"),
            (1e16, "1e+16"),
        ] {
            assert_eq!(text(&|| json(&Fraction(value))), expected);
        }
    }

    #[test]
    fn hex_both_ways() {
        assert_eq!(hex(&[0, 0x9f, 0xff]), "009fff");
        let hash = Hash(std::array::from_fn(|at| 7 * at as u8));
        assert_eq!(id(&hash), hash.to_string());
        assert_eq!(from_hex("009fFF"), Some(vec![0, 0x9f, 0xff]));
        assert_eq!((from_hex(""), from_hex("0"), from_hex("0g")), (Some(vec![]), None, None));
    }
}
