//! The commands that Apus prints, run as they are printed, with each way to name the network.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use apus_wire::Chain;

use crate::support::Place;
use crate::support::program::{assert_ends, program, stdout};

/// The bitcoin.conf in the home directory and that in the data directory, and the arguments of a
/// first run. DIR is the data directory.
type Situation = (&'static str, &'static str, &'static [&'static str]);

/// Ways to name regtest and the data directory.
const SITUATIONS: &[Situation] = &[
    ("", "", &["--regtest", "--datadir=DIR"]),
    ("", "regtest=1", &["--datadir=DIR"]),
    ("", "chain=regtest", &["--datadir=DIR"]),
    ("", "regtest=1", &["--regtest", "--datadir=DIR"]),
    ("", "signet=1", &["--signet=0", "--regtest", "--datadir=DIR"]),
    ("", "chain=signet", &["--chain=regtest", "--datadir=DIR"]),
    ("", "includeconf=more", &["--datadir=DIR"]),
    ("datadir=DIR\nregtest=1", "", &[]),
    ("regtest=1", "", &["--regtest", "--datadir=DIR"]),
];

/// A home directory, and a data directory elsewhere.
pub struct Home {
    place: Place,
    args: Vec<String>,
}

impl Home {
    fn new(situation: &Situation) -> Self {
        let (home, own, args) = situation;
        let place = Place::new(Chain::Regtest);
        let dir = place.root().join("my node");
        let at = |text: &str| text.replace("DIR", dir.to_str().unwrap());
        for (path, conf) in [(place.root().join(".bitcoin"), home), (dir.clone(), own)] {
            std::fs::create_dir_all(&path).unwrap();
            if !conf.is_empty() {
                std::fs::write(path.join("bitcoin.conf"), at(conf)).unwrap();
                std::fs::write(path.join("more"), "regtest=1\n").unwrap();
            }
        }
        let args = args.iter().map(|arg| at(arg)).collect();
        Self { place, args }
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = program();
        command.env("HOME", self.place.root()).env("PATH", "/nonexistent");
        command.args(args).args(&self.args).output().unwrap()
    }

    /// Syncs, and returns the command that the report names.
    fn next(&self) -> String {
        let blocks = data_file();
        let output = self.run(&["sync", "--from", blocks.to_str().unwrap()]);
        assert_ends(&output, 0, &[]);
        let text = stdout(&output);
        text.lines().find_map(|line| line.strip_prefix("Next: ")).expect(&text).to_string()
    }

    /// Runs a command that was printed, with one more option, and the program from `directory`.
    pub fn run_printed(&self, command: &str, option: &str, directory: &Path) -> Output {
        let mut shell = Command::new("/bin/sh");
        shell.env("HOME", self.place.root()).env("PATH", directory);
        shell.arg("-c").arg(format!("{command} {option}")).output().unwrap()
    }

    /// Where the regtest chain is.
    pub fn network_dir(&self) -> PathBuf {
        self.place.root().join("my node/regtest")
    }
}

fn data_file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/regtest-1-206.dat")
}

/// Calls `check` with each situation after a sync, and the command for bitcoind that it names.
pub fn for_each_next(mut check: impl FnMut(&Home, &str)) {
    for situation in SITUATIONS {
        let home = Home::new(situation);
        let next = home.next();
        assert!(next.starts_with("bitcoind"), "{situation:?}: {next}");
        check(&home, &next);
    }
}

#[test]
fn the_plan_of_init_runs_as_it_is_printed() {
    let program = program().get_program().to_owned();
    let directory = Path::new(&program).parent().unwrap();
    for situation in SITUATIONS {
        let home = Home::new(situation);
        let root = home.place.root().to_str().unwrap().to_string();
        let printed = home.run(&["init", "--quiet", "--lan=0", "--root", &root]);
        assert_ends(&printed, 0, &[]);
        let command = stdout(&printed).trim().to_string();
        assert!(command.starts_with("apus sync"), "{situation:?}: {command}");
        let from = format!("--from {}", data_file().display());
        let output = home.run_printed(&command, &from, directory);
        assert_ends(&output, 0, &[]);
        assert!(home.network_dir().join("chainstate").is_dir(), "{situation:?}: {command}");
    }
}

#[test]
fn the_next_command_leads_to_the_same_directory() {
    for_each_next(|home, next| {
        let dir = home.network_dir();
        assert!(dir.join("chainstate").is_dir(), "{next}");
        // Apus takes the options of bitcoind.
        let status = next.replacen("bitcoind", "apus status", 1);
        let program = program().get_program().to_owned();
        let output = home.run_printed(&status, "", Path::new(&program).parent().unwrap());
        assert_ends(&output, 0, &[]);
        assert!(stdout(&output).contains("206"), "{next}: {}", stdout(&output));
    });
}
