//! Tells the compiler whether this machine has the chain data that may not ship with the
//! repository, so that tests that need it can be ignored where it is missing. Every crate with such
//! tests has this build script.

use std::path::PathBuf;

/// Looks for the chain data, in a folder `shared/data` next to the repository or above it.
pub fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(shared_data)");
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let found = root.ancestors().map(|dir| dir.join("shared/data")).find(|dir| dir.is_dir());
    if let Some(dir) = found {
        println!("cargo::rustc-cfg=shared_data");
        println!("cargo::rustc-env=APUS_SHARED_DATA={}", dir.display());
    }
}
