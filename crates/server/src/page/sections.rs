//! The parts of the page as HTML, made from a [`PageState`]: for the page itself, and its updates.
//!
//! Everything that is not a number or a constant goes through `escape`.

use std::fmt::Write;

use apus_node::next_command::NextCommand;
use apus_progress::{Bottleneck, PeerInfo, Phase};

use super::headline::Headline;
use super::picture::figure;
use super::state::{Coins, PageState, Stage};
use super::words::{clock, count, date, escape, figures, shorten, size, speed, thousands};

/// The most peers that are listed.
const PEERS_MAX: usize = 16;
/// The most lines of the log that are shown.
const LINES_MAX: usize = 40;
/// The most characters of a peer's program and of a line of the log that are shown.
const AGENT_CHARS_MAX: usize = 64;
const LINE_CHARS_MAX: usize = 400;

/// The names of the parts, which are those of the places in `page.html`.
pub const PARTS: [&str; 8] = ["where", "now", "facts", "chain", "next", "machine", "peers", "log"];

/// The page at one moment.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Sections {
    /// Apus's version.
    pub version: String,
    /// The title of the window.
    pub title: String,
    /// The stage, by which styles and the script tell the end of a run.
    pub stage: &'static str,
    /// The text for screen readers, from time to time.
    pub said: String,
    /// The HTML of each of [`PARTS`].
    pub parts: [String; PARTS.len()],
}

impl Sections {
    /// Makes the page of a state.
    pub fn of(state: &PageState) -> Self {
        let headline = Headline::of(state);
        Self {
            version: state.version.clone(),
            title: headline.title(),
            stage: state.stage.name(),
            said: headline.said(),
            parts: [
                place(state),
                headline.html(state),
                facts(state),
                figure(&state.chain),
                next(state),
                machine(state),
                peers(state),
                log(state),
            ],
        }
    }
}

/// Returns the line that says which node this is.
fn place(state: &PageState) -> String {
    let network = match state.network {
        "main" => "mainnet",
        other => other,
    };
    format!("<span>{network}</span> <span class=\"path\">{}</span>", escape(&state.datadir))
}

/// Returns the figures below the headline.
fn facts(state: &PageState) -> String {
    let mut facts = Vec::new();
    let is_busy = state.stage.is_run();
    if let Some((done, all)) = state.run.blocks.filter(|_| is_busy) {
        facts.push(("Blocks", thousands(done), format!("of {}", thousands(all))));
    } else if state.headers > 0
        && (is_busy || matches!(state.stage, Stage::Failed(_) | Stage::Stopped))
        // Blocks in any order have no height.
        && state.phase != Some(Phase::JoinMatching)
    {
        facts.push(height(state));
    }
    if is_busy && let Some(bytes) = state.speed.bytes {
        let blocks = state.speed.blocks.map(|blocks| format!("{} blocks/s", figures(blocks)));
        facts.push(("Processed", speed(bytes), blocks.unwrap_or_default()));
    }
    let is_over = matches!(state.stage, Stage::Failed(_) | Stage::Stopped | Stage::Finished);
    if let (Some(peers), Some(bytes), false) = (&state.peers, state.speed.download, is_over) {
        let peers = format!("from {}", count(peers.len() as u64, "peer"));
        facts.push(("Download", speed(bytes), peers));
    }
    if let Some(bytes) = state.speed.upload {
        facts.push(("Upload", speed(bytes), "to peers".to_string()));
    }
    if let Some(bottleneck) = state.bottleneck.filter(|_| state.stage == Stage::Syncing) {
        let (what, help) = advice(bottleneck, state);
        facts.push(("Held up by", what.to_string(), help));
    }
    if facts.is_empty() {
        return String::new();
    }
    let mut out = String::from("<dl class=\"facts\">");
    for (name, value, note) in facts {
        let _ =
            write!(out, "<div><dt>{name}</dt><dd>{value}</dd><dd class=\"note\">{note}</dd></div>");
    }
    out + "</dl>"
}

fn height(state: &PageState) -> (&'static str, String, String) {
    let height = state.tip.height;
    let headers = state.headers;
    let mut note = if headers > height {
        format!("of {}", thousands(headers.into()))
    } else {
        "the best header".to_string()
    };
    if state.tip.time > 0 {
        let _ = write!(note, " · {}", date(state.tip.time));
    }
    ("Height", thousands(height.into()), note)
}

/// Returns the name of a bottleneck, and what would help.
fn advice(bottleneck: Bottleneck, state: &PageState) -> (&'static str, String) {
    let is_join =
        matches!(state.phase, Some(Phase::JoinReading | Phase::JoinMatching | Phase::JoinChecking));
    let (name, help) = match bottleneck {
        Bottleneck::Peers => (
            "peers",
            "A faster line would help, a node near by (<code>--addnode</code>), or block files \
             (<code>--from</code>).",
        ),
        Bottleneck::DownloadLimit => {
            ("your limit", "A higher <code>--maxdownload</code> would help.")
        }
        Bottleneck::Processor => ("the processor", "More or faster cores would help."),
        Bottleneck::OtherPrograms => (
            "other programs",
            "They use the processor: Apus would be faster without them, or with more cores.",
        ),
        Bottleneck::Disk if is_join => (
            "the disk",
            "A faster disk would help, or temporary files on another one \
             (<code>--spilldir</code>).",
        ),
        Bottleneck::Disk => {
            ("the disk", "A faster disk would help, or a larger <code>--dbcache</code>.")
        }
    };
    (name, help.to_string())
}

/// Returns the UTXO set in figures and the next step, once there is one.
fn next(state: &PageState) -> String {
    let is_final = matches!(state.stage, Stage::Finished | Stage::Following | Stage::Serving);
    let Some(coins) = state.coins.filter(|_| is_final) else { return String::new() };
    let (title, before) = match state.stage {
        Stage::Finished => {
            ("Next", "Bitcoin Core v31 continues from here, with nothing to import:")
        }
        _ => ("Hand over", "Stop Apus, then start Bitcoin Core v31:"),
    };
    let command = escape(&bitcoind(state));
    let set = utxo_set(state, &coins);
    format!(
        "<div><h2>{title}</h2><p>{before}</p><div class=\"command\">\
         <code id=\"command\" tabindex=\"0\">{command}</code>\
         <button type=\"button\" class=\"js\" data-copy=\"command\">Copy</button></div></div>{set}"
    )
}

fn utxo_set(state: &PageState, coins: &Coins) -> String {
    let mut figures = vec![("Unspent outputs", thousands(coins.count))];
    if let Some(transactions) = coins.transactions {
        figures.push(("Transactions of the chain", thousands(transactions)));
    }
    figures.push(("Height", thousands(state.tip.height.into())));
    figures.push(("Size on disk", size(state.disk.used)));
    let mut out = String::from("<div><h2>The UTXO set</h2><dl class=\"facts\">");
    for (name, value) in figures {
        let _ = write!(out, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    }
    let hash = escape(&state.tip.hash);
    out + &format!("</dl><p class=\"hash\">Best block <code>{hash}</code></p></div>")
}

/// Returns the command that starts Bitcoin Core in the directory.
fn bitcoind(state: &PageState) -> String {
    let command = NextCommand {
        program: "bitcoind",
        network_options: &state.network_options,
        datadir: Some(&state.datadir),
        blocks_dir: state.blocks_dir.as_deref(),
        prune: state.prune,
    };
    command.line()
}

/// Returns what the run takes of the machine.
fn machine(state: &PageState) -> String {
    let mut rows = String::new();
    let mut row = |name: &str, share: Option<f64>, value: String, note: String| {
        let _ = write!(rows, "<div><dt>{name}</dt><dd>{value}{}</dd>", meter(share));
        if !note.is_empty() {
            let _ = write!(rows, "<dd class=\"note\">{note}</dd>");
        }
        rows.push_str("</div>");
    };
    let share = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
    let disk = &state.disk;
    if disk.used > 0 || disk.free.is_some() {
        let own = disk.used + disk.temporary;
        let of_disk = disk.free.and_then(|free| share(own, own + free));
        let mut notes = Vec::new();
        if disk.temporary > 0 {
            notes.push(format!("{} of them temporary", size(disk.temporary)));
        }
        notes.extend(disk.free.map(|free| format!("{} free", size(free))));
        row("Disk", of_disk, size(own), notes.join(" · "));
    }
    let memory = &state.memory;
    if memory.used > 0 {
        let mapped = Some(memory.mapped).filter(|bytes| *bytes > 0);
        let note = mapped.map(|bytes| format!("{} mapped files", size(bytes)));
        row("Memory", None, size(memory.used), note.unwrap_or_default());
    }
    if let Some(cache) = &state.cache {
        let mut notes = Vec::new();
        if cache.bytes > 0 {
            notes.push(size(cache.bytes));
        }
        if cache.limit > 0 {
            notes.push(format!("of {}", size(cache.limit)));
        }
        let coins = count(cache.coins, "coin");
        let share = share(cache.bytes, cache.limit);
        row("Cache", share.filter(|_| cache.bytes > 0), coins, notes.join(" "));
    }
    if rows.is_empty() {
        rows
    } else {
        format!("<h2>This machine</h2><dl class=\"rows\">{rows}</dl>")
    }
}

/// Returns a small bar, or nothing if there is no share to show.
fn meter(share: Option<f64>) -> String {
    let Some(share) = share else { return String::new() };
    let value = 100.0 * share.clamp(0.0, 1.0);
    format!(
        "<svg class=\"meter\" aria-hidden=\"true\">\
         <rect class=\"track\" width=\"100%\" height=\"100%\"/>\
         <rect class=\"done\" width=\"{value:.1}%\" height=\"100%\"/></svg>"
    )
}

/// Returns the table of peers, the fastest first.
fn peers(state: &PageState) -> String {
    let Some(peers) = &state.peers else { return String::new() };
    if peers.is_empty() {
        return "<h2>Peers</h2><p class=\"none\">None is connected.</p>".to_string();
    }
    let mut sorted: Vec<&PeerInfo> = peers.iter().collect();
    sorted.sort_by(|a, b| {
        (b.speed, b.block_bytes, &a.address).cmp(&(a.speed, a.block_bytes, &b.address))
    });
    let most = sorted.iter().filter_map(|peer| peer.speed).max().unwrap_or(0);
    let mut out = String::from(
        "<h2>Peers</h2><table><thead><tr><th scope=\"col\">Peer</th>\
         <th scope=\"col\" class=\"number\">Blocks</th>\
         <th scope=\"col\" class=\"number\">Speed</th></tr></thead><tbody>",
    );
    for peer in sorted.iter().take(PEERS_MAX) {
        let speed_words = peer.speed.map_or_else(|| "–".to_string(), |bytes| speed(bytes as f64));
        let share = peer.speed.filter(|_| most > 0).map(|bytes| bytes as f64 / most as f64);
        let _ = write!(
            out,
            "<tr><th scope=\"row\"><bdi>{}</bdi> <small><bdi>{}</bdi>{}{}</small></th>\
             <td class=\"number\">{} <small>{}</small></td>\
             <td class=\"number\">{speed_words}{}</td></tr>",
            escape(&peer.address),
            escape(&shorten(&peer.user_agent, AGENT_CHARS_MAX)),
            if peer.transport == "v2" { "" } else { " · not encrypted" },
            if peer.inbound { " · inbound" } else { "" },
            thousands(peer.blocks),
            size(peer.block_bytes),
            meter(share),
        );
    }
    out.push_str("</tbody></table>");
    if let Some(more @ 1..) = peers.len().checked_sub(PEERS_MAX) {
        let _ = write!(out, "<p class=\"none\">And {more} more.</p>");
    }
    out
}

/// Returns the last lines of the log, the newest first.
fn log(state: &PageState) -> String {
    if state.log.is_empty() {
        return String::new();
    }
    let mut out = String::from(
        "<h2>Log <small>newest first, UTC</small></h2>\
         <ol class=\"log\" tabindex=\"0\" aria-label=\"Log\">",
    );
    for line in state.log.iter().rev().take(LINES_MAX) {
        let class = if line.warns { " class=\"warns\"" } else { "" };
        let time = clock(line.time);
        let text = escape(&shorten(&line.text, LINE_CHARS_MAX));
        let _ = write!(out, "<li{class}><time>{time}</time> <span>{text}</span></li>");
    }
    out + "</ol>"
}
