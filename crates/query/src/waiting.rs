//! Calls that wait hold no thread: they end, and are made again when there may be news.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use apus_hash::Hash;

use super::error::RpcError;

/// A call that may have to wait: since when, and for how long before it is made again.
pub struct Waiting {
    began: Instant,
    /// Whether the call is made again at all.
    may_wait: bool,
    /// The tip at the first try.
    tip: OnceLock<Hash>,
    again: Mutex<Option<Duration>>,
}

impl Waiting {
    /// Returns the state of a call that begins now, and is made again if it asks for it.
    pub fn new() -> Self {
        let tip = OnceLock::new();
        let again = Mutex::default();
        Self { began: Instant::now(), may_wait: true, tip, again }
    }

    /// Returns the state of a call that is answered at once.
    pub fn never() -> Self {
        Self { may_wait: false, ..Self::new() }
    }

    /// Returns the time since the first try.
    pub fn since(&self) -> Duration {
        self.began.elapsed()
    }

    /// Asks for another try, as soon as the tip changes and after `patience` at the latest. Returns
    /// the error with which this one ends, which nobody sees; `None` if the call does not wait.
    pub fn again(&self, patience: Duration) -> Option<RpcError> {
        self.may_wait.then(|| {
            *self.again.lock().unwrap_or_else(PoisonError::into_inner) = Some(patience);
            RpcError::stopped()
        })
    }

    /// Returns after which time the call is to be made again; `None` if it is answered.
    pub fn take(&self) -> Option<Duration> {
        self.again.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns the tip at the first try, which is the `present` one if this is the first.
    pub(super) fn first_tip(&self, present: Hash) -> Hash {
        *self.tip.get_or_init(|| present)
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Self::new()
    }
}
