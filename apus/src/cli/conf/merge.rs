//! Precedence among several settings of one name.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use super::names::NETWORK_ONLY;
use super::value::Value;

/// Where a setting was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SettingPlace {
    /// An argument on the command line.
    CommandLine,
    /// A file, and the line in it if it is known.
    File(PathBuf, Option<usize>),
}

impl fmt::Display for SettingPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommandLine => f.write_str("the command line"),
            Self::File(path, Some(line)) => write!(f, "{}:{line}", path.display()),
            Self::File(path, None) => path.display().fmt(f),
        }
    }
}

/// A value, and where it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    pub value: Value,
    pub place: SettingPlace,
}

impl Setting {
    /// Checks the text of a setting that a run uses.
    ///
    /// # Errors
    /// Its line in bitcoin.conf is not UTF-8. A changed name would be that of another file.
    pub fn check_text(&self, name: &str) -> Result<(), String> {
        let is_damaged = matches!(&self.value, Value::Text(text) if text.contains('\u{fffd}'));
        if !is_damaged || self.place == SettingPlace::CommandLine {
            return Ok(());
        }
        Err(format!(
            "{}: the value of {name} is not UTF-8, or has the character U+FFFD, which some editors \
             put in place of such bytes: save the file as UTF-8",
            self.place
        ))
    }
}

/// A setting's value as a text, and where it was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    pub text: String,
    pub place: SettingPlace,
}

impl Found {
    /// Returns whether the command line has this value.
    pub fn is_given(&self) -> bool {
        self.place == SettingPlace::CommandLine
    }

    /// Names the option or the setting `name` that has this value, for an error.
    pub fn origin(&self, name: &str) -> String {
        match &self.place {
            SettingPlace::CommandLine => format!("--{name}"),
            SettingPlace::File(..) => format!("{name} from {}", self.place),
        }
    }

    /// Does the same as [`Found::origin`], and names the value, too.
    pub fn with_value(&self, name: &str) -> String {
        self.origin(&format!("{name}={}", self.text))
    }
}

/// The section of the main network.
const MAIN: &str = "main";

/// Settings by name; those of one name are in the order in which they were read.
pub type ByName = BTreeMap<String, Vec<Setting>>;

/// All settings, by where they come from (Core's `common::Settings`).
#[derive(Default, Debug)]
pub struct Sources {
    pub command_line: ByName,
    /// settings.json.
    pub settings: ByName,
    /// bitcoin.conf by section; the empty name is the top of the file.
    pub sections: BTreeMap<String, ByName>,
}

/// The kinds of sources of settings, each with its own rules of precedence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    CommandLine,
    SettingsJson,
    ConfigFile,
}

impl Sources {
    /// Returns the setting in effect on the network `section`: from the command line,
    /// settings.json, the network's section, or the top of the file. The last one counts on the
    /// command line, and in a file the first one after the last negation.
    pub fn get(&self, section: &str, name: &str) -> Option<Setting> {
        self.spans(section, name).find_map(|(kind, span)| one_of(span, kind == Kind::ConfigFile))
    }

    /// Returns the setting `regtest`, `signet`, `testnet` or `testnet4` if it is on. In a file,
    /// these count only at the top, where the last one counts as well (`GetChainArg`).
    pub fn network_flag(&self, name: &str) -> Option<Setting> {
        let spans = self.spans("", name).filter(|(kind, _)| *kind != Kind::SettingsJson);
        let mut settings =
            spans.filter_map(|(_, span)| if is_negated(span) { None } else { one_of(span, false) });
        settings.next().filter(|setting| setting.value.truth())
    }

    /// Returns all values of a setting that may be given many times (`GetSettingsList`). A negation
    /// hides sources of lower precedence; if values follow it, Core includes bitcoin.conf again.
    pub fn list(&self, section: &str, name: &str) -> Vec<Setting> {
        let mut all = Vec::new();
        let mut done = false;
        let mut negated_and_empty = false;
        for (kind, span) in self.spans(section, name) {
            if !done || (kind == Kind::ConfigFile && !negated_and_empty) {
                for setting in &span[negated(span)..] {
                    match &setting.value {
                        Value::Array(values) => all.extend(values.iter().map(|value| Setting {
                            value: value.clone(),
                            place: setting.place.clone(),
                        })),
                        _ => all.push(setting.clone()),
                    }
                }
            }
            done |= negated(span) > 0;
            negated_and_empty |= is_negated(span) && all.is_empty();
        }
        all
    }

    /// Returns the first of the settings at the top of the file which apply only in the section of
    /// the network `section`, unless another source has this setting, too: for these, bitcoind does
    /// not start (`GetUnsuitableSectionOnlyArgs`). A negation applies everywhere.
    pub fn unsuitable(&self, section: &str, name: &str) -> Option<&Setting> {
        let top = self.sections.get("")?.get(name)?;
        let is_dropped = drops_top(section, name) && !is_negated(top);
        let is_elsewhere = self.spans(section, name).any(|(_, span)| !is_negated(span));
        top[negated(top)..].first().filter(|_| is_dropped && !is_elsewhere)
    }

    /// Returns the settings of this name in each source that has any, in order of precedence.
    fn spans<'a>(
        &'a self,
        section: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = (Kind, &'a [Setting])> {
        let in_section = |section: &str| self.sections.get(section);
        let own = if section.is_empty() { None } else { in_section(section) };
        let sources = [
            (Kind::CommandLine, Some(&self.command_line)),
            (Kind::SettingsJson, Some(&self.settings)),
            (Kind::ConfigFile, own),
        ];
        let above =
            sources.into_iter().filter_map(move |(kind, source)| Some((kind, source?.get(name)?)));
        let top = in_section("").and_then(|top| top.get(name));
        // A negation at the top counts even where the setting does not.
        let top = top.filter(|top| !drops_top(section, name) || is_negated(top));
        above.chain(top.map(|top| (Kind::ConfigFile, top))).map(|(kind, span)| (kind, &**span))
    }
}

/// Returns whether a setting applies on this network only in the network's own section.
fn drops_top(section: &str, name: &str) -> bool {
    !section.is_empty() && section != MAIN && NETWORK_ONLY.contains(&name)
}

/// Returns the setting in effect among those of one source; `None` if there is none.
fn one_of(span: &[Setting], first_counts: bool) -> Option<Setting> {
    let after = &span[negated(span)..];
    let chosen = if first_counts { after.first() } else { after.last() };
    chosen.or(span.last()).cloned()
}

/// Returns how many settings the last negation clears, itself among them.
pub fn negated(span: &[Setting]) -> usize {
    span.iter().rposition(|setting| setting.value.is_negated()).map_or(0, |last| last + 1)
}

fn is_negated(span: &[Setting]) -> bool {
    !span.is_empty() && negated(span) == span.len()
}

/// Returns the settings that have a text.
pub fn texts(settings: Vec<Setting>) -> Vec<Found> {
    let texts = settings.into_iter();
    texts
        .filter_map(|Setting { value, place }| Some(Found { text: value.text()?, place }))
        .collect()
}
