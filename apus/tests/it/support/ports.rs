//! Ports for the servers of other programs.

use std::net::TcpListener;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;

/// Returns a local port that is free, a different one each time. It is below 32768, since the
/// system hands out those above to servers that ask for any port, such as those of other tests.
pub fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let first = 10_000 + (std::process::id() % 15_000) as u16;
    loop {
        let port = first + NEXT.fetch_add(1, Relaxed) % 7_000;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}
