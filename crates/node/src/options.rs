//! The options of a sync.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::time::Duration;

use apus_hash::{Hash, hex, sha256d};
use apus_net::PeerOptions;
use apus_store::IndexKind;
use apus_swiftsync::AggregateKind;
use apus_wire::{Chain, Network};
use secp_lanes::Kernel;

use apus_progress::Method;

use super::memory_share::CACHE_BYTES_DEFAULT;

/// The default for [`Options::save_every`]. A save takes a second or two to write what is held in
/// memory, which is little in two minutes. Commits of a sync in order follow `COMMIT_EVERY` in
/// `commit.rs`.
const SAVE_EVERY: Duration = Duration::from_secs(2 * 60);

/// The default for [`JoinOptions::depth`]: a day of blocks. No reorganisation of mainnet was as
/// deep, and these blocks connect in order within seconds.
const JOIN_DEPTH: u32 = 144;

/// The default for [`StartCheck::blocks`] (Core's `DEFAULT_CHECKBLOCKS`).
pub const CHECK_BLOCKS: u32 = 6;
/// The default for [`StartCheck::level`] (Core's `DEFAULT_CHECKLEVEL`).
pub const CHECK_LEVEL: u8 = 3;

/// Seconds of work that the network must have done on top of a block before its scripts are
/// skipped, or checked by the fast engine.
pub const BURIED_SECONDS: i64 = 2 * 7 * 24 * 60 * 60;

/// The data directory to sync, and how to sync it.
#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    /// The root of the data directory, as in `bitcoind -datadir`.
    pub datadir: PathBuf,
    /// The directory whose `blocks` holds blk and rev files, if it is not the data directory
    /// (Core's `-blocksdir`). It must exist. The block index stays in the data directory.
    pub blocks_dir: Option<PathBuf>,
    pub network: Network,
    /// The options that name the network in a command for this directory, such as
    /// `-chain=regtest`; empty if they are not needed, for main or since bitcoin.conf names it.
    pub network_options: String,
    /// The block up to which scripts are assumed valid.
    pub assumevalid: AssumeValid,
    /// How scripts are checked that are not assumed valid.
    pub scripts: ScriptOptions,
    /// Maximum size in bytes of the coins cache: entries, table and scripts.
    pub dbcache_bytes: usize,
    /// Number of worker threads.
    pub threads: usize,
    /// Height above which no block is connected.
    pub stop_at_height: Option<u32>,
    /// Time between two saves of SwiftSync or of a join, and so about the most work that is
    /// repeated after a crash. A sync in order commits at least every five minutes, and writes the
    /// index of downloaded blocks at this interval.
    pub save_every: Duration,
    /// Whether a rebuilt UTXO set may replace one of a greater height.
    pub allow_shrink: bool,
    /// Whether a sync may begin to prune a directory that holds more blocks than [`Options::prune`]
    /// keeps and was never pruned.
    pub allow_delete_blocks: bool,
    /// Whether a sync first forgets which blocks the index calls invalid, and removes entries of
    /// other chains from it (Core's `reconsiderblock`).
    pub reconsider: bool,
    /// Whether block files may be missing, since sources may have their blocks. A sync from files
    /// sets it.
    pub may_lack_files: bool,
    /// The check of the last blocks that a command makes before it uses the UTXO set.
    pub start_check: StartCheck,
    /// The method; `None` for SwiftSync if there are hints or a snapshot, and otherwise for a join
    /// or in order, whichever is faster (`sync/method.rs`).
    pub method: Option<Method>,
    /// The options of a join.
    pub join: JoinOptions,
    /// The options of a SwiftSync.
    pub swiftsync: SwiftSyncOptions,
    /// How blocks are downloaded from peers; `None` to use no peers.
    pub peers: Option<PeerOptions>,
    /// Core's optional indexes that a sync builds, or continues (Core's `-txindex` and others).
    pub indexes: Vec<IndexKind>,
    /// Whether peers that are served get filters of blocks, from the index of filters (Core's
    /// `-peerblockfilters`).
    pub peerblockfilters: bool,
    /// Which block files are pruned (Core's `-prune`); `None` keeps all, and is refused for a
    /// directory that was pruned before.
    pub prune: Option<Prune>,
    /// Whether block files are small, for tests (Core's `-fastprune`).
    pub fast_prune: bool,
    /// Whether block files reserve little space, for tests.
    pub small_steps: bool,
}

/// How scripts are checked.
#[derive(Clone, PartialEq, Debug)]
pub struct ScriptOptions {
    /// The engine that checks them.
    pub engine: ScriptEngine,
    /// How deep a block must be buried for [`ScriptEngine::Fast`] to apply to it, in seconds: more
    /// work than the network does in that time must lie on top of the block, and as many blocks as
    /// are due in that time, below a best header with the network's minimum work.
    pub buried_seconds: i64,
    /// The kernel that verifies signatures by the fast engine; `None` for the fastest.
    pub kernel: Option<Kernel>,
}

impl Default for ScriptOptions {
    fn default() -> Self {
        Self { engine: ScriptEngine::default(), buried_seconds: BURIED_SECONDS, kernel: None }
    }
}

impl ScriptOptions {
    /// Returns the nanoseconds that one core takes for a signature, on the machine of
    /// docs/budget.md.
    pub fn signature_cost(&self) -> f64 {
        let core = 30_000.0;
        // An estimate: `Kernel::best` would compute the tables of the lanes, which takes 10 ms.
        let supported = || Kernel::ALL.into_iter().find(|kernel| kernel.is_supported());
        let fast = match self.kernel.or_else(supported).unwrap_or(Kernel::Library) {
            Kernel::Avx512 => 3_000.0,
            Kernel::AvxIfma => 4_500.0,
            Kernel::Avx2Doubles => 7_500.0,
            Kernel::Avx2 => 10_000.0,
            Kernel::Neon => 15_000.0,
            Kernel::Library | Kernel::Portable => core,
        };
        match self.engine {
            ScriptEngine::Core => core,
            ScriptEngine::Fast => fast,
            ScriptEngine::Both => core + fast,
        }
    }
}

/// The check of the last blocks before the UTXO set is used, as by `apus verify`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StartCheck {
    /// The number of blocks that are checked, from the tip down (Core's `-checkblocks`); 0 for all.
    pub blocks: u32,
    /// How thoroughly they are checked, from 0 to 4 (Core's `-checklevel`).
    pub level: u8,
}

impl Default for StartCheck {
    fn default() -> Self {
        Self { blocks: CHECK_BLOCKS, level: CHECK_LEVEL }
    }
}

/// The options of a join, and of a proof by a join.
#[derive(Clone, PartialEq, Debug)]
pub struct JoinOptions {
    /// The directory for temporary files: of a join, by default in the network's own directory; of
    /// a proof, by default the system's (`TMPDIR`).
    pub spill_dir: Option<PathBuf>,
    /// Number of blocks below the best header at which the join ends, so that reorganisations above
    /// it are connected in order.
    pub depth: u32,
}

impl Default for JoinOptions {
    fn default() -> Self {
        Self { spill_dir: None, depth: JOIN_DEPTH }
    }
}

/// The options of a SwiftSync.
#[derive(Clone, PartialEq, Debug)]
pub struct SwiftSyncOptions {
    /// A hints file, with which SwiftSync syncs up to the hints' height.
    pub hints: Option<PathBuf>,
    /// The SHA-256 of the hints file, if peers are to send it to the path in `hints`.
    pub hints_of_peers: Option<[u8; 32]>,
    /// A UTXO snapshot, which SwiftSync uses instead of hints to sync up to the snapshot's base
    /// block.
    pub snapshot: Option<PathBuf>,
    /// The kind of aggregate that proves the hints or the snapshot.
    pub aggregate: AggregateKind,
    /// Whether peers are asked for the witnesses of blocks that are not stored.
    pub witness: bool,
    /// How much undo data may be wrong or missing.
    pub undo_faults: UndoFaults,
}

/// The most undo data that may be wrong or missing in a SwiftSync: the coins are then looked up in
/// the blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UndoFaults {
    /// Blocks that are not valid with their undo data, or have none. Each is read and checked once
    /// more at the end.
    pub blocks_max: usize,
    /// Coins that these blocks spend and that no undo data has.
    pub coins_max: usize,
}

impl Default for UndoFaults {
    fn default() -> Self {
        Self { blocks_max: 4096, coins_max: 1 << 16 }
    }
}

impl Default for SwiftSyncOptions {
    fn default() -> Self {
        Self {
            hints: None,
            hints_of_peers: None,
            snapshot: None,
            aggregate: AggregateKind::Sha256,
            witness: true,
            undo_faults: UndoFaults::default(),
        }
    }
}

impl SwiftSyncOptions {
    /// Returns whether hints or a snapshot are given.
    pub fn has_claim(&self) -> bool {
        self.claim_option().is_some()
    }

    /// Returns the option that names the claim's file; `None` without one.
    pub fn claim_option(&self) -> Option<&'static str> {
        match (&self.hints, &self.snapshot) {
            (Some(_), _) => Some("--hints"),
            (None, Some(_)) => Some("--snapshot"),
            (None, None) => None,
        }
    }
}

/// Which block files are pruned (Core's `-prune`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prune {
    /// No file is pruned automatically, but files may be missing that were pruned before.
    Manual,
    /// Old files are pruned to keep block and undo files within this number of bytes.
    Target(u64),
}

/// The engine that checks scripts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptEngine {
    /// Bitcoin Core's engine, one input after another.
    Core,
    /// The fast engine, which verifies many signatures together. Core's engine checks the inputs
    /// that it leaves, blocks that are not deeply buried, and one in 4,096 of the inputs found
    /// valid. Without vector instructions for signatures, the same as `Core`.
    Fast,
    /// Both, for every input; a difference is saved, and the verdict of Core's engine counts.
    Both,
}

impl Default for ScriptEngine {
    /// Returns `Both` in builds with debug assertions, so that tests compare the two on each chain,
    /// and otherwise `Fast`.
    fn default() -> Self {
        if cfg!(debug_assertions) { Self::Both } else { Self::Fast }
    }
}

impl ScriptEngine {
    /// Returns the name used by `--script-engine` and `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Core => "core",
            Self::Fast => "fast",
            Self::Both => "both",
        }
    }
}

impl Options {
    /// Returns Core's defaults, with one thread per core.
    pub fn new(datadir: PathBuf, network: Network) -> Self {
        let network_options = match network.chain {
            Chain::Main => String::new(),
            chain => format!("-chain={}", chain.name()),
        };
        Self {
            datadir,
            blocks_dir: None,
            network,
            network_options,
            assumevalid: AssumeValid::BuiltIn,
            scripts: ScriptOptions::default(),
            dbcache_bytes: CACHE_BYTES_DEFAULT as usize,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            stop_at_height: None,
            save_every: SAVE_EVERY,
            allow_shrink: false,
            allow_delete_blocks: false,
            reconsider: false,
            may_lack_files: false,
            start_check: StartCheck::default(),
            method: None,
            join: JoinOptions::default(),
            swiftsync: SwiftSyncOptions::default(),
            peers: None,
            indexes: Vec::new(),
            peerblockfilters: false,
            prune: None,
            fast_prune: false,
            small_steps: false,
        }
    }

    pub fn with_hints(mut self, path: impl Into<PathBuf>) -> Self {
        self.swiftsync.hints = Some(path.into());
        self
    }

    /// Returns these options with another [`JoinOptions::depth`].
    pub fn with_join_depth(mut self, depth: u32) -> Self {
        self.join.depth = depth;
        self
    }

    /// Returns whether the undo data of most blocks is not written: by a SwiftSync of blocks that
    /// are assumed valid.
    pub fn leaves_out_undo(&self) -> bool {
        self.swiftsync.has_claim() && self.assumevalid != AssumeValid::Nothing
    }

    pub fn network_dir(&self) -> PathBuf {
        self.datadir.join(self.network.subdirectory)
    }

    /// Returns the directory, next to the chainstate, for the saved work of a join.
    pub fn join_path(&self) -> PathBuf {
        self.network_dir().join("join")
    }

    /// Returns the directory that a join creates for its temporary files, and removes at its end.
    /// Several data directories may share [`JoinOptions::spill_dir`], so each has its own directory
    /// in it.
    pub fn spill_path(&self) -> PathBuf {
        match &self.join.spill_dir {
            None => self.join_path(),
            Some(dir) => {
                let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
                dir.join(self.spill_name())
            }
        }
    }

    /// Returns the name of this data directory's own directory in [`JoinOptions::spill_dir`]. A
    /// copy of the data directory has another.
    pub fn spill_name(&self) -> String {
        format!("apus-join-{}", self.mark())
    }

    /// Returns 16 hex digits that identify the network's own directory, from its path and from its
    /// inode, which distinguishes directories of containers.
    fn mark(&self) -> String {
        let dir = self.network_dir();
        let path = dir.canonicalize().unwrap_or_else(|_| dir.clone());
        let inode = dir.metadata().map_or(0, |found| found.ino());
        let mut bytes = inode.to_le_bytes().to_vec();
        bytes.extend_from_slice(path.as_os_str().as_bytes());
        let digest = sha256d(&bytes);
        hex(&digest.0[..8])
    }

    /// Checks that the method, the hints or snapshot and the directory for the join's files agree.
    ///
    /// # Errors
    /// The contradiction in words, and what to do.
    pub fn check_method(&self) -> Result<(), String> {
        let claim = match (&self.swiftsync.hints, &self.swiftsync.snapshot) {
            (Some(_), Some(_)) => {
                return Err("--hints and --snapshot both say which outputs are unspent: give one \
                            of them"
                    .to_string());
            }
            (Some(_), None) => Some(("--hints", "hints")),
            (None, Some(_)) => Some(("--snapshot", "snapshot")),
            (None, None) => None,
        };
        match (self.method, claim) {
            (Some(method @ (Method::InOrder | Method::Join)), Some((option, what))) => {
                return Err(format!(
                    "{option} is for SwiftSync, and --method={} uses no {what}: leave one of \
                     them out",
                    method.name()
                ));
            }
            (Some(Method::SwiftSync), None) => {
                return Err(
                    "--method=swiftsync needs a hints file or a snapshot: name one with --hints \
                     or --snapshot"
                        .to_string(),
                );
            }
            (Some(Method::InOrder | Method::Join), None)
            | (Some(Method::SwiftSync), Some(_))
            | (None, _) => {}
        }
        if self.method == Some(Method::Join) && matches!(self.prune, Some(Prune::Target(_))) {
            return Err(
                "--method=join needs the blocks that --prune deletes: leave one of them out"
                    .to_string(),
            );
        }
        let may_join =
            matches!(self.method, None | Some(Method::Join)) && !self.swiftsync.has_claim();
        if self.join.spill_dir.is_some() && !may_join {
            let other = if self.swiftsync.has_claim() { "SwiftSync" } else { "a sync in order" };
            return Err(format!(
                "--spilldir is for the temporary files of a join, and {other} makes none: leave \
                 it out"
            ));
        }
        Ok(())
    }

    /// Checks that blocks may be downloaded without their witnesses, if that is asked for.
    ///
    /// # Errors
    /// The missing option in words.
    pub fn check_witness(&self) -> Result<(), String> {
        let lacks = if self.swiftsync.witness {
            return Ok(());
        } else if !self.swiftsync.has_claim() {
            "--hints or --snapshot"
        } else if self.assumevalid == AssumeValid::Nothing {
            "--assumevalid"
        } else if !matches!(self.prune, Some(Prune::Target(_))) {
            "--prune with a number of MiB"
        } else if self.peers.is_none() {
            "peers"
        } else {
            return Ok(());
        };
        Err(format!(
            "--witness=0 needs {lacks}: it is for blocks that a SwiftSync downloads from peers \
             and does not store, since --prune would delete them"
        ))
    }

    /// Returns the directory of blk and rev files.
    pub fn blocks_path(&self) -> PathBuf {
        let base = self.blocks_dir.as_ref().unwrap_or(&self.datadir);
        base.join(self.network.subdirectory).join("blocks")
    }
}

/// The block up to which scripts are assumed valid (Core's `-assumevalid`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AssumeValid {
    /// The block built into Core v31, and its ancestors.
    BuiltIn,
    /// No block: every script is checked.
    Nothing,
    /// This block and its ancestors.
    Block(Hash),
}

#[cfg(test)]
mod tests {
    use apus_wire::Chain;

    use super::*;

    #[test]
    fn contradictions_between_method_hints_and_spill_are_named() {
        use Method::{InOrder, Join, SwiftSync};
        let base = Options::new(PathBuf::from("d"), Network::new(Chain::Regtest));
        for (method, hints, spill, words) in [
            (None, false, false, None),
            (None, true, false, None),
            (None, false, true, None),
            (None, true, true, Some("--spilldir is for the temporary files of a join")),
            (Some(InOrder), false, false, None),
            (Some(InOrder), true, false, Some("--method=order uses no hints")),
            (Some(InOrder), false, true, Some("a sync in order makes none")),
            (Some(Join), false, true, None),
            (Some(Join), true, false, Some("--method=join uses no hints")),
            (Some(SwiftSync), true, false, None),
            (
                Some(SwiftSync),
                false,
                false,
                Some("--method=swiftsync needs a hints file or a snapshot"),
            ),
            (Some(SwiftSync), true, true, Some("SwiftSync makes none")),
        ] {
            let hints = hints.then(|| PathBuf::from("h"));
            let spill_dir = spill.then(|| PathBuf::from("s"));
            let options = Options {
                method,
                swiftsync: SwiftSyncOptions { hints, ..base.swiftsync.clone() },
                join: JoinOptions { spill_dir, ..base.join.clone() },
                ..base.clone()
            };
            match (options.check_method(), words) {
                (Ok(()), None) => {}
                (Err(text), Some(words)) if text.contains(words) => {}
                (found, _) => panic!("{method:?}: {found:?}, expected {words:?}"),
            }
        }
    }

    #[test]
    fn witnesses_are_left_out_where_blocks_are_not_stored() {
        let base = Options {
            prune: Some(Prune::Target(550 << 20)),
            peers: Some(PeerOptions::new(0)),
            swiftsync: SwiftSyncOptions {
                witness: false,
                hints: Some(PathBuf::from("h")),
                ..SwiftSyncOptions::default()
            },
            ..Options::new(PathBuf::from("d"), Network::new(Chain::Regtest))
        };
        assert_eq!(base.check_witness(), Ok(()));
        let wrong = |options: Options, word: &str| {
            let what = options.check_witness().unwrap_err();
            assert!(what.contains(&format!("needs {word}")), "{what}");
            assert_eq!(
                Options {
                    swiftsync: SwiftSyncOptions { witness: true, ..options.swiftsync.clone() },
                    ..options
                }
                .check_witness(),
                Ok(())
            );
        };
        wrong(
            Options {
                swiftsync: SwiftSyncOptions { hints: None, ..base.swiftsync.clone() },
                ..base.clone()
            },
            "--hints or --snapshot",
        );
        wrong(Options { assumevalid: AssumeValid::Nothing, ..base.clone() }, "--assumevalid");
        wrong(Options { prune: None, ..base.clone() }, "--prune");
        wrong(Options { prune: Some(Prune::Manual), ..base.clone() }, "--prune");
        wrong(Options { peers: None, ..base }, "peers");
    }

    #[test]
    fn the_spill_is_next_to_the_chainstate_unless_spilldir_is_given() {
        let base = Options::new(PathBuf::from("d"), Network::new(Chain::Regtest));
        assert_eq!(base.spill_path(), PathBuf::from("d/regtest/join"));
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let datadir = place.path().join(name);
            std::fs::create_dir_all(datadir.join("regtest")).unwrap();
            Options {
                datadir,
                join: JoinOptions { spill_dir: Some(PathBuf::from("s")), ..base.join.clone() },
                ..base.clone()
            }
        };
        let one = at("one").spill_path();
        let other = at("other").spill_path();
        assert_ne!(one, other);
        assert!(one.is_absolute() && one.parent().unwrap().ends_with("s"), "{}", one.display());
        // The same directory under another name.
        std::os::unix::fs::symlink(place.path().join("one"), place.path().join("link")).unwrap();
        let link = Options { datadir: place.path().join("link"), ..at("one") };
        assert_eq!(link.spill_path(), one);
    }
}
