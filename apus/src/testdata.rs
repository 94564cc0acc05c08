//! Chain data for tests: files that ship in `data/`, and files that may not ship, which lie in
//! `shared/data` beside the repository where they are at hand. A test that needs one of the latter
//! says `#[cfg_attr(not(shared_data), ignore = "...")]`; `build.rs` looks for them.

use std::path::{Path, PathBuf};

/// The file that ships with the repository under this name.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("data").join(name)
}

/// The file that does not ship; only for tests that are ignored without it.
#[cfg(shared_data)]
pub fn shared(name: &str) -> PathBuf {
    Path::new(env!("APUS_SHARED_DATA")).join(name)
}

#[cfg(not(shared_data))]
pub fn shared(name: &str) -> PathBuf {
    panic!("{name}: the shared chain data is absent, and this test should have been ignored")
}

/// The blocks of a file that frames each with magic and length, without junk.
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
