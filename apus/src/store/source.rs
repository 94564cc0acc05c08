use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::flat_file::{Kind, block_file_number};
use super::magic::{display_name, find_frame, other_networks};
use super::{FileScan, Obfuscation, ScanWarning, Scanned};
use crate::disk::{Disk, File, Result, StoreError};
use crate::wire::{Network, packed};

/// So much of a file is searched for the first block before the file is refused.
const PROBE_BYTES: u64 = 16 << 20;

/// Blocks to be read, whoever wrote them: a framed file (`bootstrap.dat`, `blk*.dat`), a directory
/// of block files, or a data directory. Nothing is locked and nothing is written.
#[derive(Clone, Debug)]
pub struct BlockSource {
    files: Vec<SourceFile>,
    magic: [u8; 4],
}

/// One file of a source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFile {
    /// Where it is.
    pub path: Arc<Path>,
    /// Its length in bytes when the source was opened.
    pub len: u64,
    /// What it is obfuscated with.
    pub obfuscation: Obfuscation,
    /// Its number, if it is one of Core's `blk*.dat`.
    pub number: Option<u32>,
}

/// A block and where it stood.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceBlock {
    /// The file.
    pub path: Arc<Path>,
    /// Offset in it, behind magic and length.
    pub offset: u64,
    /// Length of the block.
    pub len: u32,
    /// The block or, where only headers are wanted, its first 80 bytes.
    pub bytes: Vec<u8>,
}

/// What reading a source gives next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceItem {
    /// A block.
    Block(SourceBlock),
    /// Something that is none, and the file that holds it.
    Warning(Arc<Path>, ScanWarning),
}

impl BlockSource {
    /// Finds the block files that `path` means, in the order of their numbers:
    /// a file; or a directory with `blk*.dat`; or one with `blocks/`, or with the network's
    /// subdirectory and in it `blocks/`.
    ///
    /// # Errors
    /// `path` does not exist, holds no block file, or holds blocks of another network; the
    /// message says which and what to do.
    pub fn open(path: &Path, network: &Network) -> Result<Self> {
        let metadata = path.metadata().map_err(|e| StoreError::io(path, "find this path", e))?;
        let magic = network.magic;
        if !metadata.is_dir() && !metadata.is_file() {
            return Err(StoreError::new(path, "this is neither a file nor a directory"));
        }
        if metadata.is_file() {
            let file = SourceFile::probe(path, network)?;
            return Ok(Self { files: vec![file], magic });
        }
        let directory = blocks_directory(path, network)?;
        let obfuscation = read_xor_key(&directory)?.unwrap_or(Obfuscation::NONE);
        let files = block_files(&directory)?
            .into_iter()
            .map(|(number, path)| SourceFile::of_directory(number, &path, obfuscation))
            .collect::<Result<Vec<_>>>()?;
        if let Some(first) = files.iter().find(|file| file.len > 0) {
            first.check_network(network)?;
        }
        Ok(Self { files, magic })
    }

    /// Its files, in order.
    pub fn files(&self) -> &[SourceFile] {
        &self.files
    }

    /// Bytes of all files.
    pub fn len(&self) -> u64 {
        self.files.iter().map(|file| file.len).sum()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The blocks of one of [`BlockSource::files`]; files may be read in parallel.
    pub fn scan_file(&self, file: &SourceFile) -> Result<FileScan> {
        FileScan::open(&file.path, self.magic, file.obfuscation)
    }

    /// All blocks, file after file.
    pub fn scan(&self) -> SourceScan<'_> {
        SourceScan { source: self, next: 0, current: None, headers_only: false }
    }

    /// All headers, file after file, at a small part of the reading.
    pub fn scan_headers(&self) -> SourceScan<'_> {
        SourceScan { headers_only: true, ..self.scan() }
    }
}

impl SourceFile {
    /// The `len` bytes of a block that a scan has found at `offset`.
    pub fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>> {
        let file = Disk::new().open_read(&self.path)?;
        let mut bytes = Vec::new();
        file.append_to(&mut bytes, len.min(super::magic::MAX_BLOCK_BYTES) as usize, offset)?;
        self.obfuscation.apply(&mut bytes, offset);
        Ok(bytes)
    }

    fn of_directory(number: u32, path: &Path, obfuscation: Obfuscation) -> Result<Self> {
        let len = Disk::new().open_read(path)?.len()?;
        Ok(Self { path: path.into(), len, obfuscation, number: Some(number) })
    }

    /// A file given by name. One of Core's is obfuscated with the key beside it, if with that key
    /// it makes sense; others may lie there too.
    fn probe(path: &Path, network: &Network) -> Result<Self> {
        let len = Disk::new().open_read(path)?.len()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = block_file_number(&name);
        let plain = Self { path: path.into(), len, obfuscation: Obfuscation::NONE, number };
        if plain.len == 0 {
            return Err(StoreError::new(path, "this file is empty"));
        }
        let directory = path.parent().unwrap_or(Path::new("."));
        let key = read_xor_key(directory)?.filter(|key| number.is_some() && !key.is_none());
        let Some(obfuscation) = key else {
            plain.check_network(network)?;
            return Ok(plain);
        };
        let hidden = Self { obfuscation, ..plain.clone() };
        match (hidden.check_network(network), plain.check_network(network)) {
            (Ok(()), _) => Ok(hidden),
            (Err(_), Ok(())) => Ok(plain),
            (Err(e), Err(_)) => Err(e),
        }
    }

    /// An error if the file does not hold blocks of this network, but something else.
    pub(super) fn check_network(&self, network: &Network) -> Result<()> {
        let file = Disk::new().open_read(&self.path)?;
        if self.head(&file, 4)? == network.magic {
            return Ok(());
        }
        let head = self.head(&file, PROBE_BYTES)?;
        let ours = find_frame(&head, network.magic);
        let other = other_networks(network)
            .filter_map(|other| Some((find_frame(&head, other.magic)?, other)))
            .min_by_key(|(found, _)| *found)
            .filter(|(found, _)| ours.is_none_or(|ours| *found < ours));
        if let Some((_, other)) = other {
            let (name, chain) = (display_name(&other), other.chain.name());
            let what = format!(
                "this file holds {name} blocks, not {}; use --chain {chain}",
                display_name(network)
            );
            return Err(StoreError::new(&self.path, what));
        }
        let reserved = self.number.is_some() && self.obfuscation.is_unwritten(&head, 0);
        if ours.is_some() || reserved {
            return Ok(());
        }
        let what = match packed(&head) {
            Some(packed) => packed.advice(),
            None => format!(
                "this is not a file of {} blocks: give a bootstrap.dat, blk*.dat files, or the \
                 directory of a node",
                display_name(network)
            ),
        };
        Err(StoreError::new(&self.path, what))
    }

    /// The first bytes, revealed; fewer if the file is shorter.
    fn head(&self, file: &File, wanted: u64) -> Result<Vec<u8>> {
        let mut head = Vec::new();
        file.append_to(&mut head, file.len()?.min(wanted) as usize, 0)?;
        self.obfuscation.apply(&mut head, 0);
        Ok(head)
    }
}

/// The blocks of a source, file after file. An iterator; it ends after an error.
pub struct SourceScan<'a> {
    source: &'a BlockSource,
    next: usize,
    current: Option<(Arc<Path>, FileScan)>,
    headers_only: bool,
}

impl SourceScan<'_> {
    /// Bytes of the source behind us, for progress.
    pub fn position(&self) -> u64 {
        let before = self.next.saturating_sub(usize::from(self.current.is_some()));
        let files: u64 = self.source.files[..before].iter().map(|file| file.len).sum();
        files + self.current.as_ref().map_or(0, |(_, scan)| scan.position())
    }
}

impl Iterator for SourceScan<'_> {
    type Item = Result<SourceItem>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((path, scan)) = &mut self.current {
                let path = Arc::clone(path);
                match scan.next() {
                    Some(Ok(Scanned::Block { offset, len, bytes })) => {
                        let block = SourceBlock { path, offset, len, bytes };
                        return Some(Ok(SourceItem::Block(block)));
                    }
                    Some(Ok(Scanned::Warning(warning))) => {
                        return Some(Ok(SourceItem::Warning(path, warning)));
                    }
                    Some(Err(e)) => {
                        (self.current, self.next) = (None, self.source.files.len());
                        return Some(Err(e));
                    }
                    None => self.current = None,
                }
            }
            let file = self.source.files.get(self.next)?;
            self.next += 1;
            match self.source.scan_file(file) {
                Ok(scan) => {
                    let scan = if self.headers_only { scan.headers_only() } else { scan };
                    self.current = Some((Arc::clone(&file.path), scan));
                }
                Err(e) => {
                    self.next = self.source.files.len();
                    return Some(Err(e));
                }
            }
        }
    }
}

/// The key in a directory's `xor.dat`, if it has one.
pub(super) fn read_xor_key(directory: &Path) -> Result<Option<Obfuscation>> {
    let path = directory.join("xor.dat");
    let Some(bytes) = Disk::new().read(&path)? else {
        return Ok(None);
    };
    let key = bytes.get(..Obfuscation::KEY_SIZE).and_then(|key| key.try_into().ok());
    let what = || format!("the key has {} bytes instead of 8", bytes.len());
    key.map(|key| Some(Obfuscation::new(key))).ok_or_else(|| StoreError::new(&path, what()))
}

/// The files `blk*.dat` of a directory in the order of their numbers.
pub(super) fn block_files(directory: &Path) -> Result<Vec<(u32, PathBuf)>> {
    let names = Disk::new().list(directory)?;
    let mut numbers: Vec<u32> = names.iter().filter_map(|name| block_file_number(name)).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers.into_iter().map(|n| (n, Kind::Block.path(directory, n))).collect())
}

/// The directory with the block files that the user means by `path`.
fn blocks_directory(path: &Path, network: &Network) -> Result<PathBuf> {
    let below = |network: &Network| path.join(network.subdirectory).join("blocks");
    for candidate in [path.to_path_buf(), below(network), path.join("blocks")] {
        if !block_files(&candidate)?.is_empty() {
            return Ok(candidate);
        }
    }
    for other in other_networks(network) {
        if !block_files(&below(&other))?.is_empty() {
            let (name, chain) = (display_name(&other), other.chain.name());
            let what = format!("this directory holds {name} blocks; use --chain {chain}");
            return Err(StoreError::new(path, what));
        }
    }
    Err(StoreError::new(path, "there are no block files (blk00000.dat, …) in this directory"))
}
