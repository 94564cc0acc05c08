use std::path::{Path, PathBuf};

use apus_disk::{Disk, Result, StoreError};
use apus_wire::Network;

use super::blocks_dir::{list_block_files, lost_key, read_xor_key, recover_key};
use super::flat_file::Kind;
use super::root::check_root;
use super::{
    BlockFiles, BlockFilesOptions, BlockIndex, DirLock, IndexDb, IndexEntry, Obfuscation,
    SourceFile,
};

/// Options for opening a data directory.
#[derive(Clone, Debug)]
pub struct DataDirOptions {
    /// Whether a new directory gets a random key for its block files (Core's `-blocksxor`). If not,
    /// a directory that already has a random key cannot be opened.
    pub use_xor: bool,
    /// Whether a directory with pruned block files can be opened (Core's `-prune`).
    pub prune: bool,
    /// The directory of the block files, if it is not in the data directory (Core's `-blocksdir`).
    /// It must exist. The block index is in the data directory in any case.
    pub blocks_dir: Option<PathBuf>,
    /// The layout of the block files.
    pub files: BlockFilesOptions,
    /// Whether block files that the index names may be missing, except links to files elsewhere.
    pub may_lack_files: bool,
    /// Whether nothing may be created or changed. Other programs may read at the same time; writers
    /// are kept away if there is a lock file.
    pub read_only: bool,
}

impl Default for DataDirOptions {
    fn default() -> Self {
        Self {
            use_xor: true,
            prune: false,
            blocks_dir: None,
            files: BlockFilesOptions::default(),
            may_lack_files: false,
            read_only: false,
        }
    }
}

/// Bitcoin Core's data directory for one network. It is locked until this is dropped, so this must
/// outlive the files and the index from [`DataDir::open_blocks`], and the chainstate.
///
/// The root holds the network's subdirectory (for main, the root itself), which contains `.lock`,
/// `blocks/` (with `.lock`, `xor.dat`, blk and rev files, and `index/`) and `chainstate/`.
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
    /// Opens the data directory `root` for `network`, and creates its missing parts.
    ///
    /// # Errors
    /// Another program holds the lock; the directory cannot be written; its block files are
    /// missing, or belong to another network; its `xor.dat` is too short, or holds a key although
    /// [`DataDirOptions::use_xor`] is off.
    pub fn open(
        disk: &Disk,
        root: &Path,
        network: &Network,
        options: DataDirOptions,
    ) -> Result<Self> {
        check_root(root, network, options.blocks_dir.as_deref())?;
        let path = root.join(network.subdirectory);
        Self::check_locks(disk, root, network, options.blocks_dir.as_deref(), options.read_only)?;
        let blocks = match &options.blocks_dir {
            Some(base) if !base.is_dir() => {
                return Err(StoreError::new(
                    base,
                    "the directory for block files (--blocksdir) does not exist",
                ));
            }
            Some(base) => base.join(network.subdirectory).join("blocks"),
            None => path.join("blocks"),
        };
        refuse_missing_blocks(disk, &path, &blocks, network)?;
        let locks = if options.read_only {
            lock_shared(disk, &path, &blocks)?
        } else {
            disk.create_dir_all(&path)?;
            disk.create_dir_all(&blocks)?;
            [DirLock::take(disk, &path)?, DirLock::take(disk, &blocks)?]
        };
        let obfuscation = if options.read_only {
            match read_xor_key(&blocks)? {
                Some(key) => key,
                None => found_xor_key(&blocks, network)?,
            }
        } else {
            init_xor_key(disk, &blocks, options.use_xor, network)?
        };
        check_first_file(&blocks, obfuscation, network)?;
        if !options.read_only {
            // Only after the key: Core considers a blocks directory with any content as not new.
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

    /// Opens and loads the block index, and opens the block files that it describes.
    ///
    /// # Errors
    /// The index cannot be read, belongs to another network, or names missing blk files; or files
    /// were pruned and [`DataDirOptions::prune`] is off.
    pub fn open_blocks(&self) -> Result<(IndexDb, BlockIndex, BlockFiles)> {
        let db = if self.options.read_only {
            IndexDb::open_read_only(&self.disk, &self.index_path())?
        } else {
            IndexDb::open(&self.disk, &self.index_path())?
        };
        let index = db.load(&self.network)?;
        self.check_pruned(index.pruned)?;
        let files = self.block_files(&index);
        files.check_present(&index.entries, self.options.may_lack_files)?;
        if index.pruned && !self.options.read_only {
            files.remove_pruned()?;
        }
        Ok((db, index, files))
    }

    /// Returns an error if block files `were_pruned` and [`DataDirOptions::prune`] is off.
    pub fn check_pruned(&self, were_pruned: bool) -> Result<()> {
        if !were_pruned || self.options.prune {
            return Ok(());
        }
        let what = "block files of this directory were pruned: continue with `apus sync \
            --prune=MIB`, as with bitcoind; a rebuild needs all of them (--from a directory that \
            has them, and another --datadir); `apus txoutset info` reads this one";
        Err(StoreError::new(&self.blocks, what))
    }

    /// Returns the directory of the network.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory of the blk and rev files.
    pub fn blocks_path(&self) -> &Path {
        &self.blocks
    }

    /// Returns the directory of the block index.
    pub fn index_path(&self) -> PathBuf {
        self.path.join("blocks").join("index")
    }

    /// Returns the directory of the chainstate.
    pub fn chainstate_path(&self) -> PathBuf {
        self.path.join("chainstate")
    }

    /// Returns the obfuscation of the block files.
    pub fn obfuscation(&self) -> Obfuscation {
        self.obfuscation
    }

    /// Checks that the locks of the data directory `root` could be taken, for reading alone or for
    /// writing. Nothing is created or locked.
    ///
    /// # Errors
    /// This or another program holds a lock in the way.
    pub fn check_locks(
        disk: &Disk,
        root: &Path,
        network: &Network,
        blocks_dir: Option<&Path>,
        read_only: bool,
    ) -> Result<()> {
        DirLock::check(disk, &root.join(network.subdirectory), read_only)?;
        let blocks = blocks_dir.unwrap_or(root).join(network.subdirectory).join("blocks");
        DirLock::check(disk, &blocks, read_only)
    }

    /// Returns the disk that the directory was opened on.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    fn block_files(&self, index: &BlockIndex) -> BlockFiles {
        let magic = self.network.magic;
        let infos = index.files.clone();
        let options = self.options.files;
        BlockFiles::new(&self.disk, &self.blocks, magic, self.obfuscation, infos, options)
    }
}

/// Takes shared locks on a directory and its blocks, and warns if they cannot be taken.
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

/// Checks that a network's directory `path` that was used before has block files in `blocks`. They
/// may be missing because their disk is not mounted; creating new files would hide that, and the
/// next reindex would lose the coins.
///
/// # Errors
/// It has none.
pub fn refuse_missing_blocks(
    disk: &Disk,
    path: &Path,
    blocks: &Path,
    network: &Network,
) -> Result<()> {
    if !list_block_files(blocks)?.is_empty() {
        return Ok(());
    }
    let index = path.join("blocks").join("index");
    let has_index = index.join("CURRENT").is_file();
    let what = if has_index {
        match IndexDb::open_read_only(disk, &index).and_then(|index| index.load(network)) {
            Ok(index) => {
                let stored = index.entries.iter().filter_map(IndexEntry::block_pos);
                let Some(first) = stored.map(|pos| pos.file).min() else { return Ok(()) };
                let name = Kind::Block.path(Path::new(""), first);
                let name = name.display();
                format!("the block index names {name}, but there are no block files here")
            }
            Err(error) => format!(
                "there is a block index, which cannot be read ({error}), but there are no block \
                 files here"
            ),
        }
    } else if has_tables(disk, &path.join("chainstate"))? {
        "there is a chainstate, but neither a block index nor block files".to_string()
    } else {
        return Ok(());
    };
    let what = format!(
        "{what}: is their disk mounted? If they are elsewhere (bitcoind's -blocksdir), give that \
         directory with --blocksdir; if they are lost, read the blocks into another directory \
         (`apus sync --from` a node that has them, and a new `--datadir`)"
    );
    Err(StoreError::new(blocks, what))
}

/// Returns whether a directory holds a database, or what damage has left of one.
fn has_tables(disk: &Disk, directory: &Path) -> Result<bool> {
    let names = disk.list(directory)?;
    Ok(names.iter().any(|name| name == "CURRENT" || name.ends_with(".ldb")))
}

/// Returns the key in `xor.dat`. Creates the file if it does not exist (Core's
/// `InitBlocksdirXorKey`): with a random key in a new directory, with the key of the block files if
/// there are any, and with zeros in a directory that holds anything else but hidden files.
fn init_xor_key(
    disk: &Disk,
    blocks: &Path,
    use_xor: bool,
    network: &Network,
) -> Result<Obfuscation> {
    let path = blocks.join("xor.dat");
    if let Some(obfuscation) = read_xor_key(blocks)? {
        if !use_xor && !obfuscation.is_none() {
            let what = "block files without obfuscation were requested (-blocksxor=0), but \
                those in this directory already have a random key";
            return Err(StoreError::new(path, what));
        }
        return Ok(obfuscation);
    }
    if let Some(key) = lost_xor_key(blocks, network)? {
        disk.write_atomically(&path, &key.key())?;
        if !key.is_none() {
            tracing::warn!(
                "{} was missing: the key in it follows from the first block file, and was restored",
                path.display()
            );
        }
        return Ok(key);
    }
    // A temporary file that a crash left here does not count as content.
    disk.remove_temporary(&path)?;
    let names = disk.list(blocks)?;
    let first_run = names.iter().all(|name| name.starts_with('.') && blocks.join(name).is_file());
    let mut key = [0; Obfuscation::KEY_SIZE];
    if use_xor && first_run {
        getrandom::fill(&mut key)
            .map_err(|e| StoreError::new(&path, format!("no random bytes for a key: {e}")))?;
    }
    disk.write_atomically(&path, &key)?;
    Ok(Obfuscation::new(key))
}

/// Returns the key of the block files in a directory without `xor.dat`, which is only read, and
/// warns if bitcoind would take another one.
fn found_xor_key(blocks: &Path, network: &Network) -> Result<Obfuscation> {
    let key = lost_xor_key(blocks, network)?.unwrap_or(Obfuscation::NONE);
    if !key.is_none() {
        tracing::warn!(
            "{} is missing, and bitcoind would write a wrong one: `apus sync` restores it from the \
             first block file; run it before bitcoind",
            blocks.join("xor.dat").display()
        );
    }
    Ok(key)
}

/// Returns the key of the block files in a directory without `xor.dat`; `None` if there are no
/// blocks yet.
///
/// # Errors
/// There are blocks, and their key is not known.
fn lost_xor_key(blocks: &Path, network: &Network) -> Result<Option<Obfuscation>> {
    let files = list_block_files(blocks)?;
    if let Some(key) = recover_key(&files, network)? {
        return Ok(Some(key));
    }
    let Some(first) = first_file(&files, Obfuscation::NONE) else { return Ok(None) };
    let Err(error) = first.check_network(network) else { return Ok(Some(Obfuscation::NONE)) };
    if error.what.contains("--chain") {
        return Err(error);
    }
    Err(lost_key(blocks, &first.path))
}

/// Checks that the first block file that is not empty belongs to this network.
fn check_first_file(blocks: &Path, obfuscation: Obfuscation, network: &Network) -> Result<()> {
    let files = list_block_files(blocks)?;
    let Some(first) = first_file(&files, obfuscation) else { return Ok(()) };
    let Err(error) = first.check_network(network) else { return Ok(()) };
    let key = blocks.join("xor.dat");
    if key.is_file() && recover_key(&files, network)?.is_some_and(|known| known != obfuscation) {
        let what = "this is not the key with which the block files were written: remove this file, \
                    and run the same command again, which restores the key from the first block \
                    file";
        return Err(StoreError::new(key, what));
    }
    Err(error)
}

/// Returns the first block file that is not empty.
fn first_file(files: &[(u32, PathBuf)], obfuscation: Obfuscation) -> Option<SourceFile> {
    let mut files = files.iter().map(|(number, path)| {
        let len = path.metadata().map_or(0, |metadata| metadata.len());
        SourceFile { path: path.as_path().into(), len, obfuscation, number: Some(*number) }
    });
    files.find(|file| file.len > 0)
}
