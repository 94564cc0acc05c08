use super::check::check_bytes;
use super::prepare::Prepared;
use super::step::{BlockFault, Step};
use crate::chain::Tree;
use crate::coins::{Chainstate, CoinsCache};
use crate::rules::CheckedBlock;
use crate::store::BlockFiles;
use crate::sync::clock::{Clock, Stage};
use crate::sync::sources::{BlockBytes, Place, Sources};
use crate::wire::Network;

/// What every thread may read.
pub(crate) struct Shared<'a> {
    pub network: &'a Network,
    pub tree: &'a Tree,
    pub files: &'a BlockFiles,
    pub sources: &'a Sources,
    pub chainstate: &'a Chainstate,
    pub cache: &'a CoinsCache,
    pub clock: &'a Clock,
    pub pool: &'a rayon::ThreadPool,
}

impl Shared<'_> {
    /// [`Shared::prepare`] without a look at coins.
    pub fn check_only(&self, step: Step) -> Result<Prepared, BlockFault> {
        let bytes = {
            let _timer = self.clock.start(Stage::Read);
            self.read(step)?
        };
        let _timer = self.clock.start(Stage::Check);
        let height = self.tree.node(step.id).height;
        Ok(Prepared::new(self.check(step, bytes)?, height))
    }

    /// Reads a block's bytes, which may be any.
    pub fn read(&self, step: Step) -> Result<BlockBytes, BlockFault> {
        match step.place {
            Place::Stored(pos) => self.files.read_block(pos).map_err(|error| match error.source {
                None => BlockFault::Damaged(error.what),
                Some(_) => BlockFault::Store(error),
            }),
            Place::Source(place) => self.sources.read(place).map_err(BlockFault::Store),
        }
    }

    /// [`check_bytes`] of the block of a step.
    pub fn check(
        &self,
        step: Step,
        bytes: BlockBytes,
    ) -> Result<CheckedBlock<BlockBytes>, BlockFault> {
        check_bytes(self.tree, step.id, matches!(step.place, Place::Stored(_)), bytes)
    }
}
