//! The value of a setting, and how Core reads its text.

/// The value of a setting, as Bitcoin Core holds it between reading and use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// `null` in settings.json: as if neither this file nor one of lower precedence had the
    /// setting.
    Null,
    /// `false` is a negated setting (`noX=1`); `true` a setting negated twice (`noX=0`).
    Bool(bool),
    /// The text after `=`, or a string in settings.json.
    Text(String),
    /// A number in settings.json.
    Number(String),
    /// An array in settings.json.
    Array(Vec<Value>),
    /// An object in settings.json, which no setting of Apus takes.
    Object,
}

impl Value {
    /// Returns whether the setting is negated, which clears what was set before it.
    pub fn is_negated(&self) -> bool {
        *self == Self::Bool(false)
    }

    /// Returns whether some setting may take the value: it is not an object, and not a list of
    /// anything but single values.
    pub fn is_flat(&self) -> bool {
        match self {
            Self::Array(values) => values.iter().all(|value| value.text().is_some()),
            Self::Object => false,
            _ => true,
        }
    }

    /// Returns the value as text: `0` or `1` for a boolean, `None` for null, an array or an object.
    pub fn text(&self) -> Option<String> {
        match self {
            Self::Bool(value) => Some(u8::from(*value).to_string()),
            Self::Text(text) | Self::Number(text) => Some(text.clone()),
            Self::Null | Self::Array(_) | Self::Object => None,
        }
    }

    /// Returns the value as a boolean, by [`truth`].
    pub fn truth(&self) -> bool {
        self.text().is_some_and(|text| truth(&text))
    }
}

impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(value) => Self::Bool(value),
            serde_json::Value::Number(number) => Self::Number(number.to_string()),
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Array(values) => {
                Self::Array(values.into_iter().map(Self::from).collect())
            }
            serde_json::Value::Object(_) => Self::Object,
        }
    }
}

/// Returns the boolean that Core reads from a text (`InterpretBool`): an empty text and a number
/// other than 0 are true; any word is false, `true` included.
pub fn truth(text: &str) -> bool {
    // A number beyond 32 bits saturates there, and is not 0 either way.
    text.is_empty() || integer(text) != 0
}

/// Returns the integer that Core reads from a text (`LocaleIndependentAtoi`): the digits at its
/// start, saturating at 64 bits, or 0 if there are none.
pub fn integer(text: &str) -> i64 {
    let text = text.trim_matches([' ', '\x0c', '\n', '\r', '\t', '\x0b']);
    let (negative, digits) = match (text.strip_prefix('+'), text.strip_prefix('-')) {
        (Some(digits), _) => (false, digits),
        (None, Some(digits)) => (true, digits),
        (None, None) => (false, text),
    };
    let digits = digits.bytes().take_while(u8::is_ascii_digit);
    digits.fold(0i64, |sum, digit| {
        let digit = i64::from(digit - b'0');
        let digit = if negative { -digit } else { digit };
        sum.saturating_mul(10).saturating_add(digit)
    })
}
