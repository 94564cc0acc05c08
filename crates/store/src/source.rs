use std::path::{Path, PathBuf};

use apus_disk::{Disk, Result, StoreError};
use apus_wire::Network;

use super::blocks_dir::{list_block_files, lost_key, read_xor_key, recover_key};
use super::magic::{display_name, other_networks};
use super::{Obfuscation, SourceFile, SourceScan};

/// Blocks to be read from files: a file of framed blocks (`bootstrap.dat`, `blk*.dat`), a directory
/// of block files, or a data directory. Nothing is locked or written.
#[derive(Clone, Debug)]
pub struct BlockSource {
    path: PathBuf,
    files: Vec<SourceFile>,
    magic: [u8; 4],
}

impl BlockSource {
    /// Finds the block files that `path` names: a file, a directory with files `blk*.dat`, or a
    /// directory with such files in `blocks/`, or in `blocks/` of the network's subdirectory.
    /// Numbered files are ordered by their numbers.
    ///
    /// # Errors
    /// `path` does not exist, holds no block file, or holds blocks of another network. The message
    /// says which, and what to do.
    pub fn open(path: &Path, network: &Network) -> Result<Self> {
        let metadata = path.metadata().map_err(|e| StoreError::io(path, "find this path", e))?;
        let magic = network.magic;
        let named = path.to_path_buf();
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(StoreError::new(path, "this is neither a file nor a directory"));
        }
        if metadata.is_file() {
            let file = SourceFile::probe(path, network)?;
            return Ok(Self { path: named, files: vec![file], magic });
        }
        let directory = blocks_directory(path, network)?;
        let found = list_block_files(&directory)?;
        let obfuscation = read_xor_key(&directory)?.unwrap_or(Obfuscation::NONE);
        let mut files = found
            .iter()
            .map(|(number, path)| SourceFile::of_directory(*number, path, obfuscation))
            .collect::<Result<Vec<_>>>()?;
        if let Some(first) = files.iter().find(|file| file.len > 0)
            && let Err(error) = first.check_network(network)
        {
            // `xor.dat` is missing, or it is that of other files.
            let is_of_node = directory.join("index").is_dir();
            let lacks_key = is_of_node && !directory.join("xor.dat").is_file();
            let key = recover_key(&found, network)?.ok_or_else(|| {
                if lacks_key && !error.what.contains("--chain") {
                    lost_key(&directory, &first.path)
                } else {
                    error
                }
            })?;
            files.iter_mut().for_each(|file| file.obfuscation = key);
        }
        Ok(Self { path: named, files, magic })
    }

    /// Returns the file or directory that the user named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finds all blocks that a user may mean by `path`: those of [`BlockSource::open`], and those
    /// of a `bootstrap.dat` in the directory.
    ///
    /// # Errors
    /// As for [`BlockSource::open`].
    pub fn open_all(path: &Path, network: &Network) -> Result<Vec<Self>> {
        let bootstrap = path.join("bootstrap.dat");
        if !bootstrap.is_file() {
            return Ok(vec![Self::open(path, network)?]);
        }
        let has_block_files = find_blocks_directory(path, network)?.is_some();
        let named = [has_block_files.then_some(path), Some(bootstrap.as_path())];
        named.into_iter().flatten().map(|path| Self::open(path, network)).collect()
    }

    /// Returns the files, in the order in which they are scanned.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Divides numbered files into those up to the first number that is missing, and those above.
    pub fn split_at_missing(mut self) -> (Self, Self) {
        let is_next = |(number, file): (u32, &SourceFile)| file.number == Some(number);
        let count = (0..).zip(&self.files).take_while(|file| is_next(*file)).count();
        let above = Self { files: self.files.split_off(count), ..self.clone() };
        (self, above)
    }

    /// Returns the numbered files above the first number that is missing, with that number.
    /// bitcoind reads none of them.
    pub fn above_missing(&self) -> Option<(u32, &[SourceFile])> {
        let numbered = self.files.first()?.number == Some(0);
        let is_next = |(number, file): (u32, &SourceFile)| file.number == Some(number);
        let count = (0..).zip(&self.files).take_while(|file| is_next(*file)).count();
        (numbered && count < self.files.len()).then(|| (count as u32, &self.files[count..]))
    }

    /// Says of the block file before `file` that it is missing, or was never written; `None` if
    /// neither is so, or if the files have no numbers.
    pub fn lost_before(&self, file: &SourceFile) -> Option<String> {
        let before = file.number?.checked_sub(1)?;
        let below = |other: &&SourceFile| other.number.is_some_and(|number| number <= before);
        let last = self.files.iter().rfind(below);
        let first_missing = last.and_then(|last| last.number).map_or(0, |number| number + 1);
        if first_missing <= before {
            let path = file.path.with_file_name(format!("blk{first_missing:05}.dat"));
            return Some(format!("{} is missing (deleted by pruning, or lost)", path.display()));
        }
        let is_unwritten = last.is_some_and(|last| last.is_unwritten().unwrap_or(false));
        is_unwritten
            .then(|| last.map(|last| format!("{} holds only zeros", last.path.display())))?
    }

    /// Returns the number of bytes of all files.
    pub fn len(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// Returns whether all files are empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Scans all blocks, one file after another.
    pub fn scan(&self) -> SourceScan<'_> {
        SourceScan::new(&self.files, self.magic)
    }

    /// Scans the headers of all blocks, one file after another, which reads a small part of the
    /// files.
    pub fn scan_headers(&self) -> SourceScan<'_> {
        self.scan().headers_only()
    }
}

/// Returns the directory of block files that a user means by `path`; `None` if there is none.
fn find_blocks_directory(path: &Path, network: &Network) -> Result<Option<PathBuf>> {
    let below = path.join(network.subdirectory).join("blocks");
    for candidate in [path.to_path_buf(), below, path.join("blocks")] {
        if !list_block_files(&candidate)?.is_empty() {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

/// Returns the directory of block files that a user means by `path`.
///
/// # Errors
/// There is none, or one of another network.
fn blocks_directory(path: &Path, network: &Network) -> Result<PathBuf> {
    if let Some(found) = find_blocks_directory(path, network)? {
        return Ok(found);
    }
    let below = |network: &Network| path.join(network.subdirectory).join("blocks");
    for other in other_networks(network) {
        if !list_block_files(&below(&other))?.is_empty() {
            let name = display_name(&other);
            let chain = other.chain.name();
            let what = format!("this directory holds {name} blocks; use --chain {chain}");
            return Err(StoreError::new(path, what));
        }
    }
    // btcd's files, and those of Bitcoin before 0.8.
    let is_older = |name: &String| name.ends_with(".fdb") || name == "blk0001.dat";
    let what = match Disk::new().list(path)?.into_iter().find(is_older) {
        Some(name) => format!(
            "{name} is a block file of btcd or of Bitcoin before 0.8, whose directories cannot be \
             read: name each such file with a --from of its own"
        ),
        None => "there are no block files (blk00000.dat, …) and no bootstrap.dat in this directory"
            .to_string(),
    };
    Err(StoreError::new(path, what))
}
