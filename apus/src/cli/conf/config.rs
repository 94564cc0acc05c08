//! The settings of one run, and which of them it has used.

use std::path::{Path, PathBuf};

use super::command_line::CommandLine;
use super::error::ConfError;
use super::load::{Given, Loaded, Reader, Which, load};
use super::merge::{self, Found, Setting, SettingPlace};
use super::names::NETWORK_ONLY;
use super::network::NETWORK_FLAGS;
use super::value::{self, Value};

/// The file that a setting names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// The one with the usual name.
    Default,
    /// The one at this path.
    This(PathBuf),
    /// None: the setting is negated.
    Nothing,
}

/// All settings of a run, with the data directory and the network that they name.
#[derive(Debug)]
pub struct Config {
    /// The contents of the settings files.
    pub loaded: Loaded,
    /// The settings that this run took from files, as file and `name=value`, for its first line.
    used: Vec<(PathBuf, String)>,
}

impl Config {
    /// Reads the settings files with [`load`], and warns of settings whose meaning may surprise.
    ///
    /// # Errors
    /// As for [`load`].
    pub fn load(given: &Given, read: &Reader) -> Result<Self, ConfError> {
        let mut config = Self { loaded: load(given, read)?, used: Vec::new() };
        config.note_directory_and_network();
        config.warn_of_words();
        Ok(config)
    }

    /// Returns the setting in effect under this name.
    ///
    /// # Errors
    /// The setting is a list, an object or no whole number in settings.json, or its line in
    /// bitcoin.conf is not UTF-8.
    pub fn find(&self, name: &str) -> Result<Option<Found>, String> {
        let Some(setting) = self.setting(name) else { return Ok(None) };
        setting.check_text(name)?;
        let Setting { value, place } = setting;
        match value {
            Value::Array(_) | Value::Object => Err(format!(
                "{place}: {name} must be a text, a number, true or false, not a list or an object"
            )),
            Value::Number(number) if number.parse::<i64>().is_err() => Err(format!(
                "{place}: {name} must be an integer of 64 bits: bitcoind does not start with \
                 another number either"
            )),
            value => Ok(value.text().map(|text| Found { text, place })),
        }
    }

    fn setting(&self, name: &str) -> Option<Setting> {
        self.loaded.sources.get(self.loaded.chain.name(), name)
    }

    /// Returns the setting in effect under this name, and lists it in the first line of the run.
    pub fn take(&mut self, name: &str) -> Result<Option<Found>, String> {
        let found = self.find(name)?;
        if let Some(found) = &found {
            self.note_used(name, found);
        }
        Ok(found)
    }

    /// Returns whether a setting is on, as [`Config::is_on`] does, and lists it in the first line
    /// of the run.
    pub fn take_flag(&mut self, name: &str, if_absent: bool) -> Result<bool, String> {
        self.take(name)?;
        Ok(self.is_on(name, if_absent))
    }

    /// Returns the file that a setting names (Core's `GetPathArg`), and lists it in the first line
    /// of the run. An empty name is the default.
    pub fn take_path(&mut self, name: &str) -> Result<Named, String> {
        let found = self.take(name)?;
        if self.setting(name).is_some_and(|setting| setting.value.is_negated()) {
            return Ok(Named::Nothing);
        }
        let path = found.map(|found| found.text).filter(|path| !path.is_empty());
        Ok(path.map_or(Named::Default, |path| Named::This(path.into())))
    }

    /// Lists a setting in the first line of the run, if a file has it.
    pub fn note_used(&mut self, name: &str, found: &Found) {
        let SettingPlace::File(path, line) = &found.place else { return };
        let words = match self.setting(name).map(|setting| setting.value) {
            // bitcoin.conf has no other way to write this.
            Some(Value::Bool(on)) if line.is_some() => format!("no{name}={}", u8::from(!on)),
            _ => format!("{name}={}", found.text),
        };
        let used = (path.clone(), words);
        if !self.used.contains(&used) {
            self.used.push(used);
        }
    }

    /// Returns the setting as an integer: the number at the start of its text, as Core reads it.
    pub fn take_number(&mut self, name: &str) -> Result<Option<i64>, String> {
        let Some(Found { text, place }) = self.take(name)? else { return Ok(None) };
        let number = value::integer(&text);
        if text.trim().parse() != Ok(number) && place != SettingPlace::CommandLine {
            self.loaded.warnings.push(format!(
                "{place}: {name}={text} is read as {name}={number}, as Bitcoin Core reads it"
            ));
        }
        Ok(Some(number))
    }

    /// Returns the setting as a number of a type that the command line has checked.
    pub fn take_number_of<T: TryFrom<i64>>(&mut self, name: &str) -> Result<Option<T>, String> {
        let Some(number) = self.take_number(name)? else { return Ok(None) };
        let out_of_range = |_| format!("{} is out of range", self.origin_of(name));
        T::try_from(number).map(Some).map_err(out_of_range)
    }

    /// Returns the setting as a port. Core takes no other number in a file, and no word.
    pub fn take_port(&mut self, name: &str) -> Result<Option<u16>, String> {
        let Some(found) = self.take(name)? else { return Ok(None) };
        let port = found.text.parse().ok().filter(|port| *port != 0 || found.is_given());
        let Found { text, .. } = &found;
        let wrong = || format!("Invalid port specified in {}: '{text}'", found.origin(name));
        port.ok_or_else(wrong).map(Some)
    }

    /// Returns all values of a setting that may be given many times, as Core merges them (its
    /// `GetSettingsList`): those of the command line, followed by those of files. Lists those of
    /// files in the first line of the run.
    ///
    /// # Errors
    /// A line of bitcoin.conf is not UTF-8.
    pub fn take_list(&mut self, name: &str) -> Result<Vec<Found>, String> {
        let list = self.secrets(name)?;
        for Found { text, place } in &list {
            if let SettingPlace::File(path, _) = place {
                self.used.push((path.clone(), format!("{name}={text}")));
            }
        }
        Ok(list)
    }

    /// Does the same as [`Config::take_list`], for a setting of which the command line replaces the
    /// values that files have.
    pub fn take_replaced_list(&mut self, name: &str) -> Result<Vec<Found>, String> {
        if self.is_given(name) { Ok(self.given(name)) } else { self.take_list(name) }
    }

    /// Returns the values that the command line has for an option.
    pub fn given(&self, name: &str) -> Vec<Found> {
        merge::texts(self.loaded.sources.command_line.get(name).cloned().unwrap_or_default())
    }

    /// Returns whether the command line has an option.
    pub fn is_given(&self, name: &str) -> bool {
        !self.given(name).is_empty()
    }

    /// Names the setting `name` that is in effect, its value and its place, for an error.
    pub fn origin_of(&self, name: &str) -> String {
        match self.find(name) {
            Ok(Some(found)) => found.with_value(name),
            // A list, in settings.json.
            _ => format!("{name} from a settings file"),
        }
    }

    /// Returns all values of a setting that is secret: the first line of the run does not list it.
    pub fn secrets(&self, name: &str) -> Result<Vec<Found>, String> {
        let list = self.loaded.sources.list(self.loaded.chain.name(), name);
        list.iter().try_for_each(|setting| setting.check_text(name))?;
        Ok(merge::texts(list))
    }

    /// Returns whether a setting is on; `if_absent` if there is none.
    pub fn is_on(&self, name: &str, if_absent: bool) -> bool {
        match self.setting(name) {
            Some(Setting { value, .. }) if value != Value::Null => value.truth(),
            _ => if_absent,
        }
    }

    /// Returns the options that name this run's network in a command with its data directory, whose
    /// own bitcoin.conf may name it, or another one. Empty if none are needed.
    pub fn network_options(&self, read: &Reader) -> String {
        let Loaded { chain, datadir, .. } = &self.loaded;
        let leads_here = |others: &[(&'static str, &str)]| {
            let others = others.iter().map(|(name, value)| (*name, value.to_string())).collect();
            let given = Given {
                datadir: Some(datadir.clone()),
                usual_datadir: Ok(datadir.clone()),
                conf: Which::Usual,
                settings: Which::Not,
                includes: true,
                others,
            };
            load(&given, read).is_ok_and(|loaded| loaded.chain == *chain)
        };
        if leads_here(&[]) {
            return String::new();
        }
        let named = [("chain", chain.name())];
        let off = NETWORK_FLAGS.map(|(name, _)| (name, "0"));
        let all: Vec<_> = off.into_iter().chain(named).collect();
        let chosen = if leads_here(&named) || !leads_here(&all) { &named[..] } else { &all };
        let options: Vec<_> =
            chosen.iter().map(|(name, value)| format!("-{name}={value}")).collect();
        options.join(" ")
    }

    /// Adds the options of the command line, which go before the settings of files.
    ///
    /// # Errors
    /// Settings at the top of bitcoin.conf apply only in the section of a test network, and no
    /// option replaces them. bitcoind refuses them, too: without `connect` it would ask others for
    /// peers.
    pub fn add_command_line(&mut self, given: &CommandLine) -> Result<(), String> {
        self.loaded.sources.command_line.clone_from(&given.0);
        let chain = self.loaded.chain.name();
        let wrong: Vec<String> = NETWORK_ONLY
            .iter()
            .filter_map(|name| {
                let Setting { place, .. } = self.loaded.sources.unsuitable(chain, name)?;
                Some(format!("{place}: {name} is only applied on {chain} in section [{chain}]"))
            })
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        let remedy = format!("move it below a line [{chain}], or delete it");
        Err(format!("{}: {remedy}. bitcoind does not start with it either", wrong.join("; ")))
    }

    /// Returns the settings that this run took from files, by file, in the order of first use.
    pub fn used(&self) -> Vec<(&Path, Vec<&str>)> {
        let mut files: Vec<(&Path, Vec<&str>)> = Vec::new();
        for (path, setting) in &self.used {
            match files.iter_mut().find(|(file, _)| file == path) {
                Some((_, settings)) => settings.push(setting),
                None => files.push((path, vec![setting])),
            }
        }
        files
    }

    fn note_directory_and_network(&mut self) {
        if let Some(SettingPlace::File(path, _)) = &self.loaded.datadir_place {
            self.used.push((path.clone(), format!("datadir={}", self.loaded.datadir.display())));
        }
        let named = NETWORK_FLAGS.iter().find_map(|(name, _)| {
            Some(format!("{name}=1")).zip(self.loaded.sources.network_flag(name))
        });
        let chain = || {
            Some(format!("chain={}", self.loaded.chain.name()))
                .zip(self.loaded.sources.get("", "chain"))
        };
        if let Some((text, Setting { place: SettingPlace::File(path, _), .. })) =
            named.or_else(chain)
        {
            self.used.push((path, text));
        }
    }

    /// Warns of a word such as `true`, which is meant to select a network and counts as 0.
    fn warn_of_words(&mut self) {
        let Some(top) = self.loaded.sources.sections.get("") else { return };
        for setting in NETWORK_FLAGS.iter().filter_map(|(name, _)| top.get(*name)).flatten() {
            let Value::Text(text) = &setting.value else { continue };
            if !text.is_empty() && text.parse::<i64>().is_err() {
                self.loaded.warnings.push(format!(
                    "{}: '{text}' is read as {}, as Bitcoin Core reads it: write 1 or 0",
                    setting.place,
                    value::integer(text)
                ));
            }
        }
    }
}
