//! Does damage of one kind, at one height, to a data directory.

use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use apus_coins::{Chainstate, Coin, CoinsCache};
use apus_disk::Disk;
use apus_hash::Hash;
use apus_leveldb as leveldb;
use apus_testchain::Rng;
use apus_wire::OutPoint;
use bitcoin::Block;
use bitcoin::consensus::deserialize;
use bitcoin::hashes::Hash as _;

use super::Place;
use super::swift::World;

/// A kind of damage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A bit of the block is flipped.
    Block,
    /// A bit of the block's undo data, or of its checksum, is flipped.
    Undo,
    /// A coin that the block created has another amount.
    Amount,
    /// A coin that the block created has another height.
    Height,
    /// A coin that the block created has the wrong coinbase flag.
    Coinbase,
    /// A coin that the block created has another script.
    Script,
    /// A coin that the block created is missing.
    Removed,
    /// A coin that the block spent is in the UTXO set.
    Added,
}

pub const KINDS: [Kind; 8] = [
    Kind::Block,
    Kind::Undo,
    Kind::Amount,
    Kind::Height,
    Kind::Coinbase,
    Kind::Script,
    Kind::Removed,
    Kind::Added,
];

/// Damages the directory of `place`, which holds the chain of `world`. Returns the file or
/// directory that is damaged.
pub fn damage(place: &Place, world: &World, kind: Kind, height: u32, rng: &mut Rng) -> PathBuf {
    match kind {
        Kind::Block | Kind::Undo => damage_file(place, world, kind, height, rng),
        _ => damage_coins(place, world, kind, height, rng),
    }
}

fn damage_file(place: &Place, world: &World, kind: Kind, height: u32, rng: &mut Rng) -> PathBuf {
    let (index, files) = place.blocks();
    let entry = index.entries.iter().find(|entry| entry.hash == world.hash(height)).unwrap();
    let (path, pos, len) = match kind {
        Kind::Block => {
            let pos = entry.block_pos().unwrap();
            (files.block_path(pos.file), pos, world.blocks[height as usize].len())
        }
        _ => {
            let pos = entry.undo_pos().unwrap();
            (files.undo_path(pos.file), pos, world.model.undo(height).len() + 32)
        }
    };
    let at = u64::from(pos.pos) + rng.below(len as u64);
    flip(&path, at, 1 << rng.below(8));
    path
}

fn flip(path: &Path, at: u64, bit: u8) {
    let file = std::fs::File::options().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ bit], at).unwrap();
}

fn damage_coins(place: &Place, world: &World, kind: Kind, height: u32, rng: &mut Rng) -> PathBuf {
    let dir = place.network_dir().join("chainstate");
    let chainstate = Chainstate::open(Disk::new(), &dir, leveldb::Options::default()).unwrap();
    let block: Block = deserialize(&world.blocks[height as usize]).unwrap();
    let cache = CoinsCache::new();
    if kind == Kind::Added {
        let spent: Vec<OutPoint> = block.txdata[1..]
            .iter()
            .flat_map(|tx| &tx.input)
            .map(|input| outpoint(input.previous_output))
            .collect();
        let chosen = spent[rng.below(spent.len() as u64) as usize];
        cache.restore(&chosen, &Coin::new(7, &[0x51], 1, false));
    } else {
        let created: Vec<(OutPoint, Coin)> = block
            .txdata
            .iter()
            .flat_map(|tx| {
                let txid = tx.compute_txid();
                let outpoint_of = move |vout| outpoint(bitcoin::OutPoint { txid, vout });
                (0..tx.output.len() as u32).map(outpoint_of)
            })
            .filter_map(|outpoint| Some((outpoint, chainstate.get(&outpoint).unwrap()?)))
            .collect();
        let (outpoint, mut coin) = created[rng.below(created.len() as u64) as usize].clone();
        match kind {
            Kind::Amount => coin.amount ^= 1,
            Kind::Height => coin.height ^= 1,
            Kind::Coinbase => coin.is_coinbase ^= true,
            Kind::Script => {
                coin = Coin::new(coin.amount, &[0x52; 9], coin.height, coin.is_coinbase);
            }
            _ => {}
        }
        match kind {
            Kind::Removed => cache.remove(&outpoint),
            _ => cache.restore(&outpoint, &coin),
        }
    }
    let best = chainstate.best_block().unwrap().unwrap();
    cache.sync(|changes| chainstate.write(changes, &best)).unwrap();
    dir
}

fn outpoint(from: bitcoin::OutPoint) -> OutPoint {
    OutPoint { txid: Hash(from.txid.to_byte_array()), vout: from.vout }
}
