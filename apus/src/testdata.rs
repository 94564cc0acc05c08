//! Chain data for tests: files that ship in `data/`, and files that may not be shipped, which some
//! machines have in a directory `shared/data` next to the repository. A test of the latter says
//! `#[cfg_attr(not(shared_data), ignore = "...")]`; `build.rs` looks for them.

use std::path::{Path, PathBuf};

/// The path of a file that ships with the package.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(name)
}

/// The path of a file that does not ship, for tests that are ignored where it is absent.
#[cfg(shared_data)]
pub fn shared(name: &str) -> PathBuf {
    Path::new(env!("APUS_SHARED_DATA")).join(name)
}

#[cfg(not(shared_data))]
pub fn shared(name: &str) -> PathBuf {
    panic!("{name}: the shared chain data is absent, and this test should have been ignored")
}

/// The blocks of a file that holds nothing but blocks, each after the network's magic and its length.
pub fn blocks_of(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let (mut blocks, mut rest) = (Vec::new(), &bytes[..]);
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        blocks.push(rest[8..8 + len].to_vec());
        rest = &rest[8 + len..];
    }
    blocks
}
