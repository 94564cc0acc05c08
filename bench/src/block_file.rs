use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use apus_hash::Hash;
use apus_store::{BlockSource, SourceItem};
use apus_testpeer::ServedChain;
use apus_wire::{BlockView, Cursor, Header, Network, genesis_block};

use crate::Result;

/// Returns the chain of the blocks in a file, in which each block follows its parent.
///
/// # Errors
/// The file cannot be read.
///
/// # Panics
/// The file cannot be read any more when a block is served.
pub fn chain_in(file: &Path, network: &Network) -> Result<ServedChain> {
    let source = BlockSource::open(file, network)?;
    let genesis = genesis_block(network);
    let mut headers = vec![*BlockView::parse(&genesis[..]).expect("it parses").header()];
    let mut places: HashMap<Hash, (u64, u32)> = HashMap::new();
    for item in source.scan_headers() {
        let SourceItem::Block(block) = item? else { continue };
        let header = Header::parse(&mut Cursor::new(&block.bytes))?;
        places.insert(header.hash(), (block.offset, block.len));
        if headers.last().is_some_and(|last| last.hash() == header.prev) {
            headers.push(header);
        }
    }
    let hashes: Vec<Hash> = headers.iter().map(Header::hash).collect();
    let source = Arc::new(source);
    Ok(ServedChain::new(headers, move |height| {
        if height == 0 {
            return genesis.clone();
        }
        let (offset, len) = places[&hashes[height]];
        source.files()[0].read(offset, len).expect("the file can be read")
    }))
}
