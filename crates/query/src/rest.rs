//! The REST interface (Core's `rest.cpp`).

use std::sync::atomic::AtomicBool;

use apus_chain::BlockId;
use apus_coins::Coin;
use apus_hash::Hash;
use apus_node::view::Committed;
use apus_store::IndexKind;
use apus_wire::{Cursor, OutPoint, put_compact_size};
use serde::Serialize;

use super::block::{Detail, block_json};
use super::error::{RPC_IN_WARMUP, RPC_MISC_ERROR, RpcError};
use super::filters::{BASIC, Block, filter, missing};
use super::header::HeaderAnswer;
use super::indexes::IndexSummary;
use super::json::{Amount, Json, from_hex, hex, json};
use super::methods::{call, find};
use super::rest_answer::{Format, Path, RestAnswer, parameter};
use super::script::ScriptPubKey;
use super::source::Source;
use super::stored::{StoredBlock, parse};
use super::transaction::{Spent, Transaction, script_bytes, script_of};
use super::waiting::Waiting;

/// The most headers of an answer (Core's `MAX_REST_HEADERS_RESULTS`).
const HEADERS_MAX: usize = 2000;
/// The most outpoints of a request (Core's `MAX_GETUTXOS_OUTPOINTS`).
const OUTPOINTS_MAX: usize = 15;

type Answer = Result<RestAnswer, RestAnswer>;
type Endpoint = fn(&Request) -> Answer;

/// A request.
struct Request<'a> {
    source: &'a Source,
    /// The path after that of the endpoint.
    path: Path<'a>,
    query: Option<&'a str>,
    body: &'a [u8],
    stop: &'a AtomicBool,
    waiting: &'a Waiting,
}

/// The endpoints: each path begins one. The first that fits is taken.
const ENDPOINTS: &[(&str, Endpoint)] = &[
    ("tx/", tx),
    ("block/notxdetails/", |request| block(request, Some(Detail::Txids), None)),
    ("block/", |request| block(request, Some(Detail::Prevouts), None)),
    ("blockpart/", block_part),
    ("blockfilter/", block_filter),
    ("blockfilterheaders/", block_filter_headers),
    ("chaininfo", chain_info),
    ("mempool/", mempool),
    ("headers/", headers),
    ("getutxos", get_utxos),
    ("deploymentinfo/", deployment_info),
    ("deploymentinfo", deployment_info),
    ("blockhashbyheight/", block_hash_by_height),
    ("spenttxouts/", spent_txouts),
];

/// Answers a request for `path`, which follows `/rest/`. It may take long, and may have to be asked
/// again ([`Waiting`]). Returns `None` if there is no such endpoint.
pub fn rest(
    source: &Source,
    path: &str,
    query: Option<&str>,
    body: &[u8],
    (stop, waiting): (&AtomicBool, &Waiting),
) -> Option<RestAnswer> {
    let (start, endpoint) = ENDPOINTS.iter().find(|(start, _)| path.starts_with(start))?;
    let path = Path::new(&path[start.len()..]);
    let request = Request { source, path, query, body, stop, waiting };
    let mut answer = endpoint(&request).unwrap_or_else(|error| error);
    answer.is_immutable = answer.status == 200 && is_immutable(start, &request.path);
    Some(answer)
}

/// Returns whether what an endpoint tells of a block will always be the same. As JSON, a block
/// comes with its depth.
fn is_immutable(endpoint: &str, path: &Path) -> bool {
    match endpoint {
        "block/" | "block/notxdetails/" => path.format != Format::Json,
        "blockpart/" | "blockfilter/" | "spenttxouts/" => true,
        _ => endpoint.starts_with("deploymentinfo") && !path.whole.is_empty(),
    }
}

/// Returns whether the endpoint of a path reads the body of a request, as `getutxos` alone does.
pub fn reads_body(path: &str) -> bool {
    path.starts_with("getutxos")
}

impl Request<'_> {
    /// Returns the value of a parameter after the question mark.
    fn parameter(&self, name: &str) -> Option<String> {
        parameter(self.query?, name)
    }

    /// Returns how many headers are asked for after the question mark.
    fn count(&self) -> Result<usize, RestAnswer> {
        header_count(self.parameter("count").as_deref().unwrap_or("5"))
    }

    fn look<T>(&self, look: impl FnOnce(&Committed) -> T) -> Result<T, RestAnswer> {
        self.source.look(look).map_err(|error| failed(&error))
    }

    fn look_at<T>(
        &self,
        text: &str,
        look: impl FnOnce(&Committed, BlockId) -> T,
    ) -> Result<T, RestAnswer> {
        let hash = hash(text)?;
        let found = self.look(|it| it.tree.find(&hash).map(|id| look(it, id)))?;
        found.ok_or_else(|| RestAnswer::not_found(format!("{text} not found")))
    }

    fn call(&self, method: &str, params: &[serde_json::Value]) -> Answer {
        let method = find(method).expect("a method of ours");
        let answer = call(self.source, method, params, (self.stop, self.waiting));
        answer.map(|answer| RestAnswer::json(&answer)).map_err(|error| failed(&error))
    }
}

fn failed(error: &RpcError) -> RestAnswer {
    match error.code {
        RPC_IN_WARMUP => {
            let message = format!("Service temporarily unavailable: {}", error.message);
            RestAnswer::error(503, message)
        }
        _ => RestAnswer::error(500, error.message.clone()),
    }
}

fn hash(text: &str) -> Result<Hash, RestAnswer> {
    text.parse().map_err(|_| RestAnswer::bad(format!("Invalid hash: {text}")))
}

fn header_count(text: &str) -> Result<usize, RestAnswer> {
    let count = unsigned(text).filter(|count| (1..=HEADERS_MAX as u64).contains(count));
    count.map(|count| count as usize).ok_or_else(|| {
        RestAnswer::bad(format!(
            "Header count is invalid or out of acceptable range (1-{HEADERS_MAX}): {text}"
        ))
    })
}

/// Reads a number without a sign (Core's `ToIntegral`).
fn unsigned(text: &str) -> Option<u64> {
    text.bytes().all(|digit| digit.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn headers(request: &Request) -> Answer {
    let parts = request.path.parts();
    let (count, text) = match parts[..] {
        [hash] => (request.count()?, hash),
        [count, hash] => (header_count(count)?, hash),
        _ => {
            return Err(RestAnswer::bad(
                "Invalid URI format. Expected /rest/headers/<hash>.<ext>?count=<count>",
            ));
        }
    };
    let first = hash(text)?;
    let format = request.path.format;
    request.look(|it| {
        let ids = from_active(it, &first).take(count);
        match format {
            Format::Json => {
                let answers: Vec<_> = ids.map(|id| HeaderAnswer::new(it, id)).collect();
                Ok(RestAnswer::json(&json(&answers)))
            }
            _ => RestAnswer::bytes(
                format,
                ids.flat_map(|id| it.tree.header(id).to_bytes()).collect(),
            ),
        }
    })?
}

/// Returns the blocks of the active chain from the one with this hash on; none if it is not in it.
fn from_active<'a>(it: &'a Committed, first: &Hash) -> impl Iterator<Item = BlockId> + 'a {
    let first = it.tree.find(first).filter(|id| it.active.contains(&it.tree, *id));
    let from = first.map_or(u32::MAX, |id| it.tree.node(id).height);
    (from..=u32::MAX).map_while(|height| it.active.at(height))
}

fn block(request: &Request, detail: Option<Detail>, part: Option<(u64, u64)>) -> Answer {
    let text = request.path.whole;
    let (header, stored) =
        request.look_at(text, |it, id| (HeaderAnswer::new(it, id), StoredBlock::new(it, id)))?;
    if stored.pos.is_none() {
        let why = if stored.is_pruned { "pruned data" } else { "not fully downloaded" };
        return Err(RestAnswer::not_found(format!("{text} not available ({why})")));
    }
    let unreadable = || RestAnswer::error(500, format!("I/O error reading {text}"));
    let bytes = match part {
        None => stored.read().map_err(|_| unreadable())?,
        Some((offset, size)) => {
            let len = stored.len().map_err(|_| unreadable())?;
            let end = offset.checked_add(size).filter(|end| size > 0 && *end <= u64::from(len));
            let end = end.ok_or_else(|| {
                RestAnswer::bad(format!("Bad block part offset/size {offset}/{size} for {text}"))
            })?;
            let read = stored.read_part(offset as usize..end as usize);
            read.map_err(|_| unreadable())?
        }
    };
    match (request.path.format, detail) {
        (Format::Json, Some(detail)) => {
            let chain = request.source.chain();
            let answer = block_json(&header, &stored, &bytes, detail, chain);
            Ok(RestAnswer::json(&answer.map_err(|error| failed(&error))?))
        }
        (Format::Json, None) => {
            Err(RestAnswer::bad("JSON output is not supported for this request type"))
        }
        (format, _) => RestAnswer::bytes(format, bytes),
    }
}

fn block_part(request: &Request) -> Answer {
    let number = |name: &str| {
        let number = unsigned(&request.parameter(name).unwrap_or_default());
        let message = || RestAnswer::bad(format!("Block part {name} missing or invalid"));
        number.ok_or_else(message)
    };
    let part = (number("offset")?, number("size")?);
    block(request, None, Some(part))
}

fn spent_txouts(request: &Request) -> Answer {
    let [text] = request.path.parts()[..] else {
        return Err(RestAnswer::bad("Invalid URI format. Expected /rest/spenttxouts/<hash>.<ext>"));
    };
    let stored = request.look_at(text, StoredBlock::new)?;
    let missing = || RestAnswer::not_found(format!("{text} undo not available"));
    let spent = match stored.height {
        0 => Vec::new(),
        _ => {
            let bytes = stored.read().map_err(|_| missing())?;
            let view = parse(&bytes).map_err(|_| missing())?;
            stored.spent(&view).ok().flatten().ok_or_else(missing)?
        }
    };
    match request.path.format {
        Format::Json => Ok(RestAnswer::json(&spent_json(request.source, &spent))),
        format => RestAnswer::bytes(format, spent_bytes(&spent)),
    }
}

#[derive(Serialize)]
struct SpentOutput {
    value: Amount,
    #[serde(rename = "scriptPubKey")]
    script: ScriptPubKey,
}

fn spent_json(source: &Source, spent: &[Vec<Coin>]) -> Json {
    let output = |coin: &Coin| SpentOutput {
        value: Amount(coin.amount as i64),
        script: script_of(coin, source.chain()),
    };
    // The coinbase spends nothing.
    let mut lists = vec![Vec::new()];
    lists.extend(spent.iter().map(|coins| coins.iter().map(output).collect()));
    json(&lists)
}

fn spent_bytes(spent: &[Vec<Coin>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_compact_size(&mut bytes, spent.len() as u64 + 1);
    put_compact_size(&mut bytes, 0);
    for coins in spent {
        put_compact_size(&mut bytes, coins.len() as u64);
        coins.iter().for_each(|coin| put_output(&mut bytes, coin));
    }
    bytes
}

/// Appends the output that created a coin.
fn put_output(bytes: &mut Vec<u8>, coin: &Coin) {
    bytes.extend_from_slice(&coin.amount.to_le_bytes());
    let script = script_bytes(coin);
    put_compact_size(bytes, script.len() as u64);
    bytes.extend_from_slice(&script);
}

/// Returns the error for an endpoint that has JSON alone.
fn json_alone() -> RestAnswer {
    RestAnswer::not_found("output format not found (available: json)")
}

fn chain_info(request: &Request) -> Answer {
    match request.path.format {
        Format::Json => request.call("getblockchaininfo", &[]),
        _ => Err(json_alone()),
    }
}

fn deployment_info(request: &Request) -> Answer {
    let text = request.path.whole;
    match request.path.format {
        Format::Json if text.is_empty() => request.call("getdeploymentinfo", &[]),
        Format::Json => {
            let found = request.look_at(text, |_, _| ());
            found.map_err(|error| match error.status {
                404 => RestAnswer::bad("Block not found"),
                _ => error,
            })?;
            request.call("getdeploymentinfo", &[text.into()])
        }
        _ => Err(json_alone()),
    }
}

/// Answers about the mempool, which is empty.
fn mempool(request: &Request) -> Answer {
    request.look(|_| ())?;
    let flag = |name: &str, default: bool| match request.parameter(name).as_deref() {
        None => Ok(default),
        Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err(RestAnswer::bad(format!(
            "The \"{name}\" query parameter must be either \"true\" or \"false\"."
        ))),
    };
    match (request.path.whole, request.path.format) {
        ("info", Format::Json) => request.call("getmempoolinfo", &[]),
        ("contents", Format::Json) => {
            let verbose = flag("verbose", true)?;
            let sequence = flag("mempool_sequence", false)?;
            if verbose && sequence {
                return Err(RestAnswer::bad(
                    "Verbose results cannot contain mempool sequence values. (hint: set \
                     \"verbose=false\")",
                ));
            }
            request.call("getrawmempool", &[verbose.into(), sequence.into()])
        }
        ("info" | "contents", _) => Err(json_alone()),
        _ => {
            let what = "Invalid URI format. Expected /rest/mempool/<info|contents>.json";
            Err(RestAnswer::bad(what))
        }
    }
}

fn tx(request: &Request) -> Answer {
    let text = request.path.whole;
    let source = request.source;
    let txid = hash(text)?;
    request.look(|_| ())?;
    let state = source.indexes.caught_up(&source.view, IndexKind::TxIndex, request.waiting);
    state.map_err(|error| failed(&error))?;
    let found = source.indexes.transaction(&source.view, &txid);
    let found = found.map_err(|error| failed(&error))?;
    let found = found.ok_or_else(|| RestAnswer::not_found(format!("{text} not found")))?;
    match request.path.format {
        Format::Json => {
            let tx = Transaction::new(found.tx(), Spent::Unknown, source.chain());
            Ok(RestAnswer::json(&json(&tx.in_block(found.block))))
        }
        format => RestAnswer::bytes(format, found.tx().bytes().to_vec()),
    }
}

fn block_filter(request: &Request) -> Answer {
    let [kind, text] = request.path.parts()[..] else {
        return Err(RestAnswer::bad(
            "Invalid URI format. Expected /rest/blockfilter/<filtertype>/<blockhash>",
        ));
    };
    let hash = hash(text)?;
    let state = filter_index(request, kind)?;
    let found = request.look(|it| Block::find(it, &hash))?;
    let block = found.map_err(|_| RestAnswer::not_found(format!("{text} not found")))?;
    let filter = filter(request.source, (&block, &hash), state);
    let bytes = filter.map_err(|error| RestAnswer::not_found(error.message))?.bytes;
    match request.path.format {
        Format::Json => {
            let answer = std::collections::BTreeMap::from([("filter", hex(&bytes))]);
            Ok(RestAnswer::json(&json(&answer)))
        }
        format => {
            // The type of the filter, 0 for basic, and the hash of the block.
            let mut whole = vec![0];
            whole.extend_from_slice(&hash.0);
            put_compact_size(&mut whole, bytes.len() as u64);
            whole.extend_from_slice(&bytes);
            RestAnswer::bytes(format, whole)
        }
    }
}

fn block_filter_headers(request: &Request) -> Answer {
    let (kind, count, text) = match request.path.parts()[..] {
        [kind, text] => (kind, request.count()?, text),
        [kind, count, text] => (kind, header_count(count)?, text),
        _ => {
            return Err(RestAnswer::bad(
                "Invalid URI format. Expected \
                 /rest/blockfilterheaders/<filtertype>/<blockhash>.<ext>?count=<count>",
            ));
        }
    };
    let first = hash(text)?;
    let state = filter_index(request, kind)?;
    let blocks: Vec<(u32, Hash)> = request.look(|it| {
        let ids = from_active(it, &first).take(count);
        ids.map(|id| it.tree.node(id)).map(|block| (block.height, block.hash)).collect()
    })?;
    let reader = &request.source.indexes.reader;
    let mut headers = Vec::with_capacity(blocks.len());
    for (height, hash) in blocks {
        let found = reader.filter_header(height, &hash);
        let found = found.map_err(|error| failed(&RpcError::new(RPC_MISC_ERROR, error)))?;
        let missing = || RestAnswer::not_found(missing(true, state).message);
        headers.push(found.ok_or_else(missing)?);
    }
    match request.path.format {
        Format::Json => {
            let texts: Vec<String> = headers.iter().map(Hash::to_string).collect();
            Ok(RestAnswer::json(&json(&texts)))
        }
        format => RestAnswer::bytes(format, headers.iter().flat_map(|header| header.0).collect()),
    }
}

/// Returns the state of the index of filters of a type.
fn filter_index(request: &Request, kind: &str) -> Result<IndexSummary, RestAnswer> {
    request.look(|_| ())?;
    if kind != BASIC {
        return Err(RestAnswer::bad(format!("Unknown filtertype {kind}")));
    }
    let source = request.source;
    let state =
        source.indexes.caught_up(&source.view, IndexKind::BlockFilterIndex, request.waiting);
    let state = state.map_err(|error| failed(&error))?;
    state.ok_or_else(|| RestAnswer::bad("Index is not enabled for filtertype basic"))
}

fn block_hash_by_height(request: &Request) -> Answer {
    let text = request.path.whole;
    let height = unsigned(text).and_then(|height| i32::try_from(height).ok());
    let height = height.ok_or_else(|| {
        let safe = text
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || "-_.!~*'();/?:@&=+$,#%".contains(*c));
        RestAnswer::bad(format!("Invalid height: {}", safe.collect::<String>()))
    })?;
    let find = |it: &Committed| it.active.at(height as u32).map(|id| it.tree.node(id).hash);
    let found = request.look(find)?;
    let found = found.ok_or_else(|| RestAnswer::not_found("Block height out of range"))?;
    match request.path.format {
        Format::Json => {
            let answer = std::collections::BTreeMap::from([("blockhash", found.to_string())]);
            Ok(RestAnswer::json(&json(&answer)))
        }
        Format::Hex => Ok(RestAnswer::text(format!("{found}\n"))),
        format => RestAnswer::bytes(format, found.0.to_vec()),
    }
}

#[derive(Serialize)]
struct Utxos {
    #[serde(rename = "chainHeight")]
    chain_height: u32,
    #[serde(rename = "chaintipHash")]
    chaintip_hash: String,
    bitmap: String,
    utxos: Vec<Utxo>,
}

#[derive(Serialize)]
struct Utxo {
    height: u32,
    value: Amount,
    #[serde(rename = "scriptPubKey")]
    script: ScriptPubKey,
}

/// Unspent outputs (BIP64).
fn get_utxos(request: &Request) -> Answer {
    let outpoints = outpoints(request)?;
    let (coins, tip) = request.look(|it| (it.coins.clone(), it.tip()))?;
    let found: Result<Vec<Option<Coin>>, _> = outpoints.iter().map(|at| coins.get(at)).collect();
    let found = found.map_err(|error| failed(&RpcError::new(RPC_MISC_ERROR, error)))?;
    let hits: Vec<bool> = found.iter().map(Option::is_some).collect();
    let found: Vec<Coin> = found.into_iter().flatten().collect();
    if request.path.format == Format::Json {
        let chain = request.source.chain();
        let utxo = |coin: &Coin| Utxo {
            height: coin.height,
            value: Amount(coin.amount as i64),
            script: script_of(coin, chain),
        };
        return Ok(RestAnswer::json(&json(&Utxos {
            chain_height: tip.height,
            chaintip_hash: tip.hash.to_string(),
            bitmap: hits.iter().map(|hit| if *hit { '1' } else { '0' }).collect(),
            utxos: found.iter().map(utxo).collect(),
        })));
    }
    let mut bytes = tip.height.to_le_bytes().to_vec();
    bytes.extend_from_slice(&tip.hash.0);
    let bits = |chunk: &[bool]| {
        chunk.iter().enumerate().fold(0, |bits, (index, hit)| bits | u8::from(*hit) << index)
    };
    let bitmap: Vec<u8> = hits.chunks(8).map(bits).collect();
    put_compact_size(&mut bytes, bitmap.len() as u64);
    bytes.extend_from_slice(&bitmap);
    put_compact_size(&mut bytes, found.len() as u64);
    for coin in &found {
        // Once the version of the transaction.
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&coin.height.to_le_bytes());
        put_output(&mut bytes, coin);
    }
    RestAnswer::bytes(request.path.format, bytes)
}

/// Reads the outpoints of a request, in its path or its body.
fn outpoints(request: &Request) -> Result<Vec<OutPoint>, RestAnswer> {
    let empty = || RestAnswer::bad("Error: empty request");
    // The path may begin with a slash.
    let mut after_first = request.path.whole.chars();
    after_first.next();
    let parts: Vec<&str> = match after_first.as_str() {
        "" => Vec::new(),
        path => path.split('/').collect(),
    };
    if parts.is_empty() && request.body.is_empty() {
        return Err(empty());
    }
    // Apus has no mempool, so that none of its transactions spends or creates an output.
    let skipped = usize::from(parts.first() == Some(&"checkmempool"));
    let in_path: Result<Vec<OutPoint>, RestAnswer> =
        parts.iter().skip(skipped).map(|part| outpoint(part)).collect();
    let mut outpoints = in_path?;
    if !parts.is_empty() && outpoints.is_empty() {
        return Err(empty());
    }
    let format = request.path.format;
    let body = match format {
        Format::Hex => from_hex(&without_space(request.body)).unwrap_or_default(),
        _ => request.body.to_vec(),
    };
    match format {
        Format::Json if outpoints.is_empty() => return Err(empty()),
        Format::Unknown => return Err(RestAnswer::unknown_format()),
        Format::Hex | Format::Binary if !body.is_empty() => {
            if !outpoints.is_empty() {
                return Err(RestAnswer::bad(
                    "Combination of URI scheme inputs and raw post data is not allowed",
                ));
            }
            outpoints = posted(&body).ok_or_else(parse_error)?;
        }
        _ => {}
    }
    if outpoints.len() > OUTPOINTS_MAX {
        return Err(RestAnswer::bad(format!(
            "Error: max outpoints exceeded (max: {OUTPOINTS_MAX}, tried: {})",
            outpoints.len()
        )));
    }
    Ok(outpoints)
}

fn parse_error() -> RestAnswer {
    RestAnswer::bad("Parse error")
}

fn outpoint(text: &str) -> Result<OutPoint, RestAnswer> {
    let (txid, vout) = text.split_once('-').ok_or_else(parse_error)?;
    let vout = unsigned(vout).and_then(|vout| u32::try_from(vout).ok());
    match (txid.parse(), vout) {
        (Ok(txid), Some(vout)) => Ok(OutPoint { txid, vout }),
        _ => Err(parse_error()),
    }
}

fn without_space(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().filter(|c| !c.is_ascii_whitespace()).collect()
}

/// Reads outpoints from the body of a request. Core puts the length of the body before it, as a
/// CompactSize, and then reads a flag, which a short body's length stands for, and the outpoints:
/// clients that work with Core send no flag.
fn posted(body: &[u8]) -> Option<Vec<OutPoint>> {
    let mut bytes = Vec::new();
    put_compact_size(&mut bytes, body.len() as u64);
    bytes.extend_from_slice(body);
    let mut cursor = Cursor::new(&bytes);
    cursor.u8().ok()?;
    let count = cursor.compact_size().ok()?;
    let outpoint = |_| Some(OutPoint::from_bytes(cursor.take(36).ok()?.try_into().ok()?));
    (0..count).map(outpoint).collect()
}
