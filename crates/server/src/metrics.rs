//! The metrics at `/metrics`, in Prometheus's text format. Those of the chain and the network have
//! the names that bitcoin-prometheus-exporter gives them, so that the Grafana boards for Bitcoin
//! Core show them; those of the work begin with `apus_`. All are gathered when they are asked for.

use std::fmt;

use apus_host::resources;
use apus_progress::Progress;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};

use super::live::Live;

/// A number of an answer: its name and help, and where it is in the answer of a method.
struct OfAnswer {
    name: &'static str,
    help: &'static str,
    /// Where the number is; empty for the whole answer. The length of an array counts.
    pointer: &'static str,
    scale: f64,
}

const fn of(name: &'static str, help: &'static str, pointer: &'static str) -> OfAnswer {
    OfAnswer { name, help, pointer, scale: 1.0 }
}

const fn satoshis(name: &'static str, help: &'static str, pointer: &'static str) -> OfAnswer {
    OfAnswer { name, help, pointer, scale: 1e-8 }
}

/// The methods, each with its parameter, and what of its answer is shown.
const ANSWERS: &[(&str, Option<i64>, &[OfAnswer])] = &[
    (
        "getblockchaininfo",
        None,
        &[
            of("bitcoin_blocks", "Height of the last validated block", "/blocks"),
            of("bitcoin_headers", "Height of the best header", "/headers"),
            of("bitcoin_difficulty", "Difficulty", "/difficulty"),
            of("bitcoin_size_on_disk", "Bytes of block and undo files", "/size_on_disk"),
            of(
                "bitcoin_verification_progress",
                "Share of the work that is verified, from 0 to 1",
                "/verificationprogress",
            ),
            of(
                "bitcoin_initial_block_download",
                "1 until the chain has caught up",
                "/initialblockdownload",
            ),
        ],
    ),
    (
        "getnetworkinfo",
        None,
        &[
            of("bitcoin_peers", "Number of peers", "/connections"),
            of("bitcoin_conn_in", "Number of peers that connected to us", "/connections_in"),
            of("bitcoin_conn_out", "Number of peers that we connected to", "/connections_out"),
            of("bitcoin_server_version", "Version of the server", "/version"),
            of("bitcoin_protocol_version", "Version of the protocol", "/protocolversion"),
        ],
    ),
    (
        "getnettotals",
        None,
        &[
            of("bitcoin_total_bytes_recv", "Bytes received from peers", "/totalbytesrecv"),
            of("bitcoin_total_bytes_sent", "Bytes sent to peers", "/totalbytessent"),
        ],
    ),
    (
        "getmempoolinfo",
        None,
        &[
            of("bitcoin_mempool_size", "Transactions in the mempool", "/size"),
            of("bitcoin_mempool_bytes", "Bytes of the mempool", "/bytes"),
            of("bitcoin_mempool_usage", "Memory of the mempool", "/usage"),
            of(
                "bitcoin_mempool_unbroadcast",
                "Transactions not yet sent to a peer",
                "/unbroadcastcount",
            ),
        ],
    ),
    (
        "getmemoryinfo",
        None,
        &[
            of("bitcoin_meminfo_used", "Locked memory in use", "/locked/used"),
            of("bitcoin_meminfo_free", "Locked memory that is free", "/locked/free"),
            of("bitcoin_meminfo_total", "Locked memory in all", "/locked/total"),
        ],
    ),
    ("uptime", None, &[of("bitcoin_uptime", "Seconds since the start", "")]),
    ("getchaintips", None, &[of("bitcoin_num_chaintips", "Number of branches", "")]),
    ("getchaintxstats", None, &[of("bitcoin_txcount", "Transactions of the chain", "/txcount")]),
    (
        "getrpcinfo",
        None,
        &[of("bitcoin_rpc_active", "Calls that are being answered", "/active_commands")],
    ),
    ("getnetworkhashps", Some(120), &[of("bitcoin_hashps", "Hashes a second, 120 blocks", "")]),
    ("getnetworkhashps", Some(1), &[of("bitcoin_hashps_1", "Hashes a second, last block", "")]),
    (
        "getnetworkhashps",
        Some(-1),
        &[of("bitcoin_hashps_neg1", "Hashes a second since the difficulty changed", "")],
    ),
];

/// What is shown of the answer of `getblockstats` about the last block.
const LATEST_BLOCK: &[OfAnswer] = &[
    of("bitcoin_latest_block_height", "Height of the last block", "/height"),
    of("bitcoin_latest_block_size", "Bytes of the last block", "/total_size"),
    of("bitcoin_latest_block_weight", "Weight of the last block", "/total_weight"),
    of("bitcoin_latest_block_txs", "Transactions of the last block", "/txs"),
    of("bitcoin_latest_block_inputs", "Inputs of the last block", "/ins"),
    of("bitcoin_latest_block_outputs", "Outputs of the last block", "/outs"),
    satoshis("bitcoin_latest_block_value", "Bitcoins moved in the last block", "/total_out"),
    satoshis("bitcoin_latest_block_fee", "Fees of the last block, in bitcoins", "/totalfee"),
];

/// A metric, with its values by labels.
#[derive(Debug)]
struct Metric {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    values: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// All metrics.
#[derive(Debug, Default)]
struct Metrics(Vec<Metric>);

/// Returns all metrics as text. `ask` calls a method; what it does not answer is left out.
pub(crate) fn text(live: &Live, ask: impl Fn(&str, &[Value]) -> Option<Value>) -> String {
    let mut metrics = Metrics::default();
    for (method, param, shown) in ANSWERS {
        let params: Vec<Value> = param.iter().map(|param| json!(param)).collect();
        metrics.of_answer(ask(method, &params), shown);
    }
    let tip = ask("getbestblockhash", &[]);
    metrics.of_answer(tip.and_then(|tip| ask("getblockstats", &[tip])), LATEST_BLOCK);
    metrics.of_process(live);
    if let Some(progress) = live.progress() {
        metrics.of_progress(&progress);
    }
    metrics.of_peers(live);
    metrics.of_work(live);
    let mut registry = Registry::default();
    registry.register_collector(Box::new(metrics));
    let mut text = String::new();
    encode(&mut text, &registry).expect("a text can be written to");
    text
}

impl Metrics {
    fn gauge(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.many(name, help, MetricType::Gauge, [(vec![], value)]);
    }

    fn counter(&mut self, name: &'static str, help: &'static str, value: f64) {
        self.many(name, help, MetricType::Counter, [(vec![], value)]);
    }

    fn many(
        &mut self,
        name: &'static str,
        help: &'static str,
        kind: MetricType,
        values: impl IntoIterator<Item = (Vec<(&'static str, String)>, f64)>,
    ) {
        self.0.push(Metric { name, help, kind, values: values.into_iter().collect() });
    }

    fn of_answer(&mut self, answer: Option<Value>, shown: &[OfAnswer]) {
        let Some(answer) = answer else { return };
        for OfAnswer { name, help, pointer, scale } in shown {
            let number = match answer.pointer(pointer) {
                Some(Value::Number(number)) => number.as_f64(),
                Some(Value::Bool(is)) => Some(f64::from(u8::from(*is))),
                Some(Value::Array(list)) => Some(list.len() as f64),
                _ => None,
            };
            if let Some(number) = number {
                self.gauge(name, help, number * scale);
            }
        }
    }

    fn of_process(&mut self, live: &Live) {
        self.counter("bitcoin_warnings", "Warnings so far", live.warnings() as f64);
        if let Some(memory) = resources::memory_in_use() {
            let kinds = [("all", memory.bytes), ("mapped", memory.mapped)];
            let values =
                kinds.map(|(kind, bytes)| (vec![("kind", kind.to_string())], bytes as f64));
            let help = "Bytes of the process in RAM: all, and those of mapped files";
            self.many("apus_memory_bytes", help, MetricType::Gauge, values);
        }
        let cpu = resources::cpu_time().as_secs_f64();
        self.counter("apus_cpu_seconds", "Processor time of all threads", cpu);
    }

    fn of_progress(&mut self, progress: &Progress) {
        let Progress { phase, height, blocks, bytes, coins, fraction, download, upload, .. } =
            progress;
        let of_phase = [(vec![("phase", phase.words().to_string())], 1.0)];
        self.many("apus_phase", "1 for the present phase", MetricType::Gauge, of_phase);
        self.gauge("apus_height", "Height of the present phase", f64::from(*height));
        self.gauge("apus_phase_blocks", "Blocks of the phase so far", *blocks as f64);
        self.gauge("apus_phase_bytes", "Bytes of the phase so far", *bytes as f64);
        self.gauge("apus_phase_done", "Share of the phase that is done, from 0 to 1", *fraction);
        self.gauge("apus_coins_cached", "Coins in the cache", *coins as f64);
        if let Some(estimate) = &progress.estimate {
            let help = "Share of the run's known work that is done, from 0 to 1";
            self.gauge("apus_done", help, estimate.of_run().unwrap_or(0.0));
            let times =
                estimate.left.as_ref().into_iter().flat_map(|left| {
                    [("low", left.low), ("median", left.median), ("high", left.high)]
                });
            let times =
                times.map(|(at, time)| (vec![("bound", at.to_string())], time.as_secs_f64()));
            let help = "Time left of the run, and its range";
            self.many("apus_left_seconds", help, MetricType::Gauge, times);
        }
        if let Some(download) = download {
            self.counter("apus_download_bytes", "Bytes received from peers", download.bytes as f64);
            let help = "Bytes of wanted blocks that have not arrived";
            self.gauge("apus_download_left_bytes", help, download.left as f64);
            let help = "Time in which at least one thread waited for a block of a peer";
            self.counter("apus_download_waited_seconds", help, download.waited.as_secs_f64());
        }
        if let Some(upload) = upload {
            self.counter("apus_upload_bytes", "Bytes sent to peers", upload.bytes as f64);
            self.counter("apus_upload_blocks", "Blocks sent to peers", upload.blocks as f64);
        }
    }

    fn of_peers(&mut self, live: &Live) {
        let peers = live.peers();
        let label = |address: &str| vec![("peer", address.to_string())];
        let bytes = peers.iter().map(|peer| (label(&peer.address), peer.block_bytes as f64));
        let help = "Bytes of blocks that each peer has sent";
        self.many("apus_peer_block_bytes", help, MetricType::Counter, bytes);
        let speeds =
            peers.iter().filter_map(|peer| Some((label(&peer.address), peer.speed? as f64)));
        let help = "Bytes a second of each peer while blocks are requested from it";
        self.many("apus_peer_bytes_per_second", help, MetricType::Gauge, speeds);
    }

    fn of_work(&mut self, live: &Live) {
        let Some(meters) = live.meters() else { return };
        let stages = meters.clock.stages().into_iter();
        let stages =
            stages.map(|(stage, time)| (vec![("stage", stage.to_string())], time.as_secs_f64()));
        let help = "Time of each stage, over all threads";
        self.many("apus_stage_seconds", help, MetricType::Counter, stages);
        let waits = meters.clock.waits();
        let waited = [
            ("blocks", waits.blocks),
            ("peers", waits.peers),
            ("checks", waits.checks),
            ("commits", waits.commits),
        ];
        let waited =
            waited.map(|(what, time)| (vec![("for", what.to_string())], time.as_secs_f64()));
        let help = "Time that the thread which connects blocks has waited";
        self.many("apus_wait_seconds", help, MetricType::Counter, waited);
        let queues = [("ready", waits.ready), ("in_checks", waits.in_flight)];
        let queues = queues.map(|(queue, blocks)| (vec![("queue", queue.to_string())], blocks));
        let help = "Mean number of blocks in each queue";
        self.many("apus_queue_blocks", help, MetricType::Gauge, queues);
        let stalls = waits.stalls.iter().sum::<u64>() as f64;
        self.counter("apus_stalls", "Waits for coins to be written", stalls);
        let longest = waits.longest_stall.as_secs_f64();
        self.gauge("apus_longest_stall_seconds", "The longest of these waits", longest);
        let help = "Coins read from the tables";
        self.counter("apus_coins_looked_up", help, waits.looked_up as f64);
        let help = "How often coins and their best block were written";
        self.counter("apus_commits", help, meters.clock.commits() as f64);
        let help = "Bytes that the join has written to temporary files";
        self.gauge("apus_spilled_bytes", help, meters.clock.spilled() as f64);
        let [fast, core, signatures] = meters.scripts.totals();
        let engines = [("fast", fast), ("core", core)];
        let engines =
            engines.map(|(engine, inputs)| (vec![("engine", engine.to_string())], inputs as f64));
        let help = "Inputs whose scripts each engine has checked";
        self.many("apus_inputs_checked", help, MetricType::Counter, engines);
        let help = "Signatures verified side by side";
        self.counter("apus_signatures", help, signatures as f64);
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for Metric { name, help, kind, values } in &self.0 {
            if values.is_empty() {
                continue;
            }
            let mut metric = encoder.encode_descriptor(name, help, None, *kind)?;
            for (labels, value) in values {
                let mut one = metric.encode_family(labels)?;
                match kind {
                    MetricType::Counter => one.encode_counter::<NoLabelSet, _, f64>(value, None)?,
                    _ => one.encode_gauge(value)?,
                }
            }
        }
        Ok(())
    }
}
