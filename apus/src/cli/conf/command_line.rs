//! The options given on the command line, as settings that go before those of files.

use clap::{ArgMatches, Args, Command, Error, FromArgMatches};

use super::merge::{ByName, Setting, SettingPlace};
use super::value::Value;

/// The options that the command line has, by name. It is the first field of a command's arguments:
/// reading an option removes it.
#[derive(Clone, Default)]
pub struct CommandLine(pub ByName);

impl Args for CommandLine {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for CommandLine {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let given = matches.ids().filter(|id| {
            matches.value_source(id.as_str()) == Some(clap::parser::ValueSource::CommandLine)
        });
        Ok(Self(given.map(|id| (id.to_string(), settings(matches, id.as_str()))).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn settings(matches: &ArgMatches, id: &str) -> Vec<Setting> {
    let setting = |value| Setting { value: Value::Text(value), place: SettingPlace::CommandLine };
    // An option without a value; clap calls it `true`, a word that counts as 0.
    if matches.try_get_one::<bool>(id).is_ok() {
        return vec![setting("1".to_string())];
    }
    let values = matches.get_raw(id).into_iter().flatten();
    values.map(|value| setting(value.to_string_lossy().into_owned())).collect()
}
