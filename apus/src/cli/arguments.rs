//! The commands and the options that all of them take.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::{Arg, CommandFactory, Parser, Subcommand};

use super::categories::Categories;
use super::conf::{NETWORK_FLAGS, truth};
use super::doctor::DoctorCommand;
use super::export::ExportCommand;
use super::hints::HintsCommand;
use super::index::IndexCommand;
use super::init::InitCommand;
use super::manual::{CompletionsCommand, ManCommand};
use super::prove::ProveCommand;
use super::prune::PruneCommand;
use super::rewind::RewindCommand;
use super::serve::ServeCommand;
use super::shard::ShardCommand;
use super::snapshot::SnapshotCommand;
use super::status::StatusCommand;
use super::sync::{ReindexCommand, SyncCommand};
use super::txoutset::TxOutSetCommand;
use super::verify::VerifyCommand;

/// The fastest way from Bitcoin blocks to a verified UTXO set.
///
/// Apus checks every consensus rule and builds a data directory that Bitcoin Core opens and
/// continues from.
#[derive(Parser)]
#[command(name = "apus", version = env!("APUS_VERSION"))]
#[command(max_term_width = 100, after_help = after_help())]
#[command(args_override_self = true)]
pub struct Cli {
    /// Log internal events to standard error and to the log file: those of one category (bench,
    /// blockstorage, coindb, http, leveldb, net, prune, reindex, rpc, validation), or all without a
    /// value. May be given many times. `trace` makes sync, reindex, rewind, index, prune and
    /// `snapshot load` write apus-trace.json into the network's directory: when each thread worked,
    /// and when it waited for the disk (ui.perfetto.dev shows it).
    #[arg(long, global = true, value_name = "CATEGORY", num_args = 0..=1, require_equals = true,
        default_missing_value = "all", display_order = 998)]
    pub debug: Vec<String>,
    /// Print only errors, refused blocks and requested results: no progress, no report.
    #[arg(long, global = true, display_order = 997)]
    pub quiet: bool,
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  apus init                                    what Apus would do on this machine
  apus demo                                    the first 14,132 mainnet blocks, in seconds
  apus sync --from bootstrap.dat               into Bitcoin Core's own data directory
  apus sync --from /old/node --datadir new     from the block files of another node
  apus reindex --datadir new --assumevalid 0   rebuild the UTXO set, checking every script
  apus hints create -o mainnet.hints           list the unspent outputs of a synced directory
  apus sync --from /old/node --datadir new --hints mainnet.hints --assumevalid HASH
                                               in any order, without look-ups, proved at the end
  apus serve --datadir /old/node               serve the blocks of a node to your other nodes
  apus txoutset info --hash muhash             the same as Bitcoin Core's gettxoutsetinfo";

const EXPORT_EXAMPLE: &str = "
  apus export coins -o utxos.parquet           the UTXO set as a table for analysis";

const FACTS: &str = "

Bitcoin Core's spelling works too: -datadir=DIR, -loadblock=FILE, -regtest, -par=4, -nolisten.
Exit status: 0 success, 1 error, 2 wrong option, 3 done but some input was refused, 130 interrupted
(a sync saves what is done; run the same command again to continue).
With --json an error is also printed as one object, {\"error\": TEXT, \"kind\": KIND}; the exit
status and the text on standard error stay the same. KIND: usage (exit status 2), input (the
directory or files given cannot be used), disk (a file cannot be read or written, or is damaged),
hints, snapshot, refused (a block breaks a rule), unproved (SwiftSync cannot prove the chain),
interrupted (exit status 130).
Progress and log go to standard error, with time stamps unless it is a terminal. A run continues if
standard error is closed.";

/// Returns the end of the program's help. Examples name only commands that this build has.
fn after_help() -> String {
    let export = if cfg!(feature = "export") { EXPORT_EXAMPLE } else { "" };
    format!("{EXAMPLES}{export}{FACTS}")
}

#[derive(Subcommand)]
pub enum Command {
    Init(Box<InitCommand>),
    Doctor(Box<DoctorCommand>),
    Sync(Box<SyncCommand>),
    Reindex(ReindexCommand),
    Rewind(RewindCommand),
    Index(IndexCommand),
    Prune(PruneCommand),
    Serve(ServeCommand),
    Status(StatusCommand),
    Verify(VerifyCommand),
    Prove(Box<ProveCommand>),
    /// Print statistics of the UTXO set.
    Txoutset {
        #[command(subcommand)]
        command: TxOutSetCommand,
    },
    /// Make and read hints files, with which SwiftSync takes blocks in any order.
    Hints {
        #[command(subcommand)]
        command: HintsCommand,
    },
    /// Make, read and load UTXO snapshots in the format of Bitcoin Core's dumptxoutset.
    Snapshot {
        #[command(subcommand)]
        command: SnapshotCommand,
    },
    /// Verify a chain on many machines: a join as tasks, with files between them.
    Shard {
        #[command(subcommand)]
        command: ShardCommand,
    },
    Export(Box<ExportCommand>),
    /// Sync the first 14,132 blocks of mainnet, which are part of this program, in four ways.
    Demo {
        /// Put the data directories here and keep them [default: a temporary directory, removed at
        /// the end].
        #[arg(long, value_name = "DIR")]
        keep: Option<PathBuf>,
    },
    Completions(CompletionsCommand),
    Man(ManCommand),
}

/// Options that Core negates (`-noprune`) and that mean the same with the value 0, besides those
/// whose value is optional.
const OFF_BY_0: [&str; 11] = [
    "assumevalid",
    "connect",
    "dbcache",
    "maxconnections",
    "maxuploadtarget",
    "minimumchainwork",
    "onion",
    "par",
    "proxy",
    "prune",
    "stopatheight",
];

/// Converts arguments in Core's spelling (`-datadir=DIR`, `-nolisten`) to clap's (`--datadir=DIR`,
/// `--listen=0`), and puts a `=` before the value of an option whose value is optional (`--witness
/// 0`).
pub fn core_spelling(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut after_separator = false;
    let doubled = args.map(|arg| {
        after_separator |= arg == OsStr::new("--");
        let bytes = arg.as_encoded_bytes();
        let one_dash = bytes.len() > 2 && bytes[0] == b'-' && bytes[1].is_ascii_alphabetic();
        if !one_dash || after_separator {
            return arg;
        }
        let mut double = OsString::from("-");
        double.push(&arg);
        double
    });
    joined(doubled.collect())
}

/// Joins each option whose value is optional with the value after it.
fn joined(args: Vec<OsString>) -> Vec<OsString> {
    let program = Cli::command();
    let optional_values = optional_values(&program);
    let mut joined: Vec<OsString> = Vec::with_capacity(args.len());
    let mut optional = None;
    let mut after_separator = false;
    for arg in args {
        after_separator |= arg == OsStr::new("--");
        let positive = arg.to_str().and_then(|arg| positive(arg, &program, &optional_values));
        let arg = positive.filter(|_| !after_separator).map_or(arg, OsString::from);
        let value = arg.to_str().unwrap_or_default();
        let has_command =
            joined.iter().any(|arg| arg.to_str().is_some_and(Command::has_subcommand));
        match (&mut joined[..], optional.take()) {
            ([.., option], Some(values)) if takes(values, value, has_command) => {
                option.push("=");
                option.push(&arg);
            }
            _ => {
                let name = value.strip_prefix("--").filter(|_| !after_separator);
                optional = name.and_then(|name| optional_values.get(name).copied());
                joined.push(arg);
            }
        }
    }
    joined
}

/// Returns the option that a negated one (`--noX`) stands for; `None` if `arg` is none, or is an
/// option itself.
fn positive(
    arg: &str,
    program: &clap::Command,
    optional_values: &HashMap<&str, OptionalValue>,
) -> Option<String> {
    let (option, value) = arg.split_once('=').unwrap_or((arg, ""));
    let name = option.strip_prefix("--no")?;
    let mut options = all(program).into_iter().flat_map(clap::Command::get_arguments);
    let is_option = options.any(|other| other.get_long() == option.strip_prefix("--"));
    let has_off = optional_values.contains_key(name) || OFF_BY_0.contains(&name);
    // On the command line, Core's `-noregtest` leaves the network to the files.
    let is_network = NETWORK_FLAGS.iter().any(|(flag, _)| *flag == name);
    (has_off && !is_network && !is_option).then(|| format!("--{name}={}", u8::from(!truth(value))))
}

/// Returns whether `value`, which follows an option with optional values, belongs to that option.
/// Otherwise it is an argument of its own: `prune` is both a log category and a command.
fn takes(values: OptionalValue, value: &str, has_command: bool) -> bool {
    match values {
        OptionalValue::Flag => ["0", "1"].contains(&value),
        OptionalValue::Category => {
            let is_command = !has_command && Command::has_subcommand(value);
            !value.is_empty() && !is_command && Categories::of(&[value.to_string()]).is_ok()
        }
    }
}

/// The kind of value of an option whose value is optional.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OptionalValue {
    /// `0` or `1`.
    Flag,
    /// A category of the log.
    Category,
}

/// Returns the options of all commands whose value is optional.
fn optional_values(program: &clap::Command) -> HashMap<&str, OptionalValue> {
    let options = all(program).into_iter().flat_map(clap::Command::get_arguments);
    let optional = options.filter(|option| option.is_require_equals_set());
    let kind = |option: &Arg| match option.get_long() {
        Some("debug") => OptionalValue::Category,
        _ => OptionalValue::Flag,
    };
    optional.filter_map(|option| Some((option.get_long()?, kind(option)))).collect()
}

/// Returns a command and all below it.
fn all(command: &clap::Command) -> Vec<&clap::Command> {
    let below = command.get_subcommands().flat_map(all);
    std::iter::once(command).chain(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::conf::{NETWORK_ONLY, is_known};

    #[test]
    fn the_options_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn one_dash_is_enough_for_long_options() {
        let args = ["apus", "sync", "-datadir=/x", "-loadblock=a", "-regtest", "-par=-1"];
        let args = core_spelling(args.map(OsString::from).into_iter());
        let Command::Sync(command) = Cli::try_parse_from(args).unwrap().command else {
            panic!("not sync")
        };
        assert_eq!(command.from, [PathBuf::from("a")]);
        let options = command.engine.to_options().unwrap().options;
        assert_eq!(options.datadir, PathBuf::from("/x"));
        assert_eq!(options.network.chain, apus_wire::Chain::Regtest);
    }

    #[test]
    fn the_examples_are_of_commands_that_this_build_has() {
        assert_eq!(after_help().contains("apus export"), cfg!(feature = "export"));
    }

    #[test]
    fn every_help_begins_with_a_sentence() {
        let mut program = Cli::command();
        program.build();
        for command in all(&program) {
            let name = command.get_bin_name().unwrap_or_default();
            let about = command.get_about().expect(name).to_string();
            let long = command.get_long_about().map_or(about.clone(), ToString::to_string);
            for first in [&about[..], long.split("\n\n").next().unwrap()] {
                let words = first.split_whitespace().count();
                assert!(first.starts_with(|c: char| c.is_ascii_uppercase()), "{name}: {first}");
                assert!(words >= 3 && !first.ends_with(':'), "{name}: {first}");
                assert_eq!(first.trim_end_matches('.'), about, "{name}");
            }
        }
        let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
        let readme = std::fs::read_to_string(readme).unwrap();
        let description = readme.split("\n\n").nth(1).unwrap();
        assert_eq!(program.get_about().unwrap().to_string() + ".", description);
        assert!(env!("CARGO_PKG_DESCRIPTION").starts_with(description.trim_end_matches('.')));
    }

    #[test]
    fn an_equals_sign_before_an_optional_value_may_be_left_out() {
        let program = Cli::command();
        let options = all(&program).into_iter().flat_map(clap::Command::get_arguments);
        for option in options.filter(|option| option.is_require_equals_set()) {
            let name = option.get_long().unwrap();
            let expected = if name == "debug" { "CATEGORY" } else { "0|1" };
            assert_eq!(option.get_value_names().unwrap()[0], expected, "{name}");
        }
        let spelled = |args: &[&str]| {
            let args = core_spelling(args.iter().map(OsString::from));
            args.into_iter().map(|arg| arg.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(spelled(&["sync", "--witness", "0"]), ["sync", "--witness=0"]);
        assert_eq!(spelled(&["-regtest", "1", "1"]), ["--regtest=1", "1"]);
        assert_eq!(spelled(&["--regtest", "mainnet.hints"]), ["--regtest", "mainnet.hints"]);
        assert_eq!(spelled(&["--debug", "net", "sync"]), ["--debug=net", "sync"]);
        assert_eq!(spelled(&["sync", "--debug", "prune"]), ["sync", "--debug=prune"]);
        assert_eq!(spelled(&["--debug", "prune"]), ["--debug", "prune"]);
        assert_eq!(spelled(&["--regtest=1", "0"]), ["--regtest=1", "0"]);
        assert_eq!(spelled(&["--", "--regtest", "1"]), ["--", "--regtest", "1"]);
        // Core's negations, of options that can be off.
        for name in OFF_BY_0 {
            let known = all(&program).into_iter().flat_map(clap::Command::get_arguments);
            assert!(known.filter_map(Arg::get_long).any(|long| long == name), "{name}");
            assert_eq!(spelled(&[&format!("-no{name}")]), [format!("--{name}=0")]);
        }
        assert_eq!(spelled(&["sync", "-nolisten", "1"]), ["sync", "--listen=0", "1"]);
        assert_eq!(spelled(&["--noserver=1", "-notxindex=0"]), ["--server=0", "--txindex=1"]);
        for left in ["-noconf", "-nosettings", "-noregtest", "-noaddnode=1", "-nonsense"] {
            assert_eq!(spelled(&[left]), [format!("-{left}")]);
        }
        assert_eq!(spelled(&["--", "--nolisten"]), ["--", "--nolisten"]);
    }

    /// Of all commands, those that write to a directory have a log and a trace.
    #[test]
    fn the_help_names_the_commands_that_write_a_trace() {
        let mut program = Cli::command();
        program.build();
        let option = program.get_arguments().find(|option| option.get_long() == Some("debug"));
        let help = option.unwrap().get_help().unwrap().to_string();
        let named = help.split_once("`trace` makes ").unwrap().1.split_once(" write ").unwrap().0;
        let has_log = |command: &&clap::Command| {
            command.get_arguments().any(|option| option.get_long() == Some("debuglogfile"))
        };
        for command in all(&program).into_iter().filter(has_log) {
            let name = command.get_bin_name().unwrap().trim_start_matches("apus ");
            assert!(named.contains(name), "{name} is not in: {named}");
        }
    }

    /// The guide's page on settings names each option of Core that Apus has, too, and no setting
    /// that neither has.
    #[test]
    fn the_guide_lists_the_settings_that_apus_takes() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/configuration.md");
        let page = std::fs::read_to_string(page).unwrap();
        let between = |start: &str, end: &str| {
            let after = page.split_once(start).expect(start).1;
            after.split_once(end).expect(end).0
        };
        let quoted = |text: &str| -> Vec<String> {
            text.split('`').skip(1).step_by(2).map(str::to_string).collect()
        };
        let program = Cli::command();
        let options = all(&program).into_iter().flat_map(clap::Command::get_arguments);
        let shown = options.filter(|option| !option.is_hide_set());
        for name in shown.filter_map(Arg::get_long).filter(|name| is_known(name)) {
            let spelled = [format!("`{name}`"), format!("`--{name}`"), format!("`--{name} ")];
            assert!(spelled.iter().any(|name| page.contains(name)), "{name} is not in the guide");
        }
        let table = between("\n## Settings\n", "\n## ");
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| `")).collect();
        assert!(rows.len() > 15, "{rows:?}");
        for row in rows {
            let cells: Vec<&str> = row.split(" | ").collect();
            for name in quoted(cells[0]) {
                assert!(is_known(&name), "{name}");
            }
            for command in quoted(cells[1]) {
                let mut names = command.split(' ');
                let found = names.try_fold(&program, |above, name| above.find_subcommand(name));
                assert!(found.is_some(), "{command}");
            }
        }
        assert_eq!(quoted(between("At the top of the file ", " are for the")), NETWORK_ONLY);
    }

    #[test]
    fn options_that_do_not_exist_are_refused() {
        for wrong in ["-frmo=x", "-includeconf=x"] {
            let args = core_spelling(["apus", "sync", wrong].map(OsString::from).into_iter());
            assert!(Cli::try_parse_from(args).is_err(), "{wrong}");
        }
    }
}
