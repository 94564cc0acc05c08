//! The options of a run, from the command line and the settings files, and the line that names
//! them.

use std::path::{Path, PathBuf};

use apus_disk::Disk;
use apus_host::root::Root;
use apus_node as node;
use apus_node::memory_share::default_cache_bytes;
use apus_node::{Prune, ScriptDifference};
use apus_progress::Observer;
use apus_store::PRUNE_TARGET_MIN;
use apus_wire::{Chain, Network};

use super::conf::{Config, Found};
use super::output;
use super::reporting::Reporting;

/// The most sources of blocks that the first line of a run names; others are only counted.
const SOURCES_NAMED: usize = 2;

/// Settings of Bitcoin Core that change the rules of a test network; Apus supports none of them.
const RULE_SETTINGS: [&str; 3] = ["testactivationheight", "vbparams", "test"];

/// The least size of the coins cache, in MiB. An empty cache and the coins that are fetched ahead
/// take nearly as much memory, so a smaller cache would be committed every few blocks. Core, too,
/// raises a size that is too small.
const DBCACHE_MIB_MIN: usize = 16;

/// The engine's options, and the settings that they come from.
pub struct Settings {
    pub options: node::Options,
    pub config: Config,
}

impl Settings {
    /// Sets the size of the coins cache, from `--dbcache` or else from a settings file, or else by
    /// the free memory.
    pub fn take_cache(&mut self, given: Option<usize>) -> Result<(), String> {
        let mib = match given {
            Some(mib) => Some(mib),
            // A negative size counts as 0, as it does for Core.
            None => {
                self.config.take_number("dbcache")?.map(|mib| mib.max(0).unsigned_abs() as usize)
            }
        };
        self.options.dbcache_bytes = match mib {
            Some(mib) => cache_bytes(mib),
            None => default_cache_bytes(&Root::system()),
        };
        Ok(())
    }

    /// Returns the sources that a sync reads: those of the command line, or else those of
    /// `loadblock` in a settings file. Sources on the command line replace the files that bitcoind
    /// imports at every start.
    pub fn take_sources(&mut self, given: Vec<PathBuf>) -> Result<Vec<PathBuf>, String> {
        if given.is_empty() {
            let named = self.config.take_list("loadblock")?.into_iter();
            Ok(named.map(|found| PathBuf::from(found.text)).collect())
        } else {
            Ok(given)
        }
    }

    /// Sets the height at which a sync stops, from `--stopatheight` or else from a settings file. A
    /// rebuild uses the command line alone: one that stops early may leave the UTXO set lower than
    /// it is now, so the user has to ask for it.
    pub fn take_stop_height(&mut self, given: Option<u32>) -> Result<(), String> {
        let height = match given {
            Some(height) => Some(height),
            // A height that no block can have never stops anything.
            None => self.config.take_number("stopatheight")?.and_then(|n| u32::try_from(n).ok()),
        };
        self.options.stop_at_height = height.filter(|height| *height > 0);
        Ok(())
    }

    /// Sets how blocks are pruned, from `--prune` or else from a settings file.
    pub fn take_prune(&mut self, given: Option<i64>) -> Result<(), String> {
        let (mib, what) = match given {
            Some(mib) => (mib, format!("--prune={mib}")),
            None => {
                let mib = self.config.take_number("prune")?;
                (mib.unwrap_or(0), self.config.origin_of("prune"))
            }
        };
        self.options.prune = parse_prune(&what, mib)?;
        Ok(())
    }

    /// Sets how much is checked before the UTXO set is used, from the command line or else from a
    /// settings file. Numbers out of range in a file are read as Core reads them.
    pub fn take_start_check(
        &mut self,
        blocks: Option<u32>,
        level: Option<u8>,
    ) -> Result<(), String> {
        let config = &mut self.config;
        let blocks =
            blocks.map_or_else(|| config.take_number("checkblocks"), |n| Ok(Some(n.into())));
        let level = level.map_or_else(|| config.take_number("checklevel"), |n| Ok(Some(n.into())));
        if let Some(blocks) = blocks? {
            self.options.start_check.blocks = u32::try_from(blocks.max(0)).unwrap_or(u32::MAX);
        }
        if let Some(level) = level? {
            self.options.start_check.level = level.clamp(0, 4) as u8;
        }
        Ok(())
    }

    /// Adds a warning if bitcoind would prune; this command does not.
    pub fn ignore_prune(&mut self) {
        let Ok(Some(Found { text, place })) = self.config.find("prune") else { return };
        if self.config.is_on("prune", false) {
            let but = "is ignored: a rebuild needs every block";
            self.config.loaded.warnings.push(format!("{place}: prune={text} {but}"));
        }
    }

    /// Adds a warning for each setting that bitcoind follows and a sync of Apus does not.
    pub fn name_unsupported(&mut self) {
        let config = &self.config;
        let found = |name: &str| config.find(name).ok().flatten();
        let named = |name: &str, Found { text, place }: Found| format!("{place}: {name}={text}");
        let mut warnings = Vec::new();
        for name in ["reindex", "reindex-chainstate"] {
            if let Some(reindex) = found(name).filter(|_| config.is_on(name, false)) {
                let but = " is ignored: run `apus reindex` to rebuild the UTXO set";
                warnings.push(named(name, reindex) + but);
            }
        }
        let new = !self.options.blocks_path().join("xor.dat").exists();
        if let Some(xor) = found("blocksxor").filter(|_| new && !config.is_on("blocksxor", true)) {
            let but = " is not supported: Apus obfuscates the block files of a new directory, and \
                bitcoind does not start on them with this setting, so remove it";
            warnings.push(named("blocksxor", xor) + but);
        }
        for name in RULE_SETTINGS {
            if let Some(rule) = found(name) {
                let but = " is not supported: Apus checks the rules that the network usually has";
                warnings.push(named(name, rule) + but);
            }
        }
        self.config.loaded.warnings.extend(warnings);
    }

    /// Prints the first line of the run to standard error, unless the run is quiet or reports as
    /// JSON, and then the warnings.
    pub fn announce(&self, sources: &[PathBuf], reporting: Reporting) {
        // A file that cannot be read is an error later, when the directory is opened.
        let difference = ScriptDifference::find(&Disk::new(), &self.options.network_dir());
        let difference = difference.ok().flatten();
        if !reporting.quiet && !reporting.json {
            let scripts = difference.as_ref().map_or_else(String::new, |difference| {
                let name = difference.path.file_name().unwrap_or_default().display();
                format!("; Bitcoin Core's engine alone checks scripts, because of {name}")
            });
            output::note(self.first_line(sources) + &scripts);
        }
        self.warn_of(difference.as_ref(), output::note);
    }

    /// Notes the warnings alone, for a command in the process of another program.
    pub fn warn(&self, observer: &dyn Observer) {
        let difference = ScriptDifference::find(&Disk::new(), &self.options.network_dir());
        self.warn_of(difference.ok().flatten().as_ref(), |warning| observer.note(&warning));
    }

    fn warn_of(&self, difference: Option<&ScriptDifference>, say: impl Fn(String)) {
        let warnings =
            self.config.loaded.warnings.iter().map(|warning| format!("Warning: {warning}"));
        warnings.for_each(&say);
        if let Some(difference) = difference {
            say(format!("Warning: {difference}"));
        }
    }

    /// Returns the line that names the data directory, the network, the sources of blocks, and the
    /// settings taken from each file.
    pub fn first_line(&self, sources: &[PathBuf]) -> String {
        let options = &self.options;
        let mut line = format!(
            "Data directory {} ({}), blocks {}",
            options.datadir.display(),
            network_name(&options.network),
            match (sources, &options.peers) {
                ([], None) => format!("in {}", options.blocks_path().display()),
                ([], Some(_)) => "from peers".to_string(),
                (sources, None) => format!("from {}", listed(sources)),
                (sources, Some(_)) => format!("from {}, and peers", listed(sources)),
            }
        );
        if options.blocks_dir.is_some() && !sources.is_empty() {
            line += &format!(", stored in {}", self.options.blocks_path().display());
        }
        for (number, (file, settings)) in self.config.used().into_iter().enumerate() {
            let before = if number == 0 { "; settings from" } else { " and" };
            line += &format!("{before} {} ({})", file.display(), settings.join(", "));
        }
        line
    }
}

/// Converts the size of the coins cache from MiB to bytes, and raises it to the least size.
fn cache_bytes(mib: usize) -> usize {
    mib.max(DBCACHE_MIB_MIN).saturating_mul(1 << 20)
}

/// Parses the value of Core's `-prune`, in MiB; `what` names the option or setting in an error.
fn parse_prune(what: &str, mib: i64) -> Result<Option<Prune>, String> {
    let least = PRUNE_TARGET_MIN >> 20;
    match u64::try_from(mib) {
        Err(_) => Err(format!("{what}: give 0, 1, or at least {least} MiB")),
        Ok(0) => Ok(None),
        Ok(1) => Ok(Some(Prune::Manual)),
        Ok(mib) if mib < least => Err(format!(
            "{what} is too small: give at least {least} MiB, or 1 to delete by hand with \
             `apus prune`"
        )),
        Ok(mib) => Ok(Some(Prune::Target(mib.saturating_mul(1 << 20)))),
    }
}

/// Lists sources: `a`, `a and b`, `a, b and 3 more`.
fn listed(sources: &[PathBuf]) -> String {
    let shown = |path: &PathBuf| Path::display(path).to_string();
    let named: Vec<String> = sources.iter().take(SOURCES_NAMED).map(shown).collect();
    match sources.len() - named.len() {
        0 => named.join(" and "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn network_name(network: &Network) -> &'static str {
    match network.chain {
        Chain::Main => "mainnet",
        Chain::Test => "testnet3",
        Chain::Testnet4 => "testnet4",
        Chain::Signet if network.magic == Network::new(Chain::Signet).magic => "signet",
        Chain::Signet => "custom signet",
        Chain::Regtest => "regtest",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::conf::{Given, Which};

    /// Options by a bitcoin.conf alone.
    fn chosen(text: &str) -> Settings {
        let given = Given {
            datadir: Some(PathBuf::from("/d")),
            usual_datadir: Err(String::new()),
            conf: Which::Usual,
            settings: Which::Not,
            includes: true,
            others: Vec::new(),
        };
        let config = Config::load(&given, &|_| Ok(text.as_bytes().to_vec())).unwrap();
        let network = Network::new(config.loaded.chain);
        Settings { options: node::Options::new(config.loaded.datadir.clone(), network), config }
    }

    #[test]
    fn the_first_line_names_directory_network_and_blocks() {
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let plain = chosen("server=1");
        for (sources, line) in [
            (&[][..], "Data directory /d (mainnet), blocks in /d/blocks"),
            (&["a"], "Data directory /d (mainnet), blocks from a"),
            (&["a", "b"], "Data directory /d (mainnet), blocks from a and b"),
            (&["a", "b", "c", "d"], "Data directory /d (mainnet), blocks from a, b and 2 more"),
        ] {
            assert_eq!(plain.first_line(&paths(sources)), line);
        }
        let mut other = chosen("testnet=1\ndbcache=-1\nloadblock=x");
        other.options.blocks_dir = Some(PathBuf::from("/big"));
        other.take_cache(None).unwrap();
        assert_eq!(other.options.dbcache_bytes, cache_bytes(0));
        let sources = other.take_sources(Vec::new()).unwrap();
        assert_eq!(
            other.first_line(&sources),
            "Data directory /d (testnet3), blocks from x, stored in /big/testnet3/blocks; \
             settings from /d/bitcoin.conf (testnet=1, dbcache=-1, loadblock=x)"
        );
    }

    #[test]
    fn prune_means_what_it_means_to_core() {
        let mib = 1 << 20;
        let max = i64::MAX;
        for (given, expected) in [
            (0, Ok(None)),
            (1, Ok(Some(Prune::Manual))),
            (550, Ok(Some(Prune::Target(550 * mib)))),
            (max, Ok(Some(Prune::Target(u64::MAX)))),
            (-1, Err("--prune=-1")),
            (2, Err("--prune=2 is too small")),
            (549, Err("at least 550 MiB")),
        ] {
            match (parse_prune(&format!("--prune={given}"), given), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{given}"),
                (Err(text), Err(words)) => assert!(text.contains(words), "{text}"),
                (found, _) => panic!("{given}: {found:?}, expected {expected:?}"),
            }
        }
        let mut set = chosen("prune=600");
        set.take_prune(None).unwrap();
        assert_eq!(set.options.prune, Some(Prune::Target(600 * mib)));
        set.take_prune(Some(0)).unwrap();
        assert_eq!(set.options.prune, None);
        for (text, count) in [("prune=550", 1), ("[main]\nprune=1", 1), ("prune=0", 0), ("", 0)] {
            let mut rebuilt = chosen(text);
            rebuilt.ignore_prune();
            assert_eq!(rebuilt.config.loaded.warnings.len(), count, "{text}");
        }
    }

    #[test]
    fn what_bitcoind_would_follow_is_named() {
        let warnings = |text: &str| {
            let mut chosen = chosen(text);
            chosen.name_unsupported();
            chosen.config.loaded.warnings
        };
        for text in [
            "reindex=1",
            "reindex=",
            "reindex-chainstate=1",
            "blocksxor=0",
            "noblocksxor=1",
            "testactivationheight=segwit@9",
            "vbparams=taproot:0:1",
            "test=bip94",
        ] {
            let warnings = warnings(text);
            assert_eq!(warnings.len(), 1, "{text}: {warnings:?}");
            assert!(warnings[0].starts_with("/d/bitcoin.conf:"), "{warnings:?}");
        }
        for text in [
            "prune=0\nnoreindex=1\nreindex-chainstate=0\nblocksxor=1\n",
            "rpcuser=me\nwallet=w\nconnect=1.2.3.4\nproxy=1.2.3.4:9\ntxindex=1\nlisten=0\n",
            "[test]\nprune=550\n",
        ] {
            assert_eq!(warnings(text), Vec::<String>::new(), "{text}");
        }
    }
}
