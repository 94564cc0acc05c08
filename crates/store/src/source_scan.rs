use std::path::Path;
use std::sync::Arc;

use apus_disk::Result;

use super::{FileScan, ScanWarning, Scanned, SourceFile};

/// A block found by a scan, and its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SourceBlock {
    /// Path of the file.
    pub path: Arc<Path>,
    /// Offset of the block in the file, after magic and length.
    pub offset: u64,
    /// Length of the block in bytes.
    pub len: u32,
    /// The bytes of the block; in a scan for headers, only the first 80.
    pub bytes: Vec<u8>,
}

/// An item found by a scan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SourceItem {
    /// A block.
    Block(SourceBlock),
    /// Bytes that are not a block, and the path of the file that holds them.
    Warning(Arc<Path>, ScanWarning),
}

/// An iterator over the blocks of a source, one file after another. It ends after an error.
pub struct SourceScan<'a> {
    files: &'a [SourceFile],
    magic: [u8; 4],
    next: usize,
    current: Option<(Arc<Path>, FileScan)>,
    headers_only: bool,
}

impl<'a> SourceScan<'a> {
    /// Returns a scan of `files` for whole blocks of the network with this magic.
    pub(super) fn new(files: &'a [SourceFile], magic: [u8; 4]) -> Self {
        Self { files, magic, next: 0, current: None, headers_only: false }
    }

    pub(super) fn headers_only(self) -> Self {
        Self { headers_only: true, ..self }
    }

    /// Returns the number of bytes of the source that were scanned, for progress.
    pub fn position(&self) -> u64 {
        let before = self.next.saturating_sub(usize::from(self.current.is_some()));
        let files: u64 = self.files[..before].iter().map(|file| file.len).sum();
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
                        (self.current, self.next) = (None, self.files.len());
                        return Some(Err(e));
                    }
                    None => self.current = None,
                }
            }
            let file = self.files.get(self.next)?;
            self.next += 1;
            match file.scan(self.magic) {
                Ok(scan) => {
                    let scan = if self.headers_only { scan.headers_only() } else { scan };
                    self.current = Some((Arc::clone(&file.path), scan));
                }
                Err(e) => {
                    self.next = self.files.len();
                    return Some(Err(e));
                }
            }
        }
    }
}
