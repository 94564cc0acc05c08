//! `scanblocks`: which blocks have to do with the scripts of descriptors.

use apus_descriptors::Scripts;
use apus_hash::Hash;
use apus_indexes::WantedScripts;
use apus_node::view::Committed;
use rayon::prelude::*;
use serde::Serialize;

use super::error::{RPC_INVALID_PARAMETER, RPC_MISC_ERROR, RpcError, internal};
use super::filters::{filter_type, index, missing};
use super::indexes::IndexSummary;
use super::json::{Json, json};
use super::params;
use super::scan_objects::ScanObjects;
use super::scan_state::Scan;
use super::source::{Call, find};
use super::stored::{StoredBlock, parse};

/// Number of blocks whose filters are read before a scan looks whether it is to end.
const CHUNK: usize = 1000;

#[derive(Serialize)]
struct Status {
    progress: u32,
    current_height: u32,
}

#[derive(Serialize)]
struct Scanned {
    from_height: u32,
    to_height: u32,
    relevant_blocks: Vec<String>,
    completed: bool,
}

/// A block of the active chain.
type At = (u32, Hash);

/// `scanblocks`.
pub fn scanblocks(call: &Call) -> Result<Json, RpcError> {
    let scan = &call.source.block_scan;
    match params::text(call.param(0))? {
        "status" => Ok(json(
            &scan.reached().map(|(progress, current_height)| Status { progress, current_height }),
        )),
        "abort" => Ok(json(&scan.abort())),
        "start" => start(call),
        action => Err(RpcError::new(RPC_INVALID_PARAMETER, format!("Invalid action '{action}'"))),
    }
}

fn start(call: &Call) -> Result<Json, RpcError> {
    let running = call.source.block_scan.begin().ok_or_else(|| {
        let what = "Scan already in progress, use action \"abort\" or \"status\"";
        RpcError::new(RPC_INVALID_PARAMETER, what)
    })?;
    let list = ScanObjects::list(call)?;
    let name = filter_type(call.param(4))?;
    let is_checked = match call.param(5).get("filter_false_positives") {
        Some(value) => params::boolean(value)?,
        None => false,
    };
    let state = index(call, name)?;
    let (first, last) = heights(call)?;
    let ScanObjects { scripts, .. } = ScanObjects::read(list, call)?;
    let blocks: Vec<At> = call.source.look(|it: &Committed| {
        let hash = |height| it.active.at(height).map(|id| (height, it.tree.node(id).hash));
        (first..=last).filter_map(hash).collect()
    })?;
    let work = BlockScan { call, state, scripts: &scripts, is_checked, scan: running.0 };
    work.run(&blocks, first)
}

/// A scan.
struct BlockScan<'a> {
    call: &'a Call<'a>,
    state: IndexSummary,
    scripts: &'a Scripts,
    /// Whether blocks that match by mistake are left out.
    is_checked: bool,
    scan: &'a Scan,
}

impl BlockScan<'_> {
    /// Scans the blocks, of which `first` is the height of the first.
    fn run(&self, blocks: &[At], first: u32) -> Result<Json, RpcError> {
        let scan = self.scan;
        scan.start(first);
        let wanted = WantedScripts::new(self.scripts.iter());
        let mut relevant_blocks = Vec::new();
        let mut to_height = first;
        let mut completed = true;
        let total = (blocks.len() as u32).saturating_sub(1);
        for chunk in blocks.chunks(CHUNK) {
            self.call.check_stop()?;
            if scan.is_aborted() {
                completed = false;
                break;
            }
            relevant_blocks.extend(self.matching(chunk, &wanted)?);
            to_height = chunk.last().map_or(first, |(height, _)| *height);
            let percent = (100 * u64::from(to_height - first)).checked_div(total.into());
            scan.reach(percent.unwrap_or(100) as u32, to_height);
        }
        Ok(json(&Scanned { from_height: first, to_height, relevant_blocks, completed }))
    }

    fn matching(&self, blocks: &[At], wanted: &WantedScripts) -> Result<Vec<String>, RpcError> {
        let source = self.call.source;
        let has_any = |(height, hash): &At| {
            let found = source.indexes.reader.has_any(*height, hash, wanted).map_err(internal)?;
            let has_any = found.ok_or_else(|| missing(true, self.state))?;
            Ok::<_, RpcError>(has_any.then_some(*hash))
        };
        let matching: Vec<Option<Hash>> =
            source.pool()?.install(|| blocks.par_iter().map(has_any).collect::<Result<_, _>>())?;
        let mut hashes = Vec::new();
        for hash in matching.into_iter().flatten() {
            if !self.is_checked || self.is_relevant(&hash)? {
                hashes.push(hash.to_string());
            }
        }
        Ok(hashes)
    }

    /// Returns whether a block has one of the scripts (Core's `CheckBlockFilterMatches`).
    fn is_relevant(&self, hash: &Hash) -> Result<bool, RpcError> {
        let stored = |it: &Committed| Ok(StoredBlock::new(it, find(it, hash)?));
        let stored = self.call.source.try_look(stored)?;
        let bytes = stored.read()?;
        let block = parse(&bytes)?;
        let spent = stored.checked_spent(&block)?;
        let has = |script: &[u8]| self.scripts.find(script).is_some();
        let pays = block.txs().any(|tx| tx.outputs().any(|output| has(output.script())));
        let mut script = Vec::new();
        Ok(pays
            || spent.iter().flatten().any(|coin| {
                script.clear();
                coin.script.decompress_into(&mut script);
                has(&script)
            }))
    }
}

/// Returns the first and the last height to scan.
fn heights(call: &Call) -> Result<(u32, u32), RpcError> {
    let tip = call.source.look(|it| it.tip().height)?;
    let height = |index: usize, default: u32, name: &str| {
        if call.param(index).is_null() {
            return Ok(default);
        }
        let height: i32 = params::integer(call.param(index))?;
        let known = u32::try_from(height).ok().filter(|height| *height <= tip);
        known.ok_or_else(|| RpcError::new(RPC_MISC_ERROR, format!("Invalid {name}")))
    };
    let first = height(2, 0, "start_height")?;
    let last = height(3, tip, "stop_height")?;
    if last < first {
        Err(RpcError::new(RPC_MISC_ERROR, "Invalid stop_height"))
    } else {
        Ok((first, last))
    }
}
