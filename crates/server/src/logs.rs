//! The categories of the log, which can be switched while the process runs.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// The categories of Core's log, in order.
const CATEGORIES: [&str; 29] = [
    "addrman",
    "bench",
    "blockstorage",
    "cmpctblock",
    "coindb",
    "estimatefee",
    "http",
    "i2p",
    "ipc",
    "kernel",
    "leveldb",
    "mempool",
    "mempoolrej",
    "net",
    "privatebroadcast",
    "proxy",
    "prune",
    "qt",
    "rand",
    "reindex",
    "rpc",
    "scan",
    "selectcoins",
    "tor",
    "txpackages",
    "txreconciliation",
    "validation",
    "walletdb",
    "zmq",
];
const ALL: u32 = (1 << CATEGORIES.len()) - 1;

/// Which categories of the log are on (Core's `BCLog::Logger`).
#[derive(Debug)]
pub struct Logs {
    /// A bit for each category.
    on: AtomicU32,
    changed: fn(),
}

impl Logs {
    /// Returns all categories, switched off. `changed` is called when one was switched.
    pub const fn new(changed: fn()) -> Self {
        Self { on: AtomicU32::new(0), changed }
    }

    /// Switches a category, or all of them if the name is `all`, `1` or empty. Returns whether it
    /// exists.
    pub fn switch(&self, name: &str, on: bool) -> bool {
        let Some(bits) = bits(name) else { return false };
        if on {
            self.on.fetch_or(bits, Relaxed)
        } else {
            self.on.fetch_and(!bits, Relaxed)
        };
        (self.changed)();
        true
    }

    /// Returns whether a category is on, or all of them if the name is `all`.
    pub fn is_on(&self, name: &str) -> bool {
        bits(name).is_some_and(|bits| self.on.load(Relaxed) & bits == bits)
    }

    /// Returns all categories, and whether each is on.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&'static str, bool)> {
        CATEGORIES.into_iter().map(|name| (name, self.is_on(name)))
    }
}

/// Returns the bits of a category (Core's `GetLogCategory`).
fn bits(name: &str) -> Option<u32> {
    match name {
        "" | "1" | "all" => Some(ALL),
        // It no longer means anything.
        "libevent" => Some(0),
        name => CATEGORIES.iter().position(|known| *known == name).map(|at| 1 << at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn categories_are_switched() {
        let logs = Logs::new(|| ());
        assert!(logs.switch("net", true) && logs.is_on("net") && !logs.is_on("all"));
        assert!(logs.switch("all", true) && logs.is_on("zmq") && logs.is_on("all"));
        assert!(logs.switch("net", false) && !logs.is_on("net") && logs.is_on("rpc"));
        assert!(!logs.switch("none", false) && !logs.is_on("none"));
        assert!(logs.list().filter(|(_, on)| !on).eq([("net", false)]));
    }
}
