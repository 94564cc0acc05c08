//! How long a program that ran on one core would take on several.
//!
//! Linux counts for each thread how long it ran, and how long it waited for a core. A time in which
//! one core ran threads of which eight were ready would be an eighth as long with eight cores or
//! more. Time in which no thread was ready is as long with any number of cores.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// The number of looks within which a thread's work stays one after the other: about half a second.
const WINDOW: usize = 50;

/// What the threads did between two looks, in seconds.
struct Interval {
    seconds: f64,
    running: Vec<(u32, f64)>,
    /// The number of threads that ran or waited for a core, on average.
    ready: f64,
}

/// What the threads of a process did, look by look.
#[derive(Default)]
pub struct Recording {
    /// The nanoseconds that each thread ran and waited for a core, at the last look.
    last: BTreeMap<u32, [u64; 2]>,
    intervals: Vec<Interval>,
}

impl Recording {
    /// Looks at the threads of a process; `since` is the time since the look before, or its start.
    pub fn look(&mut self, process: &str, since: Duration) {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let counted = threads.filter_map(|thread| {
            let id = thread.file_name().to_str()?.parse().ok()?;
            // A thread may have ended meanwhile.
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let mut numbers = text.split(' ').map_while(|number| number.trim().parse().ok());
            Some((id, [numbers.next()?, numbers.next()?]))
        });
        let now: BTreeMap<u32, [u64; 2]> = counted.collect();
        let mut interval =
            Interval { seconds: since.as_secs_f64(), running: Vec::new(), ready: 0.0 };
        for (id, [ran, waited]) in &now {
            let [ran_before, waited_before] = self.last.get(id).copied().unwrap_or_default();
            let seconds = |now: u64, before: u64| now.saturating_sub(before) as f64 / 1e9;
            let running = seconds(*ran, ran_before);
            interval.ready += (running + seconds(*waited, waited_before)) / interval.seconds;
            interval.running.push((*id, running));
        }
        self.intervals.push(interval);
        self.last = now;
    }

    /// Returns the seconds that the program would take on `cores` cores, if it ran on one.
    pub fn seconds(&self, cores: usize) -> f64 {
        let windows = self.intervals.chunks(WINDOW);
        windows
            .map(|window| {
                let mut by_thread = BTreeMap::<u32, f64>::new();
                for (id, running) in window.iter().flat_map(|interval| &interval.running) {
                    *by_thread.entry(*id).or_default() += running;
                }
                let longest = by_thread.into_values().fold(0.0, f64::max);
                let spread = window.iter().map(|interval| interval.spread(cores));
                spread.sum::<f64>().max(longest)
            })
            .sum()
    }
}

impl Interval {
    /// Returns how long this takes if as many threads run at a time as are ready and have a core.
    fn spread(&self, cores: usize) -> f64 {
        let running: f64 = self.running.iter().map(|(_, seconds)| seconds).sum();
        let idle = (self.seconds - running).max(0.0);
        idle + running / self.ready.clamp(1.0, cores as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second of ten equal looks at threads that share one core.
    fn recording(threads: u32) -> Recording {
        let running = (0..threads).map(|id| (id, 0.1 / f64::from(threads)));
        let interval = |_| Interval {
            seconds: 0.1,
            running: running.clone().collect(),
            ready: threads.into(),
        };
        Recording { last: BTreeMap::new(), intervals: (0..10).map(interval).collect() }
    }

    fn assert_near(seconds: f64, expected: f64) {
        assert!((seconds - expected).abs() < 1e-9, "{seconds}, not {expected}");
    }

    #[test]
    fn threads_that_are_ready_share_the_cores() {
        for (threads, cores, expected) in
            [(1, 16, 1.0), (4, 1, 1.0), (4, 2, 0.5), (4, 4, 0.25), (4, 16, 0.25)]
        {
            assert_near(recording(threads).seconds(cores), expected);
        }
    }

    #[test]
    fn time_without_work_stays_and_a_thread_works_at_one_place() {
        let mut recording = recording(4);
        // The first thread does most of the work.
        for interval in &mut recording.intervals {
            interval.running = vec![(0, 0.07), (1, 0.01), (2, 0.01), (3, 0.01)];
        }
        assert_near(recording.seconds(4), 0.7);
        recording.intervals.push(Interval { seconds: 2.0, running: Vec::new(), ready: 0.0 });
        assert_near(recording.seconds(4), 2.25);
    }
}
