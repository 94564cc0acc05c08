use std::time::Duration;

/// Most memory that the process ever had in RAM, in bytes; 0 where the system does not tell.
pub(super) fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    bytes_of(&status, "VmHWM:").unwrap_or(0)
}

/// A line of /proc/self/status that gives a size.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Time that all threads of the process have spent on a core.
pub(super) fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// What the process has in RAM at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInUse {
    /// All of it, in bytes.
    pub bytes: u64,
    /// Of these, the pages of mapped files, which the kernel drops when memory is short. Nearly all
    /// of them are tables.
    pub mapped: u64,
}

/// What the process has in RAM now; `None` where the system does not tell.
pub fn memory_in_use() -> Option<MemoryInUse> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let (bytes, mapped) = (bytes_of(&status, "VmRSS:")?, bytes_of(&status, "RssFile:")?);
    Some(MemoryInUse { bytes, mapped })
}
