//! The time, memory and files that the process uses.

use std::fs;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Returns the number of files, connections included, that the process may have open. If it is
/// below `wanted`, it is raised as far as the system allows.
pub fn allow_open_files(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let now = limit.current.unwrap_or(u64::MAX);
    let most = limit.maximum.unwrap_or(u64::MAX);
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

/// Returns the time in which some program of the system waited for a processor (Linux's pressure
/// stall information); `None` if the system does not report it.
pub fn cpu_pressure() -> Option<Duration> {
    let text = fs::read_to_string("/proc/pressure/cpu").ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    let (_, total) = some.split_once("total=")?;
    Some(Duration::from_micros(total.trim().parse().ok()?))
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
    let bytes = field(&status, "VmRSS:")?;
    let mapped = field(&status, "RssFile:")?;
    Some(MemoryInUse { bytes, mapped })
}

/// Parses the number of bytes in a line like `MemTotal:   24105 kB` of a text; `name` includes the
/// colon. `None` without such a line.
pub fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib = line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?;
    kib.checked_mul(1024)
}
