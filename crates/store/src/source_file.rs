use std::path::Path;
use std::sync::Arc;

use apus_disk::{Disk, File, Result, StoreError};
use apus_wire::{Network, packed};

use super::blocks_dir::{read_xor_key, recover_key};
use super::flat_file::block_file_number;
use super::magic::{FRAME_BYTES, MAX_BLOCK_BYTES, display_name, find_frame, other_networks};
use super::{FileScan, Obfuscation};

/// Number of bytes of a file, from the first one that was written, that are searched for a first
/// block before the file is refused.
const PROBE_BYTES: u64 = 16 << 20;
/// Number of bytes that are read at once while the first byte that was written is looked for.
const WINDOW_BYTES: u64 = 1 << 20;
/// Number of bytes that a disk writes in one step.
const SECTOR_BYTES: u64 = 512;

/// A file of a [`super::BlockSource`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceFile {
    /// Path of the file.
    pub path: Arc<Path>,
    /// Length of the file in bytes when the source was opened.
    pub len: u64,
    /// The obfuscation of the file.
    pub obfuscation: Obfuscation,
    /// The number of the file, if it is one of Core's `blk*.dat`.
    pub number: Option<u32>,
}

impl SourceFile {
    /// Reads the `len` bytes of a block that a scan found at `offset`.
    pub fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>> {
        let file = Disk::new().open_read(&self.path)?;
        let mut bytes = Vec::new();
        file.append_to(&mut bytes, len.min(MAX_BLOCK_BYTES) as usize, offset)?;
        self.obfuscation.apply(&mut bytes, offset);
        Ok(bytes)
    }

    /// Scans the blocks of this file for the network with this magic.
    pub(super) fn scan(&self, magic: [u8; 4]) -> Result<FileScan> {
        FileScan::open(&self.path, magic, self.obfuscation)
    }

    pub(super) fn of_directory(number: u32, path: &Path, obfuscation: Obfuscation) -> Result<Self> {
        let len = Disk::new().open_read(path)?.len()?;
        Ok(Self { path: path.into(), len, obfuscation, number: Some(number) })
    }

    /// Opens the file that the user named. If it is named like one of Core's files and there is a
    /// key next to it, the key is used if it reveals blocks.
    pub(super) fn probe(path: &Path, network: &Network) -> Result<Self> {
        let len = Disk::new().open_read(path)?.len()?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = block_file_number(&name);
        let plain = Self { path: path.into(), len, obfuscation: Obfuscation::NONE, number };
        if plain.len == 0 {
            return Err(StoreError::new(path, "this file is empty"));
        }
        let directory = path.parent().unwrap_or(Path::new("."));
        let key = read_xor_key(directory)?.filter(|key| number.is_some() && !key.is_none());
        if let Some(obfuscation) = key {
            let hidden = Self { obfuscation, ..plain.clone() };
            if hidden.check_network(network).is_ok() {
                return Ok(hidden);
            }
        }
        let Err(error) = plain.check_network(network) else { return Ok(plain) };
        // The file may have been copied without its `xor.dat`.
        let named = number.map(|number| (number, path.to_path_buf()));
        let obfuscation = recover_key(named.as_slice(), network)?.ok_or(error)?;
        Ok(Self { obfuscation, ..plain })
    }

    /// Checks that the file holds blocks of `network`, or is still empty.
    ///
    /// # Errors
    /// The file holds blocks of another network, or no blocks.
    pub(super) fn check_network(&self, network: &Network) -> Result<()> {
        // Nearly every file begins with a frame, so no more of it needs to be read.
        if self.first_magic()? == network.magic {
            return Ok(());
        }
        let file = Disk::new().open_read(&self.path)?;
        let written = self.first_written(&file)?;
        let head = self.part(&file, written, PROBE_BYTES)?;
        let ours = find_frame(&head, network.magic);
        let other = other_networks(network)
            .filter_map(|other| Some((find_frame(&head, other.magic)?, other)))
            .min_by_key(|(found, _)| *found)
            .filter(|(found, _)| ours.is_none_or(|ours| *found < ours));
        if let Some((_, other)) = other {
            let name = display_name(&other);
            let chain = other.chain.name();
            let what = format!(
                "this file holds {name} blocks, not {}; use --chain {chain}",
                display_name(network)
            );
            return Err(StoreError::new(&self.path, what));
        }
        // A power cut may have lost all of a new file but the first sector.
        let reserved =
            self.number.is_some() && (written + FRAME_BYTES >= SECTOR_BYTES || head.is_empty());
        if ours.is_some() || reserved {
            return Ok(());
        }
        let what = match packed(&head) {
            Some(packed) => packed.advice(),
            None if head.is_empty() => "this file holds only zeros, as if its download had not \
                                        begun"
                .to_string(),
            None => format!(
                "this is not a file of {} blocks: give a bootstrap.dat, blk*.dat files, or the \
                 directory of a node",
                display_name(network)
            ),
        };
        Err(StoreError::new(&self.path, what))
    }

    /// Returns the first four bytes of the file, where a network's magic is.
    pub(super) fn first_magic(&self) -> Result<Vec<u8>> {
        self.part(&Disk::new().open_read(&self.path)?, 0, 4)
    }

    /// Returns whether nothing was ever written to the file.
    pub(super) fn is_unwritten(&self) -> Result<bool> {
        let file = Disk::new().open_read(&self.path)?;
        Ok(self.first_written(&file)? == file.len()?)
    }

    /// Returns a place before the first byte that was written, less than a frame before it, which
    /// may begin with zeros; the length of the file if nothing was written.
    fn first_written(&self, file: &File) -> Result<u64> {
        let mut at = 0;
        loop {
            let part = self.part(file, at, WINDOW_BYTES)?;
            let is_written =
                |(byte, at)| !self.obfuscation.is_unwritten(std::slice::from_ref(byte), at);
            if part.is_empty() {
                return Ok(at);
            }
            if !self.obfuscation.is_unwritten(&part, at) {
                let zeros = part.iter().zip(at..).position(is_written).unwrap_or(0);
                return Ok((at + zeros as u64).saturating_sub(FRAME_BYTES));
            }
            at += part.len() as u64;
        }
    }

    /// Returns the `wanted` bytes of the file from `at` on, revealed, or less at its end.
    fn part(&self, file: &File, at: u64, wanted: u64) -> Result<Vec<u8>> {
        let mut part = Vec::new();
        let left = file.len()?.saturating_sub(at);
        file.append_to(&mut part, left.min(wanted) as usize, at)?;
        self.obfuscation.apply(&mut part, at);
        Ok(part)
    }
}
