//! Two things that the compiler needs to be told: what this build is made of (the commit, and
//! Bitcoin Core's engine), for `apus --version`; and that the program starts without the engine's
//! random generator (`random_init` in `crates/scripts`).

#[path = "shared_data.rs"]
mod shared_data;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn main() {
    shared_data::main();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=APUS_VERSION={}", version());
    // Other systems' linkers have no such option: there the program takes 0.1 s longer to start.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        for targets in ["bins", "tests"] {
            println!("cargo::rustc-link-arg-{targets}=-Wl,--wrap=_Z10RandomInitv");
        }
    }
}

/// `0.1.0 (commit 1a2b3c4, Bitcoin Core v31.99 engine via bitcoinkernel 0.3.2)`; what cannot be
/// found out is left out.
fn version() -> String {
    let own = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let parts: Vec<String> = commit().into_iter().chain(engine()).collect();
    if parts.is_empty() { own } else { format!("{own} ({})", parts.join(", ")) }
}

/// The commit that is checked out, if these sources are git's and not merely below a repository.
fn commit() -> Option<String> {
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    let hash = git(&["rev-parse", "--short=7", "HEAD"])?;
    // What changes when another commit is checked out or made; in a worktree they are elsewhere.
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let mut watched = vec!["HEAD".to_string()];
    match &branch {
        Some(branch) if git_path(branch).is_some() => watched.push(branch.clone()),
        // The branch is among the packed ones until the next commit, which the log notes.
        Some(_) => watched.extend(["packed-refs", "logs/HEAD"].map(str::to_string)),
        None => {}
    }
    for path in watched.iter().filter_map(|name| git_path(name)) {
        println!("cargo::rerun-if-changed={}", path.display());
    }
    Some(format!("commit {hash}"))
}

/// The file of git's that holds `name`, if it exists.
fn git_path(name: &str) -> Option<PathBuf> {
    git(&["rev-parse", "--git-path", name]).map(PathBuf::from).filter(|path| path.exists())
}

/// What git prints, if it succeeds; it runs in this package's directory.
fn git(args: &[&str]) -> Option<String> {
    let output = Command::new("git").args(args).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_string())
}

/// The engine, by Cargo.lock and by its own sources.
fn engine() -> Option<String> {
    let root = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    let lock = root.ancestors().map(|dir| dir.join("Cargo.lock")).find(|lock| lock.is_file())?;
    println!("cargo::rerun-if-changed={}", lock.display());
    let text = std::fs::read_to_string(&lock).ok()?;
    let kernel = locked(&text, "bitcoinkernel")?;
    let core = locked(&text, "libbitcoinkernel-sys")
        .and_then(|version| core_version(lock.parent()?, &version))
        .map_or_else(String::new, |version| format!(" v{version}"));
    Some(format!("Bitcoin Core{core} engine via bitcoinkernel {kernel}"))
}

/// The version of a package in Cargo.lock.
fn locked(lock: &str, package: &str) -> Option<String> {
    let (_, rest) = lock.split_once(&format!("name = \"{package}\"\nversion = \""))?;
    rest.split('"').next().map(str::to_string)
}

/// `31.99`, by the sources of Bitcoin Core that come with the package: in cargo's registry, or
/// where `cargo vendor` puts them.
fn core_version(workspace: &Path, package_version: &str) -> Option<String> {
    let package = format!("libbitcoinkernel-sys-{package_version}");
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.and_then(|home| home.join("registry/src").read_dir().ok());
    let registered = registries.into_iter().flatten().flatten().map(|dir| dir.path());
    let vendored =
        ["libbitcoinkernel-sys", &package].map(|name| workspace.join("vendor").join(name));
    let text = registered
        .map(|registry| registry.join(&package))
        .chain(vendored)
        .find_map(|dir| std::fs::read_to_string(dir.join("bitcoin/CMakeLists.txt")).ok())?;
    let number = |name: &str| {
        let (_, rest) = text.split_once(&format!("set(CLIENT_VERSION_{name} "))?;
        rest.split(')').next().map(str::to_string)
    };
    Some(format!("{}.{}", number("MAJOR")?, number("MINOR")?))
}
