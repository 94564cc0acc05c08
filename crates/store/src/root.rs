//! The root of a data directory: what a user may name by mistake in its place.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use apus_disk::{Result, StoreError};
use apus_wire::{Chain, Network};

use super::blocks_dir::{list_block_files, read_xor_key};
use super::magic::display_name;
use super::{Obfuscation, SourceFile};

/// Checks that `root` can be the root of a data directory for `network`, as far as it exists: it is
/// a directory, it is not the directory of one network inside another root, and no link in it
/// leads nowhere, as to a disk that is not mounted. `blocks_dir` is that of the options.
///
/// # Errors
/// One of these does not hold. The error names what to give instead.
pub fn check_root(root: &Path, network: &Network, blocks_dir: Option<&Path>) -> Result<()> {
    let path = root.join(network.subdirectory);
    let blocks = path.join("blocks");
    let inside = [path.clone(), blocks.clone(), blocks.join("index"), path.join("chainstate")];
    let elsewhere = blocks_dir.iter().map(|base| base.join(network.subdirectory));
    let elsewhere = elsewhere.map(|base| base.join("blocks"));
    for path in [root.to_path_buf()].into_iter().chain(inside).chain(elsewhere) {
        check_directory(&path)?;
    }
    if blocks_dir.is_none() {
        refuse_directory_of_network(root, network)?;
    }
    Ok(())
}

/// Refuses a path that exists and is no directory, and a link that leads nowhere.
fn check_directory(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(StoreError::new(path, "this is not a directory")),
        Err(error) => match fs::read_link(path) {
            Ok(to) => {
                let to = to.display();
                let what = format!("follow this link to {to} (mount its disk, or correct it)");
                Err(StoreError::io(path, &what, error))
            }
            Err(_) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Ok(())
            }
            Err(_) => Err(StoreError::io(path, "look at this directory", error)),
        },
    }
}

/// Refuses a root that is itself the directory of a network: another one would be created inside
/// it, and the messages of one network would lead to the other.
fn refuse_directory_of_network(root: &Path, network: &Network) -> Result<()> {
    let Some(found) = network_of(root)? else { return Ok(()) };
    let name = found.subdirectory;
    let chain = found.chain.name();
    let is_used = network.chain == found.chain && root.join(name).join("blocks").exists();
    if found.chain == Chain::Main || is_used {
        return Ok(());
    }
    let real = fs::canonicalize(root).unwrap_or(PathBuf::from(root));
    let what = match real.parent().filter(|_| real.file_name() == Some(name.as_ref())) {
        Some(parent) => format!(
            "this is the {} directory of the data directory {1}: use --datadir={1} --chain={chain}",
            display_name(&found),
            parent.display()
        ),
        None => format!(
            "this holds {} blocks, which belong in the directory '{name}' of a data directory: \
             move it to DIR/{name}, and use --datadir=DIR --chain={chain}",
            display_name(&found)
        ),
    };
    Err(StoreError::new(root, what))
}

/// Returns the network whose blocks are in `blocks` of a directory, by the first of them or else by
/// the directory's name; `None` if it holds none.
fn network_of(directory: &Path) -> Result<Option<Network>> {
    let blocks = directory.join("blocks");
    if !blocks.is_dir() {
        return Ok(None);
    }
    let obfuscation = read_xor_key(&blocks)?.unwrap_or(Obfuscation::NONE);
    let networks = Chain::ALL.map(Network::new);
    for (number, path) in list_block_files(&blocks)? {
        let file = SourceFile::of_directory(number, &path, obfuscation)?;
        if file.len > 0 {
            let magic = file.first_magic()?;
            return Ok(networks.into_iter().find(|network| magic == network.magic));
        }
    }
    let real = fs::canonicalize(directory).unwrap_or_default();
    let named = networks.into_iter().filter(|network| !network.subdirectory.is_empty());
    let mut named = named.filter(|network| real.file_name() == Some(network.subdirectory.as_ref()));
    // A new data directory may have any name.
    Ok(named.next().filter(|_| blocks.join("index").join("CURRENT").exists()))
}
