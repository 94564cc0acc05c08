//! A program whose clock is wrong.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use rustix::time::{ClockId, clock_gettime};

/// Overrides the functions of libc that tell the time of day.
const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
static long shift(void) { const char *s = getenv("APUS_TEST_CLOCK_SHIFT"); return s ? atol(s) : 0; }
int clock_gettime(clockid_t id, struct timespec *t) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int r = real(id, t);
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE) t->tv_sec += shift();
    return r;
}
time_t time(time_t *out) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    if (out) *out = t.tv_sec;
    return t.tv_sec;
}
"#;

/// The library with these functions, compiled by the C compiler that Bitcoin Core's engine needs.
static LIBRARY: LazyLock<(tempfile::TempDir, PathBuf)> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("clock.c");
    let library = directory.path().join("clock.so");
    std::fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
    assert!(compiler.status().unwrap().success(), "cc compiles the clock");
    (directory, library)
});

/// Runs a command with a clock that says `unix_time`, in seconds since 1970, when it starts.
pub fn with_clock(command: &mut Command, unix_time: i64) {
    let shift = unix_time - clock_gettime(ClockId::Realtime).tv_sec;
    command.env("LD_PRELOAD", &LIBRARY.1).env("APUS_TEST_CLOCK_SHIFT", shift.to_string());
}
