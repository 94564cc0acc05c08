//! The report of a sync or a reindex as JSON.

use apus_host::MemoryInUse;
use apus_node::{Checked, ScriptDifference};
use apus_peers::PeerReport;
use apus_progress::{Pruned, Refusal, STALLS, ScriptCounts, Waits};
use apus_sync::{AboveTip, SavedJoin, SavedSync, Summary};
use secp_lanes::Kernel;
use serde::Serialize;

use super::report::mapped_at_peak;

#[derive(Serialize)]
struct SummaryJson {
    height: u32,
    bestblock: String,
    coins: Option<u64>,
    method: Option<&'static str>,
    why: Option<String>,
    above_tip: Option<AboveTipJson>,
    blocks_disconnected: u64,
    spilled_bytes: Option<u64>,
    seconds: f64,
    cpu_seconds: f64,
    blocks: u64,
    bytes: u64,
    transactions: u64,
    inputs: u64,
    scripts_checked: u64,
    script_checks: ScriptChecksJson,
    script_difference: Option<ScriptDifferenceJson>,
    peak_memory: u64,
    peak_memory_mapped: Option<u64>,
    interrupted: bool,
    swiftsync_saved: Option<SavedJson>,
    join_saved: Option<JoinJson>,
    checked: CheckedJson,
    undo_from: u32,
    pruned: Option<PrunedJson>,
    refused: Vec<RefusalJson>,
    repaired: Vec<RefusalJson>,
    stages: std::collections::BTreeMap<&'static str, f64>,
    waits: WaitsJson,
    /// Seconds in which at least one thread waited for a block from a peer.
    waited_for_peers: f64,
    /// Coins that were read from the tables because the cache did not hold them.
    coins_looked_up: u64,
    bottleneck: Option<&'static str>,
    waits_for_disk: bool,
    /// The percentage of busy threads that waited for the disk.
    disk_wait_percent: Option<u64>,
    peers: Vec<PeerJson>,
}

/// The number of inputs that each engine has checked, and of signatures verified side by side.
#[derive(Serialize)]
struct ScriptChecksJson {
    fast: u64,
    core: u64,
    rechecked: u64,
    signatures: u64,
    kernel: Option<&'static str>,
}

impl ScriptChecksJson {
    fn of(counts: &ScriptCounts) -> Self {
        let ScriptCounts { fast, core, rechecked, signatures, kernel } = *counts;
        Self { fast, core, rechecked, signatures, kernel: kernel.map(Kernel::name) }
    }
}

/// An input because of which Bitcoin Core's engine alone checks scripts: its file, and the file's
/// contents if it could not be written.
#[derive(Serialize)]
pub struct ScriptDifferenceJson {
    file: String,
    unsaved: Option<String>,
}

impl ScriptDifferenceJson {
    pub fn of(difference: &ScriptDifference) -> Self {
        let ScriptDifference { path, unsaved } = difference;
        Self { file: path.display().to_string(), unsaved: unsaved.clone() }
    }
}

/// The blocks between the tip and the best header.
#[derive(Serialize)]
pub struct AboveTipJson {
    headers: u32,
    blocks_waiting: u32,
    blocks_missing: u32,
    first_missing: Option<u32>,
}

impl AboveTipJson {
    pub fn of(above: &AboveTip) -> Self {
        let AboveTip { headers, waiting, missing, first_missing } = *above;
        Self { headers, blocks_waiting: waiting, blocks_missing: missing, first_missing }
    }
}

/// The pruned blocks, in heights and bytes.
#[derive(Serialize)]
pub struct PrunedJson {
    blocks_from: u32,
    freed_bytes: u64,
    size_on_disk: u64,
    held_at: Option<u32>,
}

impl PrunedJson {
    pub fn of(pruned: &Pruned) -> Self {
        let Pruned { blocks_from, freed_bytes, usage, held_at } = *pruned;
        Self { blocks_from, freed_bytes, size_on_disk: usage, held_at }
    }
}

/// The counts of one peer.
#[derive(Serialize)]
struct PeerJson {
    address: String,
    user_agent: String,
    transport: &'static str,
    inbound: bool,
    blocks: u64,
    bytes: u64,
    bytes_per_second: Option<u64>,
    ended: Option<String>,
}

/// What the thread that connects blocks in order waited for, in seconds, and how full its queues
/// were, in blocks.
#[derive(Serialize)]
struct WaitsJson {
    connecting: f64,
    blocks: f64,
    peers: f64,
    checks: f64,
    commits: f64,
    blocks_ready: f64,
    blocks_in_checks: f64,
    /// Waits of `commits` by their length: below 1 ms, 2 ms, 4 ms … 16 s, and longer.
    stalls: [u64; STALLS],
    longest_stall: f64,
}

impl WaitsJson {
    fn of(waits: &Waits) -> Self {
        Self {
            connecting: waits.connecting.as_secs_f64(),
            blocks: waits.blocks.as_secs_f64(),
            peers: waits.peers.as_secs_f64(),
            checks: waits.checks.as_secs_f64(),
            commits: waits.commits.as_secs_f64(),
            blocks_ready: waits.ready,
            blocks_in_checks: waits.in_flight,
            stalls: waits.stalls,
            longest_stall: waits.longest_stall.as_secs_f64(),
        }
    }
}

/// How far an interrupted SwiftSync came, in blocks.
#[derive(Serialize)]
struct SavedJson {
    blocks: u32,
    of: u32,
}

/// How far an interrupted join came: the pass, from 1 to 3, and numbers of blocks.
#[derive(Serialize)]
pub struct JoinJson {
    pass: u32,
    blocks_read: u32,
    blocks_checked: u32,
    total: u32,
}

impl JoinJson {
    pub fn of(saved: &SavedJoin) -> Self {
        let SavedJoin { pass, blocks_read, blocks_checked, total } = *saved;
        Self { pass: pass.number(), blocks_read, blocks_checked, total }
    }
}

/// What the run checked of its blocks: everything, or all except the rules listed for ranges of
/// heights.
#[derive(Serialize)]
struct CheckedJson {
    everything: bool,
    not_checked: Vec<NotCheckedJson>,
}

#[derive(Serialize)]
struct NotCheckedJson {
    first_height: u32,
    last_height: u32,
    rules: Vec<&'static str>,
}

#[derive(Serialize)]
struct RefusalJson {
    file: Option<String>,
    offset: Option<u64>,
    block: Option<String>,
    reason: String,
}

/// Returns the object that `--json` prints, with times in seconds and sizes in bytes. `memory` is
/// the largest memory use that was read while progress was reported.
pub fn summary_json(summary: &Summary, memory: MemoryInUse) -> String {
    let json = SummaryJson {
        height: summary.height,
        bestblock: summary.best_block.to_string(),
        coins: summary.coins,
        method: summary.chosen.as_ref().map(|chosen| chosen.method.name()),
        why: summary.chosen.as_ref().map(|chosen| chosen.why.clone()),
        above_tip: summary.above_tip.as_ref().map(AboveTipJson::of),
        blocks_disconnected: summary.disconnected,
        spilled_bytes: summary.spilled_bytes,
        seconds: summary.elapsed.as_secs_f64(),
        cpu_seconds: summary.cpu.as_secs_f64(),
        blocks: summary.counts.blocks,
        bytes: summary.counts.bytes,
        transactions: summary.counts.transactions,
        inputs: summary.counts.inputs,
        scripts_checked: summary.counts.scripts,
        script_checks: ScriptChecksJson::of(&summary.scripts),
        script_difference: summary.script_difference.as_ref().map(ScriptDifferenceJson::of),
        peak_memory: summary.peak_memory,
        peak_memory_mapped: mapped_at_peak(summary.peak_memory, memory),
        interrupted: summary.interrupted,
        swiftsync_saved: summary
            .saved
            .and_then(SavedSync::swiftsync)
            .map(|saved| SavedJson { blocks: saved.done, of: saved.total }),
        join_saved: summary.saved.and_then(SavedSync::join).map(|saved| JoinJson::of(&saved)),
        checked: checked_json(&summary.checked),
        undo_from: summary.undo_from,
        pruned: summary.pruned.as_ref().map(PrunedJson::of),
        refused: summary.refusals.iter().map(refusal_json).collect(),
        repaired: summary.repaired.iter().map(refusal_json).collect(),
        stages: summary.stages.iter().map(|(name, t)| (*name, t.as_secs_f64())).collect(),
        waits: WaitsJson::of(&summary.waits),
        waited_for_peers: summary.waited_for_peers.as_secs_f64(),
        coins_looked_up: summary.waits.looked_up,
        bottleneck: summary.ran.bottleneck.map(|(what, _)| what.word()),
        waits_for_disk: summary.states.waits_for_disk(),
        disk_wait_percent: summary.states.blocked_percent(),
        peers: summary.peers.iter().map(peer_json).collect(),
    };
    serde_json::to_string(&json).expect("plain data")
}

fn peer_json(peer: &PeerReport) -> PeerJson {
    PeerJson {
        address: peer.address.clone(),
        user_agent: peer.user_agent.clone(),
        transport: peer.transport,
        inbound: peer.inbound,
        blocks: peer.blocks,
        bytes: peer.bytes,
        bytes_per_second: peer.speed,
        ended: peer.ended.clone(),
    }
}

fn checked_json(checked: &Checked) -> CheckedJson {
    let not_checked = checked.not_checked().iter().map(|blocks| NotCheckedJson {
        first_height: blocks.first,
        last_height: blocks.last,
        rules: blocks.rules.iter().map(|rule| rule.name()).collect(),
    });
    CheckedJson { everything: checked.not_checked().is_empty(), not_checked: not_checked.collect() }
}

fn refusal_json(refusal: &Refusal) -> RefusalJson {
    RefusalJson {
        file: refusal.path.as_ref().map(|path| path.display().to_string()),
        offset: refusal.offset,
        block: refusal.block.map(|hash| hash.to_string()),
        reason: refusal.reason.clone(),
    }
}
