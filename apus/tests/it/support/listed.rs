//! The regtest chains whose UTXO sets Bitcoin Core's chain parameters list, as worlds of blocks.

use std::path::PathBuf;

use apus_progress::Watch;
use apus_testchain::Parent;
use apus_testchain::assumeutxo::{ListedChain, chain_110, chain_200, chain_299};
use apus_wire::{Chain as Network, Network as Parameters, genesis_block};

use super::Place;
use super::swift::World;

/// A chain up to the base block of a listed UTXO set.
pub struct Listed {
    pub world: World,
    chain: ListedChain,
}

impl Listed {
    pub fn all() -> [Self; 3] {
        [chain_110(), chain_200(), chain_299()].map(Self::of)
    }

    /// Returns the chain of Core's functional tests, which has payments.
    pub fn with_payments() -> Self {
        Self::of(chain_299())
    }

    fn of(chain: ListedChain) -> Self {
        let genesis = vec![genesis_block(&Parameters::new(Network::Regtest))];
        let blocks = [genesis, chain.blocks.clone()].concat();
        Self { world: World::new(Network::Regtest, blocks), chain }
    }

    /// Returns the height of the base block.
    pub fn height(&self) -> u32 {
        self.world.height()
    }

    /// Returns `count` empty blocks that follow the base block.
    pub fn more(&self, count: usize) -> Vec<Vec<u8>> {
        self.chain.more(count)
    }

    /// Returns the block at `height` as the parent of others.
    pub fn parent(&self, height: u32) -> Parent {
        let up_to = &self.world.blocks[..=height as usize];
        let first = up_to.len().saturating_sub(11);
        let header = |bytes: &Vec<u8>| -> bitcoin::block::Header {
            bitcoin::consensus::deserialize(&bytes[..80]).unwrap()
        };
        let times = up_to[first..].iter().map(|block| header(block).time).collect();
        Parent::new(header(&up_to[height as usize]).block_hash(), height, times)
    }

    /// Returns a new directory with the snapshot loaded, and a file of the blocks up to the base
    /// block.
    pub fn loaded(&self) -> (Place, PathBuf) {
        let place = self.world.place();
        let blocks = self.load_into(&place);
        (place, blocks)
    }

    /// Loads the snapshot into a directory, with the headers from a file of the blocks up to the
    /// base block. Returns that file.
    pub fn load_into(&self, place: &Place) -> PathBuf {
        let (_made, out) = self.with_snapshot();
        let blocks = place.write("blocks", &self.world.blocks);
        let sources = std::slice::from_ref(&blocks);
        let loaded =
            apus_claims::load_snapshot(&place.options(), &out, sources, Watch::default()).unwrap();
        assert_eq!((loaded.height, loaded.base), (self.height(), self.world.tip()));
        blocks
    }

    /// Returns a directory that was synced in order up to the base block, and the snapshot made of
    /// it.
    pub fn with_snapshot(&self) -> (Place, PathBuf) {
        let place = self.world.in_order();
        let out = place.root().join("utxo.dat");
        apus_claims::create_snapshot(&place.options(), None, &out, Watch::default()).unwrap();
        (place, out)
    }
}
