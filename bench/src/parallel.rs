//! How many threads of a program run at a time, and which run alone; on one core, also how long it
//! would take on several.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

use apus_progress::states::{ThreadState, busy_threads};

use crate::Result;
use crate::replay::Recording;
use crate::report::{Cell, Report, Table};

/// The time between two looks at the threads.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The numbers of cores for which a run on one core is extrapolated.
const CORES: [usize; 5] = [1, 2, 4, 8, 16];

/// Runs a program, looks at its threads every 10 ms, and reports for how long how many of them ran.
/// A thread that waits for the disk counts as one that runs. If this process may use one core only,
/// as with `taskset -c 0`, also reports how long the program would take on several.
///
/// # Errors
/// The program cannot be started, or does not end successfully.
pub fn run(mut command: Command) -> Result<Report> {
    let start = Instant::now();
    let mut child = command.spawn()?;
    let process = child.id().to_string();
    let mut by_number = BTreeMap::<usize, Duration>::new();
    let mut alone = BTreeMap::<String, Duration>::new();
    let mut recording = Recording::default();
    let mut last = start;
    let status = loop {
        let threads = busy_threads(&process);
        let now = Instant::now();
        *by_number.entry(threads.len()).or_default() += now - last;
        if let [thread] = &threads[..] {
            let waits = match thread.state {
                ThreadState::Working => "",
                ThreadState::WaitingForDisk => ", waiting for the disk",
            };
            let name = thread.name.trim_end_matches(|c: char| c.is_ascii_digit());
            let name = name.trim_end_matches('-');
            *alone.entry(format!("{name}{waits}")).or_default() += now - last;
        }
        recording.look(&process, now - last);
        last = now;
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK_EVERY);
    };
    if !status.success() {
        return Err(format!("the program ended with {status}").into());
    }
    let mut report = Report::new("parallel");
    report.notes.push(format!("the program ran for {:.2} s", start.elapsed().as_secs_f64()));
    let mut table = Table::new("threads", &[("threads", "threads"), ("seconds", "seconds")]);
    for (number, time) in by_number {
        table.push(vec![Cell::Count(number as u64), Cell::Seconds(time.as_secs_f64())]);
    }
    report.tables.push(table);
    let mut table = Table::new("alone", &[("thread", "alone"), ("seconds", "seconds")]);
    let mut alone: Vec<_> = alone.into_iter().collect();
    alone.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    for (name, time) in alone {
        table.push(vec![Cell::Text(name), Cell::Seconds(time.as_secs_f64())]);
    }
    report.tables.push(table);
    if std::thread::available_parallelism()?.get() == 1 {
        let mut table = Table::new("cores", &[("cores", "cores"), ("seconds", "seconds")]);
        for cores in CORES {
            let seconds = recording.seconds(cores);
            table.push(vec![Cell::Count(cores as u64), Cell::Seconds(seconds)]);
        }
        report.tables.push(table);
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_watched_to_its_end() {
        let mut command = Command::new("sh");
        command.args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"]);
        let report = run(command).unwrap();
        let is_replayed = std::thread::available_parallelism().unwrap().get() == 1;
        assert_eq!(report.tables.len(), 2 + usize::from(is_replayed));
        let mut command = Command::new("sh");
        command.args(["-c", "exit 3"]);
        assert!(run(command).is_err());
    }
}
