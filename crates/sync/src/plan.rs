//! What a sync will do with the UTXO set of a directory, decided before it changes anything.

use apus_node::error::SyncError;
use apus_node::opened::Node;
use apus_node::options::Options;
use apus_node::rebuild;

use super::claim::Claim;
use super::swift::build::has_to_start_over;

/// The change of the UTXO set before blocks connect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncPlan {
    /// The present UTXO set is checked, and continued.
    Continue {
        /// Whether blocks that the check finds damaged are replaced by other copies.
        mends: bool,
        /// Whether an interrupted rebuild is given up, since pruning deletes blocks that it needs.
        gives_up_rebuild: bool,
    },
    /// A new UTXO set is built from the first block on, and then replaces the present one.
    StartOver,
}

/// What a sync finds in an opened directory, and has besides.
#[derive(Clone, PartialEq, Debug)]
pub struct Found {
    /// Where the directory is, for errors.
    pub directory: String,
    /// Whether the directory knows blocks above the first one.
    pub knows_blocks: bool,
    /// Whether files are given, or something leads to a peer.
    pub has_other_blocks: bool,
    /// The option that names a claim which cannot be proved on top of the present UTXO set.
    pub starts_over: Option<&'static str>,
    /// The height below which blocks are pruned, if any are.
    pub pruned_below: Option<u32>,
    /// Whether a rebuild of the UTXO set was interrupted that needs blocks which this sync prunes.
    pub has_doomed_rebuild: bool,
}

impl Found {
    /// Looks at an opened directory.
    pub fn of(
        node: &Node,
        claim: Option<&Claim>,
        has_other_blocks: bool,
    ) -> Result<Self, SyncError> {
        let pruning = &node.ledger().pruning;
        let claim = claim.filter(|claim| has_to_start_over(node.tree(), node.ledger(), claim));
        let unfinished = || rebuild::unfinished(node.dir().disk(), node.dir().path());
        let has_doomed_rebuild = pruning.target().is_some() && unfinished()?.is_some();
        Ok(Self {
            directory: node.dir().path().display().to_string(),
            knows_blocks: node.tree().len() > 1,
            has_other_blocks,
            starts_over: claim.map(Claim::option),
            pruned_below: pruning.is_pruned.then(|| node.ledger().blocks_from()),
            has_doomed_rebuild,
        })
    }
}

impl SyncPlan {
    /// Returns what a sync with these options does.
    ///
    /// # Errors
    /// There are no blocks to sync; or a new UTXO set is needed, and blocks for it are pruned or
    /// lack their witnesses.
    pub fn new(found: &Found, options: &Options) -> Result<Self, SyncError> {
        if !found.knows_blocks && !found.has_other_blocks {
            return Err(nothing_to_sync(options));
        }
        let Some(option) = found.starts_over else {
            return Ok(Self::Continue {
                mends: found.has_other_blocks,
                gives_up_rebuild: found.has_doomed_rebuild,
            });
        };
        if let Some(height) = found.pruned_below {
            return Err(SyncError::Input(format!(
                "{option} builds a new UTXO set from all blocks, but the blocks of {} below \
                 height {height} are pruned: leave out {option}, or sync into an empty directory",
                found.directory
            )));
        }
        // All blocks are stored until a new UTXO set has replaced the present one.
        if !options.swiftsync.witness {
            return Err(SyncError::WrongOptions(
                "--witness=0 needs an empty directory: if there is a UTXO set already, all blocks \
                 are stored until the new one is complete; leave out --witness=0"
                    .to_string(),
            ));
        }
        Ok(Self::StartOver)
    }
}

/// Returns the error for a sync without sources or peers in a directory without blocks.
pub fn nothing_to_sync(options: &Options) -> SyncError {
    SyncError::Input(format!(
        "{} holds no blocks to sync: name a peer with --connect, or a bootstrap.dat, blk*.dat \
         files, or the directory of another node with --from",
        options.network_dir().display()
    ))
}

#[cfg(test)]
mod tests {
    use apus_node::error::ErrorKind;
    use apus_wire::{Chain, Network};

    use super::*;

    fn found() -> Found {
        Found {
            directory: "d".to_string(),
            knows_blocks: true,
            has_other_blocks: true,
            starts_over: None,
            pruned_below: None,
            has_doomed_rebuild: false,
        }
    }

    fn options() -> Options {
        Options::new("d".into(), Network::new(Chain::Regtest))
    }

    fn refused(found: &Found, options: &Options, kind: ErrorKind, words: &str) {
        let error = SyncPlan::new(found, options).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }

    #[test]
    fn the_present_coins_are_continued_unless_the_claim_needs_others() {
        let plan = |found: Found| SyncPlan::new(&found, &options()).unwrap();
        let continued = |mends, gives_up_rebuild| SyncPlan::Continue { mends, gives_up_rebuild };
        assert_eq!(plan(found()), continued(true, false));
        // An empty directory with a peer, and stored blocks with nothing else.
        assert_eq!(plan(Found { knows_blocks: false, ..found() }), continued(true, false));
        assert_eq!(plan(Found { has_other_blocks: false, ..found() }), continued(false, false));
        assert_eq!(plan(Found { pruned_below: Some(9), ..found() }), continued(true, false));
        let claimed = Found { starts_over: Some("--hints"), ..found() };
        assert_eq!(plan(claimed), SyncPlan::StartOver);
    }

    #[test]
    fn a_rebuild_is_given_up_unless_this_sync_continues_it() {
        let doomed = Found { has_doomed_rebuild: true, ..found() };
        let given_up = SyncPlan::Continue { mends: true, gives_up_rebuild: true };
        assert_eq!(SyncPlan::new(&doomed, &options()).unwrap(), given_up);
        let claimed = Found { starts_over: Some("--snapshot"), ..doomed };
        assert_eq!(SyncPlan::new(&claimed, &options()).unwrap(), SyncPlan::StartOver);
    }

    #[test]
    fn what_cannot_be_built_is_refused() {
        let nothing = Found { knows_blocks: false, has_other_blocks: false, ..found() };
        refused(&nothing, &options(), ErrorKind::Input, "holds no blocks to sync");
        let claimed = Found { starts_over: Some("--hints"), ..found() };
        let pruned = Found { pruned_below: Some(7), ..claimed.clone() };
        refused(&pruned, &options(), ErrorKind::Input, "below height 7 are pruned");
        let mut stripped = options();
        stripped.swiftsync.witness = false;
        refused(&claimed, &stripped, ErrorKind::Usage, "--witness=0 needs an empty directory");
        // Without a present UTXO set nothing starts over.
        assert!(SyncPlan::new(&found(), &stripped).is_ok());
    }
}
