#![allow(unsafe_code, reason = "wait4 is a call of C")]

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::Result;

/// Time from one look at the memory of a child process to the next.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// An environment variable with which this program acts as `apus`, so that both are always of the
/// same build.
pub const AS_APUS: &str = "APUS_BENCH_AS_APUS";

/// The cost of a child process from its start to its end, as the operating system accounts for it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Wall-clock time.
    pub elapsed: Duration,
    /// CPU time on all cores, in user mode and in the kernel.
    pub cpu: Duration,
    /// Peak resident memory in bytes.
    pub peak_bytes: u64,
    /// The part of resident memory that belongs to no file, which the system cannot drop: its peak
    /// in bytes, sampled every 20 ms. Zero if the system does not report it.
    pub peak_anonymous_bytes: u64,
    /// Bytes written to files on a disk: what the system wrote, or would have written if the file
    /// had lived longer.
    pub written_bytes: u64,
    /// CPU time of everything else on the machine meanwhile. If it is large, the figures are of
    /// little use. Zero if the system does not report it.
    pub others_cpu: Duration,
}

/// The programs that benchmarks start.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The file of this program.
    own: PathBuf,
    /// An `apus` to use instead of the one inside this program.
    apus: Option<PathBuf>,
}

impl Programs {
    /// Uses this program, with the given `apus` if there is one.
    pub fn new(apus: Option<PathBuf>) -> Result<Self> {
        // The running file, even if a newer build replaces it meanwhile.
        let running = PathBuf::from(format!("/proc/{}/exe", std::process::id()));
        let own = if running.exists() { running } else { std::env::current_exe()? };
        Ok(Self { own, apus })
    }

    /// Uses `own` as this program, for tests, which are other programs.
    pub fn of(own: &Path) -> Self {
        Self { own: own.to_path_buf(), apus: None }
    }

    /// Returns a command that runs `apus`, without arguments.
    pub fn apus(&self) -> Command {
        match &self.apus {
            Some(path) => Command::new(path),
            None => {
                let mut command = Command::new(&self.own);
                command.env(AS_APUS, "1");
                command
            }
        }
    }

    /// Returns a command that runs this program, without arguments.
    pub fn own(&self) -> Command {
        let mut command = Command::new(&self.own);
        command.env_remove(AS_APUS);
        command
    }
}

/// Runs `command` and returns what it printed on standard output, with its cost.
///
/// The calling process should be small, because its own memory counts towards the child's peak
/// after the fork.
///
/// # Errors
/// The command cannot be started, or does not end successfully.
pub fn run(mut command: Command) -> Result<(String, Usage)> {
    let file = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(file.try_clone()?);
    let start = Instant::now();
    let busy_before = busy();
    let pid = command.spawn()?.id();
    let (waited, peak_anonymous_bytes) = std::thread::scope(|scope| {
        let (running, ended) = mpsc::channel();
        let watcher = scope.spawn(move || peak_anonymous_bytes(pid, &ended));
        let waited = wait4(pid).map(|(status, usage)| (status, usage, start.elapsed()));
        drop(running);
        (waited, watcher.join().unwrap_or(0))
    });
    let (status, mut usage, elapsed) = waited?;
    (usage.elapsed, usage.peak_anonymous_bytes) = (elapsed, peak_anonymous_bytes);
    usage.others_cpu = busy().saturating_sub(busy_before).saturating_sub(usage.cpu);
    let output = {
        use std::io::{Read, Seek};
        let mut file = file;
        let mut output = String::new();
        file.rewind()?;
        file.read_to_string(&mut output)?;
        output
    };
    if !status.success() {
        let args: Vec<_> = command.get_args().map(OsStr::to_string_lossy).collect();
        let program = command.get_program().to_string_lossy();
        return Err(format!("{program} {}: {status}: {output}", args.join(" ")).into());
    }
    Ok((output, usage))
}

/// Waits for a child to end. If it runs longer than `time`, it is sent the signal of this name.
///
/// # Errors
/// The child cannot be waited for.
pub fn wait_or_signal(child: &mut Child, time: Duration, signal: &str) -> Result<ExitStatus> {
    let pid = child.id().to_string();
    let signal = format!("-{signal}");
    std::thread::scope(|scope| {
        let (running, ended) = mpsc::channel::<()>();
        scope.spawn(move || {
            if ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
                // It may have ended just now.
                let _ = Command::new("kill").args([&signal, &pid]).stderr(Stdio::null()).status();
            }
        });
        let waited = child.wait();
        drop(running);
        Ok(waited?)
    })
}

/// The most anonymous memory of the process `pid` until the sender of `ended` is dropped.
fn peak_anonymous_bytes(pid: u32, ended: &Receiver<()>) -> u64 {
    let path = format!("/proc/{pid}/status");
    let mut peak_kib = 0;
    loop {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        peak_kib = peak_kib.max(kib.unwrap_or(0));
        if ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Disconnected) {
            return peak_kib << 10;
        }
    }
}

/// Waits for a child to end.
fn wait4(pid: u32) -> Result<(ExitStatus, Usage)> {
    let pid = libc::pid_t::try_from(pid)?;
    let mut status = 0;
    // SAFETY: rusage consists of plain numbers, for which zero is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to live values of the types that wait4 writes.
        let waited = unsafe { libc::wait4(pid, &raw mut status, 0, &raw mut usage) };
        if waited == pid {
            break;
        }
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error.into());
        }
    }
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    let cpu = time(usage.ru_utime) + time(usage.ru_stime);
    // Linux counts in KiB.
    let peak_bytes = usage.ru_maxrss.unsigned_abs() << 10;
    // Linux counts in blocks of 512 bytes.
    let written_bytes = usage.ru_oublock.unsigned_abs() << 9;
    let usage = Usage { cpu, peak_bytes, written_bytes, ..Usage::default() };
    Ok((ExitStatus::from_raw(status), usage))
}

/// Returns the time that all cores together were not idle since the machine started.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let ticks: Vec<u64> = line.split_whitespace().map_while(|n| n.parse().ok()).collect();
    // User, nice, system, (idle, waiting for the disk,) interrupts, soft interrupts, stolen; in
    // hundredths of a second.
    let counted = ticks.iter().take(8).enumerate().filter(|(i, _)| ![3, 4].contains(i));
    Duration::from_millis(counted.map(|(_, ticks)| ticks * 10).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_accounted_for_and_its_failure_told() {
        let mut command = Command::new("sh");
        // It runs long enough for several samples of its memory, even on a busy machine.
        let count = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.5; echo $i";
        command.args(["-c", count]);
        let (output, usage) = run(command).unwrap();
        assert_eq!(output, "20000\n");
        assert!(usage.cpu > Duration::ZERO && usage.peak_bytes > 100_000);
        assert!((10_000..=usage.peak_bytes).contains(&usage.peak_anonymous_bytes), "{usage:?}");
        let mut command = Command::new("sh");
        command.args(["-c", "echo why; exit 3"]);
        let error = run(command).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("why"), "{error}");
    }
}
