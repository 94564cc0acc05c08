//! Taproot leaves, and the control blocks that commit to them (BIP341).

use std::sync::LazyLock;

use apus_hash::Sha256Pieces;
use apus_wire::compact_size;

use super::Check;

/// The size of one step from a leaf to the root, in bytes.
const CONTROL_STEP_BYTES: usize = 32;
/// The largest number of steps from a leaf to the root.
const CONTROL_STEPS_MAX: usize = 128;
/// The bits of a control block's first byte that hold the leaf version.
const LEAF_MASK: u8 = 0xfe;
/// The leaf version of Tapscript (BIP342).
pub(super) const LEAF_TAPSCRIPT: u8 = 0xc0;

static LEAF: LazyLock<Sha256Pieces> = LazyLock::new(|| Sha256Pieces::tagged("TapLeaf"));
static BRANCH: LazyLock<Sha256Pieces> = LazyLock::new(|| Sha256Pieces::tagged("TapBranch"));
static TWEAK: LazyLock<Sha256Pieces> = LazyLock::new(|| Sha256Pieces::tagged("TapTweak"));

/// A control block, which shows how an output commits to a leaf.
#[derive(Clone, Copy)]
pub(super) struct Control<'a> {
    first: u8,
    internal: &'a [u8; 32],
    steps: &'a [[u8; CONTROL_STEP_BYTES]],
}

impl<'a> Control<'a> {
    /// Parses a control block; `None` if its length is not valid.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        let (internal, rest) = rest.split_first_chunk::<32>()?;
        let (steps, []) = rest.as_chunks() else { return None };
        let fits = steps.len() <= CONTROL_STEPS_MAX;
        fits.then_some(Self { first: *first, internal, steps })
    }

    /// Returns the leaf version.
    pub fn leaf_version(&self) -> u8 {
        self.first & LEAF_MASK
    }

    /// Returns the hash of a leaf with this script.
    pub fn leaf_hash(&self, script: &[u8]) -> [u8; 32] {
        let mut hash = LEAF.clone();
        hash.update(&[self.leaf_version()]);
        let (len, len_bytes) = compact_size(script.len() as u64);
        hash.update(&len[..len_bytes]);
        hash.update(script);
        hash.finish()
    }

    /// Returns the check that the output key commits to a leaf with this hash.
    pub fn commitment(&self, leaf_hash: [u8; 32], output: &'a [u8; 32]) -> Check<'a> {
        let root = self.steps.iter().fold(leaf_hash, |node, step| {
            let (low, high) = if node < *step { (&node, step) } else { (step, &node) };
            let mut hash = BRANCH.clone();
            hash.update(low);
            hash.update(high);
            hash.finish()
        });
        let mut tweak = TWEAK.clone();
        tweak.update(self.internal);
        tweak.update(&root);
        let internal = self.internal;
        let odd = self.first & 1 == 1;
        Check::Tweak { internal, tweak: tweak.finish(), output, odd }
    }
}
