use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::hints::HintsCommand;
use crate::sync::{self, AssumeValid, UtxoHash};
use crate::wire::{Chain, Hash, Network};

/// No machine gains by more threads, and the system may not have them.
const THREADS_MAX: usize = 256;

/// With less, which an empty cache and what is fetched ahead fill, every few blocks would be a
/// commit. Core raises what it is given as well.
const DBCACHE_MIB_MIN: usize = 16;

/// Turns Bitcoin blocks into a verified UTXO set, and leaves a data directory that Bitcoin Core
/// opens and carries on from.
#[derive(Parser)]
#[command(name = "apus", version, max_term_width = 100, after_help = EXAMPLES)]
pub struct Cli {
    /// Log what happens inside, to standard error.
    #[arg(long, global = true)]
    pub debug: bool,
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  apus demo                                    the first 14,132 mainnet blocks, in seconds
  apus sync --from bootstrap.dat               into Bitcoin Core's own data directory
  apus sync --from /old/node --datadir new     from the block files of another node
  apus reindex --datadir new --assumevalid 0   rebuild the UTXO set, checking every script
  apus hints create -o mainnet.hints           which outputs are unspent, from a synced directory
  apus sync --from /old/node --datadir new --hints mainnet.hints --assumevalid HASH
                                               in any order, without look-ups, proved at the end
  apus txoutset info --hash muhash             what Bitcoin Core's gettxoutsetinfo says
  apus hints create -o mainnet.hints           which outputs are unspent, for SwiftSync

Bitcoin Core's spelling works too: -datadir=DIR, -loadblock=FILE, -regtest, -dbcache=4000.
Exit status: 0 all went well, 1 an error, 2 a wrong option, 3 done but some input was refused,
130 interrupted (what was done is saved; the same command carries on).";

#[derive(Subcommand)]
pub enum Command {
    /// Check blocks from files and connect them, in order of height.
    ///
    /// Carries on from whatever the data directory holds. Blocks may come in any order and more
    /// than once; the best valid chain wins, as in Bitcoin Core.
    Sync {
        /// A file of blocks (bootstrap.dat, blk*.dat), or a Bitcoin Core data or blocks
        /// directory. Give as many as you like; without any, blocks already in the data directory
        /// are connected.
        #[arg(long, alias = "loadblock", value_name = "PATH", num_args = 1..)]
        from: Vec<PathBuf>,
        #[command(flatten)]
        engine: Engine,
    },
    /// Rebuild the UTXO set from the blocks already there (Core's -reindex-chainstate).
    Reindex {
        #[command(flatten)]
        engine: Engine,
    },
    /// Ask about the UTXO set.
    Txoutset {
        #[command(subcommand)]
        command: TxOutSet,
    },
    /// Make and read hints files, with which blocks are synced in any order (SwiftSync).
    Hints {
        #[command(subcommand)]
        command: HintsCommand,
    },
    /// Sync the first 14,132 blocks of mainnet, which came with this program, in all three ways.
    Demo {
        /// Put the data directory here and keep it.
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
    },
}

#[derive(Subcommand)]
pub enum TxOutSet {
    /// Statistics and hash of the UTXO set, as Bitcoin Core's gettxoutsetinfo prints them.
    Info(Info),
}

#[derive(Args)]
pub struct Info {
    /// Which hash over the whole set.
    #[arg(long, value_enum, default_value_t = HashType::HashSerialized3, value_name = "TYPE")]
    pub hash: HashType,
    #[command(flatten)]
    pub directory: Directory,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum HashType {
    /// Order does not matter; computed on all cores.
    Muhash,
    /// Over the set in order of its keys.
    #[value(name = "hash_serialized_3")]
    HashSerialized3,
    /// Statistics alone.
    None,
}

impl From<HashType> for UtxoHash {
    fn from(hash: HashType) -> Self {
        match hash {
            HashType::Muhash => Self::MuHash,
            HashType::HashSerialized3 => Self::HashSerialized3,
            HashType::None => Self::None,
        }
    }
}

/// The sums of SwiftSync.
#[derive(Clone, Copy, ValueEnum)]
pub enum Aggregate {
    Sha256,
    Muhash,
}

impl From<Aggregate> for sync::AggregateKind {
    fn from(aggregate: Aggregate) -> Self {
        match aggregate {
            Aggregate::Sha256 => Self::Sha256,
            Aggregate::Muhash => Self::MuHash,
        }
    }
}

/// Which data directory, of which network.
#[derive(Args)]
pub struct Directory {
    /// The data directory [default: Bitcoin Core's own].
    #[arg(long, value_name = "DIR")]
    datadir: Option<PathBuf>,
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
    /// A signet of your own: its challenge script in hex (BIP325).
    #[arg(long, value_name = "HEX")]
    signetchallenge: Option<String>,
    /// Threads that work on it; 0: one a core, -N: leave N cores free.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    par: i32,
}

/// How to sync.
#[derive(Args)]
pub struct Engine {
    #[command(flatten)]
    directory: Directory,
    /// Stop once this height is connected; 0: never.
    #[arg(long, value_name = "N")]
    stopatheight: Option<u32>,
    /// Take the scripts of this block and its ancestors as valid; 0 checks every script [default:
    /// the block that Bitcoin Core v31 has built in].
    ///
    /// Scripts are skipped under Core's conditions alone: the block is an ancestor of this one and
    /// of the best header, which has the network's minimum work and two weeks of work on top.
    #[arg(long, value_name = "HASH")]
    assumevalid: Option<String>,
    /// Least work that the best chain of headers must have before anything is assumed valid, in
    /// hex [default: what Bitcoin Core v31 has built in].
    #[arg(long, value_name = "HEX", hide_short_help = true)]
    minimumchainwork: Option<String>,
    /// SwiftSync with this hints file: all cores take blocks in any order up to the hints' height,
    /// without look-ups, and one comparison of sums proves the result.
    ///
    /// With --assumevalid=HASH the blocks up to that height, on the chain of HASH, are taken as
    /// valid. Whoever vouches for HASH vouches for what is then not checked below the last 288
    /// blocks: scripts, amounts (but the total supply is), coinbase claims, the order of spends,
    /// maturity of coinbases, relative lock times, and P2SH and witness signature operations. In
    /// the last 288 blocks only scripts are not checked. Undo data is written for these alone;
    /// `apus reindex` writes the rest.
    ///
    /// With --assumevalid=0 everything is checked, with the coins that the rev files next to the
    /// blocks hold. Wrong hints cost time and nothing else.
    #[arg(long, value_name = "FILE")]
    hints: Option<PathBuf>,
    /// What proves the hints; muhash is slower, and there to be compared.
    #[arg(long, value_enum, default_value_t = Aggregate::Sha256, hide = true)]
    aggregate: Aggregate,
    /// MiB for cached coins, at least 16; more means fewer look-ups on disk.
    #[arg(long, value_name = "MIB", default_value_t = 450)]
    dbcache: usize,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    pub json: bool,
}

impl Directory {
    /// The engine's options for a command that only reads.
    pub fn to_options(&self) -> Result<sync::Options, String> {
        let network = self.network()?;
        let datadir = match &self.datadir {
            Some(path) => expand_home(path),
            None => default_datadir()?,
        };
        Ok(sync::Options { threads: self.threads(), ..sync::Options::new(datadir, network) })
    }

    fn network(&self) -> Result<Network, String> {
        let mut named: Vec<Chain> = Vec::new();
        if let Some(name) = &self.chain {
            let unknown =
                || format!("unknown chain '{name}': use main, test, testnet4, signet or regtest");
            named.push(Chain::from_name(name).ok_or_else(unknown)?);
        }
        for (flag, chain) in [
            (self.testnet, Chain::Test),
            (self.testnet4, Chain::Testnet4),
            (self.signet, Chain::Signet),
            (self.regtest, Chain::Regtest),
        ] {
            if flag.is_some_and(|on| on != 0) {
                named.push(chain);
            }
        }
        if named.len() > 1 {
            return Err("more than one network named: use one of --chain, --testnet, --testnet4, \
                --signet, --regtest"
                .to_string());
        }
        let chain = named.first().copied().unwrap_or(Chain::Main);
        match &self.signetchallenge {
            None => Ok(Network::new(chain)),
            Some(_) if chain != Chain::Signet => {
                Err("--signetchallenge goes with --chain=signet alone".to_string())
            }
            Some(hex) => Ok(Network::custom_signet(parse_hex(hex)?)),
        }
    }

    fn threads(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        match self.par {
            n if n > 0 => (n as usize).min(THREADS_MAX),
            n => cores.saturating_sub(n.unsigned_abs() as usize).max(1),
        }
    }
}

impl Engine {
    /// The engine's options.
    pub fn to_options(&self) -> Result<sync::Options, String> {
        let options = self.directory.to_options()?;
        let assumevalid = match self.assumevalid.as_deref() {
            None => AssumeValid::BuiltIn,
            Some("0") => AssumeValid::Nothing,
            Some(hex) => match hex.parse::<Hash>() {
                Ok(hash) if hash.is_zero() => AssumeValid::Nothing,
                Ok(hash) => AssumeValid::Block(hash),
                Err(why) => return Err(format!("--assumevalid: {why} (or 0)")),
            },
        };
        let mut network = options.network.clone();
        if let Some(hex) = &self.minimumchainwork {
            let digits = hex.strip_prefix("0x").unwrap_or(hex);
            network.minimum_chain_work = format!("{digits:0>64}").parse().map_err(|_| {
                format!("--minimumchainwork: '{hex}' is not a number of at most 64 hex digits")
            })?;
        }
        Ok(sync::Options {
            network,
            assumevalid,
            dbcache_bytes: cache_bytes(self.dbcache),
            stop_at_height: self.stopatheight.filter(|height| *height > 0),
            hints: self.hints.as_deref().map(expand_home),
            aggregate: self.aggregate.into(),
            ..options
        })
    }
}

/// Bytes of as many MiB as the user wants to give, if that is enough.
pub fn cache_bytes(mib: usize) -> usize {
    mib.max(DBCACHE_MIB_MIN).saturating_mul(1 << 20)
}

fn parse_hex(hex: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("'{hex}' is not hex");
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return Err(wrong());
    }
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| wrong()))
        .collect()
}

/// Bitcoin Core's default data directory.
fn default_datadir() -> Result<PathBuf, String> {
    let home = std::env::var_os("HOME").ok_or("no home directory: give --datadir")?;
    let below =
        if cfg!(target_os = "macos") { "Library/Application Support/Bitcoin" } else { ".bitcoin" };
    Ok(Path::new(&home).join(below))
}

/// `~/…` as the shell would have it, where an option hid it from the shell (`-datadir=~/x`).
pub fn expand_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => Path::new(&home).join(rest),
        _ => path.to_path_buf(),
    }
}

/// Arguments in Core's spelling (`-datadir=DIR`) as clap wants them (`--datadir=DIR`).
pub fn core_spelling(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut after_separator = false;
    args.map(|arg| {
        after_separator |= arg == OsStr::new("--");
        let bytes = arg.as_encoded_bytes();
        let one_dash = bytes.len() > 2 && bytes[0] == b'-' && bytes[1].is_ascii_alphabetic();
        if !one_dash || after_separator {
            return arg;
        }
        let mut double = OsString::from("-");
        double.push(&arg);
        double
    })
    .collect()
}

/// Starts the log: warnings always, everything with `--debug`.
pub fn start_log(debug: bool) {
    let level = if debug { tracing::Level::DEBUG } else { tracing::Level::WARN };
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).init();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(args: &[&str]) -> Vec<OsString> {
        core_spelling(args.iter().map(OsString::from))
    }

    #[test]
    fn the_options_hold_together() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn one_dash_is_enough_for_long_options() {
        let args = spelled(&["apus", "sync", "-datadir=/x", "-loadblock=a", "-regtest", "-par=-1"]);
        let cli = Cli::try_parse_from(args).unwrap();
        let Command::Sync { from, engine } = cli.command else { panic!("not sync") };
        assert_eq!(from, [PathBuf::from("a")]);
        let options = engine.to_options().unwrap();
        assert_eq!(options.datadir, PathBuf::from("/x"));
        assert_eq!(options.network.chain, Chain::Regtest);
    }

    #[test]
    fn numbers_mean_what_they_mean_to_core() {
        for (arg, stop) in [("-stopatheight=0", None), ("-stopatheight=7", Some(7))] {
            let args = spelled(&["apus", "sync", "-datadir=x", "-par=2000000000", arg]);
            let Command::Sync { engine, .. } = Cli::try_parse_from(args).unwrap().command else {
                panic!("not sync")
            };
            let options = engine.to_options().unwrap();
            assert_eq!((options.stop_at_height, options.threads), (stop, THREADS_MAX));
        }
    }

    #[test]
    fn contradictions_are_told() {
        for args in [
            &["apus", "sync", "--regtest", "--chain", "main"][..],
            &["apus", "sync", "--chain", "mainnet"],
            &["apus", "sync", "--assumevalid", "xyz"],
            &["apus", "sync", "--signetchallenge", "51"],
        ] {
            let Command::Sync { engine, .. } = Cli::try_parse_from(spelled(args)).unwrap().command
            else {
                panic!("not sync")
            };
            assert!(engine.to_options().is_err(), "{args:?}");
        }
        assert!(Cli::try_parse_from(spelled(&["apus", "sync", "-frmo=x"])).is_err());
    }
}
