//! Trials with flipped bits and truncated files, in each kind of file.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use apus_testchain::{Rng, copy_dir};

use super::kill::right;
use super::world::{Ended, Found, STATES, State, Way, World};
use super::{Trial, Verdict};
use crate::Result;

/// The damage to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// One bit is flipped.
    Flip,
    /// The end is missing.
    Cut,
}

/// A command that is run on a damaged file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meeting {
    /// A way to the tip.
    Goes(Way),
    /// A command that reads the UTXO set.
    Info,
    /// A command that verifies the hints.
    Verify,
}

/// Damages one file, runs a command on it, and repairs what the command complains about.
pub fn trial(world: &World, rng: &mut Rng, damage: Damage) -> Result<Trial> {
    let state = STATES[rng.below(STATES.len() as u64) as usize];
    let target = world.fresh("damaged")?;
    world.start_from(Some(state), &target)?;
    let _ = fs::remove_file(world.made_hints(&target));
    let inputs = world.fresh("inputs")?;
    fs::create_dir_all(&inputs)?;
    fs::copy(&world.hints, inputs.join("chain.hints"))?;
    fs::copy(&world.blocks, inputs.join("source.dat"))?;
    let (kind, file) = pick(rng, &target, &inputs)?;
    let good = fs::read(&file)?;
    fs::write(&file, damaged(rng, damage, &kind, &good))?;
    let name = format!("{damage:?}: {kind}").to_lowercase();
    let meeting = meeting(rng, state, &kind);
    let least = least(world, state, meeting);
    let args = args(world, meeting, &target, &inputs);
    let ended = world.run(&args)?;
    let context = format!("{state:?}, {meeting:?}, {}: ", file.display());
    let verdict = match ended.code {
        _ if ended.is_crash() => Verdict::Crashed(ended.short()),
        Some(0) => went_well(world, meeting, least, &target)?,
        _ => {
            let damaged = Damaged { target: &target, inputs: &inputs, file: &file, good: &good };
            match repair(world, &damaged, &args, least)? {
                Verdict::Right if names(&ended, &file) => Verdict::Told,
                Verdict::Right => Verdict::Unnamed(ended.short()),
                Verdict::Stuck(why) => Verdict::Stuck(format!("{} … {why}", ended.short())),
                wrong => wrong,
            }
        }
    };
    let verdict = match verdict {
        Verdict::Unnamed(text) => Verdict::Unnamed(context + &text),
        Verdict::Stuck(text) => Verdict::Stuck(context + &text),
        Verdict::Lost(text) => Verdict::Lost(context + &text),
        Verdict::Wrong(text) => Verdict::Wrong(context + &text),
        Verdict::Crashed(text) => Verdict::Crashed(context + &text),
        fine => fine,
    };
    Ok((name, verdict))
}

/// Picks a random file; each kind is equally likely.
fn pick(rng: &mut Rng, target: &Path, inputs: &Path) -> Result<(String, PathBuf)> {
    let mut files: Vec<(String, PathBuf)> = Vec::new();
    for root in [target, inputs] {
        list(root, &mut files)?;
    }
    files.sort();
    let mut kinds: Vec<String> = files.iter().map(|(kind, _)| kind.clone()).collect();
    kinds.dedup();
    let kind = kinds.swap_remove(rng.below(kinds.len() as u64) as usize);
    let of_kind: Vec<&PathBuf> =
        files.iter().filter(|(known, _)| *known == kind).map(|(_, file)| file).collect();
    let file = of_kind[rng.below(of_kind.len() as u64) as usize].clone();
    Ok((kind, file))
}

/// Lists all files that are not empty with their kind: directory, and name without numbers.
fn list(directory: &Path, files: &mut Vec<(String, PathBuf)>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.metadata()?.len() > 0 {
            let name = |path: Option<&std::ffi::OsStr>| {
                let name = path.unwrap_or_default().to_string_lossy().into_owned();
                name.trim_matches(|c: char| c.is_ascii_digit()).replace("00000", "")
            };
            let kind = format!("{}/{}", name(directory.file_name()), name(path.file_name()));
            files.push((kind, path));
        }
    }
    Ok(())
}

/// Returns the bytes with one bit flipped, or with the end cut off.
fn damaged(rng: &mut Rng, damage: Damage, kind: &str, good: &[u8]) -> Vec<u8> {
    // Most of a block file is reserved for later blocks, so only the used part is damaged.
    let is_roomy = kind.ends_with("blk.dat") || kind.ends_with("rev.dat");
    let used = good.iter().rposition(|byte| *byte != 0).map_or(good.len(), |last| last + 1);
    let end = if is_roomy && rng.percent(95) { used } else { good.len() } as u64;
    let mut bytes = good.to_vec();
    match damage {
        Damage::Flip => bytes[rng.below(end) as usize] ^= 1 << rng.below(8),
        // Often only the last bytes are missing, as after a crash.
        Damage::Cut if rng.percent(40) => {
            let missing = (1 + rng.below(64)).min(end);
            bytes.truncate((end - missing) as usize);
        }
        Damage::Cut => bytes.truncate(rng.below(end) as usize),
    }
    bytes
}

/// Returns a command that reads the file and that the state allows.
fn meeting(rng: &mut Rng, state: State, kind: &str) -> Meeting {
    let all = match kind {
        _ if kind.ends_with("chain.hints") => {
            &[Meeting::Goes(Way::Swift), Meeting::Goes(Way::SwiftChecked)][..]
        }
        _ if kind.ends_with("source.dat") => &[Meeting::Goes(Way::Sync), Meeting::Goes(Way::Swift)],
        _ if kind.starts_with("swiftsync") => {
            &[Meeting::Goes(Way::SwiftChecked), Meeting::Goes(Way::Sync)]
        }
        _ if state == State::SwiftUnfinished => {
            &[Meeting::Goes(Way::SwiftChecked), Meeting::Goes(Way::Sync)]
        }
        _ if state == State::Half => {
            &[Meeting::Info, Meeting::Goes(Way::Sync), Meeting::Goes(Way::Reindex)]
        }
        _ => &[
            Meeting::Info,
            Meeting::Verify,
            Meeting::Goes(Way::Sync),
            Meeting::Goes(Way::Reindex),
            Meeting::Goes(Way::SwiftReindex),
            Meeting::Goes(Way::HintsCreate),
        ],
    };
    all[rng.below(all.len() as u64) as usize]
}

/// Returns the arguments of a command, with hints and source from `inputs`.
fn args(world: &World, meeting: Meeting, target: &Path, inputs: &Path) -> Vec<OsString> {
    let args = match meeting {
        Meeting::Goes(way) => world.args(way, target),
        Meeting::Info => {
            let words = ["txoutset", "info", "--regtest", "--hash", "muhash", "--datadir"];
            let words = words.iter().map(OsString::from);
            words.chain([target.as_os_str().to_os_string()]).collect()
        }
        Meeting::Verify => {
            let words = ["hints", "verify", "--regtest"].iter().map(OsString::from);
            let paths = [(&world.hints).into(), "--datadir".into(), target.into()];
            words.chain(paths).collect()
        }
    };
    let input = |arg: OsString| match arg {
        arg if arg == world.hints => inputs.join("chain.hints").into(),
        arg if arg == world.blocks => inputs.join("source.dat").into(),
        arg => arg,
    };
    args.into_iter().map(input).collect()
}

/// Returns whether an error names a file or, for files with changing numbers, its directory.
fn names(ended: &Ended, file: &Path) -> bool {
    let has = |part: Option<&std::ffi::OsStr>| {
        part.is_some_and(|part| ended.text.contains(&*part.to_string_lossy()))
    };
    has(file.file_name()) || has(file.parent().and_then(Path::file_name))
}

/// Returns the height that a directory must have after a command that ended well.
fn least(world: &World, state: State, meeting: Meeting) -> u64 {
    match meeting {
        Meeting::Goes(Way::Sync | Way::Swift | Way::SwiftChecked) => world.truth.height(),
        _ if state == State::Half => world.half,
        _ => world.truth.height(),
    }
}

/// Returns the verdict on a command that ended well although a file was damaged, because it did not
/// read the damaged part or repaired it. The UTXO set must be right, and a reindex must yield the
/// same set or name the damage.
fn went_well(world: &World, meeting: Meeting, least: u64, target: &Path) -> Result<Verdict> {
    if meeting == Meeting::Goes(Way::HintsCreate) {
        let made = fs::read(world.made_hints(target)).unwrap_or_default();
        if made != fs::read(&world.hints)? {
            return Ok(Verdict::Wrong("the hints are not those of the chain".to_string()));
        }
    }
    match world.read(target)? {
        Found::Right(height) if height >= least => {}
        Found::Right(height) => {
            return Ok(Verdict::Lost(format!("the tip was at {least}, and is now at {height}")));
        }
        Found::Wrong(what) => return Ok(Verdict::Wrong(what)),
        // The command did not read the damaged part. A reindex does, and must say so.
        Found::Unreadable(ended) if ended.is_crash() => {
            return Ok(Verdict::Crashed(ended.short()));
        }
        Found::Unreadable(_) => return Ok(Verdict::Told),
    }
    let again = world.run(&world.args(Way::Reindex, target))?;
    if again.is_crash() {
        return Ok(Verdict::Crashed(format!("reindex: {}", again.short())));
    }
    if again.code != Some(0) {
        return Ok(Verdict::Told);
    }
    Ok(match world.read(target)? {
        Found::Right(height) if height >= least => Verdict::Right,
        Found::Right(height) => Verdict::Lost(format!("a reindex ends at {height}, not {least}")),
        Found::Wrong(what) => Verdict::Wrong(format!("after a reindex: {what}")),
        Found::Unreadable(ended) => Verdict::Stuck(format!("after a reindex: {}", ended.short())),
    })
}

/// A damaged file.
struct Damaged<'a> {
    /// The data directory.
    target: &'a Path,
    /// The directory of the hints and the source.
    inputs: &'a Path,
    file: &'a Path,
    /// The content before the damage.
    good: &'a [u8],
}

/// Tries to get the right set after an error: by a reindex and a sync, with a new block index if
/// that is damaged, or with a good copy of the file.
fn repair(world: &World, damaged: &Damaged, args: &[OsString], least: u64) -> Result<Verdict> {
    let Damaged { target, inputs, file, good } = *damaged;
    let is_input = file.starts_with(inputs);
    for index in [None, Some("--index")] {
        if is_input {
            break;
        }
        let reindexed = world.fresh("reindexed")?;
        copy_dir(target, &reindexed)?;
        let mut reindex = world.args(Way::Reindex, &reindexed);
        reindex.extend(index.map(OsString::from));
        let first = world.run(&reindex)?;
        let then = world.run(&world.args(Way::Sync, &reindexed))?;
        if first.is_crash() || then.is_crash() {
            let crashed = if first.is_crash() { first } else { then };
            return Ok(Verdict::Crashed(format!("repair: {}", crashed.short())));
        }
        if first.code == Some(0) && then.code == Some(0) {
            return right(world, Way::Sync, &reindexed);
        }
    }
    fs::write(file, good)?;
    let again = world.run(args)?;
    if again.is_crash() {
        return Ok(Verdict::Crashed(format!("with a good copy: {}", again.short())));
    }
    if again.code != Some(0) {
        // The last resort is a good copy of the whole directory.
        let why = format!("with a good copy of the file: {}", again.short());
        return Ok(Verdict::Stuck(why));
    }
    Ok(match world.read(target)? {
        Found::Right(height) if height >= least => Verdict::Right,
        Found::Right(height) => Verdict::Lost(format!("with a good copy the tip is at {height}")),
        Found::Wrong(what) => Verdict::Wrong(what),
        Found::Unreadable(ended) => Verdict::Stuck(ended.short()),
    })
}
