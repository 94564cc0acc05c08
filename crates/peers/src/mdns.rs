//! The daemon of multicast DNS, and a bound on what others can make it remember.
//!
//! Any host on the local network may send records of any names, which the daemon keeps until they
//! expire, when the sender likes. It has no bound of its own, so its users must end it.

use std::time::{Duration, Instant};

use if_addrs::Interface;
use mdns_sd::{Error, IfKind, IfPredicate, Metrics, Receiver, ServiceDaemon, TryRecvError};

/// The most records that are kept: a local network has some for each device, of at most 9 KB each.
const RECORDS_MAX: i64 = 4_096;
/// The names of the numbers of records in the daemon's metrics begin with this.
const RECORDS: &str = "cached-";
/// Time from one look at these numbers to the next.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The thread that sends and receives. It ends when this is dropped.
pub(super) struct Daemon {
    pub service: ServiceDaemon,
    /// The most records that are kept.
    records_max: i64,
    looked: Instant,
    asked: Option<Receiver<Metrics>>,
}

impl Daemon {
    /// Starts the thread, on those interfaces alone that `is_usable` allows.
    pub fn start(is_usable: fn(&Interface) -> bool) -> Result<Self, Error> {
        let service = ServiceDaemon::new()?;
        let looked = Instant::now();
        let daemon = Self { service, records_max: RECORDS_MAX, looked, asked: None };
        let others = IfPredicate::new(move |interface| !is_usable(interface));
        daemon.service.disable_interface(IfKind::Predicate(others))?;
        Ok(daemon)
    }

    /// Returns whether it was found to remember too much, so that it must be dropped. It must be
    /// called often.
    pub fn is_too_full(&mut self) -> bool {
        match self.asked.take().map(|asked| (asked.try_recv(), asked)) {
            Some((Ok(metrics), _)) => records(&metrics) > self.records_max,
            Some((Err(TryRecvError::Empty), asked)) => {
                self.asked = Some(asked);
                false
            }
            _ => {
                if self.looked.elapsed() >= LOOK_EVERY {
                    self.looked = Instant::now();
                    self.asked = self.service.get_metrics().ok();
                }
                false
            }
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // If it has ended already, there is nothing to do.
        let _ = self.service.shutdown();
    }
}

/// Returns the number of records that the daemon keeps.
fn records(metrics: &Metrics) -> i64 {
    let kept = metrics.iter().filter(|(name, _)| name.starts_with(RECORDS));
    kept.map(|(_, count)| *count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_all_kinds_are_counted() {
        let metrics = [("cached-srv", 7), ("cached-address", 30), ("browse", 1000), ("timer", 90)];
        let metrics = metrics.map(|(name, count)| (name.to_string(), count));
        assert_eq!(records(&metrics.into()), 37);
    }

    #[test]
    fn a_daemon_that_keeps_too_much_is_found_out() {
        let mut daemon = Daemon::start(|_| false).unwrap();
        let may_look = Instant::now() - LOOK_EVERY;
        for (records_max, is_too_full) in [(RECORDS_MAX, false), (-1, true)] {
            (daemon.records_max, daemon.looked) = (records_max, may_look);
            assert!(!daemon.is_too_full(), "it is asked first");
            // The answer is here before it is looked at.
            while daemon.asked.as_ref().is_some_and(Receiver::is_empty) {
                std::thread::yield_now();
            }
            daemon.looked = Instant::now();
            assert_eq!(daemon.is_too_full(), is_too_full);
        }
    }

    /// The names of the numbers are not documented: a daemon must have them.
    #[test]
    fn a_daemon_counts_its_records() {
        let daemon = Daemon::start(|_| false).unwrap();
        let metrics = daemon.service.get_metrics().unwrap().recv().unwrap();
        let names: Vec<&String> = metrics.keys().filter(|name| name.starts_with(RECORDS)).collect();
        assert!(names.len() >= 4, "{metrics:?}");
    }
}
