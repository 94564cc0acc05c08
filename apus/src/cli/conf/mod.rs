//! Settings that Bitcoin Core keeps in bitcoin.conf and settings.json, found and merged as Core
//! does it. Files are read through a function that the caller hands in, and nothing is written.

mod disk;
mod merge;
mod parse;
#[cfg(test)]
mod tests;
mod value;

use std::io;
use std::path::{Path, PathBuf};

use merge::{Setting, Sources};
use value::Value;

use crate::wire::{Chain, Network};

pub use disk::{check_directories, read_file};
pub use merge::Place;

/// The name of Core's configuration file in a data directory.
const CONF: &str = "bitcoin.conf";
/// The name of the file in which Core and its window keep what is set while they run.
const SETTINGS: &str = "settings.json";
/// Settings that name a network, and which.
const NETWORK_FLAGS: [(&str, Chain); 4] = [
    ("regtest", Chain::Regtest),
    ("signet", Chain::Signet),
    ("testnet", Chain::Test),
    ("testnet4", Chain::Testnet4),
];

/// Reads a whole file.
pub type Reader<'a> = dyn Fn(&Path) -> io::Result<Vec<u8>> + 'a;

/// Which file to read, of a kind that has a usual name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Which {
    /// The one with the usual name, if it is there.
    #[default]
    Usual,
    /// This one, which must be there.
    This(PathBuf),
    /// None.
    Not,
}

/// What the command line says that decides which files are read.
#[derive(Clone, Debug)]
pub struct Given {
    /// `--datadir`.
    pub datadir: Option<PathBuf>,
    /// The data directory where nothing names one; why there is none, if so.
    pub usual_datadir: Result<PathBuf, String>,
    /// `--conf` and `--noconf`.
    pub conf: Which,
    /// `--settings` and `--nosettings`.
    pub settings: Which,
    /// Whether bitcoin.conf may include other files; `--noincludeconf` says no.
    pub includes: bool,
    /// `--chain`, `--regtest` and others that are merged with what files say: name and value.
    pub others: Vec<(&'static str, String)>,
}

/// All settings of a run, and the directory and the network that they name.
#[derive(Debug)]
pub struct Config {
    /// The network.
    pub chain: Chain,
    /// The data directory's root.
    pub datadir: PathBuf,
    /// The file and line that name the data directory; `None`: the command line or the default.
    datadir_place: Option<Place>,
    /// The bitcoin.conf of this run, whether or not it exists; `None`: none is wanted.
    conf: Option<PathBuf>,
    /// The challenges of a signet of its own; settings.json has no say in them.
    pub challenges: Vec<(String, Place)>,
    /// What to say before the work starts, a line each.
    pub warnings: Vec<String>,
    /// Settings from files that this run took, for its first line: file and `name=value`.
    used: Vec<(PathBuf, String)>,
    sources: Sources,
}

impl Config {
    /// Reads bitcoin.conf, what it includes, and settings.json, in Core's order: the directory that
    /// the command line names, or else the default one, holds bitcoin.conf; that may name another
    /// data directory and the network, whose directory holds settings.json.
    ///
    /// # Errors
    /// A file cannot be read or holds what Core refuses; more than one network is named, or none
    /// that exists; no data directory is named, and there is no default.
    pub fn load(given: &Given, read: &Reader) -> Result<Self, String> {
        let mut loading = Loading { given, read, sources: Sources::default(), warnings: vec![] };
        for (name, value) in &given.others {
            let setting = Setting { value: Value::Text(value.clone()), place: Place::CommandLine };
            loading.sources.command_line.entry(name.to_string()).or_default().push(setting);
        }
        let conf = loading.conf_path()?;
        if let Some(path) = &conf {
            loading.read_conf(path)?;
        }
        let chain = loading.sources.chain()?;
        let (datadir, datadir_place) = loading.datadir(chain)?;
        let challenges = texts(loading.sources.list(chain.name(), "signetchallenge"));
        loading.read_settings(chain, &datadir)?;
        let Loading { sources, warnings, .. } = loading;
        let mut config = Self {
            chain,
            datadir,
            datadir_place,
            conf,
            challenges,
            warnings,
            used: Vec::new(),
            sources,
        };
        config.note_directory_and_network();
        config.warn_of_words();
        Ok(config)
    }

    /// The setting that counts, and where it was found.
    ///
    /// # Errors
    /// It is a list or an object, in settings.json.
    pub fn find(&self, name: &str) -> Result<Option<(String, Place)>, String> {
        let Some(Setting { value, place }) = self.sources.get(self.chain.name(), name) else {
            return Ok(None);
        };
        match value {
            Value::Array(_) | Value::Object => {
                Err(format!("{place}: {name} must have one value, a text, a number, true or false"))
            }
            value => Ok(value.text().map(|text| (text, place))),
        }
    }

    /// The setting's text, which the run's first line then names as used.
    pub fn take(&mut self, name: &str) -> Result<Option<(String, Place)>, String> {
        let found = self.find(name)?;
        if let Some((text, Place::File(path, _))) = &found {
            self.used.push((path.clone(), format!("{name}={text}")));
        }
        Ok(found)
    }

    /// The setting as an integer, which is what its text starts with, as Core has it.
    pub fn take_number(&mut self, name: &str) -> Result<Option<i64>, String> {
        let Some((text, place)) = self.take(name)? else { return Ok(None) };
        let number = value::integer(&text);
        if text.trim().parse() != Ok(number) {
            self.warnings.push(format!(
                "{place}: {name}={text} counts as {name}={number}, as it does for Bitcoin Core"
            ));
        }
        Ok(Some(number))
    }

    /// All values of a setting that may be given many times; the run's first line names them.
    pub fn take_list(&mut self, name: &str) -> Vec<(String, Place)> {
        let list = texts(self.sources.list(self.chain.name(), name));
        for (text, place) in &list {
            if let Place::File(path, _) = place {
                self.used.push((path.clone(), format!("{name}={text}")));
            }
        }
        list
    }

    /// Whether a setting is on, or off where `if_absent` says so.
    pub fn is_on(&self, name: &str, if_absent: bool) -> bool {
        match self.sources.get(self.chain.name(), name) {
            Some(Setting { value, .. }) if value != Value::Null => value.truth(),
            _ => if_absent,
        }
    }

    /// The settings that this run took from files, by file, in the order of first use.
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
        if let Some(Place::File(path, _)) = &self.datadir_place {
            self.used.push((path.clone(), format!("datadir={}", self.datadir.display())));
        }
        let named = NETWORK_FLAGS
            .iter()
            .find_map(|(name, _)| Some(format!("{name}=1")).zip(self.sources.network_flag(name)));
        let chain =
            || Some(format!("chain={}", self.chain.name())).zip(self.sources.get("", "chain"));
        if let Some((text, Setting { place: Place::File(path, _), .. })) = named.or_else(chain) {
            self.used.push((path, text));
        }
    }

    /// Warns of networks that a word is meant to switch on, which it does not.
    fn warn_of_words(&mut self) {
        let Some(top) = self.sources.sections.get("") else { return };
        for setting in NETWORK_FLAGS.iter().filter_map(|(name, _)| top.get(*name)).flatten() {
            let Value::Text(text) = &setting.value else { continue };
            if !text.is_empty() && text.parse::<i64>().is_err() {
                self.warnings.push(format!(
                    "{}: '{text}' counts as {}, as it does for Bitcoin Core: write 1 or 0",
                    setting.place,
                    value::integer(text)
                ));
            }
        }
    }
}

/// The files of a run while they are being read.
struct Loading<'a> {
    given: &'a Given,
    read: &'a Reader<'a>,
    sources: Sources,
    warnings: Vec<String>,
}

impl Loading<'_> {
    /// The data directory as far as the command line knows it: relative names of files are meant
    /// from here, even if bitcoin.conf then names another data directory.
    fn base(&self) -> Result<PathBuf, String> {
        self.given.datadir.clone().map_or_else(|| self.given.usual_datadir.clone(), Ok)
    }

    /// The name of a file that is meant from the data directory.
    fn resolve(&self, name: &Path) -> Result<PathBuf, String> {
        match name.is_absolute() {
            true => Ok(name.to_path_buf()),
            false => Ok(self.base()?.join(name)),
        }
    }

    fn conf_path(&self) -> Result<Option<PathBuf>, String> {
        match &self.given.conf {
            Which::Usual => Ok(Some(self.base()?.join(CONF))),
            Which::This(name) => self.resolve(name).map(Some),
            Which::Not => Ok(None),
        }
    }

    fn read_conf(&mut self, path: &Path) -> Result<(), String> {
        let bytes = match (self.read)(path) {
            Ok(bytes) => bytes,
            Err(error) if self.given.conf == Which::Usual && is_missing(&error) => return Ok(()),
            Err(error) => return Err(cannot_read("configuration file", path, &error)),
        };
        self.add(path, &bytes)?;
        if !self.given.includes {
            return Ok(());
        }
        let chain = self.sources.chain()?;
        let included = [chain.name(), ""].map(|section| self.includes(section));
        for setting in included.iter().flat_map(|all| &all[merge::negated(all)..]) {
            let Value::Text(name) = &setting.value else {
                return Err(format!("{}: noincludeconf=0 names no file", setting.place));
            };
            let path = self.resolve(Path::new(name))?;
            let bytes = (self.read)(&path).map_err(|error| {
                let what = cannot_read("included file", &path, &error);
                format!("{}: {what}", setting.place)
            })?;
            self.add(&path, &bytes)?;
        }
        for (section, before) in [chain.name(), ""].iter().zip(&included) {
            for nested in self.includes(section).iter().skip(before.len()) {
                let name = nested.value.text().unwrap_or_default();
                self.warnings.push(format!(
                    "{}: includeconf={name} is ignored, since this file is itself included",
                    nested.place
                ));
            }
        }
        Ok(())
    }

    fn includes(&self, section: &str) -> Vec<Setting> {
        let settings = self.sources.sections.get(section);
        settings.and_then(|settings| settings.get("includeconf")).cloned().unwrap_or_default()
    }

    /// Puts the settings of a bitcoin.conf after those that are there.
    fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        let text = String::from_utf8_lossy(bytes);
        if text.starts_with('\u{feff}') {
            self.warnings.push(format!(
                "{}:1: the file starts with a byte order mark, which makes its first line \
                 unreadable to Bitcoin Core and here: save it without",
                path.display()
            ));
        }
        let lines = parse::parse(&text)
            .map_err(|(line, why)| format!("{}:{line}: {why}", path.display()))?;
        for (section, line) in lines.sections {
            if Chain::from_name(&section).is_none() {
                self.warnings.push(format!(
                    "{}:{line}: section [{section}] is ignored: the sections are [main], [test], \
                     [testnet4], [signet] and [regtest]",
                    path.display()
                ));
            }
        }
        for line in lines.settings {
            let place = Place::File(path.to_path_buf(), Some(line.number));
            let section = self.sources.sections.entry(line.section).or_default();
            section.entry(line.name).or_default().push(Setting { value: line.value, place });
        }
        Ok(())
    }

    fn datadir(&self, chain: Chain) -> Result<(PathBuf, Option<Place>), String> {
        if let Some(given) = &self.given.datadir {
            return Ok((given.clone(), None));
        }
        let named = self.sources.get(chain.name(), "datadir");
        let named = named.and_then(|setting| Some((setting.value.text()?, setting.place)));
        match named.filter(|(path, _)| !path.is_empty()) {
            Some((path, place)) => Ok((PathBuf::from(path), Some(place))),
            None => Ok((self.given.usual_datadir.clone()?, None)),
        }
    }

    fn read_settings(&mut self, chain: Chain, datadir: &Path) -> Result<(), String> {
        let named = self.sources.get(chain.name(), "settings").map(|setting| setting.value);
        let name = match (&self.given.settings, &named) {
            (Which::Not, _) => return Ok(()),
            (Which::This(path), _) => path.clone(),
            (Which::Usual, Some(value)) if value.is_negated() => return Ok(()),
            (Which::Usual, named) => {
                let named = named.as_ref().and_then(Value::text).filter(|name| !name.is_empty());
                PathBuf::from(named.unwrap_or_else(|| SETTINGS.to_string()))
            }
        };
        let path = datadir.join(Network::new(chain).subdirectory).join(name);
        let bytes = match (self.read)(&path) {
            Ok(bytes) => bytes,
            Err(error) if self.given.settings == Which::Usual && is_missing(&error) => {
                return Ok(());
            }
            Err(error) => return Err(cannot_read("settings file", &path, &error)),
        };
        let settings = parse::parse_settings(&bytes).map_err(|why| {
            format!(
                "{}: this is not a file of settings: {why}. Mend or remove it, or pass it over \
                 with --nosettings",
                path.display()
            )
        })?;
        let place = Place::File(path, None);
        self.sources.settings = settings
            .into_iter()
            .map(|(name, value)| (name, vec![Setting { value, place: place.clone() }]))
            .collect();
        Ok(())
    }
}

impl Sources {
    /// The network that the command line or the top of bitcoin.conf names; settings.json has no say
    /// in it (Core's `GetChainArg`).
    fn chain(&self) -> Result<Chain, String> {
        let mut named: Vec<(Chain, String, Place)> = Vec::new();
        let name = self.get("", "chain");
        if let Some((name, place)) = name.and_then(|s| Some((s.value.text()?, s.place))) {
            let chain = Chain::from_name(&name).ok_or_else(|| {
                format!(
                    "unknown chain '{name}' from {place}: use main, test, testnet4, signet or \
                     regtest"
                )
            })?;
            named.push((chain, format!("chain={name}"), place));
        }
        for (name, chain) in NETWORK_FLAGS {
            if let Some(setting) = self.network_flag(name) {
                named.push((chain, name.to_string(), setting.place));
            }
        }
        match named.as_slice() {
            [] => Ok(Chain::Main),
            [(chain, ..)] => Ok(*chain),
            [(_, one, one_place), (_, other, other_place), ..] => Err(format!(
                "more than one network is named, {one} from {one_place} and {other} from \
                 {other_place}: keep one. On the command line, --chain=NAME stands in for chain= \
                 in a file, and --regtest=0 for regtest=1"
            )),
        }
    }
}

fn texts(settings: Vec<Setting>) -> Vec<(String, Place)> {
    let texts = settings.into_iter();
    texts.filter_map(|setting| Some((setting.value.text()?, setting.place))).collect()
}

/// Whether a file is not there, rather than not readable.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn cannot_read(what: &str, path: &Path, error: &io::Error) -> String {
    format!("{what} {} cannot be read: {error}", path.display())
}
