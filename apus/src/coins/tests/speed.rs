//! Small sizes of what is worth measuring; run with `--nocapture` and, for the large ones,
//! `APUS_BENCH=1`.

use std::hint::black_box;
use std::time::Instant;

use super::super::*;

fn scale(small: usize, large: usize) -> usize {
    if std::env::var_os("APUS_BENCH").is_some() { large } else { small }
}

fn report(what: &str, count: usize, start: Instant) {
    println!("{what}: {:.0} ns each", start.elapsed().as_nanos() as f64 / count as f64);
}

#[test]
fn muhash_speed() {
    let count = scale(1000, 300_000);
    let mut hash = MuHash::new();
    let start = Instant::now();
    (0..count).for_each(|i| hash.insert(&[i as u8; 80]));
    report("muhash insert", count, start);
    let start = Instant::now();
    println!("{}", black_box(hash.finalize()));
    report("muhash finalize", 1, start);
}
