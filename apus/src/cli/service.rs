//! What systemd is told about this process, if it started it (`sd_notify`): that the work has
//! begun, how far it is, that it goes on, and that it is about to end.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use apus_progress::Adding;
use apus_progress::{Estimate, Observer, Progress};
use sd_notify::NotifyState;

/// Time from one status to the next. systemd's watchdog hears as often that the work goes on.
const TELL_EVERY: Duration = Duration::from_secs(5);

/// Tells systemd that the work has begun.
pub fn ready() {
    tell(&[NotifyState::Ready]);
}

/// Tells systemd that the process is about to end.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Tells systemd that another program goes on in this process, from which it will hear nothing.
pub fn handing_over() {
    tell(&[NotifyState::WatchdogUsec(0), NotifyState::Status("synced, and handed over")]);
}

/// Returns an observer that tells systemd about the progress, and passes everything to `inner`.
pub fn observer<'a>(inner: &'a dyn Observer) -> impl Observer + 'a {
    let told = Mutex::new(None::<Instant>);
    Adding::new(inner, move |progress| {
        if let Ok(mut told) = told.try_lock()
            && told.is_none_or(|told| told.elapsed() >= TELL_EVERY)
        {
            *told = Some(Instant::now());
            tell(&[NotifyState::Watchdog, NotifyState::Status(&status(progress))]);
        }
    })
}

fn tell(states: &[NotifyState]) {
    // Without systemd this does nothing.
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("systemd cannot be told: {error}");
    }
}

/// Returns the progress in a few words.
fn status(progress: &Progress) -> String {
    let Progress { phase, height, estimate, .. } = progress;
    let estimate = estimate.as_ref();
    let done = estimate.and_then(Estimate::of_run).map_or_else(String::new, |share| {
        let left = estimate.and_then(|estimate| estimate.left);
        let left = left.map_or_else(String::new, |left| format!("{} left, ", left.words()));
        format!("{:.1} %, {left}", 100.0 * share)
    });
    let height = if *height > 0 { format!(": height {height}") } else { String::new() };
    format!("{done}{}{height}", phase.words())
}
