//! The memory that this process may use.

use rustix::process::{Resource, getrlimit};

use super::groups::groups;
use crate::resources::field;
use crate::root::Root;

/// The memory below which headers are kept in a file: mainnet's 950,000 take 106 MB.
const LITTLE_BYTES: u64 = 1 << 30;

/// A limit on the memory that the process may use.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemoryLimit {
    /// The limit in bytes.
    pub bytes: u64,
    /// Where the limit comes from, for the user: a file, or a line of one.
    pub source: String,
}

/// Returns whether this process may use so little memory that all headers would take much of it.
pub fn is_little() -> bool {
    memory_limit(&Root::system()).is_some_and(|limit| limit.bytes < LITTLE_BYTES)
}

/// Returns the memory that the process may use: what the system has available without swapping
/// (`MemAvailable`), what the process's control group or one above it allows (`memory.max`,
/// `memory.high`), or its address space (`ulimit -v`), whichever is least. `None` if the system
/// does not report it.
pub fn memory_limit(root: &Root) -> Option<MemoryLimit> {
    let files = groups(root).into_iter().flat_map(|group| group.limit_files().collect::<Vec<_>>());
    let limits = files.filter_map(|path| {
        let bytes = group_limit(&root.read(&path)?)?;
        Some(MemoryLimit { bytes, source: path.display().to_string() })
    });
    let meminfo = root.read("/proc/meminfo").unwrap_or_default();
    let addresses = getrlimit(Resource::As).current;
    let addresses = addresses.map(|bytes| MemoryLimit { bytes, source: "ulimit -v".to_string() });
    limits.chain(available(&meminfo)).chain(addresses).min_by_key(|limit| limit.bytes)
}

/// Returns how many bytes of mapped files may be read again soon, in any order: `bytes`, or a
/// quarter of all memory that the process may use, if that is more. The kernel drops mapped pages
/// when memory is short.
pub fn mapped_bytes(bytes: usize) -> usize {
    let share = memory_limit(&Root::system()).map_or(0, |limit| limit.bytes / 4);
    bytes.max(usize::try_from(share).unwrap_or(usize::MAX))
}

/// Parses the memory that is available without swapping from `/proc/meminfo`.
fn available(meminfo: &str) -> Option<MemoryLimit> {
    ["MemAvailable:", "MemTotal:"].iter().find_map(|name| {
        let source = format!("{} of /proc/meminfo", name.trim_end_matches(':'));
        Some(MemoryLimit { bytes: field(meminfo, name)?, source })
    })
}

/// Parses the limit in a control group's file; `None` for `max`, and for the huge number that means
/// the same.
fn group_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < 1 << 60)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MIB: u64 = 1 << 20;
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

    #[test]
    fn the_least_of_all_limits_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path());
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        assert_eq!(memory_limit(&root), None);
        write("proc/meminfo", MEMINFO);
        write("proc/self/cgroup", "0::/system.slice/apus.service\n");
        write(
            "proc/self/mountinfo",
            "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n",
        );
        let source = || memory_limit(&root).unwrap().source;
        assert_eq!(source(), "MemAvailable of /proc/meminfo");
        write("sys/fs/cgroup/system.slice/memory.max", "1073741824\n");
        write("sys/fs/cgroup/system.slice/apus.service/memory.max", "max\n");
        assert_eq!(source(), "/sys/fs/cgroup/system.slice/memory.max");
        write("sys/fs/cgroup/system.slice/apus.service/memory.high", "314572800\n");
        let limit = memory_limit(&root).unwrap();
        assert_eq!(limit.bytes, 300 * MIB);
        assert_eq!(limit.source, "/sys/fs/cgroup/system.slice/apus.service/memory.high");
    }
}
