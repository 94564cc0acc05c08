use std::hint::black_box;

use apus_swiftsync::hints::compressed::compress;
use apus_swiftsync::hints::elias_fano::{BitOrder, decode};
use apus_swiftsync::hints::{Bip456, Compressed, Format, Hints, HintsError, encoder};
use apus_testchain::Rng;
use hintsfile::{EliasFano, Hintsfile};

use super::figures::Amount::{Bytes, Records};
use super::figures::{Figures, Kind};
use super::hint_sizes;
use crate::Result;
use crate::measure::{Effort, digest};

const APUS: (Kind, &str) = (Kind::Apus, "Apus");
const CRATE: (Kind, &str) = (Kind::Other, "hintsfile 0.2.1");

/// Generates hints of blocks like today's: up to 7,000 outputs, of which one in twenty is unspent.
pub fn blocks(count: u64) -> Vec<Vec<u32>> {
    let mut random = Rng::from_state(9);
    let mut block = || {
        let outputs = 1 + random.below(7_000) as u32;
        (0..outputs).filter(|_| random.below(20) == 0).collect()
    };
    (0..count).map(|_| block()).collect()
}

/// Measures the Elias-Fano code of draft BIP 456, alone and in files of `count` blocks.
pub fn run(effort: Effort, count: u64, figures: &mut Figures) -> Result<()> {
    let blocks = blocks(count);
    let indices = blocks.iter().map(|block| block.len() as u64).sum();
    let file = encode_file(&blocks)?;

    let what = "encode hints, one index";
    let (time, ours) = effort.time(|| encode_file(black_box(&blocks)));
    figures.add(what, APUS, Records(indices), time, digest(&ours?))?;
    let (time, theirs) = effort.time(|| encode_file_with_crate(black_box(&blocks)));
    figures.add(what, CRATE, Records(indices), time, digest(&theirs?))?;

    for (what, amount) in [
        ("decode hints, one index", Records(indices)),
        ("decode hints, the file", Bytes(file.len())),
    ] {
        let (time, sum) = effort.time(|| decode_file(black_box(&file)));
        figures.add(what, APUS, amount, time, sum?)?;
        let (time, sum) = effort.time(|| decode_file_with_crate(black_box(&file)));
        figures.add(what, CRATE, amount, time, sum?)?;
    }

    compressed(effort, count * 10, figures)?;

    let what = "open a hints file";
    let (time, height) =
        effort.time(|| Bip456::open(black_box(&file), None).map(|hints| hints.height()));
    figures.add(what, APUS, Bytes(file.len()), time, u64::from(height?))?;
    let (time, read) = effort.time(|| Hintsfile::from_reader(&mut black_box(&file[..])));
    let height = read.map_err(|error| error.to_string())?.stop_height();
    figures.add(what, CRATE, Bytes(file.len()), time, u64::from(height))
}

/// Measures the compressed format with one thread and with two, on hints with clusters.
fn compressed(effort: Effort, count: u64, figures: &mut Figures) -> Result<()> {
    let blocks = hint_sizes::clustered_blocks(count);
    let indices: u64 = blocks.iter().map(|block| block.len() as u64).sum();
    let elias_fano = encode_file(&blocks)?;
    let hints = Bip456::open(&elias_fano, None)?;
    let (time, file) = effort.time(|| compress(black_box(&hints)));
    let file = file?;
    figures.add("compress hints, one index", APUS, Records(indices), time, digest(&file))?;
    let bytes = Bytes(elias_fano.len());
    for (what, amount) in
        [("expand hints, one index", Records(indices)), ("expand hints, as Elias-Fano", bytes)]
    {
        for (by, threads) in [("Apus", 1), ("Apus, 2 threads", 2)] {
            // Opened again for each run, so that nothing is decoded yet.
            let open = || Compressed::open(&file);
            let (time, sum) = effort.time_with(open, |hints| sum_of_all(&hints?, threads));
            figures.add(what, (Kind::Apus, by), amount, time, sum?)?;
        }
    }
    let (time, height) = effort.time(|| Compressed::open(black_box(&file)).map(|h| h.height()));
    figures.add("open compressed hints", APUS, Bytes(file.len()), time, u64::from(height?))
}

/// Returns the sum of all indices, computed by threads that each read their own part of the blocks.
fn sum_of_all(hints: &dyn Hints, threads: u32) -> Result<u64> {
    let part = &|thread: u32| {
        let mut sum = 0;
        let mut unspent = Vec::new();
        let bound =
            |thread: u32| (u64::from(hints.height()) * u64::from(thread)) / u64::from(threads);
        for height in bound(thread) + 1..=bound(thread + 1) {
            hints.unspent(height as u32, &mut unspent)?;
            sum += sum_of(&unspent);
        }
        Ok::<u64, HintsError>(sum)
    };
    if threads == 1 {
        return Ok(part(0)?);
    }
    let sums: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|i| scope.spawn(move || part(i))).collect();
        all.into_iter().map(|thread| thread.join()).collect()
    });
    sums.into_iter().try_fold(0, |sum, one| Ok(sum + one.map_err(|_| "a thread panicked")??))
}

pub fn encode_file(blocks: &[Vec<u32>]) -> Result<Vec<u8>> {
    let encoder = encoder(Format::Hintsfile02);
    let mut file = Vec::new();
    encoder.put_head(blocks.len() as u32, &mut file);
    for block in blocks {
        encoder.put_block(block, block.last().map_or(0, |last| last + 1), &mut file)?;
    }
    encoder.put_tail(&mut file);
    Ok(file)
}

fn encode_file_with_crate(blocks: &[Vec<u32>]) -> Result<Vec<u8>> {
    let mut file = Vec::new();
    let builder = hintsfile::HintsfileBuilder::new(&mut file);
    let mut builder = builder.initialize(blocks.len() as u32)?;
    for block in blocks {
        builder.append(EliasFano::compress(block))?;
    }
    builder.finish()?;
    Ok(file)
}

/// The length of the head: magic, version, height.
const HEAD_BYTES: usize = 9;

/// Returns the sum of all indices.
fn decode_file(file: &[u8]) -> Result<u64> {
    let mut at = HEAD_BYTES;
    let mut sum = 0;
    let mut unspent = Vec::new();
    while at < file.len() {
        at += decode(&file[at..], BitOrder::Lsb, &mut unspent)?;
        sum += sum_of(&unspent);
    }
    Ok(sum)
}

fn decode_file_with_crate(file: &[u8]) -> Result<u64> {
    let mut rest = &file[HEAD_BYTES..];
    let mut sum = 0;
    while !rest.is_empty() {
        sum += sum_of(&EliasFano::from_reader(&mut rest)?.decompress());
    }
    Ok(sum)
}

fn sum_of(indices: &[u32]) -> u64 {
    indices.iter().map(|index| u64::from(*index)).sum()
}
