//! A reader of docs/format.md, whose first section explains how it is marked up.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The parts of the document that a program can check.
#[derive(Default)]
pub struct Document {
    /// The constants by name.
    pub constants: BTreeMap<String, Value>,
    /// The lines of the examples by name.
    pub examples: BTreeMap<String, Vec<Line>>,
    /// The patterns of paths, each with the word that says when such a file exists.
    pub files: Vec<(String, String)>,
}

/// The value of a constant.
#[derive(PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Bytes(Vec<u8>),
}

/// A line of an example: bytes, and the text that explains them.
pub struct Line {
    pub bytes: Vec<u8>,
    pub said: String,
}

impl Document {
    /// The document in the repository.
    pub fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        Self::parse(&std::fs::read_to_string(root.join("docs/format.md")).unwrap())
    }

    /// Reads a document; it panics where something looks like a checked part and is none.
    pub fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut example: Option<(String, Vec<Line>)> = None;
        for line in text.lines() {
            if let Some((name, mut lines)) = example.take() {
                if line == "```" {
                    let again = document.examples.insert(name.clone(), lines);
                    assert!(again.is_none(), "example {name} is there twice");
                } else {
                    lines.push(parse_line(line));
                    example = Some((name, lines));
                }
            } else if let Some(name) = line.strip_prefix("```") {
                let name = name.strip_prefix("hex ").expect("every fenced block is an example");
                example = Some((name.to_string(), Vec::new()));
            } else if let Some(row) = line.strip_prefix("| `") {
                document.parse_row(row);
            }
        }
        assert!(example.is_none(), "the last example does not end");
        document
    }

    fn parse_row(&mut self, row: &str) {
        let (name, rest) = row.split_once('`').expect("a closed name");
        let cells: Vec<&str> = rest.split('|').map(str::trim).collect();
        let [_, value, meaning, _] = cells[..] else { panic!("a row of three cells: {row}") };
        assert!(!meaning.is_empty(), "{name} has no meaning");
        if name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') {
            let again = self.constants.insert(name.to_string(), Value::parse(value));
            assert!(again.is_none(), "constant {name} is there twice");
        } else {
            self.files.push((name.to_string(), value.to_string()));
        }
    }

    /// The bytes of every example that is one byte string, by name.
    pub fn byte_strings(&self, but: &[&str]) -> BTreeMap<String, Hex> {
        let lines =
            |lines: &[Line]| Hex(lines.iter().flat_map(|line| line.bytes.clone()).collect());
        let strings = self.examples.iter().filter(|(name, _)| !but.contains(&name.as_str()));
        strings.map(|(name, example)| (name.clone(), lines(example))).collect()
    }
}

impl Value {
    /// Parses a number, a character in single quotes or a byte string in double quotes.
    fn parse(text: &str) -> Self {
        let text = text.trim_matches('`');
        if let Some(string) = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            return Self::Bytes(unescape(string));
        }
        if let Some(character) = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
            assert_eq!(character.len(), 1, "one character: {text}");
            return Self::Number(character.as_bytes()[0].into());
        }
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        Self::Number(number.unwrap_or_else(|_| panic!("no value: {text}")))
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number} ({number:#x})"),
            Self::Bytes(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
        }
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl From<&str> for Value {
    fn from(string: &str) -> Self {
        string.as_bytes().into()
    }
}

macro_rules! number {
    ($($integer:ty)+) => { $(
        impl From<$integer> for Value {
            fn from(number: $integer) -> Self {
                Self::Number(number as u64)
            }
        }
    )+ };
}
number!(u8 u32 i32 u64 usize);

/// Bytes whose `Debug` is hex.
#[derive(PartialEq, Eq)]
pub struct Hex(pub Vec<u8>);

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The bytes of hexadecimal digits with or without spaces.
pub fn from_hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| *c != ' ')
        .map(|c| c.to_digit(16).unwrap_or_else(|| panic!("not hexadecimal: {text}")))
        .collect();
    assert!(digits.len().is_multiple_of(2), "half a byte: {text}");
    digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

fn parse_line(line: &str) -> Line {
    let (bytes, said) = line.split_once('#').unwrap_or((line, ""));
    Line { bytes: from_hex(bytes.trim()), said: said.trim().to_string() }
}

/// The bytes of a string with `\0` and `\xNN` in it.
fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        rest = if let Some(rest) = escaped.strip_prefix('0') {
            bytes.push(0);
            rest
        } else {
            let digits = escaped.strip_prefix('x').and_then(|rest| rest.get(..2));
            bytes.extend(from_hex(digits.expect("\\0 or \\xNN")));
            &escaped[3..]
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

#[test]
fn a_small_document_is_read() {
    let text = "| `A_1` | 0x10 | x |\n| `B` | `'b'` | x |\n| `C` | `\"a\\0\\x0eb\"` | x |\n\
                | `d/e` | always | x |\n| 4 | bytes |\n```hex one\n01 02 # x\nff\n```\n";
    let document = Document::parse(text);
    let constant = |name: &str| &document.constants[name];
    assert_eq!(constant("A_1"), &Value::Number(16));
    assert_eq!(constant("B"), &Value::Number(0x62));
    assert_eq!(constant("C"), &Value::Bytes(b"a\0\x0eb".to_vec()));
    assert_eq!(document.files, [("d/e".to_string(), "always".to_string())]);
    assert_eq!(document.byte_strings(&[])["one"], Hex(vec![1, 2, 0xff]));
    assert_eq!(document.examples["one"][0].said, "x");
}
