//! Quick calls and long ones, each with threads, a queue and a share of the processor of their own,
//! so that a call of microseconds never waits behind those that read whole blocks.
//!
//! Which calls are long is measured: those of a kind that takes more than two milliseconds of the
//! processor on average, or has an answer of more than 64 KiB. All large answers that are being
//! sent share a bound; a long call keeps its thread until there is room for its answer, so that
//! clients that do not read hold up each other and no quick call.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use axum::http::Response;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::OwnedSemaphorePermit;

use super::throttle::Throttle;
use super::workers::{self, Budget, NotDone, Workers, uncharged};

/// The most processor time that a quick call takes on average.
const QUICK_MAX: Duration = Duration::from_millis(2);
/// The most bytes of the answer to a quick call on average, and of an answer for which no room is
/// asked: there are at most 512 connections.
const QUICK_BYTES_MAX: usize = 64 << 10;
/// The most bytes of all larger answers that are being sent. One above it is sent alone.
const ANSWERS_BYTES_MAX: usize = 64 << 20;
/// The share of all cores that quick calls may take while a sync works, with HTTP and JSON of all.
const QUICK_SHARE: f64 = 0.025;
/// The share of all cores that long calls may take while a sync works.
const LONG_SHARE: f64 = 0.005;
/// The weight of the last call in the average of its kind.
const WEIGHT: f64 = 0.125;
/// The most kinds that are remembered. All others are long.
const KINDS_MAX: usize = 512;
/// The most bytes of a request whose kind is looked for. Longer ones are batches or large calls.
const LOOKED_AT_MAX: usize = 4 << 10;
/// The time from one warning of a full queue to the next.
const WARNS_AGAIN: Duration = Duration::from_secs(60);

/// The two lanes, and what is known of the kinds of calls.
pub(crate) struct Lanes {
    quick: Lane,
    long: Lane,
    answers: Budget,
    kinds: Mutex<BTreeMap<String, Kind>>,
    warned: Mutex<Option<Instant>>,
}

/// What calls of one kind take on average.
struct Kind {
    /// Seconds of the processor.
    seconds: f64,
    /// Bytes of the answer.
    bytes: f64,
}

struct Lane {
    workers: Workers,
    throttle: Throttle,
}

impl Lanes {
    /// Creates lanes for `threads` calls at a time; `queue_max` more may wait in each lane.
    pub fn new(threads: usize, queue_max: usize) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let lane = |threads: usize, share| Lane {
            workers: Workers::new(threads.max(1), queue_max),
            throttle: Throttle::new(share * cores as f64),
        };
        Self {
            quick: lane(threads.div_ceil(2), QUICK_SHARE),
            long: lane(threads / 2, LONG_SHARE),
            answers: Budget::new(ANSWERS_BYTES_MAX),
            kinds: Mutex::default(),
            warned: Mutex::new(None),
        }
    }

    /// Runs `work` of this kind once a thread is free and, while `is_busy`, its lane's share of the
    /// processor allows it. Returns the answer once there is room for it.
    ///
    /// # Errors
    /// As much work waits in its lane as may wait, or `work` panics.
    pub async fn run(
        &self,
        kind: String,
        is_busy: bool,
        work: impl FnOnce() -> Response<Bytes> + Send + 'static,
    ) -> Result<Response<Bytes>, NotDone> {
        // This thread reads and writes HTTP.
        self.quick.throttle.took(uncharged());
        let mut lane = &self.quick;
        let mut thread = None;
        if !self.is_long(&kind) {
            thread = Some(self.thread(lane).await?);
        }
        // A call of the same kind may have turned out to be long in the meantime.
        if self.is_long(&kind) {
            drop(thread.take());
            lane = &self.long;
            thread = Some(self.thread(lane).await?);
        }
        if is_busy {
            lane.throttle.wait().await;
        }
        let done = workers::run(work).await?;
        lane.throttle.took(done.uncharged);
        let (head, bytes) = done.result.into_parts();
        self.note(kind, done.took, bytes.len());
        if bytes.len() <= QUICK_BYTES_MAX {
            return Ok(Response::from_parts(head, bytes));
        }
        if std::ptr::eq(lane, &self.quick) {
            thread = None;
        }
        let bytes = self.answers.hold(bytes).await;
        drop(thread);
        Ok(Response::from_parts(head, bytes))
    }

    async fn thread(&self, lane: &Lane) -> Result<OwnedSemaphorePermit, NotDone> {
        lane.workers.thread().await.inspect_err(|_| self.warn())
    }

    fn is_long(&self, kind: &str) -> bool {
        let kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        match kinds.get(kind) {
            Some(Kind { seconds, bytes }) => {
                *seconds > QUICK_MAX.as_secs_f64() || *bytes > QUICK_BYTES_MAX as f64
            }
            None => kinds.len() >= KINDS_MAX,
        }
    }

    fn note(&self, kind: String, took: Duration, bytes: usize) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if kinds.len() >= KINDS_MAX && !kinds.contains_key(&kind) {
            return;
        }
        let last = Kind { seconds: took.as_secs_f64(), bytes: bytes as f64 };
        match kinds.entry(kind) {
            Entry::Vacant(place) => drop(place.insert(last)),
            Entry::Occupied(mut kind) => {
                let Kind { seconds, bytes } = kind.get_mut();
                *seconds += WEIGHT * (last.seconds - *seconds);
                *bytes += WEIGHT * (last.bytes - *bytes);
            }
        }
    }

    fn warn(&self) {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        if warned.is_none_or(|at| at.elapsed() > WARNS_AGAIN) {
            *warned = Some(Instant::now());
            tracing::warn!(
                "requests are refused because the work queue is full: --rpcworkqueue makes it \
                 longer"
            );
        }
    }
}

/// Returns the kind of a call: its method, the action of a scan, and the second parameter if that
/// is a number, such as the verbosity of `getblock`.
pub(crate) fn kind_of_call(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Head {
        method: String,
        #[serde(default)]
        params: Value,
    }
    if body.len() > LOOKED_AT_MAX {
        return "large".into();
    }
    let Ok(Head { method, params }) = serde_json::from_slice(body) else { return "other".into() };
    if method.starts_with("scan") {
        let action = params.get(0).or_else(|| params.get("action")).and_then(Value::as_str);
        let is_start = if action == Some("start") { " start" } else { "" };
        return method + is_start;
    }
    let named = params.get("verbosity").or_else(|| params.get("verbose"));
    match params.get(1).or(named).and_then(Value::as_u64) {
        Some(number) => format!("{method} {}", number.min(3)),
        None => method,
    }
}

/// Returns the kind of a request of REST: what is asked for, and the format.
pub(crate) fn kind_of_rest(path: &str) -> String {
    let (path, format) = path.rsplit_once('.').unwrap_or((path, ""));
    let what = path.trim_start_matches("/rest/").split('/').next().unwrap_or_default();
    format!("rest/{what}.{format}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_tell_verbosities_and_formats_apart() {
        let call = |body: &str| kind_of_call(body.as_bytes());
        assert_eq!(call(r#"{"method":"getblock","params":["00",2]}"#), "getblock 2");
        assert_eq!(call(r#"{"method":"getblock","params":["00"]}"#), "getblock");
        let named = r#"{"method":"getblock","params":{"blockhash":"00","verbosity":3}}"#;
        assert_eq!(call(named), "getblock 3");
        assert_eq!(call(r#"{"method":"getblockhash","params":[0,77]}"#), "getblockhash 3");
        assert_eq!(call(r#"{"method":"scanblocks","params":["start",[]]}"#), "scanblocks start");
        assert_eq!(call(r#"{"method":"scanblocks","params":["status"]}"#), "scanblocks");
        assert_eq!(call("[]"), "other");
        assert_eq!(call(&format!("{:5000}", "{}")), "large");
        assert_eq!(kind_of_rest("/rest/block/00.json"), "rest/block.json");
        assert_eq!(kind_of_rest("/rest/chaininfo.json"), "rest/chaininfo.json");
    }

    fn answer(bytes: usize) -> Response<Bytes> {
        Response::new(vec![7; bytes].into())
    }

    #[tokio::test(start_paused = true)]
    async fn quick_calls_pass_long_ones_that_wait() {
        let lanes = Lanes::new(4, 8);
        let run = |kind: &str| lanes.run(kind.to_string(), true, || answer(0));
        lanes.note("long".into(), Duration::from_millis(100), 0);
        lanes.long.throttle.took(Duration::from_secs(3));
        let long = run("long");
        let mut long = std::pin::pin!(long);
        tokio::select! {
            biased;
            _ = &mut long => panic!("a long call did not wait"),
            quick = run("quick") => assert!(quick.is_ok()),
        }
        assert!(long.await.is_ok());
    }

    #[tokio::test]
    async fn a_full_lane_does_not_fill_the_other() {
        let lanes = Lanes::new(2, 0);
        lanes.note("long".into(), Duration::from_millis(100), 0);
        let held = lanes.long.workers.thread().await.unwrap();
        let refused = lanes.run("long".into(), false, || answer(0)).await;
        assert_eq!(refused.err(), Some(NotDone::QueueFull));
        assert!(lanes.run("quick".into(), false, || answer(0)).await.is_ok());
        drop(held);
        assert!(lanes.run("long".into(), false, || answer(0)).await.is_ok());
    }

    #[tokio::test]
    async fn answers_that_are_not_read_hold_up_large_ones_alone() {
        let lanes = Lanes::new(2, 8);
        let run = |kind: &str, bytes| lanes.run(kind.to_string(), false, move || answer(bytes));
        let unread = run("large", ANSWERS_BYTES_MAX).await.unwrap();
        assert!(lanes.is_long("large") && !lanes.is_long("small"));
        let more = run("large", ANSWERS_BYTES_MAX);
        let mut more = std::pin::pin!(more);
        tokio::select! {
            biased;
            _ = &mut more => panic!("there was no room"),
            small = run("small", QUICK_BYTES_MAX) => assert!(small.is_ok()),
        }
        // The first of a new kind that is large takes no thread of quick calls while it waits.
        let new = run("new", ANSWERS_BYTES_MAX);
        let mut new = std::pin::pin!(new);
        tokio::select! {
            biased;
            _ = &mut new => panic!("there was no room"),
            small = run("small", 0) => assert!(small.is_ok()),
        }
        drop(unread);
        // Each makes room for the other.
        let sent = tokio::join!(async { more.await.is_ok() }, async { new.await.is_ok() });
        assert_eq!(sent, (true, true));
    }

    #[tokio::test]
    async fn a_call_found_to_be_long_while_it_waits_changes_lanes() {
        let lanes = Lanes::new(2, 8);
        let [quick, long] = [&lanes.quick, &lanes.long].map(|lane| lane.workers.thread());
        let (quick, long) = (quick.await.unwrap(), long.await.unwrap());
        let run = |kind: &str| lanes.run(kind.to_string(), false, || answer(0));
        let waits = run("kind");
        let mut waits = std::pin::pin!(waits);
        tokio::select! {
            biased;
            _ = &mut waits => panic!("no thread was free"),
            () = std::future::ready(()) => lanes.note("kind".into(), Duration::from_secs(1), 0),
        }
        drop(quick);
        tokio::select! {
            biased;
            _ = &mut waits => panic!("no thread for long calls was free"),
            other = run("other") => assert!(other.is_ok()),
        }
        drop(long);
        assert!(waits.await.is_ok());
    }

    #[test]
    fn kinds_above_the_most_are_long() {
        let lanes = Lanes::new(2, 8);
        for kind in 0..=KINDS_MAX {
            lanes.note(kind.to_string(), Duration::ZERO, 0);
        }
        assert!(!lanes.is_long("0") && lanes.is_long("another"));
    }
}
