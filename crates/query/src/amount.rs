//! Amounts that calls are given.

use apus_consensus::{COIN, MONEY_MAX};
use serde_json::Value;

use super::error::{RPC_INVALID_PARAMETER, RPC_TYPE_ERROR, RpcError};

/// The most digits of an amount without zeros at its end, and the most zeros after them (Core's
/// `ParseFixedPoint`).
const DIGITS_MAX: usize = 18;
/// The decimals of an amount in bitcoins.
const DECIMALS: i64 = 8;

/// Checks an amount in bitcoins that may be left out.
///
/// # Errors
/// It is neither a number nor a string, has more than eight decimals, or is out of range.
pub fn check_amount(value: &Value) -> Result<(), RpcError> {
    if value.is_null() { Ok(()) } else { amount(value).map(|_| ()) }
}

/// Checks a fee rate in bitcoins per 1,000 bytes that may be left out (Core's `ParseFeeRate`).
///
/// # Errors
/// It is no amount, or not below one bitcoin.
pub fn check_fee_rate(value: &Value) -> Result<(), RpcError> {
    if !value.is_null() && amount(value)? >= COIN {
        let what = "Fee rates larger than or equal to 1BTC/kvB are not accepted";
        return Err(RpcError::new(RPC_INVALID_PARAMETER, what));
    }
    Ok(())
}

/// Returns an amount in satoshis (Core's `AmountFromValue`).
fn amount(value: &Value) -> Result<i64, RpcError> {
    let wrong = |what: &str| Err(RpcError::new(RPC_TYPE_ERROR, what));
    let parsed = match value {
        Value::Number(number) => satoshis(&number.to_string()),
        Value::String(text) => satoshis(text),
        _ => return wrong("Amount is not a number or string"),
    };
    match parsed {
        None => wrong("Invalid amount"),
        Some(amount) if !(0..=MONEY_MAX).contains(&amount) => wrong("Amount out of range"),
        Some(amount) => Ok(amount),
    }
}

/// Reads a number of JSON that is a multiple of a satoshi, with Core's bounds.
fn satoshis(text: &str) -> Option<i64> {
    let (number, exponent) = match text.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let positive = number.strip_prefix('-').unwrap_or(number);
    let (whole, decimals) = match positive.split_once('.') {
        Some((whole, decimals)) => (whole, Some(decimals)),
        None => (positive, None),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let starts_well = whole == "0" || !whole.starts_with('0');
    if !(is_number(whole) && starts_well && decimals.is_none_or(is_number)) {
        return None;
    }
    let decimals = decimals.unwrap_or_default();
    let digits = [whole.trim_start_matches('0'), decimals].concat();
    let significant = digits.trim_end_matches('0');
    let zeros = (digits.len() - significant.len()) as i64;
    let exponent = exponent.saturating_add(zeros + DECIMALS - decimals.len() as i64);
    let exponent = usize::try_from(exponent).ok().filter(|exponent| *exponent < DIGITS_MAX)?;
    let significant = significant.trim_start_matches('0');
    if !significant.is_empty() && significant.len() + exponent > DIGITS_MAX {
        return None;
    }
    let mantissa = if significant.is_empty() { 0 } else { significant.parse::<i64>().ok()? };
    let amount = mantissa * 10_i64.pow(exponent as u32);
    Some(if positive.len() < number.len() { -amount } else { amount })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_are_read_as_by_core() {
        for (text, expected) in [
            ("0", Some(0)),
            ("-0", Some(0)),
            ("0.00000000", Some(0)),
            ("0.00000001", Some(1)),
            ("1e-8", Some(1)),
            ("0.10", Some(10_000_000)),
            ("1.000000000000000000000", Some(100_000_000)),
            ("20999999.97690000", Some(2_099_999_997_690_000)),
            ("0.1e+1", Some(100_000_000)),
            ("100E-2", Some(100_000_000)),
            ("-12.5", Some(-1_250_000_000)),
            ("9999999999.99999999", Some(999_999_999_999_999_999)),
            ("10000000000", None),
            ("0.000000001", None),
            ("1e-9", None),
            ("0e10", None),
            ("1e99999999999999999999", None),
            ("1e-9223372036854775808", None),
            ("1234567890123456789", None),
            ("", None),
            ("-", None),
            ("+1", None),
            ("--1", None),
            (".5", None),
            ("5.", None),
            ("01", None),
            ("1e", None),
            ("1e+-5", None),
            (" 1", None),
            ("1x", None),
        ] {
            assert_eq!(satoshis(text), expected, "{text}");
        }
    }

    #[test]
    fn wrong_amounts_and_fee_rates_are_refused_in_the_words_of_core() {
        let message = |checked: Result<(), RpcError>| checked.map_err(|error| error.to_string());
        for (value, expected) in [
            (json!(null), Ok(())),
            (json!(0.1), Ok(())),
            (json!("0.1"), Ok(())),
            (json!(true), Err("Amount is not a number or string (-3)")),
            (json!([]), Err("Amount is not a number or string (-3)")),
            (json!("x"), Err("Invalid amount (-3)")),
            (json!(1e300), Err("Invalid amount (-3)")),
            (json!(-1), Err("Amount out of range (-3)")),
            (json!(21_000_001), Err("Amount out of range (-3)")),
        ] {
            let expected = expected.map_err(str::to_string);
            assert_eq!(message(check_amount(&value)), expected, "{value}");
        }
        let what = "Fee rates larger than or equal to 1BTC/kvB are not accepted (-8)";
        assert_eq!(message(check_fee_rate(&json!(1))), Err(what.to_string()));
        assert_eq!(message(check_fee_rate(&json!("0.99999999"))), Ok(()));
        assert_eq!(message(check_fee_rate(&json!(null))), Ok(()));
        let what = "Amount out of range (-3)".to_string();
        assert_eq!(message(check_fee_rate(&json!(-0.1))), Err(what));
    }
}
