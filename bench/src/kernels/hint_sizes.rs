use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use apus_swiftsync::hints::compressed::compress;
use apus_swiftsync::hints::{Hints, open, statistics};
use apus_testchain::Rng;
use apus_wire::put_compact_size;

use super::hints::{blocks, encode_file};
use crate::Result;
use crate::report::{Cell, Table};

/// Generates hints that resemble mainnet's: blocks of up to 7,000 outputs, of which 2 to 10 % are
/// unspent, a share that changes slowly along the chain. Some unspent outputs are clustered: in
/// runs, as after batches of payments, or as every second or third output of a run, as after
/// inscriptions.
pub fn clustered_blocks(count: u64) -> Vec<Vec<u32>> {
    let mut random = Rng::from_state(10);
    let mut percent = 500i64;
    let mut clusters = 60i64;
    let mut block = || {
        let walk = |value: i64, step: i64, least: i64, most: i64, random: &mut Rng| {
            (value + random.below(2 * step as u64 + 1) as i64 - step).clamp(least, most)
        };
        percent = walk(percent, 12, 130, 700, &mut random);
        clusters = walk(clusters, 4, 10, 200, &mut random);
        let outputs = 1_000 + random.below(6_000) as u32;
        let mut unspent = Vec::new();
        let mut at = 0;
        while at < outputs {
            if random.below(100_000) < clusters as u64 {
                let stride = 1 + (random.below(4) as u32).saturating_sub(1).min(2);
                let end =
                    (at + 2 + (random.below(9) * random.below(9)) as u32 * stride).min(outputs);
                while at < end {
                    if random.below(10) != 0 {
                        unspent.push(at);
                    }
                    at += stride;
                }
            } else {
                if random.below(10_000) < percent as u64 {
                    unspent.push(at);
                }
                at += 1;
            }
        }
        unspent
    };
    (0..count).map(|_| block()).collect()
}

/// Returns a table of the sizes of several hints in all formats, in bytes.
pub fn table(count: u64, files: &[PathBuf]) -> Result<Table> {
    let columns = [
        ("hints", "hints"),
        ("indices", "indices"),
        ("bound_bytes", "bound, scattered"),
        ("elias_fano", "Elias-Fano"),
        ("elias_fano_gzip", "gzip -9"),
        ("elias_fano_xz", "xz -9"),
        ("gaps_gzip", "gaps, gzip -9"),
        ("gaps_xz", "gaps, xz -9"),
        ("gaps_zstd", "gaps, zstd -19"),
        ("compressed", "compressed"),
        ("bits_per_index", "bits per index"),
    ];
    let mut table = Table::new("sizes of hints", &columns);
    let mut add = |name: String, elias_fano: Vec<u8>| -> Result<()> {
        table.push(row(name, elias_fano)?);
        Ok(())
    };
    add("synthetic, scattered".to_string(), encode_file(&blocks(count))?)?;
    add("synthetic, clustered".to_string(), encode_file(&clustered_blocks(count))?)?;
    for file in files {
        let name = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
        add(name.into_owned(), std::fs::read(file)?)?;
    }
    Ok(table)
}

fn row(name: String, elias_fano: Vec<u8>) -> Result<Vec<Cell>> {
    let elias_fano_bytes = elias_fano.len() as u64;
    let packed = |program, level, bytes: &[u8]| match packed_bytes(program, level, bytes) {
        Some(bytes) => Cell::Count(bytes),
        None => Cell::Empty,
    };
    let of_elias_fano = [packed("gzip", "-9", &elias_fano), packed("xz", "-9", &elias_fano)];
    let hints = open(elias_fano)?;
    let gaps = gaps(hints.as_ref())?;
    let file = compress(hints.as_ref())?;
    let found = statistics(open(file.clone())?.as_ref(), file.len() as u64)?;
    let [gzip, xz] = of_elias_fano;
    Ok(vec![
        Cell::Text(name),
        Cell::Count(found.unspent),
        Cell::Count((found.bound_bits / 8.0) as u64),
        Cell::Count(elias_fano_bytes),
        gzip,
        xz,
        packed("gzip", "-9", &gaps),
        packed("xz", "-9", &gaps),
        packed("zstd", "-19", &gaps),
        Cell::Count(file.len() as u64),
        Cell::Number(found.bits_per_output),
    ])
}

/// Encodes hints in the simplest form, for comparison: for each block the number of indices, and
/// for each index its distance from the previous one, all as CompactSize.
fn gaps(hints: &dyn Hints) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut unspent = Vec::new();
    for height in 1..=hints.height() {
        hints.unspent(height, &mut unspent)?;
        put_compact_size(&mut out, unspent.len() as u64);
        let mut next = 0;
        for index in &unspent {
            put_compact_size(&mut out, u64::from(index - next));
            next = index + 1;
        }
    }
    Ok(out)
}

/// Returns the length of these bytes after compression by a command line program, or `None` if the
/// program is missing.
fn packed_bytes(program: &str, level: &str, bytes: &[u8]) -> Option<u64> {
    let mut input = tempfile::tempfile().ok()?;
    input.write_all(bytes).ok()?;
    std::io::Seek::rewind(&mut input).ok()?;
    let output = Command::new(program)
        .args([level, "-c"])
        .stdin(input)
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then_some(output.stdout.len() as u64)
}
