//! Tells the tests whether the chain data that may not ship with the repository is at hand: those
//! that need it are marked as ignored where it is not.

use std::path::Path;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(shared_data)");
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let found =
        Path::new(&root).ancestors().map(|dir| dir.join("shared/data")).find(|dir| dir.is_dir());
    if let Some(dir) = found {
        println!("cargo::rustc-cfg=shared_data");
        println!("cargo::rustc-env=APUS_SHARED_DATA={}", dir.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
}
