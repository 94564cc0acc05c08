//! The page's updates as server-sent events: the parts that have changed, at most once a second.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::sections::{PARTS, Sections};
use super::state::PageState;

/// Time between two updates.
const EVERY: Duration = Duration::from_secs(1);
/// A page that was made this long ago is made anew.
const STALE: Duration = Duration::from_millis(900);
/// An update without content is sent after as many seconds without one: the script takes a longer
/// silence for a lost connection.
const SILENT_MAX: u32 = 5;
/// The most browsers that are kept up to date.
const STREAMS_MAX: usize = 64;
/// After this time a browser connects again.
const RETRY: Duration = Duration::from_secs(2);

/// The page of a running program, made at most once a second for all who look at it.
pub struct Page {
    gather: Box<dyn Fn() -> PageState + Send + Sync>,
    made: Mutex<Option<(Instant, Arc<Sections>)>>,
    seats: Arc<Semaphore>,
    stopped: watch::Receiver<bool>,
}

impl Page {
    /// Creates the page of what `gather` returns. Once `stopped` is true or has no sender, each
    /// stream of updates ends with a last one.
    pub fn new(
        gather: impl Fn() -> PageState + Send + Sync + 'static,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let seats = Arc::new(Semaphore::new(STREAMS_MAX));
        Self { gather: Box::new(gather), made: Mutex::default(), seats, stopped }
    }

    /// Returns the page as it is now: at most 0.9 s old, or made at once if `is_last`.
    fn sections(&self, is_last: bool) -> Arc<Sections> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, sections)) = &*made
            && !is_last
            && at.elapsed() < STALE
        {
            return Arc::clone(sections);
        }
        let sections = Arc::new(Sections::of(&(self.gather)()));
        *made = Some((Instant::now(), Arc::clone(&sections)));
        sections
    }
}

/// Returns the page as it is now; the error is the status for a page that cannot be made.
pub async fn sections(page: &Arc<Page>, is_last: bool) -> Result<Arc<Sections>, StatusCode> {
    // Gathering waits for locks, for which the runtime's own threads are not.
    let page = Arc::clone(page);
    let sections = tokio::task::spawn_blocking(move || page.sections(is_last)).await;
    sections.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}

/// Answers with a stream of updates, of which the first has every part.
pub fn updates(page: &Arc<Page>) -> Response {
    let Ok(seat) = Arc::clone(&page.seats).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many browsers").into_response();
    };
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let viewer = Viewer {
        page: Arc::clone(page),
        stopped: page.stopped.clone(),
        ticks,
        sent: None,
        silent: 0,
        is_last: false,
        _seat: seat,
    };
    let mut response = Sse::new(stream::unfold(viewer, Viewer::next)).into_response();
    super::answers::protect(response.headers_mut());
    response
}

/// A browser that is kept up to date.
struct Viewer {
    page: Arc<Page>,
    stopped: watch::Receiver<bool>,
    ticks: Interval,
    /// The page that it has.
    sent: Option<Arc<Sections>>,
    /// Seconds since the last update.
    silent: u32,
    /// Whether the last update is sent.
    is_last: bool,
    _seat: OwnedSemaphorePermit,
}

impl Viewer {
    /// Waits for the next update, and returns it; `None` after the last one.
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        while !self.is_last {
            tokio::select! {
                _ = self.ticks.tick() => {}
                _ = self.stopped.wait_for(|stopped| *stopped) => self.is_last = true,
            }
            let sections = sections(&self.page, self.is_last).await.ok()?;
            let update = Update::between(self.sent.as_deref(), &sections);
            self.silent += 1;
            if update.is_empty() && self.silent < SILENT_MAX {
                continue;
            }
            let mut event = Event::default().data(serde_json::to_string(&update).ok()?);
            if self.sent.is_none() {
                event = event.retry(RETRY);
            }
            (self.sent, self.silent) = (Some(sections), 0);
            return Some((Ok(event), self));
        }
        None
    }
}

/// The changes between two pages.
#[derive(Serialize, PartialEq, Debug, Default)]
struct Update<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    said: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parts: BTreeMap<&'static str, &'a str>,
}

impl<'a> Update<'a> {
    /// Returns what a browser with the page `old` lacks of `new`; everything without `old`.
    fn between(old: Option<&Sections>, new: &'a Sections) -> Self {
        let differs = |of: fn(&Sections) -> &str| old.is_none_or(|old| of(old) != of(new));
        let parts = PARTS.into_iter().zip(&new.parts).enumerate();
        let parts = parts.filter(|(at, (_, part))| old.is_none_or(|old| old.parts[*at] != **part));
        Self {
            title: differs(|page| &page.title).then_some(new.title.as_str()),
            stage: differs(|page| page.stage).then_some(new.stage),
            said: differs(|page| &page.said).then_some(new.said.as_str()),
            parts: parts.map(|(_, (name, part))| (name, part.as_str())).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(title: &str, log: &str) -> Sections {
        let mut sections = Sections { title: title.to_string(), ..Sections::default() };
        sections.parts[PARTS.len() - 1] = log.to_string();
        sections
    }

    #[test]
    fn an_update_holds_only_what_has_changed() {
        let json = |old: &Sections, new: &Sections| {
            serde_json::to_string(&Update::between(Some(old), new)).unwrap()
        };
        let old = sections("1 %", "a");
        assert_eq!(json(&old, &old), "{}");
        assert_eq!(json(&old, &sections("2 %", "a")), r#"{"title":"2 %"}"#);
        assert_eq!(json(&old, &sections("1 %", "b")), r#"{"parts":{"log":"b"}}"#);
        assert_eq!(Update::between(None, &old).parts.len(), PARTS.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_ends_with_a_last_update() {
        let (stop, stopped) = watch::channel(false);
        let page = Arc::new(Page::new(PageState::default, stopped));
        let answer = updates(&page);
        assert_eq!(page.seats.available_permits(), STREAMS_MAX - 1);
        stop.send(true).unwrap();
        let body = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        let text = String::from_utf8(body.to_vec()).unwrap();
        assert!(text.contains("Opening the directory"), "{text}");
        assert_eq!(page.seats.available_permits(), STREAMS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn only_so_many_browsers_are_served() {
        let (_stop, stopped) = watch::channel(false);
        let page = Arc::new(Page::new(PageState::default, stopped));
        let answers: Vec<Response> = (0..STREAMS_MAX).map(|_| updates(&page)).collect();
        assert!(answers.iter().all(|answer| answer.status() == StatusCode::OK));
        assert_eq!(updates(&page).status(), StatusCode::SERVICE_UNAVAILABLE);
        drop(answers);
        assert_eq!(updates(&page).status(), StatusCode::OK);
    }
}
