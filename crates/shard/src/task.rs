//! What the tasks of all stages have in common: the surroundings that the workers of a join expect,
//! for one thread and without a data directory.

use std::ops::Range;

use apus_chain::ActiveChain;
use apus_coins::{Chainstate, CoinsCache};
use apus_disk::{Caching, Disk, Parts, StoreError};
use apus_host::temporary::TemporaryDir;
use apus_host::threads;
use apus_leveldb as leveldb;
use apus_node::assumevalid::Assumed;
use apus_node::block::scripts::ScriptChecker;
use apus_node::block::step::Step;
use apus_node::error::SyncError;
use apus_node::fault::Fault;
use apus_node::options::{Options, ScriptEngine};
use apus_node::shared::Shared;
use apus_node::sources::{BlockOrigin, Sources};
use apus_progress::clock::Clock;
use apus_progress::estimate::plan::Costs;
use apus_progress::marks::Marks;
use apus_store::{BlockFiles, BlockFilesOptions, Obfuscation};
use apus_sync::join::{Context, JoinPlan};

use super::blocks::JobBlocks;
use super::job::Job;

/// Most bytes of address space for all parts of a task together, of which few are used.
const RESERVED_BYTES_MAX: usize = 64 << 30;

/// The surroundings of a task.
pub struct Task<'a> {
    pub job: &'a Job,
    plan: JoinPlan,
    scratch: TemporaryDir,
    disk: Disk,
    files: BlockFiles,
    chainstate: Chainstate,
    cache: CoinsCache,
    sources: Sources,
    clock: Clock,
    pool: rayon::ThreadPool,
    scripts: ScriptChecker,
    costs: Costs,
}

impl<'a> Task<'a> {
    /// Prepares a task on the blocks of the job before the height `end`, whose scripts `engine`
    /// checks.
    pub fn new(job: &'a Job, end: u32, engine: ScriptEngine) -> Result<Self, SyncError> {
        let disk = Disk::new();
        let scratch = TemporaryDir::new()?;
        let network = &job.manifest.network;
        let mut options = Options::new(scratch.path().to_path_buf(), network.clone());
        options.scripts.engine = engine;
        let tables = leveldb::Options { create_if_missing: true, ..leveldb::Options::default() };
        let chainstate = Chainstate::open(disk.clone(), &scratch.path().join("coins"), tables)?;
        let magic = network.magic;
        let options_of_files = BlockFilesOptions::default();
        let none = Obfuscation::NONE;
        let infos = Vec::new();
        let files = BlockFiles::new(&disk, scratch.path(), magic, none, infos, options_of_files);
        Ok(Self {
            job,
            plan: plan(job, end),
            files,
            chainstate,
            cache: CoinsCache::new(),
            sources: Sources::default(),
            clock: Clock::default(),
            pool: threads::pool(1)?,
            scripts: ScriptChecker::new(&options, &disk)?,
            costs: Costs::new(options.scripts.signature_cost(), options.threads),
            scratch,
            disk,
        })
    }

    /// Calls `work` with what a worker of a join needs, and the blocks at `heights`, which it may
    /// take in order. Records are read from `parts`, and appended there.
    pub fn with_context<T>(
        &self,
        heights: Range<u32>,
        parts: &Parts,
        work: impl FnOnce(&Context, &JobBlocks) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let blocks = JobBlocks::new(self.job, heights)?;
        let marks = Marks::default();
        let shared = Shared {
            view: None,
            network: &self.job.manifest.network,
            tree: &self.job.tree,
            files: &self.files,
            sources: &self.sources,
            chainstate: &self.chainstate,
            cache: &self.cache,
            clock: &self.clock,
            pool: &self.pool,
            peers: Some(&blocks),
            scripts: &self.scripts,
            costs: &self.costs,
            marks: &marks,
        };
        let manifest = &self.job.manifest;
        let layout = &manifest.layout;
        let memory = manifest.memory;
        let context = Context::new(&shared, &self.plan, layout, memory, parts, &manifest.hash_key);
        work(&context, &blocks)
    }

    /// Keeps a script about which the engines disagree, if one was met, beside the results.
    pub fn keep_difference(&self) -> Result<(), StoreError> {
        let Some(difference) = self.scripts.difference() else { return Ok(()) };
        let name = difference.path.file_name().unwrap_or_default().to_string_lossy();
        tracing::warn!(
            "Apus accepted a script that Bitcoin Core's engine rejects, whose verdict counts. This \
             is a bug in Apus; please report {}, as SECURITY.md says",
            self.job.objects.path(&name).display()
        );
        let bytes = self.disk.read(&difference.path)?.unwrap_or_default();
        self.job.objects.write(&name, &bytes)
    }

    /// Returns the height of the first block whose scripts are checked.
    pub fn first_with_scripts(&self) -> u32 {
        self.plan.height(self.plan.assumed_blocks(&self.job.tree))
    }

    /// Returns empty parts. What is too large for the memory of a task goes to a temporary file.
    pub fn parts(&self) -> Parts {
        let manifest = &self.job.manifest;
        let path = self.scratch.path().join("spill.dat");
        let parts = manifest.layout.parts();
        let bytes = manifest.memory.bytes.min(RESERVED_BYTES_MAX / parts);
        Parts::new(&self.disk, path, parts, bytes, Caching::PageCache)
    }
}

/// Returns the plan of the blocks before `end`, as that of a join.
pub fn plan(job: &Job, end: u32) -> JoinPlan {
    let tree = &job.tree;
    let whole = ActiveChain::to(tree, tree.best_header());
    let step = |height: u32| {
        let weight = u64::from(job.places[height as usize - 1].len);
        Step { id: job.block(&whole, height), place: BlockOrigin::Peers, weight }
    };
    let assumed = Assumed::new(job.manifest.assumevalid(), tree);
    JoinPlan::of_steps(tree, &whole, 1, (1..end).map(step).collect(), assumed)
}
