//! The options of the commands that connect blocks.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use apus_hash::{Hash, hex};
use apus_node as node;
use apus_node::{AssumeValid, SyncError};
use apus_progress::Method;
use apus_swiftsync::AggregateKind;
use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use secp_lanes::Kernel;

use super::conf::Config;
use super::directory::Directory;
use super::home::expand_home;
use super::log_args::LogArgs;
use super::server_args::ServerArgs;
use super::settings::Settings;

/// The options of a command that connects blocks.
#[derive(Args)]
pub struct ConnectArgs {
    /// Stop after connecting the block at this height; 0: never [default: 0].
    #[arg(long, value_name = "N")]
    pub stopatheight: Option<u32>,
    /// Take the scripts of this block and its ancestors as valid; 0: check every script [default:
    /// the block built into Bitcoin Core v31].
    ///
    /// Scripts are skipped only under Core's conditions: a block is an ancestor of HASH and of the
    /// best header, which has the network's minimum work and two weeks of work on top of the block.
    #[arg(long, value_name = "HASH")]
    assumevalid: Option<String>,
    /// The least work that the best chain of headers must have before anything is assumed valid, in
    /// hex [default: the value built into Bitcoin Core v31].
    #[arg(long, value_name = "HEX", hide_short_help = true)]
    minimumchainwork: Option<String>,
    /// The method of syncing [default: swiftsync with --hints or --snapshot; else join or order,
    /// whichever is faster].
    ///
    /// A run begins with a line that names the method, the reason, and about how long it will
    /// take. All methods end with the same UTXO set; they differ in time, in temporary disk space,
    /// and, for SwiftSync, in what is checked (see --hints).
    #[arg(long, value_enum, value_name = "METHOD")]
    method: Option<MethodName>,
    /// Put the temporary files of a join here; they are removed at the end [default: next to the
    /// chainstate].
    ///
    /// A join creates a directory in DIR, with a name of its own for each data directory, and
    /// stores outputs and spends in it: usually 0.3 to 0.5 times the bytes of the joined blocks,
    /// at most 1.5 times as many. They are written and read in large pieces, so that a hard disk is
    /// fast enough. An interrupted join continues from its files; with another DIR it starts over.
    #[arg(long, value_name = "DIR")]
    spilldir: Option<PathBuf>,
    /// SwiftSync with this hints file: all cores process the blocks up to the hints' height in any
    /// order, without look-ups, and one comparison of sums proves the result.
    ///
    /// With --assumevalid=HASH the blocks up to that height, on the chain of HASH, are taken as
    /// valid, so give a HASH that you trust. Not checked below the last 288 blocks: scripts,
    /// amounts (the total supply is checked), coinbase claims, the order of spends, coinbase
    /// maturity, relative lock times, and P2SH and witness signature operations. Not checked in the
    /// last 288 blocks: scripts. Undo data is written only for the last 288 blocks; `apus reindex`
    /// writes the rest.
    ///
    /// With --assumevalid=0 everything is checked, with the spent coins from the rev files next to
    /// the blocks, or from peers that offer them. Wrong hints cost time and nothing else.
    ///
    /// `peer` instead of FILE: the file is downloaded from a peer of --connect or --addnode that
    /// serves it (`apus serve --peerhints`), and kept in the data directory. --hints-sha256 says
    /// which file.
    #[arg(long, value_name = "FILE|peer")]
    hints: Option<PathBuf>,
    /// The SHA-256 of the hints file that a peer shall send (--hints=peer), in hex, as `sha256sum`
    /// prints it.
    #[arg(long, value_name = "HEX", requires = "hints")]
    hints_sha256: Option<String>,
    /// SwiftSync with this UTXO snapshot instead of hints, up to its base block.
    ///
    /// The snapshot only says which outputs are unspent, and is not trusted: unless the blocks
    /// leave exactly its coins, with their heights, amounts and scripts, nothing is committed.
    /// --assumevalid works as described for --hints. The directory is complete, with all blocks,
    /// and Bitcoin Core continues from it.
    ///
    /// If peers have to send blocks up to the base block, and Core's chain parameters list the
    /// snapshot, it is first loaded as by `apus snapshot load`: whenever the sync is stopped,
    /// bitcoind starts at the snapshot's height. With a snapshot that they do not list, bitcoind
    /// starts at its previous height until the proof is complete.
    #[arg(long, value_name = "FILE", conflicts_with = "hints")]
    snapshot: Option<PathBuf>,
    /// The engine that checks the scripts that are not assumed valid.
    ///
    /// All engines have the same result. fast leaves to Bitcoin Core's engine: scripts that it does
    /// not know, blocks with less than two weeks of work or fewer than 2,016 blocks on top, and one
    /// input in 4,096, which both check. It leaves everything to Core's engine on a processor with
    /// none of AVX-512 IFMA, AVX2 and NEON, where it is not faster, and in a directory with a file
    /// script-difference-….json, which shows that the two have disagreed there.
    #[arg(long, value_enum, value_name = "ENGINE", default_value_t = Scripts::of_default())]
    script_engine: Scripts,
    /// MiB for cached coins, at least 16; more means fewer look-ups on disk [default: a quarter of
    /// the free memory, from 16 to 450].
    ///
    /// This limits only cached coins. A sync also uses about 200 bytes for each header, up to 150
    /// MiB for blocks in progress, a third of the cache while coins are written, and tables, which
    /// are mapped files that the kernel drops when memory is short. If less memory is free, cache
    /// and blocks in progress are made smaller, and a warning says so if you gave the size. While
    /// the system runs short of memory, both shrink further. SwiftSync uses at most 70 % of the
    /// cache for coins, and at most 200 MiB, or all but 250 MiB of the cache if that is more.
    #[arg(long, value_name = "MIB")]
    dbcache: Option<usize>,
    /// A setting for tests and benchmarks; may be given many times: joindepth=N (the number of
    /// blocks below the best header at which a join ends), aggregate=muhash (the hash of
    /// SwiftSync's sums), kernel=avx512|avx-ifma|avx2-doubles|avx2|neon|library (the
    /// code that verifies signatures together).
    #[arg(long, value_name = "KEY=VALUE", hide = true)]
    testing: Vec<String>,
    #[command(flatten)]
    pub log: LogArgs,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    pub json: bool,
    #[command(flatten, next_help_heading = "Data directory and network")]
    directory: Directory,
    #[command(flatten)]
    pub server: ServerArgs,
}

/// A method of syncing, as the command line names it.
#[derive(Clone, Copy)]
struct MethodName(Method);

impl ValueEnum for MethodName {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [MethodName; Method::ALL.len()] =
            [MethodName(Method::InOrder), MethodName(Method::Join), MethodName(Method::SwiftSync)];
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            Method::InOrder => {
                "By height, with a look-up in the UTXO set for each spend: best for few blocks, \
                 and if the disk has room for the result alone"
            }
            Method::Join => {
                "In any order, without hints: outputs and spends are matched in temporary files. \
                 Checks all that order checks, and writes all undo data; best for many blocks"
            }
            Method::SwiftSync => {
                "In any order, with the hints of --hints or the coins of --snapshot, and a proof \
                 at the end: the fastest if a block is assumed valid"
            }
        };
        Some(PossibleValue::new(self.0.name()).help(help))
    }
}

/// The engine that checks scripts.
#[derive(Clone, Copy, ValueEnum)]
pub enum Scripts {
    /// Bitcoin Core's engine, one input at a time.
    Core,
    /// Verifies many signatures at once, several times as fast.
    Fast,
    /// Both engines for every input, to compare them: a difference is saved, and Core's verdict
    /// counts.
    Both,
}

impl Scripts {
    /// Returns the engine that is used unless another is named.
    pub fn of_default() -> Self {
        match node::ScriptEngine::default() {
            node::ScriptEngine::Core => Self::Core,
            node::ScriptEngine::Fast => Self::Fast,
            node::ScriptEngine::Both => Self::Both,
        }
    }
}

impl From<Scripts> for node::ScriptEngine {
    fn from(engine: Scripts) -> Self {
        match engine {
            Scripts::Core => Self::Core,
            Scripts::Fast => Self::Fast,
            Scripts::Both => Self::Both,
        }
    }
}

impl ConnectArgs {
    /// Reads the settings files, and returns them with the engine's options.
    ///
    /// # Errors
    /// An option or a setting is wrong, or contradicts another one; or the system refuses to read a
    /// file.
    pub fn to_options(&self) -> Result<Settings, SyncError> {
        let mut chosen = self.directory.with_cache(self.dbcache)?;
        self.complete(&mut chosen).map_err(SyncError::WrongOptions)?;
        Ok(chosen)
    }

    /// Sets the options that are not of the directory.
    fn complete(&self, chosen: &mut Settings) -> Result<(), String> {
        chosen.name_unsupported();
        take_assumevalid(chosen, self.assumevalid.as_deref())?;
        take_minimumchainwork(chosen, self.minimumchainwork.as_deref())?;
        let options = &mut chosen.options;
        options.stop_at_height = self.stopatheight.filter(|height| *height > 0);
        self.take_hints(options)?;
        options.swiftsync.snapshot = self.snapshot.as_deref().map(expand_home);
        options.scripts.engine = self.script_engine.into();
        options.method = self.method.map(|name| name.0);
        options.join.spill_dir = self.spill_dir()?;
        for setting in &self.testing {
            take_testing(options, setting)?;
        }
        options.check_method()
    }

    /// Takes the hints file, or which one a peer shall send.
    fn take_hints(&self, options: &mut node::Options) -> Result<(), String> {
        let from_peer = self.hints.as_deref() == Some(Path::new("peer"));
        let sha256 = match (&self.hints_sha256, from_peer) {
            (None, false) => {
                options.swiftsync.hints = self.hints.as_deref().map(expand_home);
                return Ok(());
            }
            (Some(_), false) => {
                return Err("--hints-sha256 is for --hints=peer: a FILE is proved by the blocks"
                    .to_string());
            }
            (None, true) => {
                return Err("--hints=peer: no hints file is built in for this chain: say which \
                            one a peer shall send, with --hints-sha256=HEX (./peer is a file)"
                    .to_string());
            }
            (Some(text), true) => {
                let Ok(Hash(mut bytes)) = text.parse() else {
                    return Err(format!(
                        "--hints-sha256: '{text}' is not a SHA-256, which has 64 hex digits"
                    ));
                };
                // A `Hash` is written backwards.
                bytes.reverse();
                bytes
            }
        };
        let file = format!("{}.hints", hex(&sha256));
        options.swiftsync.hints = Some(options.network_dir().join("hints").join(file));
        options.swiftsync.hints_of_peers = Some(sha256);
        Ok(())
    }

    /// Returns the directory for a join's temporary files. It must exist: if it is a mount point
    /// whose disk is not mounted, creating it would use another disk, which may be too small.
    fn spill_dir(&self) -> Result<Option<PathBuf>, String> {
        match self.spilldir.as_deref().map(expand_home) {
            Some(path) if !path.is_dir() => Err(format!(
                "--spilldir: the directory '{}' does not exist: mount or create it, or name \
                 another",
                path.display()
            )),
            path => Ok(path),
        }
    }
}

/// Applies one setting of `--testing`.
fn take_testing(options: &mut node::Options, setting: &str) -> Result<(), String> {
    let wrong = || format!("--testing: '{setting}' is not a known KEY=VALUE");
    match setting.split_once('=').ok_or_else(wrong)? {
        ("joindepth", depth) => options.join.depth = depth.parse().map_err(|_| wrong())?,
        ("aggregate", "muhash") => options.swiftsync.aggregate = AggregateKind::MuHash,
        ("kernel", name) => {
            let kernel = Kernel::ALL.into_iter().find(|kernel| kernel.name() == name);
            let kernel = kernel.ok_or_else(wrong)?;
            kernel.check().map_err(|why| format!("--testing {setting}: {why}"))?;
            options.scripts.kernel = Some(kernel);
        }
        _ => return Err(wrong()),
    }
    Ok(())
}

/// Sets the block up to which scripts are taken as valid, from `--assumevalid` or else from a
/// settings file.
pub fn take_assumevalid(chosen: &mut Settings, given: Option<&str>) -> Result<(), String> {
    if let Some((text, what)) = given_or_set(&mut chosen.config, given, "assumevalid")? {
        chosen.options.assumevalid = parse_assumevalid(&what, &text)?;
    }
    Ok(())
}

/// Returns the value of the option `name`, from the command line or else from a settings file, with
/// the name of its origin for an error.
fn given_or_set(
    config: &mut Config,
    given: Option<&str>,
    name: &str,
) -> Result<Option<(String, String)>, String> {
    if let Some(text) = given {
        return Ok(Some((text.to_string(), format!("--{name}"))));
    }
    let found = config.take(name)?;
    Ok(found.map(|found| (found.text.clone(), found.origin(name))))
}

/// Sets the minimum chain work, from `--minimumchainwork` or else from a settings file.
pub fn take_minimumchainwork(chosen: &mut Settings, given: Option<&str>) -> Result<(), String> {
    let Settings { options, config } = chosen;
    if let Some((text, what)) = given_or_set(config, given, "minimumchainwork")? {
        options.network.minimum_chain_work = parse_work(&what, &text)?;
    }
    Ok(())
}

/// Parses a 256-bit number in hex; `what` names the option or setting in an error.
fn parse_work(what: &str, text: &str) -> Result<Hash, String> {
    user_hex(text).ok_or_else(|| {
        format!(
            "{what}: '{text}' is not a number of at most 64 hex digits: give what Bitcoin Core's \
             getblockheader calls chainwork"
        )
    })
}

/// Parses a number of at most 64 hex digits, with or without `0x` (Core's `FromUserHex`).
fn user_hex(text: &str) -> Option<Hash> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    format!("{digits:0>64}").parse().ok()
}

/// Parses a block's hash, or zeros for [`AssumeValid::Nothing`]; `what` names the option or setting
/// in an error.
fn parse_assumevalid(what: &str, text: &str) -> Result<AssumeValid, String> {
    match user_hex(text) {
        Some(Hash(bytes)) if bytes == [0; 32] => Ok(AssumeValid::Nothing),
        Some(hash) => Ok(AssumeValid::Block(hash)),
        None => Err(format!(
            "{what}: '{text}' is not a number of at most 64 hex digits: give the hash of a block, \
             or 0 to check every script"
        )),
    }
}
