//! The text of a descriptor as Bitcoin Core writes it (its `ToString`).

use std::str::FromStr;

use apus_wire::Chain;
use miniscript::Descriptor as Miniscript;

use super::address::address;
use super::sorted_leaves::{marked, unmarked};

/// Characters that end a key or a number.
const ENDS: [char; 5] = ['(', ')', ',', '{', '}'];

/// What is before numbers that are no steps of key paths.
const NUMBERED: [&str; 5] = ["multi(", "multi_a(", "thresh(", "older(", "after("];

/// Returns the number of descriptors that a valid expression stands for: one for each path of its
/// keys (BIP389).
pub fn paths(expression: &str) -> usize {
    let steps = expression.split_once('<').and_then(|(_, after)| after.split_once('>'));
    steps.map_or(1, |(steps, _)| steps.split(';').count())
}

/// Returns an expression with the numbers of key paths, thresholds and locks as Core writes them,
/// without zeros before them.
pub fn plain_numbers(expression: &str) -> String {
    let mut text = String::with_capacity(expression.len());
    let mut characters = expression.chars().peekable();
    while let Some(character) = characters.next() {
        let starts_number = text.ends_with(['/', '<', ';'])
            || (text.ends_with('(') && NUMBERED.iter().any(|start| text.ends_with(start)));
        let is_digit = characters.peek().is_some_and(char::is_ascii_digit);
        if !(starts_number && character == '0' && is_digit) {
            text.push(character);
        }
    }
    text
}

/// Returns a valid expression `name(argument)` with one of the paths of its keys. `script` is that
/// of `addr()`.
pub fn expression(name: &str, argument: &str, path: usize, script: &[u8], chain: Chain) -> String {
    let argument = match name {
        "addr" => address(script, chain).unwrap_or_else(|| argument.to_string()),
        _ => words(argument, path),
    };
    match name {
        "sortedmulti" => {
            let text = wrapped(format!("sh(sortedmulti({argument}))"));
            text.trim_start_matches("sh(").trim_end_matches("))").to_string() + ")"
        }
        "addr" | "raw" | "rawtr" | "combo" => format!("{name}({argument})"),
        "tr" => unmarked(&wrapped(marked(&format!("{name}({argument})")))),
        _ => wrapped(format!("{name}({argument})")),
    }
}

/// Returns an expression with the abbreviations of miniscript.
fn wrapped(text: String) -> String {
    Miniscript::<String>::from_str(&text).map_or(text, |parsed| format!("{parsed:#}"))
}

/// Returns expressions whose keys, and other hex numbers, are as Core writes them.
fn words(expressions: &str, path: usize) -> String {
    let mut text = String::with_capacity(expressions.len());
    for piece in expressions.split_inclusive(ENDS) {
        let word = piece.trim_end_matches(ENDS);
        if piece.ends_with('(') {
            text += word
        } else {
            text += &key(word, path)
        }
        text += &piece[word.len()..];
    }
    text
}

/// Returns a key expression: with one of its paths, hex numbers in lower case, and the sign for
/// hardened steps that counts for all of them.
fn key(word: &str, path: usize) -> String {
    let (origin, rest) = match word.split_once(']') {
        Some((origin, rest)) => (Some(origin), rest),
        None => (None, word),
    };
    let sign = sign(origin.unwrap_or_default(), rest);
    let mut text = String::with_capacity(word.len());
    if let Some(origin) = origin {
        let (fingerprint, steps) = origin.split_at(origin.find('/').unwrap_or(origin.len()));
        text += &fingerprint.to_ascii_lowercase();
        put_steps(&mut text, steps, sign, path);
        text.push(']');
    }
    let (point, steps) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    if point.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        text += &point.to_ascii_lowercase()
    } else {
        text += point
    }
    put_steps(&mut text, steps, sign, path);
    text
}

/// Returns the sign for hardened steps: the last of the key's path, or else of its wildcard, or
/// else of its origin.
fn sign(origin: &str, rest: &str) -> char {
    let last = |steps: &str, is_wanted: fn(&str) -> bool| {
        let steps = steps.split(['/', '<', ';', '>']).skip(1).filter(|step| is_wanted(step));
        steps.filter_map(|step| step.chars().last().filter(|c| ['h', '\''].contains(c))).last()
    };
    let is_wildcard = |step: &str| step.starts_with('*');
    let found = last(rest, |step| !step.starts_with('*')).or_else(|| last(rest, is_wildcard));
    found.or_else(|| last(origin, |_| true)).unwrap_or('h')
}

/// Appends steps, each of which begins with `/`.
fn put_steps(text: &mut String, steps: &str, sign: char, path: usize) {
    for step in steps.split('/').skip(1) {
        let several = step.strip_prefix('<').and_then(|step| step.strip_suffix('>'));
        let step = several.and_then(|steps| steps.split(';').nth(path)).unwrap_or(step);
        let number = step.trim_end_matches(['h', '\'']);
        text.push('/');
        text.push_str(number);
        if number.len() < step.len() {
            text.push(sign);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_core_writes_them() {
        for (given, written) in [
            ("02AB", "02ab"),
            ("[D34DB33F/84h/0']xpubA/0/*", "[d34db33f/84'/0']xpubA/0/*"),
            ("[d34db33f/84'/0']xpubA/<1;2>/*h", "[d34db33f/84h/0h]xpubA/2/*h"),
            ("xpubA/1'/*h", "xpubA/1'/*'"),
            ("xpubA/<0h;1'>/3h/*", "xpubA/1h/3h/*"),
        ] {
            assert_eq!(key(given, 1), written);
        }
        assert_eq!((paths("wpkh(K/<0;1;2>/*)"), paths("wpkh(K/*)")), (3, 1));
    }

    #[test]
    fn numbers_have_no_zeros_before_them() {
        for (given, written) in [
            ("wpkh([00000001/007h]K/00/<0;01>/*)", "wpkh([00000001/7h]K/0/<0;1>/*)"),
            ("sortedmulti(002,02AB,02AC)", "sortedmulti(2,02AB,02AC)"),
            ("tr(K,{multi_a(01,00AB),pk(00AB)})", "tr(K,{multi_a(1,00AB),pk(00AB)})"),
            ("wsh(thresh(01,v:older(00144),after(00)))", "wsh(thresh(1,v:older(144),after(0)))"),
            ("raw(0051)", "raw(0051)"),
        ] {
            assert_eq!(plain_numbers(given), written);
        }
    }

    #[test]
    fn wrappers_are_written_as_core_writes_them() {
        let text = |name: &str, argument| expression(name, argument, 0, &[], Chain::Main);
        assert_eq!(text("wsh", "c:pk_k(02AB)"), "wsh(pk(02ab))");
        assert_eq!(text("sortedmulti", "1,02AB,02AC"), "sortedmulti(1,02ab,02ac)");
        assert_eq!(text("tr", "AB,{pk(CD),pk(EF)}"), "tr(ab,{pk(cd),pk(ef)})");
        let sorted = "AB,{pk(EF),sortedmulti_a(1,CD,EF)}";
        assert_eq!(text("tr", sorted), "tr(ab,{pk(ef),sortedmulti_a(1,cd,ef)})");
        assert_eq!(text("raw", "AB"), "raw(ab)");
    }
}
