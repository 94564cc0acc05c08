//! A data directory as of its last commit, shown to readers: peers that are served, and
//! those who ask by RPC, REST or a page.
//!
//! A [`View`] has its own copy of headers, block records and active chain, and a view of the tables
//! of coins. Each commit brings it up to date with what has changed, in one step, so that nobody
//! sees half a commit. Readers look at it for microseconds, and read files and tables afterwards,
//! so that no thread of a sync waits for them. A block takes 150 bytes of memory.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use apus_chain::{ActiveChain, BlockId, BlockNode, Tree};
use apus_coins::CoinsView;
use apus_disk::lock;
use apus_net::NODE_NETWORK_LIMITED_MIN_BLOCKS;
use apus_store::{BlockFiles, BlockReader, IndexRecord};
use apus_wire::message::Services;

use super::block_records::record_of_header;

/// The number of headers that are taken over while readers wait: a millisecond or two.
const HEADERS_AT_A_TIME: usize = 5_000;

/// Shows readers what a directory holds; empty until the directory is open.
#[derive(Default)]
pub struct View {
    committed: RwLock<Option<Committed>>,
    /// Called after each commit.
    listeners: Mutex<Vec<Box<dyn Fn() + Send + Sync>>>,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("View")
    }
}

/// A directory as of its last commit. Only the headers may be newer.
pub struct Committed {
    /// All known headers.
    pub tree: Tree,
    /// The active chain, whose coins are in `coins`.
    pub active: ActiveChain,
    /// Reads the blocks, and their undo data. A file that a record names may have been pruned just
    /// now.
    pub blocks: Arc<BlockReader>,
    /// The UTXO set.
    pub coins: CoinsView,
    /// Number of coins in the UTXO set, if known.
    pub coin_count: Option<u64>,
    /// Bytes used in blk and rev files (Core's `CalculateCurrentUsage`).
    pub files_bytes: u64,
    /// Whether block files were ever pruned (Core's `m_have_pruned`).
    pub is_pruned: bool,
    /// Whether this run may prune block files (Core's `IsPruneMode`).
    pub may_prune: bool,
    /// The bytes to which block files are pruned, if they are pruned automatically.
    pub prune_target: Option<u64>,
    /// By [`BlockId`].
    records: Vec<IndexRecord>,
    /// By height, the number of transactions up to that block of the active chain.
    transactions: Vec<u64>,
    services: Services,
    has_undo: bool,
}

/// The durable result of a commit.
pub struct NewCommit<'a> {
    /// All known headers.
    pub tree: &'a Tree,
    /// The records that have changed since the commit before, the newer of two last.
    pub records: Vec<(BlockId, IndexRecord)>,
    /// The last block of the active chain.
    pub tip: BlockId,
    /// The coins after that block.
    pub coins: CoinsView,
    /// Their number, if known.
    pub coin_count: Option<u64>,
    /// Bytes used in blk and rev files.
    pub files_bytes: u64,
    /// Whether block files were ever pruned.
    pub is_pruned: bool,
    /// Whether this run may prune block files.
    pub may_prune: bool,
    /// The bytes to which block files are pruned, if they are pruned automatically.
    pub prune_target: Option<u64>,
}

impl View {
    /// Returns the result of `look` for what is committed; `None` if the directory is not open yet.
    /// A commit waits while `look` runs, so it must neither read files nor wait.
    pub fn look<T>(&self, look: impl FnOnce(&Committed) -> T) -> Option<T> {
        let committed = self.committed.read().unwrap_or_else(PoisonError::into_inner);
        committed.as_ref().map(look)
    }

    /// Calls `listener` from now on after each commit. It must not wait.
    pub fn on_commit(&self, listener: impl Fn() + Send + Sync + 'static) {
        lock(&self.listeners).push(Box::new(listener));
    }

    /// Shows a directory with these files, as of a commit, instead of the one before.
    pub(super) fn open(&self, files: &BlockFiles, commit: NewCommit) {
        let mut committed = Committed {
            tree: commit.tree.with_genesis_alone(),
            active: ActiveChain::default(),
            blocks: Arc::clone(files.reader()),
            coins: commit.coins.clone(),
            coin_count: None,
            files_bytes: 0,
            is_pruned: false,
            may_prune: false,
            prune_target: None,
            records: vec![IndexRecord::default()],
            transactions: Vec::new(),
            services: Services::default(),
            has_undo: false,
        };
        committed.follow_headers(commit.tree, usize::MAX);
        committed.follow(commit);
        *self.committed.write().unwrap_or_else(PoisonError::into_inner) = Some(committed);
        self.tell_listeners();
    }

    fn change(&self, change: impl FnOnce(&mut Committed)) {
        let mut committed = self.committed.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(committed) = committed.as_mut() {
            change(committed);
        }
    }

    fn tell_listeners(&self) {
        lock(&self.listeners).iter().for_each(|listener| listener());
    }

    /// Shows what a commit has made durable.
    pub(super) fn follow(&self, commit: NewCommit) {
        self.follow_headers(commit.tree);
        self.change(|committed| committed.follow(commit));
        self.tell_listeners();
    }

    /// Publishes the known headers, in batches so that readers hardly wait.
    pub(super) fn follow_headers(&self, tree: &Tree) {
        while self.look(|committed| committed.tree.len() < tree.len()) == Some(true) {
            self.change(|committed| committed.follow_headers(tree, HEADERS_AT_A_TIME));
        }
    }

    /// Shows the blocks as pruned.
    pub(super) fn forget_data(&self, blocks: &[BlockId]) {
        self.change(|committed| {
            committed.is_pruned = true;
            blocks.iter().for_each(|id| committed.records[id.index()].forget_data());
        });
    }

    /// Takes other tables with the same coins, so that the merged ones can be deleted.
    pub(super) fn refresh(&self, coins: &CoinsView) {
        // A commit may have come between; it is shown with its own tables.
        let best = coins.best_block().ok().flatten();
        self.change(|committed| {
            if best == Some(committed.tip().hash) {
                committed.coins = coins.clone();
            }
        });
    }
}

impl Committed {
    /// Returns the last block of the active chain.
    pub fn tip(&self) -> BlockNode {
        self.tree.node(self.tip_id())
    }

    /// Returns the last block of the active chain.
    pub fn tip_id(&self) -> BlockId {
        self.active.tip().unwrap_or(self.tree.genesis())
    }

    /// Returns how far a block has been validated, and where its data is stored.
    pub fn record(&self, id: BlockId) -> &IndexRecord {
        &self.records[id.index()]
    }

    /// Returns the number of transactions up to the block at `height` of the active chain, the
    /// block included (Core's `m_chain_tx_count`); 0 above its tip.
    pub fn transactions(&self, height: u32) -> u64 {
        self.transactions.get(height as usize).copied().unwrap_or(0)
    }

    /// Returns what peers may be told that we serve (Core's `NODE_NETWORK` or
    /// `NODE_NETWORK_LIMITED`).
    pub fn services(&self) -> Services {
        self.services
    }

    /// Returns whether all blocks are stored and have undo data, by the first and the last of them:
    /// a SwiftSync that assumes blocks valid leaves undo data for the last ones alone.
    pub fn has_undo(&self) -> bool {
        self.has_undo
    }

    /// Takes over what a commit has made durable, whose headers are known here.
    fn follow(&mut self, commit: NewCommit) {
        for (id, record) in commit.records {
            self.records[id.index()] = record;
            if record.status.is_failed() && !self.tree.node(id).failed {
                self.tree.mark_failed(id);
            }
        }
        self.set_tip(commit.tip);
        self.coins = commit.coins;
        self.coin_count = commit.coin_count;
        self.files_bytes = commit.files_bytes;
        self.is_pruned = commit.is_pruned;
        (self.may_prune, self.prune_target) = (commit.may_prune, commit.prune_target);
        self.services = self.services_now();
        self.has_undo = self.has_undo_now();
    }

    fn follow_headers(&mut self, tree: &Tree, most: usize) {
        for id in tree.ids_after(self.tree.len()).take(most) {
            let block = tree.node(id);
            // The same headers in the same order have the same ids.
            self.tree.restore(block.hash, &tree.header(id), block.failed);
            self.records.push(record_of_header(tree, id));
        }
    }

    fn set_tip(&mut self, tip: BlockId) {
        let Self { tree, active, records, transactions, .. } = self;
        let fork = active.fork(tree, tip);
        transactions.truncate(fork.map_or(0, |fork| tree.node(fork).height as usize + 1));
        active.set_tip(tree, tip);
        let mut count = transactions.last().copied().unwrap_or(0);
        let new = (transactions.len() as u32..).map_while(|height| active.at(height));
        transactions.extend(new.map(|id| {
            count += u64::from(records[id.index()].tx_count);
            count
        }));
    }

    fn has_undo_now(&self) -> bool {
        let has_undo = |height: u32| {
            let id = self.active.at(height);
            id.is_some_and(|id| self.record(id).undo_pos().is_some())
        };
        let height = self.active.height().unwrap_or(0);
        self.services.has(Services::NETWORK) && has_undo(1) && has_undo(height)
    }

    fn services_now(&self) -> Services {
        let height = self.active.height().unwrap_or(0);
        let is_stored = |height: u32| {
            self.active.at(height).is_none_or(|id| self.record(id).block_pos().is_some())
        };
        let first_of_last = height.saturating_sub(NODE_NETWORK_LIMITED_MIN_BLOCKS - 1).max(1);
        let has_last = (first_of_last..=height).all(is_stored);
        let mut services = Services::WITNESS;
        if has_last {
            services = services.with(Services::NETWORK_LIMITED);
        }
        if has_last && is_stored(1) && !self.is_pruned && !self.may_prune {
            services = services.with(Services::NETWORK);
        }
        services
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;

    use apus_store::BlockStatus;
    use apus_wire::{Chain, Header, Network};

    use super::*;

    /// Adds a header after `parent`.
    fn add(tree: &mut Tree, parent: BlockId, nonce: u32) -> BlockId {
        let prev = tree.node(parent).hash;
        let header = Header { prev, nonce, ..tree.header(parent) };
        tree.restore(header.hash(), &header, false).unwrap()
    }

    /// An empty directory, and what it is shown in.
    struct World {
        tree: Tree,
        view: View,
        coins: CoinsView,
        _directory: tempfile::TempDir,
    }

    impl World {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let disk = apus_disk::Disk::new();
            let network = Network::new(Chain::Regtest);
            let options = apus_leveldb::Options {
                create_if_missing: true,
                ..apus_leveldb::Options::default()
            };
            let path = directory.path().join("chainstate");
            let coins = apus_coins::Chainstate::open(disk.clone(), &path, options).unwrap().view();
            let files = BlockFiles::new(
                &disk,
                directory.path(),
                network.magic,
                apus_store::Obfuscation::NONE,
                vec![],
                apus_store::BlockFilesOptions::default(),
            );
            let tree = Tree::new(network.clone());
            let root = tree.genesis();
            let view = View::default();
            let world = Self { tree, view, coins, _directory: directory };
            let records = vec![(root, with_transactions(1))];
            world.view.open(&files, world.new_commit(root, records));
            world
        }

        fn new_commit(&self, tip: BlockId, records: Vec<(BlockId, IndexRecord)>) -> NewCommit<'_> {
            NewCommit {
                tree: &self.tree,
                records,
                tip,
                coins: self.coins.clone(),
                coin_count: None,
                files_bytes: 0,
                is_pruned: false,
                may_prune: false,
                prune_target: None,
            }
        }

        fn commit(&self, tip: BlockId, records: Vec<(BlockId, IndexRecord)>) {
            self.view.follow(self.new_commit(tip, records));
        }
    }

    /// The record of a block with this number of transactions.
    fn with_transactions(tx_count: u32) -> IndexRecord {
        IndexRecord { tx_count, ..IndexRecord::default() }
    }

    #[test]
    fn transactions_are_counted_along_the_active_chain() {
        let mut world = World::new();
        let root = world.tree.genesis();
        let a = add(&mut world.tree, root, 1);
        let b = add(&mut world.tree, a, 2);
        let other = add(&mut world.tree, a, 3);
        let counts = [(a, 10), (b, 100), (other, 1000)];
        world.commit(b, counts.map(|(id, count)| (id, with_transactions(count))).to_vec());
        let counted = || world.view.look(|it| [0, 1, 2, 3].map(|at| it.transactions(at))).unwrap();
        assert_eq!(counted(), [1, 11, 111, 0]);
        world.commit(other, vec![]);
        assert_eq!(counted(), [1, 11, 1011, 0]);
        world.commit(a, vec![]);
        assert_eq!(counted(), [1, 11, 0, 0]);
    }

    #[test]
    fn a_copy_of_the_headers_learns_which_have_failed() {
        let mut world = World::new();
        let root = world.tree.genesis();
        let good = add(&mut world.tree, root, 1);
        let bad = add(&mut world.tree, root, 2);
        let child = add(&mut world.tree, bad, 3);
        world.view.follow_headers(&world.tree);
        let best = || world.view.look(|it| it.tree.best_header()).unwrap();
        assert_eq!(best(), child);
        let failed = IndexRecord {
            status: BlockStatus(BlockStatus::BLOCK_FAILED_VALID),
            ..IndexRecord::default()
        };
        let records: Vec<_> =
            world.tree.mark_failed(bad).into_iter().map(|id| (id, failed)).collect();
        // It comes later, and has failed from the start.
        add(&mut world.tree, child, 4);
        world.commit(root, records);
        world.view.look(|it| {
            assert_eq!(it.tree.len(), 5);
            for id in it.tree.ids() {
                let [copied, block] = [&it.tree, &world.tree].map(|tree| tree.node(id));
                assert_eq!((copied.hash, copied.failed), (block.hash, block.failed));
            }
        });
        assert_eq!((best(), world.tree.best_header()), (good, good));
    }

    #[test]
    fn listeners_hear_of_each_commit() {
        let mut world = World::new();
        let root = world.tree.genesis();
        let heard = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&heard);
        world.view.on_commit(move || {
            count.fetch_add(1, Relaxed);
        });
        world.commit(root, vec![]);
        let a = add(&mut world.tree, root, 1);
        world.commit(a, vec![]);
        assert_eq!(heard.load(Relaxed), 2);
    }
}
