//! bitcoin.conf and settings.json: a command uses the directory and the network that bitcoind would
//! use, reports them, and no setting makes it do more than it was asked for.

use std::path::PathBuf;
use std::process::Output;

use apus_tools::UtxoHash;
use apus_wire::Chain;

use crate::support::conf_cases::{arguments_of_sync, assert_verdict, for_each_case};
use crate::support::program::{assert_contains, assert_ends, program, stderr, stdout};
use crate::support::tree::tree;
use crate::support::{Place, regtest_chain};

/// A home directory with a bitcoin.conf in `.bitcoin`, and a file with the regtest chain.
struct Home {
    place: Place,
    blocks: PathBuf,
}

impl Home {
    fn new(conf: &str) -> Self {
        let place = Place::new(Chain::Regtest);
        let blocks = place.write("chain", &regtest_chain());
        std::fs::create_dir_all(place.root().join("home/.bitcoin")).unwrap();
        let home = Self { place, blocks };
        home.set_conf(conf);
        home
    }

    fn conf(&self) -> PathBuf {
        self.place.root().join("home/.bitcoin/bitcoin.conf")
    }

    /// Writes bitcoin.conf; ROOT in it stands for the place's root.
    fn set_conf(&self, text: &str) {
        let root = self.place.root().to_str().unwrap();
        std::fs::write(self.conf(), text.replace("ROOT", root)).unwrap();
    }

    /// A file or directory in the place.
    fn path(&self, name: &str) -> PathBuf {
        self.place.root().join(name)
    }

    fn make_dir(&self, name: &str) -> PathBuf {
        std::fs::create_dir_all(self.path(name)).unwrap();
        self.path(name)
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = program();
        command.env("HOME", self.path("home")).current_dir(self.place.root());
        command.args(args).output().unwrap()
    }

    fn sync(&self, args: &[&str]) -> Output {
        let from = self.blocks.to_str().unwrap();
        self.run(&[&["sync", "--assumevalid=0", "--from", from], args].concat())
    }
}

#[track_caller]
fn assert_done(output: &Output) {
    assert_ends(output, 0, &[]);
}

/// Panics unless the run was refused with all of these words in its message.
#[track_caller]
fn assert_refused(output: &Output, words: &[&str]) {
    let text = stderr(output);
    // A refusal before any work has one of these exit statuses.
    assert!(matches!(output.status.code(), Some(1 | 2)), "{text}");
    assert_contains(&text, words);
}

#[test]
fn directory_and_network_come_from_bitcoin_conf() {
    let home = Home::new("# mine\ndatadir=ROOT/datadir\nregtest=1\n[regtest]\ndbcache=99 # MiB\n");
    home.make_dir("datadir");
    let output = home.sync(&[]);
    assert_done(&output);
    assert_eq!(home.place.stats(UtxoHash::None).height, 206);
    let text = stderr(&output);
    let first = text.lines().next().unwrap();
    let root = home.place.root().display();
    let words = format!(
        "Data directory {root}/datadir (regtest), blocks from {root}/chain; settings from \
         {root}/home/.bitcoin/bitcoin.conf (datadir={root}/datadir, regtest=1, dbcache=99)"
    );
    // After the time stamp that every line in a log has.
    assert_eq!(first.split_once(' '), Some((&first[..20], words.as_str())));
    assert_eq!(text.matches("Data directory").count(), 1);
    // Nothing else came into being in the default directory.
    assert_eq!(std::fs::read_dir(home.path("home/.bitcoin")).unwrap().count(), 1);
    let info = home.run(&["txoutset", "info", "--hash=none"]);
    assert_done(&info);
    assert!(stderr(&info).contains(&format!("Data directory {root}/datadir (regtest), blocks in")));
    assert!(stdout(&info).contains("\"height\": 206"));
    // With --json a program reads the object, and the line would be noise.
    let json = home.run(&["sync", "--json", "--lan=0"]);
    assert_done(&json);
    assert_eq!(stderr(&json), "");
    // A directory from the command line has its own bitcoin.conf, and the default one does not
    // count.
    let output = home.sync(&["--regtest", "--datadir", home.path("other").to_str().unwrap()]);
    assert_done(&output);
    assert!(!stderr(&output).contains("bitcoin.conf"), "{}", stderr(&output));
    assert!(home.path("other/regtest/chainstate").is_dir());
}

#[test]
fn settings_that_bitcoind_refuses_are_refused_at_the_start() {
    let home = Home::new("");
    home.make_dir("second");
    std::fs::write(home.path("second/bitcoin.conf"), "regtest=1\n").unwrap();
    let conf = home.conf();
    let at = |line: u32| format!("{}:{line}", conf.display());
    for (text, line, words) in [
        ("regtest=1\nserver\n", 2, "sets nothing"),
        ("chain=mainnet\n", 1, "unknown chain 'mainnet'"),
        ("regtest=1\ntestnet=1\n", 1, "more than one network"),
        ("\ndatadir=ROOT/none\n", 2, "does not exist"),
        ("regtest=1\nblocksdir=ROOT/none\n", 2, "does not exist"),
        ("includeconf=none.conf\n", 1, "none.conf cannot be read"),
        ("assumevalid=xyz\n", 1, "64 hex digits"),
        ("signet=1\nsignetchallenge=xy\n", 2, "not hex"),
        ("signet=1\nsignetchallenge=51\nsignetchallenge=52\n", 3, "keep one"),
        ("\nminimumchainwork=zz\n", 2, "hex digits"),
        ("server=1\nrpccookieperms=you\n", 2, "rpccookieperms=you from "),
        ("server=1\nrpcport=0\n", 2, "Invalid port specified in rpcport"),
    ] {
        home.set_conf(text);
        let before = tree(home.place.root());
        let output = home.run(&["sync", "--from", home.blocks.to_str().unwrap()]);
        assert_refused(&output, &[&at(line), words]);
        assert!(tree(home.place.root()) == before, "{text}");
    }
    home.set_conf("datadir=ROOT/second\nregtest=1\n");
    let other = home.path("second/bitcoin.conf");
    assert_refused(&home.sync(&[]), &[other.to_str().unwrap(), "ignored", "allowignoredconf=1"]);
    home.set_conf("datadir=ROOT/second\nregtest=1\nallowignoredconf=1\n");
    let output = home.sync(&[]);
    assert_done(&output);
    assert!(stderr(&output).contains("Warning: "), "{}", stderr(&output));
}

#[test]
fn settings_files_are_taken_warned_of_or_refused_as_by_core() {
    for_each_case(|dir, args, expected| {
        let found = apus::options_of_sync(arguments_of_sync(dir, args));
        assert_verdict(expected, found.map(|(_, warnings)| warnings), dir, &args.join(" "));
    });
}

#[test]
fn a_file_that_is_named_must_be_readable() {
    let home = Home::new("regtest=1\n");
    let none = home.path("none.conf");
    let before = tree(home.place.root());
    let refused = home.sync(&["--conf", none.to_str().unwrap()]);
    assert_refused(&refused, &["none.conf", "cannot be read"]);
    assert_refused(&home.sync(&["--conf=/"]), &["/ cannot be read", "directory"]);
    assert_refused(&home.sync(&["--conf=/dev/zero"]), &["/dev/zero", "longer than"]);
    assert_refused(&home.sync(&["--conf", home.blocks.to_str().unwrap()]), &["chain:"]);
    assert_refused(&home.sync(&["--settings=none.json"]), &["none.json", "cannot be read"]);
    assert_refused(&home.sync(&["-includeconf=x"]), &["includeconf"]);
    assert!(tree(home.place.root()) == before);
    // Damaged settings are refused too, unless `-nosettings` says to ignore them.
    home.make_dir("home/.bitcoin/regtest");
    std::fs::write(home.path("home/.bitcoin/regtest/settings.json"), "{\"dbcache\": 4").unwrap();
    assert_refused(&home.sync(&[]), &["settings.json: this is not", "--nosettings"]);
    assert_done(&home.sync(&["-nosettings"]));
}

#[test]
fn no_home_directory_is_an_error_that_says_what_to_do() {
    let home = Home::new("");
    for set in [true, false] {
        let mut command = program();
        command.current_dir(home.place.root()).args(["txoutset", "info"]);
        if set {
            command.env("HOME", "")
        } else {
            command.env_remove("HOME")
        };
        assert_refused(&command.output().unwrap(), &["HOME", "--datadir"]);
        assert!(!home.path(".bitcoin").exists());
    }
}

#[test]
fn settings_of_bitcoind_start_nothing_here() {
    let home = Home::new("regtest=1\ndatadir=ROOT/datadir\n");
    home.make_dir("datadir");
    assert_done(&home.sync(&[]));
    home.set_conf(
        "regtest=1\ndatadir=ROOT/datadir\nreindex=1\nreindex-chainstate=1\nrpcuser=x\nserver=1\n\
         loadblock=ROOT/none\nstopatheight=3\nrpcallowip=127.0.0.1\n[regtest]\nconnect=10.0.0.1\n",
    );
    std::fs::write(home.path("datadir/regtest/settings.json"), r#"{"prune": 550}"#).unwrap();
    let before = home.place.muhash();
    // Commands that only read do not mention them.
    let info = home.run(&["txoutset", "info", "--hash=muhash"]);
    assert_done(&info);
    assert!(!stderr(&info).contains("Warning"), "{}", stderr(&info));
    assert!(stdout(&info).contains(&before.0));
    let output = home.sync(&[]);
    assert_done(&output);
    let text = stderr(&output);
    let words = [
        "settings.json (prune=550)",
        "bitcoin.conf:3: reindex=1 is ignored: run `apus reindex`",
        "bitcoin.conf:4: reindex-chainstate=1",
        "stopatheight=3, server=1, rpcallowip=127.0.0.1)",
        "bitcoin.conf:9 has no effect without --rpcbind",
    ];
    assert_contains(&text, &words);
    assert!(!text.contains("rpcuser") && !text.contains("connect"));
    assert!(stdout(&output).contains("0, 0 transactions"));
    assert!(home.path("datadir/regtest/blocks/blk00000.dat").is_file());
    assert_eq!(home.place.muhash(), before);
}

#[test]
fn blocks_come_from_loadblock_where_the_command_line_names_none() {
    let home = Home::new("regtest=1\ndatadir=ROOT/datadir\nloadblock=ROOT/chain\nassumevalid=0\n");
    home.make_dir("datadir");
    let output = home.run(&["sync"]);
    assert_done(&output);
    assert!(stderr(&output).contains("blocks from"), "{}", stderr(&output));
    assert_eq!(home.place.stats(UtxoHash::None).height, 206);
}
