//! Taproot (BIP341): leaves and what commits to them.

use std::sync::LazyLock;

use apus_hash::Sha256Pieces;
use apus_wire::compact_size;

use super::Check;

/// Bytes of a step from a leaf to the root.
const CONTROL_STEP_BYTES: usize = 32;
/// The most steps.
const CONTROL_STEPS_MAX: usize = 128;
/// The bits of a control block's first byte that are the leaf's version.
const LEAF_MASK: u8 = 0xfe;
/// The version of leaves that are scripts (BIP342).
pub(super) const LEAF_TAPSCRIPT: u8 = 0xc0;

static LEAF: LazyLock<Sha256Pieces> = LazyLock::new(|| Sha256Pieces::tagged("TapLeaf"));
static BRANCH: LazyLock<Sha256Pieces> = LazyLock::new(|| Sha256Pieces::tagged("TapBranch"));
static TWEAK: LazyLock<Sha256Pieces> = LazyLock::new(|| Sha256Pieces::tagged("TapTweak"));

/// A control block: how an output commits to a leaf.
#[derive(Clone, Copy)]
pub(super) struct Control<'a> {
    first: u8,
    internal: &'a [u8; 32],
    steps: &'a [[u8; CONTROL_STEP_BYTES]],
}

impl<'a> Control<'a> {
    /// The control block in these bytes, if they are as many as one has.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first()?;
        let (internal, rest) = rest.split_first_chunk::<32>()?;
        let (steps, []) = rest.as_chunks() else { return None };
        let fits = steps.len() <= CONTROL_STEPS_MAX;
        fits.then_some(Self { first: *first, internal, steps })
    }

    /// The version of the leaf.
    pub fn leaf_version(&self) -> u8 {
        self.first & LEAF_MASK
    }

    /// The hash of a leaf with this script.
    pub fn leaf_hash(&self, script: &[u8]) -> [u8; 32] {
        let mut hash = LEAF.clone();
        hash.update(&[self.leaf_version()]);
        let (len, len_bytes) = compact_size(script.len() as u64);
        hash.update(&len[..len_bytes]);
        hash.update(script);
        hash.finish()
    }

    /// What must hold for the output key to commit to a leaf with this hash.
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
        let (internal, odd) = (self.internal, self.first & 1 == 1);
        Check::Tweak { internal, tweak: tweak.finish(), output, odd }
    }
}
