//! The part of the final report that is about peers.

use std::cmp::Reverse;

use apus_peers::PeerReport;

use super::numbers::thousands;

/// The most lines of the table, with its heading and the line that counts the others.
const LINES_MAX: usize = 20;
/// The most characters of a peer's program and of the reason for its end that are shown.
const TEXT_MAX: usize = 100;

/// Returns a table of what each peer sent, how fast, and why its connection ended; those that sent
/// most come first, and those beyond 20 lines are only counted. Returns nothing without peers.
pub fn peers(peers: &[PeerReport]) -> String {
    let mut sorted: Vec<&PeerReport> = peers.iter().collect();
    sorted.sort_by_key(|peer| Reverse(peer.bytes));
    let shown = match sorted.len() {
        0 => return String::new(),
        count if count < LINES_MAX => count,
        _ => LINES_MAX - 2,
    };
    let (shown, others) = sorted.split_at(shown);
    let mut table = "        MB    MB/s   blocks  peer\n".to_string();
    table.extend(shown.iter().map(|peer| line(peer)));
    if !others.is_empty() {
        let bytes: u64 = others.iter().map(|peer| peer.bytes).sum();
        let ended = others.iter().filter(|peer| peer.ended.is_some()).count();
        table += &format!(
            "and {} others, which sent {:.1} MB; {} of their connections ended\n",
            others.len(),
            bytes as f64 / 1e6,
            thousands(ended as u64)
        );
    }
    table
}

fn line(peer: &PeerReport) -> String {
    let speed = peer.speed.map_or_else(|| "-".to_string(), |it| format!("{:.1}", it as f64 / 1e6));
    let inbound = if peer.inbound { ", inbound" } else { "" };
    let ended = peer.ended.as_ref().map_or_else(String::new, |why| format!("; ended: {why}"));
    let program = if peer.user_agent.is_empty() { "unknown" } else { &peer.user_agent };
    format!(
        "{:>10.1} {speed:>7} {:>8}  {} ({}, {}{inbound}){}\n",
        peer.bytes as f64 / 1e6,
        thousands(peer.blocks),
        peer.address,
        short(program),
        peer.transport,
        short(&ended),
    )
}

/// Returns the beginning of a text, which a peer may have made long.
fn short(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        None => text.to_string(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u64, ended: Option<&str>) -> PeerReport {
        PeerReport {
            address: format!("192.0.2.{number}:8333"),
            user_agent: "/Satoshi:31.0.0/".to_string(),
            transport: "v2",
            inbound: false,
            blocks: number * 1_000,
            bytes: number * 1_234_567,
            speed: (number > 1).then_some(number * 100_000),
            ended: ended.map(ToString::to_string),
        }
    }

    #[test]
    fn each_peer_has_a_line_and_those_that_sent_most_come_first() {
        let silent = "it sends nothing of the blocks that it was asked for";
        let inbound = PeerReport { inbound: true, user_agent: String::new(), ..peer(1, None) };
        assert_eq!(
            peers(&[inbound, peer(90, None), peer(2, Some(silent))]),
            "        MB    MB/s   blocks  peer\n     \
             111.1     9.0   90,000  192.0.2.90:8333 (/Satoshi:31.0.0/, v2)\n       \
             2.5     0.2    2,000  192.0.2.2:8333 (/Satoshi:31.0.0/, v2); ended: it sends nothing \
             of the blocks that it was asked for\n       \
             1.2       -    1,000  192.0.2.1:8333 (unknown, v2, inbound)\n"
        );
        assert_eq!(peers(&[]), "");
    }

    #[test]
    fn many_peers_take_twenty_lines() {
        let of = |count: u64| -> Vec<PeerReport> {
            (1..=count).map(|number| peer(number, Some("it closed the connection"))).collect()
        };
        for count in [19, 20, 200] {
            let table = peers(&of(count));
            assert_eq!(table.lines().count(), 20, "{count}");
            assert_eq!(table.contains(" others"), count > 19, "{table}");
        }
        let table = peers(&of(20));
        let last = table.lines().last().unwrap();
        assert_eq!(last, "and 2 others, which sent 3.7 MB; 2 of their connections ended");
    }

    #[test]
    fn a_long_text_of_a_peer_is_cut() {
        let user_agent = "ä".repeat(300);
        let table = peers(&[PeerReport { user_agent, ..peer(1, None) }]);
        assert!(table.chars().count() < 220, "{table}");
    }
}
