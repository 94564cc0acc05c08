//! The trace of a run (`--debug=trace`): when each thread worked, and when it waited for the disk,
//! in the format of Chrome's tracing, which <https://ui.perfetto.dev> shows. All threads are looked
//! at a hundred times a second.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use apus_host::threads::spawn_free;
use apus_progress::Phase;
use apus_progress::states::{BusyThread, ThreadState, busy_threads};
use serde_json::{Value, json};

use super::output;

/// The file in the network's directory. A later run replaces it.
pub const FILE: &str = "apus-trace.json";
/// The time between two looks at the threads.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The number of bytes after which the trace ends.
const BYTES_MAX: u64 = 1 << 30;
/// The row of the phases, which is no thread's.
const PHASES: u32 = 0;

/// Whether the user wants a trace.
static WANTED: AtomicBool = AtomicBool::new(false);
/// The trace of this process, while it is being written.
static TRACE: Mutex<Option<Trace>> = Mutex::new(None);

/// Makes this process write a trace, if it writes to a data directory.
pub fn want() {
    WANTED.store(true, Relaxed);
}

/// Starts the trace in the network's directory, as soon as that exists, if the user wants one.
pub fn begin(network_dir: &Path) {
    if !WANTED.load(Relaxed) {
        return;
    }
    *lock() = Some(Trace::new(network_dir.join(FILE)));
    spawn_free("apus-trace".to_string(), || {
        loop {
            let threads = busy_threads("self");
            let mut trace = lock();
            let Some(running) = &mut *trace else { return };
            if let Err(error) = running.look(threads) {
                output::note(format_args!(
                    "Warning: cannot write the trace {}, so it ends here: {error}",
                    running.path.display()
                ));
                *trace = None;
                return;
            }
            drop(trace);
            sleep(LOOK_EVERY);
        }
    });
}

/// Notes the phase that the work is in.
pub fn phase(phase: Phase) {
    if let Some(trace) = &mut *lock() {
        trace.phase = Some(phase);
    }
}

/// Ends the trace and says where it is.
pub fn end() {
    let Some(mut trace) = lock().take() else { return };
    let path = trace.path.clone();
    match trace.finish() {
        Ok(true) => output::note(format_args!(
            "Trace: {}; open it at https://ui.perfetto.dev or chrome://tracing",
            path.display()
        )),
        Ok(false) => {}
        Err(error) => output::note(format_args!("Warning: the trace {}: {error}", path.display())),
    }
}

fn lock() -> MutexGuard<'static, Option<Trace>> {
    TRACE.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Trace {
    path: PathBuf,
    /// `None` until the directory exists.
    out: Option<BufWriter<File>>,
    bytes: u64,
    began: Instant,
    phase: Option<Phase>,
    /// The name of each row seen so far: threads by their number, and the phases.
    names: BTreeMap<u32, String>,
    /// The span that each row is in.
    spans: BTreeMap<u32, Span>,
}

/// A time in which a thread was in one state, or the run in one phase.
struct Span {
    what: &'static str,
    since: Duration,
}

impl Trace {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            out: None,
            bytes: 0,
            began: Instant::now(),
            phase: None,
            names: BTreeMap::new(),
            spans: BTreeMap::new(),
        }
    }

    /// Writes the spans that have ended by now, as `threads` are busy and the others are not.
    fn look(&mut self, threads: Vec<BusyThread>) -> io::Result<()> {
        if !self.open()? {
            return Ok(());
        }
        let now = self.began.elapsed();
        let mut rows = BTreeMap::new();
        if let Some(phase) = self.phase {
            rows.insert(PHASES, ("phase".to_string(), phase.words()));
        }
        for thread in threads {
            let what = match thread.state {
                ThreadState::Working => "working",
                ThreadState::WaitingForDisk => "waiting for the disk",
            };
            rows.insert(thread.id, (thread.name, what));
        }
        let ended: Vec<u32> = self
            .spans
            .iter()
            .filter(|(row, span)| rows.get(row).is_none_or(|(_, what)| *what != span.what))
            .map(|(row, _)| *row)
            .collect();
        for row in ended {
            self.close(row, now)?;
        }
        for (row, (name, what)) in rows {
            self.name(row, name)?;
            self.spans.entry(row).or_insert(Span { what, since: now });
        }
        Ok(())
    }

    /// Names a row, if it has another name or none.
    fn name(&mut self, row: u32, name: String) -> io::Result<()> {
        if self.names.get(&row) == Some(&name) {
            return Ok(());
        }
        self.write(&json!({
            "ph": "M", "name": "thread_name", "pid": 1, "tid": row, "args": { "name": &name },
        }))?;
        self.names.insert(row, name);
        Ok(())
    }

    /// Writes the span that a row is in, which ends `now`. Times are in microseconds.
    fn close(&mut self, row: u32, now: Duration) -> io::Result<()> {
        let Some(Span { what, since }) = self.spans.remove(&row) else { return Ok(()) };
        self.write(&json!({
            "ph": "X", "name": what, "pid": 1, "tid": row,
            "ts": since.as_micros() as u64, "dur": (now - since).as_micros() as u64,
        }))
    }

    /// Creates the file once its directory exists; returns whether it does.
    fn open(&mut self) -> io::Result<bool> {
        if self.out.is_none() && self.path.parent().is_some_and(Path::is_dir) {
            self.out = Some(BufWriter::new(File::create(&self.path)?));
        }
        Ok(self.out.is_some())
    }

    fn write(&mut self, event: &Value) -> io::Result<()> {
        let Some(out) = &mut self.out else { return Ok(()) };
        // The format allows for a list without an end, as a killed program leaves it.
        let event = format!("{}{event}", if self.bytes == 0 { "[" } else { ",\n" });
        out.write_all(event.as_bytes())?;
        self.bytes += event.len() as u64;
        if self.bytes > BYTES_MAX {
            return Err(io::Error::other("it has 1 GiB"));
        }
        Ok(())
    }

    /// Ends all spans and the file; returns whether there is one.
    fn finish(&mut self) -> io::Result<bool> {
        self.look(Vec::new())?;
        // The file exists even if the work ended before the first look.
        self.name(PHASES, "phase".to_string())?;
        self.close(PHASES, self.began.elapsed())?;
        let Some(mut out) = self.out.take() else { return Ok(false) };
        out.write_all(b"]\n")?;
        out.flush()?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(id: u32, state: ThreadState) -> BusyThread {
        BusyThread { id, name: format!("apus-work-{id}"), state }
    }

    #[test]
    fn spans_end_where_a_state_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let mut trace = Trace::new(path.clone());
        trace.phase = Some(Phase::Connecting);
        let working = ThreadState::Working;
        let waiting = ThreadState::WaitingForDisk;
        trace.look(vec![thread(7, working), thread(8, working)]).unwrap();
        trace.look(vec![thread(7, working), thread(8, waiting)]).unwrap();
        trace.look(vec![thread(8, waiting)]).unwrap();
        assert!(trace.finish().unwrap());
        let events: Vec<Value> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let spans = |row: u32| -> Vec<String> {
            let of_row = events.iter().filter(|event| event["tid"] == row && event["ph"] == "X");
            of_row.map(|event| event["name"].as_str().unwrap().to_string()).collect()
        };
        assert_eq!(spans(7), ["working"]);
        assert_eq!(spans(8), ["working", "waiting for the disk"]);
        assert_eq!(spans(PHASES), ["Connecting blocks"]);
        let name = events.iter().find(|event| event["tid"] == 8).unwrap();
        assert_eq!(name["args"]["name"], "apus-work-8");
    }

    #[test]
    fn nothing_is_written_where_there_is_no_directory() {
        let dir = tempfile::tempdir().unwrap();
        let mut trace = Trace::new(dir.path().join("none").join(FILE));
        trace.look(vec![thread(7, ThreadState::Working)]).unwrap();
        assert!(!trace.finish().unwrap());
        assert!(!dir.path().join("none").exists());
    }
}
