use std::path::{Path, PathBuf};

use super::blocks_dir::{block_files, read_xor_key};
use super::flat_file::Kind;
use super::{
    BlockFiles, BlockFilesOptions, BlockIndex, DirLock, IndexDb, IndexEntry, Obfuscation,
    SourceFile,
};
use crate::disk::{Disk, Result, StoreError};
use crate::wire::Network;

/// How a data directory is opened.
#[derive(Clone, Debug)]
pub struct DataDirOptions {
    /// Whether a new directory gets a random key for its block files (Core's `-blocksxor`). To
    /// say no to a directory that has one already is an error.
    pub use_xor: bool,
    /// Whether a directory with pruned block files is welcome (Core's `-prune`).
    pub prune: bool,
    /// Where the block files are, if not in the directory itself (Core's `-blocksdir`); must
    /// exist. The block index stays in the directory.
    pub blocks_dir: Option<PathBuf>,
    /// How block files are laid out.
    pub files: BlockFilesOptions,
    /// Whether nothing may be made or changed. Others may read at the same time; those who write
    /// are kept away where there is a lock file to hold.
    pub read_only: bool,
}

impl Default for DataDirOptions {
    fn default() -> Self {
        let files = BlockFilesOptions::default();
        Self { use_xor: true, prune: false, blocks_dir: None, files, read_only: false }
    }
}

/// Bitcoin Core's data directory for one network, locked for as long as this lives; so it must
/// outlive what [`DataDir::open_blocks`] hands out, and the chainstate.
///
/// Below the root stand the network's subdirectory (none for main) and in it `.lock`, `blocks/`
/// (with `.lock`, `xor.dat`, blk and rev files, `index/`) and `chainstate/`.
pub struct DataDir {
    disk: Disk,
    network: Network,
    path: PathBuf,
    blocks: PathBuf,
    obfuscation: Obfuscation,
    options: DataDirOptions,
    _locks: [DirLock; 2],
}

impl DataDir {
    /// Opens `root` for `network`, creating what is missing.
    ///
    /// # Errors
    /// Somebody else holds it; it cannot be written; its block files are missing, or another
    /// network's; it holds a chainstate from a snapshot; its `xor.dat` is short, or unwanted.
    pub fn open(
        disk: &Disk,
        root: &Path,
        network: &Network,
        options: DataDirOptions,
    ) -> Result<Self> {
        refuse_nested_root(root, network)?;
        let path = root.join(network.subdirectory);
        let blocks = match &options.blocks_dir {
            Some(base) if !base.is_dir() => {
                return Err(StoreError::new(base, "the directory for blocks does not exist"));
            }
            Some(base) => base.join(network.subdirectory).join("blocks"),
            None => path.join("blocks"),
        };
        refuse_missing_blocks(disk, &path, &blocks, network)?;
        let locks = match options.read_only {
            true => lock_shared(disk, &path, &blocks)?,
            false => {
                disk.create_dir_all(&path)?;
                disk.create_dir_all(&blocks)?;
                [DirLock::take(disk, &path)?, DirLock::take(disk, &blocks)?]
            }
        };
        let snapshot = path.join("chainstate_snapshot");
        if snapshot.exists() {
            let what = "this chainstate comes from a UTXO snapshot that is not validated yet; \
                let Bitcoin Core finish that, or delete the directory";
            return Err(StoreError::new(snapshot, what));
        }
        let obfuscation = match options.read_only {
            true => read_xor_key(&blocks)?.unwrap_or(Obfuscation::NONE),
            false => init_xor_key(disk, &blocks, options.use_xor)?,
        };
        check_first_file(&blocks, obfuscation, network)?;
        if !options.read_only {
            // Only now: to Core, a directory of blocks that holds anything has had its first run.
            disk.create_dir_all(path.join("blocks").join("index"))?;
            disk.create_dir_all(path.join("chainstate"))?;
            disk.sync_dir(path.join("blocks"))?;
            disk.sync_dir(&path)?;
            disk.sync_dir(root)?;
        }
        let network = network.clone();
        let disk = disk.clone();
        Ok(Self { disk, network, path, blocks, obfuscation, options, _locks: locks })
    }

    /// Opens the block index, loads it, and with what it says the block files.
    ///
    /// # Errors
    /// The index cannot be read, is another network's (no genesis block), names blk files that are
    /// gone, or says that files were pruned and [`DataDirOptions::prune`] is off.
    pub fn open_blocks(&self) -> Result<(IndexDb, BlockIndex, BlockFiles)> {
        let db = match self.options.read_only {
            true => IndexDb::open_read_only(&self.disk, &self.index_path())?,
            false => IndexDb::open(&self.disk, &self.index_path())?,
        };
        let index = db.load(&self.network)?;
        if index.pruned && !self.options.prune {
            let what = "block files of this directory were pruned, and Apus needs them all to \
                carry on or to rebuild here: read the blocks into another directory (--from one \
                that holds them all, --datadir another), or let bitcoind carry on; \
                `apus txoutset info` reads this one";
            return Err(StoreError::new(&self.blocks, what));
        }
        let files = self.block_files(&index);
        files.check_present(&index.entries)?;
        if index.pruned && !self.options.read_only {
            files.remove_pruned()?;
        }
        Ok((db, index, files))
    }

    /// The network's own directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory of blk and rev files.
    pub fn blocks_path(&self) -> &Path {
        &self.blocks
    }

    /// The directory of the block index.
    pub fn index_path(&self) -> PathBuf {
        self.path.join("blocks").join("index")
    }

    /// The directory of the coins.
    pub fn chainstate_path(&self) -> PathBuf {
        self.path.join("chainstate")
    }

    /// What the block files are obfuscated with.
    pub fn obfuscation(&self) -> Obfuscation {
        self.obfuscation
    }

    /// The disk that it was opened on.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    fn block_files(&self, index: &BlockIndex) -> BlockFiles {
        let (magic, infos) = (self.network.magic, index.files.clone());
        let options = self.options.files;
        BlockFiles::new(&self.disk, &self.blocks, magic, self.obfuscation, infos, options)
    }
}

/// Locks a directory and its blocks for reading; says so where nobody can be kept away.
fn lock_shared(disk: &Disk, path: &Path, blocks: &Path) -> Result<[DirLock; 2]> {
    let locks = [DirLock::take_shared(disk, path)?, DirLock::take_shared(disk, blocks)?];
    if !locks.iter().all(DirLock::is_held) {
        tracing::warn!(
            "{}: reading without a lock (there is no lock file, or the file system has no locks): \
             keep bitcoind from writing here meanwhile",
            path.display()
        );
    }
    Ok(locks)
}

/// An error if the directory has been in use and its block files are not there, as with a disk that
/// is not mounted: to make new ones would hide that, and cost the coins with the next reindex.
fn refuse_missing_blocks(disk: &Disk, path: &Path, blocks: &Path, network: &Network) -> Result<()> {
    if !block_files(blocks)?.is_empty() {
        return Ok(());
    }
    let index = path.join("blocks").join("index");
    let has_index = index.join("CURRENT").is_file();
    let what = if has_index {
        let index = IndexDb::open_read_only(disk, &index)?.load(network)?;
        let stored = index.entries.iter().filter_map(IndexEntry::block_pos);
        let Some(first) = stored.map(|pos| pos.file).min() else { return Ok(()) };
        let name = Kind::Block.path(Path::new(""), first);
        format!("the block index names {}, and there are no block files here", name.display())
    } else if path.join("chainstate").join("CURRENT").is_file() {
        "there is a chainstate, and neither a block index nor block files".to_string()
    } else {
        return Ok(());
    };
    let what = format!(
        "{what}: is their disk mounted? If they are elsewhere (bitcoind's -blocksdir), name that \
         directory with --blocksdir; if they are lost, read the blocks into another directory \
         (`apus sync --from` a node that has them `--datadir` new)"
    );
    Err(StoreError::new(blocks, what))
}

/// The key in `xor.dat`; written if it is not there (Core's `InitBlocksdirXorKey`): random on the
/// first run, zero where there is anything but hidden files already.
fn init_xor_key(disk: &Disk, blocks: &Path, use_xor: bool) -> Result<Obfuscation> {
    let path = blocks.join("xor.dat");
    if let Some(obfuscation) = read_xor_key(blocks)? {
        if !use_xor && !obfuscation.is_none() {
            let what = "obfuscation cannot be switched off: a random key is stored here already";
            return Err(StoreError::new(path, what));
        }
        return Ok(obfuscation);
    }
    // What a crash may have left of this very write does not count.
    disk.remove_temporary(&path)?;
    let names = disk.list(blocks)?;
    let first_run = names.iter().all(|name| name.starts_with('.') && blocks.join(name).is_file());
    let mut key = [0; Obfuscation::KEY_SIZE];
    if use_xor && first_run {
        getrandom::fill(&mut key)
            .map_err(|e| StoreError::new(&path, format!("no randomness for a key: {e}")))?;
    }
    disk.write_atomically(&path, &key)?;
    Ok(Obfuscation::new(key))
}

/// An error if the first block file that was written to is another network's.
fn check_first_file(blocks: &Path, obfuscation: Obfuscation, network: &Network) -> Result<()> {
    let files = block_files(blocks)?.into_iter();
    let mut files = files.map(|(number, path)| {
        let len = path.metadata().map_or(0, |metadata| metadata.len());
        SourceFile { path: path.into(), len, obfuscation, number: Some(number) }
    });
    match files.find(|file| file.len > 0) {
        Some(first) => first.check_network(network),
        None => Ok(()),
    }
}

/// An error if the root given is the network's subdirectory: the next one would be made inside it.
fn refuse_nested_root(root: &Path, network: &Network) -> Result<()> {
    let subdirectory = Path::new(network.subdirectory);
    let named_so = !network.subdirectory.is_empty() && root.file_name() == subdirectory.file_name();
    if named_so && root.join("blocks").is_dir() && !root.join(subdirectory).exists() {
        let what = "this is the network's own directory; give the one that it lies in";
        return Err(StoreError::new(root, what));
    }
    Ok(())
}
