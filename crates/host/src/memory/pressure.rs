//! Whether the system runs short of memory, and how far a run makes itself smaller then.
//!
//! Linux reports the share of time in which programs wait for memory (PSI, `memory.pressure` of a
//! control group and `/proc/pressure/memory` of the system), and how often a control group was at
//! one of its limits (`memory.events`). While there are such signs, the cache and what waits in
//! memory are halved, up to three times; once there are none for a while, they grow again by as
//! much.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use super::groups::{Group, groups};
use crate::root::Root;
use crate::threads::spawn_free;

/// Interval between two looks. The system averages its figures over ten seconds.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Percentage of the last ten seconds in which some program waited for memory, from which the
/// memory is short. A machine that merely uses its page cache stays below 1.
const STALLED_PERCENT: f64 = 10.0;
/// Percentage of its control group's limit that memory which cannot be dropped must take for the
/// group to be crowded.
const CROWDED_PERCENT: u64 = 75;
/// The number of looks between two halvings, so that one can show its effect.
const LOOKS_PER_HALVING: u32 = 5;
/// The number of looks without a sign after which one halving ends: a minute of them.
const CALM_LOOKS: u32 = 30;
/// The most halvings: an eighth is left.
const HALVINGS_MAX: u32 = 3;

/// How often everything that a run may keep in memory is halved now, for all threads of the run.
#[derive(Debug, Default)]
pub struct Squeeze(AtomicU32);

impl Squeeze {
    /// Returns what is left of a number of bytes or blocks.
    pub fn of(&self, amount: usize) -> usize {
        amount >> self.0.load(Relaxed)
    }
}

/// Watches the memory of the system until this is dropped.
pub struct PressureWatch {
    _end: Sender<()>,
}

impl PressureWatch {
    /// Starts a thread that reads what the system below `root` reports, and sets `squeeze`. The
    /// user is told when memory becomes short, and when it no longer is.
    pub fn begin(root: Root, squeeze: Arc<Squeeze>) -> Self {
        let (end, ended) = bounded(0);
        let mut signs = Signs::new(root);
        let mut pressure = Pressure::default();
        spawn_free("apus-memory".to_string(), move || {
            while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
                let sign = signs.look();
                let was_short = pressure.halvings > 0;
                pressure.step(sign.is_some());
                squeeze.0.store(pressure.halvings, Relaxed);
                match (was_short, sign) {
                    (false, Some(sign)) => tracing::warn!(
                        "the system runs short of memory ({sign}): the sync now keeps fewer coins \
                         and blocks in memory, and is slower; stop other programs, or give a \
                         smaller --dbcache"
                    ),
                    (true, None) if pressure.halvings == 0 => {
                        tracing::info!("the system is no longer short of memory");
                    }
                    _ => {}
                }
            }
            squeeze.0.store(0, Relaxed);
        });
        Self { _end: end }
    }
}

/// Decides from one look to the next.
#[derive(Debug, Default)]
struct Pressure {
    halvings: u32,
    /// Looks until the next halving may come.
    pause: u32,
    /// Looks since the last sign.
    calm: u32,
}

impl Pressure {
    /// Takes in whether there is a sign of short memory.
    fn step(&mut self, is_short: bool) {
        self.pause = self.pause.saturating_sub(1);
        if is_short {
            self.calm = 0;
            if self.pause == 0 && self.halvings < HALVINGS_MAX {
                self.halvings += 1;
                self.pause = LOOKS_PER_HALVING;
            }
        } else if self.halvings > 0 {
            self.calm += 1;
            if self.calm == CALM_LOOKS {
                self.halvings -= 1;
                self.calm = 0;
            }
        }
    }
}

/// Where the signs are found.
struct Signs {
    root: Root,
    /// The group of this process, if it is of version 2.
    group: Option<Group>,
    /// The first of these files that can be read is that of the smallest group.
    pressure: Vec<PathBuf>,
    /// How often the group was at a limit by the last look.
    at_limit: Option<u64>,
}

impl Signs {
    fn new(root: Root) -> Self {
        let group = groups(&root).into_iter().find(|group| group.is_v2);
        let mut pressure: Vec<PathBuf> =
            group.iter().map(|group| group.path.join("memory.pressure")).collect();
        pressure.push(PathBuf::from("/proc/pressure/memory"));
        let mut signs = Self { root, group, pressure, at_limit: None };
        signs.at_limit = signs.count_at_limit();
        signs
    }

    /// Returns the sign that memory is short now, in words; `None` without one.
    fn look(&mut self) -> Option<String> {
        let count = self.count_at_limit();
        let before = std::mem::replace(&mut self.at_limit, count);
        if count.zip(before).is_some_and(|(count, before)| count > before) && self.is_crowded() {
            return Some("its control group is at memory.high or memory.max".to_string());
        }
        self.pressure.iter().find_map(|path| {
            let percent = some_avg10(&self.root.read(path)?)?;
            let words = format!("programs waited for memory {percent} % of the time");
            (percent >= STALLED_PERCENT).then_some(words)
        })
    }

    /// Returns whether most of what the group may have is memory that cannot be dropped. A group
    /// whose programs read large files is always at its limit, with pages of these files.
    fn is_crowded(&self) -> bool {
        let Some(group) = &self.group else { return false };
        let limits = group.limit_files().filter_map(|path| self.root.read(path)?.parse().ok());
        let limit: u64 = limits.min().unwrap_or(u64::MAX);
        let stat = self.root.read(group.path.join("memory.stat")).unwrap_or_default();
        let held = stat.lines().find_map(|line| line.strip_prefix("anon ")?.parse::<u64>().ok());
        held.is_some_and(|held| held >= limit / 100 * CROWDED_PERCENT)
    }

    fn count_at_limit(&self) -> Option<u64> {
        let text = self.root.read(self.group.as_ref()?.path.join("memory.events"))?;
        let count = |line: &str| {
            let (name, count) = line.split_once(' ')?;
            ["high", "max"].contains(&name).then(|| count.parse::<u64>().ok()).flatten()
        };
        Some(text.lines().filter_map(count).sum())
    }
}

/// Parses the percentage in a line like `some avg10=1.50 avg60=0.40 avg300=0.09 total=2821767`.
fn some_avg10(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("some avg10="))?;
    line.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn memory_is_halved_step_by_step_and_given_back() {
        let mut pressure = Pressure::default();
        let mut halvings = |is_short, looks: u32| {
            (0..looks).for_each(|_| pressure.step(is_short));
            pressure.halvings
        };
        assert_eq!(halvings(false, 100), 0);
        assert_eq!(halvings(true, 1), 1);
        assert_eq!(halvings(true, LOOKS_PER_HALVING - 1), 1);
        assert_eq!(halvings(true, 1), 2);
        assert_eq!(halvings(true, 100), HALVINGS_MAX);
        assert_eq!(halvings(false, CALM_LOOKS - 1), HALVINGS_MAX);
        // A single sign makes it wait again.
        assert_eq!(halvings(true, 1), HALVINGS_MAX);
        assert_eq!(halvings(false, CALM_LOOKS), HALVINGS_MAX - 1);
        assert_eq!(halvings(false, 2 * CALM_LOOKS), 0);
        let squeeze = Squeeze(AtomicU32::new(2));
        assert_eq!((squeeze.of(450), Squeeze::default().of(450)), (112, 450));
    }

    #[test]
    fn signs_are_read_from_the_group_and_from_the_system() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let psi = |percent: f64| format!("some avg10={percent:.2} avg60=0.00 total=9\nfull ...\n");
        let mut nothing = Signs::new(Root::new(dir.path()));
        assert_eq!(nothing.look(), None);
        write("proc/pressure/memory", &psi(12.5));
        let words = "programs waited for memory 12.5 % of the time";
        assert_eq!(nothing.look().as_deref(), Some(words));
        write("proc/pressure/memory", &psi(9.9));
        assert_eq!(nothing.look(), None);

        write("proc/self/cgroup", "0::/box\n");
        write("proc/self/mountinfo", "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("sys/fs/cgroup/box/memory.events", "low 0\nhigh 7\nmax 1\noom 0\n");
        write("sys/fs/cgroup/box/memory.pressure", &psi(0.0));
        let mut signs = Signs::new(Root::new(dir.path()));
        assert_eq!(signs.look(), None);
        write("sys/fs/cgroup/box/memory.high", "1000000\n");
        write("sys/fs/cgroup/box/memory.max", "max\n");
        write("sys/fs/cgroup/box/memory.stat", "anon 300000\nfile 690000\n");
        write("sys/fs/cgroup/box/memory.events", "low 0\nhigh 8\nmax 1\noom 0\n");
        assert_eq!(signs.look(), None);
        write("sys/fs/cgroup/box/memory.stat", "anon 800000\nfile 190000\n");
        write("sys/fs/cgroup/box/memory.events", "low 0\nhigh 9\nmax 1\noom 0\n");
        assert!(signs.look().unwrap().contains("memory.high"));
        assert_eq!(signs.look(), None);
        write("sys/fs/cgroup/box/memory.pressure", &psi(40.0));
        assert!(signs.look().unwrap().contains("40 %"));
        write("sys/fs/cgroup/box/memory.pressure", "nonsense");
        assert_eq!(signs.look(), None);
    }
}
