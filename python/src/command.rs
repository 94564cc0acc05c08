//! Runs a command of the program on a thread of its own. The thread that called from Python waits
//! without the GIL, and wakes to report progress and to see whether Ctrl-C was pressed.

use std::ffi::OsString;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use apus::{Observer, Progress, Watch, run_in_process};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::exception;

/// The longest time between two looks for a signal, and the shortest between two reports.
const TICK: Duration = Duration::from_millis(100);

/// Reports of the command that have not been passed on yet.
#[derive(Default)]
struct News {
    notes: Vec<String>,
    progress: Option<Progress>,
    /// Whether the command has ended.
    has_ended: bool,
}

/// The news of a command, and a signal for its end.
#[derive(Default)]
struct Line {
    news: Mutex<News>,
    ended: Condvar,
}

/// Tells that the command has ended, also by a panic.
struct End<'a>(&'a Line);

impl Line {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a tick, or for the end of the command. Returns the news.
    fn wait(&self) -> News {
        let waits = |news: &mut News| !news.has_ended;
        let news = self.ended.wait_timeout_while(self.news(), TICK, waits);
        let mut news = news.unwrap_or_else(PoisonError::into_inner).0;
        let has_ended = news.has_ended;
        std::mem::replace(&mut *news, News { has_ended, ..News::default() })
    }
}

impl Observer for Line {
    fn observe(&self, progress: &Progress) {
        self.news().progress = Some(progress.clone());
    }

    fn note(&self, text: &str) {
        self.news().notes.push(text.to_string());
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.news().has_ended = true;
        self.0.ended.notify_all();
    }
}

/// Runs `apus` with these arguments, and returns the object of `--json`. Calls `note` with each
/// line for the user, and `report` with the progress, as keyword arguments, up to ten times a
/// second.
///
/// If a signal handler (that of Ctrl-C) or one of these functions raises an exception, the command
/// saves what is done and ends, and the exception is raised.
#[pyfunction]
pub fn run(
    py: Python<'_>,
    args: Vec<OsString>,
    note: &Bound<'_, PyAny>,
    report: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let line = Line::default();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let work = || {
            let _end = End(&line);
            run_in_process(args, Watch::new(&line, &stop))
        };
        let thread =
            thread::Builder::new().name("apus-command".into()).spawn_scoped(scope, work)?;
        let mut raised = None;
        loop {
            let news = py.detach(|| line.wait());
            let has_ended = news.has_ended;
            let told = py.check_signals().and_then(|()| tell(py, news, note, report));
            if let (Err(error), None) = (told, &raised) {
                stop.store(true, Relaxed);
                raised = Some(error);
            }
            if has_ended {
                break;
            }
        }
        let result =
            py.detach(|| thread.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match (result, raised) {
            (Ok(_) | Err(apus::SyncError::Stopped), Some(raised)) => Err(raised),
            (Err(error), raised) => {
                let error = exception(py, &error);
                error.set_cause(py, raised);
                Err(error)
            }
            (Ok(json), None) => Ok(json),
        }
    })
}

/// Passes news on to Python.
fn tell(
    py: Python<'_>,
    news: News,
    note: &Bound<'_, PyAny>,
    report: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    for text in news.notes {
        note.call1((text,))?;
    }
    let (Some(progress), Some(report)) = (news.progress, report) else { return Ok(()) };
    let fields = PyDict::new(py);
    fields.set_item("phase", progress.phase.words())?;
    fields.set_item("height", progress.height)?;
    fields.set_item("time", progress.time)?;
    fields.set_item("blocks", progress.blocks)?;
    fields.set_item("blocks_all", progress.blocks_all)?;
    fields.set_item("bytes", progress.bytes)?;
    fields.set_item("coins", progress.coins)?;
    fields.set_item("fraction", progress.fraction)?;
    let download = progress.download;
    fields.set_item("peers", download.map(|download| download.peers))?;
    fields.set_item("downloaded", download.map(|download| download.bytes))?;
    // Without stages, only the phase is known.
    let estimate = progress.estimate.filter(|estimate| estimate.is_of_run);
    let left = estimate.as_ref().and_then(|estimate| estimate.left);
    let seconds = left.map(|left| (left.low.as_secs_f64(), left.high.as_secs_f64()));
    fields.set_item("run_fraction", estimate.and_then(|estimate| estimate.share))?;
    fields.set_item("left", seconds)?;
    fields.set_item("left_words", left.map(|left| left.words()))?;
    report.call((), Some(&fields))?;
    Ok(())
}
