//! The time and memory that the process has used, the memory that it may use, and how caches,
//! blocks in progress and coins to be written share that.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

const MIB: u64 = 1 << 20;

/// Bytes of the program, its threads, and small data; measured with small blocks.
const PROGRAM_BYTES: u64 = 24 * MIB;
/// Bytes of a known header: 140 for its node in the tree and the record of its block, and a
/// reserve.
const HEADER_BYTES: u64 = 200;
/// Bytes of a sync in order besides the cache: 48 parsed blocks, and tables being built.
const IN_ORDER_BYTES: u64 = 116 * MIB;
/// Bytes that a sync in order uses per 100 bytes of cached coins: the coins, and the sorted list of
/// a commit.
const IN_ORDER_PERCENT: u64 = 130;
/// Minimum size in bytes of the cache of a sync in order.
const CACHE_BYTES_MIN: u64 = 16 * MIB;
/// Bytes of a SwiftSync worker: 4 MiB for coins that it has yet to hand over, and a parsed block of
/// 4 MB.
const WORKER_BYTES: u64 = 16 * MIB;
/// Minimum number of bytes of a SwiftSync for coins to be written: one page for each of 1024 slots.
const SURVIVORS_BYTES_MIN: u64 = 4 * MIB;
/// Bytes of a thread that writes tables: two buffers of 2 MiB and a filter.
const TABLE_WRITER_BYTES: u64 = 6 * MIB;
/// Number of parts of all coins; a thread that writes tables sorts one part at a time.
const SORTED_PARTS: u64 = 1024;
/// Bytes of a coin in memory while it is sorted: 66 for the coin, 32 for its place in the order;
/// twice that, since a part of up to twice the average size is sorted at once.
const SORTED_COIN_BYTES: u64 = 200;

/// Returns the number of files, connections included, that the process may have open. If it is
/// below `wanted`, it is raised as far as the system allows.
pub fn allow_open_files(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let (now, most) = (limit.current.unwrap_or(u64::MAX), limit.maximum.unwrap_or(u64::MAX));
    let raised = wanted.min(most);
    let raise = || setrlimit(Resource::Nofile, Rlimit { current: Some(raised), ..limit });
    if now < raised && raise().is_ok() { raised } else { now }
}

/// Returns the peak memory of the process in RAM, in bytes; 0 if the system does not report it.
pub fn peak_memory() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    field(&status, "VmHWM:").unwrap_or(0)
}

/// Returns the processor time of all threads of the process.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The memory that the process has in RAM at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInUse {
    /// All of this memory, in bytes.
    pub bytes: u64,
    /// The part of `bytes` that is pages of mapped files, nearly all of them tables. The kernel
    /// drops them when memory is short.
    pub mapped: u64,
}

/// Returns the memory that the process has in RAM now; `None` if the system does not report it.
pub fn memory_in_use() -> Option<MemoryInUse> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let (bytes, mapped) = (field(&status, "VmRSS:")?, field(&status, "RssFile:")?);
    Some(MemoryInUse { bytes, mapped })
}

/// A limit on the memory that the process may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// Where the limit comes from, for the user: a file, or a line of one.
    pub source: String,
}

/// Returns the memory that the process may use: what the system has available, or what the
/// process's control group or one above it allows, whichever is less. `None` if the system does not
/// report it.
pub fn memory_limit() -> Option<MemoryLimit> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (groups, mounts) = (read("/proc/self/cgroup"), read("/proc/self/mountinfo"));
    let groups = limit_files(&groups, &mounts).into_iter().filter_map(|path| {
        let bytes = group_limit(&fs::read_to_string(&path).ok()?)?;
        Some(MemoryLimit { bytes, source: path.display().to_string() })
    });
    groups.chain(available(&read("/proc/meminfo"))).min_by_key(|limit| limit.bytes)
}

/// Returns how many bytes of mapped files may be read again soon, in any order: `bytes`, or a
/// quarter of all memory that the process may use, if that is more. The kernel drops mapped pages
/// when memory is short.
pub fn mapped_bytes(bytes: usize) -> usize {
    let share = memory_limit().map_or(0, |limit| limit.bytes / 4);
    bytes.max(usize::try_from(share).unwrap_or(usize::MAX))
}

/// Parses the memory that is available without swapping from `/proc/meminfo`.
fn available(meminfo: &str) -> Option<MemoryLimit> {
    ["MemAvailable:", "MemTotal:"].iter().find_map(|name| {
        let source = format!("{} of /proc/meminfo", name.trim_end_matches(':'));
        Some(MemoryLimit { bytes: field(meminfo, name)?, source })
    })
}

/// Parses the number of bytes in a line like `MemTotal:   24105 kB`.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib = line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?;
    kib.checked_mul(1024)
}

/// Parses the limit in a control group's file; `None` for `max`, and for the huge number that means
/// the same.
fn group_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 60)
}

/// Returns the files that may hold a limit on the process's memory: those of its control group and
/// of the groups above it, in version 2 and in version 1, found with the contents of
/// `/proc/self/cgroup` and `/proc/self/mountinfo`.
fn limit_files(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        // Hierarchy, controllers, and the path of the group.
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (kind, option, name) = match controllers {
            "" => ("cgroup2", "", "memory.max"),
            _ if controllers.split(',').any(|controller| controller == "memory") => {
                ("cgroup", "memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        for (root, point) in mounts.lines().filter_map(|line| mount_of(line, kind, option)) {
            // In a namespace of its own, a process may be outside the mounted part (`/..`).
            let below = Path::new(group).strip_prefix(root).ok();
            let below = below.filter(|path| !path.starts_with(".."));
            let group = Path::new(point).join(below.unwrap_or(Path::new("")));
            let above = group.ancestors().take_while(|path| path.starts_with(point));
            files.extend(above.map(|path| path.join(name)));
        }
    }
    files
}

/// Returns root and mount point of a line of mountinfo, if it is of this kind and has this option.
fn mount_of<'a>(line: &'a str, kind: &str, option: &str) -> Option<(&'a str, &'a str)> {
    let (mount, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    let options = (system.next() == Some(kind)).then(|| system.nth(1)).flatten()?;
    if !option.is_empty() && !options.split(',').any(|known| known == option) {
        return None;
    }
    let mut mount = mount.split(' ').skip(3);
    Some((mount.next()?, mount.next()?))
}

/// Returns the size in bytes of the coins cache of a sync in order: `dbcache_bytes`, or less if
/// memory is too short for that and for this number of known `headers`; the user is then warned.
pub fn cache_bytes(dbcache_bytes: usize, headers: usize) -> usize {
    let Some(limit) = memory_limit() else { return dbcache_bytes };
    let wanted = dbcache_bytes as u64;
    let held = PROGRAM_BYTES + headers as u64 * HEADER_BYTES;
    let fits = cache_that_fits(limit.bytes, held);
    if wanted <= fits {
        return dbcache_bytes;
    }
    tracing::warn!(
        "--dbcache of {} MiB takes about {} MiB of memory, with everything else that a sync \
         needs, but {} MiB are available ({}): {} MiB are used for cached coins{}",
        wanted / MIB,
        (held + IN_ORDER_BYTES + wanted.saturating_mul(IN_ORDER_PERCENT) / 100) / MIB,
        limit.bytes / MIB,
        limit.source,
        fits / MIB,
        if fits > CACHE_BYTES_MIN { "" } else { ", and the system may kill the sync" }
    );
    fits as usize
}

/// Returns the bytes of cached coins that fit under a `limit` next to `held` bytes, but at least
/// what a sync in order needs.
fn cache_that_fits(limit: u64, held: u64) -> u64 {
    let room = limit.saturating_sub(held + IN_ORDER_BYTES);
    (room / IN_ORDER_PERCENT * 100).max(CACHE_BYTES_MIN)
}

/// How a SwiftSync divides the available memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwiftShare {
    /// Number of threads that work on blocks.
    pub workers: usize,
    /// Bytes of coins held in memory, to be written at the end.
    pub survivors_bytes: usize,
    /// Bytes for the threads that write tables at the end.
    tables_bytes: u64,
}

impl SwiftShare {
    /// Divides the memory for a SwiftSync with at most `workers` workers and `survivors_bytes` of
    /// coins, next to `headers` known headers and other `bytes` that it holds all the time.
    ///
    /// # Errors
    /// There is too little memory for one worker.
    pub fn new(
        workers: usize,
        survivors_bytes: usize,
        headers: usize,
        bytes: u64,
    ) -> Result<Self, String> {
        let held = PROGRAM_BYTES + headers as u64 * HEADER_BYTES + bytes;
        let limit = memory_limit();
        let all = limit.as_ref().map_or(u64::MAX, |limit| limit.bytes);
        Self::of(workers, survivors_bytes, all.saturating_sub(held)).ok_or_else(|| {
            format!(
                "SwiftSync needs at least {} MiB of memory for this chain, and {} MiB are \
                 available ({}): make more memory available",
                (held + WORKER_BYTES + SURVIVORS_BYTES_MIN).div_ceil(MIB),
                all / MIB,
                limit.map_or_else(String::new, |limit| limit.source),
            )
        })
    }

    /// Divides `room` bytes: one worker and the minimum for coins come first; half of the rest may
    /// go to more workers, and what they leave to coins. `None` if `room` is too small.
    fn of(workers: usize, survivors_bytes: usize, room: u64) -> Option<Self> {
        let (workers, wanted) = (workers.max(1), survivors_bytes as u64);
        let after_one = room.checked_sub(WORKER_BYTES + SURVIVORS_BYTES_MIN)?;
        let more = after_one / 2 / WORKER_BYTES;
        let workers = workers.min(1 + usize::try_from(more).unwrap_or(usize::MAX));
        let left = room - workers as u64 * WORKER_BYTES;
        let survivors = wanted.min(left).max(SURVIVORS_BYTES_MIN);
        let survivors_bytes = usize::try_from(survivors).unwrap_or(usize::MAX);
        Some(Self { workers, survivors_bytes, tables_bytes: room - survivors })
    }

    /// Returns the number of threads that may write the tables of `coins` coins, at most `wanted`.
    pub fn table_writers(&self, wanted: usize, coins: u64) -> usize {
        let each = TABLE_WRITER_BYTES + coins.saturating_mul(SORTED_COIN_BYTES) / SORTED_PARTS;
        wanted.min(usize::try_from(self.tables_bytes / each).unwrap_or(usize::MAX)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal:       24683520 kB\nMemFree:         1003520 kB\n\
        MemAvailable:   20480000 kB\nBuffers:          204800 kB\n";

    #[test]
    fn available_memory_is_read() {
        let limit = available(MEMINFO).unwrap();
        assert_eq!(
            (limit.bytes, limit.source.as_str()),
            (20_971_520_000, "MemAvailable of /proc/meminfo")
        );
        // Linux before 3.14 has no such line.
        assert_eq!(available("MemTotal:  1024 kB\n").unwrap().bytes, MIB);
        assert_eq!(available("MemAvailable: much\n"), None);
        assert_eq!(available(""), None);
    }

    #[test]
    fn limits_of_groups_are_read() {
        assert_eq!(group_limit("157286400\n"), Some(150 * MIB));
        assert_eq!(group_limit("max\n"), None);
        assert_eq!(group_limit("9223372036854771712\n"), None);
        assert_eq!(group_limit("18446744073709551616\n"), None);
        assert_eq!(group_limit(""), None);
    }

    fn paths(groups: &str, mounts: &str) -> Vec<String> {
        let files = limit_files(groups, mounts);
        files.iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn every_group_above_counts_in_version_2() {
        let mounts = "24 1 0:22 / /proc rw - proc proc rw\n\
            35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
        let expected = [
            "/sys/fs/cgroup/user.slice/apus.scope/memory.max",
            "/sys/fs/cgroup/user.slice/memory.max",
            "/sys/fs/cgroup/memory.max",
        ];
        assert_eq!(paths("0::/user.slice/apus.scope\n", mounts), expected);
        assert_eq!(paths("0::/../outside\n", mounts), expected[2..]);
    }

    #[test]
    fn every_group_above_counts_in_version_1() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/docker/37a20\n3:cpuset:/\n0::/\n";
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
            32 31 0:29 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
            35 31 0:32 /docker /sys/fs/cgroup/memory rw - cgroup cgroup rw,cpu,memory\n";
        let expected = [
            "/sys/fs/cgroup/memory/37a20/memory.limit_in_bytes",
            "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        ];
        assert_eq!(paths(groups, mounts), expected);
        assert!(paths("", mounts).is_empty() && paths(groups, "").is_empty());
        assert!(paths("4:memory", "a - b").is_empty());
    }

    #[test]
    fn a_cache_leaves_room_for_the_rest() {
        let held = 24 * MIB;
        assert_eq!(cache_that_fits(100 * MIB, held), CACHE_BYTES_MIN);
        assert_eq!(cache_that_fits(400 * MIB, held), 200 * MIB);
        assert!(cache_that_fits(u64::MAX, held) > 1 << 60);
    }

    #[test]
    fn a_swiftsync_divides_the_memory_that_there_is() {
        let share = |room: u64| {
            SwiftShare::of(9, 200 << 20, room * MIB)
                .map(|s| (s.workers, s.survivors_bytes as u64 / MIB))
        };
        assert_eq!(share(19), None);
        assert_eq!(share(20), Some((1, 4)));
        assert_eq!(share(76), Some((2, 44)));
        assert_eq!(share(119), Some((4, 55)));
        assert_eq!(share(24_000), Some((9, 200)));
        for room in 20..500 {
            let (workers, survivors) = share(room).unwrap();
            assert!(workers as u64 * WORKER_BYTES + survivors * MIB <= room * MIB, "{room}");
        }
    }

    #[test]
    fn few_threads_write_tables_where_memory_is_short() {
        let share = |room: u64| SwiftShare::of(3, 200 << 20, room * MIB).unwrap();
        assert_eq!(share(40).table_writers(4, 1_000_000), 2);
        assert_eq!(share(20).table_writers(4, 175_000_000), 1);
        assert_eq!(share(24_000).table_writers(4, 175_000_000), 4);
    }
}
