use super::levels::LEVEL_0_RUNS_MAX;

/// Options for opening a database and writing its tables.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a database is created if there is none. Otherwise it is an error to open one that
    /// does not exist.
    pub create_if_missing: bool,
    /// Whether the database is opened for reading only. The content of log files is then kept in
    /// memory.
    pub read_only: bool,
    /// Whether the database is locked while it is open. It can be opened without the lock only
    /// together with `read_only`: another program may then change it, and reads may fail.
    pub lock: bool,
    /// Numbers of the tables of an uncommitted run ([`super::PendingTable`]) that are kept when the
    /// database is opened. Other tables that do not belong to the database are removed.
    pub keep: Vec<u64>,
    /// Size in bytes at which a table ends and the next one begins (`max_file_size`).
    pub table_bytes_max: u64,
    /// Size in bytes at which a block ends (`block_size`).
    pub block_bytes: usize,
    /// Number of bits in the bloom filter for each key; 0 for no filter.
    pub bloom_bits_per_key: usize,
    /// Number of entries between keys that are stored in full (`block_restart_interval`).
    pub restart_interval: usize,
    /// Number of runs in level 0 at which a merge is due. More runs make lookups slower, and
    /// entries are rewritten less often.
    pub level_0_runs_max: usize,
}

impl Default for Options {
    /// Returns the options of Bitcoin Core's `CDBWrapper`: tables of 32 MiB, blocks of 4 KiB,
    /// filters of 10 bits for each key.
    fn default() -> Self {
        Self {
            create_if_missing: false,
            read_only: false,
            lock: true,
            keep: Vec::new(),
            table_bytes_max: 32 << 20,
            block_bytes: 4096,
            bloom_bits_per_key: 10,
            restart_interval: 16,
            level_0_runs_max: LEVEL_0_RUNS_MAX,
        }
    }
}
