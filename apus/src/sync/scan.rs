//! Headers first, from files: finds every block in the sources without reading more of it than
//! its header, and puts the headers into the tree. Whatever order the files have, afterwards the
//! best chain is known, and with it whether scripts are to be checked.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use super::error::SyncError;
use super::node::{Node, now};
use super::options::Options;
use super::outcome::Refusal;
use super::progress::{Observer, Phase, Progress};
use super::sources::{SourcePlace, Sources};
use crate::chain::{BlockId, Offer, Tree};
use crate::hash::Hash;
use crate::rules::{RuleClass, RuleError};
use crate::store::{BlockSource, ScanWarning, SourceItem};
use crate::wire::{Cursor, Header};

/// Headers between two looks at how far the scan is, which walks the list of files.
const REPORT_EVERY: u64 = 256;

/// A header whose parent has not come yet.
struct Waiting {
    header: Header,
    hash: Hash,
    place: SourcePlace,
}

/// Opens all sources, each of which must hold something of use.
pub(super) fn open_sources(
    options: &Options,
    paths: &[PathBuf],
) -> Result<Vec<BlockSource>, SyncError> {
    let opened = paths.iter().map(|path| BlockSource::open(path, &options.network));
    Ok(opened.collect::<Result<_, _>>()?)
}

/// What a scan fills: a tree of headers, and places of blocks.
pub(super) trait Finds {
    /// The headers found so far.
    fn tree(&mut self) -> &mut Tree;
    /// The files that are scanned.
    fn sources(&mut self) -> &mut Sources;
    /// What is not taken.
    fn refusals(&mut self) -> &mut Vec<Refusal>;
    /// A block whose header is in the tree is at this place.
    fn found(&mut self, id: BlockId, place: SourcePlace);
    /// Something framed like a block is at this place.
    fn framed(&mut self, _place: SourcePlace) {}
}

impl Finds for Node {
    fn tree(&mut self) -> &mut Tree {
        &mut self.tree
    }

    fn sources(&mut self) -> &mut Sources {
        &mut self.sources
    }

    fn refusals(&mut self) -> &mut Vec<Refusal> {
        &mut self.refusals
    }

    fn found(&mut self, id: BlockId, place: SourcePlace) {
        self.ledger.follow(&self.tree);
        let entry = self.entry(id);
        if entry.block_pos().is_none() {
            self.sources.note(id, place);
            self.tree.offer(id, Offer::AtHand);
        } else if entry.undo_pos().is_none() {
            self.sources.note_stored(id, place);
        } else {
            self.sources.note_spare(id, place);
        }
    }
}

/// Scans sources into `finds`; what is wrong with them becomes refusals. Whether it came to the end
/// before somebody asked to stop.
pub(super) fn scan_opened<F: Finds>(
    finds: &mut F,
    opened: &[BlockSource],
    observer: &dyn Observer,
    stop: &AtomicBool,
) -> Result<bool, SyncError> {
    let total: u64 = opened.iter().map(|source| source.len()).sum();
    let mut scan = Scan { finds, waiting: HashMap::new(), file: 0, now: now(), blocks: 0 };
    let mut before = 0;
    for source in opened {
        let first_file = scan.finds.sources().add(source);
        scan.file = 0;
        let mut items = source.scan_headers();
        while let Some(item) = items.next() {
            scan.take(item?, source, first_file);
            if stop.load(Relaxed) {
                return Ok(false);
            }
            if scan.blocks.is_multiple_of(REPORT_EVERY) {
                scan.report(observer, before + items.position(), total);
            }
        }
        before += source.len();
    }
    scan.refuse_waiting();
    Ok(true)
}

struct Scan<'a, F> {
    finds: &'a mut F,
    /// By the hash of the parent.
    waiting: HashMap<Hash, Vec<Waiting>>,
    /// Index in the source of the file that is being scanned.
    file: usize,
    now: i64,
    blocks: u64,
}

impl<F: Finds> Scan<'_, F> {
    fn take(&mut self, item: SourceItem, source: &BlockSource, first_file: u32) {
        match item {
            SourceItem::Warning(path, warning) => self.refuse_bytes(&path, &warning),
            SourceItem::Block(block) => {
                // Files come in order; to compare paths for every block would take minutes.
                let behind = source.files()[self.file..].iter();
                let steps = behind.take_while(|file| !Arc::ptr_eq(&file.path, &block.path));
                self.file += steps.count();
                let file = first_file + self.file as u32;
                let place = SourcePlace { file, offset: block.offset, len: block.len };
                self.finds.framed(place);
                match Header::parse(&mut Cursor::new(&block.bytes)) {
                    Ok(header) => {
                        let hash = header.hash();
                        self.accept(Waiting { header, hash, place });
                    }
                    Err(error) => {
                        let reason = format!("not a header: {error}");
                        let refusal = self.finds.sources().refusal(place, reason);
                        self.finds.refusals().push(refusal);
                    }
                }
            }
        }
    }

    /// Accepts a header, and all that have waited for it, in the order in which they came: among
    /// equals the first becomes the tip.
    fn accept(&mut self, first: Waiting) {
        let mut queue = VecDeque::from([first]);
        while let Some(waiting) = queue.pop_front() {
            match self.finds.tree().accept_header(&waiting.header, self.now) {
                Ok(id) => {
                    self.blocks += 1;
                    self.finds.found(id, waiting.place);
                    queue.extend(self.waiting.remove(&waiting.hash).unwrap_or_default());
                }
                Err(error) if error.class == RuleClass::MissingPrev => {
                    self.waiting.entry(waiting.header.prev).or_default().push(waiting);
                }
                Err(error) => self.refuse(&waiting, &error),
            }
        }
    }

    fn refuse(&mut self, waiting: &Waiting, error: &RuleError) {
        let mut refusal = self.finds.sources().refusal(waiting.place, error.to_string());
        refusal.block = Some(waiting.hash);
        self.finds.refusals().push(refusal);
    }

    fn refuse_bytes(&mut self, path: &Path, warning: &ScanWarning) {
        self.finds.refusals().push(Refusal {
            path: Some(path.to_path_buf()),
            offset: Some(warning.offset()),
            block: None,
            reason: warning.to_string(),
        });
    }

    /// What still waits has no parent anywhere: one refusal for each parent that is missing.
    fn refuse_waiting(&mut self) {
        let inside: HashSet<Hash> =
            self.waiting.values().flatten().map(|waiting| waiting.hash).collect();
        let mut roots: Vec<(Hash, Vec<Waiting>)> =
            self.waiting.drain().filter(|(parent, _)| !inside.contains(parent)).collect();
        // Of a block that came twice, both copies wait.
        let children: HashSet<Hash> =
            roots.iter().flat_map(|(_, waiting)| waiting).map(|waiting| waiting.hash).collect();
        let behind = inside.len() - children.len();
        roots.sort_by_key(|(parent, _)| *parent);
        for (parent, children) in roots {
            for waiting in children {
                let mut reason = format!("its parent {parent} is nowhere");
                if behind > 0 {
                    reason += &format!("; {behind} blocks build on such blocks");
                }
                let mut refusal = self.finds.sources().refusal(waiting.place, reason);
                refusal.block = Some(waiting.hash);
                self.finds.refusals().push(refusal);
            }
        }
    }

    fn report(&mut self, observer: &dyn Observer, position: u64, total: u64) {
        let tree = self.finds.tree();
        let best = tree.node(tree.best_header());
        observer.observe(&Progress {
            phase: Phase::Headers,
            height: best.height,
            time: best.header.time,
            blocks: self.blocks,
            bytes: position,
            coins: 0,
            fraction: position as f64 / total.max(1) as f64,
        });
    }
}
