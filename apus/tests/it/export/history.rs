//! `apus export --match`: rows against a count by hand, with filters and without, in pruned
//! directories and after reorganisations.

use std::collections::{BTreeMap, HashMap};

use apus_node::{Options, Prune};
use apus_store::IndexKind;
use apus_tables::HISTORY;
use bitcoin::consensus::deserialize;
use bitcoin::{Address, Block, Network, OutPoint, ScriptBuf, TxOut};
use serde_json::Value;

use super::{blocks, synced};
use crate::pruned::{SPARE, options, sync_with, world};
use crate::support::chains::small_fork;
use crate::support::indexes::try_index;
use crate::support::program::{apus, assert_ends, stderr};
use crate::support::swift::{Mode, World};
use crate::support::{Place, with_genesis};

/// The extended key of Core's tests.
pub const TPUB: &str = "tpubD6NzVbkrYhZ4WaWSyoBvQwbpLkojyoTZPRsgXELWz3Popb3qkjcJyJUGLnL4qHHoQ\
                       vao8ESaAstxYSnhyswJ76uZPStJRJCTKvosUCJZL5B";

/// An exported history: its rows in CSV, what `--json` says, the exit status and the warnings.
#[derive(Debug)]
pub struct History {
    pub rows: Vec<String>,
    pub json: Value,
    pub status: Option<i32>,
    pub warnings: String,
}

/// Exports the history of descriptors.
pub fn history(place: &Place, descriptors: &[String], more: &[&str]) -> History {
    let path = place.root().join("history.csv");
    let matching = descriptors.iter().flat_map(|descriptor| ["--match", descriptor]);
    let args = ["export", "--json", "-o", path.to_str().unwrap()];
    let args: Vec<&str> = args.into_iter().chain(matching).chain(more.iter().copied()).collect();
    let output = apus(place, &args);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|_| panic!("{}", stderr(&output)));
    std::fs::remove_file(path).unwrap();
    let names: Vec<&str> = HISTORY.columns.iter().map(|column| column.name).collect();
    let mut lines = text.lines().map(str::to_string);
    assert_eq!(lines.next().unwrap(), names.join(","));
    History {
        rows: lines.collect(),
        json: serde_json::from_slice(&output.stdout).unwrap(),
        status: output.status.code(),
        warnings: stderr(&output),
    }
}

/// Every third script that outputs of these blocks pay to, as descriptors.
pub fn some_scripts(blocks: &[Vec<u8>]) -> Vec<ScriptBuf> {
    let mut seen = BTreeMap::new();
    for bytes in blocks {
        let block: Block = deserialize(bytes).unwrap();
        for output in block.txdata.iter().flat_map(|tx| &tx.output) {
            *seen.entry(output.script_pubkey.clone()).or_insert(0) += 1;
        }
    }
    // Filters do not have the others, and descriptors have at most 10,000 characters.
    let known = seen
        .into_keys()
        .filter(|script| !script.is_empty() && !script.is_op_return() && script.len() < 4_000);
    known.step_by(3).take(400).collect()
}

pub fn raw(scripts: &[ScriptBuf]) -> Vec<String> {
    scripts.iter().map(|script| format!("raw({})", script.to_hex_string())).collect()
}

/// The rows as they are counted by hand.
fn by_hand(blocks: &[Vec<u8>], scripts: &[ScriptBuf]) -> Vec<String> {
    let numbers: HashMap<&ScriptBuf, usize> =
        scripts.iter().enumerate().map(|(number, script)| (script, number)).collect();
    let mut made = HashMap::<OutPoint, TxOut>::new();
    let mut rows = Vec::new();
    for (height, bytes) in blocks.iter().enumerate() {
        let block: Block = deserialize(bytes).unwrap();
        let start = format!("{height},{},{}", block.header.time, block.block_hash());
        for (position, tx) in block.txdata.iter().enumerate() {
            let coinbase = u8::from(position == 0);
            let id = tx.compute_txid();
            let mut push = |side: String, value: u64, prev: String, script: &ScriptBuf| {
                let Some(number) = numbers.get(script) else { return };
                let address = Address::from_script(script, Network::Regtest);
                let address = address.map_or(String::new(), |address| address.to_string());
                let script = script.to_hex_string();
                rows.push(format!(
                    "{start},{id},{side},{value},{coinbase},{prev},{number},,{address},{script}"
                ));
            };
            for (index, input) in tx.input.iter().enumerate().filter(|_| position > 0) {
                let coin = &made[&input.previous_output];
                let OutPoint { txid, vout } = input.previous_output;
                let value = coin.value.to_sat();
                push(
                    format!("input,{index}"),
                    value,
                    format!("{txid},{vout}"),
                    &coin.script_pubkey,
                );
            }
            for (index, output) in tx.output.iter().enumerate() {
                let value = output.value.to_sat();
                push(format!("output,{index}"), value, ",".to_string(), &output.script_pubkey);
                made.insert(OutPoint::new(id, index as u32), output.clone());
            }
        }
    }
    rows
}

#[test]
fn rows_are_those_counted_by_hand_with_filters_and_without() {
    let blocks = blocks();
    let place = synced(&blocks);
    let scripts = some_scripts(&blocks);
    let descriptors = raw(&scripts);
    let expected = by_hand(&blocks, &scripts);
    assert!(expected.iter().any(|row| row.contains(",input,")) && expected.len() > 100);
    let without = history(&place, &descriptors, &[]);
    assert_eq!(without.rows, expected);
    assert_eq!((without.status, &without.json["filters"]), (Some(0), &0.into()));
    assert_eq!(without.json["blocks_read"], blocks.len());
    try_index(&place, &[IndexKind::BlockFilterIndex]).unwrap();
    for more in [&["--par=1"][..], &["--par=3"]] {
        let with = history(&place, &descriptors, more);
        assert_eq!(with.rows, expected);
        assert_eq!(with.json["filters"], blocks.len());
        assert!(with.json["blocks_read"].as_u64().unwrap() < blocks.len() as u64);
    }
    // One script, in a range of heights.
    for (start, stop) in [(0, 200), (160, 180), (170, 170)] {
        let one = history(
            &place,
            &descriptors[5..6],
            &["--start-height", &start.to_string(), "--stop-height", &stop.to_string()],
        );
        let height = |row: &&String| row.split(',').next().unwrap().parse::<u32>().unwrap();
        let rows = by_hand(&blocks, &scripts[5..6]);
        let rows: Vec<_> =
            rows.iter().filter(|row| (start..=stop).contains(&height(row))).cloned().collect();
        assert_eq!(one.rows, rows);
    }
}

#[test]
fn blocks_above_the_index_are_read_and_replaced_ones_left_out() {
    let blocks = blocks();
    let place = synced(&blocks[..181]);
    try_index(&place, &[IndexKind::BlockFilterIndex]).unwrap();
    // The filters end below the tip, and those above the fork are of blocks that were replaced.
    for blocks in [blocks, with_genesis(small_fork(5, 160, 45, 9))] {
        place.sync_blocks("more", &blocks);
        let scripts = some_scripts(&blocks);
        let before = history(&place, &raw(&scripts), &[]);
        assert_eq!(before.rows, by_hand(&blocks, &scripts));
        assert!(before.json["filters"].as_u64().unwrap() < blocks.len() as u64);
        try_index(&place, &[IndexKind::BlockFilterIndex]).unwrap();
        let after = history(&place, &raw(&scripts), &[]);
        assert_eq!(after.rows, before.rows);
        assert_eq!(after.json["filters"], blocks.len());
    }
}

/// Scripts that filters leave out.
#[test]
fn data_outputs_are_found_without_filters() {
    let blocks = blocks();
    let place = synced(&blocks);
    let data = blocks.iter().find_map(|bytes| {
        let block: Block = deserialize(bytes).unwrap();
        let mut outputs = block.txdata.into_iter().flat_map(|tx| tx.output);
        outputs.find(|output| output.script_pubkey.is_op_return())
    });
    let scripts = [data.unwrap().script_pubkey];
    try_index(&place, &[IndexKind::BlockFilterIndex]).unwrap();
    let found = history(&place, &raw(&scripts), &[]);
    assert_eq!(found.rows, by_hand(&blocks, &scripts));
    assert_eq!(found.json["filters"], 0);
}

/// A SwiftSync leaves undo data out.
#[test]
fn spends_are_found_without_undo_data() {
    let world = World::of(crate::support::chains::small(5));
    let place = world.swift(Mode::AssumeValid, world.height());
    let scripts = some_scripts(&world.blocks);
    let expected = by_hand(&world.blocks, &scripts);
    assert_eq!(history(&place, &raw(&scripts), &[]).rows, expected);
    let above = history(&place, &raw(&scripts), &["--start-height=190"]);
    assert!(expected.ends_with(&above.rows) && above.rows.len() > 1);
}

#[test]
fn a_pruned_directory_names_the_blocks_that_it_lacks() {
    let world = world();
    let place = world.place();
    let pruning = Options {
        indexes: vec![IndexKind::BlockFilterIndex],
        ..options(&place, Some(Prune::Target(SPARE)))
    };
    sync_with(&place, &pruning, &world.blocks);
    let scripts = some_scripts(&world.blocks);
    let expected = by_hand(&world.blocks, &scripts);
    let found = history(&place, &raw(&scripts), &[]);
    let pruned: Vec<u64> = serde_json::from_value(found.json["blocks_pruned"].clone()).unwrap();
    let height = |row: &String| row.split(',').next().unwrap().parse::<u64>().unwrap();
    // Each row is there, or its block is named; few blocks match by mistake.
    assert!(!pruned.is_empty() && !found.rows.is_empty());
    let (missing, read): (Vec<_>, Vec<_>) =
        expected.iter().cloned().partition(|row| pruned.contains(&height(row)));
    assert_eq!(found.rows, read);
    let mut heights: Vec<u64> = missing.iter().map(height).collect();
    heights.dedup();
    assert!(pruned.len() <= heights.len() + 3, "{} of {}", pruned.len(), heights.len());
    assert_eq!(found.status, Some(3));
    assert!(found.warnings.contains("this history is incomplete"), "{}", found.warnings);
    // What is stored is complete.
    let start = format!("--start-height={}", pruned.last().unwrap() + 1);
    let above = history(&place, &raw(&scripts), &[&start]);
    assert_eq!((above.status, &above.warnings[..]), (Some(0), ""));
    assert!(expected.ends_with(&above.rows));
    // Without filters it is unknown whether pruned blocks match.
    std::fs::remove_dir_all(place.network_dir().join("indexes")).unwrap();
    let out = place.root().join("none.csv");
    let args = ["export", "--match", &raw(&scripts)[0], "-o", out.to_str().unwrap()];
    let words = ["was pruned", "blockfilterindex does not have its filter", "--start-height"];
    assert_ends(&apus(&place, &args), 1, &words);
    assert!(!out.exists());
}

#[test]
fn descriptors_that_are_refused_say_why() {
    let place = synced(&blocks()[..2]);
    let out = place.root().join("x.csv");
    let start = ["export", "-o", out.to_str().unwrap()];
    let try_match = |args: &[&str]| apus(&place, &[&start[..], args].concat());
    let refuses = |descriptor: &str, words: &[&str]| {
        assert_ends(&try_match(&["--match", descriptor]), 2, words);
    };
    refuses("raw(51)#aaaaaaaa", &["Provided checksum 'aaaaaaaa'", "computed checksum '"]);
    refuses("raw(51)#aaa", &["Expected 8 character checksum, not 3 characters"]);
    refuses("raw(5)", &["Raw script is not hex"]);
    refuses("addr(1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN2)", &["Address is not valid"]);
    refuses("wpkh(02)", &["--match: "]);
    refuses("musig(1)", &["'musig(1)' is not a valid descriptor function"]);
    let wif = "cVpF924EspNh8KjYsfhgY96mmxvT6DgdWiTYMtMjuM74hJaU5psW";
    let private = try_match(&["--match", &format!("wpkh({wif})")]);
    assert_ends(&private, 2, &["has a private key", "not accepted"]);
    assert!(!stderr(&private).contains(wif));
    refuses("wpkh(tprv8ZgxMBicQKsPd/0/*)", &["has a private key"]);
    refuses(&format!("wpkh({TPUB}/0h/*)"), &["Cannot derive script without private keys"]);
    refuses(&format!("wpkh({TPUB}/0/*h)"), &["Cannot derive script without private keys"]);
    let main = "xpub6BgBgsespWvERF3LHQu6CnqdvfEvtMcQjYrcRzx53QJjSxarj2afYWcLteoGVky7D3UKDP9QyrLprQ\
                3VCECoY49yfdDEHGCtMMj92pReUsQ";
    refuses(&format!("tr({main}/0/*)"), &["another network"]);
    assert_ends(&try_match(&["coins", "--match", "raw(51)"]), 2, &["cannot be used with"]);
    assert_ends(&try_match(&["coins", "--range", "5"]), 2, &["--match"]);
    assert_ends(&try_match(&["--match", "raw(51)", "--range", "[5,1]"]), 2, &["begin after end"]);
    assert_ends(&try_match(&[]), 2, &["name a table", "--match"]);
}
