//! The bottleneck: the resource that limits the speed.

use std::time::Duration;

use super::outcome::ThreadStates;
use apus_host::resources::{cpu_pressure, cpu_time};

/// The resource that would have to be faster for the work to end earlier.
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

    /// Returns what was waited for during `elapsed` seconds; `None` if too little was seen to tell.
    /// In `waited` of them at least one thread waited for a block from a peer, `states` is how
    /// often threads were seen working and waiting for the disk, and `machine` what was counted.
    pub fn seen(
        elapsed: f64,
        waited: Duration,
        states: ThreadStates,
        machine: Machine,
    ) -> Option<Self> {
        let used = machine.cpu.as_secs_f64() / (elapsed * machine.cores).max(1e-9);
        // A processor or a disk that is busy is no bottleneck while threads lack blocks, unless
        // the other threads have enough to do.
        if waited.as_secs_f64() * 2.0 > elapsed && used < 0.75 {
            return Some(Self::Peers);
        }
        states.blocked_percent()?;
        if states.waits_for_disk() {
            return Some(Self::Disk);
        }
        let is_contended = machine.pressure.unwrap_or_default().as_secs_f64() * 2.0 > elapsed;
        Some(if is_contended && used < 0.5 { Self::OtherPrograms } else { Self::Processor })
    }
}

/// The system's counters so far.
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

    /// Returns what was counted since `before`.
    pub fn since(self, before: Self) -> Self {
        let pressure = self.pressure.zip(before.pressure);
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            pressure: pressure.map(|(now, before)| now.saturating_sub(before)),
            ..self
        }
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
            let machine = Machine { cpu, pressure, cores: 4.0 };
            let states = ThreadStates { working, blocked };
            let seen = Bottleneck::seen(10.0, seconds(waited), states, machine);
            assert_eq!(seen, expected, "{waited} {states:?} {machine:?}");
        }
        let states = ThreadStates::default();
        let machine = Machine::default();
        assert_eq!(Bottleneck::seen(0.0, Duration::ZERO, states, machine), None);
    }
}
