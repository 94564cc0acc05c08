//! Chain data for tests: files that ship in `apus/data/`, and files that may not be shipped, which
//! some machines have in a directory `shared/data` next to the repository. A test that needs the
//! latter has `#[cfg_attr(not(shared_data), ignore = "...")]`; `build.rs` looks for them.

use std::path::{Path, PathBuf};

/// Numbers that look random and are the same in every run (SplitMix64).
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    /// Returns the next 64 bits.
    #[expect(clippy::should_implement_trait, reason = "numbers never run out")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below<N: TryInto<u64> + TryFrom<u64>>(&mut self, end: N) -> N {
        let end = end.try_into().ok().expect("not negative");
        N::try_from(self.next() % end.max(1)).ok().expect("below a number of this type")
    }

    /// Returns one of `choices`, which must not be empty.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// The environment variable that is set in a child process of [`memory_of`].
const ALONE: &str = "APUS_TEST_ALONE";

/// Returns the peak memory of `work`, in bytes beyond those in use after `prepare`. It is measured
/// in a child process that runs only `test`, which is the test function that calls this. The parent
/// process runs neither closure, and returns `None`.
pub fn memory_of<T, P>(_test: T, prepare: impl FnOnce() -> P, work: impl FnOnce(P)) -> Option<u64> {
    let in_use = |field: &str| {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
    };
    if std::env::var_os(ALONE).is_some() {
        let prepared = prepare();
        // Resets the peak.
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = in_use("VmRSS:");
        work(prepared);
        return Some(in_use("VmHWM:") - before);
    }
    let (_, name) = std::any::type_name::<T>().split_once("::").unwrap();
    let mut alone = std::process::Command::new(std::env::current_exe().unwrap());
    let output = alone.args([name, "--exact", "--nocapture"]).env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{errors}");
    None
}

/// Returns the path of a file that ships with the package.
pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apus/data").join(name)
}

/// Returns the path of a file that does not ship, for tests that are ignored where it is absent.
#[cfg(shared_data)]
pub fn shared(name: &str) -> PathBuf {
    Path::new(env!("APUS_SHARED_DATA")).join(name)
}

/// Returns the path of a file that does not ship, for tests that are ignored where it is absent.
#[cfg(not(shared_data))]
pub fn shared(name: &str) -> PathBuf {
    panic!("{name}: the shared chain data is absent, and this test should have been ignored")
}

/// Returns the blocks of a file that consists of blocks, each after the network's magic and its
/// length.
pub fn blocks_of(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let mut blocks = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        blocks.push(rest[8..8 + len].to_vec());
        rest = &rest[8 + len..];
    }
    blocks
}

/// Reads a file of test vectors, which `vectors/README.md` lists.
pub fn vectors(name: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors").join(name);
    let text = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Decodes hex digits.
pub fn from_hex(digits: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).expect("a hex digit") as u8;
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { panic!("an odd digit: {digits}") };
    pairs.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect()
}
