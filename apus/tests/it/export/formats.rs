//! Parquet and SQLite files, read back by the crates that they are written with, against CSV.

use std::fs::File;
use std::path::Path;

use apus_hash::hex;

use apus_tables::ExportTable;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::{TABLES, blocks, csv, exported, synced};
use crate::support::Place;

/// The forms of hashes and scripts, as options.
const FORMS: [&[&str]; 3] =
    [&[], &["--txid", "raw", "--spk", "raw"], &["--txid", "rawle", "--spk", "hex"]];

/// The names and the rows of a Parquet file, as they would be in CSV with these forms.
fn parquet_rows(path: &Path) -> Vec<Vec<String>> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let metadata = reader.metadata().file_metadata();
    let names = metadata.schema().get_fields().iter().map(|field| field.name().to_string());
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let values = row.get_column_iter().map(|(_, field)| match field {
            Field::Null => String::new(),
            Field::Bool(yes) => u8::from(*yes).to_string(),
            Field::Str(text) => text.clone(),
            Field::Bytes(bytes) => hex(bytes.data()),
            number => number.to_string(),
        });
        values.collect()
    });
    [names.collect()].into_iter().chain(rows).collect()
}

/// The names and the rows of a table in a database, as they would be in CSV with these forms.
fn sqlite_rows(path: &Path, table: &str) -> Vec<Vec<String>> {
    let database = Connection::open(path).unwrap();
    let mut statement = database.prepare(&format!("SELECT * FROM {table}")).unwrap();
    let names: Vec<String> = statement.column_names().map(str::to_string).collect();
    let columns = names.len();
    let rows = statement.query_map([], |row| {
        let value = |index| match row.get_ref(index).unwrap() {
            ValueRef::Null => String::new(),
            ValueRef::Integer(number) => number.to_string(),
            ValueRef::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
            ValueRef::Blob(bytes) => hex(bytes),
            ValueRef::Real(_) => panic!("no column holds fractions"),
        };
        Ok((0..columns).map(value).collect())
    });
    let rows = rows.unwrap().map(Result::unwrap);
    [names].into_iter().chain(rows).collect()
}

/// CSV as if hashes had the form that `--txid` names.
fn with_form(mut rows: Vec<Vec<String>>, txid: Option<&str>) -> Vec<Vec<String>> {
    let names = rows[0].clone();
    let is_hash =
        |name: &str| ["hash", "previous", "merkle_root"].contains(&name) || name.ends_with("txid");
    if txid == Some("raw") {
        for row in &mut rows[1..] {
            for (value, _) in row.iter_mut().zip(&names).filter(|(_, name)| is_hash(name)) {
                let pairs = value.as_bytes().chunks(2).rev();
                *value = pairs.map(|pair| std::str::from_utf8(pair).unwrap()).collect();
            }
        }
    }
    rows
}

fn each_form(check: impl Fn(&Place, &str, &[&str], Vec<Vec<String>>)) {
    let place = synced(&blocks());
    for table in TABLES {
        let rows = csv(&place, table, &[]);
        for forms in FORMS {
            check(&place, table, forms, with_form(rows.clone(), forms.get(1).copied()));
        }
    }
}

#[test]
fn parquet_holds_the_same_rows_and_describes_them() {
    each_form(|place, table, forms, expected| {
        let path = exported(place, table, "table.parquet", forms);
        assert!(parquet_rows(&path) == expected, "{table} {forms:?}");
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap().clone();
        let value = |key: &str| {
            let pair = pairs.iter().find(|pair| pair.key == key);
            pair.unwrap_or_else(|| panic!("{key}")).value.clone().unwrap()
        };
        let layout = ExportTable::ALL.iter().find(|one| one.name() == table).unwrap().layout();
        for column in layout.columns {
            assert_eq!(value(&format!("column.{}", column.name)), column.about);
        }
        assert_eq!((value("chain"), value("start_height")), ("regtest".into(), "0".into()));
        assert_eq!(value("stop_height"), "200");
        assert_eq!(value("best_block").len(), 64);
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn sqlite_holds_the_same_rows() {
    each_form(|place, table, forms, expected| {
        let path = exported(place, table, "table.sqlite", forms);
        let name = if table == "coins" { "utxos" } else { table };
        assert!(sqlite_rows(&path, name) == expected, "{table} {forms:?}");
        std::fs::remove_file(path).unwrap();
    });
}

#[test]
fn the_database_of_coins_has_the_table_of_bitcoin_cores_tool() {
    let place = synced(&blocks());
    for (forms, txid, script) in [
        (&[][..], "TEXT", "TEXT"),
        (&["--txid=raw", "--spk=raw"], "BLOB", "BLOB"),
        (&["--txid=rawle"], "BLOB", "TEXT"),
    ] {
        let path = exported(&place, "coins", "utxos.db", forms);
        let database = Connection::open(&path).unwrap();
        let schema: String =
            database.query_row("SELECT sql FROM sqlite_master", [], |row| row.get(0)).unwrap();
        let expected = format!(
            "CREATE TABLE utxos(txid {txid}, vout INT, value INT, coinbase INT, height INT, \
             scriptpubkey {script})"
        );
        assert_eq!(schema, expected);
        std::fs::remove_file(path).unwrap();
    }
}
