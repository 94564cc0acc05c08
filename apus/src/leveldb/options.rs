/// How a database is opened and how its tables are written.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether a database is made where there is none; otherwise that is an error.
    pub create_if_missing: bool,
    /// Whether nothing may be written. What log files hold is then kept in memory.
    pub read_only: bool,
    /// Whether the database is locked while it is open. Without the lock somebody else may change
    /// it meanwhile, and reads then fail: only together with `read_only`.
    pub lock: bool,
    /// Bytes at which a table ends and the next one begins (`max_file_size`).
    pub table_bytes_max: u64,
    /// Bytes at which a block ends (`block_size`).
    pub block_bytes: usize,
    /// Bits of bloom filter for each key; 0 for no filter.
    pub bloom_bits_per_key: usize,
    /// Entries between two keys that are stored whole (`block_restart_interval`).
    pub restart_interval: usize,
}

impl Default for Options {
    /// What Bitcoin Core's `CDBWrapper` uses: 32 MiB tables, 4 KiB blocks, 10 bits a key.
    fn default() -> Self {
        Self {
            create_if_missing: false,
            read_only: false,
            lock: true,
            table_bytes_max: 32 << 20,
            block_bytes: 4096,
            bloom_bits_per_key: 10,
            restart_interval: 16,
        }
    }
}
