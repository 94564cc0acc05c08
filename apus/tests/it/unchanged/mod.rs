//! A command that does not succeed leaves what opened before: every command that writes, on every
//! kind of damage, and with odd surroundings. Power cuts at any step of a command are tested beside
//! the command.

mod bitcoind;
mod damages;
mod rebuilds;
mod remedies;
mod surroundings;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Arc, LazyLock, Mutex};

use apus_coins::Chainstate;
use apus_disk::Disk;
use apus_hash::Hash;
use apus_leveldb as leveldb;
use apus_store::{DataDir, DataDirOptions, IndexEntry};
use apus_testchain::{Chain, Mix, Spec};
use apus_wire::Chain as Network;

use crate::support::judge::Judge;
use crate::support::program::{apus, assert_ends, program_on, stderr, stdout};
use crate::support::{Place, with_genesis};
use damages::{DAMAGES, Damage, moved_blocks};
use surroundings::Surroundings;

/// The height of the directory before a command.
const HEIGHT: usize = 190;

/// What is in every place: a directory with small block files, and next to it the files `all` (the
/// whole chain), `hints` and `snapshot` (of the whole chain).
static WHOLE: LazyLock<Place> = LazyLock::new(|| {
    let place = Place::new(Network::Regtest);
    // Few transactions: each of a thousand runs would check their scripts.
    let blocks = with_genesis(&Chain::new(Spec {
        busy_bytes: 3_500,
        mix: Mix::few_signatures(),
        ..Spec::small(5)
    }));
    let all = place.write("all", &blocks);
    let some = place.write("some", &blocks[..=HEIGHT]);
    let synced = Place::new(Network::Regtest);
    synced.sync(&[all]);
    for (command, file) in [("hints", "hints"), ("snapshot", "snapshot")] {
        let path = place.root().join(file);
        let made = apus(&synced, &[command, "create", "-o", path.to_str().unwrap()]);
        assert_ends(&made, 0, &[]);
    }
    let some = some.to_str().unwrap();
    let options = ["--method=order", "--blockfilterindex", "--assumevalid=0"];
    let made = apus(&place, &[&["sync", "-fastprune", "--from", some][..], &options].concat());
    assert_ends(&made, 0, &[]);
    place
});

/// Returns a copy of the directory, with the files next to it, which no command may change.
fn copy_of_whole() -> Place {
    let place = WHOLE.copy();
    for file in ["all", "some", "hints", "snapshot"] {
        std::fs::hard_link(WHOLE.root().join(file), place.root().join(file)).unwrap();
    }
    place
}

/// Returns a copy of the directory with a damage.
fn damaged(damage: &Damage) -> Place {
    let place = copy_of_whole();
    (damage.apply)(&place);
    place
}

/// All files of a place with their content.
pub type Tree = BTreeMap<PathBuf, Vec<u8>>;

/// Returns the files below `root`, but those that each command may write: locks and logs.
pub fn tree(root: &Path) -> Tree {
    const OWN: [&str; 4] = ["LOCK", ".lock", "LOG", "debug.log"];
    let all = crate::support::tree::tree(root).into_iter();
    let files =
        all.filter_map(|(path, bytes)| Some((path.strip_prefix(root).ok()?.into(), bytes?)));
    files.filter(|(path, _): &(PathBuf, _)| !OWN.iter().any(|name| path.ends_with(name))).collect()
}

/// What a program can use of a directory.
struct Usable {
    tip: Hash,
    height: u32,
    /// The blocks of the active chain that can be read.
    blocks: BTreeSet<Hash>,
    /// Those whose undo data can be read.
    undo: BTreeSet<Hash>,
}

/// Returns what can be used of the directory of `place`; `None` if it cannot be opened.
fn usable(place: &Place) -> Option<Usable> {
    let how = DataDirOptions { read_only: true, prune: true, ..DataDirOptions::default() };
    let dir = DataDir::open(&Disk::new(), &place.datadir(), &place.network, how).ok()?;
    let (_, index, files) = dir.open_blocks().ok()?;
    let tables = leveldb::Options { read_only: true, ..leveldb::Options::default() };
    let chainstate = Chainstate::open(Disk::new(), &dir.chainstate_path(), tables).ok()?;
    let tip = chainstate.best_block().ok()??;
    let by_hash: BTreeMap<Hash, &IndexEntry> =
        index.entries.iter().map(|entry| (entry.hash, entry)).collect();
    let height = by_hash.get(&tip)?.height;
    let mut usable = Usable { tip, height, blocks: BTreeSet::new(), undo: BTreeSet::new() };
    let mut at = tip;
    while let Some(entry) = by_hash.get(&at) {
        if entry.record.status.is_failed() {
            return None;
        }
        if entry.block_pos().is_some_and(|pos| files.read_block(pos).is_ok()) {
            usable.blocks.insert(at);
        }
        if entry.undo_pos().is_some_and(|pos| files.read_undo(pos, &entry.header.prev).is_ok()) {
            usable.undo.insert(at);
        }
        at = entry.header.prev;
    }
    Some(usable)
}

/// Returns the same as [`usable`] of a directory with a damage, which is looked at once for all
/// commands.
fn usable_before(damage: &Damage, place: &Place) -> Arc<Option<Usable>> {
    static USABLE: Mutex<BTreeMap<&str, Arc<Option<Usable>>>> = Mutex::new(BTreeMap::new());
    let mut known = USABLE.lock().unwrap();
    Arc::clone(known.entry(damage.name).or_insert_with(|| Arc::new(usable(place))))
}

/// A command and its arguments; `$name` stands for a path in the place.
struct Tried {
    args: &'static [&'static str],
    /// Whether blocks or coins are to be gone when it has succeeded.
    removes: bool,
}

const fn tried(args: &'static [&'static str]) -> Tried {
    Tried { args, removes: false }
}

const fn removing(args: &'static [&'static str]) -> Tried {
    Tried { args, removes: true }
}

fn run(place: &Place, tried: &Tried, surroundings: Surroundings) -> Output {
    let moved = moved_blocks(place);
    let args: Vec<String> = tried
        .args
        .iter()
        .map(|arg| match arg.strip_prefix('$') {
            Some("moved") => moved.ancestors().nth(2).unwrap().to_str().unwrap().to_string(),
            Some(name) => place.root().join(name).to_str().unwrap().to_string(),
            None => arg.to_string(),
        })
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut command: Command = program_on(place, &args);
    command.current_dir(place.root());
    surroundings.run(place, command)
}

/// Every kind of damage in usual surroundings, and no damage in all others.
fn cases() -> impl Iterator<Item = (&'static Damage, Surroundings)> {
    let (usual, odd) = Surroundings::all().split_first().unwrap();
    let damaged = DAMAGES.iter().map(|damage| (damage, *usual));
    damaged.chain(odd.iter().map(|surroundings| (&DAMAGES[0], *surroundings)))
}

/// Runs a command in every case, and panics if one of them leaves less than it found.
fn holds(tried: &Tried) {
    let mut faults = Vec::new();
    for (damage, surroundings) in cases() {
        let place = damaged(damage);
        let before = tree(place.root());
        let could = usable_before(damage, &place);
        let output = run(&place, tried, surroundings);
        let ended = output.status.code();
        let said = stdout(&output) + &stderr(&output);
        let mut fault = |what: &str| {
            faults.push(format!("{}, {surroundings:?}: {what}\n    {said}", damage.name));
        };
        if said.contains("panicked") || ended.is_none() {
            fault("panicked");
        }
        let after = tree(place.root());
        let is_unchanged = before == after;
        if said.to_lowercase().contains("nothing was changed") && !is_unchanged {
            fault(&format!("says that nothing was changed, but {}", difference(&before, &after)));
        }
        let is_refused = ended != Some(0);
        if is_refused && let Some(what) = foreign_change(&place, &before, &after) {
            fault(&what);
        }
        let has_removed = tried.removes && !is_refused;
        if is_unchanged || has_removed {
            continue;
        }
        if let Some(what) = could.as_ref().as_ref().and_then(|could| loss(&place, could)) {
            fault(&what);
        } else if let Some(what) = loss_for_core(&place, || damaged(damage)) {
            fault(&what);
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Returns how the directory of `place` has become worse than `before`.
fn loss(place: &Place, before: &Usable) -> Option<String> {
    let Some(now) = usable(place) else { return Some("it no longer opens".into()) };
    if now.height < before.height {
        return Some(format!("the tip fell from {} to {}", before.height, now.height));
    }
    if now.height == before.height && now.tip != before.tip {
        return Some("the tip is another block".into());
    }
    let lost = before.blocks.difference(&now.blocks).count();
    let undo = before.undo.difference(&now.undo).count();
    if lost + undo > 0 {
        return Some(format!("{lost} blocks and the undo data of {undo} are gone"));
    }
    None
}

/// Returns the error of Bitcoin Core's engine if it no longer opens the directory of `place`, but
/// opens it as it was `before`.
fn loss_for_core(place: &Place, before: impl FnOnce() -> Place) -> Option<String> {
    // The engine changes a directory.
    let error = Judge::open(&place.copy()).err()?;
    Judge::open(&before()).is_ok().then(|| format!("Core does not open it: {error}"))
}

/// Returns what a refused command did to files that are not its own: blocks and undo data that
/// were stored before, keys, settings, and everything outside of the data directory.
fn foreign_change(place: &Place, before: &Tree, after: &Tree) -> Option<String> {
    let datadir = place.datadir();
    let datadir = datadir.strip_prefix(place.root()).unwrap();
    before.iter().find_map(|(path, content)| {
        let name = path.file_name().unwrap().to_string_lossy();
        let is_block = name.starts_with("blk") || name.starts_with("rev");
        let is_own = path.starts_with(datadir) && !name.starts_with("xor") && !is_block;
        let now = after.get(path);
        // Space that was reserved may be filled.
        let is_kept = match now {
            Some(now) if is_block && now != content => {
                content.iter().zip(now).all(|(old, new)| *old == 0 || old == new)
            }
            now => now == Some(content),
        };
        (!is_own && !is_kept).then(|| format!("{} was changed", path.display()))
    })
}

fn difference(before: &Tree, after: &Tree) -> String {
    let gone = before.keys().filter(|path| !after.contains_key(*path)).map(|p| ("gone", p));
    let others = after.iter().filter_map(|(path, content)| match before.get(path) {
        None => Some(("new", path)),
        Some(old) => (old != content).then_some(("changed", path)),
    });
    let all: Vec<String> =
        gone.chain(others).map(|(what, path)| format!("{} is {what}", path.display())).collect();
    all.join(", ")
}

/// A test for each command.
macro_rules! commands {
    ($($name:ident: $tried:expr;)*) => {
        $(#[test]
        fn $name() {
            holds(&$tried);
        })*
    };
}

commands! {
    sync: tried(&["sync", "--connect=0"]);
    sync_reconsidering: tried(&["sync", "--reconsider", "--connect=0"]);
    sync_in_order: tried(&["sync", "--from", "$all", "--method=order", "--connect=0"]);
    sync_by_join: tried(&["sync", "--from", "$all", "--method=join", "--connect=0"]);
    sync_by_swiftsync: tried(&["sync", "--from", "$all", "--hints", "$hints", "--connect=0"]);
    sync_with_blocks_elsewhere: tried(&["sync", "--blocksdir", "$moved", "--connect=0"]);
    sync_pruning: tried(&["sync", "--from", "$all", "--prune=550", "-fastprune", "--connect=0"]);
    reindex: tried(&["reindex"]);
    reindex_by_join: tried(&["reindex", "--method=join"]);
    reindex_by_swiftsync: tried(&["reindex", "--hints", "$hints"]);
    reindex_index: tried(&["reindex", "--index"]);
    index_txindex: tried(&["index", "txindex"]);
    index_filters: tried(&["index", "blockfilterindex"]);
    rewind: removing(&["rewind", "--height=120"]);
    prune: removing(&["prune", "--height=150", "-fastprune"]);
    snapshot_create: tried(&["snapshot", "create", "-o", "$new"]);
    snapshot_create_below: tried(&["snapshot", "create", "--height=150", "-o", "$new"]);
    snapshot_load: tried(&["snapshot", "load", "$snapshot"]);
    hints_create: tried(&["hints", "create", "-o", "$new"]);
    hints_create_below: tried(&["hints", "create", "--height=150", "-o", "$new"]);
    // A search of the local network takes 2 s.
    init: tried(&["init", "--lan=0"]);
    doctor: tried(&["doctor"]);
    serve: tried(&["serve", "--bind=127.0.0.1", "--port=0", "--server=0", "--debug=net"]);
    status: tried(&["status"]);
    verify: tried(&["verify", "--level=4", "--blocks=0"]);
}
