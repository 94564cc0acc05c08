//! Tells the tests what this machine has: the chain data that may not ship with the repository,
//! and leave to mount a small disk. Tests that need what is missing are marked as ignored. And has
//! the program start without the engine's random generator (`rules::scripts::random_init`).

use std::path::Path;
use std::process::{Command, Stdio};

fn main() {
    println!("cargo::rustc-check-cfg=cfg(shared_data)");
    let root = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let found =
        Path::new(&root).ancestors().map(|dir| dir.join("shared/data")).find(|dir| dir.is_dir());
    if let Some(dir) = found {
        println!("cargo::rustc-cfg=shared_data");
        println!("cargo::rustc-env=APUS_SHARED_DATA={}", dir.display());
    }
    println!("cargo::rustc-check-cfg=cfg(can_mount)");
    if may_mount() {
        println!("cargo::rustc-cfg=can_mount");
    }
    // Other systems' linkers have no such option: there the program takes 0.1 s longer to start.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo::rustc-link-arg-bins=-Wl,--wrap=_Z10RandomInitv");
    }
    println!("cargo::rerun-if-changed=build.rs");
}

/// Whether a process may mount a file system that it alone sees.
fn may_mount() -> bool {
    let mount = "mount -t tmpfs none /mnt";
    let status = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", mount])
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}
