//! The page in every stage: what it must hold, and examples for `scripts/page.py`.

use std::sync::Arc;
use std::time::Duration;

use apus_progress::{Bottleneck, Left, PeerInfo, Phase};

use super::document::document;
use super::sections::{PARTS, Sections};
use super::state::{
    Cache, Chain, Coins, Column, Disk, KINDS, Memory, PageState, Run, Speed, Stage, Tip,
};
use crate::live::Line;

/// The time of the examples, in seconds since 1970.
const NOW: i64 = 1_795_000_000;
const HEADERS: u32 = 972_310;
const GENESIS_TIME: i64 = 1_231_006_505;

/// About how many bytes a block of mainnet has from each height on.
const BYTES: [(f64, f64); 13] = [
    (0.0, 300.0),
    (120_000.0, 8_000.0),
    (180_000.0, 40_000.0),
    (230_000.0, 150_000.0),
    (300_000.0, 260_000.0),
    (350_000.0, 430_000.0),
    (400_000.0, 780_000.0),
    (450_000.0, 960_000.0),
    (550_000.0, 900_000.0),
    (600_000.0, 1_120_000.0),
    (760_000.0, 1_300_000.0),
    (790_000.0, 1_750_000.0),
    (1_000_000.0, 1_600_000.0),
];

fn bytes_at(height: f64) -> f64 {
    let next = BYTES.iter().position(|(from, _)| *from > height).unwrap_or(BYTES.len() - 1);
    let (low, small) = BYTES[next - 1];
    let (high, large) = BYTES[next];
    let wave = 1.0 + 0.09 * (height / 9_000.0).sin() + 0.06 * (height / 2_300.0).cos();
    (small + (large - small) * (height - low) / (high - low)) * wave
}

/// Returns mainnet's picture; `kinds` says what part of the blocks at a height are of each kind.
fn mainnet(kinds: impl Fn(f64) -> [f64; KINDS]) -> Arc<Chain> {
    let column = |from: f64, to: f64| {
        let blocks = to - from;
        let middle = (from + to) / 2.0;
        let blocks_of = kinds(middle).map(|share| (share * blocks).round() as u32);
        Column { blocks: blocks_of, bytes: (bytes_at(middle) * blocks) as u64 }
    };
    let columns = |edge: &dyn Fn(f64) -> f64| -> Vec<Column> {
        let edge = |at: usize| edge(at as f64 / 400.0) * f64::from(HEADERS);
        (0..400).map(|at| column(edge(at), edge(at + 1))).collect()
    };
    // The first blocks took longer than ten minutes each, the others a little less.
    let by_time = columns(&|share| share.powf(0.97));
    let by_height = columns(&|share| share);
    Arc::new(Chain { by_height, by_time, times: (GENESIS_TIME, NOW - 240), height: HEADERS })
}

fn lines(texts: &[&str]) -> Vec<Line> {
    let line = |(at, text): (usize, &&str)| Line {
        time: NOW - 30 * (texts.len() - at) as i64,
        warns: text.starts_with("Peer"),
        text: (*text).to_string(),
    };
    texts.iter().enumerate().map(line).collect()
}

fn some_peers() -> Arc<[PeerInfo]> {
    let peer = |(address, agent, blocks, speed): (&str, &str, u64, u64)| PeerInfo {
        address: address.to_string(),
        user_agent: agent.to_string(),
        transport: if speed == 1_270_000 { "v1" } else { "v2" },
        block_bytes: blocks * 1_340_000,
        blocks,
        speed: Some(speed).filter(|speed| *speed > 0),
        ..PeerInfo::default()
    };
    [
        ("203.0.113.7:8333", "/Satoshi:30.0.0/", 18_201, 4_830_000),
        ("[2001:db8:12:4::8]:8333", "/Satoshi:29.1.0/Knots:20250903/", 9_774, 3_110_000),
        ("198.51.100.22:8333", "/Satoshi:31.0.0/", 7_350, 2_640_000),
        ("192.0.2.144:8333", "/btcwire:0.5.0/btcd:0.24.2/", 2_012, 1_270_000),
        ("expyuzz4wqqyqhjn6hj.onion:8333", "/Satoshi:28.0.0/", 633, 310_000),
        ("198.51.100.9:8333", "/Satoshi:27.1.0/", 0, 0),
    ]
    .map(peer)
    .into()
}

fn base() -> PageState {
    PageState {
        version: "0.1.0".to_string(),
        network: "main",
        network_options: String::new(),
        datadir: "/home/ann/.bitcoin".to_string(),
        now: NOW,
        started: NOW - 2 * 3600 - 900,
        headers: HEADERS,
        ..PageState::default()
    }
}

/// A join in its last pass, scripts checked above the assumed valid block.
fn middle() -> PageState {
    PageState {
        stage: Stage::Syncing,
        phase: Some(Phase::JoinChecking),
        run: Run {
            share: Some(0.634),
            left: Some(Left {
                low: Duration::from_secs(4_100),
                median: Duration::from_secs(4_700),
                high: Duration::from_secs(5_600),
            }),
            blocks: Some((607_741, 972_165)),
        },
        speed: Speed {
            bytes: Some(214_000_000.0),
            blocks: Some(171.0),
            download: Some(12_160_000.0),
            upload: None,
        },
        bottleneck: Some(Bottleneck::Processor),
        tip: Tip::default(),
        chain: mainnet(|height| match height {
            ..540_000.0 => [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            540_000.0..570_000.0 => [0.0, 0.6, 0.0, 0.0, 0.4, 0.0, 0.0],
            570_000.0..905_000.0 => [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
            905_000.0..950_000.0 => [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            950_000.0..966_000.0 => [0.3, 0.0, 0.0, 0.0, 0.7, 0.0, 0.0],
            _ => [0.0, 0.0, 0.0, 0.0, 0.0, 0.4, 0.6],
        }),
        peers: Some(some_peers()),
        disk: Disk {
            used: 791_000_000_000,
            temporary: 148_000_000_000,
            free: Some(412_000_000_000),
        },
        memory: Memory { used: 3_420_000_000, mapped: 610_000_000 },
        cache: None,
        log: lines(&[
            "Network main, directory /home/ann/.bitcoin",
            "Method join: no hints, and 778 GB wait",
            "Join pass 1 of 3 is done: 972,165 blocks read",
            "Peer 192.0.2.31:8333 was disconnected: no block for 2 min",
            "Join pass 2 of 3 is done: 3,214,500,912 spends matched",
        ]),
        ..base()
    }
}

/// The best block of the examples.
const HASH: &str = "00000000000000000001b2505c11119fcf29be733ec379f686518bf1090a522a";

/// A sync in order, at a third of the chain.
fn in_order() -> PageState {
    PageState {
        phase: Some(Phase::Connecting),
        tip: Tip { height: 412_511, hash: HASH.to_string(), time: 1_463_700_000 },
        bottleneck: Some(Bottleneck::Peers),
        chain: mainnet(|height| match height {
            ..412_511.0 => [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            412_511.0..413_800.0 => [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0],
            _ => [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        }),
        run: Run { share: Some(0.213), ..Run::default() },
        cache: Some(Cache { coins: 21_402_118, bytes: 1_910_000_000, limit: 4_000_000_000 }),
        ..middle()
    }
}

/// The same, once its disk is full.
fn full_disk() -> PageState {
    PageState {
        stage: Stage::Failed(
            "/home/ann/.bitcoin/blocks/blk03211.dat: No space left on device (os error 28); free \
             21 GB on this disk, or sync with --prune=550"
                .to_string(),
        ),
        disk: Disk { used: 791_000_000_000, temporary: 0, free: Some(1_048_576) },
        peers: None,
        ..in_order()
    }
}

/// A join that has ended.
fn finished() -> PageState {
    PageState {
        stage: Stage::Finished,
        tip: Tip { height: HEADERS, hash: HASH.to_string(), time: NOW - 240 },
        coins: Some(Coins { count: 174_913_220, transactions: Some(1_412_300_518) }),
        peers: None,
        chain: mainnet(|height| match height {
            ..905_000.0 => [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            _ => [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        }),
        disk: Disk { used: 903_000_000_000, temporary: 0, free: Some(448_000_000_000) },
        ..middle()
    }
}

fn swiftsync() -> PageState {
    PageState {
        phase: Some(Phase::SwiftSync),
        chain: mainnet(|height| match height {
            ..700_000.0 => [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
            700_000.0..780_000.0 => [0.0, 0.0, 0.0, 0.0, 0.5, 0.3, 0.2],
            _ => [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0],
        }),
        ..middle()
    }
}

/// Every stage with its name, some of them with hostile text.
fn states() -> Vec<(&'static str, PageState)> {
    let missing = mainnet(|_| [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let stalled = PageState {
        stage: Stage::Stalled(Duration::from_secs(252)),
        peers: Some(Arc::default()),
        speed: Speed { download: Some(0.0), ..Speed::default() },
        ..in_order()
    };
    let following = PageState {
        stage: Stage::Following,
        phase: Some(Phase::Following),
        datadir: "/srv/node's disk".to_string(),
        blocks_dir: Some("/hdd".to_string()),
        prune: Some(550),
        peers: Some(some_peers()),
        ..finished()
    };
    let serving = PageState {
        stage: Stage::Serving,
        network: "signet",
        network_options: "-chain=signet".to_string(),
        chain: mainnet(|_| [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]),
        ..finished()
    };
    let mut hostile = middle();
    hostile.datadir.push_str(HOSTILE);
    for peer in Arc::make_mut(hostile.peers.as_mut().unwrap()) {
        (peer.user_agent, peer.address) = (HOSTILE.to_string(), HOSTILE.to_string());
    }
    hostile.log.push(Line { time: 0, warns: false, text: HOSTILE.repeat(9) });
    vec![
        ("starting", PageState { headers: 0, started: NOW - 1, ..base() }),
        (
            "searching",
            PageState { stage: Stage::Searching, headers: 0, started: NOW - 9, ..base() },
        ),
        (
            "headers",
            PageState {
                stage: Stage::Headers,
                phase: Some(Phase::DownloadingHeaders),
                headers: 412_000,
                peers: Some(some_peers()),
                speed: Speed { download: Some(2_400_000.0), ..Speed::default() },
                ..base()
            },
        ),
        (
            "beginning",
            PageState {
                phase: Some(Phase::JoinReading),
                run: Run { share: Some(0.004), ..Run::default() },
                chain: missing,
                bottleneck: None,
                ..middle()
            },
        ),
        ("middle", middle()),
        ("in-order", PageState { stage: Stage::Syncing, ..in_order() }),
        ("swiftsync", swiftsync()),
        ("stalled", stalled),
        ("full-disk", full_disk()),
        ("failed-hostile", PageState { stage: Stage::Failed(HOSTILE.to_string()), ..middle() }),
        ("stopping", PageState { stage: Stage::Stopping, ..middle() }),
        ("stopped", PageState { stage: Stage::Stopped, ..middle() }),
        ("finished", finished()),
        ("following", following),
        ("serving", serving),
        ("hostile", hostile),
    ]
}

/// Text that would break out of an element, of an attribute, or into another place of the page.
const HOSTILE: &str =
    "</span><script>alert(1)</script>\"' onload='x' {{log}} \u{202e}\u{0}<!-- &lt;";

/// Returns the names of the elements that are opened and closed, and fails if they are not nested.
fn check_nesting(html: &str) {
    const EMPTY: [&str; 7] = ["meta", "link", "input", "path", "rect", "line", "!doctype"];
    let mut open = Vec::new();
    for tag in html.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("a tag without an end: {tag}"));
        let name = tag.split([' ', '\n', '/']).find(|name| !name.is_empty()).unwrap_or("");
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "closed wrongly: {html}");
        } else if !EMPTY.contains(&name) && !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

/// With `APUS_PAGE_EXAMPLES=DIRECTORY`, this writes the pages and their updates there.
#[test]
fn the_page_holds_together_in_every_stage() {
    for (name, state) in states() {
        let sections = Sections::of(&state);
        let html = document(&sections);
        check_nesting(&html);
        for part in &sections.parts {
            check_nesting(part);
            assert!(!part.contains("<script") && !part.contains("style="), "{name}: {part}");
            assert!(!part.contains(['\u{202e}', '\0']), "{name}: {part}");
        }
        assert_eq!(html.matches("<script").count(), 1, "{name}");
        assert!(html.len() < 60_000, "{name}: {} bytes", html.len());
        if let Some(directory) = std::env::var_os("APUS_PAGE_EXAMPLES") {
            let directory = std::path::Path::new(&directory);
            let parts: serde_json::Map<String, serde_json::Value> =
                PARTS.into_iter().zip(sections.parts).map(|(n, p)| (n.into(), p.into())).collect();
            let update = serde_json::json!({
                "title": sections.title, "stage": sections.stage, "said": sections.said,
                "parts": parts,
            });
            std::fs::write(directory.join(format!("{name}.html")), html).unwrap();
            std::fs::write(directory.join(format!("{name}.json")), update.to_string()).unwrap();
        }
    }
}

#[test]
fn the_page_says_what_a_person_wants_to_know() {
    let of = |name: &str| {
        let (_, state) = states().into_iter().find(|(of, _)| *of == name).unwrap();
        let sections = Sections::of(&state);
        (sections.title, sections.parts.concat().replace('\u{a0}', " "))
    };
    for (name, title, expected) in [
        ("starting", "Opening the directory · Apus", vec!["block index"]),
        ("searching", "Looking for peers · Apus", vec!["a peer is found"]),
        ("headers", "412,000 headers · Apus", vec!["Downloading headers", "from 6 peers"]),
        (
            "middle",
            "63\u{a0}%, ",
            vec![
                "Join 3/3",
                "214 MB/s",
                "171 blocks/s",
                "the processor",
                "12.2 MB/s",
                "2 h 15 min so far",
                "148 GB of them temporary",
                "607,741",
                "203.0.113.7:8333",
                "not encrypted",
            ],
        ),
        (
            "in-order",
            "21\u{a0}%",
            vec!["412,511", "of 972,310", "21,402,118 coins", "1.91 GB of 4.00 GB", "--from"],
        ),
        ("stalled", "Waiting for peers", vec!["No block for 4 min 12 s", "--connect=HOST"]),
        ("full-disk", "The disk is full · Apus", vec!["blk03211.dat", "1.05 MB free"]),
        (
            "finished",
            "The UTXO set is ready · Apus",
            vec![
                "174,913,220",
                "1,412,300,518",
                "903 GB",
                ">bitcoind -datadir=/home/ann/.bitcoin<",
            ],
        ),
        (
            "following",
            "At the tip",
            vec!["is 4 min old", "-datadir=&#39;/srv/node&#39;", "-blocksdir=/hdd -prune=550"],
        ),
        ("serving", "Block 972,310", vec!["-chain=signet", "in the UTXO set already"]),
        ("hostile", "63", vec!["&lt;script&gt;alert(1)&lt;/script&gt;", "{{log}}"]),
    ] {
        let (found, text) = of(name);
        assert!(found.starts_with(title), "{name}: {found}");
        for words in expected {
            assert!(text.contains(words), "{name} lacks {words}");
        }
    }
}
