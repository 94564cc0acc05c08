//! Tells the compiler where chain data is that may not ship with the repository, and that programs
//! start without the engine's random generator, as `apus` does (see its build.rs).

use std::path::Path;

fn main() {
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let found =
        Path::new(&root).ancestors().map(|dir| dir.join("shared/data")).find(|dir| dir.is_dir());
    if let Some(dir) = found {
        println!("cargo::rustc-env=APUS_SHARED_DATA={}", dir.display());
    }
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--wrap=_Z10RandomInitv");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
