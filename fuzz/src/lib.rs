//! Apus' parsers under cargo-fuzz; README.md says how to run it.

mod limit;
pub mod targets;

/// Passes `data` to the target of this name.
pub fn run(name: &str, data: &[u8]) {
    let (_, body) = targets::TARGETS.iter().find(|(target, _)| *target == name).expect("a target");
    body(data);
}
