//! The shared environment of all trials: a chain in a file, hints, and data directories in each
//! state.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use apus_disk::Disk;
use apus_node::REBUILD_MARK;
use apus_store::{DataDir, DataDirOptions};
use apus_testchain::{Chain, Mix, Rng, Spec, copy_dir};
use apus_wire::{Chain as NetworkName, Network};

use super::truth::Truth;
use crate::Result;
use crate::process::{Programs, wait_or_signal};

/// The time after which a command counts as hanging. No command needs a hundredth of it.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of interrupts at random moments, one of which must leave something unfinished.
const INTERRUPTS_MAX: u64 = 60;

/// A command that builds a UTXO set, or hints of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    Sync,
    Reindex,
    Swift,
    SwiftChecked,
    SwiftReindex,
    HintsCreate,
}

/// All ways.
pub const WAYS: [Way; 6] =
    [Way::Sync, Way::Reindex, Way::Swift, Way::SwiftChecked, Way::SwiftReindex, Way::HintsCreate];

impl Way {
    /// Returns the name in the table of verdicts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync => "sync",
            Self::Reindex => "reindex",
            Self::Swift => "SwiftSync, assumed valid",
            Self::SwiftChecked => "SwiftSync, every script",
            Self::SwiftReindex => "reindex with hints",
            Self::HintsCreate => "hints create",
        }
    }

    /// Returns the state of the directory that this way starts from, if it needs one.
    pub fn starts_from(self) -> Option<State> {
        match self {
            Self::Sync | Self::Swift | Self::SwiftChecked => None,
            Self::Reindex | Self::SwiftReindex | Self::HintsCreate => Some(State::Whole),
        }
    }
}

/// A state of a data directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Synced in order to the tip.
    Whole,
    /// Synced in order to half of the chain.
    Half,
    /// Left by a SwiftSync that was interrupted.
    SwiftUnfinished,
    /// Left by a reindex that was interrupted.
    ReindexUnfinished,
    /// Synced, and its chainstate rebuilt by Bitcoin Core's engine.
    ByCore,
}

/// All states.
pub const STATES: [State; 5] =
    [State::Whole, State::Half, State::SwiftUnfinished, State::ReindexUnfinished, State::ByCore];

/// The result of a command.
#[derive(Debug)]
pub struct Ended {
    /// The exit status, or `None` if a signal ended the command, or it did not end in time.
    pub code: Option<i32>,
    /// Standard error followed by standard output.
    pub text: String,
}

impl Ended {
    /// Returns the last lines, which say what is wrong, for a report.
    pub fn short(&self) -> String {
        let lines: Vec<&str> = self.text.lines().filter(|line| !line.is_empty()).collect();
        let last = lines.iter().rev().take(3).rev().copied().collect::<Vec<_>>().join(" | ");
        format!("exit status {:?}: {last}", self.code)
    }

    /// Returns whether the command ended neither well nor with an error message.
    pub fn is_crash(&self) -> bool {
        !matches!(self.code, Some(0..=3)) || self.text.contains("panicked at")
    }
}

/// The UTXO set of a directory, compared with the truth.
pub enum Found {
    /// The right set for this height.
    Right(u64),
    /// A wrong set, with what is wrong.
    Wrong(String),
    /// A set that cannot be read, with the reason.
    Unreadable(Ended),
}

/// The chain, files and directories that trials use.
pub struct World {
    place: tempfile::TempDir,
    programs: Programs,
    /// The seed of the chain.
    seed: u64,
    /// The right UTXO sets, computed from the blocks alone.
    pub truth: Truth,
    /// The height of `State::Half`.
    pub half: u64,
    /// All blocks, framed as in a blk file.
    pub blocks: PathBuf,
    /// Hints for the tip of the chain.
    pub hints: PathBuf,
    /// The approximate time of each way.
    times: Vec<Duration>,
}

impl World {
    /// Creates the chain of a seed, with its files and directories.
    ///
    /// # Errors
    /// A command fails, or its result differs from what the generator knows about the chain.
    pub fn new(programs: Programs, dir: &Path, seed: u64) -> Result<Self> {
        fs::create_dir_all(dir)?;
        let dir = dir.canonicalize()?;
        let place = tempfile::Builder::new().prefix("trials-").tempdir_in(dir)?;
        let spec = Spec { busy_blocks: 60, mix: Mix::few_signatures(), ..Spec::small(seed) };
        let chain = Chain::new(spec);
        let blocks = place.path().join("source.dat");
        let mut framed = Vec::new();
        apus_testchain::write::write_block(&mut framed, &apus_testchain::write::genesis())?;
        for block in chain.blocks() {
            apus_testchain::write::write_block(&mut framed, block)?;
        }
        fs::write(&blocks, framed)?;
        let hints = place.path().join("chain.hints");
        let truth = Truth::of(&chain);
        let half = truth.height() / 2 + 50;
        let times = Vec::new();
        let mut world = Self { place, programs, seed, truth, half, blocks, hints, times };
        world.make_states(&mut Rng::new(seed, 99))?;
        Ok(world)
    }

    /// Describes the world in one line, for the report.
    pub fn describe(&self) -> String {
        let height = self.truth.height();
        let coins = self.truth.tip().coins;
        let place = self.place.path().display();
        format!("chain {}: {height} blocks, {coins} coins, in {place}", self.seed)
    }

    fn make_states(&mut self, rng: &mut Rng) -> Result<()> {
        let whole = self.state(State::Whole);
        let run = |world: &Self, args: &[OsString]| match world.run(args)? {
            ended if ended.code == Some(0) => Ok(()),
            ended => Err(crate::Error::from(ended.short())),
        };
        run(self, &self.args(Way::Sync, &whole))?;
        match self.read(&whole)? {
            Found::Right(height) if height == self.truth.height() => self.check_index(&whole)?,
            Found::Right(height) => return Err(format!("the sync ends at {height}").into()),
            Found::Wrong(what) => return Err(what.into()),
            Found::Unreadable(ended) => return Err(ended.short().into()),
        }
        run(self, &self.args(Way::HintsCreate, &whole))?;
        let made = self.made_hints(&whole);
        fs::rename(&made, &self.hints)?;
        let mut half = self.args(Way::Sync, &self.state(State::Half));
        half.push(format!("--stopatheight={}", self.half).into());
        run(self, &half)?;
        for way in WAYS {
            let target = self.place.path().join("timed");
            self.start_from(way.starts_from(), &target)?;
            let begun = Instant::now();
            run(self, &self.args(way, &target))?;
            self.times.push(begun.elapsed());
            let _ = fs::remove_file(self.made_hints(&target));
        }
        let swift = self.state(State::SwiftUnfinished);
        let is_swift = |dir: &Path| dir.join("regtest/swiftsync/progress").is_file();
        self.interrupt(Way::SwiftChecked, &swift, rng, is_swift)?;
        let reindex = self.state(State::ReindexUnfinished);
        let is_reindex = |dir: &Path| dir.join("regtest").join(REBUILD_MARK).is_file();
        self.interrupt(Way::Reindex, &reindex, rng, is_reindex)?;
        let core = self.state(State::ByCore);
        self.start_from(Some(State::Whole), &core)?;
        let mut command = self.programs.own();
        command.arg("core-reindex").arg("--datadir").arg(&core);
        crate::process::run(command)?;
        Ok(())
    }

    /// Interrupts a command at random moments until it leaves something unfinished.
    fn interrupt(
        &self,
        way: Way,
        target: &Path,
        rng: &mut Rng,
        is_left: impl Fn(&Path) -> bool,
    ) -> Result<()> {
        for _ in 0..INTERRUPTS_MAX {
            self.start_from(way.starts_from(), target)?;
            let mut child = self.spawn(&self.args(way, target), Stdio::null())?;
            wait_or_signal(&mut child, self.moment(way, rng), "INT")?;
            if is_left(target) {
                return Ok(());
            }
        }
        Err(format!("{}: no interrupt leaves anything unfinished", way.name()).into())
    }

    /// Returns a random moment while a command runs, or shortly after.
    pub fn moment(&self, way: Way, rng: &mut Rng) -> Duration {
        let index = WAYS.iter().position(|known| *known == way).unwrap_or(0);
        let time = self.times.get(index).copied().unwrap_or(Duration::from_millis(500));
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(rng.below(micros + micros / 10 + 1))
    }

    /// Returns the directory of a state, which must not be changed.
    pub fn state(&self, state: State) -> PathBuf {
        self.place.path().join(format!("{state:?}"))
    }

    /// Returns an unused path for one trial's files.
    pub fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.place.path().join(name);
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        Ok(path)
    }

    /// Replaces `target` by a copy of a state, or removes it.
    pub fn start_from(&self, state: Option<State>, target: &Path) -> Result<()> {
        if target.exists() {
            fs::remove_dir_all(target)?;
        }
        if let Some(state) = state {
            copy_dir(&self.state(state), target)?;
        }
        Ok(())
    }

    /// Returns the hints file that `Way::HintsCreate` creates for a directory.
    pub fn made_hints(&self, datadir: &Path) -> PathBuf {
        datadir.with_extension("hints")
    }

    /// Returns the arguments of `apus` for a way and a directory.
    pub fn args(&self, way: Way, datadir: &Path) -> Vec<OsString> {
        let commands: &[&str] = match way {
            Way::Sync | Way::Swift | Way::SwiftChecked => &["sync"],
            Way::Reindex | Way::SwiftReindex => &["reindex"],
            Way::HintsCreate => &["hints", "create"],
        };
        let mut args: Vec<OsString> = commands.iter().map(OsString::from).collect();
        args.extend(["--regtest".into(), "--datadir".into(), datadir.into()]);
        let tip = format!("--assumevalid={}", self.truth.tip().block);
        let none = "--assumevalid=0".to_string();
        let hints: [OsString; 2] = ["--hints".into(), (&self.hints).into()];
        match way {
            Way::Sync => args.extend(["--from".into(), (&self.blocks).into(), none.into()]),
            Way::Reindex => args.push(none.into()),
            Way::Swift => {
                args.extend(["--from".into(), (&self.blocks).into(), tip.into()]);
                args.extend(hints);
            }
            Way::SwiftChecked => {
                args.extend(["--from".into(), self.state(State::Whole).into(), none.into()]);
                args.extend(hints);
            }
            Way::SwiftReindex => {
                args.push(tip.into());
                args.extend(hints);
            }
            Way::HintsCreate => {
                let made = self.made_hints(datadir);
                args.extend(["--force".into(), "-o".into(), made.into()]);
            }
        }
        args
    }

    /// Returns a command that runs `apus` with arguments.
    pub fn command(&self, args: &[OsString]) -> Command {
        let mut command = self.programs.apus();
        command.args(args);
        command
    }

    /// Starts `apus` with standard error going to `output`.
    pub fn spawn(&self, args: &[OsString], output: Stdio) -> Result<Child> {
        let mut command = self.command(args);
        Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).spawn()?)
    }

    /// Runs `apus` to its end.
    pub fn run(&self, args: &[OsString]) -> Result<Ended> {
        self.run_command(self.command(args))
    }

    /// Runs a command to its end, or until it counts as hanging.
    pub fn run_command(&self, mut command: Command) -> Result<Ended> {
        let out = self.place.path().join("stdout");
        let err = self.place.path().join("stderr");
        command.stdin(Stdio::null());
        command.stdout(fs::File::create(&out)?).stderr(fs::File::create(&err)?);
        let status = wait_or_signal(&mut command.spawn()?, PATIENCE, "KILL")?;
        let text = |path: &Path| -> Result<String> {
            Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned())
        };
        Ok(Ended { code: status.code(), text: text(&err)? + &text(&out)? })
    }

    /// Runs `apus txoutset info` on a directory, and compares the result with the truth.
    pub fn read(&self, datadir: &Path) -> Result<Found> {
        let args = ["txoutset", "info", "--regtest", "--hash", "muhash", "--datadir"];
        let mut args: Vec<OsString> = args.iter().map(OsString::from).collect();
        args.push(datadir.into());
        Ok(self.judge(self.run(&args)?))
    }

    /// Compares the output of `apus txoutset info` with the truth.
    pub fn judge(&self, ended: Ended) -> Found {
        if ended.code != Some(0) {
            return Found::Unreadable(ended);
        }
        let json = ended.text.find('{').map(|start| &ended.text[start..]).unwrap_or_default();
        let Ok(info) = serde_json::from_str::<serde_json::Value>(json) else {
            return Found::Wrong(format!("no JSON: {}", ended.short()));
        };
        let height = info["height"].as_u64().unwrap_or(u64::MAX);
        let Some(set) = self.truth.at(height) else {
            return Found::Wrong(format!("height {height}"));
        };
        let is_right = info["bestblock"] == set.block.as_str()
            && info["muhash"] == set.muhash().as_str()
            && info["txouts"] == set.coins;
        if is_right {
            Found::Right(height)
        } else {
            Found::Wrong(format!("not the set of height {height}: {info}"))
        }
    }

    /// Checks that the index names each block of the chain, and that each is stored where it says.
    ///
    /// # Errors
    /// The index is wrong; the error says what is wrong.
    pub fn check_index(&self, datadir: &Path) -> Result<()> {
        let disk = Disk::new();
        let network = Network::new(NetworkName::Regtest);
        let dir = DataDir::open(&disk, datadir, &network, DataDirOptions::default())?;
        let (_, index, files) = dir.open_blocks()?;
        let mut found = 0;
        for entry in &index.entries {
            let set = self.truth.at(u64::from(entry.height));
            let is_known = set.is_some_and(|set| set.block == entry.hash.to_string());
            let Some(pos) = entry.block_pos().filter(|_| is_known) else {
                return Err(format!("block {} is unknown or not stored", entry.hash).into());
            };
            if apus_hash::sha256d(&files.read_block(pos)?[..80]) != entry.hash {
                return Err(format!("block {} is not where the index says", entry.hash).into());
            }
            if let Some(pos) = entry.undo_pos() {
                files.read_undo(pos, &entry.header.prev)?;
            }
            found += 1;
        }
        let all = self.truth.height() + 1;
        if found == all { Ok(()) } else { Err(format!("found {found} of {all} blocks").into()) }
    }
}
