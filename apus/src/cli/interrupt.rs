//! SIGINT, SIGTERM and SIGHUP: the first one asks the work to end, the second one ends the process.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::exit;
use super::output;

/// What becomes of the work when it is interrupted.
#[derive(Clone, Copy)]
pub enum Interrupted {
    /// What is done is saved, and the same command carries on from it.
    Saves,
    /// Nothing is written.
    WritesNothing,
}

impl Interrupted {
    /// The message at the first interrupt.
    fn message(self) -> &'static str {
        match self {
            Self::Saves => "saving what is done (once more ends at once, losing only that)",
            Self::WritesNothing => "stopping, and nothing is written (once more ends at once)",
        }
    }
}

/// A flag that the first SIGINT, SIGTERM or SIGHUP raises, with a message that says what happens
/// now; the second one ends the process at once.
pub fn stop_on_signal(interrupted: Interrupted) -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let handler = move || {
        if flag.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(exit::INTERRUPTED));
        }
        // On a terminal the keys pressed and the progress line stand in the current line.
        let below = if std::io::stderr().is_terminal() { "\n" } else { "" };
        output::note(format_args!("{below}Interrupted: {}.", interrupted.message()));
    };
    if let Err(error) = ctrlc::set_handler(handler) {
        tracing::warn!("cannot handle interrupts: {error}");
    }
    stop
}
