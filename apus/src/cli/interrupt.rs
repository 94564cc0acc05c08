//! SIGINT, SIGTERM and SIGHUP: the first one asks the work to end, the second one ends the process.
//! If there is a log file, SIGHUP opens it again instead.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::{exit, log, output, service};

/// How an interrupt ends the work.
#[derive(Clone, Copy)]
pub enum Interrupted {
    /// The work done so far is saved, and the same command continues from it.
    Saves,
    /// Nothing is written.
    WritesNothing,
}

impl Interrupted {
    /// Returns the message at the first interrupt.
    fn message(self) -> &'static str {
        match self {
            Self::Saves => {
                "saving what is done (interrupt again to end at once, without saving it)"
            }
            Self::WritesNothing => {
                "stopping, and nothing is written (interrupt again to end at once)"
            }
        }
    }
}

/// Returns a flag that the first SIGINT, SIGTERM or SIGHUP raises, with a message that says what
/// happens now; the second one ends the process at once. If there is a log file, SIGHUP opens it
/// again instead.
pub fn stop_on_signal(interrupted: Interrupted) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let hung_up = match log::reopens() {
        Some(reopens) => signal_hook::flag::register(SIGHUP, reopens).map(|_| None),
        None => Ok(Some(SIGHUP)),
    };
    let signals =
        hung_up.and_then(|hung_up| Signals::new([SIGINT, SIGTERM].iter().chain(&hung_up)));
    let mut signals = match signals {
        Ok(signals) => signals,
        Err(error) => {
            tracing::warn!("cannot handle interrupts: {error}");
            return stop;
        }
    };
    apus_host::spawn_free("apus-signals".to_string(), move || {
        // The flag may be up for another reason: the call `stop` of the server.
        let mut is_first = true;
        for _ in signals.forever() {
            flag.store(true, Ordering::SeqCst);
            if !std::mem::take(&mut is_first) {
                apus_host::remove_temporary_directories();
                std::process::exit(i32::from(exit::INTERRUPTED));
            }
            service::stopping();
            // On a terminal, the current line shows the keys pressed and the progress line.
            let below = if std::io::stderr().is_terminal() { "\n" } else { "" };
            output::note(format_args!("{below}Interrupted: {}.", interrupted.message()));
        }
    });
    stop
}
