//! The manifest of a job, which all its tasks read: the blocks, where they are, and how the work is
//! cut.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::stage::Stage;
use crate::objects::{Objects, Pack, PackWriter};
use apus_chain::{ActiveChain, BlockId, Tree};
use apus_disk::{Disk, StoreError};
use apus_hash::{Hash, HashKey, sha256d};
use apus_join::{Layout, Memory};
use apus_node::error::SyncError;
use apus_node::options::{AssumeValid, ScriptEngine};
use apus_node::sealed::{bytes, put_bytes, put_numbers};
use apus_store::Obfuscation;
use apus_wire::{Chain, Cursor, HEADER_BYTES, Header, Network, ParseError};

/// The name of the pack that holds the manifest.
const NAME: &str = "job";
/// The version of all objects of a job; it changes with any of their formats and with what a task
/// computes.
const VERSION: u64 = 1;
/// The parts of the pack: the headers, and where the blocks are.
const HEADERS: u32 = 0;
const PLACES: u32 = 1;
/// Bytes that are written at a time.
const CHUNK_BYTES: usize = 8 << 20;
/// Bytes of an encoded [`BlockPlace`].
const PLACE_BYTES: usize = 16;

/// The manifest of a job: all that its tasks must know besides headers and places of blocks.
pub struct Manifest {
    /// The network, with its minimum work and the challenge of a signet.
    pub network: Network,
    /// The block up to which scripts are assumed valid; `None` to check all.
    pub assumed: Option<Hash>,
    /// The engine that checks scripts.
    pub engine: ScriptEngine,
    /// The memory of a task.
    pub memory: Memory,
    /// The key of the hashes by which blocks are recognised when they are read again, and of those
    /// that slice partitions. Workers know it, miners do not.
    pub hash_key: HashKey,
    /// Partitions and buckets.
    pub layout: Layout,
    /// For each span of heights, the first height after it.
    pub span_ends: Vec<u32>,
    /// The place of the block files: a directory or the URL of an object store.
    pub blocks_url: String,
    /// The block files below it.
    pub files: Vec<JobFile>,
}

/// A file of blocks.
#[derive(Clone)]
pub struct JobFile {
    /// Its name below the place of the block files.
    pub name: String,
    pub obfuscation: Obfuscation,
}

/// Where the bytes of a block are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPlace {
    /// Index of the file.
    pub file: u32,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

/// The numbers of tasks in each stage; those of a stage are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Spans of heights to read.
    pub spans: usize,
    /// Partitions of txids to match.
    pub partitions: usize,
    /// Buckets of blocks to check.
    pub buckets: usize,
}

/// An opened job.
pub struct Job {
    pub objects: Arc<Objects>,
    /// The manifest.
    pub manifest: Manifest,
    /// Names the job in all its objects: the hash of manifest, headers and places.
    pub id: [u8; 32],
    /// All headers of the best chain, those after the job's last block too.
    pub tree: Tree,
    /// Where each block is, from the first on.
    pub places: Arc<[BlockPlace]>,
}

impl Job {
    /// Writes a manifest, with the headers after genesis and the places of the first blocks.
    pub fn create(
        objects: &Objects,
        manifest: &Manifest,
        headers: &[Header],
        places: &[BlockPlace],
    ) -> Result<(), StoreError> {
        let mut writer = PackWriter::begin(objects, NAME, [0; 32])?;
        for headers in headers.chunks(CHUNK_BYTES / HEADER_BYTES) {
            let bytes: Vec<u8> = headers.iter().flat_map(|header| header.to_bytes()).collect();
            writer.append(HEADERS, &bytes)?;
        }
        for places in places.chunks(CHUNK_BYTES / PLACE_BYTES) {
            let mut bytes = Vec::with_capacity(places.len() * PLACE_BYTES);
            for BlockPlace { file, offset, len } in places {
                bytes.extend_from_slice(&file.to_le_bytes());
                bytes.extend_from_slice(&offset.to_le_bytes());
                bytes.extend_from_slice(&len.to_le_bytes());
            }
            writer.append(PLACES, &bytes)?;
        }
        writer.finish(&manifest.to_bytes())
    }

    /// Opens the job below `url`; `None` if none was planned there. `network` has the constants of
    /// the job's network, if they differ from the usual ones in more than the manifest has.
    ///
    /// # Errors
    /// The job is damaged or of another version, or cannot be read.
    pub fn find(
        url: &str,
        disk: &Disk,
        network: Option<&Network>,
    ) -> Result<Option<Self>, SyncError> {
        let objects = Objects::open(url, disk)?;
        let Some(pack) = Pack::open(&objects, NAME, &[0; 32])? else {
            return match objects.read(&format!("{NAME}.done"))? {
                None => Ok(None),
                Some(_) => Err(SyncError::from(damaged(&objects))),
            };
        };
        let wrong = |what: String| SyncError::from(StoreError::new(objects.path(NAME), what));
        let mut manifest = Manifest::read(&mut Cursor::new(&pack.note))
            .map_err(|error| wrong(format!("not a job of this version of Apus: {error}")))?;
        if let Some(network) = network {
            manifest.network = network.clone();
        }
        let mut headers = Vec::new();
        let mut places = Vec::new();
        pack.read(&objects, HEADERS..PLACES + 1, |part, bytes| {
            match part {
                HEADERS => headers.extend_from_slice(bytes),
                _ => places.extend_from_slice(bytes),
            }
            Ok::<(), StoreError>(())
        })?;
        let hashes = [&pack.note[..], &headers, &places].map(|bytes| sha256d(bytes).0);
        let id = sha256d(hashes.as_flattened()).0;
        let tree = tree(&manifest.network, &headers)
            .ok_or_else(|| wrong("its headers do not build on each other".to_string()))?;
        let places: Arc<[BlockPlace]> = places.chunks_exact(PLACE_BYTES).map(read_place).collect();
        let blocks = places.len();
        let height = tree.node(tree.best_header()).height;
        let ends = [&manifest.layout.bucket_ends, &manifest.span_ends];
        let is_whole = |ends: &Vec<u32>| ends.last() == Some(&(blocks as u32 + 1));
        if height < blocks as u32 || !ends.into_iter().all(is_whole) {
            return Err(wrong("its parts do not fit each other".to_string()));
        }
        let objects = Arc::new(objects);
        Ok(Some(Self { objects, manifest, id, tree, places }))
    }

    /// Opens the job below `url`.
    ///
    /// # Errors
    /// No job was planned there, or as for [`Job::find`].
    pub fn open(url: &str, disk: &Disk) -> Result<Self, SyncError> {
        Self::find(url, disk, None)?.ok_or_else(|| {
            SyncError::Input(format!("{url} holds no job: `apus shard plan --job {url}` makes one"))
        })
    }

    /// Returns the numbers of tasks.
    pub fn counts(&self) -> Counts {
        let Manifest { layout, span_ends, .. } = &self.manifest;
        let partitions = layout.partitions();
        let buckets = layout.buckets();
        Counts { spans: span_ends.len(), partitions, buckets }
    }

    pub fn count(&self, stage: Stage) -> usize {
        let Counts { spans, partitions, buckets } = self.counts();
        match stage {
            Stage::Read => spans,
            Stage::Match => partitions,
            Stage::Check => buckets,
            Stage::Finish => 0,
        }
    }

    /// Returns whether a task has blocks below the height `end` to look at.
    pub fn has_blocks(&self, stage: Stage, number: usize, end: u32) -> bool {
        match stage {
            Stage::Read => !self.span(number, end).is_empty(),
            Stage::Check => !self.bucket(number, end).is_empty(),
            Stage::Match | Stage::Finish => end > 1,
        }
    }

    /// Returns the first height after the last block of the whole job.
    pub fn whole_end(&self) -> u32 {
        self.places.len() as u32 + 1
    }

    /// Returns the heights of a span, before `end`.
    pub fn span(&self, number: usize, end: u32) -> std::ops::Range<u32> {
        let ends = &self.manifest.span_ends;
        let first = if number == 0 { 1 } else { ends[number - 1] };
        first.min(end)..ends[number].min(end)
    }

    /// Returns the heights of a bucket, before `end`.
    pub fn bucket(&self, number: usize, end: u32) -> std::ops::Range<u32> {
        let heights = self.manifest.layout.heights(number);
        heights.start.min(end)..heights.end.min(end)
    }

    pub fn block(&self, chain: &ActiveChain, height: u32) -> BlockId {
        chain.at(height).expect("the job has all headers up to its end")
    }

    pub fn len_of(&self, height: u32) -> u32 {
        self.places[height as usize - 1].len
    }

    /// Returns the path and the offset of the block at `height`.
    pub fn place_of(&self, height: u32) -> (PathBuf, u64) {
        let BlockPlace { file, offset, .. } = self.places[height as usize - 1];
        let name = &self.manifest.files[file as usize].name;
        (Path::new(&self.manifest.blocks_url).join(name), offset)
    }

    pub fn error_at(&self, height: u32, what: String) -> StoreError {
        let (path, offset) = self.place_of(height);
        StoreError::corrupt(path, offset, format!("block {height}: {what}"))
    }

    /// Opens a pack of this job; `None` if it is not finished.
    ///
    /// # Errors
    /// The pack belongs to another job, is damaged, or cannot be read.
    pub fn pack(&self, name: &str) -> Result<Option<Pack>, StoreError> {
        Pack::open(&self.objects, name, &self.id)
    }
}

fn tree(network: &Network, headers: &[u8]) -> Option<Tree> {
    let mut tree = Tree::new(network.clone());
    for bytes in headers.chunks_exact(HEADER_BYTES) {
        let header = Header::parse(&mut Cursor::new(bytes)).ok()?;
        tree.restore(header.hash(), &header, false)?;
    }
    Some(tree)
}

fn read_place(bytes: &[u8]) -> BlockPlace {
    let mut cursor = Cursor::new(bytes);
    let mut read = || Some((cursor.u32().ok()?, cursor.u64().ok()?, cursor.u32().ok()?));
    let (file, offset, len) = read().expect("a place has sixteen bytes");
    BlockPlace { file, offset, len }
}

impl Manifest {
    /// Returns what decides which scripts are assumed valid.
    pub fn assumevalid(&self) -> AssumeValid {
        self.assumed.map_or(AssumeValid::Nothing, AssumeValid::Block)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let Layout { partitions, bucket_ends, first_height } = &self.layout;
        let mut out = Vec::new();
        put_numbers(&mut out, &[VERSION]);
        put_bytes(&mut out, self.network.chain.name().as_bytes());
        out.extend_from_slice(&self.network.minimum_chain_work.0);
        put_bytes(&mut out, self.network.signet_challenge.as_deref().unwrap_or_default());
        out.extend_from_slice(&self.assumed.unwrap_or_default().0);
        put_bytes(&mut out, self.engine.name().as_bytes());
        put_numbers(&mut out, &[self.memory.bytes as u64]);
        out.extend_from_slice(self.hash_key.as_bytes());
        put_numbers(&mut out, &[u64::from(*partitions), u64::from(*first_height)]);
        for ends in [bucket_ends, &self.span_ends] {
            let ends: Vec<u8> = ends.iter().flat_map(|end| end.to_le_bytes()).collect();
            put_bytes(&mut out, &ends);
        }
        put_bytes(&mut out, self.blocks_url.as_bytes());
        put_numbers(&mut out, &[self.files.len() as u64]);
        for JobFile { name, obfuscation } in &self.files {
            put_bytes(&mut out, name.as_bytes());
            out.extend_from_slice(&obfuscation.key());
        }
        out
    }

    fn read(cursor: &mut Cursor) -> Result<Self, ParseError> {
        if cursor.u64()? != VERSION {
            return Err(cursor.error("another version"));
        }
        let chain = Chain::from_name(&text(cursor)?).ok_or(cursor.error("no such network"))?;
        let minimum_chain_work = Hash(cursor.array()?);
        let challenge = bytes(cursor)?.to_vec();
        let mut network = if challenge.is_empty() {
            Network::new(chain)
        } else {
            Network::custom_signet(challenge)
        };
        network.minimum_chain_work = minimum_chain_work;
        let assumed = Some(Hash(cursor.array()?)).filter(|hash| *hash != Hash::ZERO);
        let name = text(cursor)?;
        let engines = [ScriptEngine::Core, ScriptEngine::Fast, ScriptEngine::Both];
        let engine = engines.into_iter().find(|engine| engine.name() == name);
        let engine = engine.ok_or(cursor.error("no such script engine"))?;
        let memory = Memory { bytes: cursor.u64()? as usize, workers: 1 };
        let hash_key = HashKey::new(cursor.array()?);
        let partitions = cursor.u64()? as u32;
        let first_height = cursor.u64()? as u32;
        if !(1..=1 << u16::BITS).contains(&partitions) {
            return Err(cursor.error("no such number of partitions"));
        }
        let bucket_ends = heights(cursor)?;
        let span_ends = heights(cursor)?;
        let layout = Layout { partitions, bucket_ends, first_height };
        let blocks_url = text(cursor)?;
        let mut files = Vec::new();
        for _ in 0..cursor.u64()? {
            let name = text(cursor)?;
            let obfuscation = Obfuscation::new(cursor.array()?);
            files.push(JobFile { name, obfuscation });
        }
        Ok(Self {
            network,
            assumed,
            engine,
            memory,
            hash_key,
            layout,
            span_ends,
            blocks_url,
            files,
        })
    }
}

/// Returns the error for a job whose index is damaged.
fn damaged(objects: &Objects) -> StoreError {
    let what = format!(
        "the job is damaged: its CRC-32C is not that of its bytes. Plan it again in another \
         directory, since its results do not fit another plan: `apus shard plan --job NEW`, with \
         the options of {}",
        objects.url()
    );
    StoreError::new(objects.path(&format!("{NAME}.done")), what)
}

fn text(cursor: &mut Cursor) -> Result<String, ParseError> {
    let bytes = bytes(cursor)?.to_vec();
    String::from_utf8(bytes).map_err(|_| cursor.error("a text that is not UTF-8"))
}

/// Reads heights, which ascend.
fn heights(cursor: &mut Cursor) -> Result<Vec<u32>, ParseError> {
    let chunks = bytes(cursor)?.as_chunks::<4>().0;
    let heights: Vec<u32> = chunks.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    if heights.windows(2).all(|pair| pair[0] < pair[1]) {
        Ok(heights)
    } else {
        Err(cursor.error("heights that do not ascend"))
    }
}
