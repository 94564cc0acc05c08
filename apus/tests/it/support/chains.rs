//! Generated chains that several tests use. Each is made once for all tests of a process.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, OnceLock};

use apus_testchain::{Chain, Mix, Rng, Spec};

use super::with_genesis;

/// The recipe of a chain: its seed and, of a fork, the height of the last shared block, the number
/// of blocks after it, and the fork's seed.
type Recipe = (u64, Option<(u32, u32, u64)>);

/// Returns a chain of 150 quiet blocks and 50 of about 7 kB, with every kind of script and few
/// signatures.
pub fn small(seed: u64) -> &'static Chain {
    made_once((seed, None))
}

/// Returns the blocks of [`small`] up to `height`, and then `blocks` others.
pub fn small_fork(seed: u64, height: u32, blocks: u32, fork_seed: u64) -> &'static Chain {
    made_once((seed, Some((height, blocks, fork_seed))))
}

/// The height of the first tip of [`branches`].
pub const FIRST_TIP: u32 = 160;

/// Returns the chains, genesis first, to which twenty reorganisations lead from [`small`]`(5)` up
/// to [`FIRST_TIP`]. Each is one block longer than the one before, and undoes a random number of
/// its blocks, at least one.
pub fn branches() -> impl Iterator<Item = Vec<Vec<u8>>> {
    let mut rng = Rng::new(5, 20);
    (1..=20).map(move |turn| {
        let end = FIRST_TIP + turn;
        let at = 150 + rng.below(u64::from(end - 151)) as u32;
        with_genesis(small_fork(5, at, end - at, u64::from(turn)))
    })
}

/// Returns a chain that takes some seconds to check.
pub fn long() -> &'static Chain {
    static LONG: LazyLock<Chain> = LazyLock::new(|| {
        Chain::new(Spec { empty_blocks_after: 0, ..Spec::mainnet_like(11, 120, 12_000_000) })
    });
    &LONG
}

fn made_once(recipe: Recipe) -> &'static Chain {
    type Made = Arc<OnceLock<&'static Chain>>;
    static CHAINS: LazyLock<Mutex<HashMap<Recipe, Made>>> = LazyLock::new(Mutex::default);
    // The lock of the map is not held while a chain is made, which takes a second or so.
    let cell = Arc::clone(CHAINS.lock().unwrap().entry(recipe).or_default());
    cell.get_or_init(|| {
        let chain = match recipe {
            (seed, None) => Chain::new(Spec {
                busy_bytes: 7_000,
                mix: Mix::few_signatures(),
                ..Spec::small(seed)
            }),
            (seed, Some((height, blocks, fork_seed))) => {
                small(seed).fork(height, blocks, fork_seed)
            }
        };
        Box::leak(Box::new(chain))
    })
}
