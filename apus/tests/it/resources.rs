//! What the program takes of the machine: time to start, memory, room on the disk.

use std::time::{Duration, Instant};

/// Bitcoin Core's random generator spends 100 ms on its seed, which no command of ours needs.
#[test]
#[cfg_attr(not(target_os = "linux"), ignore = "needs a linker with --wrap")]
fn the_program_starts_without_the_random_generator_of_the_engine() {
    let start = || {
        let begun = Instant::now();
        let mut command = assert_cmd::Command::cargo_bin("apus").unwrap();
        assert!(command.arg("--version").output().unwrap().status.success());
        begun.elapsed()
    };
    let quickest = (0..20).map(|_| start()).min().unwrap();
    assert!(quickest < Duration::from_millis(90), "the quickest start took {quickest:?}");
}
