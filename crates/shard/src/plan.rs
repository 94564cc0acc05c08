//! Plans a job: finds the blocks, and cuts the work.

use std::path::{Path, PathBuf};

use apus_chain::{ActiveChain, BlockId};
use apus_disk::Disk;
use apus_hash::{Hash, HashKey};
use apus_host::temporary::TemporaryDir;
use apus_join::{Layout, Memory};
use apus_node::error::SyncError;
use apus_node::opened::{Coins, Node, step};
use apus_node::options::{AssumeValid, JoinOptions, Options};
use apus_node::run::Run;
use apus_node::scan::{open_sources, scan_into_node};
use apus_node::sources::{BlockOrigin, SourcePlace};
use apus_progress::Watch;
use apus_progress::outcome::Refusal;
use apus_store::SourceFile;
use apus_sync::unfinished::open_node;

use super::job::{BlockPlace, Counts, Job, JobFile, Manifest};
use crate::objects::Objects;

/// Bytes of blocks in a span, or for each partition, of a long chain by default. Each task looks
/// into the results of all tasks before, so that many small ones take longer than the work; the
/// records of a larger one would not fit in memory.
const SPAN_BYTES: u64 = 768 << 20;
const PARTITION_BYTES: u64 = 768 << 20;
/// Bytes of blocks in a bucket of a long chain by default.
const BUCKET_BYTES: u64 = 512 << 20;
/// Of a short chain there are this many parts by default, if each then has enough bytes.
const PARTS_OF_SHORT_CHAIN: u64 = 64;
const PART_BYTES_MIN: u64 = 64 << 20;
/// Most parts of a kind.
const PARTS_MAX: usize = 10_000;

/// How to cut the work; `None` for a number that suits the blocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cuts {
    /// The number of spans of heights to read.
    pub spans: Option<usize>,
    /// The number of partitions of txids to match.
    pub partitions: Option<usize>,
    /// The number of buckets of blocks to check.
    pub buckets: Option<usize>,
}

/// Where the tasks find the block files.
pub struct BlocksAt<'a> {
    /// The files or directories to plan from.
    pub sources: &'a [PathBuf],
    /// Where tasks find the same files, if that is another path or an object store.
    pub url: Option<&'a str>,
}

/// A planned job.
pub struct Planned {
    /// The numbers of tasks.
    pub counts: Counts,
    /// The blocks, and parts of files, that were not taken: their headers break a rule, or they are
    /// no blocks.
    pub refusals: Vec<Refusal>,
}

/// Plans a job for the best chain of the blocks in `blocks`, from the first block up to the last or
/// to [`Options::stop_at_height`], and writes it to `url`. Of the options, the network, what is
/// assumed valid, the script engine and the memory (for each task) count.
///
/// # Errors
/// The blocks cannot be read or are not those of a chain, another job is there already, or nothing
/// can be written there.
pub fn plan(
    options: &Options,
    blocks: &BlocksAt,
    url: &str,
    cuts: Cuts,
    watch: Watch,
) -> Result<Planned, SyncError> {
    let objects = Objects::open(url, &Disk::new())?;
    if Job::find(url, &Disk::new(), None)?.is_some() {
        return Err(SyncError::Input(format!(
            "{url} holds a job already: go on with it, or name a place that is empty"
        )));
    }
    let opened = open_sources(options, blocks.sources)?;
    let scratch = TemporaryDir::new()?;
    let options = Options {
        datadir: scratch.path().to_path_buf(),
        blocks_dir: None,
        prune: None,
        join: JoinOptions::default(),
        ..options.clone()
    };
    let mut node = open_node(&Run::new(&options), Coins::InPlace)?;
    node.ledger_mut().writes.blocks = false;
    scan_into_node(&mut node, &opened, watch)?;
    let chain = chain(&node)?;
    let places: Vec<SourcePlace> = chain.places;
    let (files, blocks_url) = files(node.sources().files(), blocks.url)?;
    let sizes: Vec<u64> = places.iter().map(|place| u64::from(place.len)).collect();
    let count = |wanted: Option<usize>, each: u64| {
        let bytes = sizes.iter().sum::<u64>();
        let few = bytes.div_ceil(PART_BYTES_MIN).min(PARTS_OF_SHORT_CHAIN);
        let suits = bytes.div_ceil(each).max(few) as usize;
        wanted.unwrap_or(suits.clamp(1, PARTS_MAX))
    };
    let bucket_ends = cut(&sizes, count(cuts.buckets, BUCKET_BYTES));
    let partitions = count(cuts.partitions, PARTITION_BYTES) as u32;
    let assumed = match options.assumevalid {
        AssumeValid::Nothing => None,
        AssumeValid::BuiltIn => Some(options.network.default_assume_valid),
        AssumeValid::Block(hash) => Some(hash),
    };
    let manifest = Manifest {
        assumed: assumed.filter(|hash| *hash != Hash::ZERO),
        engine: options.scripts.engine,
        memory: Memory { bytes: options.dbcache_bytes, workers: 1 },
        hash_key: HashKey::random(),
        span_ends: cut(&sizes, count(cuts.spans, SPAN_BYTES)),
        layout: Layout { partitions, bucket_ends, first_height: 1 },
        blocks_url,
        files,
        network: options.network,
    };
    let headers: Vec<_> = chain.headers.iter().map(|id| node.tree().header(*id)).collect();
    let place = |place: &SourcePlace| {
        let SourcePlace { file, offset, len } = *place;
        BlockPlace { file, offset, len }
    };
    let places: Vec<BlockPlace> = places.iter().map(place).collect();
    Job::create(&objects, &manifest, &headers, &places)?;
    let counts = Job::open(url, &Disk::new())?.counts();
    Ok(Planned { counts, refusals: node.take_refusals() })
}

/// The blocks of a job, and all headers of their chain.
struct BestChain {
    headers: Vec<BlockId>,
    places: Vec<SourcePlace>,
}

fn chain(node: &Node) -> Result<BestChain, SyncError> {
    let tree = node.tree();
    let best = tree.best_candidate().unwrap_or(tree.genesis());
    let height = tree.node(best).height.min(node.options().stop_at_height.unwrap_or(u32::MAX));
    let target = tree.ancestor(best, height).unwrap_or(best);
    if target == tree.genesis() {
        let gap = node.sources().gap.as_ref();
        let gap = gap.map_or_else(String::new, |gap| format!(": {gap}"));
        return Err(SyncError::Input(format!("there is no block on top of genesis to plan{gap}")));
    }
    // Headers above the last block say how deeply it is buried.
    let top = tree.best_header();
    let top = if tree.ancestor(top, height) == Some(target) { top } else { target };
    let whole = ActiveChain::to(tree, top);
    let headers = (1..).map_while(|height| whole.at(height)).collect();
    let place = |height| match step(node, whole.at(height)?)?.place {
        BlockOrigin::Source(place) => Some(place),
        BlockOrigin::Stored(_) | BlockOrigin::Peers => None,
    };
    let places: Vec<SourcePlace> = (1..=height).map_while(place).collect();
    assert_eq!(places.len(), height as usize, "a candidate has all its blocks");
    Ok(BestChain { headers, places })
}

/// Returns the files of blocks, and the place of them all.
fn files(files: &[SourceFile], url: Option<&str>) -> Result<(Vec<JobFile>, String), SyncError> {
    let absolute = |file: &SourceFile| std::path::absolute(&file.path);
    let paths: Vec<PathBuf> = files
        .iter()
        .map(absolute)
        .collect::<Result<_, _>>()
        .map_err(|e| SyncError::Input(format!("the block files have no absolute path: {e}")))?;
    let parent = paths.first().and_then(|path| path.parent()).unwrap_or(Path::new("/"));
    let is_one = paths.iter().all(|path| path.parent() == Some(parent));
    if url.is_some() && !is_one {
        let what = "--blocks names one place, but the block files are in several directories";
        return Err(SyncError::Input(what.to_string()));
    }
    let root = if is_one { parent } else { Path::new("/") };
    let name = |path: &PathBuf| {
        let name = path.strip_prefix(root).unwrap_or(path).to_str().map(str::to_string);
        name.ok_or_else(|| SyncError::Input(format!("{} is not UTF-8", path.display())))
    };
    let files = paths
        .iter()
        .zip(files)
        .map(|(path, file)| Ok(JobFile { name: name(path)?, obfuscation: file.obfuscation }));
    let files = files.collect::<Result<_, SyncError>>()?;
    Ok((files, url.map_or_else(|| root.to_string_lossy().into_owned(), str::to_string)))
}

/// Cuts blocks of these sizes, the first at height 1, into at most `count` ranges of about equal
/// size. Returns the height after the last block of each.
fn cut(sizes: &[u64], count: usize) -> Vec<u32> {
    let all: u64 = sizes.iter().sum();
    let mut ends = Vec::new();
    let mut bytes = 0;
    for (height, size) in (1..).zip(sizes) {
        bytes += size;
        let due = u128::from(bytes) * count as u128 / u128::from(all.max(1));
        if due as usize > ends.len() || height as usize == sizes.len() {
            ends.push(height + 1);
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_cut_into_ranges_of_about_equal_size() {
        let sizes: Vec<u64> = (0..500).map(|at| 100 + at % 13).collect();
        for count in [1, 3, 17, 499, 9000] {
            let ends = cut(&sizes, count);
            assert_eq!((ends.len(), ends.last()), (count.min(500), Some(&501)), "{count}");
            let starts = std::iter::once(&1).chain(&ends);
            let bytes = |(start, end): (&u32, &u32)| -> u64 {
                sizes[*start as usize - 1..*end as usize - 1].iter().sum()
            };
            let bytes: Vec<u64> = starts.zip(&ends).map(bytes).collect();
            let least = bytes.iter().min().unwrap();
            let most = bytes.iter().max().unwrap();
            assert!(most - least <= 2 * 113, "{count}: {least} to {most}");
        }
        assert_eq!(cut(&[9_000, 1, 1], 3), [2, 3, 4]);
    }
}
