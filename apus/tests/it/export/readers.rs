//! Files opened and queried by the programs that people analyse them with.

use std::process::{Command, Stdio};

use apus_tools::UtxoHash;
use serde_json::{Map, json};

use super::{TABLES, blocks, csv, exported, synced};
use crate::support::note_skipped;
use crate::support::program::stderr;

/// What the script needs.
const IMPORTS: &str = "import duckdb, pyarrow.compute, pyarrow.parquet, sqlite3";

/// A Python with DuckDB and pyarrow, if there is one: `APUS_TEST_PYTHON`, or else `python3`.
fn python() -> Option<Command> {
    let name = std::env::var_os("APUS_TEST_PYTHON").unwrap_or("python3".into());
    let mut probe = Command::new(&name);
    let status = probe.args(["-c", IMPORTS]).stderr(Stdio::null()).status();
    if status.is_ok_and(|status| status.success()) {
        return Some(Command::new(name));
    }
    let why = "python3 has no duckdb and pyarrow (APUS_TEST_PYTHON names one that has)";
    note_skipped(why);
    None
}

#[test]
fn duckdb_pyarrow_and_sqlite3_come_to_the_sums_of_the_utxo_set() {
    let Some(mut python) = python() else { return };
    let place = synced(&blocks());
    let sum_of = |table: &str, column: &str| {
        let rows = csv(&place, table, &[]);
        let at = rows[0].iter().position(|name| name == column).unwrap();
        let sum: u64 = rows[1..].iter().map(|row| row[at].parse().unwrap_or(0)).sum();
        json!([rows.len() - 1, column, sum])
    };
    let stats = place.stats(UtxoHash::None);
    let mut tables = Map::new();
    tables.insert("coins".to_string(), json!([stats.txouts, "value", stats.total_amount]));
    for (table, column) in [
        ("blocks", "fees"),
        ("transactions", "fee"),
        ("inputs", "prev_value"),
        ("outputs", "value"),
    ] {
        tables.insert(table.to_string(), sum_of(table, column));
    }
    for table in TABLES {
        exported(&place, table, &format!("{table}.csv"), &[]);
        for format in ["parquet", "sqlite"] {
            exported(&place, table, &format!("{table}-hex.{format}"), &[]);
            let raw = ["--txid=rawle", "--spk=raw"];
            exported(&place, table, &format!("{table}-raw.{format}"), &raw);
        }
    }
    let coins = csv(&place, "coins", &[]);
    let largest = coins[1..].iter().max_by_key(|row| row[2].parse::<u64>().unwrap()).unwrap();
    let value: u64 = largest[2].parse().unwrap();
    let expected = json!({ "tables": tables, "txid": largest[0], "value": value });
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/export/queries.py");
    python.arg(script).arg(place.root()).arg(expected.to_string());
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
}
