//! Trials with kill -9 at random moments.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use apus_testchain::Rng;

use super::world::{Found, State, WAYS, Way, World};
use super::{Trial, Verdict};
use crate::Result;
use crate::process::wait_or_signal;

/// Kills a command up to four times, and then lets it finish.
pub fn trial(world: &World, rng: &mut Rng) -> Result<Trial> {
    let way = WAYS[rng.below(WAYS.len() as u64) as usize];
    let target = world.fresh("killed")?;
    let from = match way {
        Way::Sync if rng.percent(50) => Some(State::Half),
        Way::SwiftChecked if rng.percent(30) => Some(State::SwiftUnfinished),
        Way::Reindex if rng.percent(30) => Some(State::ReindexUnfinished),
        way => way.starts_from(),
    };
    world.start_from(from, &target)?;
    let _ = fs::remove_file(world.made_hints(&target));
    let name = format!("kill -9: {}", way.name());
    // What is committed by now must not be lost later.
    let mut committed = match from {
        // Nothing readable has been committed yet.
        None | Some(State::SwiftUnfinished) => 0,
        Some(_) => match world.read(&target)? {
            Found::Right(height) => height,
            Found::Wrong(what) => return Ok((name, Verdict::Wrong(what))),
            Found::Unreadable(ended) => return Ok((name, Verdict::Stuck(ended.short()))),
        },
    };
    for _ in 0..rng.between(1, 4) {
        let mut child = world.spawn(&world.args(way, &target), Stdio::null())?;
        wait_or_signal(&mut child, world.moment(way, rng), "KILL")?;
        if rng.percent(50) && target.join("regtest/chainstate/CURRENT").exists() {
            match world.read(&target)? {
                Found::Right(height) if height >= committed => committed = height,
                Found::Right(height) => return Ok((name, lost(committed, height))),
                Found::Wrong(what) => return Ok((name, Verdict::Wrong(what))),
                // Before the first commit there is nothing to read.
                Found::Unreadable(ended) if committed == 0 && !ended.is_crash() => {}
                Found::Unreadable(ended) => return Ok((name, Verdict::Stuck(ended.short()))),
            }
        }
    }
    Ok((name, end(world, way, &target)?))
}

fn lost(committed: u64, height: u64) -> Verdict {
    Verdict::Lost(format!("height {committed} was committed, and the tip is now {height}"))
}

/// Runs a command to its end, after which everything must be right.
pub fn end(world: &World, way: Way, target: &Path) -> Result<Verdict> {
    let ended = world.run(&world.args(way, target))?;
    if ended.is_crash() {
        return Ok(Verdict::Crashed(ended.short()));
    }
    if ended.code != Some(0) {
        return Ok(Verdict::Stuck(ended.short()));
    }
    right(world, way, target)
}

/// Returns the verdict on the result of a command that ended well.
pub fn right(world: &World, way: Way, target: &Path) -> Result<Verdict> {
    if way == Way::HintsCreate {
        let made = fs::read(world.made_hints(target)).unwrap_or_default();
        if made != fs::read(&world.hints)? {
            return Ok(Verdict::Wrong("the hints are not those of the chain".to_string()));
        }
    }
    Ok(match world.read(target)? {
        Found::Right(height) if height == world.truth.height() => match world.check_index(target) {
            Ok(()) => Verdict::Right,
            Err(error) => Verdict::Wrong(format!("index: {error}")),
        },
        Found::Right(height) => lost(world.truth.height(), height),
        Found::Wrong(what) => Verdict::Wrong(what),
        Found::Unreadable(ended) => Verdict::Wrong(format!("no message: {}", ended.short())),
    })
}
