//! The deployments of consensus rules.

use apus_chain::BlockId;
use apus_consensus::script_flags;
use apus_node::view::Committed;
use apus_wire::{Chain, Network, flags};
use serde::Serialize;

use super::error::RpcError;
use super::json::{Json, json};
use super::params;
use super::source::{Call, find};

/// Core's flags of script verification that blocks are checked with, by name.
const FLAG_NAMES: [(&str, u32); 7] = [
    ("CHECKLOCKTIMEVERIFY", flags::CHECKLOCKTIMEVERIFY),
    ("CHECKSEQUENCEVERIFY", flags::CHECKSEQUENCEVERIFY),
    ("DERSIG", flags::DERSIG),
    ("NULLDUMMY", flags::NULLDUMMY),
    ("P2SH", flags::P2SH),
    ("TAPROOT", flags::TAPROOT),
    ("WITNESS", flags::WITNESS),
];

#[derive(Serialize)]
struct DeploymentInfo {
    hash: String,
    height: u32,
    script_flags: Vec<&'static str>,
    deployments: Deployments,
}

/// The deployments, by name.
struct Deployments(Vec<(&'static str, Json)>);

impl Serialize for Deployments {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, deployment)| (name, deployment)))
    }
}

/// `getdeploymentinfo`.
pub fn getdeploymentinfo(call: &Call) -> Result<Json, RpcError> {
    let hash = call.param(0);
    let hash = if hash.is_null() { None } else { Some(params::hash(hash, "blockhash")?) };
    let network = &call.source.network;
    call.source.try_look(|committed| {
        let id = match hash {
            None => committed.tip_id(),
            Some(hash) => find(committed, &hash)?,
        };
        let block = committed.tree.node(id);
        let set = script_flags(network, block.height, &block.hash);
        let names = FLAG_NAMES.iter().filter(|(_, flag)| set & flag != 0).map(|(name, _)| *name);
        Ok(json(&DeploymentInfo {
            hash: block.hash.to_string(),
            height: block.height,
            script_flags: names.collect(),
            deployments: Deployments(deployments(committed, id, network)),
        }))
    })
}

#[derive(Serialize)]
struct Buried {
    #[serde(rename = "type")]
    kind: &'static str,
    active: bool,
    height: u32,
}

fn deployments(committed: &Committed, id: BlockId, network: &Network) -> Vec<(&'static str, Json)> {
    let next = committed.tree.node(id).height + 1;
    let buried = [
        ("bip34", network.bip34_height),
        ("bip66", network.bip66_height),
        ("bip65", network.bip65_height),
        ("csv", network.csv_height),
        ("segwit", network.segwit_height),
    ];
    let of =
        |(name, height)| (name, json(&Buried { kind: "buried", active: next >= height, height }));
    let mut all: Vec<_> = buried.into_iter().map(of).collect();
    // On the other networks it is never active, and not shown.
    if network.chain == Chain::Regtest {
        all.push(("testdummy", json(&TestDummy(committed).after(id))));
    }
    all
}

/// The deployment that Core tests BIP9 with, on regtest.
struct TestDummy<'a>(&'a Committed);

const PERIOD: u32 = 144;
const THRESHOLD: u32 = 108;
const BIT: u32 = 28;
const VERSION_TOP_MASK: u32 = 0xe000_0000;
const VERSION_TOP_BITS: u32 = 0x2000_0000;

/// The state of a deployment (Core's `ThresholdState`), of those that this one can be in: it starts
/// at once and has no end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThresholdState {
    Defined,
    Started,
    LockedIn,
    Active,
}

impl ThresholdState {
    fn name(self) -> &'static str {
        match self {
            Self::Defined => "defined",
            Self::Started => "started",
            Self::LockedIn => "locked_in",
            Self::Active => "active",
        }
    }
}

#[derive(Serialize)]
struct Bip9Deployment {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<u32>,
    active: bool,
    bip9: Bip9,
}

#[derive(Serialize)]
struct Bip9 {
    #[serde(skip_serializing_if = "Option::is_none")]
    bit: Option<u32>,
    start_time: i64,
    timeout: i64,
    min_activation_height: u32,
    status: &'static str,
    since: u32,
    status_next: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    statistics: Option<Statistics>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signalling: Option<String>,
}

#[derive(Serialize)]
struct Statistics {
    period: u32,
    elapsed: u32,
    count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    possible: Option<bool>,
}

impl TestDummy<'_> {
    /// Returns the deployment as it is after the block `id` (Core's `VersionBitsCache::Info`).
    fn after(&self, id: BlockId) -> Bip9Deployment {
        let height = self.0.tree.node(id).height;
        let states = self.states(id, height + 1);
        let at = |height: u32| states[(height / PERIOD) as usize];
        let now = at(height);
        let next = at(height + 1);
        let first = states.iter().position(|state| *state == now).unwrap_or(0) as u32;
        let since = first * PERIOD;
        let active_since = if now == ThresholdState::Active {
            Some(since)
        } else if next == ThresholdState::Active {
            Some(height + 1)
        } else {
            None
        };
        let signals =
            matches!(now, ThresholdState::Started | ThresholdState::LockedIn).then(|| {
                let period = height - height % PERIOD..=height;
                period.map(|height| self.signals(id, height)).collect::<Vec<bool>>()
            });
        let statistics = signals.as_ref().map(|signals| {
            let elapsed = signals.len() as u32;
            let count = signals.iter().filter(|signal| **signal).count() as u32;
            let counts = now == ThresholdState::Started;
            let possible = PERIOD - THRESHOLD >= elapsed - count;
            Statistics {
                period: PERIOD,
                elapsed,
                count,
                threshold: counts.then_some(THRESHOLD),
                possible: counts.then_some(possible),
            }
        });
        let marks = |signals: Vec<bool>| {
            signals.into_iter().map(|signal| if signal { '#' } else { '-' }).collect()
        };
        Bip9Deployment {
            kind: "bip9",
            height: active_since,
            active: active_since.is_some_and(|since| since <= height + 1),
            bip9: Bip9 {
                bit: signals.is_some().then_some(BIT),
                start_time: 0,
                timeout: i64::MAX,
                min_activation_height: 0,
                status: now.name(),
                since,
                status_next: next.name(),
                statistics,
                signalling: signals.map(marks),
            },
        }
    }

    /// Returns the state in each period up to that of `height`, on the branch of `id`.
    fn states(&self, id: BlockId, height: u32) -> Vec<ThresholdState> {
        let mut states = vec![ThresholdState::Defined];
        for period in 1..=height / PERIOD {
            let before = (period - 1) * PERIOD..period * PERIOD;
            let count = || before.filter(|height| self.signals(id, *height)).count() as u32;
            states.push(match states[period as usize - 1] {
                ThresholdState::Defined => ThresholdState::Started,
                ThresholdState::Started if count() >= THRESHOLD => ThresholdState::LockedIn,
                ThresholdState::Started => ThresholdState::Started,
                ThresholdState::LockedIn | ThresholdState::Active => ThresholdState::Active,
            });
        }
        states
    }

    /// Returns whether the block at `height` of the branch of `id` signals readiness.
    fn signals(&self, id: BlockId, height: u32) -> bool {
        let tree = &self.0.tree;
        let version = tree.ancestor(id, height).map(|id| tree.header(id).version as u32);
        version.is_some_and(|version| {
            version & VERSION_TOP_MASK == VERSION_TOP_BITS && version >> BIT & 1 == 1
        })
    }
}
