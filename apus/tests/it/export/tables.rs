//! What is in the tables, read from CSV.

use std::collections::BTreeMap;

use apus::tables::Kind;
use apus_tables::{ExportTable, HISTORY};
use apus_testchain::Spec;
use apus_tools::UtxoHash;
use apus_wire::Chain;

use super::by_hand::by_hand;
use super::{TABLES, blocks, csv, synced};
use crate::support::chains::small;
use crate::support::{Place, blocks_of, data, with_genesis};

/// Panics unless all tables but that of coins are as counted by hand.
#[track_caller]
fn assert_right(place: &Place, blocks: &[Vec<u8>]) {
    let expected = by_hand(blocks);
    for (table, rows) in [
        ("blocks", &expected.blocks),
        ("transactions", &expected.transactions),
        ("inputs", &expected.inputs),
        ("outputs", &expected.outputs),
    ] {
        let found = csv(place, table, &[]);
        assert_eq!(found.len(), rows.len() + 1, "{table}");
        for (found, expected) in found[1..].iter().zip(rows) {
            assert_eq!(found, expected, "{table}");
        }
    }
}

#[test]
fn of_a_generated_chain_as_counted_by_hand() {
    let blocks = blocks();
    assert_right(&synced(&blocks), &blocks);
}

#[test]
fn of_a_chain_with_every_rare_script_as_counted_by_hand() {
    let blocks = with_genesis(&apus_testchain::Chain::new(Spec::odd(3)));
    assert_right(&synced(&blocks), &blocks);
}

#[test]
fn coins_are_those_of_the_generator_in_the_chainstates_order() {
    let place = synced(&blocks());
    let found = csv(&place, "coins", &[]);
    let known = small(5).utxos().map(|coin| {
        let txid: [u8; 32] = *coin.outpoint.txid.as_ref();
        let row = [
            coin.outpoint.txid.to_string(),
            coin.outpoint.vout.to_string(),
            coin.amount.to_string(),
            u8::from(coin.coinbase).to_string(),
            coin.height.to_string(),
            coin.script.to_hex_string(),
        ];
        ((txid, coin.outpoint.vout), row)
    });
    let known: BTreeMap<_, _> = known.collect();
    assert_eq!(found[0].join(","), "txid,vout,value,coinbase,height,scriptpubkey");
    assert_eq!(found.len(), known.len() + 1);
    assert!(found[1..].iter().zip(known.values()).all(|(found, known)| found == known));
}

#[test]
fn sums_are_those_of_the_utxo_set_and_of_the_supply() {
    let place = Place::new(Chain::Main);
    place.sync(&[data("mainnet-0-14131.dat")]);
    let sum = |table: &str, column: &str| -> u64 {
        let rows = csv(&place, table, &[]);
        let at = rows[0].iter().position(|name| name == column).unwrap();
        rows[1..].iter().map(|row| row[at].parse::<u64>().unwrap_or(0)).sum()
    };
    let stats = place.stats(UtxoHash::None);
    assert_eq!(csv(&place, "coins", &[]).len() as u64, stats.txouts + 1);
    assert_eq!(sum("coins", "value"), stats.total_amount);
    // What was paid in is what was paid out: coinbases claim subsidies and fees.
    let fees = sum("blocks", "fees");
    let reward = sum("blocks", "reward");
    assert_eq!(sum("transactions", "fee"), fees);
    assert_eq!(reward, sum("blocks", "subsidy") + fees);
    assert_eq!(sum("outputs", "value"), sum("inputs", "prev_value") - fees + reward);
    // The output of genesis is no coin.
    let unspent = sum("outputs", "value") - sum("inputs", "prev_value");
    assert_eq!(unspent, stats.total_amount + 5_000_000_000);
    let blocks = blocks_of(&data("mainnet-0-14131.dat"));
    assert_eq!(csv(&place, "blocks", &[]).len(), blocks.len() + 1);
}

#[test]
fn any_number_of_threads_writes_the_same_rows() {
    let place = synced(&blocks());
    for table in TABLES {
        let one = csv(&place, table, &["--par=1"]);
        for threads in ["--par=2", "--par=3", "--par=8"] {
            assert_eq!(csv(&place, table, &[threads]), one, "{table} {threads}");
        }
    }
}

#[test]
fn a_range_of_heights_is_a_part_of_the_rows() {
    let place = synced(&blocks());
    for table in TABLES {
        let all = csv(&place, table, &[]);
        let at = all[0].iter().position(|name| name == "height").unwrap();
        let height = |row: &[String]| row[at].parse::<u32>().unwrap();
        for (start, stop) in [(0, 0), (0, 160), (155, 170), (170, 200), (200, 200)] {
            let start_text = start.to_string();
            let stop_text = stop.to_string();
            let options = ["--start-height", &start_text, "--stop-height", &stop_text];
            let part = csv(&place, table, &options);
            let wanted = all[1..].iter().filter(|row| (start..=stop).contains(&height(row)));
            assert!(part[1..].iter().eq(wanted), "{table} {start} {stop}");
        }
    }
}

#[test]
fn blocks_that_were_replaced_are_left_out() {
    let main = small(5);
    let fork = crate::support::chains::small_fork(5, 160, 45, 9);
    let place = synced(&with_genesis(main));
    place.sync(&[place.write("fork", &with_genesis(fork)[161..])]);
    assert_right(&place, &with_genesis(fork));
}

#[test]
fn the_document_lists_every_column() {
    let document = include_str!("../../../../docs/guide/data-columns.md");
    let tables = ExportTable::ALL.iter().map(|table| (table.name(), table.layout()));
    for (name, layout) in tables.chain([("history", &HISTORY)]) {
        let (_, section) = document.split_once(&format!("## {name}\n")).unwrap();
        let section = section.split("\n## ").next().unwrap();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words(section).contains(&words(layout.about)), "{name}");
        let lines = section.lines().filter(|line| line.starts_with("| `"));
        let expected = layout.columns.iter().map(|column| {
            let kind = match column.kind {
                Kind::Bool => "0 or 1",
                Kind::I32 => "32 bits, signed",
                Kind::U32 => "32 bits",
                Kind::I64 => "64 bits, signed",
                Kind::Hash => "hash",
                Kind::Bytes => "bytes",
                Kind::Word => "word",
            };
            let or_none = if column.is_nullable { ", or none" } else { "" };
            format!("| `{}` | {kind}{or_none} | {} |", column.name, column.about)
        });
        assert_eq!(lines.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }
}
