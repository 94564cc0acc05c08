//! Paths, parameters and answers of the REST interface.

use super::json::{Json, from_hex, hex};

/// An answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RestAnswer {
    /// The status of HTTP.
    pub status: u16,
    pub content_type: &'static str,
    /// Whether the answer to the request will always be the same.
    pub is_immutable: bool,
    /// The content.
    pub body: Vec<u8>,
}

const TEXT: &str = "text/plain";

impl RestAnswer {
    fn of(status: u16, content_type: &'static str, body: Vec<u8>) -> Self {
        Self { status, content_type, is_immutable: false, body }
    }

    /// Returns what caches on the way may do with the answer, for the header `Cache-Control`.
    pub fn caching(&self) -> &'static str {
        if self.is_immutable { "public, immutable, max-age=86400" } else { "no-store" }
    }

    pub fn json(json: &Json) -> Self {
        let body = format!("{}\n", json.get()).into_bytes();
        Self::of(200, "application/json", body)
    }

    pub fn text(text: String) -> Self {
        Self::of(200, TEXT, text.into_bytes())
    }

    /// Returns bytes, as they are or in hex.
    ///
    /// # Errors
    /// The format is neither.
    pub fn bytes(format: Format, bytes: Vec<u8>) -> Result<Self, Self> {
        match format {
            Format::Binary => Ok(Self::of(200, "application/octet-stream", bytes)),
            Format::Hex => Ok(Self::text(hex(&bytes) + "\n")),
            Format::Json | Format::Unknown => Err(Self::unknown_format()),
        }
    }

    /// Returns an error (Core's `RESTERR`).
    pub fn error(status: u16, message: impl Into<String>) -> Self {
        Self::of(status, TEXT, (message.into() + "\r\n").into_bytes())
    }

    /// Returns the error for a request that cannot be understood.
    pub fn bad(message: impl Into<String>) -> Self {
        Self::error(400, message)
    }

    /// Returns the error for something that does not exist.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::error(404, message)
    }

    /// Returns the error for a path without a known format at its end.
    pub fn unknown_format() -> Self {
        Self::not_found("output format not found (available: .bin, .hex, .json)")
    }
}

/// The format of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// None that is known.
    Unknown,
    /// Bytes.
    Binary,
    /// Bytes in hex.
    Hex,
    /// JSON.
    Json,
}

/// The path of a request, without the format at its end (Core's `ParseDataFormat`).
pub struct Path<'a> {
    /// The path.
    pub whole: &'a str,
    pub format: Format,
}

impl<'a> Path<'a> {
    /// Divides a path.
    pub fn new(path: &'a str) -> Self {
        let format = |suffix: &str| match suffix {
            "bin" => Some(Format::Binary),
            "hex" => Some(Format::Hex),
            "json" => Some(Format::Json),
            // A dot alone is left out, too.
            "" => Some(Format::Unknown),
            _ => None,
        };
        let divided = path.rsplit_once('.');
        match divided.and_then(|(whole, suffix)| Some((whole, format(suffix)?))) {
            Some((whole, format)) => Self { whole, format },
            None => Self { whole: path, format: Format::Unknown },
        }
    }

    /// Returns the parts between slashes.
    pub fn parts(&self) -> Vec<&'a str> {
        self.whole.split('/').collect()
    }
}

/// Returns the value of the first parameter with this name after the question mark of a request
/// (Core's `GetQueryParameterFromUri`).
pub fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.find(|(key, _)| decoded(key) == name).map(|(_, value)| decoded(value))
}

/// Returns a text whose percent signs with two hex digits stand for bytes.
fn decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut bytes = pieces.next().unwrap_or_default().as_bytes().to_vec();
    for piece in pieces {
        match piece.get(..2).and_then(from_hex) {
            Some(byte) => {
                bytes.extend(byte);
                bytes.extend(&piece.as_bytes()[2..]);
            }
            None => {
                bytes.push(b'%');
                bytes.extend(piece.as_bytes());
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded() {
        for (query, value) in [
            ("count=7&count=8", Some("7")),
            ("%63oun%74=%31%3A", Some("1:")),
            ("x&count", Some("")),
            ("count=%&x", Some("%")),
            ("count=%3&x", Some("%3")),
            ("count=%zz%%31+", Some("%zz%1+")),
            ("count=%+1%C3%a9", Some("%+1\u{e9}")),
            ("counts=7", None),
        ] {
            assert_eq!(parameter(query, "count").as_deref(), value, "{query}");
        }
    }

    #[test]
    fn the_format_is_at_the_end() {
        for (path, whole, format) in [
            ("a/b.json", "a/b", Format::Json),
            ("a.b.bin", "a.b", Format::Binary),
            ("ab.", "ab", Format::Unknown),
            ("ab.txt", "ab.txt", Format::Unknown),
            ("", "", Format::Unknown),
        ] {
            let path = Path::new(path);
            assert_eq!((path.whole, path.format), (whole, format));
        }
    }
}
