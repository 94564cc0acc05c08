use super::levels::LEVEL_0_RUNS_MAX;

/// How a database is opened and how its tables are written.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a database is created where there is none. Without it, to open one that does not
    /// exist is an error.
    pub create_if_missing: bool,
    /// Whether nothing may be written. The content of log files is then kept in memory.
    pub read_only: bool,
    /// Whether the database is locked while it is open. To open it without the lock is possible
    /// only together with `read_only`: another program may then change it, and reads may fail.
    pub lock: bool,
    /// Numbers of the tables of a run that is not committed yet ([`super::PendingTable`]), which
    /// opening the database keeps. It removes other tables that are not part of the database.
    pub keep: Vec<u64>,
    /// Size in bytes at which a table ends and the next one begins (`max_file_size`).
    pub table_bytes_max: u64,
    /// Size in bytes at which a block ends (`block_size`).
    pub block_bytes: usize,
    /// Bits that the bloom filter has for each key; 0 for no filter.
    pub bloom_bits_per_key: usize,
    /// Number of entries from one key that is stored whole to the next (`block_restart_interval`).
    pub restart_interval: usize,
    /// Number of runs in level 0 with which a merge is due. More runs make look-ups slower, and
    /// entries are rewritten less often.
    pub level_0_runs_max: usize,
}

impl Default for Options {
    /// The options of Bitcoin Core's `CDBWrapper`: tables of 32 MiB, blocks of 4 KiB, filters of 10
    /// bits for each key.
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
