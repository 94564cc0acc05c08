//! Tells the benchmarks where the chain data is that does not ship with the repository.

use std::path::Path;

fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let found =
        Path::new(&root).ancestors().map(|dir| dir.join("shared/data")).find(|dir| dir.is_dir());
    if let Some(dir) = found {
        println!("cargo::rustc-env=APUS_SHARED_DATA={}", dir.display());
    }
    println!("cargo::rerun-if-changed=build.rs");
}
