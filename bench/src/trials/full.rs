//! Trials with a full disk: a tmpfs of the trial's own, which another file fills at a random
//! moment.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use apus_testchain::Rng;

use super::kill::right;
use super::world::{Ended, Found, State, WAYS, Way, World};
use super::{Trial, Verdict};
use crate::Result;

/// A script that runs a command while the disk becomes full, and again when there is room. Its
/// arguments: directory to mount on, state to copy (or nothing), size of the disk in MiB, bytes to
/// leave, seconds to wait before filling it, directory for results; then the command.
const SCRIPT: &str = r#"
disk=$1 state=$2 size=$3 left=$4 wait=$5 results=$6
shift 6
fill() {
	free=$(df -k --output=avail "$disk" | tail -n 1)
	[ $((free * 1024)) -le "$left" ] || head -c $((free * 1024 - left)) /dev/zero >"$disk/other"
}
mount -t tmpfs -o size="$size"m none "$disk" || exit 99
[ -z "$state" ] || cp -r "$state" "$disk/d"
if [ "$wait" = 0 ]; then
	fill
	"$@" >"$results/first.text" 2>&1
	echo $? >"$results/first"
else
	"$@" >"$results/first.text" 2>&1 &
	running=$!
	sleep "$wait"
	fill 2>/dev/null
	wait $running
	echo $? >"$results/first"
fi
rm -f "$disk/other"
[ ! -d "$disk/d" ] || cp -r "$disk/d" "$results/after"
"$@" >"$results/second.text" 2>&1
echo $? >"$results/second"
cp -r "$disk/d" "$results/d"
cp "$disk/d.hints" "$results/d.hints" 2>/dev/null
exit 0
"#;

/// Runs a command while the disk becomes full, and again when there is room.
pub fn trial(world: &World, rng: &mut Rng) -> Result<Trial> {
    let way = WAYS[rng.below(WAYS.len() as u64) as usize];
    let name = format!("full disk: {}", way.name());
    let from = match way {
        Way::Sync if rng.percent(50) => Some(State::Half),
        way => way.starts_from(),
    };
    let disk = world.fresh("disk")?;
    let results = world.fresh("results")?;
    fs::create_dir_all(&disk)?;
    fs::create_dir_all(&results)?;
    let left = match rng.below(3) {
        0 => rng.below(1 << 16),
        1 => rng.below(4 << 20),
        _ => rng.below(100 << 20),
    };
    let wait = if rng.percent(40) {
        "0".to_string()
    } else {
        format!("{:.6}", world.moment(way, rng).as_secs_f64())
    };
    let target = disk.join("d");
    let apus = world.command(&world.args(way, &target));
    let state = from.map_or_else(OsString::new, |state| world.state(state).into_os_string());
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", SCRIPT, "sh"]);
    command.arg(&disk).arg(state).args(["400", &left.to_string(), &wait]).arg(&results);
    // In its own namespace, a process cannot run a file in another process's /proc.
    let program = Path::new(apus.get_program());
    let program = if program.starts_with("/proc") { &std::env::current_exe()? } else { program };
    command.arg(program).args(apus.get_args());
    let variables = apus.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(variables);
    let script = world.run_command(command)?;
    if script.code != Some(0) {
        return Err(format!("cannot mount a disk for the trial: {}", script.short()).into());
    }
    Ok((name, verdict(world, way, from, &results)?))
}

fn ended(results: &Path, which: &str) -> Result<Ended> {
    let code = fs::read_to_string(results.join(which))?.trim().parse().ok();
    let text = fs::read(results.join(format!("{which}.text")))?;
    Ok(Ended { code, text: String::from_utf8_lossy(&text).into_owned() })
}

fn verdict(world: &World, way: Way, from: Option<State>, results: &Path) -> Result<Verdict> {
    let first = ended(results, "first")?;
    let second = ended(results, "second")?;
    if first.is_crash() || second.is_crash() {
        let crashed = if first.is_crash() { first } else { second };
        return Ok(Verdict::Crashed(crashed.short()));
    }
    // What was committed before must be readable while the disk is full.
    let after = results.join("after");
    if let Some(state) = from.filter(|_| after.exists()) {
        let before = match world.read(&world.state(state))? {
            Found::Right(height) => height,
            _ => return Err("a state of the world is no longer readable".into()),
        };
        match world.read(&after)? {
            Found::Right(height) if height >= before => {}
            Found::Right(height) => {
                return Ok(Verdict::Lost(format!("the tip fell from {before} to {height}")));
            }
            Found::Wrong(what) => return Ok(Verdict::Wrong(what)),
            Found::Unreadable(ended) => return Ok(Verdict::Stuck(ended.short())),
        }
    }
    if second.code != Some(0) {
        return Ok(Verdict::Stuck(second.short()));
    }
    Ok(match right(world, way, &results.join("d"))? {
        Verdict::Right if first.code == Some(0) => Verdict::Right,
        Verdict::Right if first.text.contains("/disk") => Verdict::Told,
        Verdict::Right => Verdict::Unnamed(first.short()),
        wrong => wrong,
    })
}
