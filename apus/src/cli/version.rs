//! The version of the program, and how its build differs from an installed one.

use std::hint::black_box;
use std::panic;

use apus_node::ScriptEngine;

/// How the program was built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Build {
    debug_assertions: bool,
    overflow_checks: bool,
    /// The script engine that is used without `--script-engine`.
    engine: ScriptEngine,
}

/// Returns the version, with the commit and the script engine. A build with checks for tests, which
/// is several times slower, is named as such.
pub fn version() -> String {
    let build = Build {
        debug_assertions: cfg!(debug_assertions),
        overflow_checks: checks_overflow(),
        engine: ScriptEngine::default(),
    };
    with_checks(env!("APUS_VERSION"), build)
}

fn with_checks(version: &str, build: Build) -> String {
    let Build { debug_assertions, overflow_checks, engine } = build;
    let engine = (engine != ScriptEngine::Fast)
        .then(|| format!("--script-engine={} by default", engine.name()));
    let checks: Vec<String> = [
        debug_assertions.then(|| "debug assertions".to_string()),
        overflow_checks.then(|| "overflow checks".to_string()),
        engine,
    ]
    .into_iter()
    .flatten()
    .collect();
    if checks.is_empty() {
        version.to_string()
    } else {
        format!("{version}, a slow build for tests: {}", checks.join(", "))
    }
}

/// Returns whether arithmetic overflow panics; the compiler has no other way to ask.
fn checks_overflow() -> bool {
    if cfg!(not(panic = "unwind")) {
        return cfg!(debug_assertions);
    }
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let sum = panic::catch_unwind(|| black_box(u8::MAX) + black_box(1));
    panic::set_hook(hook);
    sum.is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_for_tests_is_named_as_one() {
        let installed =
            Build { debug_assertions: false, overflow_checks: false, engine: ScriptEngine::Fast };
        for (build, expected) in [
            (installed, "0.1.0"),
            (
                Build { overflow_checks: true, ..installed },
                "0.1.0, a slow build for tests: overflow checks",
            ),
            (
                Build { engine: ScriptEngine::Core, ..installed },
                "0.1.0, a slow build for tests: --script-engine=core by default",
            ),
            (
                Build { debug_assertions: true, overflow_checks: true, engine: ScriptEngine::Both },
                "0.1.0, a slow build for tests: debug assertions, overflow checks, \
                 --script-engine=both by default",
            ),
        ] {
            assert_eq!(with_checks("0.1.0", build), expected);
        }
    }
}
