//! What limits the speed of the work.

use std::time::Duration;

use super::outcome::ThreadStates;
use super::resources::{cpu_pressure, cpu_time};

/// What would have to be faster for the work to end earlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bottleneck {
    /// The download from peers.
    Peers,
    /// The limit that the user sets to it (`--maxdownload`).
    DownloadLimit,
    /// The disk.
    Disk,
    /// The processor.
    Processor,
    /// The processor, most of which other programs use.
    OtherPrograms,
}

impl Bottleneck {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Peers, Self::DownloadLimit, Self::Disk, Self::Processor, Self::OtherPrograms];

    /// Returns its name, for a progress line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Peers => "peers",
            Self::DownloadLimit => "--maxdownload",
            Self::Disk => "disk",
            Self::Processor => "processor",
            Self::OtherPrograms => "other programs on the processor",
        }
    }
}

/// What the system has counted so far.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Machine {
    /// Processor time of all threads of this process.
    pub cpu: Duration,
    /// Time in which some program of the system waited for a processor; `None` if the system does
    /// not report it.
    pub pressure: Option<Duration>,
    /// Number of processors.
    pub cores: f64,
}

impl Machine {
    /// Asks the system.
    pub fn now() -> Self {
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        Self { cpu: cpu_time(), pressure: cpu_pressure(), cores }
    }
}

/// What was seen of the work during some time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Seen {
    /// That time, in seconds.
    pub elapsed: f64,
    /// The part of it in which at least one thread waited for a block from a peer.
    pub waited: Duration,
    /// How often threads were seen working and waiting for the disk.
    pub states: ThreadStates,
    /// What the system has counted.
    pub machine: Machine,
}

impl Seen {
    /// Returns what was waited for; `None` if too little was seen to tell.
    pub fn bottleneck(&self) -> Option<Bottleneck> {
        let Machine { cpu, pressure, cores } = self.machine;
        let used = cpu.as_secs_f64() / (self.elapsed * cores).max(1e-9);
        // A processor or a disk that is busy is no bottleneck while threads lack blocks, unless
        // the other threads have enough to do.
        if self.waited.as_secs_f64() * 2.0 > self.elapsed && used < 0.75 {
            return Some(Bottleneck::Peers);
        }
        self.states.blocked_percent()?;
        if self.states.waits_for_disk() {
            return Some(Bottleneck::Disk);
        }
        let is_contended = pressure.unwrap_or_default().as_secs_f64() * 2.0 > self.elapsed;
        let others = is_contended && used < 0.5;
        Some(if others { Bottleneck::OtherPrograms } else { Bottleneck::Processor })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_is_the_bottleneck() {
        use Bottleneck::{Disk, OtherPrograms, Peers, Processor};
        // Seconds of 10 that threads lacked blocks; states; seconds of processor of 40; pressure.
        for (waited, working, blocked, cpu, pressure, expected) in [
            (6, 90, 10, 0, None, Some(Peers)),
            (6, 0, 0, 0, None, Some(Peers)),
            (6, 90, 10, 35, None, Some(Processor)),
            (5, 90, 10, 20, None, Some(Processor)),
            (0, 10, 90, 2, None, Some(Disk)),
            (0, 9, 10, 0, None, None),
            (0, 90, 10, 5, Some(9), Some(OtherPrograms)),
            // Its own threads wait for each other's processor.
            (0, 90, 10, 38, Some(9), Some(Processor)),
            (0, 90, 10, 5, Some(1), Some(Processor)),
        ] {
            let seconds = Duration::from_secs;
            let cpu = seconds(cpu);
            let pressure = pressure.map(seconds);
            let seen = Seen {
                elapsed: 10.0,
                waited: seconds(waited),
                states: ThreadStates { working, blocked },
                machine: Machine { cpu, pressure, cores: 4.0 },
            };
            assert_eq!(seen.bottleneck(), expected, "{seen:?}");
        }
        assert_eq!(Seen::default().bottleneck(), None);
    }
}
