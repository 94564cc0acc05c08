//! The address book as a text, one address a line: what Core has in `peers.dat` and `anchors.dat`.

use std::fmt::Write as _;
use std::net::IpAddr;

use apus_hash::{HashKey, hex};
use apus_wire::message::{Host, Services};

use super::addresses::{Addresses, Known};
use super::group::{Group, Place};

/// The first line of a file of addresses.
const FIRST_LINE: &str = "apus peers 2";
/// The first line of a file without a key, tables and sources of addresses.
const FIRST_LINE_1: &str = "apus peers 1";

impl Addresses {
    /// Returns the addresses as a text. `anchors` are the peers to connect to first when it is read
    /// again.
    pub fn to_text(&self, anchors: &[Place]) -> String {
        let mut text = format!("{FIRST_LINE}\nkey {}\n", hex(self.key.as_bytes()));
        for (host, port) in anchors {
            let _ = writeln!(text, "anchor {} {port}", host_text(host));
        }
        for ((host, port), known) in &self.known {
            let Known { services, seen, worked, failures, speed, source, is_tried, .. } = known;
            let host = host_text(host);
            let services = services.0;
            let table = if *is_tried { "tried" } else { "new" };
            let source = hex(source.as_bytes());
            let _ = writeln!(
                text,
                "{host} {port} {services:x} {seen} {worked} {failures} {speed} {table} {source}"
            );
        }
        text
    }

    /// Returns the book in a text of [`Addresses::to_text`], and its anchors. Skips damaged lines,
    /// since no address is indispensable; a text of another format counts as empty. `key` is a
    /// secret for a text that has none.
    pub fn read(text: &str, key: HashKey, now: i64) -> (Self, Vec<Place>) {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let mut anchors = Vec::new();
        if ![FIRST_LINE, FIRST_LINE_1].contains(&first) {
            return (Self::new(key), anchors);
        }
        let stored = lines.clone().find_map(|line| bytes_of_hex(line.strip_prefix("key ")?));
        let mut book = Self::new(stored.map_or(key, HashKey::new));
        for line in lines {
            let fields: Vec<&str> = line.split(' ').collect();
            match fields[..] {
                ["anchor", host, port] => anchors.extend(parse_place(host, port)),
                [host, port, ..] => {
                    let place = parse_place(host, port);
                    match place.and_then(|place| parse_known(&place, &fields[2..], now)) {
                        Some((place, known)) if known.is_tried => {
                            book.insert_tried(place, known, now);
                        }
                        Some((place, known)) => book.insert_new(place, known, now),
                        None => {}
                    }
                }
                _ => {}
            }
        }
        (book, anchors)
    }
}

fn parse_known(place: &Place, fields: &[&str], now: i64) -> Option<(Place, Known)> {
    let (five, rest) = fields.split_first_chunk::<5>()?;
    let [services, seen, worked, failures, speed] = five;
    let worked = worked.parse().ok()?;
    let (is_tried, source) = match rest {
        // The old format did not say where an address came from: each counts for its own part of
        // the network.
        [] => (worked != 0, Group::of(&place.0)),
        ["tried", source] => (true, Group::new(bytes_of_hex(source)?)),
        ["new", source] => (false, Group::new(bytes_of_hex(source)?)),
        _ => return None,
    };
    let known = Known {
        services: Services(u64::from_str_radix(services, 16).ok()?),
        // The clock may have been ahead then, or be behind now.
        seen: seen.parse::<i64>().ok()?.min(now),
        attempted: 0,
        counted: 0,
        worked,
        failures: failures.parse().ok()?,
        speed: speed.parse().ok()?,
        source,
        is_tried,
        avoid_until: 0,
    };
    Some((*place, known))
}

/// Returns the address and port with these texts.
pub fn parse_place(host: &str, port: &str) -> Option<Place> {
    Some((parse_host(host)?, port.parse().ok()?))
}

fn host_text(host: &Host) -> String {
    match host {
        Host::Ipv4(ip) => ip.to_string(),
        Host::Ipv6(ip) => ip.to_string(),
        Host::TorV3(key) => format!("tor:{}", hex(key)),
    }
}

fn parse_host(text: &str) -> Option<Host> {
    match text.strip_prefix("tor:") {
        Some(key) => bytes_of_hex(key).map(Host::TorV3),
        None => text.parse::<IpAddr>().ok().map(Host::from),
    }
}

fn bytes_of_hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = text.len() == 2 * N && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap_or(0);
    is_hex.then(|| std::array::from_fn(byte))
}
