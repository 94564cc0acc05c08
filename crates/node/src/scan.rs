//! Headers first, from files: finds every block in the sources, reading no more of it than its
//! header, and adds the headers to the tree. The files may hold the blocks in any order; the best
//! chain is known after a scan, and with it whether scripts are to be checked.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use apus_chain::{BlockId, Tree};
use apus_consensus::{RuleClass, RuleError, stated_height};
use apus_hash::Hash;
use apus_store::{BlockSource, ScanWarning, SourceItem};
use apus_wire::{BlockView, Cursor, Header};

use super::error::SyncError;
use super::opened::Node;
use super::options::Options;
use super::refusals::Refusals;
use super::sources::{Gap, SourcePlace, Sources};
use super::system_clock::clocks;
use apus_progress::clock::unix_time;
use apus_progress::outcome::Refusal;
use apus_progress::words::thousands;
use apus_progress::{Observer, Phase, Progress, Watch};

/// Number of headers between two progress reports, each of which walks the list of files.
const REPORT_EVERY: u64 = 256;

/// Opens all sources, each of which must hold something usable.
pub fn open_sources(options: &Options, paths: &[PathBuf]) -> Result<Vec<BlockSource>, SyncError> {
    let opened = paths.iter().map(|path| BlockSource::open_all(path, &options.network));
    let opened: Vec<Vec<BlockSource>> = opened.collect::<Result<_, _>>()?;
    Ok(opened.into_iter().flatten().collect())
}

/// The results of a scan.
pub struct Findings<'a> {
    /// The headers found so far.
    pub tree: &'a mut Tree,
    /// The scanned files, and where their blocks are.
    pub sources: &'a mut Sources,
    /// Blocks and other bytes that were not taken.
    pub refusals: &'a mut Refusals,
}

/// Scans sources into `node`; blocks and other bytes that cannot be taken become refusals.
pub fn scan_into_node(
    node: &mut Node,
    opened: &[BlockSource],
    watch: Watch,
) -> Result<(), SyncError> {
    let (findings, ledger) = node.findings();
    let note = |findings: &mut Findings, id: BlockId, place| {
        ledger.records.follow(findings.tree);
        let entry = &ledger.record(id);
        if entry.block_pos().is_none() {
            findings.sources.note(id, place);
            findings.tree.mark_available(id);
        } else if entry.undo_pos().is_none() {
            findings.sources.note_stored(id, place);
        } else {
            findings.sources.note_spare(id, place);
        }
    };
    scan(findings, note, opened, watch)
}

/// Scans sources into `findings`, and calls `note` with the place of each block whose header is in
/// the tree; blocks and other bytes that cannot be taken become refusals.
pub fn scan(
    findings: Findings,
    note: impl FnMut(&mut Findings, BlockId, SourcePlace),
    opened: &[BlockSource],
    watch: Watch,
) -> Result<(), SyncError> {
    let total: u64 = opened.iter().map(|source| source.len()).sum();
    let mut scan = Scan {
        findings,
        note,
        waiting: HashMap::new(),
        file: 0,
        now: unix_time(),
        accepted: 0,
        gaps: 0,
        gap_bytes: 0,
    };
    let mut before = 0;
    let mut first_files = Vec::new();
    for source in opened {
        let first_file = scan.findings.sources.add(source);
        first_files.push((first_file, source));
        scan.file = 0;
        let mut items = source.scan_headers();
        while let Some(item) = items.next() {
            scan.take(item?, source, first_file);
            if watch.is_stopped() {
                return Err(SyncError::Stopped);
            }
            if scan.accepted.is_multiple_of(REPORT_EVERY) {
                scan.report(watch.observer, before + items.position(), total);
            }
        }
        before += source.len();
    }
    if scan.gaps > 0 {
        let gaps = thousands(scan.gaps);
        let bytes = thousands(scan.gap_bytes);
        watch.observer.note(&format!(
            "{bytes} zeros before blocks were passed over (gaps: {gaps}): space that a node \
             reserved, or a download that is not complete"
        ));
    }
    scan.note_gap(&first_files);
    scan.refuse_waiting();
    for source in opened {
        pass_over(&mut scan.findings.refusals.listed, source, watch.observer);
    }
    Ok(())
}

/// Takes back the refusals of a source's files above a gap in the numbering, which bitcoind does
/// not read at all.
fn pass_over(refusals: &mut Vec<Refusal>, source: &BlockSource, observer: &dyn Observer) {
    let Some((missing, above)) = source.above_missing() else { return };
    for file in above {
        let is_here = |refusal: &mut Refusal| refusal.path.as_deref() == Some(&*file.path);
        let Some(first) = refusals.extract_if(.., is_here).last() else { continue };
        observer.note(&format!(
            "What {} holds was passed over, as by bitcoind, since blk{missing:05}.dat is missing: \
             {}",
            file.path.display(),
            Refusal { path: None, ..first }
        ));
    }
}

/// A header whose parent has not been found yet.
struct Waiting {
    header: Header,
    hash: Hash,
    place: SourcePlace,
}

/// A scan of sources in progress.
struct Scan<'a, N> {
    findings: Findings<'a>,
    note: N,
    /// Headers without a known parent, by the hash of the parent.
    waiting: HashMap<Hash, Vec<Waiting>>,
    /// Index in the source of the file that is being scanned.
    file: usize,
    /// The time against which headers are checked.
    now: i64,
    /// Number of headers accepted so far.
    accepted: u64,
    /// Number of stretches of zeros before blocks, and of the zeros in them.
    gaps: u64,
    gap_bytes: u64,
}

impl<N: FnMut(&mut Findings, BlockId, SourcePlace)> Scan<'_, N> {
    fn take(&mut self, item: SourceItem, source: &BlockSource, first_file: u32) {
        match item {
            SourceItem::Warning(_, ScanWarning::Padding { len, .. }) => {
                self.gaps += 1;
                self.gap_bytes += len;
            }
            SourceItem::Warning(path, warning) => self.refuse_bytes(&path, &warning),
            SourceItem::Block(block) => {
                // Files come in order; comparing paths for every block would take minutes.
                let rest = source.files()[self.file..].iter();
                let steps = rest.take_while(|file| !Arc::ptr_eq(&file.path, &block.path));
                self.file += steps.count();
                let file = first_file + self.file as u32;
                let place = SourcePlace { file, offset: block.offset, len: block.len };
                self.findings.sources.note_end(place);
                match Header::parse(&mut Cursor::new(&block.bytes)) {
                    Ok(header) => {
                        let hash = header.hash();
                        self.accept(Waiting { header, hash, place });
                    }
                    Err(error) => {
                        let reason = format!("not a header: {error}");
                        let refusal = self.findings.sources.refusal(place, reason);
                        self.findings.refusals.listed.push(refusal);
                    }
                }
            }
        }
    }

    /// Accepts a header, and all descendants that waited for it, in the order in which they were
    /// found: among chains of equal work, the first becomes the tip.
    fn accept(&mut self, first: Waiting) {
        let mut queue = VecDeque::from([first]);
        while let Some(waiting) = queue.pop_front() {
            match self.findings.tree.accept_header(&waiting.header, self.now) {
                Ok(id) => {
                    self.accepted += 1;
                    (self.note)(&mut self.findings, id, waiting.place);
                    queue.extend(self.waiting.remove(&waiting.hash).unwrap_or_default());
                }
                Err(error) if error.class == RuleClass::MissingPrev => {
                    self.waiting.entry(waiting.header.prev).or_default().push(waiting);
                }
                Err(error) if error.class == RuleClass::TimeFuture => {
                    self.note_parent(&waiting, &error);
                    let time = waiting.header.time;
                    let from_future = &mut self.findings.sources.from_future;
                    *from_future = (*from_future).max(Some(time));
                    self.refuse(&waiting, format!("{error}: {}", clocks("the block", time)));
                }
                Err(error) => {
                    self.note_parent(&waiting, &error);
                    self.refuse(&waiting, error.to_string());
                }
            }
        }
    }

    /// Records the parent of a header that breaks a rule on it.
    fn note_parent(&mut self, waiting: &Waiting, error: &RuleError) {
        let is_of_header = matches!(error.class, RuleClass::InvalidHeader | RuleClass::TimeFuture);
        // `high-hash` is the one rule on a header alone.
        if is_of_header && error.reason != "high-hash" {
            let parent = self.findings.tree.find(&waiting.header.prev);
            self.findings.refusals.on_parents.extend(parent.map(|parent| (waiting.hash, parent)));
        }
    }

    fn refuse(&mut self, waiting: &Waiting, reason: String) {
        let block = Some(waiting.hash);
        let refusal = Refusal { block, ..self.findings.sources.refusal(waiting.place, reason) };
        self.findings.refusals.listed.push(refusal);
    }

    fn refuse_bytes(&mut self, path: &Path, warning: &ScanWarning) {
        self.findings.refusals.listed.push(Refusal {
            path: Some(path.to_path_buf()),
            offset: Some(warning.offset()),
            block: None,
            reason: warning.to_string(),
        });
    }

    /// Records where the longest branch begins whose first parent was not found, if it is in a
    /// directory. `sources` are given with the index of their first file.
    fn note_gap(&mut self, sources: &[(u32, &BlockSource)]) {
        let waiting = || self.waiting.values().flatten();
        let inside: HashSet<Hash> = waiting().map(|waiting| waiting.hash).collect();
        let blocks_above = |first: &&Waiting| {
            let mut seen = HashSet::new();
            let mut next = vec![first.hash];
            while let Some(hash) = next.pop() {
                if seen.insert(hash) {
                    let children = self.waiting.get(&hash).into_iter().flatten();
                    next.extend(children.map(|child| child.hash));
                }
            }
            seen.len()
        };
        let firsts = waiting().filter(|waiting| !inside.contains(&waiting.header.prev));
        // A block may have been found many times.
        let firsts: HashMap<Hash, &Waiting> =
            firsts.map(|waiting| (waiting.hash, waiting)).collect();
        let first = firsts.into_values().max_by_key(blocks_above);
        self.findings.sources.gap = first.and_then(|Waiting { hash, place, .. }| {
            let (_, source) = sources.iter().rfind(|(file, _)| *file <= place.file)?;
            let bytes = self.findings.sources.read(*place).ok()?;
            let file = &self.findings.sources.files()[place.file as usize];
            source.path().is_dir().then(|| Gap {
                path: source.path().to_path_buf(),
                first: *hash,
                lost: source.lost_before(file),
                height: BlockView::parse(&bytes)
                    .ok()
                    .and_then(|view| stated_height(&view, self.findings.tree.network())),
            })
        });
    }

    /// Refuses the blocks whose parent was not found. Their descendants are counted, not listed.
    fn refuse_waiting(&mut self) {
        let inside: HashSet<Hash> =
            self.waiting.values().flatten().map(|waiting| waiting.hash).collect();
        let mut roots: Vec<(Hash, Vec<Waiting>)> =
            self.waiting.drain().filter(|(parent, _)| !inside.contains(parent)).collect();
        // If a block was found twice, both copies wait.
        let children: HashSet<Hash> =
            roots.iter().flat_map(|(_, waiting)| waiting).map(|waiting| waiting.hash).collect();
        let followers = match inside.len() - children.len() {
            0 => String::new(),
            1 => "; 1 more block builds on blocks without a known parent".to_string(),
            more => format!("; {more} more blocks build on blocks without a known parent"),
        };
        roots.sort_by_key(|(parent, _)| *parent);
        for (parent, children) in roots {
            for waiting in children {
                let reason = format!(
                    "parent {parent} is neither in the block index nor among the blocks accepted \
                     from the files that were read{followers}"
                );
                self.refuse(&waiting, reason);
            }
        }
    }

    fn report(&self, observer: &dyn Observer, position: u64, total: u64) {
        let tree = &self.findings.tree;
        let best = tree.node(tree.best_header());
        observer.observe(&Progress {
            height: best.height,
            time: best.time,
            blocks: self.accepted,
            bytes: position,
            fraction: position as f64 / total.max(1) as f64,
            ..Progress::of(Phase::Headers)
        });
    }
}
