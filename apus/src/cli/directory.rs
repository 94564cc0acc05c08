//! The options that name a data directory and its network, and the settings files that complete
//! them.

use std::path::PathBuf;

use apus_node as node;
use apus_node::SyncError;
use apus_node::directory::check_synced;
use apus_wire::{Chain, Network};
use clap::Args;

use super::conf::{self, ConfError, Config, Given, Which};
use super::failure::Failure;
use super::home::{default_datadir, expand_home};
use super::settings::Settings;

/// The most threads of a run: more do not make it faster, and the system may refuse them.
const THREADS_MAX: usize = 256;

/// The options that choose a data directory and its network.
#[derive(Args)]
pub struct Directory {
    /// The data directory [default: the one that bitcoin.conf names, or Bitcoin Core's own].
    #[arg(long, value_name = "DIR")]
    datadir: Option<PathBuf>,
    /// The directory whose blocks/ holds the blk and rev files, if not the data directory.
    #[arg(long, value_name = "DIR")]
    blocksdir: Option<PathBuf>,
    /// Bitcoin Core's configuration file [default: bitcoin.conf in the data directory].
    ///
    /// Apus uses the settings that it has an option for. The command line overrides settings.json,
    /// which overrides this file.
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Read no bitcoin.conf.
    #[arg(long, hide_short_help = true, overrides_with = "conf")]
    noconf: bool,
    /// Read no file that bitcoin.conf includes.
    #[arg(long, hide_short_help = true)]
    noincludeconf: bool,
    /// Ignore a second bitcoin.conf, in the data directory that the first one names.
    #[arg(long, hide_short_help = true)]
    allowignoredconf: bool,
    /// The settings file that Bitcoin Core's graphical interface writes [default: settings.json in
    /// the network's directory].
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    settings: Option<PathBuf>,
    /// Read no settings.json.
    #[arg(long, hide_short_help = true, overrides_with = "settings")]
    nosettings: bool,
    /// The network: main, test, testnet4, signet or regtest [default: main].
    #[arg(long, value_name = "NAME")]
    chain: Option<String>,
    /// Same as --chain=test.
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    testnet: Option<u8>,
    /// Same as --chain=testnet4.
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    testnet4: Option<u8>,
    /// Same as --chain=signet.
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    signet: Option<u8>,
    /// Same as --chain=regtest.
    #[arg(long, hide_short_help = true, num_args = 0..=1, require_equals = true,
        default_missing_value = "1", value_name = "0|1")]
    regtest: Option<u8>,
    /// The challenge script of a custom signet, in hex (BIP325).
    #[arg(long, value_name = "HEX")]
    signetchallenge: Option<String>,
    /// Number of threads; 0: one for each core, -N: leave N cores free [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    par: Option<i64>,
}

impl Directory {
    /// Reads the settings files, and returns them with the engine's options.
    ///
    /// # Errors
    /// An option or a setting is wrong, or contradicts another one; or the system refuses to read a
    /// file.
    pub fn to_options(&self) -> Result<Settings, SyncError> {
        let mut config = self.config()?;
        let options = self.options(&mut config).map_err(SyncError::WrongOptions)?;
        Ok(Settings { options, config })
    }

    /// Does the same, and sets the size of the coins cache ([`Settings::take_cache`]).
    ///
    /// # Errors
    /// As for [`Directory::to_options`].
    pub fn with_cache(&self, dbcache: Option<usize>) -> Result<Settings, SyncError> {
        let mut chosen = self.to_options()?;
        chosen.take_cache(dbcache).map_err(SyncError::WrongOptions)?;
        Ok(chosen)
    }

    /// Does the same as [`Directory::to_options`], for a command that needs a synced directory.
    ///
    /// # Errors
    /// Also if there is no such directory, or it holds no UTXO set of the network.
    pub fn to_existing(&self) -> Result<Settings, Failure> {
        let chosen = self.to_options()?;
        check_synced(&chosen.options)?;
        Ok(chosen)
    }

    /// Reads the settings files that the command line names, or those with the usual names.
    fn config(&self) -> Result<Config, ConfError> {
        let which = |path: &Option<PathBuf>, not| match path {
            _ if not => Which::Not,
            Some(path) => Which::This(expand_home(path)),
            None => Which::Usual,
        };
        let flag = |on: u8| on.to_string();
        let others = [
            ("chain", self.chain.clone()),
            ("testnet", self.testnet.map(flag)),
            ("testnet4", self.testnet4.map(flag)),
            ("signet", self.signet.map(flag)),
            ("regtest", self.regtest.map(flag)),
            ("allowignoredconf", self.allowignoredconf.then(|| "1".to_string())),
        ];
        let given = Given {
            datadir: self.datadir.as_deref().map(expand_home),
            usual_datadir: default_datadir(std::env::var_os("HOME")),
            conf: which(&self.conf, self.noconf),
            settings: which(&self.settings, self.nosettings),
            includes: !self.noincludeconf,
            others: others.into_iter().filter_map(|(name, value)| Some((name, value?))).collect(),
        };
        let mut config = Config::load(&given, &conf::read_file)?;
        let warning = conf::check_directories(&mut config)?;
        config.loaded.warnings.extend(warning);
        Ok(config)
    }

    fn options(&self, config: &mut Config) -> Result<node::Options, String> {
        let network = self.network(config)?;
        let threads = threads(match self.par {
            Some(par) => par,
            None => config.take_number("par")?.unwrap_or(0),
        });
        let blocks_dir = self.blocks_dir(config)?;
        Ok(node::Options {
            threads,
            blocks_dir,
            network_options: config.network_options(&conf::read_file),
            ..node::Options::new(config.loaded.datadir.clone(), network)
        })
    }

    fn network(&self, config: &mut Config) -> Result<Network, String> {
        let chain = config.loaded.chain;
        let set = config.loaded.challenges.clone();
        match (&self.signetchallenge, set.as_slice()) {
            (Some(_), _) if chain != Chain::Signet => {
                Err("--signetchallenge needs --chain=signet: add that, or remove --signetchallenge"
                    .to_string())
            }
            (Some(hex), _) => Ok(Network::custom_signet(parse_hex("--signetchallenge", hex)?)),
            // A settings file may hold a challenge although another network is chosen.
            (None, challenges) if challenges.is_empty() || chain != Chain::Signet => {
                Ok(Network::new(chain))
            }
            (None, [found]) => {
                config.note_used("signetchallenge", found);
                let challenge = parse_hex(&found.origin("signetchallenge"), &found.text)?;
                Ok(Network::custom_signet(challenge))
            }
            (None, several) => Err(format!(
                "signetchallenge is set {} times, in {} and {}: keep one",
                several.len(),
                several[0].place,
                several[1].place
            )),
        }
    }

    fn blocks_dir(&self, config: &mut Config) -> Result<Option<PathBuf>, String> {
        let (path, place) = match &self.blocksdir {
            Some(path) => (expand_home(path), "the command line".to_string()),
            None => match config.take("blocksdir")? {
                Some(found) => (PathBuf::from(found.text), found.place.to_string()),
                None => return Ok(None),
            },
        };
        if path.is_dir() {
            Ok(Some(path))
        } else {
            Err(format!(
                "the directory '{}', which {place} names as blocksdir, does not exist: mount or \
             create it, or name another with --blocksdir",
                path.display()
            ))
        }
    }
}

/// Returns the number of threads for a value of Core's `-par`.
fn threads(par: i64) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = usize::try_from(par.unsigned_abs()).unwrap_or(usize::MAX);
    match par {
        1.. => wanted.min(THREADS_MAX),
        _ => cores.saturating_sub(wanted).max(1),
    }
}

/// Parses bytes in hex; `what` names the option or setting in an error.
fn parse_hex(what: &str, hex: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("{what}: '{hex}' is not hex: give two hex digits for each byte");
    if !hex.len().is_multiple_of(2) || !hex.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| wrong()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn par_means_what_it_means_to_core() {
        assert_eq!(threads(i64::MIN), 1);
        assert_eq!(threads(i64::MAX), THREADS_MAX);
    }

    #[test]
    fn hex_is_nothing_but_digits() {
        assert_eq!(parse_hex("it", "51aE"), Ok(vec![0x51, 0xae]));
        for wrong in ["5", "+1", "0x51", "5 ", "é"] {
            assert!(parse_hex("it", wrong).is_err(), "{wrong}");
        }
    }
}
