//! The log file, debug.log in the network's directory, written as Bitcoin Core writes it: lines are
//! appended, each with its time, and SIGHUP opens the file again, for rotation. A failed write
//! never ends a run.
//!
//! The file is created when the first line is written and the directory exists, so that a refused
//! command creates nothing.

use std::fmt::{self, Display, Write as _};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, LazyLock, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use apus_progress::Tip;
use apus_server::{Live, Logs};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::log_limit::Limits;
use super::numbers::time_stamp;
use super::output;

/// The longest time that lines wait in memory while others follow.
const WRITE_EVERY: Duration = Duration::from_millis(100);
/// The most bytes of lines that wait in memory.
const BUFFER_BYTES: usize = 64 << 10;

/// The log file of this process.
static LOG: OnceLock<Log> = OnceLock::new();

/// The categories that are logged.
static CATEGORIES: LazyLock<Arc<Logs>> =
    LazyLock::new(|| Arc::new(Logs::new(tracing::callsite::rebuild_interest_cache)));

/// The lines that each place in the code may still log.
static LIMITS: LazyLock<Mutex<Limits>> = LazyLock::new(Mutex::default);

/// Receives the warnings, besides standard error.
static HEARD: Mutex<Option<Weak<Live>>> = Mutex::new(None);

/// Shows warnings from now on to those who look at `live`, too.
pub fn show_to(live: &Arc<Live>) {
    *HEARD.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(live));
}

/// Returns the categories that are logged.
pub fn categories() -> &'static Arc<Logs> {
    &CATEGORIES
}

/// Returns whether an event is logged: warnings always, others if their category is on. All
/// categories must be on for those that have none.
pub fn is_wanted(event: &Metadata<'_>) -> bool {
    let is_on = || CATEGORIES.is_on(event.target()) || CATEGORIES.is_on("all");
    *event.level() <= Level::WARN || *event.level() <= Level::DEBUG && is_on()
}

/// Starts the log of this process in the file `path`, with the lines of `header` first. Only the
/// first call has an effect.
///
/// # Errors
/// The file exists and cannot be written.
pub fn begin(path: PathBuf, header: String) -> io::Result<()> {
    if path.exists() {
        open(&path)?;
    }
    let state = LogState {
        file: None,
        has_failed: false,
        waiting: Vec::new(),
        written: Instant::now(),
        header: Some(header),
    };
    let _ = LOG.set(Log { path, state: Mutex::new(state), reopens: Arc::default() });
    Ok(())
}

fn open(path: &Path) -> io::Result<File> {
    File::options().append(true).create(true).open(path)
}

/// Returns whether this run has a log file.
pub fn is_on() -> bool {
    LOG.get().is_some()
}

/// Returns where the log file is; `None` if this run has none.
pub fn path() -> Option<PathBuf> {
    LOG.get().map(|log| log.path.clone())
}

/// Returns a flag that, once raised, makes the next write open the log file again; `None` if there
/// is no log file.
pub fn reopens() -> Option<Arc<AtomicBool>> {
    LOG.get().map(|log| Arc::clone(&log.reopens))
}

/// Logs a line, with the current time.
pub fn line(text: impl Display) {
    if let Some(log) = LOG.get() {
        log.line(&text);
    }
}

/// Logs the last line of a run, unless nothing was logged before it, and writes all waiting lines.
pub fn last_line(text: impl Display) {
    let Some(log) = LOG.get() else { return };
    let has_begun = log.state().header.is_none();
    if has_begun {
        log.line(&text);
    }
    log.state().write(log, true);
}

/// Writes the waiting lines if they have waited long enough.
pub fn write_if_due() {
    if let Some(log) = LOG.get()
        && let Ok(mut state) = log.state.try_lock()
    {
        state.write(log, false);
    }
}

/// Logs a new tip in Core's words.
pub fn tip(tip: &Tip) {
    line(format_args!(
        "UpdateTip: new best={} height={} version=0x{:08x} log2_work={:.6} tx={} date='{}' \
         progress={:.6} cache={:.1}MiB({}txo)",
        tip.hash,
        tip.height,
        tip.version,
        tip.log2_work,
        tip.transactions,
        time_stamp(tip.time.into()),
        tip.progress,
        tip.cache_bytes as f64 / f64::from(1 << 20),
        tip.cache_coins,
    ));
}

struct Log {
    path: PathBuf,
    state: Mutex<LogState>,
    /// Whether the next write opens the file again.
    reopens: Arc<AtomicBool>,
}

struct LogState {
    file: Option<File>,
    /// Whether a write has failed; nothing is written until the file is opened again.
    has_failed: bool,
    waiting: Vec<u8>,
    written: Instant,
    /// The first lines of the log; `None` once they are logged.
    header: Option<String>,
}

impl Log {
    fn line(&self, text: &dyn Display) {
        let mut state = self.state();
        let time = time_stamp(output::now());
        for header in state.header.take().iter().flat_map(|header| header.lines()) {
            state.add(&time, &header);
        }
        state.add(&time, text);
        state.write(self, false);
    }

    fn state(&self) -> std::sync::MutexGuard<'_, LogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LogState {
    fn add(&mut self, time: &str, text: &dyn Display) {
        // Lines that cannot be written must not fill the memory.
        if self.waiting.len() < 2 * BUFFER_BYTES {
            let _ = writeln!(self.waiting, "{time} {}", output::escaped(text));
        }
    }

    /// Writes the waiting lines if there are many or they have waited long, or in any case if
    /// `all`.
    fn write(&mut self, log: &Log, all: bool) {
        let reopens = log.reopens.load(Relaxed);
        let is_due = self.waiting.len() >= BUFFER_BYTES || self.written.elapsed() >= WRITE_EVERY;
        if !(all || reopens || is_due) {
            return;
        }
        self.written = Instant::now();
        // Waiting lines belong to the old file, so they are written before it is opened again.
        let result = self.write_to(&log.path);
        if reopens {
            log.reopens.store(false, Relaxed);
            (self.file, self.has_failed) = (None, false);
        }
        if let Err(error) = result {
            self.waiting.clear();
            self.has_failed = !reopens;
            output::note(format_args!(
                "Warning: cannot write the log file {}, so the run continues without it until \
                 SIGHUP: {error}",
                log.path.display()
            ));
        }
    }

    fn write_to(&mut self, path: &Path) -> io::Result<()> {
        if self.waiting.is_empty() || self.has_failed {
            self.waiting.clear();
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            // The directory is made after the run has begun.
            None if path.parent().is_some_and(|dir| !dir.is_dir()) => return Ok(()),
            none => none.insert(open(path)?),
        };
        file.write_all(&self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

/// Shows warnings on standard error, on the page and in the log file, and writes the events of
/// `--debug` to the log file, in Core's form.
pub struct Lines;

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let text = Fields::of(event);
        if *metadata.level() > Level::WARN {
            // The target of an event without a category is the path of a module.
            return match metadata.target() {
                path if path.contains("::") => line(text),
                category => line(format_args!("[{category}] {text}")),
            };
        }
        let place = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
        let lines = LIMITS.lock().unwrap_or_else(PoisonError::into_inner).take(
            place,
            &text,
            Instant::now(),
        );
        lines.iter().for_each(|text| warn(text));
    }
}

fn warn(text: &str) {
    let warning = format!("Warning: {text}");
    let heard = HEARD.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(live) = heard.as_ref().and_then(Weak::upgrade) {
        live.say(&warning);
    }
    output::note(warning);
    line(format_args!("[warning] {text}"));
}

/// The text of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: String,
}

impl Fields {
    /// Returns the message, followed by the other fields.
    fn of(event: &Event<'_>) -> String {
        let mut fields = Self::default();
        event.record(&mut fields);
        fields.message + &fields.others
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.others, " {name}={value:?}"),
        };
    }
}
