//! Finds and reads the settings files, in Core's order.

use std::io;
use std::path::{Path, PathBuf};

use apus_disk::StoreError;
use apus_wire::{Chain, Network};

use super::error::ConfError;
use super::merge::{self, Found, Setting, SettingPlace, Sources};
use super::names::is_known;
use super::parse;
use super::value::Value;

/// The name of Core's configuration file in a data directory.
pub const CONF: &str = "bitcoin.conf";
/// The name of the file that holds settings made while Core or its graphical interface runs.
const SETTINGS: &str = "settings.json";

/// Reads a whole file.
pub type Reader<'a> = dyn Fn(&Path) -> io::Result<Vec<u8>> + 'a;

/// Which settings file to read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Which {
    /// The file with the usual name, if it exists.
    #[default]
    Usual,
    /// The file at this path, which must exist.
    This(PathBuf),
    /// No file.
    Not,
}

/// The options of the command line that decide which files are read.
#[derive(Clone, Debug)]
pub struct Given {
    /// `--datadir`.
    pub datadir: Option<PathBuf>,
    /// The default data directory, or the reason why there is none.
    pub usual_datadir: Result<PathBuf, String>,
    /// `--conf` and `--noconf`.
    pub conf: Which,
    /// `--settings` and `--nosettings`.
    pub settings: Which,
    /// Whether bitcoin.conf may include other files; false with `--noincludeconf`.
    pub includes: bool,
    /// Name and value of `--chain`, `--regtest` and other options that are merged with settings of
    /// files.
    pub others: Vec<(&'static str, String)>,
}

/// The settings of a run, before any is used.
#[derive(Debug)]
pub struct Loaded {
    /// The network.
    pub chain: Chain,
    /// The data directory's root.
    pub datadir: PathBuf,
    /// The file and line that name the data directory; `None`: the command line or the default.
    pub datadir_place: Option<SettingPlace>,
    /// The bitcoin.conf of this run, whether or not it exists; `None` with `--noconf`.
    pub conf: Option<PathBuf>,
    /// The challenges of a custom signet; those in settings.json do not count.
    pub challenges: Vec<Found>,
    /// Warnings for the user, one for each line whose meaning may surprise.
    pub warnings: Vec<String>,
    /// All settings.
    pub sources: Sources,
}

/// Reads bitcoin.conf, the files that it includes, and settings.json, in Core's order: bitcoin.conf
/// is in the directory that the command line names, or else in the default one. It may name another
/// data directory and the network, whose directory holds settings.json.
///
/// # Errors
/// A file cannot be read or holds what Core refuses; the settings name more than one network or an
/// unknown one; no data directory is named, and there is no default.
pub fn load(given: &Given, read: &Reader) -> Result<Loaded, ConfError> {
    let mut loading = Loading { given, read, sources: Sources::default(), warnings: vec![] };
    for (name, value) in &given.others {
        let setting =
            Setting { value: Value::Text(value.clone()), place: SettingPlace::CommandLine };
        loading.sources.command_line.entry(name.to_string()).or_default().push(setting);
    }
    let conf = loading.conf_path()?;
    if let Some(path) = &conf {
        loading.read_conf(path)?;
    }
    let chain = loading.sources.chain()?;
    let (datadir, datadir_place) = loading.datadir(chain)?;
    let challenges = merge::texts(loading.sources.list(chain.name(), "signetchallenge"));
    loading.read_settings(chain, &datadir)?;
    let Loading { sources, warnings, .. } = loading;
    Ok(Loaded { chain, datadir, datadir_place, conf, challenges, warnings, sources })
}

/// The files of a run while they are being read.
struct Loading<'a> {
    given: &'a Given,
    read: &'a Reader<'a>,
    sources: Sources,
    warnings: Vec<String>,
}

impl Loading<'_> {
    /// Returns the data directory that the command line names, or the default one. Relative file
    /// names start here, even if bitcoin.conf then names another data directory.
    fn base(&self) -> Result<PathBuf, String> {
        self.given.datadir.clone().map_or_else(|| self.given.usual_datadir.clone(), Ok)
    }

    /// Returns the path of a file whose name may be relative to the data directory.
    fn resolve(&self, name: &Path) -> Result<PathBuf, String> {
        if name.is_absolute() { Ok(name.to_path_buf()) } else { Ok(self.base()?.join(name)) }
    }

    fn conf_path(&self) -> Result<Option<PathBuf>, String> {
        match &self.given.conf {
            Which::Usual => Ok(Some(self.base()?.join(CONF))),
            Which::This(name) => self.resolve(name).map(Some),
            Which::Not => Ok(None),
        }
    }

    fn read_conf(&mut self, path: &Path) -> Result<(), ConfError> {
        let bytes = match (self.read)(path) {
            Ok(bytes) => bytes,
            Err(error) if self.given.conf == Which::Usual && is_missing(&error) => return Ok(()),
            Err(error) => return Err(cannot_read("configuration file", path, error)),
        };
        self.add(path, &bytes)?;
        if !self.given.includes {
            return Ok(());
        }
        let chain = self.sources.chain()?;
        let included = [chain.name(), ""].map(|section| self.includes(section));
        for setting in included.iter().flat_map(|all| &all[merge::negated(all)..]) {
            let Value::Text(name) = &setting.value else {
                return Err(format!("{}: noincludeconf=0 names no file", setting.place).into());
            };
            setting.check_text("includeconf")?;
            let path = self.resolve(Path::new(name))?;
            let bytes = (self.read)(&path).map_err(|error| {
                match cannot_read("included file", &path, error) {
                    ConfError::Wrong(what) => format!("{}: {what}", setting.place).into(),
                    refused @ ConfError::Disk(_) => refused,
                }
            })?;
            self.add(&path, &bytes)?;
        }
        let mut nested = self.includes(chain.name()).split_off(included[0].len());
        nested.extend(self.includes("").split_off(included[1].len()));
        // An included file may name another network; its section was not looked at.
        let last = self.sources.chain()?;
        if last != chain {
            nested.extend(self.includes(last.name()));
        }
        for Setting { value, place } in nested {
            let name = value.text().unwrap_or_default();
            self.warnings.push(format!(
                "{place}: includeconf={name} is ignored: files are included only by bitcoin.conf \
                 itself, in the section of the network that it names"
            ));
        }
        Ok(())
    }

    fn includes(&self, section: &str) -> Vec<Setting> {
        let settings = self.sources.sections.get(section);
        settings.and_then(|settings| settings.get("includeconf")).cloned().unwrap_or_default()
    }

    /// Appends the settings of a bitcoin.conf to the settings read so far.
    fn add(&mut self, path: &Path, bytes: &[u8]) -> Result<(), String> {
        if bytes.contains(&0) {
            return Err(format!(
                "{}: this is not UTF-8 text but probably UTF-16, as some editors of Windows write \
                 it, and neither Bitcoin Core nor Apus can read that: save the file as UTF-8",
                path.display()
            ));
        }
        let text = String::from_utf8_lossy(bytes);
        if text.starts_with('\u{feff}') {
            self.warnings.push(format!(
                "{}:1: the file starts with a byte order mark, so that neither Bitcoin Core nor \
                 Apus can read its first line: save it without one",
                path.display()
            ));
        }
        let lines = parse::parse(&text)
            .map_err(|(line, why)| format!("{}:{line}: {why}", path.display()))?;
        for (section, line) in lines.sections {
            if Chain::from_name(&section).is_none() {
                let what = if section.is_empty() {
                    "names no network: what follows counts as at the top of the file"
                } else {
                    "is ignored: the sections are [main], [test], [testnet4], [signet] and \
                     [regtest]"
                };
                let path = path.display();
                self.warnings.push(format!("{path}:{line}: section [{section}] {what}"));
            }
        }
        for line in lines.settings {
            let place = SettingPlace::File(path.to_path_buf(), Some(line.number));
            if !is_known(&line.name) {
                let no = if matches!(line.value, Value::Bool(_)) { "no" } else { "" };
                self.warn_of_unknown(&place, &format!("{no}{}", line.name));
            }
            let section = self.sources.sections.entry(line.section).or_default();
            section.entry(line.name).or_default().push(Setting { value: line.value, place });
        }
        Ok(())
    }

    /// Warns of a name that is probably misspelt. Its value may be secret.
    fn warn_of_unknown(&mut self, place: &SettingPlace, name: &str) {
        self.warnings.push(format!(
            "{place}: {name} is ignored: neither Bitcoin Core nor Apus has a setting of this name"
        ));
    }

    fn datadir(&self, chain: Chain) -> Result<(PathBuf, Option<SettingPlace>), String> {
        if let Some(given) = &self.given.datadir {
            return Ok((given.clone(), None));
        }
        let named = self.sources.get(chain.name(), "datadir");
        named.as_ref().map_or(Ok(()), |setting| setting.check_text("datadir"))?;
        let named = named.and_then(|setting| Some((setting.value.text()?, setting.place)));
        match named.filter(|(path, _)| !path.is_empty()) {
            Some((path, place)) => Ok((PathBuf::from(path), Some(place))),
            None => Ok((self.given.usual_datadir.clone()?, None)),
        }
    }

    fn read_settings(&mut self, chain: Chain, datadir: &Path) -> Result<(), ConfError> {
        let named = self.sources.get(chain.name(), "settings");
        named.as_ref().map_or(Ok(()), |setting| setting.check_text("settings"))?;
        let named = named.map(|setting| setting.value);
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
            Err(error) => return Err(cannot_read("settings file", &path, error)),
        };
        let settings = parse::parse_settings(&bytes).map_err(|why| {
            format!(
                "{}: this is not a settings file: {why}. Repair or remove it, or ignore it with \
                 --nosettings",
                path.display()
            )
        })?;
        let place = SettingPlace::File(path, None);
        for (key, value) in &settings {
            // bitcoind ends when it uses such a setting; here it must not be taken for none.
            if !value.is_flat() {
                let what = "must not hold an object or a list in a list";
                return Err(format!("{place}: {key} {what}").into());
            }
            let name = key.rsplit_once('.').map_or(&**key, |(_, name)| name);
            if !is_known(name.strip_prefix("no").unwrap_or(name)) {
                self.warn_of_unknown(&place, key);
            }
        }
        self.sources.settings = settings
            .into_iter()
            .map(|(name, value)| (name, vec![Setting { value, place: place.clone() }]))
            .collect();
        Ok(())
    }
}

/// Returns whether an error means that the file does not exist.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Returns the error for a file that cannot be read. Where the system refuses it, no setting needs
/// to be wrong: the file may not even exist.
fn cannot_read(what: &str, path: &Path, error: io::Error) -> ConfError {
    let words = format!("{what} {} cannot be read: {error}", path.display());
    let refused = StoreError::io(path, &format!("read the {what}"), error);
    if refused.is_refused() { ConfError::Disk(refused) } else { words.into() }
}
