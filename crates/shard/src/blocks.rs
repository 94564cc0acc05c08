//! The blocks of a job, read in large pieces ahead of use.

use std::ops::Range;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use apus_chain::Tree;
use apus_disk::{StoreError, lock};
use apus_hash::HashKey;
use apus_node::block::step::Step;
use apus_node::block_peers::{BlockPeers, Wanted};
use apus_node::fault::Fault;
use apus_node::sources::BlockBytes;
use apus_progress::Observer;

use super::ahead::Ahead;
use super::job::{BlockPlace, Job, JobFile};
use crate::objects::Objects;

/// Bytes of blocks that are read together, and how many such groups are read ahead of use.
const GROUP_BYTES: u64 = 4 << 20;
const GROUPS_AHEAD: usize = 8;
/// Blocks of a group that lie so near each other in a file, in bytes, are read at once.
const GAP_BYTES: u64 = 256 << 10;

/// The blocks of a range of heights, which are taken in order.
pub struct JobBlocks {
    hash_key: HashKey,
    line: Mutex<Line>,
}

/// The blocks that were read and not taken, the next one last, and the blocks after them.
struct Line {
    next: u32,
    group: Vec<BlockBytes>,
    groups: Ahead<Result<Vec<BlockBytes>, StoreError>>,
    /// The keyed hashes of all blocks that were fetched.
    digests: Vec<[u8; 16]>,
}

/// The files and options of the threads that read.
struct Files {
    objects: Objects,
    files: Vec<JobFile>,
    places: Arc<[BlockPlace]>,
}

impl JobBlocks {
    /// Begins to read the blocks at these heights.
    ///
    /// # Errors
    /// The place of the block files is none that this build can read.
    pub fn new(job: &Job, heights: Range<u32>) -> Result<Self, StoreError> {
        let manifest = &job.manifest;
        let objects = Objects::open(&manifest.blocks_url, &apus_disk::Disk::new())?;
        let files = manifest.files.iter().map(JobFile::clone).collect();
        let files = Files { objects, files, places: Arc::clone(&job.places) };
        let groups = groups(&job.places, heights.clone());
        let next = heights.start;
        let count = groups.len();
        let read = move |index: usize| files.read_group(groups[index].clone());
        let groups = Ahead::new(count, GROUPS_AHEAD, read);
        let line = Line { next, group: Vec::new(), groups, digests: Vec::new() };
        Ok(Self { hash_key: manifest.hash_key.clone(), line: Mutex::new(line) })
    }

    /// Returns the next block.
    ///
    /// # Panics
    /// There is no further block, or the next one is not at `height`.
    pub fn take(&self, height: u32) -> Result<BlockBytes, StoreError> {
        let mut line = lock(&self.line);
        assert_eq!(line.next, height, "blocks are taken in order");
        while line.group.is_empty() {
            line.group = line.groups.next().expect("there are blocks up to this height")?;
            line.group.reverse();
        }
        line.next += 1;
        Ok(line.group.pop().expect("the group was not empty"))
    }

    /// Returns the keyed hashes of the blocks that a worker has fetched, in order.
    pub fn take_digests(&self) -> Vec<[u8; 16]> {
        std::mem::take(&mut lock(&self.line).digests)
    }
}

/// Cuts heights into groups of blocks that are read together.
fn groups(places: &[BlockPlace], heights: Range<u32>) -> Vec<Range<usize>> {
    let mut groups: Vec<Range<usize>> = Vec::new();
    let mut bytes: u64 = 0;
    let first = heights.start as usize - 1;
    let end = heights.end as usize - 1;
    for (index, place) in (first..).zip(&places[first..end]) {
        let len = u64::from(place.len);
        match groups.last_mut() {
            Some(last) if bytes + len <= GROUP_BYTES => last.end = index + 1,
            _ => {
                groups.push(index..index + 1);
                bytes = 0;
            }
        }
        bytes += len;
    }
    groups
}

impl Files {
    /// Reads the blocks at these places, by as few reads as their places in the files allow.
    fn read_group(&self, group: Range<usize>) -> Result<Vec<BlockBytes>, StoreError> {
        let places = &self.places[group];
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_unstable_by_key(|at| (places[*at].file, places[*at].offset));
        let mut blocks = vec![Vec::new(); places.len()];
        let is_near = |one: &usize, next: &usize| {
            let one = &places[*one];
            let next = &places[*next];
            let end = one.offset + u64::from(one.len);
            one.file == next.file && next.offset <= end + GAP_BYTES
        };
        for near in order.chunk_by(is_near) {
            let first = places[near[0]];
            let ends = near.iter().map(|at| places[*at].offset + u64::from(places[*at].len));
            let end = ends.max().unwrap_or(first.offset);
            let file = &self.files[first.file as usize];
            let bytes = self.objects.read_range(&file.name, first.offset..end)?;
            for at in near {
                let BlockPlace { offset, len, .. } = places[*at];
                let start = (offset - first.offset) as usize;
                let mut block = bytes[start..start + len as usize].to_vec();
                file.obfuscation.apply(&mut block, offset);
                blocks[*at] = block;
            }
        }
        Ok(blocks)
    }
}

/// The tasks of a job wait for its blocks as a sync waits for those of peers.
impl BlockPeers for JobBlocks {
    fn fetch(
        &self,
        tree: &Tree,
        step: Step,
        _halt: &AtomicBool,
        check: &mut dyn FnMut(BlockBytes) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let bytes = self.take(tree.node(step.id).height)?;
        let digest = self.hash_key.hash(&bytes);
        lock(&self.line).digests.push(digest);
        check(bytes)
    }

    fn serve(&self, _: &Tree, _: Wanted, _: &dyn Observer, work: &mut dyn FnMut()) {
        work();
    }
}
