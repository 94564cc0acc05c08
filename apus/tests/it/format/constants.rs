//! The constants of the format: those that the document names, and those that the code puts into
//! `layout` modules.

use std::collections::BTreeMap;

use apus_wire::{Chain, Network};

use super::assert_same;
use super::document::{Document, Value};

/// Constants in scope, under their own names.
macro_rules! named {
    ($($name:ident)+) => { vec![$((stringify!($name), Value::from($name))),+] };
}

/// Constants of a type, under their own names.
macro_rules! of_type {
    ($type:ty: $($name:ident)+) => {
        vec![$((stringify!($name), Value::from(<$type>::$name))),+]
    };
}

fn networks() -> Vec<(&'static str, Value)> {
    let magic = |chain| Value::from(&Network::new(chain).magic[..]);
    let directory = |chain| Value::from(Network::new(chain).subdirectory);
    vec![
        ("MAGIC_MAIN", magic(Chain::Main)),
        ("MAGIC_TEST", magic(Chain::Test)),
        ("MAGIC_TESTNET4", magic(Chain::Testnet4)),
        ("MAGIC_SIGNET", magic(Chain::Signet)),
        ("MAGIC_REGTEST", magic(Chain::Regtest)),
        ("DIRECTORY_MAIN", directory(Chain::Main)),
        ("DIRECTORY_TEST", directory(Chain::Test)),
        ("DIRECTORY_TESTNET4", directory(Chain::Testnet4)),
        ("DIRECTORY_SIGNET", directory(Chain::Signet)),
        ("DIRECTORY_REGTEST", directory(Chain::Regtest)),
    ]
}

fn store() -> Vec<(&'static str, Value)> {
    use apus_store::layout::*;
    use apus_store::*;
    let mut all = named![
        BLOCKFILE_CHUNK_SIZE UNDOFILE_CHUNK_SIZE MAX_BLOCKFILE_SIZE STORAGE_HEADER_BYTES
        UNDO_DATA_DISK_OVERHEAD DB_BLOCK_INDEX DB_BLOCK_FILES DB_FLAG DB_LAST_BLOCK
        DB_REINDEX_FLAG OBFUSCATION_KEY PRUNED_FLAG REBUILT_FLAG DUMMY_VERSION DB_BEST_BLOCK
        DB_BEST_BLOCK_V2
        LOCATOR_VERSION
    ];
    all.extend(of_type![BlockStatus:
        BLOCK_VALID_UNKNOWN BLOCK_VALID_RESERVED BLOCK_VALID_TREE BLOCK_VALID_TRANSACTIONS
        BLOCK_VALID_CHAIN BLOCK_VALID_SCRIPTS BLOCK_VALID_MASK BLOCK_HAVE_DATA BLOCK_HAVE_UNDO
        BLOCK_HAVE_MASK BLOCK_FAILED_VALID BLOCK_FAILED_CHILD BLOCK_OPT_WITNESS
        BLOCK_STATUS_RESERVED
    ]);
    all.extend(of_type![Obfuscation: KEY_SIZE]);
    all
}

fn coins() -> Vec<(&'static str, Value)> {
    use apus_coins::layout::*;
    named![COIN_PREFIX BEST_BLOCK HEAD_BLOCKS OBFUSCATION_RECORD SPECIAL_TYPES MAX_SCRIPT_BYTES]
}

fn indexes() -> Vec<(&'static str, Value)> {
    use apus_indexes::layout::*;
    named![
        DB_TXINDEX DB_TXOSPENDERINDEX SIPHASH_KEY DB_BLOCK_HASH DB_BLOCK_HEIGHT DB_FILTER_POS
        DB_TXINDEX_HASHED DB_BLOCK_SEQ DB_SEQ_OF_BLOCK NEXT_BLOCK_SEQ TXID_HASH_SALT
        HASH_PREFIX_SIZE DB_MUHASH BASIC_FILTER_P BASIC_FILTER_M MAX_FLTR_FILE_SIZE
        FLTR_FILE_CHUNK_SIZE
    ]
}

fn leveldb() -> Vec<(&'static str, Value)> {
    use apus_leveldb::layout::*;
    let options = apus_leveldb::Options::default();
    let mut all = named![
        COMPARATOR FILTER_KEY LEVELS LEVEL_0_RUNS_MAX SEQUENCE_MAX TRAILER_BYTES
        BLOCK_TRAILER_BYTES FOOTER_BYTES TABLE_MAGIC MASK_DELTA FILTER_WINDOW_LOG2
        FILTER_BITS_MIN FILTER_PROBES_MAX LOG_BLOCK_BYTES LOG_HEADER_BYTES LOG_FULL LOG_FIRST
        LOG_MIDDLE LOG_LAST TAG_COMPARATOR TAG_LOG_NUMBER TAG_NEXT_FILE TAG_LAST_SEQUENCE
        TAG_COMPACT_POINTER TAG_DELETED_FILE TAG_NEW_FILE TAG_PREV_LOG_NUMBER
    ];
    all.push(("TABLE_BYTES_MAX", options.table_bytes_max.into()));
    all.push(("BLOCK_BYTES", options.block_bytes.into()));
    all.push(("BLOOM_BITS_PER_KEY", options.bloom_bits_per_key.into()));
    all.push(("RESTART_INTERVAL", options.restart_interval.into()));
    all
}

fn compressed_hints() -> Vec<(&'static str, Value)> {
    use apus_swiftsync::hints::compressed::layout::*;
    let mut all = named![
        COMPRESSED_VERSION COMPRESSED_HEAD_BYTES COMPRESSED_ENTRY_BYTES COMPRESSED_TAIL_BYTES
        FRAME_BLOCKS_MAX FRAME_INDICES_MAX
    ];
    all.push(("COMPRESSED_MAGIC", Value::from(&COMPRESSED_MAGIC[..])));
    all
}

fn sync() -> Vec<(&'static str, Value)> {
    use apus_node::{
        COIN_COUNT_FILE, REBUILD_DIRECTORY, REBUILD_MARK, SNAPSHOT_BASE_FILE, SNAPSHOT_DIRECTORY,
        SNAPSHOT_GIVEN_UP_FILE,
    };
    use apus_sync::SWIFTSYNC_DIRECTORY;
    named![
        COIN_COUNT_FILE REBUILD_DIRECTORY REBUILD_MARK SWIFTSYNC_DIRECTORY
        SNAPSHOT_DIRECTORY SNAPSHOT_BASE_FILE SNAPSHOT_GIVEN_UP_FILE
    ]
}

#[test]
fn the_document_and_the_code_have_the_same_constants() {
    let all = [networks(), store(), coins(), indexes(), leveldb(), sync(), compressed_hints()];
    let mut code = BTreeMap::new();
    for (name, value) in all.into_iter().flatten() {
        assert!(code.insert(name.to_string(), value).is_none(), "{name} twice");
    }
    assert_same("constant", &Document::read().constants, &code);
}

/// The constants in a `layout` module are part of the format, so they must be in the lists above
/// and, with those, in the document.
#[test]
fn nothing_in_a_layout_is_left_out() {
    let document = Document::read();
    for source in [
        include_str!("../../../../crates/leveldb/src/lib.rs"),
        include_str!("../../../../crates/store/src/lib.rs"),
        include_str!("../../../../crates/coins/src/lib.rs"),
        include_str!("../../../../crates/indexes/src/lib.rs"),
        include_str!("../../../../crates/swiftsync/src/hints/compressed/layout.rs"),
    ] {
        // A layout is a module inside the file, or the whole file.
        let layout = match source.split_once("pub mod layout {\n") {
            Some((_, rest)) => rest.split_once("\n}").expect("its end").0,
            None => source,
        };
        let upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        let mut names = 0;
        for item in layout.split([',', '{', '}', ';']) {
            let name = match item.split_once("pub const ") {
                Some((_, constant)) => constant.split(':').next().unwrap_or_default(),
                None => item.rsplit([' ', ':']).next().unwrap_or_default().trim(),
            };
            if name.chars().all(upper) && name.starts_with(|c: char| c.is_ascii_uppercase()) {
                assert!(document.constants.contains_key(name), "docs/format.md lacks {name}");
                names += 1;
            }
        }
        assert!(names > 0, "no names in a layout");
    }
}
