//! Parses the text of a bitcoin.conf and of a settings.json.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Error, MapAccess, Visitor};

use super::names::NOT_NEGATABLE;
use super::value::{Value, truth};

/// The characters that Core trims from lines, names and values of a bitcoin.conf.
const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// The name under which Core writes a comment for human readers into settings.json.
const SETTINGS_COMMENT: &str = "_warning_";

/// One line of a bitcoin.conf that sets something.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Line {
    /// The network whose section the line is in; empty at the top of the file.
    pub section: String,
    /// The setting's name, without the `no` of a negated one.
    pub name: String,
    /// The setting's value.
    pub value: Value,
    /// The line's number, from 1.
    pub number: usize,
}

/// The lines of a bitcoin.conf.
#[derive(Default, Debug)]
pub struct Lines {
    /// The settings, in the order of the file.
    pub settings: Vec<Line>,
    /// The sections, each with its line number.
    pub sections: Vec<(String, usize)>,
}

/// Reads the text of a bitcoin.conf as Core does (`GetConfigOptions`).
///
/// # Errors
/// The number of a line that Core would refuse, and why.
pub fn parse(text: &str) -> Result<Lines, (usize, String)> {
    let mut lines = Lines::default();
    let mut prefix = String::new();
    for (number, line) in (1..).zip(text.split('\n')) {
        let (line, has_comment) = match line.split_once('#') {
            Some((before, _)) => (before, true),
            None => (line, false),
        };
        let line = line.trim_matches(BLANKS);
        if line.is_empty() {
            continue;
        }
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            lines.sections.push((section.to_string(), number));
            prefix = format!("{section}.");
            continue;
        }
        let (name, value) = setting_of(line, has_comment).map_err(|why| (number, why))?;
        let name = format!("{prefix}{name}");
        if let Some(dot) = name.rfind('.').filter(|dot| *dot >= prefix.len()) {
            lines.sections.push((name[..dot].to_string(), number));
        }
        lines.settings.push(interpret(&name, value, number).map_err(|why| (number, why))?);
    }
    Ok(lines)
}

/// Returns the name and value of a line that is neither empty nor the head of a section.
fn setting_of(line: &str, has_comment: bool) -> Result<(&str, &str), String> {
    if line.starts_with('-') {
        return Err(format!("'{line}': settings in this file are written without a leading '-'"));
    }
    let Some((name, value)) = line.split_once('=') else {
        let negated = match line.strip_prefix("no") {
            Some(_) => format!(", or {line}=1 to negate a setting"),
            None => String::new(),
        };
        return Err(format!("'{line}' sets nothing: write name=value{negated}"));
    };
    let name = name.trim_matches(BLANKS);
    if has_comment && name.contains("rpcpassword") {
        return Err("a '#' starts a comment, so it cannot be in rpcpassword".to_string());
    }
    Ok((name, value.trim_matches(BLANKS)))
}

/// Splits a setting into section, negation, name and value (`InterpretKey`, `InterpretValue`).
fn interpret(key: &str, value: &str, number: usize) -> Result<Line, String> {
    let (section, name) = key.split_once('.').unwrap_or(("", key));
    let (name, value) = match name.strip_prefix("no") {
        Some(name) if NOT_NEGATABLE.contains(&name) => {
            return Err(format!("{name} cannot be negated: delete no{name}"));
        }
        Some(name) => (name, Value::Bool(!truth(value))),
        None => (name, Value::Text(value.to_string())),
    };
    if name == "conf" {
        return Err("conf cannot be set in this file: use includeconf=FILE".to_string());
    }
    Ok(Line { section: section.to_string(), name: name.to_string(), value, number })
}

/// Reads a settings.json: one JSON object whose names are those of settings.
///
/// # Errors
/// The text is not JSON or not an object, or a name occurs twice.
pub fn parse_settings(bytes: &[u8]) -> Result<BTreeMap<String, Value>, String> {
    let Pairs(mut settings) =
        serde_json::from_slice::<Pairs>(bytes).map_err(|error| error.to_string())?;
    settings.remove(SETTINGS_COMMENT);
    Ok(settings)
}

/// The members of an object, each name once.
struct Pairs(BTreeMap<String, Value>);

impl<'de> Deserialize<'de> for Pairs {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor)
    }
}

struct PairsVisitor;

impl<'de> Visitor<'de> for PairsVisitor {
    type Value = Pairs;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of settings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs, A::Error> {
        let mut settings = BTreeMap::new();
        while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
            if settings.insert(name.clone(), Value::from(value)).is_some() {
                return Err(A::Error::custom(format!("'{name}' is set twice")));
            }
        }
        Ok(Pairs(settings))
    }
}
