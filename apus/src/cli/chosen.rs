//! What a run works on and with, once the command line and the files of settings have been read.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::conf::{Config, Place};
use super::options::cache_bytes;
use crate::sync;
use crate::wire::{Chain, Network};

/// Sources of blocks that the first line names; the rest is counted.
const SOURCES_NAMED: usize = 2;

/// Settings of Bitcoin Core that change the rules of a test network, which Apus does not do.
const RULE_SETTINGS: [&str; 3] = ["testactivationheight", "vbparams", "test"];

/// The engine's options, and the settings that they came from.
pub struct Chosen {
    pub options: sync::Options,
    pub config: Config,
}

impl Chosen {
    /// Takes the size of the cache: what `--dbcache` says, or else what a file says.
    pub fn take_cache(&mut self, given: Option<usize>) -> Result<(), String> {
        let mib = match given {
            Some(mib) => Some(mib),
            // Less than nothing is nothing, as for Core.
            None => {
                self.config.take_number("dbcache")?.map(|mib| mib.max(0).unsigned_abs() as usize)
            }
        };
        if let Some(mib) = mib {
            self.options.dbcache_bytes = cache_bytes(mib);
        }
        Ok(())
    }

    /// The sources that a sync reads: those of the command line, or else those that `loadblock`
    /// names in a file. Whoever names sources for one run wants these, and not what bitcoind is to
    /// import at each start as well.
    pub fn take_sources(&mut self, given: Vec<PathBuf>) -> Vec<PathBuf> {
        match given.is_empty() {
            true => {
                let named = self.config.take_list("loadblock").into_iter();
                named.map(|(path, _)| PathBuf::from(path)).collect()
            }
            false => given,
        }
    }

    /// Says in a warning each which settings bitcoind would follow and a sync here does not.
    pub fn name_unsupported(&mut self) {
        let config = &self.config;
        let found = |name: &str| config.find(name).ok().flatten();
        let named = |name: &str, (text, place): (String, Place)| format!("{place}: {name}={text}");
        let mut warnings = Vec::new();
        if let Some(prune) = found("prune").filter(|_| config.is_on("prune", false)) {
            warnings.push(named("prune", prune) + " is left to bitcoind: Apus keeps every block");
        }
        for name in ["reindex", "reindex-chainstate"] {
            if let Some(reindex) = found(name).filter(|_| config.is_on(name, false)) {
                let but = " starts nothing here: `apus reindex` rebuilds the UTXO set";
                warnings.push(named(name, reindex) + but);
            }
        }
        let new = !self.blocks_path().join("xor.dat").exists();
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
        self.config.warnings.extend(warnings);
    }

    /// Says on standard error what this run works on, and warns. Whether anybody reads it is not
    /// this run's affair.
    pub fn announce(&self, sources: &[PathBuf], with_first_line: bool) {
        let mut text = String::new();
        if with_first_line {
            text += &(self.first_line(sources) + "\n");
        }
        for warning in &self.config.warnings {
            text += &format!("Warning: {warning}\n");
        }
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// The directory, the network, where blocks come from, and which settings files were followed.
    fn first_line(&self, sources: &[PathBuf]) -> String {
        let options = &self.options;
        let mut line = format!(
            "Data directory {} ({}), blocks {}",
            options.datadir.display(),
            network_name(&options.network),
            match sources {
                [] => format!("in {}", self.blocks_path().display()),
                sources => format!("from {}", listed(sources)),
            }
        );
        if options.blocks_dir.is_some() && !sources.is_empty() {
            line += &format!(", to be kept in {}", self.blocks_path().display());
        }
        for (number, (file, settings)) in self.config.used().into_iter().enumerate() {
            let before = if number == 0 { "; settings from" } else { " and" };
            line += &format!("{before} {} ({})", file.display(), settings.join(", "));
        }
        line
    }

    fn blocks_path(&self) -> PathBuf {
        let options = &self.options;
        let base = options.blocks_dir.as_deref().unwrap_or(&options.datadir);
        base.join(options.network.subdirectory).join("blocks")
    }
}

/// `a`, `a and b`, `a, b and 3 more`.
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
        Chain::Signet => "a signet of its own",
        Chain::Regtest => "regtest",
    }
}
