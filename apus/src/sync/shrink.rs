//! Whether a rebuilt UTXO set would be lower than the one that it is to replace.

use super::error::SyncError;
use super::node::Node;
use super::outcome::Refusal;
use super::rebuild::Rebuild;
use crate::coins::Chainstate;
use crate::hash::Hash;
use crate::leveldb;

/// Where the UTXO set is that a rebuild is to replace.
enum Present {
    /// There is none, or none that can be read.
    Nowhere,
    /// At a height of a known chain.
    At(u32),
    /// At a block that is not in the block index.
    Elsewhere(Hash),
}

impl Rebuild {
    /// An error if the set that is being built in `node` cannot reach the height of the present
    /// one, which then stays: blocks are missing, and a lower set would hide that. Not where the
    /// user wants a lower one.
    pub fn check_reach(&self, node: &Node) -> Result<(), SyncError> {
        let reach = node.tree.best_candidate().map_or(0, |id| node.tree.node(id).height);
        let what = match self.present(node) {
            Present::At(height) if reach < height => format!(
                "the blocks here reach height {reach}, and the UTXO set is at height {height}: \
                 blocks {} to {height} are missing from {}.",
                reach + 1,
                node.dir.blocks_path().display()
            ),
            Present::Elsewhere(block) => format!(
                "the UTXO set is at block {block}, which is not among the blocks in {} (they \
                 reach height {reach}): is the right disk mounted there?",
                node.dir.blocks_path().display()
            ),
            _ => return Ok(()),
        };
        if self.may_shrink {
            return Ok(());
        }
        Err(SyncError::WouldShrink(format!(
            "{what} Nothing was changed. Bring missing blocks back, or `apus sync --from` a node \
             that has them; to replace the UTXO set by a lower one all the same, say --allow-shrink"
        )))
    }

    /// An error if the finished set of `node` is lower than the present one: then it is not put in
    /// its place unasked.
    pub fn check_height(&self, node: &Node, refusals: &[Refusal]) -> Result<(), SyncError> {
        let built = node.tree.node(node.tip()).height;
        match self.present(node) {
            Present::At(height) if built < height && !self.may_shrink => {
                let why = refusals.first().map_or(String::new(), |first| format!(" ({first})"));
                Err(SyncError::WouldShrink(format!(
                    "the new UTXO set ends at height {built}{why}, and the present one is at \
                     height {height}: the present one was kept. Mend the cause and run the same \
                     command again, which carries on; to take the lower one, add --allow-shrink"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Where the set is that this one is to replace.
    fn present(&self, node: &Node) -> Present {
        let tables = leveldb::Options { read_only: true, ..leveldb::Options::default() };
        let chainstate = Chainstate::open(self.disk.clone(), &node.dir.chainstate_path(), tables);
        let best = match chainstate.and_then(|chainstate| chainstate.best_block()) {
            Ok(best) => best,
            Err(error) => {
                tracing::debug!("the present UTXO set cannot be read: {error}");
                None
            }
        };
        let Some(block) = best else { return Present::Nowhere };
        let height = node.tree.find(&block).map(|id| node.tree.node(id).height);
        height.map_or(Present::Elsewhere(block), Present::At)
    }
}
