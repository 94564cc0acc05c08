//! Quick calls and long ones, each with threads, a queue and a share of the processor of their own,
//! so that a call of microseconds never waits behind those that read whole blocks.
//!
//! Which calls are long is measured: those of a kind that takes more than two milliseconds of the
//! processor on average.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::Value;

use super::throttle::Throttle;
use super::workers::{Done, NotDone, Workers, uncharged};

/// The most processor time that a quick call takes on average.
const QUICK_MAX: Duration = Duration::from_millis(2);
/// The share of all cores that quick calls may take while a sync works, with HTTP and JSON of all.
const QUICK_SHARE: f64 = 0.025;
/// The share of all cores that long calls may take while a sync works.
const LONG_SHARE: f64 = 0.005;
/// The weight of the last call in the average of its kind.
const WEIGHT: f64 = 0.125;
/// The most kinds that are remembered.
const KINDS_MAX: usize = 512;
/// The most bytes of a request whose kind is looked for. Longer ones are batches or large calls.
const LOOKED_AT_MAX: usize = 4 << 10;
/// The time from one warning of a full queue to the next.
const WARNS_AGAIN: Duration = Duration::from_secs(60);

/// The two lanes, and what is known of the kinds of calls.
pub(crate) struct Lanes {
    quick: Lane,
    long: Lane,
    /// Processor seconds of each kind, on average.
    seconds: Mutex<BTreeMap<String, f64>>,
    warned: Mutex<Option<Instant>>,
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
            seconds: Mutex::default(),
            warned: Mutex::new(None),
        }
    }

    /// Runs `work` of this kind once a thread is free and, while `is_busy`, its lane's share of the
    /// processor allows it.
    ///
    /// # Errors
    /// As much work waits in its lane as may wait, or `work` panics.
    pub async fn run<T: Send + 'static>(
        &self,
        kind: String,
        is_busy: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<Done<T>, NotDone> {
        // This thread reads and writes HTTP.
        self.quick.throttle.took(uncharged());
        let lane = if self.is_long(&kind) { &self.long } else { &self.quick };
        let ready = async {
            if is_busy {
                lane.throttle.wait().await;
            }
        };
        let done = lane.workers.run(ready, work).await;
        match &done {
            Ok(done) => {
                lane.throttle.took(done.uncharged);
                self.note(kind, done.took);
            }
            Err(NotDone::QueueFull) => self.warn(),
            Err(NotDone::Panicked) => {}
        }
        done
    }

    fn is_long(&self, kind: &str) -> bool {
        let seconds = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        seconds.get(kind).is_some_and(|seconds| *seconds > QUICK_MAX.as_secs_f64())
    }

    fn note(&self, kind: String, took: Duration) {
        let mut all = self.seconds.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= KINDS_MAX && !all.contains_key(&kind) {
            return;
        }
        let took = took.as_secs_f64();
        let seconds = all.entry(kind).or_insert(took);
        *seconds += WEIGHT * (took - *seconds);
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

/// Returns the kind of a call: its method, and the second parameter if that is a number, such as
/// the verbosity of `getblock`.
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
        assert_eq!(call("[]"), "other");
        assert_eq!(call(&format!("{:5000}", "{}")), "large");
        assert_eq!(kind_of_rest("/rest/block/00.json"), "rest/block.json");
        assert_eq!(kind_of_rest("/rest/chaininfo.json"), "rest/chaininfo.json");
    }

    #[tokio::test(start_paused = true)]
    async fn quick_calls_pass_long_ones_that_wait() {
        let lanes = Lanes::new(4, 8);
        let run = |kind: &str| lanes.run(kind.to_string(), true, || ());
        lanes.note("long".into(), Duration::from_millis(100));
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
        lanes.note("long".into(), Duration::from_millis(100));
        let held = lanes.run("long".into(), false, || ()).await.unwrap();
        let refused = lanes.run("long".into(), false, || ()).await;
        assert_eq!(refused.err(), Some(NotDone::QueueFull));
        assert!(lanes.run("quick".into(), false, || ()).await.is_ok());
        drop(held);
        assert!(lanes.run("long".into(), false, || ()).await.is_ok());
    }
}
