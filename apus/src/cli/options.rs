#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::chosen::Chosen;
use super::conf::{self, Config, Given, Which};
use super::hints::HintsCommand;
use super::status::StatusCommand;
use crate::hash::Hash;
use crate::sync::{self, AssumeValid, UtxoHash};
use crate::wire::{Chain, Network};

/// No machine gains by more threads, and the system may not have them.
const THREADS_MAX: usize = 256;

/// With less, which an empty cache and what is fetched ahead fill, every few blocks would be a
/// commit. Core raises what it is given as well.
const DBCACHE_MIB_MIN: usize = 16;

/// Turns Bitcoin blocks into a verified UTXO set, and leaves a data directory that Bitcoin Core
/// opens and carries on from.
#[derive(Parser)]
#[command(name = "apus", version = env!("APUS_VERSION"))]
#[command(max_term_width = 100, after_help = EXAMPLES)]
#[command(args_override_self = true)]
pub struct Cli {
    /// Log what happens inside, to standard error.
    #[arg(long, global = true)]
    pub debug: bool,
    /// Say nothing but errors, what is refused, and what is asked for: no progress, no report.
    #[arg(long, global = true)]
    pub quiet: bool,
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

Bitcoin Core's spelling works too: -datadir=DIR, -loadblock=FILE, -regtest, -dbcache=4000.
Exit status: 0 all went well, 1 an error, 2 a wrong option, 3 done but some input was refused,
130 interrupted (what was done is saved; the same command carries on).
With --json an error is one object too, {\"error\": TEXT, \"kind\": KIND}, with the same exit
status and the same text on standard error. KIND: usage (exit status 2), input (the directory or
files given will not do), disk (a file cannot be read or written, or is damaged), hints, refused
(a block breaks a rule), unproved (SwiftSync cannot prove the chain).
Progress and log go to standard error, with time stamps unless that is a terminal; a run goes on
when nobody reads them.";

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
        /// First make the block index anew from the block files, where it is damaged or lost
        /// (Core's -reindex). Needs all of them; undo data is written anew.
        #[arg(long)]
        index: bool,
        #[command(flatten)]
        engine: Engine,
        /// Take the rebuilt UTXO set even if it ends below the present one.
        #[arg(long)]
        allow_shrink: bool,
    },
    Status(StatusCommand),
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
    /// Show no progress; what is printed is JSON in any case.
    #[arg(long)]
    pub json: bool,
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
    /// The data directory [default: the one that bitcoin.conf names, or Bitcoin Core's own].
    #[arg(long, value_name = "DIR")]
    datadir: Option<PathBuf>,
    /// The directory whose blocks/ holds the blk and rev files, if not the data directory.
    #[arg(long, value_name = "DIR")]
    blocksdir: Option<PathBuf>,
    /// Bitcoin Core's configuration file [default: bitcoin.conf in the data directory].
    ///
    /// Apus takes from it what it has an option for. The command line has more say than
    /// settings.json, and that more than this file.
    #[arg(long, value_name = "FILE")]
    conf: Option<PathBuf>,
    /// Read no bitcoin.conf.
    #[arg(long, hide_short_help = true, conflicts_with = "conf")]
    noconf: bool,
    /// Read no file that bitcoin.conf includes.
    #[arg(long, hide_short_help = true)]
    noincludeconf: bool,
    /// Pass over a second bitcoin.conf, in the data directory that the first one names.
    #[arg(long, hide_short_help = true)]
    allowignoredconf: bool,
    /// The file of settings that Bitcoin Core's window writes [default: settings.json in the
    /// network's directory].
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    settings: Option<PathBuf>,
    /// Read no settings.json.
    #[arg(long, hide_short_help = true, conflicts_with = "settings")]
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
    /// A signet of your own: its challenge script in hex (BIP325).
    #[arg(long, value_name = "HEX")]
    signetchallenge: Option<String>,
    /// Threads that work on it; 0: one a core, -N: leave N cores free [default: 0].
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    par: Option<i64>,
}

/// How to sync.
#[derive(Args)]
pub struct Engine {
    #[command(flatten)]
    directory: Directory,
    /// Stop once this height is connected; 0: never.
    #[arg(long, value_name = "N")]
    pub stopatheight: Option<u32>,
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
    /// MiB for cached coins, at least 16; more means fewer look-ups on disk [default: 450].
    ///
    /// It bounds the coins alone. About 150 MiB for blocks under way come on top, a third of it
    /// while coins are written, and tables, which are mapped and which the system drops where it
    /// needs the memory. Where there is less memory than all this, less is used, and a warning says
    /// so. A SwiftSync takes at most 70 % of it for coins, and never more than 200 MiB.
    #[arg(long, value_name = "MIB")]
    dbcache: Option<usize>,
    /// Print one JSON object at the end, and nothing else, to standard output.
    #[arg(long)]
    pub json: bool,
}

impl Directory {
    /// The engine's options for a command that only reads. Its errors are about options and
    /// settings.
    pub fn to_options(&self) -> Result<Chosen, String> {
        let mut config = self.config()?;
        let options = self.options(&mut config)?;
        Ok(Chosen { options, config })
    }

    /// The settings of the files that the command line names, or that have the usual names.
    fn config(&self) -> Result<Config, String> {
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
        let warning = conf::check_directories(&config)?;
        config.warnings.extend(warning);
        Ok(config)
    }

    fn options(&self, config: &mut Config) -> Result<sync::Options, String> {
        let network = self.network(config)?;
        let threads = threads(match self.par {
            Some(par) => par,
            None => config.take_number("par")?.unwrap_or(0),
        });
        let blocks_dir = self.blocks_dir(config)?;
        Ok(sync::Options {
            threads,
            blocks_dir,
            ..sync::Options::new(config.datadir.clone(), network)
        })
    }

    fn network(&self, config: &Config) -> Result<Network, String> {
        let chain = config.chain;
        match (&self.signetchallenge, config.challenges.as_slice()) {
            (Some(_), _) if chain != Chain::Signet => {
                Err("--signetchallenge is for --chain=signet alone: add that, or leave it out"
                    .to_string())
            }
            (Some(hex), _) => Ok(Network::custom_signet(parse_hex("--signetchallenge", hex)?)),
            // A file may keep the challenge for the days on which signet is chosen.
            (None, challenges) if challenges.is_empty() || chain != Chain::Signet => {
                Ok(Network::new(chain))
            }
            (None, [(hex, place)]) => {
                let what = format!("signetchallenge from {place}");
                Ok(Network::custom_signet(parse_hex(&what, hex)?))
            }
            (None, several) => Err(format!(
                "signetchallenge is set {} times, in {} and {}: keep one",
                several.len(),
                several[0].1,
                several[1].1
            )),
        }
    }

    fn blocks_dir(&self, config: &mut Config) -> Result<Option<PathBuf>, String> {
        let (path, place) = match &self.blocksdir {
            Some(path) => (expand_home(path), "the command line".to_string()),
            None => match config.take("blocksdir")? {
                Some((path, place)) => (PathBuf::from(path), place.to_string()),
                None => return Ok(None),
            },
        };
        match path.is_dir() {
            true => Ok(Some(path)),
            false => Err(format!(
                "the directory '{}', which {place} names as blocksdir, does not exist: mount or \
                 make it, or name another with --blocksdir",
                path.display()
            )),
        }
    }
}

impl Engine {
    /// The engine's options. Its errors are about options and settings.
    pub fn to_options(&self) -> Result<Chosen, String> {
        let mut chosen = self.directory.to_options()?;
        chosen.take_cache(self.dbcache)?;
        chosen.name_unsupported();
        let Chosen { options, config } = &mut chosen;
        let mut choose = |given: &Option<String>, name: &str| match given {
            Some(text) => Ok(Some((text.clone(), format!("--{name}")))),
            None => config
                .take(name)
                .map(|found| found.map(|(text, place)| (text, format!("{name} from {place}")))),
        };
        if let Some((text, what)) = choose(&self.assumevalid, "assumevalid")? {
            options.assumevalid = parse_assumevalid(&what, &text)?;
        }
        if let Some((text, what)) = choose(&self.minimumchainwork, "minimumchainwork")? {
            options.network.minimum_chain_work = parse_work(&what, &text)?;
        }
        options.stop_at_height = self.stopatheight.filter(|height| *height > 0);
        options.hints = self.hints.as_deref().map(expand_home);
        options.aggregate = self.aggregate.into();
        Ok(chosen)
    }
}

/// Bytes of as many MiB as the user wants to give, if that is enough.
pub fn cache_bytes(mib: usize) -> usize {
    mib.max(DBCACHE_MIB_MIN).saturating_mul(1 << 20)
}

/// How many threads Core's `-par` means here.
fn threads(par: i64) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = usize::try_from(par.unsigned_abs()).unwrap_or(usize::MAX);
    match par {
        1.. => wanted.min(THREADS_MAX),
        _ => cores.saturating_sub(wanted).max(1),
    }
}

/// A number of 256 bits in hex.
fn parse_work(what: &str, text: &str) -> Result<Hash, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    format!("{digits:0>64}").parse().map_err(|_| {
        format!(
            "{what}: '{text}' is not a number of at most 64 hex digits: give what Bitcoin Core's \
             getblockheader calls chainwork"
        )
    })
}

/// A block's hash, or zeros of any number for none.
fn parse_assumevalid(what: &str, text: &str) -> Result<AssumeValid, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.bytes().all(|digit| digit == b'0') && digits.len() <= 64 {
        return Ok(AssumeValid::Nothing);
    }
    let hash = digits.parse::<Hash>().map_err(|why| {
        format!("{what}: {why}: give the hash of a block, or 0 to check every script")
    })?;
    Ok(AssumeValid::Block(hash))
}

fn parse_hex(what: &str, hex: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("{what}: '{hex}' is not hex: give two hex digits for each byte");
    if !hex.len().is_multiple_of(2) || !hex.is_ascii() {
        return Err(wrong());
    }
    (0..hex.len() / 2)
        .map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| wrong()))
        .collect()
}

/// Bitcoin Core's default data directory. Core makes one in `/` where there is no home directory;
/// nobody wants that.
fn default_datadir(home: Option<OsString>) -> Result<PathBuf, String> {
    let home = home.filter(|home| !home.is_empty()).ok_or(
        "HOME is empty or not set, so there is no default data directory: name one with --datadir",
    )?;
    let below =
        if cfg!(target_os = "macos") { "Library/Application Support/Bitcoin" } else { ".bitcoin" };
    Ok(Path::new(&home).join(below))
}

/// `~/…` as the shell would have it, where an option hid it from the shell (`-datadir=~/x`).
pub fn expand_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) if !home.is_empty() => Path::new(&home).join(rest),
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
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        // It would report with eprintln!, and so panic, that standard error cannot be written.
        .log_internal_errors(false)
        .init();
}
